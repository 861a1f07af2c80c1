//! The product's publisher, with what the actors around it do: whatever it asks a shard for comes at once.

use crate::world::{Answer, Object, Want, Writer};
use endpointd::core::body::{Preconditions, Request};
use endpointd::core::hash::Hashed;
use endpointd::core::namespace::{BuiltRequest, WorkItem};
use endpointd::core::object::{ObjectKey, ObjectName, Output};
use endpointd::core::priority::{Priority, Stage};
use endpointd::core::publish::reports::{Reply, Reported};
use endpointd::core::publish::signals::Signal;
use endpointd::core::publish::{Landing, Load, Next, Pacing, Publisher, WatchLimits, Watchers};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The product's publisher.
pub(crate) struct Product {
    publisher: Publisher,
    keys: Vec<Hashed<ObjectKey>>,
    services: Vec<Arc<str>>,
    numbers: HashMap<Hashed<ObjectKey>, usize>,
    /// What was granted in one turn of the writer: then the shards are asked.
    granted: VecDeque<Hashed<ObjectKey>>,
}

/// The limits for watchers: those of the flags, with so many bytes a second for all where there are few.
pub(crate) fn limits(few: f64) -> WatchLimits {
    WatchLimits {
        watchers: Watchers::PerNode(1.0),
        total: 2e9,
        each: 0.4e6,
        few,
        ..WatchLimits::UNWATCHED
    }
}

/// The limits at the default flags.
pub(crate) const DEFAULT: f64 = 120e6;

impl Product {
    /// Creates a publisher at the default flags but for the limits for watchers, in a cluster of so many nodes.
    pub(crate) fn new(objects: &[Object], nodes: usize, watch: WatchLimits) -> Self {
        let key = |(number, object): (usize, &Object)| {
            let name = match object.output {
                Output::Endpoints => ObjectName::endpoints(service_name(object)),
                Output::Slice | Output::Mirrored => ObjectName::slice(format!("slice-{number}").into()),
            };
            ObjectKey::hashed(format!("namespace-{}", object.namespace), name)
        };
        let keys: Vec<_> = objects.iter().enumerate().map(key).collect();
        let pacing = Pacing {
            qps: 500.0,
            burst: 1000,
            watch,
            ..Pacing::unlimited(16)
        };
        let mut publisher = Publisher::new(pacing, 1);
        for output in [Output::Slice, Output::Endpoints] {
            publisher.signalled(&Signal::Opened(output, Some(0)), Duration::ZERO);
        }
        publisher.signalled(&Signal::Nodes(nodes), Duration::ZERO);
        Self {
            publisher,
            services: objects.iter().map(service_name).collect(),
            numbers: keys.iter().cloned().zip(0..).collect(),
            keys,
            granted: VecDeque::new(),
        }
    }

    fn report(&mut self, object: usize, reply: Option<Reply>, want: Option<Want>, now: Duration) {
        let key = &self.keys[object];
        let item = |want: Want| WorkItem {
            object: (*key.object).clone(),
            service: Arc::clone(&self.services[object]),
            exists: want.exists,
            priority: want.priority,
            stage: match want.priority {
                _ if !want.exists => Stage::Create,
                Priority::Remove => Stage::Remove,
                Priority::Add | Priority::Rest => Stage::Add,
            },
            retry: want.retry,
            reads: false,
        };
        let wanted = want.map(|want| (item(want), now));
        self.publisher.reported(key, Reported { reply, wanted }, now);
    }
}

fn service_name(object: &Object) -> Arc<str> {
    format!("service-{}", object.service).into()
}

impl Writer for Product {
    fn want(&mut self, object: usize, want: Want, now: Duration) {
        self.report(object, None, Some(want), now);
    }

    fn next(&mut self, objects: &[Object], now: Duration) -> Result<usize, Option<Duration>> {
        let mut wait = None;
        if self.granted.is_empty() {
            loop {
                match self.publisher.next(now) {
                    Next::Grant { key, .. } => self.granted.push_back(key),
                    Next::Wait { until, .. } => break wait = until,
                }
            }
        }
        let Some(key) = self.granted.pop_front() else {
            return Err(wait);
        };
        let number = self.numbers[&key];
        let object = &objects[number];
        let request = match (object.exists, object.bytes) {
            (_, 0) => Request::Delete(Preconditions::default()),
            (true, bytes) => Request::Update(vec![0; bytes]),
            (false, bytes) => Request::Create(vec![0; bytes]),
        };
        let built = BuiltRequest { request, changes: 1 };
        self.report(number, Some(Reply::Built(built)), None, now);
        Ok(number)
    }

    fn answered(
        &mut self,
        object: usize,
        answer: Answer,
        took: Duration,
        again: Option<Want>,
        now: Duration,
    ) {
        let landing = Landing {
            load: answer.load,
            effect: answer.effect,
            took,
            pause: answer.pause,
            has_shard: true,
        };
        self.publisher.answered(&self.keys[object], landing, now);
        let settled = again.is_none() && answer.load == Load::Answered;
        self.report(object, settled.then_some(Reply::Settled), again, now);
    }

    fn shown(&mut self, _object: usize, output: Output, version: u64, now: Duration) {
        let shown = Signal::Shown {
            output,
            version,
            at: now,
        };
        self.publisher.signalled(&shown, now);
        self.publisher.take_echoes();
        self.publisher.take_sent();
        self.publisher.take_beyond();
    }
}
