//! A set and a map for mostly few entries: most Services have one slice and some dozens of pods, so the fixed cost of a
//! tree's node or of a hash table's spare places would be the larger part of their memory.

use crate::core::hash::IdMap;
use rustc_hash::FxBuildHasher;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeToInclusive;

/// Up to this many entries are kept in one sorted piece of memory, where finding and moving them costs next to nothing.
const FEW: usize = 64;

/// A sorted set. One value takes no memory of its own.
#[derive(Clone, Debug)]
pub struct SmallSet<T>(Set<T>);

#[derive(Clone, Debug)]
enum Set<T> {
    One(T),
    Few(Vec<T>),
    #[allow(clippy::box_collection)] // The set is then no larger than a list.
    Many(Box<BTreeSet<T>>),
}

impl<T> Default for SmallSet<T> {
    fn default() -> Self {
        Self(Set::Few(Vec::new()))
    }
}

impl<T: Ord + Copy> FromIterator<T> for SmallSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::default();
        for value in values {
            set.insert(value);
        }
        set
    }
}

impl<T: Ord + Copy> SmallSet<T> {
    /// Adds a value. Returns false if it was present already.
    pub fn insert(&mut self, value: T) -> bool {
        match &mut self.0 {
            Set::Many(set) => return set.insert(value),
            Set::Few(values) if values.is_empty() => self.0 = Set::One(value),
            Set::One(one) => match value.cmp(one) {
                Ordering::Less => self.0 = Set::Few(vec![value, *one]),
                Ordering::Equal => return false,
                Ordering::Greater => self.0 = Set::Few(vec![*one, value]),
            },
            Set::Few(values) => {
                let Err(at) = values.binary_search(&value) else {
                    return false;
                };
                if values.len() < FEW {
                    insert_at(values, at, value);
                } else {
                    let mut set: BTreeSet<_> = values.drain(..).collect();
                    set.insert(value);
                    self.0 = Set::Many(Box::new(set));
                }
            }
        }
        true
    }

    /// Returns whether a value is present.
    pub fn contains(&self, value: &T) -> bool {
        let (few, many) = self.parts();
        few.binary_search(value).is_ok() || many.is_some_and(|set| set.contains(value))
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        let (few, many) = self.parts();
        few.len() + many.map_or(0, BTreeSet::len)
    }

    /// Removes a value. Returns false if it was not present.
    pub fn remove(&mut self, value: &T) -> bool {
        match &mut self.0 {
            Set::One(one) => {
                let found = one == value;
                if found {
                    *self = Self::default();
                }
                found
            }
            Set::Few(values) => values.binary_search(value).map(|at| values.remove(at)).is_ok(),
            Set::Many(set) => {
                let found = set.remove(value);
                if set.len() <= FEW / 2 {
                    self.0 = Set::Few(set.iter().copied().collect());
                }
                found
            }
        }
    }

    /// Returns whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all values, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        let (few, many) = self.parts();
        few.iter().chain(many.into_iter().flatten()).copied()
    }

    /// Returns the values up to a bound, in descending order.
    pub fn down_from(&self, bound: RangeToInclusive<T>) -> impl Iterator<Item = T> {
        let (few, many) = self.parts();
        let few = &few[..few.partition_point(|value| *value <= bound.end)];
        let many = many.map(|set| set.range(bound).rev());
        few.iter().rev().chain(many.into_iter().flatten()).copied()
    }

    /// Returns the values after one, or all, in ascending order.
    pub fn after(&self, value: Option<T>) -> impl Iterator<Item = T> {
        let (few, many) = self.parts();
        let few = &few[value.map_or(0, |value| few.partition_point(|other| *other <= value))..];
        let from = value.map_or(Unbounded, Excluded);
        let many = many.map(|set| set.range((from, Unbounded)));
        few.iter().chain(many.into_iter().flatten()).copied()
    }

    /// Returns the values, in order, in whichever of the two they are kept.
    fn parts(&self) -> (&[T], Option<&BTreeSet<T>>) {
        match &self.0 {
            Set::One(value) => (std::slice::from_ref(value), None),
            Set::Few(values) => (values, None),
            Set::Many(set) => (&[], Some(set)),
        }
    }
}

