//! The order in which Events are written: namespaces take turns.

use super::Key;
use crate::core::hash::hash_of;
use crate::core::turn_queue::TurnQueue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The time from which an Event may be written, and its position among those that may be written at the same time.
pub(super) type Due = (Duration, u64);

/// Within a namespace the oldest goes first, whatever it is about: all are of one group.
const ALL: u64 = 0;

/// The Events that wait.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    /// The Events that may be written now.
    ready: TurnQueue<(Due, Arc<Key>)>,
    /// The Events that may be written only later.
    delayed: BTreeMap<Due, Arc<Key>>,
    sequence: u64,
}

impl EventQueue {
    /// Adds an Event that may be written from then on. Returns its place.
    pub(super) fn insert(&mut self, from: Duration, key: Arc<Key>) -> Due {
        self.sequence += 1;
        let due = (from, self.sequence);
        self.delayed.insert(due, key);
        due
    }

    /// Removes an Event that waits.
    pub(super) fn remove(&mut self, key: &Key, due: Due) {
        if self.delayed.remove(&due).is_none() {
            self.ready.remove(tenant(key), ALL, due);
        }
    }

    /// Removes and returns an Event that may be written now, of the namespace whose turn it is.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Arc<Key>> {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let (due, key) = entry.remove_entry();
            self.ready.insert(tenant(&key), ALL, due, (due, key));
        }
        let tenant = self.ready.head(|_| true)?;
        let (_, key) = self.ready.take(tenant, true)?;
        Some(key)
    }

    /// Returns when the first of all may be written.
    pub(super) fn next_due(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.delayed.first_key_value().map(|((from, _), _)| *from)
    }
}

fn tenant(key: &Key) -> u64 {
    hash_of(&*key.object.namespace)
}
