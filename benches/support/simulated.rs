//! The product's publisher as the simulations drive it: objects have numbers, the Services and namespaces of a case follow
//! one another, and what the publisher asks a shard for comes at once.

use endpointd::core::backoff::Retry;
use endpointd::core::body::Request;
use endpointd::core::hash::Hashed;
use endpointd::core::namespace::{BuiltRequest, WorkItem};
use endpointd::core::object::{ObjectKey, ObjectName, Output};
use endpointd::core::priority::Priority;
use endpointd::core::publish::reports::{Reply, Reported};
use endpointd::core::publish::{Landing, Load, Next, Pacing, Publisher, WriteEffect};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A publisher, and the objects that it is asked to write.
pub(crate) struct Simulated {
    pub publisher: Publisher,
    keys: Vec<Hashed<ObjectKey>>,
    services: Vec<Arc<str>>,
    numbers: BTreeMap<Hashed<ObjectKey>, usize>,
}

/// Objects that wait for an ideal controller: removals come first, and the oldest object of a priority.
pub(crate) struct Waiting {
    order: BTreeSet<(Priority, Duration, usize)>,
    /// The place of each object in `order`.
    places: Vec<Option<(Priority, Duration)>>,
}

impl Waiting {
    pub(crate) fn new(objects: usize) -> Self {
        Self {
            order: BTreeSet::new(),
            places: vec![None; objects],
        }
    }

    /// Adds an object. One that waits already keeps its age, and the more urgent of both priorities.
    pub(crate) fn add(&mut self, object: usize, mut priority: Priority, mut since: Duration) {
        if let Some((before, first)) = self.places[object] {
            self.order.remove(&(before, first, object));
            (priority, since) = (priority.min(before), since.min(first));
        }
        self.places[object] = Some((priority, since));
        self.order.insert((priority, since, object));
    }

    pub(crate) fn pop(&mut self) -> Option<usize> {
        let (_, _, object) = self.order.pop_first()?;
        self.places[object] = None;
        Some(object)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Simulated {
    /// Creates a publisher of so many slices, with so many in each namespace and of each Service.
    pub(crate) fn new(
        objects: usize,
        of_namespace: usize,
        of_service: usize,
        pacing: Pacing,
        seed: u64,
    ) -> Self {
        let key = |object: usize| {
            ObjectKey::hashed(
                format!("ns{}", object / of_namespace),
                ObjectName::slice(format!("slice{object}").into()),
            )
        };
        let keys: Vec<_> = (0..objects).map(key).collect();
        let service = |object: usize| format!("service{}", object / of_service).into();
        Self {
            publisher: Publisher::new(pacing, seed),
            services: (0..objects).map(service).collect(),
            numbers: keys.iter().cloned().zip(0..).collect(),
            keys,
        }
    }

    /// Adds the Endpoints of each Service, whose numbers follow those of the slices.
    pub(crate) fn with_endpoints(mut self, of_service: usize) -> Self {
        for slice in (0..self.keys.len()).step_by(of_service) {
            let (namespace, service) = (&self.keys[slice].namespace, &self.services[slice]);
            let key = ObjectKey::hashed(Arc::clone(namespace), ObjectName::endpoints(Arc::clone(service)));
            self.numbers.insert(key.clone(), self.keys.len());
            self.services.push(Arc::clone(service));
            self.keys.push(key);
        }
        self
    }

    /// Adds so many slices of one Service in a namespace of their own. Their numbers follow those of the others.
    pub(crate) fn with_more(mut self, number: usize) -> Self {
        for more in 0..number {
            let key = ObjectKey::hashed("more", ObjectName::slice(format!("more{more}").into()));
            self.numbers.insert(key.clone(), self.keys.len());
            self.services.push("more".into());
            self.keys.push(key);
        }
        self
    }

    /// Adds namespaces with a Service of so many slices each. Their numbers follow those of the others.
    pub(crate) fn with_namespaces(mut self, namespaces: usize, slices: usize) -> Self {
        for namespace in 0..namespaces {
            let name: Arc<str> = format!("added{namespace}").into();
            for slice in 0..slices {
                let key = ObjectKey::hashed(
                    Arc::clone(&name),
                    ObjectName::slice(format!("slice{slice}").into()),
                );
                self.numbers.insert(key.clone(), self.keys.len());
                self.services.push(Arc::clone(&name));
                self.keys.push(key);
            }
        }
        self
    }

    /// Adds so many slices that mirror Endpoints, in a namespace of their own. Their numbers follow those of the others.
    pub(crate) fn with_mirrored(mut self, number: usize) -> Self {
        for mirrored in 0..number {
            let key = ObjectKey::hashed(
                "mirrored",
                ObjectName {
                    output: Output::Mirrored,
                    ..ObjectName::slice(format!("mirrored{mirrored}").into())
                },
            );
            self.numbers.insert(key.clone(), self.keys.len());
            self.services.push(format!("mirrored{mirrored}").into());
            self.keys.push(key);
        }
        self
    }

    fn report(&mut self, object: usize, reply: Option<Reply>, wanted: Option<Priority>, now: Duration) {
        let item = |priority| WorkItem {
            object: (*self.keys[object].object).clone(),
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

    /// Asks for an object to be written.
    pub(crate) fn want(&mut self, object: usize, priority: Priority, now: Duration) {
        self.report(object, None, Some(priority), now);
    }

    /// Returns the object that is granted now, with a request of so many bytes, or the time to look again.
    pub(crate) fn next(&mut self, bytes: usize, now: Duration) -> Result<usize, Option<Duration>> {
        let key = match self.publisher.next(now) {
            Next::Grant { key, .. } => key,
            Next::Wait { until, .. } => return Err(until),
        };
        let object = self.numbers[&key];
        let built = BuiltRequest {
            request: Request::Update(vec![0; bytes]),
            changes: 1,
        };
        self.report(object, Some(Reply::Built(built)), None, now);
        Ok(object)
    }

    /// Records the answer to an object's write, and whether it is wanted again.
    pub(crate) fn answered(
        &mut self,
        object: usize,
        effect: WriteEffect,
        took: Duration,
        again: Option<Priority>,
        now: Duration,
    ) {
        let load = Load::Answered;
        self.landed(object, load, effect, took, now);
        let reply = again.is_none().then_some(Reply::Settled);
        self.report(object, reply, again, now);
    }

    /// Records that an object's write was declined after that time, as by a webhook that did not answer, and that the object
    /// is wanted again at once.
    pub(crate) fn declined(&mut self, object: usize, took: Duration, now: Duration) {
        self.landed(object, Load::Declined, WriteEffect::Nothing, took, now);
        self.want(object, Priority::Remove, now);
    }

    fn landed(&mut self, object: usize, load: Load, effect: WriteEffect, took: Duration, now: Duration) {
        let landing = Landing {
            load,
            effect,
            took,
            pause: None,
            has_shard: true,
        };
        self.publisher.answered(&self.keys[object], landing, now);
    }
}
