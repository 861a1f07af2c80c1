//! Requests that are out for long, such as those of namespaces whose webhook hangs, and what they leave to others.
//!
//! Requests that hang hold places in the window until their deadline, and a few namespaces could hold them all. So a request that
//! has been out for long leaves its place to others. If writes that were sent later are carried out at once, the API server
//! itself does not hang: then up to [`MOST`] leave their places. Otherwise no more do so than the window has places. Beyond that,
//! one request goes at a time, which bounds what is out on a server that hangs as a whole.
//!
//! While as many are stuck as the window has places, only namespaces without a stuck request send more. While any is stuck, the
//! namespaces that are known to be slow share half of the window, and together with those of which nothing is known they leave some
//! places to the prompt ones ([`Promptness`]): each object of a namespace that hangs holds its place until it has been out for long,
//! and again whenever the webhook lets go, and there may be hundreds of such namespaces.

mod recent;

use super::promptness::{Promptness, PromptnessByNamespace};
use crate::core::deadlines::Deadlines;
use crate::core::hash::{Hashed, HashedSet, IdMap};
use crate::core::object::ObjectKey;
use recent::{LongRequest, Recent};
use std::time::Duration;

/// The most requests that leave their places because the API server goes on with others. Each takes a connection, and one of the
/// requests that the server works on at a time.
const MOST: usize = 256;
/// If no write was carried out promptly for this long, the API server is slow for all, and no part of the window is kept for
/// namespaces whose writes are answered promptly.
const SLOW_FOR_ALL: Duration = Duration::from_secs(60);
/// The time from one request to the next that goes although as many are out as may be.
const BETWEEN_LONE: Duration = Duration::from_secs(1);
/// The same while no namespace is known to be prompt any more, if a write was carried out within [`SEARCH`].
const BETWEEN_SEARCHED: Duration = Duration::from_millis(100);
const SEARCH: Duration = Duration::from_secs(2);

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
    recent: Recent,
    /// Requests that have been out for long, by when they were sent.
    long: Deadlines<Hashed<ObjectKey>>,
    /// Those that were sent no later than a write that was carried out before it was out for long. The window may have become
    /// smaller since they were sent, so their number is not compared with it.
    overtaken: HashedSet<ObjectKey>,
    /// When the last of the writes was sent that were carried out before they were out for long.
    carried_out: Option<Duration>,
    /// The number of requests that have been out for long, by namespace.
    by_namespace: IdMap<u64, usize>,
    namespaces: PromptnessByNamespace,
    /// Those that have been out for long, of namespaces that were not prompt when they were granted.
    others_long: HashedSet<ObjectKey>,
    /// When a request last went although as many were out as may be.
    lone: Option<Duration>,
}

impl Stuck {
    /// Records that an object was granted a request, `alone` if as many are out as may be, and how promptly the writes of its
    /// namespace are answered.
    pub(super) fn granted(
        &mut self,
        key: &Hashed<ObjectKey>,
        promptness: Promptness,
        alone: bool,
        now: Duration,
    ) {
        self.recent.grant(key, promptness, now);
        if alone {
            self.lone = Some(now);
        }
    }

    /// Records that the request of an object is sent.
    pub(super) fn sent(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        self.recent.send(key, now);
    }

    /// Records the end of a request for an object. Returns whether its namespace was not prompt when it was granted, and writes
    /// that were sent later were carried out promptly: then it waited for a webhook, as far as is known.
    pub(super) fn ended(&mut self, key: &Hashed<ObjectKey>, end: End) -> bool {
        let namespace = key.tenant();
        if end == End::Refused {
            self.namespaces.was_refused(namespace);
        }
        if let Some(sent) = self.recent.remove(key) {
            if matches!(end, End::CarriedOut | End::Declined) {
                self.namespaces.was_prompt(namespace, sent);
            }
            if end == End::CarriedOut {
                self.carried_out = self.carried_out.max(Some(sent));
                while let Some(key) = self.long.pop_due(sent) {
                    self.overtaken.insert(key);
                }
            }
            return false;
        }
        let overtaken = self.overtaken.remove(key);
        let sent = self.long.remove(key);
        if sent.is_none() && !overtaken {
            return false;
        }
        if let Some(sent) = sent.filter(|_| end == End::CarriedOut) {
            // No write that was sent later was carried out before: the API server took so long, and not a webhook.
            self.namespaces.was_not_slow(namespace, sent);
        }
        if let Some(count) = self.by_namespace.get_mut(&namespace) {
            *count -= 1;
            if *count == 0 {
                self.by_namespace.remove(&namespace);
            }
        }
        self.others_long.remove(key) && overtaken
    }

