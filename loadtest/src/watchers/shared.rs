//! The counts of all proxies.

use super::timeline::Timeline;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::watch;

/// The state that all proxies share.
pub(super) struct Shared {
    /// They list everything again whenever their watch is ended.
    pub(super) relists: bool,
    /// Bytes in a second that each reads at most.
    pub(super) rate: Option<u64>,
    is_churning: AtomicBool,
    ended: AtomicU64,
    ended_in_churn: AtomicU64,
    timed_out: AtomicU64,
    lists: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    /// How many watches have begun.
    begun: watch::Sender<usize>,
    /// The last request that failed.
    failure: Mutex<Option<anyhow::Error>>,
}

/// The state of one proxy alone.
#[derive(Default)]
pub(super) struct Own {
    pub(super) timeline: Mutex<Timeline>,
}

/// Counts of all proxies.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Watches that the server, or the network, ended before their time.
    pub(super) ended: u64,
    /// How many of them were ended while changes were made.
    pub(super) ended_in_churn: u64,
    /// Watches that lasted as long as they were asked to.
    pub(super) timed_out: u64,
    /// Lists after the first one of each proxy.
    pub(super) lists: u64,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(relists: bool, rate: Option<u64>) -> Self {
        Self {
            relists,
            rate,
            is_churning: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            ended_in_churn: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            events: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            begun: watch::Sender::new(0),
            failure: Mutex::new(None),
        }
    }

    /// Changes are made from now on, or no longer.
    pub(super) fn churns(&self, is_churning: bool) {
        self.is_churning.store(is_churning, Relaxed);
    }

    /// A proxy's first watch has begun.
    pub(super) fn began(&self) {
        self.begun.send_modify(|begun| *begun += 1);
    }

    /// Follows how many first watches have begun.
    pub(super) fn begun(&self) -> watch::Receiver<usize> {
        self.begun.subscribe()
    }

    pub(super) fn ended(&self) {
        self.ended.fetch_add(1, Relaxed);
        if self.is_churning.load(Relaxed) {
            self.ended_in_churn.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn timed_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    pub(super) fn listed_again(&self) {
        self.lists.fetch_add(1, Relaxed);
    }

    pub(super) fn told(&self, events: u64) {
        self.events.fetch_add(events, Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn failed(&self, error: anyhow::Error) {
        *self.failure.lock() = Some(error);
    }

    /// Takes the last failure.
    pub(super) fn failure(&self) -> Option<anyhow::Error> {
        self.failure.lock().take()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            ended: self.ended.load(Relaxed),
            ended_in_churn: self.ended_in_churn.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            lists: self.lists.load(Relaxed),
            events: self.events.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

// === impl Counts ===

impl Counts {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            ended: self.ended - earlier.ended,
            ended_in_churn: self.ended_in_churn - earlier.ended_in_churn,
            timed_out: self.timed_out - earlier.timed_out,
            lists: self.lists - earlier.lists,
            events: self.events - earlier.events,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
