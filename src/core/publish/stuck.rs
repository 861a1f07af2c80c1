//! Requests that are out for long, such as those of namespaces whose webhook hangs, and the namespaces whose writes are answered
//! promptly.
//!
//! Requests that hang hold places in the window until their deadline, and a few namespaces could hold them all. So a request that
//! has been out for long leaves its place to others. If writes that were sent later are carried out at once, the API server
//! itself does not hang: then up to [`MOST`] leave their places. Otherwise no more do so than the window has places. Beyond that,
//! one request goes at a time, which bounds what is out on a server that hangs as a whole.
//!
//! While as many are stuck as the window has places, only namespaces without a stuck request send more. While any is stuck, the
//! namespaces that are not known to be answered promptly share half of the window: each object of a namespace that hangs holds its
//! place for [`LONG`], and again whenever the webhook lets go, and there may be hundreds of such namespaces.

use crate::core::deadlines::Deadlines;
use crate::core::hash::{Hashed, HashedSet, IdMap, IdSet, hash_of};
use crate::core::object::ObjectKey;
use std::time::Duration;

/// The time after which a request is out for long.
const LONG: Duration = Duration::from_secs(1);
/// The most requests that leave their places because the API server goes on with others. Each takes a connection, and one of the
/// requests that the server works on at a time.
const MOST: usize = 256;
/// If no write was carried out promptly for this long, the API server is slow for all, and no part of the window is kept for
/// namespaces whose writes are answered promptly.
const SLOW_FOR_ALL: Duration = Duration::from_secs(60);
/// The number of namespaces above which it is forgotten which are answered promptly: most of them may be gone.
const PROMPT_KEPT: usize = 1 << 16;

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The write was carried out.
    CarriedOut,
    /// The write was refused with an answer that says nothing of the server's load.
    Declined,
    /// The write was refused as by a server that has too much to do, or not answered in time.
    Refused,
    /// Nothing was written, or nothing is known of it.
    Nothing,
}

/// The requests that are out, as far as their duration goes. Owned by the publisher.
#[derive(Clone, Default, Debug)]
pub(super) struct Stuck {
    /// Requests, by when they will have been out for long.
    recent: Deadlines<Hashed<ObjectKey>>,
    /// Requests that have been out for long, by when they were sent.
    long: Deadlines<Hashed<ObjectKey>>,
    /// Those that were sent no later than a write that was carried out before it was out for long. The window may have become
    /// smaller since they were sent, so their number is not compared with it.
    overtaken: HashedSet<ObjectKey>,
    /// When the last of the writes was sent that were carried out before they were out for long.
    carried_out: Option<Duration>,
    /// The number of requests that have been out for long, by namespace.
    by_namespace: IdMap<u64, usize>,
    /// The namespaces whose last write was answered before it was out for long, and none of whose requests has been out for long or
    /// refused since.
    prompt: IdSet<u64>,
    /// The recent requests of namespaces that were not prompt when they were granted.
    of_others: HashedSet<ObjectKey>,
}

impl Stuck {
    /// Records that an object was granted a request.
    pub(super) fn granted(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        self.recent.set(key.clone(), now + LONG);
        if !self.is_prompt(hash_of(&*key.namespace)) {
            self.of_others.insert(key.clone());
        }
    }

    /// Records the end of an object's request.
    pub(super) fn ended(&mut self, key: &Hashed<ObjectKey>, end: End) {
        let namespace = hash_of(&*key.namespace);
        if end == End::Refused {
            self.prompt.remove(&namespace);
        }
        if let Some(long_at) = self.recent.remove(key) {
            self.of_others.remove(key);
            if matches!(end, End::CarriedOut | End::Declined) {
                if self.prompt.len() >= PROMPT_KEPT {
                    self.prompt.clear();
                }
                self.prompt.insert(namespace);
            }
            if end == End::CarriedOut {
                let sent = long_at.saturating_sub(LONG);
                self.carried_out = self.carried_out.max(Some(sent));
                while let Some(key) = self.long.pop_due(sent) {
                    self.overtaken.insert(key);
                }
            }
            return;
        }
        if self.long.remove(key).is_none() && !self.overtaken.remove(key) {
            return;
        }
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
            let namespace = hash_of(&*key.namespace);
            *self.by_namespace.entry(namespace).or_default() += 1;
            self.of_others.remove(&key);
            self.prompt.remove(&namespace);
            let sent = long_at.saturating_sub(LONG);
            if self.carried_out.is_some_and(|last| sent <= last) {
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
        self.overtaken.len().min(MOST) + self.long.len().min(window)
    }

    /// Returns whether the last write of a namespace was answered promptly.
    pub(super) fn is_prompt(&self, namespace: u64) -> bool {
        self.prompt.contains(&namespace)
    }

    /// Returns a test of whether a namespace has to leave the places of a window of this size to others.
    pub(super) fn holds(&self, window: usize, now: Duration) -> impl Fn(u64) -> bool {
        let full = self.count() >= window;
        let any_prompt = self.carried_out.is_some_and(|sent| sent + SLOW_FOR_ALL > now);
        let crowded = any_prompt && self.count() > 0 && self.of_others.len() >= window.div_ceil(2);
        move |namespace| {
            (full && self.by_namespace.contains_key(&namespace)) || (crowded && !self.is_prompt(namespace))
        }
    }

    /// Returns when the next request will have been out for long.
    pub(super) fn next(&self) -> Option<Duration> {
        self.recent.next()
    }
}
