//! A map, shared out by namespace, that forgets the least recently used values.

use crate::core::hash::KeyedMap;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

/// A limited number of values, by namespace and key. The value that is forgotten is the oldest of the namespace that
/// has the most: so a namespace that needs more than there is room for pushes out its own values, not those of others.
/// Keys are kept twice, so they should be cheap to clone.
#[derive(Debug)]
pub(super) struct SharedLru<K, V> {
    namespaces: BTreeMap<Arc<str>, Lru<K, V>>,
    /// The number of values of each namespace.
    sizes: BTreeSet<(usize, Arc<str>)>,
    len: usize,
    limit: usize,
}

impl<K: Clone + Eq + Hash, V> SharedLru<K, V> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            namespaces: BTreeMap::new(),
            sizes: BTreeSet::new(),
            len: 0,
            limit,
        }
    }

    /// Returns a key's value, made if it is missing, and the entry that was forgotten to make room for it.
    pub(super) fn use_or_insert(
        &mut self,
        namespace: &Arc<str>,
        key: &K,
        make: impl FnOnce() -> V,
    ) -> (&mut V, Option<(K, V)>) {
        let known = self
            .namespaces
            .get(namespace)
            .is_some_and(|lru| lru.values.contains_key(key));
        let mut gone = None;
        if !known {
            if self.len >= self.limit {
                gone = self.forget();
            }
            let size = self.namespaces.get(namespace).map_or(0, |lru| lru.values.len());
            if size > 0 {
                self.sizes.remove(&(size, namespace.clone()));
            }
            self.sizes.insert((size + 1, namespace.clone()));
            self.len += 1;
        }
        let lru = self.namespaces.entry(namespace.clone()).or_default();
        (lru.use_or_insert(key, make), gone)
    }

    /// Returns whether another key of a namespace would push out one of its own.
    pub(super) fn is_full_of(&self, namespace: &str) -> bool {
        let largest = self.sizes.last();
        self.len >= self.limit && largest.is_some_and(|(_, largest)| **largest == *namespace)
    }

    /// Returns a key's value, without counting as a use.
    pub(super) fn get_mut(&mut self, namespace: &Arc<str>, key: &K) -> Option<&mut V> {
        let lru = self.namespaces.get_mut(namespace)?;
        lru.values.get_mut(key).map(|(_, value)| value)
    }

    /// Forgets the oldest value of the namespace that has the most.
    fn forget(&mut self) -> Option<(K, V)> {
        let (size, namespace) = self.sizes.pop_last()?;
        let lru = self.namespaces.get_mut(&namespace)?;
        let gone = lru.pop_oldest();
        self.len -= 1;
        if size > 1 {
            self.sizes.insert((size - 1, namespace));
        } else {
            self.namespaces.remove(&namespace);
        }
        gone
    }

    /// Returns all values, in no order.
    pub(super) fn into_values(self) -> impl Iterator<Item = V> {
        let namespaces = self.namespaces.into_values();
        namespaces.flat_map(|lru| lru.values.into_values().map(|(_, value)| value))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// One namespace's values.
#[derive(Debug)]
struct Lru<K, V> {
    values: KeyedMap<K, (u64, V)>,
    /// Keys, by when they were last used.
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K, V> Default for Lru<K, V> {
    fn default() -> Self {
        Self {
            values: KeyedMap::default(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    fn use_or_insert(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        if let Some((used, _)) = self.values.get(key) {
            self.by_use.remove(used);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        let (used, value) = self.values.entry(key.clone()).or_insert_with(|| (0, make()));
        *used = self.uses;
        value
    }

    fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, oldest) = self.by_use.pop_first()?;
        let (key, (_, value)) = self.values.remove_entry(&oldest)?;
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::SharedLru;

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let namespace = "n".into();
        let mut lru = SharedLru::new(2);
        assert!(lru.use_or_insert(&namespace, &"a", || 1).1.is_none());
        assert!(lru.use_or_insert(&namespace, &"b", || 2).1.is_none());
        let (value, gone) = lru.use_or_insert(&namespace, &"a", || 9);
        assert_eq!((*value, gone), (1, None));
        assert_eq!(lru.use_or_insert(&namespace, &"c", || 3).1, Some(("b", 2)));
        assert_eq!(lru.get_mut(&namespace, &"b"), None);
        // To look at a value is not to use it.
        assert_eq!(lru.get_mut(&namespace, &"a"), Some(&mut 1));
        assert_eq!(lru.use_or_insert(&namespace, &"d", || 4).1, Some(("a", 1)));
        assert_eq!((lru.len(), lru.namespaces[&namespace].by_use.len()), (2, 2));
    }

    #[test]
    fn a_namespace_pushes_out_its_own() {
        let (loud, quiet) = ("loud".into(), "quiet".into());
        let mut lru = SharedLru::new(4);
        lru.use_or_insert(&quiet, &0, || 'q');
        for key in 0..100 {
            let (_, gone) = lru.use_or_insert(&loud, &key, || 'l');
            assert_eq!(gone.map(|(key, _)| key), (key >= 3).then(|| key - 3));
        }
        assert_eq!(lru.get_mut(&quiet, &0), Some(&mut 'q'));
        // Other namespaces get their share from those that have more.
        assert_eq!(lru.use_or_insert(&quiet, &1, || 'q').1, Some((97, 'l')));
        assert_eq!((lru.len(), lru.sizes.len()), (4, 2));
        // The last value of a namespace may go too.
        let mut lru = SharedLru::new(1);
        lru.use_or_insert(&quiet, &0, || 'q');
        assert_eq!(lru.use_or_insert(&loud, &0, || 'l').1, Some((0, 'q')));
        assert_eq!((lru.namespaces.len(), lru.sizes.len()), (1, 1));
    }
}
