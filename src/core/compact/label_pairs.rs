//! The label pairs of a namespace's pods and selectors, stored once and counted, and the holders of each.

use super::index::NumberIndex;
use super::intern::Interner;
use super::slab::Slab;
use super::small::SmallSet;
use crate::core::hash::hash_of;
use crate::core::ids::{FullSetId, SelectorId};

/// Pairs by number. A key is stored once and not with each of its values, since values that are unique to a pod are the
/// larger part of all pairs, and their keys are longer than they are.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct LabelPairs {
    keys: Interner<Box<str>>,
    pairs: Slab<Pair>,
    by_pair: NumberIndex,
    holders: Slab<Holders>,
}

#[derive(Clone, Debug)]
struct Pair {
    key: u32,
    value: Box<str>,
    uses: u32,
    held: Held,
    /// The selector that is indexed under it, unless that is none or [`Held`] refers to all holders.
    selector: SelectorId,
}

/// The full sets that have a pair, in 4 bytes: most pairs are in one, and at most one selector is indexed under them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held(u32);

impl Held {
    const BY_NONE: Self = Self(u32::MAX);
    const MANY: u32 = 1 << 31;

    fn by_one(id: FullSetId) -> Self {
        debug_assert!(id.0 < Self::MANY, "no namespace has 2^31 pods");
        Self(id.0)
    }

    fn by_many(at: usize) -> Self {
        Self(at as u32 | Self::MANY)
    }

    fn one(self) -> Option<FullSetId> {
        (self.0 & Self::MANY == 0).then_some(FullSetId(self.0))
    }

    fn many(self) -> Option<usize> {
        (self.0 & Self::MANY != 0 && self != Self::BY_NONE).then_some((self.0 & !Self::MANY) as usize)
    }
}

/// The holders of a pair, if they are several full sets or several selectors.
#[derive(Clone, Debug, Default)]
struct Holders {
    full: SmallSet<FullSetId>,
    /// The number of full sets.
    count: u32,
    /// The selectors that are indexed under it.
    selectors: SmallSet<SelectorId>,
    /// The number of selectors.
    indexed: u32,
}

impl LabelPairs {
    /// Returns the number of a key, adding one use to it.
    pub(in crate::core) fn acquire_key(&mut self, key: &str) -> u32 {
        self.keys
            .acquire_as(hash_of(key), |known| **known == *key, || key.into())
    }

    /// Releases one use of a key. The last one frees it.
    pub(in crate::core) fn release_key(&mut self, key: u32) {
        self.keys.release(key);
    }

    /// Returns the number of a pair, adding one use to it.
    pub(in crate::core) fn acquire(&mut self, key: &str, value: &str) -> u32 {
        let key = self.acquire_key(key);
        let hash = hash_of(&(key, value));
        if let Some(id) = self.find_of(key, value, hash) {
            self.pairs[id as usize].uses += 1;
            // A pair holds its key once, no matter how often it is used itself.
            self.keys.release(key);
            return id;
        }
        let pair = Pair {
            key,
            value: value.into(),
            uses: 1,
            held: Held::BY_NONE,
            selector: SelectorId::NONE,
        };
        let id = u32::try_from(self.pairs.insert(pair)).expect("no table holds 2^32 values");
        self.by_pair.insert(hash, id);
        id
    }

    /// Returns the number of a pair, if it is in use.
    pub(in crate::core) fn find(&self, key: &str, value: &str) -> Option<u32> {
        let key = self.keys.find_as(hash_of(key), |known| **known == *key)?;
        self.find_of(key, value, hash_of(&(key, value)))
    }

    fn find_of(&self, key: u32, value: &str, hash: u64) -> Option<u32> {
        self.by_pair.find(hash, |id| {
            let pair = &self.pairs[id as usize];
            pair.key == key && *pair.value == *value
        })
    }

