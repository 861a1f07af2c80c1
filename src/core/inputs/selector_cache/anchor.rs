//! Chooses what a selector is indexed under, and finds selectors and labels by it.

use super::SelectorCache;
use crate::core::compact::label_pairs::LabelPairs;
use crate::core::compact::small::SmallSet;
use crate::core::ids::{FullSetId, SelectorId};
use crate::core::selector::{Selector, Test};
use crate::core::work::Work;

/// A selector is indexed under the values of a key if there are no more than this, since each takes more than a
/// hundred bytes; else under the key.
const MOST_VALUES: usize = 4;
/// The number of pairs of a selector that are looked at for the one that the fewest labels have.
const SOME_PAIRS: usize = 16;

/// The part of a selector that it is indexed under, so that labels are compared only with the selectors that their
/// pairs lead to. Each pair and key in it is used once.
#[derive(Clone, Debug)]
pub(super) enum Anchor {
    /// A pair that the labels must have.
    Pair(u32),
    /// Pairs of which the labels must have one. They have the same key, so the labels have no two of them.
    OneOf(Box<[u32]>),
    /// A key that the labels must have.
    Key(u32),
    /// None: the selector only excludes labels. It is compared with all labels, once for each distinct set.
    Nothing,
}

impl Anchor {
    /// Releases what was acquired. Returns the number of pairs and keys.
    pub(super) fn release(&self, pairs: &mut LabelPairs) -> u64 {
        match self {
            Self::Pair(pair) => pairs.release(*pair),
            Self::OneOf(ids) => {
                ids.iter().for_each(|&pair| pairs.release(pair));
                return ids.len() as u64;
            }
            Self::Key(key) => pairs.release_key(*key),
            Self::Nothing => return 0,
        }
        1
    }
}

impl SelectorCache {
    /// Chooses and acquires what a selector is indexed under: the pair that leads to the fewest selectors so far (and then
    /// is in the fewest full sets), so that a pair shared by all Services of a namespace does not make each of them a
    /// candidate for every pod; otherwise the values of a key, the fewest if there are several such keys; otherwise a key.
    pub(super) fn anchor(&mut self, selector: &Selector, work: &mut Work) -> Anchor {
        let known = &self.pairs;
        let rank = |(key, value): &(&str, &str)| {
            work.pairs_compared += 1;
            known
                .find(key, value)
                .map_or((0, 0), |pair| (known.indexed(pair), known.held(pair)))
        };
        if let Some((key, value)) = selector.pairs().min_by_key(rank) {
            return Anchor::Pair(self.pairs.acquire(key, value));
        }
        let mut key = None;
        let mut fewest: Option<(usize, &str, _)> = None;
        for requirement in selector.requirements() {
            work.pairs_compared += 1;
            match requirement.test {
                Test::In(values) if values.are_at_most(MOST_VALUES) => {
                    let number = values.iter().count();
                    if fewest.is_none_or(|(least, ..)| number < least) {
                        fewest = Some((number, requirement.key, values));
                    }
                }
                Test::In(_) | Test::Exists | Test::GreaterThan(_) | Test::LessThan(_) => {
                    key = key.or(Some(requirement.key));
                }
                Test::NotIn(_) | Test::DoesNotExist => {}
            }
        }
        match (fewest, key) {
            (Some((_, key, values)), _) => Anchor::OneOf(
                values
                    .iter()
                    .map(|value| self.pairs.acquire(key, value))
                    .collect(),
            ),
            (None, Some(key)) => Anchor::Key(self.pairs.acquire_key(key)),
            (None, None) => Anchor::Nothing,
        }
    }

    /// Indexes a selector under its anchor.
    pub(super) fn index(&mut self, id: SelectorId, anchor: &Anchor) {
        match anchor {
            Anchor::Pair(pair) => self.pairs.index(*pair, id),
            Anchor::OneOf(ids) => ids.iter().for_each(|&pair| self.pairs.index(pair, id)),
            Anchor::Key(key) => {
                self.by_key.entry(*key).or_default().insert(id);
            }
            Anchor::Nothing => {
                self.unanchored.insert(id);
            }
        }
    }

    /// Removes a selector from where it is indexed.
    pub(super) fn unindex(&mut self, id: SelectorId, anchor: &Anchor) {
        match anchor {
            Anchor::Pair(pair) => self.pairs.unindex(*pair, id),
            Anchor::OneOf(ids) => ids.iter().for_each(|&pair| self.pairs.unindex(pair, id)),
            Anchor::Key(key) => {
                if let Some(selectors) = self.by_key.get_mut(key) {
                    selectors.remove(&id);
                    if selectors.is_empty() {
                        self.by_key.remove(key);
                    }
                }
            }
            Anchor::Nothing => {
                self.unanchored.remove(&id);
            }
        }
    }

    /// Returns the selectors that may match labels with these pairs, each once.
    pub(super) fn candidates(&self, held: &[u32]) -> Vec<SelectorId> {
        let mut found: Vec<_> = held.iter().flat_map(|&pair| self.pairs.indexing(pair)).collect();
        if !self.by_key.is_empty() {
            let keys = held
                .iter()
                .filter_map(|&pair| self.by_key.get(&self.pairs.key_of(pair)));
            found.extend(keys.flat_map(SmallSet::iter));
        }
        found.extend(self.unanchored.iter());
        found
    }

    /// Returns the full sets that a selector may match, each once: those that have the rarest of its first pairs, or one
    /// of its values, or all.
    pub(super) fn reach(&self, selector: &Selector, anchor: &Anchor) -> Vec<FullSetId> {
        match anchor {
            Anchor::Pair(anchor) => {
                let mut rarest = *anchor;
                for (key, value) in selector.pairs().take(SOME_PAIRS) {
                    let Some(pair) = self.pairs.find(key, value) else {
                        // No labels have this pair.
                        return Vec::new();
                    };
                    rarest = std::cmp::min_by_key(rarest, pair, |pair| self.pairs.held(*pair));
                }
                self.pairs.holding(rarest).collect()
            }
            Anchor::OneOf(ids) => ids.iter().flat_map(|&pair| self.pairs.holding(pair)).collect(),
            Anchor::Key(_) | Anchor::Nothing => self.full.iter().map(|(id, _)| FullSetId::from(id)).collect(),
        }
    }
}
