//! A shard's inbox: the events that wait for it, and how far it is with them.

use crate::core::inbox::{Change, Pending};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Where events wait for a shard. Filled by the ingest tasks, emptied by the shard.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<InboxState>,
    /// The last delivery that the shard is done with.
    applied: AtomicU64,
    /// How many grants and outcomes are in the shard's mailbox. Changed by the router within the shard's entry, and by
    /// the shard when it has replied.
    told: AtomicU64,
    /// Whether the shard had nothing left after its last message.
    empty: AtomicBool,
    /// When the shard last began a turn of what it is at.
    turned: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct InboxState {
    pending: Pending,
    /// How many deliveries there have been: a shard may only be retired at the number that it has seen.
    sequence: u64,
    /// When the shard was told that something waits, if it has not looked since.
    woken: Option<Instant>,
}

impl Inbox {
    /// Adds events. True when the shard must be woken.
    pub fn deliver(&self, events: impl Iterator<Item = Change>) -> bool {
        let mut state = self.state.lock();
        for event in events {
            state.pending.push(event);
        }
        state.sequence += 1;
        let wake = state.woken.is_none();
        if wake {
            state.woken = Some(Instant::now());
        }
        wake
    }

    /// What waits, the number of the last delivery, and since when something has waited.
    pub(super) fn take(&self) -> (Pending, u64, Option<Instant>) {
        let mut state = self.state.lock();
        let woken = state.woken.take();
        (std::mem::take(&mut state.pending), state.sequence, woken)
    }

    /// How long something has waited here while the shard did nothing.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let woken = self.state.lock().woken?;
        Some(now.saturating_duration_since(woken.max(self.turned().unwrap_or(woken))))
    }

    /// When the shard last began a turn, if it has.
    pub fn turned(&self) -> Option<Instant> {
        *self.turned.lock()
    }

    pub(super) fn turns(&self) {
        *self.turned.lock() = Some(Instant::now());
    }

    /// The number of the last delivery, if the shard is not done with it.
    pub fn unapplied(&self) -> Option<u64> {
        let sequence = self.state.lock().sequence;
        (!self.has_applied(sequence)).then_some(sequence)
    }

    /// Whether the shard is done with a delivery, and so with all before it.
    pub fn has_applied(&self, sequence: u64) -> bool {
        self.applied.load(Ordering::Acquire) >= sequence
    }

    /// Whether the shard has nothing left, nothing came since the delivery with this number, and no grant or outcome
    /// is still to be replied to. A shard that replied to one after another was made in its place would speak for
    /// objects of the other.
    pub fn is_idle_since(&self, sequence: u64) -> bool {
        let state = self.state.lock();
        let told = self.told.load(Ordering::Acquire);
        state.pending.is_empty()
            && state.sequence == sequence
            && told == 0
            && self.empty.load(Ordering::Acquire)
    }

    /// A grant or an outcome is put into the shard's mailbox.
    pub(super) fn tell(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
    }

    /// The shard is done with a delivery, and so with all before it.
    pub(super) fn applied(&self, sequence: u64) {
        self.applied.store(sequence, Ordering::Release);
    }

    /// Whether the shard has nothing left, as of its last message.
    pub(super) fn set_empty(&self, empty: bool) {
        self.empty.store(empty, Ordering::Release);
    }

    /// The shard has replied to a grant or an outcome.
    pub(super) fn replied(&self) {
        self.told.fetch_sub(1, Ordering::AcqRel);
    }
}
