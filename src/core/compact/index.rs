//! Indexes of numbered items by their hashes.

use hashbrown::HashTable;
use std::fmt;

/// Parts of a large table. Each grows by itself, so that no insertion moves more than a few thousand of a million entries.
const PARTS: usize = 64;
/// Entries of a table that is not divided yet: as many as fill 8192 places.
const UNDIVIDED: usize = 7168;

/// Maps the hashes of items to their numbers. It keeps half of each hash, so that it grows without reading an item or hashing
/// it again.
#[derive(Clone, Default)]
pub(crate) struct NumberIndex(Divided<(u32, u32)>);

/// Does the same for items that keep half of their hash themselves, so that it is not stored twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberTable(Divided<u32>);

/// A table that is divided by a part of the hash once it is large.
#[derive(Clone, Debug)]
enum Divided<T> {
    Whole(HashTable<T>),
    Parts(Box<[HashTable<T>; PARTS]>),
}

impl<T> Default for Divided<T> {
    fn default() -> Self {
        Self::Whole(HashTable::new())
    }
}

impl<T> Divided<T> {
    /// Returns the table of the items with this half of a hash.
    #[inline]
    fn of(&self, half: u32) -> &HashTable<T> {
        match self {
            Self::Whole(table) => table,
            Self::Parts(parts) => &parts[part(half)],
        }
    }

    #[inline]
    fn of_mut(&mut self, half: u32) -> &mut HashTable<T> {
        match self {
            Self::Whole(table) => table,
            Self::Parts(parts) => &mut parts[part(half)],
        }
    }

    /// Adds an entry that is not there.
    #[inline]
    fn insert(&mut self, half: u32, entry: T, half_of: impl Fn(&T) -> u32) {
        if let Self::Whole(table) = self
            && table.len() == UNDIVIDED
        {
            *self = Self::divide(std::mem::take(table), &half_of);
        }
        self.of_mut(half)
            .insert_unique(spread(half), entry, |entry| spread(half_of(entry)));
    }

    #[cold]
    fn divide(table: HashTable<T>, half_of: &impl Fn(&T) -> u32) -> Self {
        // Few parts get more than this, which fits into 128 places; those grow.
        let mut parts = Box::new([(); PARTS].map(|()| HashTable::with_capacity(UNDIVIDED / PARTS)));
        for entry in table {
            let half = half_of(&entry);
            parts[part(half)].insert_unique(spread(half), entry, |entry| spread(half_of(entry)));
        }
        Self::Parts(parts)
    }

    /// Removes the entry with this half of a hash that `is_same` accepts. Returns whether it was there.
    fn remove(&mut self, half: u32, is_same: impl Fn(&T) -> bool) -> bool {
        let found = self.of_mut(half).find_entry(spread(half), is_same);
        found.is_ok_and(|entry| {
            entry.remove();
            true
        })
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        let parts = match self {
            Self::Whole(table) => std::slice::from_ref(table),
            Self::Parts(parts) => &parts[..],
        };
        parts.iter().flatten()
    }
}

/// Returns the half of a hash that is kept.
pub(crate) fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A table takes the position from the lower bits, and seven others from the highest.
fn spread(half: u32) -> u64 {
    (u64::from(half) << 32) | u64::from(half)
}

/// Returns the number of the part, from bits that a part does not use while it has less than 2^18 places.
fn part(half: u32) -> usize {
    (half >> 18) as usize % PARTS
}

impl NumberIndex {
    /// Returns the number of a thing with this hash that `is_same` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let half = half(hash);
        let is_same = |&(known, number): &(u32, u32)| known == half && is_same(number);
        let found = self.0.of(half).find(spread(half), is_same);
        found.map(|&(_, number)| number)
    }

    /// Adds a number that is not there.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let half = half(hash);
        self.0.insert(half, (half, number), |&(known, _)| known);
    }

    /// Removes a number. Returns whether it was there under this hash.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) -> bool {
        let half = half(hash);
        self.0.remove(half, |entry| *entry == (half, number))
    }

    /// Returns whether there is no number.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
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
        let found = self.0.of(half).find(spread(half), |&number| is_same(number));
        found.copied()
    }

    /// Adds a number that is not there. `half_of` returns the half that a thing keeps.
    pub(crate) fn insert(&mut self, half: u32, number: u32, half_of: impl Fn(u32) -> u32) {
        self.0.insert(half, number, |&number| half_of(number));
    }

    /// Removes a number. Returns whether it was there under this half of a hash.
    pub(crate) fn remove(&mut self, half: u32, number: u32) -> bool {
        self.0.remove(half, |&other| other == number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Divided, NumberIndex, NumberTable, UNDIVIDED};
    use crate::core::hash::hash_of;
    use hashbrown::HashTable;
    use std::cell::Cell;

    #[test]
    fn numbers_are_found_by_hash_while_the_table_grows_and_shrinks() {
        const COUNT: u32 = 10_000;
        let mut index = NumberIndex::default();
        for number in 0..COUNT {
            index.insert(hash_of(&number), number);
            // This one has the same hash.
            index.insert(hash_of(&number), number + COUNT);
        }
        for number in 0..COUNT {
            let hash = hash_of(&number);
            assert_eq!(index.find(hash, |found| found == number), Some(number));
            assert_eq!(index.find(hash, |found| found > number), Some(number + COUNT));
            assert!(index.remove(hash, number) && !index.remove(hash, number));
            assert_eq!(index.find(hash, |found| found == number), None);
            assert!(index.remove(hash, number + COUNT));
        }
        assert!(index.is_empty());
    }

    #[test]
    fn a_large_table_grows_in_parts_of_about_the_same_size() {
        let mut random = fastrand::Rng::with_seed(7);
        let halves: Vec<u32> = (0..60_000).map(|_| random.u32(..)).collect();
        let mut table = NumberTable::default();
        for (number, half) in (0..).zip(&halves) {
            let moved = Cell::new(0);
            table.insert(*half, number, |number| {
                moved.set(moved.get() + 1);
                halves[number as usize]
            });
            // When it is divided, each is asked for its hash, and again where its part grows at once.
            let most = if number as usize == UNDIVIDED {
                2 * UNDIVIDED
            } else {
                UNDIVIDED / 2
            };
            assert!(moved.get() <= most, "{} of {number} are moved", moved.get());
        }
        let Divided::Parts(parts) = &table.0 else {
            panic!("it is large");
        };
        let sizes = parts.iter().map(HashTable::len);
        let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
        assert!(least > 800 && most < 1100, "{least} to {most}");
    }
}
