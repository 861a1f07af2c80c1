//! The product's writer.

use super::{Case, Controller, Grant};
use crate::simulated::Simulated;
use endpointd::core::object::Output;
use endpointd::core::priority::Priority;
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Pacing, WatchLimits, Watchers, WriteEffect};
use std::collections::VecDeque;
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
    /// How much later than it comes, and what has come and not been told. Without an end, nothing ever is.
    delay: Duration,
    late: VecDeque<(Duration, u64)>,
}

impl Product {
    /// The writer as it is, with the defaults of its flags on a cluster with a node for each watcher.
    pub(crate) fn new(case: &Case, pacing: Pacing) -> Self {
        let watch = WatchLimits {
            watchers: Watchers::PerNode(1.0),
            total: 2.0e9,
            each: 0.4e6,
            few: 120e6,
            ..WatchLimits::UNWATCHED
        };
        Self::watched(case, Pacing { watch, ..pacing })
    }

    /// The same with a watch that is late by itself, or shows nothing if there is no end to that.
    pub(crate) fn late(case: &Case, pacing: Pacing, delay: Duration) -> Self {
        Self {
            delay,
            ..Self::new(case, pacing)
        }
    }

    /// The same while its own watch is not open.
    pub(crate) fn blind(case: &Case, pacing: Pacing) -> Self {
        let mut writer = Self::new(case, pacing);
        writer.signal(&Signal::Opened(Output::Slice, None), Duration::ZERO);
        writer.told = false;
        writer
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
        // They are not reported here.
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
            delay: Duration::ZERO,
            late: VecDeque::new(),
        }
    }
}

/// The product's writer, which is also asked to write slices of namespaces whose webhook does not answer: the API server
/// declines each of these writes after a while, and watchers see none of them.
pub(crate) struct BesideWebhook {
    product: Product,
    /// The slices before it are those of the case.
    first: usize,
    /// How long the API server waits for the webhook.
    limit: Duration,
    /// The writes that were sent, and when they are declined.
    sent: VecDeque<(Duration, usize)>,
    /// When the slices are wanted for the first time, one after the other.
    begins: VecDeque<(Duration, usize)>,
}

impl BesideWebhook {
    /// Creates a writer with so many such namespaces, whose five slices each are wanted from then on.
    pub(crate) fn new(case: &Case, pacing: Pacing, namespaces: usize, from: Duration) -> Self {
        const SLICES: usize = 5;
        let mut product = Product::new(case, pacing);
        product.simulated = product.simulated.with_namespaces(namespaces, SLICES);
        let (first, number) = (case.objects(), namespaces * SLICES);
        let begins = (0..number).map(|slice| {
            // Within a second.
            let after = Duration::from_secs(1).mul_f64(slice as f64 / number as f64);
            (from + after, first + slice)
        });
        Self {
            product,
            first,
            limit: Duration::from_secs(10),
            sent: VecDeque::new(),
            begins: begins.collect(),
        }
    }
}

impl Controller for BesideWebhook {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.product.wanted(object, priority, now);
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        while let Some((at, slice)) = self.begins.front().copied()
            && at <= now
        {
            self.begins.pop_front();
            self.product.wanted(slice, Priority::Remove, now);
        }
        while let Some((at, slice)) = self.sent.front().copied()
            && at <= now
        {
            self.sent.pop_front();
            self.product.simulated.declined(slice, self.limit, now);
        }
        loop {
            let grant = self.product.next(now)?;
            if grant.object < self.first {
                return Some(grant);
            }
            self.sent.push_back((now + self.limit, grant.object));
        }
    }

    fn wake(&self, now: Duration) -> Option<Duration> {
        let [begins, sent] = [&self.begins, &self.sent].map(|queue| queue.front().map(|(at, _)| *at));
        [self.product.wake(now), begins, sent].into_iter().flatten().min()
    }

    fn answered(
        &mut self,
        object: usize,
        version: u64,
        took: Duration,
        again: Option<Priority>,
        now: Duration,
    ) {
        self.product.answered(object, version, took, again, now);
    }

    fn echoed(&mut self, object: usize, version: u64, now: Duration) {
        self.product.echoed(object, version, now);
    }

    fn watch_begins(&mut self, now: Duration) {
        self.product.watch_begins(now);
    }
}

impl Controller for Product {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.simulated.want(object, priority, now);
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        while let Some((at, version)) = self.late.front().copied()
            && at <= now
        {
            self.late.pop_front();
            let shown = Signal::Shown {
                output: Output::Slice,
                version,
                at: now,
            };
            self.signal(&shown, now);
        }
        let next = self.simulated.next(self.bytes, now);
        let object = next.map_err(|until| self.wake = until).ok()?;
        Some(Grant {
            object,
            state_of: now,
        })
    }

    fn wake(&self, _now: Duration) -> Option<Duration> {
        let late = self.late.front().map(|(at, _)| *at);
        self.wake.into_iter().chain(late).min()
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
            .answered(object, WriteEffect::Written(version), took, again, now);
    }

    fn echoed(&mut self, _object: usize, version: u64, now: Duration) {
        if self.told {
            // Told with the next look, which follows at once.
            self.late.push_back((now.saturating_add(self.delay), version));
        }
    }

    fn watch_begins(&mut self, now: Duration) {
        if self.told {
            self.signal(&Signal::Opened(Output::Slice, Some(0)), now);
        }
    }
}
