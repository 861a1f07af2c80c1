//! Requests that are out for long, such as those of namespaces whose webhook hangs.
//!
//! They hold places in the window until their deadline, and a few namespaces could hold them all. So a request that has been out
//! for long leaves its place to others. If requests that were sent later are answered at once, the API server itself does not
//! hang: then each leaves its place. Otherwise no more do so than the window has places, and beyond that one request goes at a
//! time, which bounds what is out on a server that hangs as a whole. While as many are stuck as the window has places, only
//! namespaces without a stuck request send more.

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
    /// Requests that have been out for long, by when they were sent.
    long: Deadlines<Hashed<ObjectKey>>,
    /// Those that were sent no later than one that was answered before it was out for long. The window may have become smaller
    /// since they were sent, so their number is not compared with it.
    overtaken: HashedSet<ObjectKey>,
    /// When the last of the requests was sent that were answered before they were out for long.
    answered: Option<Duration>,
    /// The number of requests that have been out for long, by namespace.
    by_namespace: IdMap<u64, usize>,
}

impl Stuck {
    /// Records that an object was granted a request.
    pub(super) fn granted(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        self.recent.set(key.clone(), now + LONG);
    }

    /// Records that an object's request has ended, with an answer or without one.
    pub(super) fn ended(&mut self, key: &Hashed<ObjectKey>, answered: bool) {
        if let Some(long_at) = self.recent.remove(key) {
            if answered {
                let sent = long_at.saturating_sub(LONG);
                self.answered = self.answered.max(Some(sent));
                while let Some(key) = self.long.pop_due(sent) {
                    self.overtaken.insert(key);
                }
            }
            return;
        }
        if self.long.remove(key).is_none() && !self.overtaken.remove(key) {
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
        while let Some(long_at) = self.recent.next()
            && let Some(key) = self.recent.pop_due(now)
        {
            *self.by_namespace.entry(hash_of(&*key.namespace)).or_default() += 1;
            let sent = long_at.saturating_sub(LONG);
            if self.answered.is_some_and(|answered| sent <= answered) {
                self.overtaken.insert(key);
            } else {
                self.long.set(key, sent);
            }
        }
    }

    /// Returns how many requests are stuck.
    pub(super) fn count(&self) -> usize {
        self.long.len() + self.overtaken.len()
    }

    /// Returns how many requests leave their places in a window of this size to others.
    pub(super) fn left(&self, window: usize) -> usize {
        self.overtaken.len() + self.long.len().min(window)
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
