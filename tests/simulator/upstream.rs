//! A controller that works like kube-controller-manager's: a line of Services, five workers that each bring one Service up
//! to date as a whole, and 20 requests a second, 30 at once. Slices and Endpoints are two such controllers.

use crate::world::{Answer, Object, SECOND, Want, Writer};
use endpointd::core::object::Output;
use endpointd::core::publish::{Load, WriteEffect};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const WORKERS: usize = 5;
const BURST: f64 = 30.0;
const QPS: f64 = 20.0;
/// The longest that a Service waits after failures.
const LONGEST_RETRY: Duration = Duration::from_secs(1000);

#[derive(Clone, Debug, Default)]
struct Service {
    objects: Vec<usize>,
    queued: bool,
    /// What a worker has to write for it; the first may be in flight.
    work: Option<VecDeque<usize>>,
    /// It has changed since the worker took it.
    changed: bool,
    failures: u32,
}

/// kube-controller-manager.
pub(crate) struct Upstream {
    slices: Controller,
    endpoints: Controller,
    of_slices: Vec<bool>,
}

impl Upstream {
    pub(crate) fn new(objects: &[Object]) -> Self {
        let is_slice = |object: &Object| object.output == Output::Slice;
        Self {
            slices: Controller::new(objects, is_slice),
            endpoints: Controller::new(objects, |object| !is_slice(object)),
            of_slices: objects.iter().map(is_slice).collect(),
        }
    }

    fn of(&mut self, object: usize) -> &mut Controller {
        if self.of_slices[object] {
            &mut self.slices
        } else {
            &mut self.endpoints
        }
    }
}

impl Writer for Upstream {
    fn want(&mut self, object: usize, _want: Want, _now: Duration) {
        let controller = self.of(object);
        controller.dirty[object] = true;
        controller.add(controller.service_of[object]);
    }

    fn next(&mut self, objects: &[Object], now: Duration) -> Result<usize, Option<Duration>> {
        let slices = match self.slices.next(objects, now) {
            Ok(object) => return Ok(object),
            Err(until) => until,
        };
        let endpoints = self.endpoints.next(objects, now);
        endpoints.map_err(|endpoints| slices.into_iter().chain(endpoints).min())
    }

    fn answered(
        &mut self,
        object: usize,
        answer: Answer,
        _took: Duration,
        again: Option<Want>,
        now: Duration,
    ) {
        self.of(object).answered(object, answer, again.is_some(), now);
    }

    fn shown(&mut self, object: usize, _output: Output, version: u64, _now: Duration) {
        self.of(object).seen[object] = version;
    }
}

struct Controller {
    services: BTreeMap<u32, Service>,
    service_of: Vec<u32>,
    queue: VecDeque<u32>,
    retries: BTreeSet<(Duration, u32)>,
    working: usize,
    /// Services whose worker waits for its turn to send.
    sending: VecDeque<u32>,
    tokens: f64,
    counted: Duration,
    /// By object: whether it has to be written, the version of the last answer, and that of the last event.
    dirty: Vec<bool>,
    written: Vec<u64>,
    seen: Vec<u64>,
}

impl Controller {
    fn new(objects: &[Object], is_its: impl Fn(&Object) -> bool) -> Self {
        let mut services: BTreeMap<u32, Service> = BTreeMap::new();
        for (number, object) in objects.iter().enumerate().filter(|(_, object)| is_its(object)) {
            services.entry(object.service).or_default().objects.push(number);
        }
        Self {
            services,
            service_of: objects.iter().map(|object| object.service).collect(),
            queue: VecDeque::new(),
            retries: BTreeSet::new(),
            working: 0,
            sending: VecDeque::new(),
            tokens: BURST,
            counted: Duration::ZERO,
            dirty: vec![false; objects.len()],
            written: vec![0; objects.len()],
            seen: vec![0; objects.len()],
        }
    }

    fn service(&mut self, number: u32) -> &mut Service {
        self.services.get_mut(&number).expect("a Service has objects")
    }

    fn add(&mut self, number: u32) {
        let service = self.service(number);
        if service.work.is_some() {
            service.changed = true;
        } else if !std::mem::replace(&mut service.queued, true) {
            self.queue.push_back(number);
        }
    }

    fn retry(&mut self, number: u32, now: Duration) {
        let service = self.service(number);
        let pause = SECOND * 2_u32.pow(service.failures.min(10));
        service.failures += 1;
        self.retries.insert((now + pause.min(LONGEST_RETRY), number));
    }

    /// Lets free workers take the next Services: creates first, then updates, then deletes.
    fn work(&mut self, objects: &[Object], now: Duration) {
        while let Some((_, number)) = self.retries.first().copied().filter(|(at, _)| *at <= now) {
            self.retries.pop_first();
            self.add(number);
        }
        while self.working < WORKERS
            && let Some(number) = self.queue.pop_front()
        {
            let service = self.services.get_mut(&number).expect("a Service has objects");
            service.queued = false;
            if service
                .objects
                .iter()
                .any(|object| self.seen[*object] < self.written[*object])
            {
                // Its last writes have not come back on the controller's own watch.
                self.retry(number, now);
                continue;
            }
            let due = service.objects.iter().copied();
            let mut due: Vec<_> = due.filter(|object| self.dirty[*object]).collect();
            if due.is_empty() {
                service.failures = 0;
                continue;
            }
            due.sort_by_key(|object| (objects[*object].exists, objects[*object].bytes == 0));
            service.work = Some(due.into());
            self.working += 1;
            self.sending.push_back(number);
        }
    }

    fn next(&mut self, objects: &[Object], now: Duration) -> Result<usize, Option<Duration>> {
        self.work(objects, now);
        let retry = self.retries.first().map(|(at, _)| *at);
        let Some(number) = self.sending.front().copied() else {
            return Err(retry);
        };
        let passed = now.saturating_sub(self.counted).as_secs_f64();
        (self.tokens, self.counted) = ((self.tokens + passed * QPS).min(BURST), now);
        if self.tokens < 1.0 - 1e-6 {
            let token = now + Duration::from_secs_f64((1.0 - self.tokens) / QPS);
            return Err(retry.into_iter().chain([token]).min());
        }
        self.tokens -= 1.0;
        self.sending.pop_front();
        let work = self.services[&number].work.as_ref();
        let object = *work
            .and_then(VecDeque::front)
            .expect("it waits to send something");
        self.dirty[object] = false;
        Ok(object)
    }

    fn answered(&mut self, object: usize, answer: Answer, again: bool, now: Duration) {
        let failed = answer.load != Load::Answered;
        if let WriteEffect::Written(version) = answer.effect {
            self.written[object] = version;
        }
        self.dirty[object] |= again;
        let number = self.service_of[object];
        let service = self.service(number);
        service.changed |= again && !failed;
        let work = service.work.as_mut().expect("a worker waits for the answer");
        work.pop_front();
        if !failed && !work.is_empty() {
            self.sending.push_back(number);
            return;
        }
        service.work = None;
        let changed = std::mem::take(&mut service.changed);
        if !failed {
            service.failures = 0;
        }
        self.working -= 1;
        if failed {
            self.retry(number, now);
        } else if changed {
            self.add(number);
        }
    }
}
