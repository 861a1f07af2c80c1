//! A map that is emptied in the order in which its keys came.

use crate::core::compact::index::NumberIndex;
use crate::core::compact::slab::{IntoEntries, Slab};
use crate::core::hash::hash_of;
use std::borrow::Borrow;
use std::hash::Hash;

/// Up to so many keys are compared one by one.
const FEW: usize = 8;

/// Values by key, in the order in which the keys came first, since their processing must not depend on hashes.
#[derive(Clone, Debug)]
pub(super) struct Latest<K, V> {
    /// In the order of arrival, since none is removed by itself.
    entries: Slab<(K, V)>,
    /// Empty while there are no more than [`FEW`].
    by_key: NumberIndex,
}

impl<K, V> Default for Latest<K, V> {
    fn default() -> Self {
        Self {
            entries: Slab::default(),
            by_key: NumberIndex::default(),
        }
    }
}

impl<K: Hash + Eq, V> Latest<K, V> {
    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the value of a key.
    pub(super) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|at| &self.entries[at].1)
    }

    /// Returns the value of a key, to be changed.
    pub(super) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|at| &mut self.entries[at].1)
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        if self.entries.len() <= FEW {
            let found = self.entries.iter().find(|(_, (own, _))| own.borrow() == key);
            return found.map(|(at, _)| at);
        }
        let found = self
            .by_key
            .find(hash_of(key), |at| self.entries[at as usize].0.borrow() == key);
        found.map(|at| at as usize)
    }

    /// Sets the value of a key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        let length = self.entries.len();
        let at = u32::try_from(length).expect("no namespace has 2^32 objects");
        if length <= FEW {
            match self.find(&key) {
                Some(known) => self.entries[known].1 = value,
                None => {
                    self.entries.insert((key, value));
                }
            }
            if self.entries.len() > FEW {
                for at in 0..=at {
                    self.by_key.insert(hash_of(&self.entries[at as usize].0), at);
                }
            }
            return;
        }
        let hash = hash_of(&key);
        let entries = &mut self.entries;
        if let Some(known) = self.by_key.find(hash, |at| entries[at as usize].0 == key) {
            entries[known as usize].1 = value;
            return;
        }
        entries.insert((key, value));
        self.by_key.insert(hash, at);
    }

    /// Returns all keys, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().map(|(_, (key, _))| key)
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns all entries, in order.
    pub(super) fn into_entries(self) -> IntoEntries<(K, V)> {
        self.entries.into_entries()
    }
}

#[cfg(test)]
mod tests {
    use super::Latest;

    #[test]
    fn the_last_value_counts_and_the_first_time() {
        let mut map = Latest::default();
        for (key, value) in [("b", 1), ("a", 2), ("c", 3), ("b", 4)] {
            map.insert(key, value);
        }
        assert_eq!((map.len(), map.get("b"), map.get("d")), (3, Some(&4), None));
        *map.get_mut("a").unwrap() = 5;
        assert_eq!(
            map.into_entries().collect::<Vec<_>>(),
            [("b", 4), ("a", 5), ("c", 3)]
        );
        let mut map: Latest<String, u32> = (0..1000).fold(Latest::default(), |mut map, i| {
            map.insert(i.to_string(), i);
            map
        });
        assert_eq!(map.get("999"), Some(&999));
        for i in 0..1000 {
            map.insert(i.to_string(), i + 1);
        }
        let all: Vec<u32> = map.clone().into_entries().map(|(_, value)| value).collect();
        assert_eq!(all, (1..=1000).collect::<Vec<_>>());
        map.clear();
        assert_eq!((map.len(), map.get("999")), (0, None));
    }
}
