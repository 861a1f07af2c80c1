//! The product's writer.

use super::{Case, Controller, Grant};
use endpointd::core::backoff::Retry;
use endpointd::core::body::Request;
use endpointd::core::hash::Hashed;
use endpointd::core::namespace::{Granted, WorkItem};
use endpointd::core::object::{ObjectKey, ObjectName, Output};
use endpointd::core::publish::reports::{Reply, Reported};
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Effect, Landing, Load, Next, Pacing, Publisher, WatchLimits, Watchers};
use endpointd::core::queue::Priority;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The defaults of the flags.
pub(crate) const DEFAULT: Pacing = Pacing {
    qps: 500.0,
    burst: 1000,
    ..Pacing::unlimited(64)
};

/// The product's [`Publisher`]. What it asks a shard for comes at once.
pub(crate) struct Product {
    publisher: Publisher,
    keys: Vec<Hashed<ObjectKey>>,
    services: Vec<Arc<str>>,
    numbers: BTreeMap<Hashed<ObjectKey>, usize>,
    /// The size of a request.
    bytes: usize,
    wake: Option<Duration>,
    /// True if the publisher is told what the watch of slices brings.
    told: bool,
}

impl Product {
    /// The writer as it is, with the defaults of its flags on a cluster with a node for each watcher.
    pub(crate) fn new(case: &Case, mut pacing: Pacing) -> Self {
        pacing.watch = WatchLimits {
            watchers: Watchers::PerNode(1.0),
            total: 2.6e9,
            each: 0.52e6,
            ..WatchLimits::UNWATCHED
        };
        let mut writer = Self {
            told: true,
            ..Self::earlier(case, pacing)
        };
        writer.signal(&Signal::Nodes(case.servers.watchers), Duration::ZERO);
        writer.watch_begins(Duration::ZERO);
        writer
    }

    /// The same without a budget of bytes to watchers.
    pub(crate) fn without_budget(case: &Case, pacing: Pacing) -> Self {
        let mut writer = Self::new(case, pacing);
        let pacing = Pacing {
            watch: WatchLimits {
                watchers: Watchers::PerNode(1.0),
                ..WatchLimits::UNWATCHED
            },
            ..pacing
        };
        writer.publisher = Publisher::new(pacing, case.seed);
        writer.signal(&Signal::Nodes(case.servers.watchers), Duration::ZERO);
        writer.watch_begins(Duration::ZERO);
        writer
    }

    fn signal(&mut self, signal: &Signal, now: Duration) {
        self.publisher.signalled(signal, now);
        // Nothing reports them here.
        self.publisher.take_echoes();
    }

    /// The writer as it was before it knew of the watch of slices.
    pub(crate) fn earlier(case: &Case, pacing: Pacing) -> Self {
        let of_namespace = case.services * case.slices;
        let key = |object: usize| {
            Hashed::new(ObjectKey {
                namespace: format!("ns{}", object / of_namespace).into(),
                object: ObjectName::slice(format!("slice{object}").into()),
            })
        };
        let keys: Vec<_> = (0..case.objects()).map(key).collect();
        let service = |object: usize| format!("service{}", object / case.slices).into();
        Self {
            publisher: Publisher::new(pacing, case.seed),
            services: (0..case.objects()).map(service).collect(),
            numbers: keys.iter().cloned().zip(0..).collect(),
            keys,
            bytes: case.servers.bytes,
            wake: None,
            told: false,
        }
    }

    fn report(&mut self, object: usize, reply: Option<Reply>, wanted: Option<Priority>, now: Duration) {
        let item = |priority| WorkItem {
            object: self.keys[object].object.clone(),
            service: Arc::clone(&self.services[object]),
            exists: true,
            priority,
            retry: Retry::Now,
            reads: false,
        };
        let reported = Reported {
            reply,
            wanted: wanted.map(|priority| (item(priority), now)),
        };
        self.publisher.reported(&self.keys[object], reported, now);
    }
}

impl Controller for Product {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.report(object, None, Some(priority), now);
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        let key = match self.publisher.next(now) {
            Next::Grant { key, .. } => key,
            Next::Wait { until, .. } => {
                self.wake = until;
                return None;
            }
        };
        let object = self.numbers[&key];
        let granted = Granted {
            request: Request::Update(vec![0; self.bytes]),
            changes: 1,
        };
        self.report(object, Some(Reply::Built(granted)), None, now);
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
        let landing = Landing {
            load: Load::Answered,
            effect: Effect::Written(version),
            took,
            quiet: None,
            has_shard: true,
        };
        self.publisher.answered(&self.keys[object], landing, now);
        let reply = again.is_none().then_some(Reply::Settled);
        self.report(object, reply, again, now);
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
