//! The server: some workers, and a line of requests that wait for one.

use super::Case;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

pub(crate) struct Server {
    case: Case,
    /// When each worker is free again.
    free: BinaryHeap<Reverse<Duration>>,
    random: fastrand::Rng,
}

impl Server {
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            free: (0..case.workers).map(|_| Reverse(Duration::ZERO)).collect(),
            random: fastrand::Rng::with_seed(case.seed + 1),
            case: case.clone(),
        }
    }

    /// Serves a write that is sent now. Returns when its answer arrives.
    pub(crate) fn serve(&mut self, object: usize, now: Duration) -> Duration {
        let arrives = now + self.case.distance / 2;
        let Reverse(free) = self.free.pop().expect("a server has a worker");
        let begins = free.max(arrives);
        let done = begins + self.time(object, begins);
        self.free.push(Reverse(done));
        done + self.case.distance / 2
    }

    fn time(&mut self, object: usize, now: Duration) -> Duration {
        // Four sizes, whose mean is one.
        const SIZES: [f64; 4] = [0.25, 0.5, 1.25, 2.0];
        let size = if self.case.mixed {
            SIZES[object % SIZES.len()]
        } else {
            1.0
        };
        let chance = 1.0 + self.case.jitter * (2.0 * self.random.f64() - 1.0);
        let turned = self
            .case
            .turn
            .filter(|(at, _)| *at <= now)
            .map_or(1.0, |(_, times)| times);
        self.case.each.mul_f64(size * chance * turned)
    }
}
