//! What the queue keeps of each namespace and each Service.

use super::Rank;
use crate::core::priority::Priority;
use crate::core::publish::turns::{Age, Place, Waiting};
use std::collections::BTreeMap;
use std::time::Duration;

/// A namespace with objects that wait or are in flight.
#[derive(Clone, Default, Debug)]
pub(super) struct Namespace {
    pub(super) services: u32,
    pub(super) in_flight: usize,
    /// The lane in whose turns it stands, if it does.
    pub(super) lane: Option<Lane>,
    /// By resource.
    pub(super) waiting: [Waiting; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lane {
    Normal,
    /// Nothing is known of the namespace yet.
    New,
    Slow,
}

/// The objects of one Service that wait or are in flight.
#[derive(Clone, Debug)]
pub(super) struct Service<K> {
    pub(super) namespace: u64,
    pub(super) members: u32,
    /// The time at which the first of them was wanted: since then the Service is out of sync.
    pub(super) since: Duration,
    /// By resource: the objects that may go.
    pub(super) ready: [ReadyObjects<K>; 2],
}

#[derive(Clone, Debug)]
pub(super) struct ReadyObjects<K> {
    pub(super) objects: BTreeMap<Rank, K>,
    pub(super) by_priority: [u32; Priority::ALL.len()],
    /// Since when they wait for a turn.
    pub(super) age: Age,
    /// Where the Service stands among those of its namespace; nothing during its turn.
    pub(super) place: Option<Place>,
    pub(super) has_turn: bool,
    /// The round of the last object that had a turn.
    pub(super) round: u64,
}

impl<K> Default for ReadyObjects<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            by_priority: [0; Priority::ALL.len()],
            age: (Duration::ZERO, 0),
            place: None,
            has_turn: false,
            round: 0,
        }
    }
}

impl<K> ReadyObjects<K> {
    /// Returns where the Service should stand.
    pub(super) fn wanted_place(&self) -> Option<Place> {
        if self.has_turn {
            return None;
        }
        let counts = Priority::ALL.into_iter().zip(self.by_priority);
        let (priority, _) = counts.into_iter().find(|(_, count)| *count > 0)?;
        Some((priority, self.age))
    }
}
