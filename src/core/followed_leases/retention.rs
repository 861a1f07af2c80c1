//! How long Leases are still followed after the last Service has ceased to follow them.

use crate::core::deadlines::Deadlines;
use std::sync::Arc;
use std::time::Duration;

/// How long a Lease is still followed after the last Service has ceased to follow it, and for how long the watch of the
/// namespace's Leases is therefore kept. To begin to follow takes a list of all of them, which may be megabytes, and one
/// annotation of one Service may come and go many times a second. The time doubles with each list that comes soon after the
/// last one.
const KEPT: Duration = Duration::from_secs(60);
/// The longest such time.
const KEPT_LONGEST: Duration = Duration::from_secs(960);

/// How many more of them are kept than Services follow. Each takes some hundred bytes, and one Service may name another Lease with
/// each of its updates.
const MORE: usize = 256;

/// The Leases that no Service follows any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Retention {
    /// The Leases, by the times at which they are forgotten.
    kept: Deadlines<Arc<str>>,
    /// How long they are kept.
    keeps_for: Duration,
    /// When the watch was last left.
    left: Option<Duration>,
}

impl Retention {
    /// Handles that the watch begins.
    pub(super) fn begin(&mut self, now: Duration) {
        let soon = self.left.is_some_and(|left| now < left + 4 * self.keeps_for);
        self.keeps_for = if soon {
            KEPT_LONGEST.min(2 * self.keeps_for)
        } else {
            KEPT
        };
    }

    /// Handles that the watch was left.
    pub(super) fn leave(&mut self, now: Duration) {
        self.left = Some(now);
    }

    /// Keeps a Lease, unless it is kept already.
    pub(super) fn keep(&mut self, name: &Arc<str>, now: Duration) {
        if self.kept.get(name).is_none() {
            self.kept.set(name.clone(), now + self.keeps_for);
        }
    }

    /// Takes back a Lease, since a Service follows it again.
    pub(super) fn take_back(&mut self, name: &str) {
        self.kept.remove(name);
    }

    /// Returns when the next Lease is to be forgotten.
    pub(super) fn next(&self) -> Option<Duration> {
        self.kept.next()
    }

    /// Takes a Lease that is to be forgotten by now.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<Arc<str>> {
        self.kept.pop_due(now)
    }

    /// Takes a Lease, whether its time has come or not.
    pub(super) fn pop(&mut self) -> Option<Arc<str>> {
        self.kept.pop()
    }

    /// Takes the Lease whose time comes first, if more are kept than may be. `all` is the number of Leases: those that are kept, and
    /// those that Services follow.
    pub(super) fn pop_excess(&mut self, all: usize) -> Option<Arc<str>> {
        let kept = self.kept.len();
        if kept > all.saturating_sub(kept) + MORE {
            self.kept.pop()
        } else {
            None
        }
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}
