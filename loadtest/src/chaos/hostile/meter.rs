//! The meter of the time and requests that the controller has spent until a moment. A busy machine makes everything
//! take longer by the clock on the wall; it makes the controller use no more processor time, and send no more requests.

use crate::process::Usage;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The time that stands for a request or a flip.
const EACH: Duration = Duration::from_millis(1);

/// Counts what the controller spends.
pub(super) struct Meter {
    /// Where its clocks begin.
    base: Instant,
    /// The controller's process; 0 until there is one.
    pid: AtomicI32,
    requests: AtomicU64,
    /// Flips of neighbours.
    flips: AtomicU64,
}

/// A moment by four clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) wall: Instant,
    /// The controller's processor time, as a time since the beginning.
    pub(super) cpu: Instant,
    /// A millisecond for each write of the controller.
    pub(super) requests: Instant,
    /// A millisecond for each flip of a neighbour.
    pub(super) flips: Instant,
}

impl Moment {
    pub(super) fn clocks(self) -> [Instant; 4] {
        [self.wall, self.cpu, self.requests, self.flips]
    }
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            base: Instant::now(),
            pid: AtomicI32::new(0),
            requests: AtomicU64::new(0),
            flips: AtomicU64::new(0),
        }
    }

    /// The controller has been started.
    pub(super) fn watch(&self, pid: i32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    /// The controller has sent a request that writes.
    pub(super) fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// A neighbour has flipped.
    pub(super) fn count_flip(&self) {
        self.flips.fetch_add(1, Ordering::Relaxed);
    }

    /// The moment that it is by the clock on the wall.
    pub(super) fn moment(&self, wall: Instant) -> Moment {
        let cpu = Usage::precise_cpu(self.pid.load(Ordering::Relaxed)).unwrap_or_default();
        let [requests, flips] =
            [&self.requests, &self.flips].map(|count| count.load(Ordering::Relaxed) as u32);
        Moment {
            wall,
            cpu: self.base + cpu,
            requests: self.base + EACH * requests,
            flips: self.base + EACH * flips,
        }
    }
}
