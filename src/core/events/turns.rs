//! The order in which Events are written: namespaces take turns.

use super::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The time from which something may be written, and its position among what may be written at the same time.
pub(super) type Due = (Duration, u64);

/// The Events that wait, by namespace.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: BTreeMap<Arc<str>, Queue>,
    /// The time from which each namespace's first Event may be written.
    heads: BTreeSet<(Duration, Arc<str>)>,
    len: usize,
    /// Number of turns taken.
    taken: u64,
}

/// The Events that wait in one namespace, at least one.
#[derive(Debug)]
struct Queue {
    due: BTreeMap<Due, Arc<Key>>,
    /// The last turn that it took. A namespace that has just come is not put before those that wait.
    turn: u64,
}

impl Queue {
    fn head(&self) -> Option<Duration> {
        self.due.first_key_value().map(|(&(due, _), _)| due)
    }
}

impl Turns {
    /// Adds an Event that waits.
    pub(super) fn insert(&mut self, due: Due, key: Arc<Key>) {
        let namespace = key.object.namespace.clone();
        let turn = self.taken;
        let queue = self.queues.entry(namespace.clone()).or_insert_with(|| Queue {
            due: BTreeMap::new(),
            turn,
        });
        let before = queue.head();
        if queue.due.insert(due, key).is_none() {
            self.len += 1;
        }
        self.head_moved(&namespace, before);
    }

    /// Removes an Event that waits.
    pub(super) fn remove(&mut self, namespace: &Arc<str>, due: &Due) -> Option<Arc<Key>> {
        let queue = self.queues.get_mut(namespace)?;
        let before = queue.head();
        let key = queue.due.remove(due)?;
        self.len -= 1;
        self.head_moved(namespace, before);
        Some(key)
    }

    /// Removes and returns an Event that may be written now, of the namespace whose last turn was longest ago.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Arc<Key>> {
        let ready = self.heads.iter().take_while(|(due, _)| *due <= now);
        let (_, next) = ready.min_by_key(|(_, namespace)| self.queues[namespace].turn)?;
        let namespace = next.clone();
        self.taken += 1;
        let queue = self.queues.get_mut(&namespace)?;
        queue.turn = self.taken;
        let (&due, _) = queue.due.first_key_value()?;
        self.remove(&namespace, &due)
    }

    /// Returns when the first of all may be written.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.heads.first().map(|(due, _)| *due)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn head_moved(&mut self, namespace: &Arc<str>, before: Option<Duration>) {
        let after = self.queues.get(namespace).and_then(Queue::head);
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.heads.remove(&(before, namespace.clone()));
        }
        match after {
            Some(after) => {
                self.heads.insert((after, namespace.clone()));
            }
            None => {
                self.queues.remove(namespace);
            }
        }
    }
}