    /// Releases one use. The last one frees the pair.
    pub(in crate::core) fn release(&mut self, id: u32) {
        let pair = &mut self.pairs[id as usize];
        pair.uses -= 1;
        if pair.uses > 0 {
            return;
        }
        debug_assert_eq!(pair.held, Held::BY_NONE, "who has a pair uses it");
        let (key, hash) = (pair.key, hash_of(&(pair.key, &*pair.value)));
        let known = self.by_pair.remove(hash, id);
        assert!(known, "a pair in use is in the table");
        self.pairs.remove(id as usize);
        self.keys.release(key);
    }

    /// Returns a pair that is in use.
    pub(in crate::core) fn get(&self, id: u32) -> (&str, &str) {
        let pair = &self.pairs[id as usize];
        (self.keys.get(pair.key), &pair.value)
    }

    /// Returns the number of the key of a pair that is in use.
    pub(in crate::core) fn key_of(&self, id: u32) -> u32 {
        self.pairs[id as usize].key
    }

    /// Adds a full set that has a pair.
    pub(in crate::core) fn hold(&mut self, id: u32, full: FullSetId) {
        if self.pairs[id as usize].held == Held::BY_NONE {
            self.pairs[id as usize].held = Held::by_one(full);
            return;
        }
        let holders = self.holders_mut(id);
        holders.count += u32::from(holders.full.insert(full));
    }

    /// Removes a full set that is about to be dropped.
    pub(in crate::core) fn let_go(&mut self, id: u32, full: FullSetId) {
        if self.pairs[id as usize].held.one().is_some() {
            self.pairs[id as usize].held = Held::BY_NONE;
            return;
        }
        let holders = self.holders_mut(id);
        holders.count -= u32::from(holders.full.remove(&full));
        self.shrink(id);
    }

    /// Returns the number of full sets that have a pair.
    pub(in crate::core) fn held(&self, id: u32) -> usize {
        let held = self.pairs[id as usize].held;
        match held.many() {
            Some(at) => self.holders[at].count as usize,
            None => usize::from(held.one().is_some()),
        }
    }

    /// Returns the full sets that have a pair, in order.
    pub(in crate::core) fn holding(&self, id: u32) -> impl Iterator<Item = FullSetId> {
        let held = self.pairs[id as usize].held;
        let many = held.many().map(|at| self.holders[at].full.iter());
        held.one().into_iter().chain(many.into_iter().flatten())
    }

    /// Indexes a selector under a pair.
    pub(in crate::core) fn index(&mut self, id: u32, selector: SelectorId) {
        let pair = &mut self.pairs[id as usize];
        if pair.selector.is_none() && pair.held.many().is_none() {
            pair.selector = selector;
            return;
        }
        let holders = self.holders_mut(id);
        holders.indexed += u32::from(holders.selectors.insert(selector));
    }

    /// Removes a selector that is about to be dropped.
    pub(in crate::core) fn unindex(&mut self, id: u32, selector: SelectorId) {
        let pair = &mut self.pairs[id as usize];
        if pair.selector == selector {
            pair.selector = SelectorId::NONE;
            return;
        }
        let holders = self.holders_mut(id);
        holders.indexed -= u32::from(holders.selectors.remove(&selector));
        self.shrink(id);
    }

    /// Returns the number of selectors indexed under a pair.
    pub(in crate::core) fn indexed(&self, id: u32) -> usize {
        let pair = &self.pairs[id as usize];
        match pair.held.many() {
            Some(at) => self.holders[at].indexed as usize,
            None => usize::from(!pair.selector.is_none()),
        }
    }

