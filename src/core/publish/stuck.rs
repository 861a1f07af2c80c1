//! Requests that are out for long, such as those of namespaces whose webhook hangs.
//!
//! They hold places in the window until their deadline, and a few namespaces could hold them all. So a request that has been out
//! for long leaves its place to others. No more requests than the window has places do so, which bounds what is out at a time by
//! twice the window; if as many are stuck, only namespaces without a stuck request send more.

use crate::core::deadlines::Deadlines;
use crate::core::hash::{Hashed, HashedSet, IdMap, hash_of};
use crate::core::object::ObjectKey;
use std::time::Duration;

/// The time after which a request is out for long.
const LONG: Duration = Duration::from_secs(1);

/// The requests that are out, as far as their duration goes. Owned by the publisher.
#[derive(Clone, Default, Debug)]
pub(super) struct Stuck {
    /// Requests, by when they will have been out for long.
    recent: Deadlines<Hashed<ObjectKey>>,
    /// Requests that have been out for long.
    long: HashedSet<ObjectKey>,
    /// The number of these, by namespace.
    by_namespace: IdMap<u64, usize>,
}

impl Stuck {
    /// Records that an object was granted a request.
    pub(super) fn granted(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        self.recent.set(key.clone(), now + LONG);
    }

    /// Records that an object's request has ended.
    pub(super) fn ended(&mut self, key: &Hashed<ObjectKey>) {
        if self.recent.remove(key).is_some() || !self.long.remove(key) {
            return;
        }
        let namespace = hash_of(&*key.namespace);
        if let Some(count) = self.by_namespace.get_mut(&namespace) {
            *count -= 1;
            if *count == 0 {
                self.by_namespace.remove(&namespace);
            }
        }
    }

    /// Finds the requests that have been out for long by now.
    pub(super) fn pass(&mut self, now: Duration) {
        while let Some(key) = self.recent.pop_due(now) {
            *self.by_namespace.entry(hash_of(&*key.namespace)).or_default() += 1;
            self.long.insert(key);
        }
    }

    /// Returns how many requests are stuck.
    pub(super) fn count(&self) -> usize {
        self.long.len()
    }

    /// Returns whether a namespace has a stuck request.
    pub(super) fn has(&self, namespace: u64) -> bool {
        self.by_namespace.contains_key(&namespace)
    }

    /// Returns when the next request will have been out for long.
    pub(super) fn next(&self) -> Option<Duration> {
        self.recent.next()
    }
}
