//! Times at which things are due.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Times at which things are due, each at one time at most.
#[derive(Clone, Debug)]
pub(crate) struct Deadlines<K> {
    by_key: BTreeMap<K, Duration>,
    by_time: BTreeSet<(Duration, K)>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Ord> Deadlines<K> {
    /// Sets the time at which something is due, in the place of the one before.
    pub(crate) fn set(&mut self, key: K, at: Duration) {
        match self.by_key.insert(key.clone(), at) {
            Some(former) if former == at => return,
            Some(former) => {
                self.by_time.remove(&(former, key.clone()));
            }
            None => {}
        }
        self.by_time.insert((at, key));
    }

    /// Removes something. Returns when it was due.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
    {
        let (key, at) = self.by_key.remove_entry(key)?;
        self.by_time.remove(&(at, key));
        Some(at)
    }

    /// Returns when something is due.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
    {
        self.by_key.get(key).copied()
    }

    /// Returns the first of the times.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the first thing that is due by now.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<K> {
        self.next().filter(|at| *at <= now)?;
        self.pop()
    }

    /// Takes the first thing, whether it is due or not.
    pub(crate) fn pop(&mut self) -> Option<K> {
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// Returns the number of things that are due at some time.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.by_key.clear();
        self.by_time.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_set_again_is_due_at_the_later_call_s_time_alone() {
        let mut deadlines = Deadlines::default();
        deadlines.set("a", at(1));
        deadlines.set("b", at(2));
        deadlines.set("a", at(3));
        assert_eq!((deadlines.next(), deadlines.get("a")), (Some(at(2)), Some(at(3))));
        assert_eq!(deadlines.pop_due(at(1)), None);
        assert_eq!(deadlines.pop_due(at(9)), Some("b"));
        assert_eq!(deadlines.pop_due(at(9)), Some("a"));
        assert_eq!((deadlines.len(), deadlines.next()), (0, None));
    }

    #[test]
    fn what_is_removed_is_not_due() {
        let mut deadlines = Deadlines::default();
        deadlines.set(1, at(1));
        deadlines.set(2, at(1));
        assert_eq!(deadlines.remove(&1), Some(at(1)));
        assert_eq!(deadlines.remove(&1), None);
        assert_eq!(deadlines.pop(), Some(2));
        assert_eq!((deadlines.get(&2), deadlines.pop()), (None, None));
        deadlines.set(3, at(5));
        deadlines.clear();
        assert_eq!((deadlines.len(), deadlines.pop_due(at(9))), (0, None));
    }
}