    /// Returns the selectors indexed under a pair, in order.
    pub(in crate::core) fn indexing(&self, id: u32) -> impl Iterator<Item = SelectorId> {
        let pair = &self.pairs[id as usize];
        let many = pair.held.many().map(|at| self.holders[at].selectors.iter());
        let one = (!pair.selector.is_none()).then_some(pair.selector);
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// Returns all holders of a pair, which are kept apart from it from now on.
    fn holders_mut(&mut self, id: u32) -> &mut Holders {
        let pair = &mut self.pairs[id as usize];
        let at = pair.held.many().unwrap_or_else(|| {
            let mut holders = Holders::default();
            if let Some(full) = pair.held.one() {
                holders.full.insert(full);
                holders.count = 1;
            }
            if !pair.selector.is_none() {
                holders.selectors.insert(pair.selector);
                holders.indexed = 1;
            }
            let at = self.holders.insert(holders);
            (pair.held, pair.selector) = (Held::by_many(at), SelectorId::NONE);
            at
        });
        &mut self.holders[at]
    }

    /// Frees the holders once there are at most one full set and one selector, whose numbers are enough.
    fn shrink(&mut self, id: u32) {
        let pair = &mut self.pairs[id as usize];
        let Some(at) = pair.held.many() else { return };
        let holders = &self.holders[at];
        if holders.indexed <= 1 && holders.count <= 1 {
            pair.held = holders.full.iter().next().map_or(Held::BY_NONE, Held::by_one);
            pair.selector = holders.selectors.iter().next().unwrap_or(SelectorId::NONE);
            self.holders.remove(at);
        }
    }

    #[cfg(test)]
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.pairs.is_empty() && self.by_pair.is_empty() && self.holders.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_share_their_keys_and_free_them() {
        let mut table = LabelPairs::default();
        let a = table.acquire("app", "a");
        let b = table.acquire("app", "b");
        assert_eq!(table.acquire("app", "a"), a);
        assert_eq!((table.get(a), table.get(b)), (("app", "a"), ("app", "b")));
        assert_eq!((table.keys.len(), table.pairs.len()), (1, 2));
        table.release(a);
        table.release(b);
        assert_eq!(table.get(a), ("app", "a"));
        table.release(a);
        assert!(table.is_empty());
    }

    #[test]
    fn who_has_a_pair_is_known_and_takes_no_room_where_it_is_one() {
        let mut table = LabelPairs::default();
        let pair = table.acquire("app", "a");
        let held = |table: &LabelPairs| {
            let ids: Vec<_> = table.holding(pair).map(|id| id.0).collect();
            assert_eq!(table.held(pair), ids.len());
            (ids, table.holders.len())
        };
        assert_eq!(held(&table), (vec![], 0));
        table.hold(pair, FullSetId(7));
        assert_eq!(held(&table), (vec![7], 0));
        table.index(pair, SelectorId(1));
        assert_eq!(held(&table), (vec![7], 0));
        let indexing = |table: &LabelPairs| {
            let ids: Vec<_> = table.indexing(pair).map(|id| id.0).collect();
            assert_eq!(table.indexed(pair), ids.len());
            ids
        };
        table.hold(pair, FullSetId(3));
        assert_eq!((held(&table), indexing(&table)), ((vec![3, 7], 1), vec![1]));
        table.index(pair, SelectorId(0));
        assert_eq!(indexing(&table), [0, 1]);
        table.let_go(pair, FullSetId(7));
        assert_eq!((held(&table), indexing(&table)), ((vec![3], 1), vec![0, 1]));
        table.unindex(pair, SelectorId(1));
        assert_eq!((held(&table), indexing(&table)), ((vec![3], 0), vec![0]));
        table.let_go(pair, FullSetId(3));
        assert_eq!((held(&table), indexing(&table)), ((vec![], 0), vec![0]));
        table.unindex(pair, SelectorId(0));
        table.index(pair, SelectorId(4));
        table.index(pair, SelectorId(5));
        assert_eq!((held(&table), indexing(&table)), ((vec![], 1), vec![4, 5]));
        table.unindex(pair, SelectorId(5));
        assert_eq!((held(&table), indexing(&table)), ((vec![], 0), vec![4]));
        table.unindex(pair, SelectorId(4));
        table.release(pair);
        assert!(table.is_empty());
    }
}
