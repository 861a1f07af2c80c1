//! Sorting and numbering in steps: an Endpoints object may have a hundred thousand addresses or ports.

use hashbrown::HashTable;
use std::cmp::Ordering;

/// The number of items that are sorted at once, before sorted runs are merged.
const RUN: usize = 512;

/// A sort in progress.
#[derive(Clone, Debug)]
pub(super) struct Sorting {
    /// Runs of half as many items are sorted.
    width: usize,
    /// The runs before this item have been merged.
    at: usize,
}

impl Default for Sorting {
    fn default() -> Self {
        Self { width: RUN, at: 0 }
    }
}

impl Sorting {
    /// Sorts the next items, or merges the next two runs. Returns the units of work, or `None` if everything is sorted.
    pub(super) fn step(&mut self, items: &mut [u32], compare: impl Fn(u32, u32) -> Ordering) -> Option<u64> {
        if self.at >= items.len() {
            if self.width >= items.len() {
                return None;
            }
            (self.width, self.at) = (2 * self.width, 0);
        }
        let end = items.len().min(self.at + self.width);
        let run = &mut items[self.at..end];
        // The stable sort of the standard library merges two sorted halves in as many comparisons as there are items.
        run.sort_by(|a, b| compare(*a, *b));
        self.at = end;
        // A run takes nine comparisons for each item, and a merge one.
        let units = if self.width == RUN {
            2 * run.len()
        } else {
            run.len() / 4
        };
        Some(1 + units as u64)
    }
}

/// Gives equal things one number, without a copy of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbering(HashTable<(u32, u32)>);

impl Numbering {
    /// Returns the number of a thing with this hash, which is `next` if none before was the same.
    pub(super) fn number(&mut self, hash: u64, next: u32, is_same: impl Fn(u32) -> bool) -> u32 {
        // Half of the hash is kept, so that the table grows without hashing everything again.
        let key = (hash >> 32) as u32;
        let spread = |key: u32| u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = self.0.entry(
            spread(key),
            |&(known, number)| known == key && is_same(number),
            |&(known, _)| spread(known),
        );
        entry.or_insert((key, next)).get().1
    }
}

/// Returns the items in this order, which names each once.
pub(super) fn arranged<T>(items: Vec<T>, order: &[u32]) -> Vec<T> {
    let mut items: Vec<_> = items.into_iter().map(Some).collect();
    let arranged = order.iter().filter_map(|&at| items[at as usize].take());
    arranged.collect()
}

/// Returns for each item of an order its position there.
pub(super) fn positions(order: &[u32]) -> Vec<u32> {
    let mut positions = vec![0; order.len()];
    for (at, &item) in (0..).zip(order) {
        positions[item as usize] = at;
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_in_steps_sorts() {
        let mut random = fastrand::Rng::with_seed(3);
        for length in [0, 1, RUN, RUN + 1, 5 * RUN + 7] {
            let keys: Vec<u32> = (0..length).map(|_| random.u32(..1000)).collect();
            let mut items: Vec<u32> = (0..length as u32).collect();
            let mut sorting = Sorting::default();
            while let Some(units) = sorting.step(&mut items, |a, b| keys[a as usize].cmp(&keys[b as usize])) {
                assert!(units <= 1 + 2 * RUN as u64, "{units}");
            }
            let sorted: Vec<u32> = items.iter().map(|&at| keys[at as usize]).collect();
            assert!(sorted.is_sorted(), "{length}");
            let places = positions(&items);
            assert!((0..).zip(&items).all(|(at, &item)| places[item as usize] == at));
            assert_eq!(arranged(keys, &items), sorted);
        }
    }
}