    /// Finds the requests that have been out for long by now, that is for this time.
    pub(super) fn pass(&mut self, long: Duration, now: Duration) {
        while let Some(request) = self.recent.pop_long(long, now) {
            let LongRequest {
                key,
                sent,
                promptness,
            } = request;
            let namespace = key.tenant();
            *self.by_namespace.entry(namespace).or_default() += 1;
            if promptness != Promptness::Prompt {
                self.others_long.insert(key.clone());
            }
            self.namespaces.was_long(namespace, sent);
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

    /// Returns how promptly the writes of namespaces are answered.
    pub(super) fn namespaces(&self) -> &PromptnessByNamespace {
        &self.namespaces
    }

    /// Returns a test of whether a namespace has to leave the places of a window of this size to others.
    pub(super) fn holds(&self, window: usize, now: Duration) -> impl Fn(u64) -> bool {
        let full = self.count() >= window;
        // Those that do not leave their places any more are of slow namespaces, too.
        let staying = self.count() - self.left(window);
        let [slow, unknown] = [Promptness::Slow, Promptness::Unknown].map(|it| self.recent.count(it));
        let slowest = self.slowest(window, slow + staying, unknown, now);
        move |namespace| {
            (full && self.by_namespace.contains_key(&namespace)) || self.is_slower(namespace, slowest)
        }
    }

    /// Returns how slow a namespace may be to take one of so many places, of which those of slow namespaces and those of which
    /// nothing is known hold so many.
    pub(super) fn slowest(&self, places: usize, slow: usize, unknown: usize, now: Duration) -> Promptness {
        let any_prompt = self.carried_out.is_some_and(|sent| sent + SLOW_FOR_ALL > now);
        if !any_prompt || self.count() == 0 {
            return Promptness::Slow;
        }
        let crowded = |held: usize, kept: usize| held >= places.saturating_sub(kept).max(1);
        if self.any_prompt_since_doubt() && crowded(slow + unknown, places / 4) {
            Promptness::Prompt
        } else if crowded(slow, places / 2) {
            Promptness::Unknown
        } else {
            Promptness::Slow
        }
    }

    /// Returns whether the writes of a namespace are answered less promptly than this.
    pub(super) fn is_slower(&self, namespace: u64, slowest: Promptness) -> bool {
        slowest < Promptness::Slow && self.namespaces.of(namespace) > slowest
    }

    /// Returns whether a write was carried out promptly since it is doubted which namespaces are prompt.
    fn any_prompt_since_doubt(&self) -> bool {
        self.carried_out
            .is_some_and(|sent| sent >= self.namespaces.doubted())
    }

    /// Returns when a request of any namespace may go although as many are out as may be, if not now. Until then only one of a
    /// prompt namespace may, if `true` comes with it.
    pub(super) fn lone(&self, now: Duration) -> Option<(Duration, bool)> {
        let carried_out_within = |time: Duration| self.carried_out.is_some_and(|sent| sent + time > now);
        let goes_on = carried_out_within(BETWEEN_LONE);
        let searches = !self.any_prompt_since_doubt() && carried_out_within(SEARCH);
        let until = self.lone? + if searches { BETWEEN_SEARCHED } else { BETWEEN_LONE };
        (until > now).then_some((until, goes_on))
    }

    /// Returns when the API server will count as slow for all, if no write is carried out promptly before.
    pub(super) fn slow_for_all_at(&self, now: Duration) -> Option<Duration> {
        let at = self.carried_out? + SLOW_FOR_ALL;
        (self.count() > 0 && at > now).then_some(at)
    }

    /// Returns when the next request will have been out for long, that is for this time.
    pub(super) fn next(&self, long: Duration) -> Option<Duration> {
        self.recent.next(long)
    }
}
