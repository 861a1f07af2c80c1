//! The writer before the window was held at the server's number of workers: the window grew by one a round up to its
//! limit, and shrank only after refusals and answers that took eight times as long as usual. Additions were overtaken
//! for thirty seconds, whatever the pace. Kept for comparisons.

use super::{Case, Writer};
use endpointd::core::priority::Priority;
use endpointd::core::publish::queue::{Classes, Urgency, WriteQueue};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) struct Earlier {
    queue: WriteQueue<usize>,
    window: Window,
    /// Objects whose last answer was slow.
    slow: BTreeSet<usize>,
    of_namespace: usize,
    of_service: usize,
}

impl Earlier {
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            queue: WriteQueue::default(),
            window: Window::new(case.limit),
            slow: BTreeSet::new(),
            of_namespace: case.services * case.slices,
            of_service: case.slices,
        }
    }
}

impl Writer for Earlier {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        let urgency = Urgency {
            priority,
            yields: false,
            tenant: (object / self.of_namespace) as u64,
            group: (object / self.of_service) as u64,
        };
        self.queue.want(object, urgency, Duration::ZERO, now);
    }

    fn next(&mut self, now: Duration) -> Option<usize> {
        if self.queue.in_flight() >= self.window.size() {
            return None;
        }
        let (object, ..) = self
            .queue
            .next(self.window.size().div_ceil(2), Classes::ALL, now)?;
        self.queue.built(&object);
        Some(object)
    }

    fn answered(&mut self, object: usize, took: Duration, again: Option<Priority>, now: Duration) {
        let slow = self.window.is_slow(took);
        let counts = !slow || self.slow.insert(object);
        if !slow {
            self.slow.remove(&object);
        }
        if counts {
            self.window.answered(took, self.queue.in_flight(), now);
        }
        self.queue.landed(&object, again.is_none(), now);
        if let Some(priority) = again {
            self.wanted(object, priority, now);
        }
    }

    fn window(&self) -> usize {
        self.window.size()
    }
}

/// A response that takes this many times longer than usual, and also longer than [`SLOW`], indicates congestion.
const STRETCH: u32 = 8;
/// Responses faster than this do not indicate congestion, however fast the server usually is.
const SLOW: Duration = Duration::from_millis(250);
/// The fraction of the window left after a slow response.
const AFTER_SLOWNESS: f64 = 0.8;
/// The weight of a slower response in the usual response time, which adapts over some hundred of them.
const DRIFT: f64 = 0.01;
/// The smallest window.
const LEAST: f64 = 2.0;
/// The window before anything is known.
const FIRST: f64 = 16.0;

/// The number of requests that may be in flight: one more for each window full of responses, fewer when
/// answers become slow. Nothing is ever refused here.
struct Window {
    size: f64,
    limit: f64,
    /// The usual response time.
    usual: Option<Duration>,
    /// The time of the last shrink. Requests sent before it do not shrink the window again, because requests of the
    /// same burst already did.
    shrunk: Duration,
}

impl Window {
    /// Creates a window that never exceeds `limit`.
    fn new(limit: usize) -> Self {
        let limit = (limit.max(1)) as f64;
        Self {
            size: FIRST.min(limit),
            limit,
            usual: None,
            shrunk: Duration::ZERO,
        }
    }

    /// Returns how many requests may be in flight now: at least two, so that one without a response does not hold up
    /// all others; one if the limit allows no more.
    fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns whether a response that took this long indicates congestion.
    fn is_slow(&self, took: Duration) -> bool {
        took > SLOW && self.usual.is_some_and(|usual| took > usual * STRETCH)
    }

    /// Records an answer after `took`, with `in_flight` requests out including itself.
    fn answered(&mut self, took: Duration, in_flight: usize, now: Duration) {
        let sent = now.saturating_sub(took);
        let slow = self.is_slow(took);
        let usual = self.usual.get_or_insert(took);
        if slow {
            self.shrink(AFTER_SLOWNESS, sent, now);
            return;
        }
        *usual = if took < *usual {
            took
        } else {
            *usual + took.saturating_sub(*usual).mul_f64(DRIFT)
        };
        // A window that is not full shows nothing about the server's capacity.
        if in_flight >= self.size() {
            self.size = (self.size + 1.0 / self.size).min(self.limit);
        }
    }

    fn shrink(&mut self, to: f64, sent: Duration, now: Duration) {
        if sent >= self.shrunk {
            self.size = (self.size * to).max(LEAST.min(self.limit));
            self.shrunk = now;
        }
    }
}
