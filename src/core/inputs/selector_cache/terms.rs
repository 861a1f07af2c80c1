//! What a selector requires besides having pairs, in numbers, so that a comparison does not read text.

use super::{Held, SelectorCache};
use crate::core::compact::label_pairs::LabelPairs;
use crate::core::compact::small::SmallSet;
use crate::core::ids::{FullSetId, SelectorId};
use crate::core::selector::{Requirement, Test, integer};
use crate::core::work::Work;

/// A requirement. Pairs are sorted by number; each use of a pair or a key is counted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Term {
    /// One of these pairs, which have the same key.
    AnyOf(Box<[u32]>),
    /// None of these pairs.
    NoneOf(Box<[u32]>),
    /// This key.
    Key(u32),
    /// Not this key.
    NoKey(u32),
    /// This key, with an integer above this one.
    Above(u32, i64),
    /// This key, with an integer below this one.
    Below(u32, i64),
}

/// What a selector is indexed under, so that labels are compared only with the selectors that their pairs lead to.
#[derive(Clone, Debug)]
pub(super) enum Anchor {
    /// A pair that the labels must have.
    Pair(u32),
    /// Pairs of which the labels must have one. They have the same key, so the labels have no two of them.
    OneOf(Box<[u32]>),
    /// A key that the labels must have.
    Key(u32),
    /// Nothing: it requires only what labels must not have. It is compared with all labels, once for each distinct set.
    Nothing,
}

impl Term {
    /// Acquires the pairs or the key of a requirement.
    pub(super) fn acquire(requirement: &Requirement, pairs: &mut LabelPairs) -> Self {
        let key = &*requirement.key;
        let all = |values: &[Box<str>], pairs: &mut LabelPairs| -> Box<[u32]> {
            let mut ids: Vec<u32> = values.iter().map(|value| pairs.acquire(key, value)).collect();
            ids.sort_unstable();
            ids.into()
        };
        match &requirement.test {
            Test::In(values) => Self::AnyOf(all(values, pairs)),
            Test::NotIn(values) => Self::NoneOf(all(values, pairs)),
            Test::Exists => Self::Key(pairs.acquire_key(key)),
            Test::DoesNotExist => Self::NoKey(pairs.acquire_key(key)),
            Test::GreaterThan(bound) => Self::Above(pairs.acquire_key(key), *bound),
            Test::LessThan(bound) => Self::Below(pairs.acquire_key(key), *bound),
        }
    }

    /// Releases what was acquired.
    pub(super) fn release(&self, pairs: &mut LabelPairs) {
        match self {
            Self::AnyOf(ids) | Self::NoneOf(ids) => ids.iter().for_each(|&id| pairs.release(id)),
            Self::Key(key) | Self::NoKey(key) | Self::Above(key, _) | Self::Below(key, _) => {
                pairs.release_key(*key);
            }
        }
    }

    /// Returns the number of pairs and keys in it.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::AnyOf(ids) | Self::NoneOf(ids) => ids.len(),
            Self::Key(_) | Self::NoKey(_) | Self::Above(..) | Self::Below(..) => 1,
        }
    }

    /// Returns whether a full set with these pairs meets it.
    pub(super) fn accepts(&self, held: &Held<'_>, pairs: &LabelPairs, work: &mut Work) -> bool {
        let mut of_key = |key: u32| held.of_key(key, pairs, work);
        // The pairs of a term have one key.
        let mut has_any = |ids: &[u32]| {
            let pair = ids.first().and_then(|&id| of_key(pairs.key_of(id)));
            pair.is_some_and(|pair| ids.binary_search(&pair).is_ok())
        };
        match *self {
            Self::AnyOf(ref ids) => has_any(ids),
            Self::NoneOf(ref ids) => !has_any(ids),
            Self::Key(key) => of_key(key).is_some(),
            Self::NoKey(key) => of_key(key).is_none(),
            Self::Above(key, bound) => number(of_key(key), pairs).is_some_and(|value| value > bound),
            Self::Below(key, bound) => number(of_key(key), pairs).is_some_and(|value| value < bound),
        }
    }
}

/// Returns the number that the value of a pair is.
fn number(pair: Option<u32>, pairs: &LabelPairs) -> Option<i64> {
    integer(pairs.get(pair?).1)
}

impl SelectorCache {
    /// Chooses what a selector is indexed under: the pair that leads to the fewest selectors so far (and then is in the
    /// fewest full sets), so that a pair shared by all Services of a namespace does not make each of them a candidate
    /// for every pod; otherwise the values of a key, the fewest if there are several such keys; otherwise a key.
    pub(super) fn anchor(&self, pairs: &[u32], terms: &[Term]) -> Anchor {
        let rank = |pair: &u32| (self.pairs.indexed(*pair), self.pairs.held(*pair));
        if let Some(&pair) = pairs.iter().min_by_key(|pair| rank(pair)) {
            return Anchor::Pair(pair);
        }
        let values = terms.iter().filter_map(|term| match term {
            Term::AnyOf(ids) => Some(ids),
            _ => None,
        });
        if let Some(ids) = values.min_by_key(|ids| ids.len()) {
            return Anchor::OneOf(ids.clone());
        }
        let key = terms.iter().find_map(|term| match term {
            Term::Key(key) | Term::Above(key, _) | Term::Below(key, _) => Some(*key),
            _ => None,
        });
        key.map_or(Anchor::Nothing, Anchor::Key)
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

    /// Returns the full sets that a selector may match, each once: those that have its rarest pair, or one of its
    /// values, or all.
    pub(super) fn reach(&self, pairs: &[u32], anchor: &Anchor) -> Vec<FullSetId> {
        match anchor {
            Anchor::Pair(_) => {
                let rarest = pairs.iter().min_by_key(|&&pair| self.pairs.held(pair));
                let rarest = rarest.expect("it is indexed under one of its pairs");
                self.pairs.holding(*rarest).collect()
            }
            Anchor::OneOf(ids) => ids.iter().flat_map(|&pair| self.pairs.holding(pair)).collect(),
            Anchor::Key(_) | Anchor::Nothing => self.full.iter().map(|(id, _)| FullSetId::from(id)).collect(),
        }
    }
}