/// An unordered map.
#[derive(Clone, Debug)]
pub(crate) struct SmallMap<K, V>(Map<K, V>);

#[derive(Clone, Debug)]
enum Map<K, V> {
    Few(Vec<(K, V)>),
    Many(IdMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Map::Few(Vec::new()))
    }
}

impl<K: Ord + Hash + Copy, V: Copy> SmallMap<K, V> {
    /// Creates a map with room for this many entries.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(if capacity > FEW {
            Map::Many(IdMap::with_capacity_and_hasher(capacity, FxBuildHasher))
        } else {
            Map::Few(Vec::with_capacity(capacity))
        })
    }

    /// Sets the value of a key. Returns the previous one.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match &mut self.0 {
            Map::Many(map) => map.insert(key, value),
            Map::Few(entries) => match entries.binary_search_by_key(&key, |entry| entry.0) {
                Ok(at) => Some(std::mem::replace(&mut entries[at].1, value)),
                Err(at) if entries.len() < FEW => {
                    insert_at(entries, at, (key, value));
                    None
                }
                Err(_) => {
                    let mut map: IdMap<_, _> = entries.drain(..).collect();
                    map.insert(key, value);
                    self.0 = Map::Many(map);
                    None
                }
            },
        }
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        match &self.0 {
            Map::Few(entries) => {
                let at = entries.binary_search_by_key(key, |entry| entry.0).ok()?;
                Some(entries[at].1)
            }
            Map::Many(map) => map.get(key).copied(),
        }
    }

    /// Removes a key. Returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match &mut self.0 {
            Map::Few(entries) => {
                let at = entries.binary_search_by_key(key, |entry| entry.0).ok()?;
                Some(entries.remove(at).1)
            }
            Map::Many(map) => {
                let value = map.remove(key);
                if map.len() <= FEW / 2 {
                    let mut entries: Vec<_> = map.drain().collect();
                    entries.sort_unstable_by_key(|entry| entry.0);
                    self.0 = Map::Few(entries);
                }
                value
            }
        }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Map::Few(entries) => entries.len(),
            Map::Many(map) => map.len(),
        }
    }
}

/// Inserts a value, growing the list by an eighth instead of doubling it.
fn insert_at<T>(values: &mut Vec<T>, at: usize, value: T) {
    if values.len() == values.capacity() {
        values.reserve_exact(values.len() / 8 + 1);
    }
    values.insert(at, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_set_of_one_value_takes_no_memory_of_its_own() {
        let mut set = SmallSet::default();
        set.insert((1_u32, 2_u32));
        assert!(matches!(set.0, Set::One(_)));
        assert_eq!(size_of_val(&set), size_of::<Vec<u32>>());
        for _ in 0..2 {
            // It is kept there again, whatever it held meanwhile.
            set.insert((3, 4));
            set.remove(&(1, 2));
            set.remove(&(3, 4));
            set.insert((1, 2));
            assert!(matches!(set.0, Set::One(_)));
        }
    }

    proptest! {
        #[test]
        fn they_hold_what_the_usual_ones_hold(
            steps in proptest::collection::vec((0u8..160, proptest::bool::weighted(0.8)), 0..600),
        ) {
            let (mut set, mut plain) = (SmallSet::default(), BTreeSet::new());
            let (mut map, mut model) = (SmallMap::default(), BTreeMap::new());
            for (step, (key, insert)) in steps.into_iter().enumerate() {
                // First it grows, then it shrinks, so that it is large and small again.
                if insert == (step < 300) {
                    prop_assert_eq!(set.insert(key), plain.insert(key));
                    prop_assert_eq!(map.insert(key, step), model.insert(key, step));
                } else {
                    prop_assert_eq!(set.remove(&key), plain.remove(&key));
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(set.is_empty(), plain.is_empty());
                prop_assert!(set.iter().eq(plain.iter().copied()));
                prop_assert!(set.down_from(..=key).eq(plain.range(..=key).rev().copied()));
                prop_assert!(set.after(Some(key)).eq(plain.range(key + 1..).copied()));
                prop_assert!(set.after(None).eq(plain.iter().copied()));
                prop_assert_eq!((set.len(), map.len()), (plain.len(), model.len()));
                prop_assert!((0..160).all(|key| map.get(&key) == model.get(&key).copied()));
            }
        }
    }
}
