//! Comparisons of labels with selectors, one by one: there may be thousands, of thousands of pairs each, and other
//! namespaces are not to wait for all.

use super::{Held, SelectorCache};
use crate::core::hash::hash_of;
use crate::core::ids::{FullSetId, SelectorId};
use crate::core::labels::Labels;
use crate::core::work::Work;

/// As long as the selectors of a namespace have no more pairs than this, labels are compared with them in one go.
const FEW: usize = 20_000;

/// Labels that no pod had before, or a selector that no Service had, while they are being compared with what they may
/// match. Nothing else may be done with the cache until that is over.
#[derive(Clone, Debug)]
pub struct Matching(Side);

#[derive(Clone, Debug)]
enum Side {
    Labels {
        hash: u64,
        /// Sorted by key, and by number.
        pairs: Box<[u32]>,
        sorted: Vec<u32>,
        candidates: Vec<SelectorId>,
        matched: Vec<SelectorId>,
        /// Where the labels are, once all comparisons have been made.
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
    /// Begins to compare labels with the selectors that they may match, if no pod has them and that may take long. A pod
    /// is to be put under them when it is over, and [`Self::finish`] called after that.
    pub(crate) fn begin_labels(&mut self, labels: &Labels, work: &mut Work) -> Option<Matching> {
        if self.selector_pairs <= FEW {
            return None;
        }
        let hash = hash_of(labels);
        let known = self
            .full_by_labels
            .find(hash, |&id| self.is(FullSetId(id), labels));
        if known.is_some() {
            return None;
        }
        let pairs = self.acquire(labels, work);
        let mut sorted = pairs.to_vec();
        sorted.sort_unstable();
        let candidates = pairs.iter().flat_map(|&pair| self.pairs.indexing(pair));
        let candidates: Vec<_> = candidates.collect();
        work.selector_evaluations += candidates.len() as u64;
        Some(Matching(Side::Labels {
            hash,
            pairs,
            sorted,
            candidates,
            matched: Vec::new(),
            entered: None,
        }))
    }

    /// Makes the next comparison. True when all have been made.
    pub(crate) fn step(&mut self, matching: &mut Matching, work: &mut Work) -> bool {
        match &mut matching.0 {
            Side::Labels {
                hash,
                pairs,
                sorted,
                candidates,
                matched,
                entered,
            } => {
                if let Some(id) = candidates.pop() {
                    if Held::sorted(sorted).has_all(&self.selectors[id.index()].pairs, work) {
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
                    if self.has_all(full, &self.selectors[id.index()].pairs, work) {
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

    /// Forgets labels that were compared for a pod which does not have them after all.
    pub(crate) fn finish(&mut self, matching: &Matching) {
        if let Side::Labels {
            entered: Some(id), ..
        } = matching.0
        {
            self.drop_unused(id);
        }
    }
}
