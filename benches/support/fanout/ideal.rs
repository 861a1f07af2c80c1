//! The ideal controller: it knows how many of its writes the watchers have yet to get, and has only so many underway
//! that the servers are never without work. Removals go first, and the oldest object of a priority.

use super::{Case, Controller, Grant};
use endpointd::core::priority::Priority;
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) struct Ideal {
    /// Writes in flight, and those that watchers have yet to get.
    in_flight: usize,
    backlog: f64,
    most: f64,
    waiting: BTreeSet<(Priority, Duration, usize)>,
    /// The place of each object in `waiting`.
    places: Vec<Option<(Priority, Duration)>>,
}

impl Ideal {
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            in_flight: 0,
            backlog: 0.0,
            most: 2.5,
            waiting: BTreeSet::new(),
            places: vec![None; case.objects()],
        }
    }
}

impl Controller for Ideal {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        let (mut priority, mut since) = (priority, now);
        if let Some((before, first)) = self.places[object] {
            self.waiting.remove(&(before, first, object));
            (priority, since) = (priority.min(before), since.min(first));
        }
        self.places[object] = Some((priority, since));
        self.waiting.insert((priority, since, object));
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        if self.in_flight as f64 + self.backlog >= self.most {
            return None;
        }
        let (_, _, object) = self.waiting.pop_first()?;
        self.places[object] = None;
        self.in_flight += 1;
        Some(Grant {
            object,
            state_of: now,
        })
    }

    fn wake(&self, now: Duration) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| now + Duration::from_millis(2))
    }

    fn answered(
        &mut self,
        object: usize,
        _version: u64,
        _took: Duration,
        again: Option<Priority>,
        now: Duration,
    ) {
        self.in_flight -= 1;
        if let Some(priority) = again {
            self.wanted(object, priority, now);
        }
    }

    fn echoed(&mut self, _object: usize, _version: u64, _now: Duration) {}

    fn backlog(&mut self, writes: f64) {
        self.backlog = writes;
    }
}
