//! The meter of the time and requests that the controller has spent until a moment. A busy machine makes everything
//! take longer by the clock on the wall; it makes the controller use no more processor time, and send no more requests.

use super::kinds;
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
    /// Flips of neighbours that the controller was told of.
    flips: AtomicU64,
    /// Requests for objects in the attacker's namespaces: those that read one, and those that write.
    reads: AtomicU64,
    writes: AtomicU64,
}

/// A moment by four clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) wall: Instant,
    /// The controller's processor time, as a time since the beginning.
    pub(super) cpu: Instant,
    /// A millisecond for each request of the controller.
    pub(super) requests: Instant,
    /// A millisecond for each flip of a neighbour that the controller was told of.
    pub(super) flips: Instant,
}

impl Moment {
    /// The same time by each clock.
    #[cfg(test)]
    pub(super) fn all(at: Instant) -> Self {
        Self {
            wall: at,
            cpu: at,
            requests: at,
            flips: at,
        }
    }

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
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    /// The controller has been started.
    pub(super) fn watch(&self, pid: i32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    /// The controller has sent a request.
    pub(super) fn count(&self, method: &str, path: &str) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if !kinds::is_of_attacker(path) {
            return;
        }
        match method {
            "GET" => self.reads.fetch_add(1, Ordering::Relaxed),
            _ => self.writes.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// The controller is told of a neighbour's flip.
    pub(super) fn count_flip(&self) {
        self.flips.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many flips of neighbours the controller was told of.
    pub(super) fn flips(&self) -> u64 {
        self.flips.load(Ordering::Relaxed)
    }

    /// Forgets the flips, and which requests were sent for the attacker's objects.
    pub(super) fn clear(&self) {
        self.flips.store(0, Ordering::Relaxed);
        self.reads.store(0, Ordering::Relaxed);
        self.writes.store(0, Ordering::Relaxed);
    }

    /// Requests that read an attacker's object, and that write one.
    pub(super) fn of_attacker(&self) -> (u64, u64) {
        (
            self.reads.load(Ordering::Relaxed),
            self.writes.load(Ordering::Relaxed),
        )
    }

    /// The moment that it is by the clock on the wall.
    pub(super) fn moment(&self, wall: Instant) -> Moment {
        let cpu = Usage::precise_cpu(self.pid.load(Ordering::Relaxed)).unwrap_or_default();
        let requests = self.requests.load(Ordering::Relaxed) as u32;
        Moment {
            wall,
            cpu: self.base + cpu,
            requests: self.base + EACH * requests,
            flips: self.base + EACH * self.flips() as u32,
        }
    }
}
