//! Compares labels with selectors in single steps: there may be thousands of comparisons, each of thousands of pairs,
//! and other namespaces must not wait for all of them.

use super::{Held, SelectorCache};
use crate::core::compact::index::half;
use crate::core::hash::hash_of;
use crate::core::ids::{FullSetId, SelectorId};
use crate::core::labels::Labels;
use crate::core::work::Work;

/// Up to this many bytes in all selectors of a namespace, labels are compared with the selectors in one go.
const FEW: usize = 128 << 10;
/// Up to this many bytes, labels are stored in the same step in which a pod gives up those that it had before.
const SHORT: usize = 64 << 10;

/// A comparison in progress, of labels that no pod had before or a selector that no Service had before, with everything
/// they may match. The cache must not be used for anything else until it is complete.
#[derive(Clone, Debug)]
pub struct Matching(Side);

#[derive(Clone, Debug)]
enum Side {
    Labels {
        hash: u32,
        pairs: Box<[u32]>,
        candidates: Vec<SelectorId>,
        matched: Vec<SelectorId>,
        /// The full set of the labels, once all comparisons have been made.
        entered: Option<FullSetId>,
    },
    Selector {
        id: SelectorId,
        candidates: Vec<FullSetId>,
        matched: Vec<FullSetId>,
    },
}

impl Matching {
    pub(super) fn of_selector(id: SelectorId, candidates: Vec<FullSetId>) -> Self {
        Self(Side::Selector {
            id,
            candidates,
            matched: Vec::new(),
        })
    }
}

impl SelectorCache {
    /// Starts comparing labels with the selectors that they may match, if no pod has them yet and it may take long.
    /// Once it is complete, the caller attaches a pod to the labels and then calls [`Self::finish`].
    pub(crate) fn begin_labels(&mut self, labels: &Labels, work: &mut Work) -> Option<Matching> {
        if self.selector_bytes <= FEW && labels.as_str().len() <= SHORT {
            return None;
        }
        let hash = half(hash_of(labels));
        let known = self
            .full_by_labels
            .find(hash, |id| self.is(FullSetId(id), labels));
        if known.is_some() {
            return None;
        }
        let pairs = self.acquire(labels, work);
        let candidates = self.candidates(&pairs);
        work.selector_evaluations += candidates.len() as u64;
        Some(Matching(Side::Labels {
            hash,
            pairs,
            candidates,
            matched: Vec::new(),
            entered: None,
        }))
    }

    /// Makes the next comparison. Returns whether all have been made.
    pub(crate) fn step(&mut self, matching: &mut Matching, work: &mut Work) -> bool {
        match &mut matching.0 {
            Side::Labels {
                hash,
                pairs,
                candidates,
                matched,
                entered,
            } => {
                if let Some(id) = candidates.pop() {
                    let held = Held::new(pairs, &self.pairs);
                    if held.accepts(&self.selectors[id.index()].selector, work) {
                        matched.push(id);
                    }
                } else if entered.is_none() {
                    let (pairs, matched) = (std::mem::take(pairs), std::mem::take(matched));
                    *entered = Some(self.insert(pairs, *hash, matched));
                }
                entered.is_some()
            }
            Side::Selector {
                id,
                candidates,
                matched,
            } => {
                if let Some(full) = candidates.pop() {
                    if self.matches(full, *id, work) {
                        matched.push(full);
                    }
                    return false;
                }
                let matched = std::mem::take(matched);
                self.toggle(&matched, *id);
                true
            }
        }
    }

    /// Drops labels that were compared for a pod that does not have them after all.
    pub(crate) fn finish(&mut self, matching: &Matching) {
        if let Side::Labels {
            entered: Some(id), ..
        } = matching.0
        {
            self.drop_unused(id);
        }
    }
}
