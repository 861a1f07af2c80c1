//! Indexes of numbered items by their hashes.

use hashbrown::HashTable;
use std::fmt;

/// Maps the hashes of items to their numbers. It keeps half of each hash, so that it grows without reading an item or hashing
/// it again.
#[derive(Clone, Default)]
pub(crate) struct NumberIndex(HashTable<(u32, u32)>);

/// Does the same for items that keep half of their hash themselves, so that it is not stored twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberTable(HashTable<u32>);

/// Returns the half of a hash that is kept.
pub(crate) fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The table takes the position from the lower bits, and seven others from the highest.
fn spread(half: u32) -> u64 {
    (u64::from(half) << 32) | u64::from(half)
}

impl NumberIndex {
    /// Returns the number of a thing with this hash that `is_same` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let half = half(hash);
        let found = self
            .0
            .find(spread(half), |&(known, number)| known == half && is_same(number));
        found.map(|&(_, number)| number)
    }

    /// Adds a number that is not there.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let half = half(hash);
        self.0
            .insert_unique(spread(half), (half, number), |&(known, _)| spread(known));
    }

    /// Removes a number. Returns whether it was there under this hash.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) -> bool {
        let half = half(hash);
        let found = self.0.find_entry(spread(half), |entry| *entry == (half, number));
        found.is_ok_and(|entry| {
            entry.remove();
            true
        })
    }

    /// Returns whether there is no number.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Shows the numbers alone: hashes are under a random key, and mean nothing to a reader.
impl fmt::Debug for NumberIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(_, number)| number))
            .finish()
    }
}

impl NumberTable {
    /// Returns the number of a thing with this half of a hash that `is_same` accepts.
    #[inline]
    pub(crate) fn find(&self, half: u32, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.find(spread(half), |&number| is_same(number)).copied()
    }

    /// Adds a number that is not there. `half_of` returns the half that a thing keeps.
    pub(crate) fn insert(&mut self, half: u32, number: u32, half_of: impl Fn(u32) -> u32) {
        self.0
            .insert_unique(spread(half), number, |&number| spread(half_of(number)));
    }

    /// Removes a number. Returns whether it was there under this half of a hash.
    pub(crate) fn remove(&mut self, half: u32, number: u32) -> bool {
        let found = self.0.find_entry(spread(half), |&other| other == number);
        found.is_ok_and(|entry| {
            entry.remove();
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::NumberIndex;
    use crate::core::hash::hash_of;

    #[test]
    fn numbers_are_found_by_hash_while_the_table_grows_and_shrinks() {
        let mut index = NumberIndex::default();
        for number in 0..5_000 {
            index.insert(hash_of(&number), number);
            // This one has the same hash.
            index.insert(hash_of(&number), number + 10_000);
        }
        for number in 0..5_000 {
            let hash = hash_of(&number);
            assert_eq!(index.find(hash, |found| found == number), Some(number));
            assert_eq!(index.find(hash, |found| found > number), Some(number + 10_000));
            assert!(index.remove(hash, number) && !index.remove(hash, number));
            assert_eq!(index.find(hash, |found| found == number), None);
            assert!(index.remove(hash, number + 10_000));
        }
        assert!(index.is_empty());
    }
}
