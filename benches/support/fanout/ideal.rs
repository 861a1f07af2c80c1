//! The ideal controller: it knows how many of its writes the watchers have yet to get, and has only so many underway
//! that the servers are never without work. Removals go first, and the oldest object of a priority.

use super::{Case, Controller, Grant};
use crate::simulated::Waiting;
use endpointd::core::priority::Priority;
use std::time::Duration;

pub(crate) struct Ideal {
    /// Writes in flight, and those that watchers have yet to get.
    in_flight: usize,
    backlog: f64,
    most: f64,
    waiting: Waiting,
}

impl Ideal {
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            in_flight: 0,
            backlog: 0.0,
            most: 2.5,
            waiting: Waiting::new(case.objects()),
        }
    }
}

impl Controller for Ideal {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.waiting.add(object, priority, now);
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        if self.in_flight as f64 + self.backlog >= self.most {
            return None;
        }
        let object = self.waiting.pop()?;
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
