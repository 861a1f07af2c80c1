//! The turns of namespaces, and in each namespace of its Services.

use crate::core::priority::Priority;
use std::collections::BTreeSet;
use std::time::Duration;

/// When something became ready, and a number that orders what did at the same time.
pub(super) type Age = (Duration, u64);

/// A place among the Services of a namespace: the most urgent of the Service's writes, and its age.
pub(super) type Place = (Priority, Age);

/// The Services of one namespace that wait for a turn. Owned by the queue.
#[derive(Clone, Default, Debug)]
pub(super) struct Waiting {
    services: [BTreeSet<(Age, u64)>; Priority::ALL.len()],
    /// The number of its next turn.
    turn: u64,
}

impl Waiting {
    /// Puts the namespace behind all others when it enters next.
    pub(super) fn had_turn(&mut self) {
        self.turn = 0;
    }

    /// Adds a Service.
    pub(super) fn insert(&mut self, (priority, age): Place, service: u64) {
        self.services[priority as usize].insert((age, service));
    }

    /// Removes a Service.
    pub(super) fn remove(&mut self, (priority, age): Place, service: u64) {
        self.services[priority as usize].remove(&(age, service));
    }

    fn oldest(&self) -> Option<(Age, u64)> {
        self.services.iter().filter_map(BTreeSet::first).min().copied()
    }

    /// Returns the Service whose turn it is.
    pub(super) fn next(&self, by: Turn) -> Option<u64> {
        let (_, service) = match by {
            Turn::OfOldest => self.oldest(),
            Turn::OfMostUrgent => self.services.iter().find_map(BTreeSet::first).copied(),
        }?;
        Some(service)
    }
}

/// How a turn is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// To the namespace that has waited longest for one, among those with the most urgent writes.
    OfMostUrgent,
    /// To the oldest Service of all.
    OfOldest,
}

/// The namespaces that wait for a turn, by their hashes. Owned by the queue.
#[derive(Clone, Default, Debug)]
pub(super) struct Turns {
    /// For each urgency, the namespaces with such Services in the order of their turns.
    rings: [BTreeSet<(u64, u64)>; Priority::ALL.len()],
    /// The namespaces by their oldest Services.
    by_age: BTreeSet<(Age, u64)>,
    /// The number of the last turn in the rings.
    last: u64,
    /// True if the last turn was the oldest Service's.
    was_oldest: bool,
}

impl Turns {
    /// Adds a namespace with these Services.
    pub(super) fn enter(&mut self, namespace: u64, waiting: &mut Waiting) {
        let Some((oldest, _)) = waiting.oldest() else {
            return;
        };
        if waiting.turn == 0 {
            self.last += 1;
            waiting.turn = self.last;
        }
        self.by_age.insert((oldest, namespace));
        for (ring, services) in self.rings.iter_mut().zip(&waiting.services) {
            if !services.is_empty() {
                ring.insert((waiting.turn, namespace));
            }
        }
    }

    /// Removes a namespace, before its Services change.
    pub(super) fn leave(&mut self, namespace: u64, waiting: &Waiting) {
        let Some((oldest, _)) = waiting.oldest() else {
            return;
        };
        self.by_age.remove(&(oldest, namespace));
        for (ring, services) in self.rings.iter_mut().zip(&waiting.services) {
            if !services.is_empty() {
                ring.remove(&(waiting.turn, namespace));
            }
        }
    }

    /// Returns the namespace whose turn it is, and how to choose its Service. Of two turns, one is the oldest Service's, whatever
    /// its urgency.
    pub(super) fn next(&mut self) -> Option<(u64, Turn)> {
        let (_, oldest) = *self.by_age.first()?;
        self.was_oldest = !self.was_oldest;
        if self.was_oldest {
            return Some((oldest, Turn::OfOldest));
        }
        let (_, namespace) = *self.rings.iter().find_map(BTreeSet::first)?;
        Some((namespace, Turn::OfMostUrgent))
    }

    /// Returns whether no namespace waits.
    pub(super) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }
}
