//! A map that forgets what was not used for the longest time.

use crate::core::hash::KeyedMap;
use std::collections::BTreeMap;
use std::hash::Hash;

/// At most a number of values, by key. Keys are kept twice, so they should be cheap to clone.
#[derive(Debug)]
pub(super) struct Lru<K, V> {
    values: KeyedMap<K, (u64, V)>,
    /// Keys by when they were last used.
    by_use: BTreeMap<u64, K>,
    uses: u64,
    limit: usize,
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            values: KeyedMap::default(),
            by_use: BTreeMap::new(),
            uses: 0,
            limit,
        }
    }

    /// A key's value, made if it is missing; and what had to go for it.
    pub(super) fn use_or_insert(&mut self, key: &K, make: impl FnOnce() -> V) -> (&mut V, Option<(K, V)>) {
        let mut gone = None;
        if let Some((used, _)) = self.values.get(key) {
            self.by_use.remove(used);
        } else if self.values.len() >= self.limit {
            gone = self
                .by_use
                .pop_first()
                .and_then(|(_, oldest)| self.values.remove_entry(&oldest))
                .map(|(key, (_, value))| (key, value));
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        let (used, value) = self.values.entry(key.clone()).or_insert_with(|| (0, make()));
        *used = self.uses;
        (value, gone)
    }

    /// A key's value, without using it.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let mut lru = Lru::new(2);
        assert!(lru.use_or_insert(&"a", || 1).1.is_none());
        assert!(lru.use_or_insert(&"b", || 2).1.is_none());
        let (value, gone) = lru.use_or_insert(&"a", || 9);
        assert_eq!((*value, gone), (1, None));
        assert_eq!(lru.use_or_insert(&"c", || 3).1, Some(("b", 2)));
        assert_eq!(lru.get_mut(&"b"), None);
        // To look at a value is not to use it.
        assert_eq!(lru.get_mut(&"a"), Some(&mut 1));
        assert_eq!(lru.use_or_insert(&"d", || 4).1, Some(("a", 1)));
        assert_eq!((lru.len(), lru.by_use.len()), (2, 2));
    }
}
