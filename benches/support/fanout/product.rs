//! The product's writer.

use super::{Case, Controller, Grant};
use endpointd::core::backoff::Retry;
use endpointd::core::body::Request;
use endpointd::core::hash::Hashed;
use endpointd::core::namespace::{Granted, WorkItem};
use endpointd::core::object::{ObjectKey, ObjectName};
use endpointd::core::publish::reports::{Reply, Reported};
use endpointd::core::publish::{Load, Next, Pacing, Publisher};
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
    wake: Option<Duration>,
    /// True if the publisher is told what the watch of slices brings.
    told: bool,
}

impl Product {
    /// The writer as it is.
    pub(crate) fn new(case: &Case, pacing: Pacing) -> Self {
        Self {
            told: true,
            ..Self::earlier(case, pacing)
        }
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
            request: Request::Update(Vec::new()),
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
        _version: u64,
        took: Duration,
        again: Option<Priority>,
        now: Duration,
    ) {
        self.publisher
            .answered(&self.keys[object], Load::Answered, took, None, true, now);
        let reply = again.is_none().then_some(Reply::Settled);
        self.report(object, reply, again, now);
    }

    fn echoed(&mut self, _object: usize, _version: u64, _now: Duration) {
        if self.told {
            // Here the publisher is told of a version that the watch of slices has brought. It does not ask for it yet.
        }
    }
}
