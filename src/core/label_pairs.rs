//! The label pairs of a namespace's pods, kept once and counted.

use super::hash::hash_of;
use super::intern::Interner;

/// Pairs by number. A key is kept once, not with each of its values: those that are unique to a pod are the larger
/// part of all pairs, and their keys are longer than they are.
#[derive(Debug, Default)]
pub(super) struct LabelPairs {
    keys: Interner<Box<str>>,
    pairs: Interner<Pair>,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Pair {
    key: u32,
    value: Box<str>,
}

impl LabelPairs {
    /// The number of a pair, one more time in use.
    pub(super) fn acquire(&mut self, key: &str, value: &str) -> u32 {
        let key = self
            .keys
            .acquire_as(hash_of(key), |known| **known == *key, || key.into());
        let mut is_new = false;
        let id = self.pairs.acquire_as(
            hash_of(&(key, value)),
            |known| known.key == key && *known.value == *value,
            || {
                is_new = true;
                Pair {
                    key,
                    value: value.into(),
                }
            },
        );
        if !is_new {
            // A pair holds its key once, however often it is used itself.
            self.keys.release(key);
        }
        id
    }

    /// One use less; the last one frees the pair.
    pub(super) fn release(&mut self, id: u32) {
        let key = self.pairs.get(id).key;
        if self.pairs.release(id) {
            self.keys.release(key);
        }
    }

    /// A pair in use.
    pub(super) fn get(&self, id: u32) -> (&str, &str) {
        let pair = self.pairs.get(id);
        (self.keys.get(pair.key), &pair.value)
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
        assert!(table.keys.is_empty() && table.pairs.is_empty());
    }
}
