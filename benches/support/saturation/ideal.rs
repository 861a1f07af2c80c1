//! The ideal writer: it knows how many workers the server has, and keeps each of them busy with one write and no more.
//! Removals go first, and the oldest object of a priority.

use super::{Case, Writer};
use crate::simulated::Waiting;
use endpointd::core::priority::Priority;
use std::time::Duration;

pub(crate) struct Ideal {
    workers: usize,
    in_flight: usize,
    waiting: Waiting,
}

impl Ideal {
    pub(crate) fn new(case: &Case) -> Self {
        // On the way to the server and back a request keeps no worker busy.
        let pipe = case.distance.as_secs_f64() / case.each.as_secs_f64() * case.workers as f64;
        Self {
            workers: case.workers + pipe.ceil() as usize,
            in_flight: 0,
            waiting: Waiting::new(case.objects()),
        }
    }
}

impl Writer for Ideal {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.waiting.add(object, priority, now);
    }

    fn next(&mut self, _now: Duration) -> Option<usize> {
        if self.in_flight >= self.workers {
            return None;
        }
        let object = self.waiting.pop()?;
        self.in_flight += 1;
        Some(object)
    }

    fn answered(&mut self, object: usize, _took: Duration, again: Option<Priority>, now: Duration) {
        self.in_flight -= 1;
        if let Some(priority) = again {
            self.wanted(object, priority, now);
        }
    }

    fn window(&self) -> usize {
        self.workers
    }
}
