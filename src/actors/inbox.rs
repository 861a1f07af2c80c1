//! A shard's inbox: the changes that wait for it, and the number of the last delivery that it has applied.

use crate::core::inbox::{Change, Pending};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Queues changes for a shard. Filled by the ingest tasks, emptied by the shard.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<InboxState>,
    /// The last delivery that the shard has applied.
    applied: AtomicU64,
    /// Grants and outcomes in the shard's mailbox. The router increments it within the shard's map entry, and the shard
    /// decrements it when it has replied.
    told: AtomicU64,
    /// Set when the shard was empty after its last message.
    empty: AtomicBool,
    /// When the shard last began a turn of its work.
    turned: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct InboxState {
    pending: Pending,
    /// Number of deliveries so far: a shard may only be retired at the number that it has seen.
    sequence: u64,
    /// When the shard was woken, if it has not taken the changes since.
    woken: Option<Instant>,
}

impl Inbox {
    /// Adds changes. Returns true when the shard must be woken.
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

    /// Takes the pending changes, the number of the last delivery, and the time since when changes have waited.
    pub(super) fn take(&self) -> (Pending, u64, Option<Instant>) {
        let mut state = self.state.lock();
        let woken = state.woken.take();
        (std::mem::take(&mut state.pending), state.sequence, woken)
    }

    /// Returns how long changes have waited here without the shard making progress.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let woken = self.state.lock().woken?;
        Some(now.saturating_duration_since(woken.max(self.turned().unwrap_or(woken))))
    }

    /// Returns when the shard last began a turn, if it has.
    pub fn turned(&self) -> Option<Instant> {
        *self.turned.lock()
    }

    pub(super) fn turns(&self, now: Instant) {
        *self.turned.lock() = Some(now);
    }

    /// Returns the number of the last delivery, unless the shard has applied it.
    pub fn unapplied(&self) -> Option<u64> {
        let sequence = self.state.lock().sequence;
        (!self.has_applied(sequence)).then_some(sequence)
    }

    /// Returns whether the shard has applied a delivery, and so all before it.
    pub fn has_applied(&self, sequence: u64) -> bool {
        self.applied.load(Ordering::Acquire) >= sequence
    }

    /// Returns whether the shard is empty, nothing came since the delivery with this number, and no grant or outcome
    /// still awaits a reply. A late reply would otherwise be taken for one of the shard that was created in its place.
    pub fn is_idle_since(&self, sequence: u64) -> bool {
        let state = self.state.lock();
        let told = self.told.load(Ordering::Acquire);
        state.pending.is_empty()
            && state.sequence == sequence
            && told == 0
            && self.empty.load(Ordering::Acquire)
    }

    /// Counts a grant or an outcome that is about to go into the shard's mailbox.
    pub(super) fn tell(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that the shard has applied a delivery, and so all before it.
    pub(super) fn applied(&self, sequence: u64) {
        self.applied.store(sequence, Ordering::Release);
    }

    /// Records whether the shard is empty, as of its last message.
    pub(super) fn set_empty(&self, empty: bool) {
        self.empty.store(empty, Ordering::Release);
    }

    /// Records that the shard has replied to a grant or an outcome.
    pub(super) fn replied(&self) {
        self.told.fetch_sub(1, Ordering::AcqRel);
    }
}
