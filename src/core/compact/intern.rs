//! Values that many objects share, stored once and reference-counted.

use super::index::NumberIndex;
use super::slab::Slab;
use crate::core::hash::hash_of;
use smallvec::{Array, SmallVec};
use std::collections::VecDeque;
use std::hash::Hash;

/// A table of distinct values with reference counts; values that are no longer used are freed at once.
#[derive(Clone, Debug)]
pub(crate) struct Interner<T> {
    values: Slab<(T, u32)>,
    by_value: NumberIndex,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            values: Slab::default(),
            by_value: NumberIndex::default(),
        }
    }
}

/// The last few values that were new, to be shared by equal ones. It costs a comparison with each, and a value stays until it
/// is replaced, so there are few: objects of one kind come one after the other, and there are few kinds.
#[derive(Clone, Debug)]
pub(crate) struct Recent<T>(VecDeque<T>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Eq + Clone> Recent<T> {
    /// The number of values that are kept.
    pub(crate) const KEPT: usize = 8;

    /// Returns the equal one of the last values. If there is none, this one takes the place of the oldest.
    pub(crate) fn share(&mut self, value: T) -> T {
        if let Some(known) = self.0.iter().find(|known| **known == value) {
            return known.clone();
        }
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back(value.clone());
        value
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// Returns the index of an equal value, adding one use to it. A new value is stored.
    pub(crate) fn acquire(&mut self, value: T) -> u32 {
        let hash = hash_of(&value);
        if let Some(id) = self.reuse(hash, |known| *known == value) {
            return id;
        }
        self.insert(hash, value)
    }

    /// Does what [`Self::acquire`] does, for a value with this hash that `equal` accepts and `make` creates if it is
    /// new.
    pub(crate) fn acquire_as(
        &mut self,
        hash: u64,
        equal: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> u32 {
        if let Some(id) = self.reuse(hash, equal) {
            return id;
        }
        let value = make();
        debug_assert_eq!(hash_of(&value), hash, "a value hashes as it is looked for");
        self.insert(hash, value)
    }

    /// Returns the index of a value with this hash that `equal` accepts, without a use of it.
    pub(crate) fn find_as(&self, hash: u64, equal: impl Fn(&T) -> bool) -> Option<u32> {
        self.by_value.find(hash, |id| equal(&self.values[id as usize].0))
    }

    fn reuse(&mut self, hash: u64, equal: impl Fn(&T) -> bool) -> Option<u32> {
        let id = self.find_as(hash, equal)?;
        self.values[id as usize].1 += 1;
        Some(id)
    }

    fn insert(&mut self, hash: u64, value: T) -> u32 {
        let id = u32::try_from(self.values.insert((value, 1))).expect("no table holds 2^32 values");
        self.by_value.insert(hash, id);
        id
    }

    /// Releases one use. The last one frees the value and its index. Returns whether it was the last.
    pub(crate) fn release(&mut self, id: u32) -> bool {
        let entry = &mut self.values[id as usize];
        entry.1 -= 1;
        if entry.1 > 0 {
            return false;
        }
        let hash = hash_of(&entry.0);
        let known = self.by_value.remove(hash, id);
        assert!(known, "a value in use is in the table");
        self.values.remove(id as usize);
        true
    }

    /// Returns the value at an index that is in use.
    pub(crate) fn get(&self, id: u32) -> &T {
        &self.values[id as usize].0
    }

    /// Returns the number of values stored.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether no value is stored.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Adds an item to a list that has as little spare room as [`grow_to`] leaves.
pub(crate) fn push_tight<A: Array>(list: &mut SmallVec<A>, item: A::Item) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 8 + 1);
    }
    list.push(item);
}

#[cfg(test)]
mod tests {
    use super::Interner;

    #[test]
    fn equal_values_share_and_the_last_release_frees() {
        let mut table = Interner::default();
        let a = table.acquire("a".to_owned());
        let b = table.acquire("b".to_owned());
        assert_eq!(table.acquire("a".to_owned()), a);
        assert_ne!(a, b);
        table.release(a);
        assert_eq!(table.get(a), "a");
        table.release(a);
        assert_eq!(table.len(), 1);
        assert_eq!(table.acquire("c".to_owned()), a, "the index is free again");
        table.release(b);
        table.release(a);
        assert!(table.is_empty());
    }
}
