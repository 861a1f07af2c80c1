//! The product's writer.

use super::{Case, Controller, Grant};
use crate::simulated::Simulated;
use endpointd::core::object::Output;
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Effect, Pacing, WatchLimits, Watchers};
use endpointd::core::queue::Priority;
use std::time::Duration;

/// The defaults of the flags.
pub(crate) const DEFAULT: Pacing = Pacing {
    qps: 500.0,
    burst: 1000,
    ..Pacing::unlimited(64)
};

/// The product's writer.
pub(crate) struct Product {
    simulated: Simulated,
    /// The size of a request.
    bytes: usize,
    wake: Option<Duration>,
    /// True if the publisher is told what the watch of slices brings.
    told: bool,
}

impl Product {
    /// The writer as it is, with the defaults of its flags on a cluster with a node for each watcher.
    pub(crate) fn new(case: &Case, pacing: Pacing) -> Self {
        let watch = WatchLimits {
            watchers: Watchers::PerNode(1.0),
            total: 2.2e9,
            each: 0.44e6,
            few: 132e6,
            ..WatchLimits::UNWATCHED
        };
        Self::watched(case, Pacing { watch, ..pacing })
    }

    /// The same without a budget of bytes to watchers.
    pub(crate) fn without_budget(case: &Case, pacing: Pacing) -> Self {
        let watch = WatchLimits {
            watchers: Watchers::PerNode(1.0),
            ..WatchLimits::UNWATCHED
        };
        Self::watched(case, Pacing { watch, ..pacing })
    }

    fn watched(case: &Case, pacing: Pacing) -> Self {
        let mut writer = Self {
            told: true,
            ..Self::earlier(case, pacing)
        };
        writer.signal(&Signal::Nodes(case.servers.watchers), Duration::ZERO);
        writer.watch_begins(Duration::ZERO);
        writer
    }

    fn signal(&mut self, signal: &Signal, now: Duration) {
        self.simulated.publisher.signalled(signal, now);
        // Nothing reports them here.
        self.simulated.publisher.take_echoes();
    }

    /// The writer as it was before it knew of the watch of slices.
    pub(crate) fn earlier(case: &Case, pacing: Pacing) -> Self {
        let of_namespace = case.services * case.slices;
        Self {
            simulated: Simulated::new(case.objects(), of_namespace, case.slices, pacing, case.seed),
            bytes: case.servers.bytes,
            wake: None,
            told: false,
        }
    }
}

impl Controller for Product {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.simulated.want(object, priority, now);
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        let next = self.simulated.next(self.bytes, now);
        let object = next.map_err(|until| self.wake = until).ok()?;
        Some(Grant {
            object,
            state_of: now,
        })
    }

    fn wake(&self, _now: Duration) -> Option<Duration> {
        self.wake
    }

    fn answered(
        &mut self,
        object: usize,
        version: u64,
        took: Duration,
        again: Option<Priority>,
        now: Duration,
    ) {
        self.simulated
            .answered(object, Effect::Written(version), took, again, now);
    }

    fn echoed(&mut self, _object: usize, version: u64, now: Duration) {
        if self.told {
            let shown = Signal::Shown {
                output: Output::Slice,
                version,
                at: now,
            };
            self.signal(&shown, now);
        }
    }

    fn watch_begins(&mut self, now: Duration) {
        if self.told {
            self.signal(&Signal::Opened(Output::Slice, Some(0)), now);
        }
    }
}
