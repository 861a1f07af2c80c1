//! A controller that works like kube-controller-manager's with its default flags: five workers, each of which brings one
//! Service up to date and writes its slices one after the other; 20 requests a second for all of them, 30 at once; and
//! no Service is looked at while its own watch has yet to show one of the Service's last writes. Such a Service is tried
//! again after a second, then two, then four.

use super::{Case, Controller, Grant};
use endpointd::core::priority::Priority;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

const WORKERS: usize = 5;
const QPS: f64 = 20.0;
const BURST: f64 = 30.0;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(1000);

#[derive(Clone, Debug, Default)]
struct Service {
    queued: bool,
    /// A worker has it.
    taken: bool,
    /// It has changed since the worker took it.
    changed: bool,
    failures: u32,
}

/// The work of a worker for a Service.
#[derive(Clone, Debug)]
struct Work {
    service: usize,
    /// When the worker looked at the Service's pods.
    state_of: Duration,
    /// Slices to write; the first one may be in flight.
    left: VecDeque<usize>,
}

pub(crate) struct KcmLike {
    /// Slices of a Service.
    slices: usize,
    services: Vec<Service>,
    queue: VecDeque<usize>,
    retries: BTreeSet<(Duration, usize)>,
    working: Vec<Work>,
    /// Services whose worker waits for its turn to send.
    sending: VecDeque<usize>,
    /// Requests that may be sent at once, as of a time.
    tokens: f64,
    counted: Duration,
    token_at: Option<Duration>,
    /// By object: whether it has to be written, the version of the last answer, and that of the last event.
    wanted: Vec<bool>,
    written: Vec<u64>,
    seen: Vec<u64>,
}

impl KcmLike {
    pub(crate) fn new(case: &Case) -> Self {
        let objects = case.objects();
        Self {
            slices: case.slices,
            services: vec![Service::default(); objects / case.slices],
            queue: VecDeque::new(),
            retries: BTreeSet::new(),
            working: Vec::new(),
            sending: VecDeque::new(),
            tokens: BURST,
            counted: Duration::ZERO,
            token_at: None,
            wanted: vec![false; objects],
            written: vec![0; objects],
            seen: vec![0; objects],
        }
    }

    fn add(&mut self, service: usize) {
        let state = &mut self.services[service];
        if state.taken {
            state.changed = true;
        } else if !state.queued {
            state.queued = true;
            self.queue.push_back(service);
        }
    }

    /// Lets free workers take the next Services.
    fn work(&mut self, now: Duration) {
        while let Some((at, service)) = self.retries.first().copied()
            && at <= now
        {
            self.retries.pop_first();
            self.add(service);
        }
        while self.working.len() < WORKERS
            && let Some(service) = self.queue.pop_front()
        {
            let objects = service * self.slices..(service + 1) * self.slices;
            let state = &mut self.services[service];
            state.queued = false;
            if objects
                .clone()
                .any(|object| self.seen[object] < self.written[object])
            {
                let pause = FIRST_RETRY * 2_u32.pow(state.failures.min(10));
                state.failures += 1;
                self.retries.insert((now + pause.min(LAST_RETRY), service));
                continue;
            }
            let left: VecDeque<_> = objects
                .filter(|object| std::mem::take(&mut self.wanted[*object]))
                .collect();
            if left.is_empty() {
                state.failures = 0;
                continue;
            }
            state.taken = true;
            self.sending.push_back(service);
            self.working.push(Work {
                service,
                state_of: now,
                left,
            });
        }
    }
}

impl Controller for KcmLike {
    fn wanted(&mut self, object: usize, _priority: Priority, _now: Duration) {
        self.wanted[object] = true;
        self.add(object / self.slices);
    }

    fn next(&mut self, now: Duration) -> Option<Grant> {
        self.work(now);
        self.token_at = None;
        let service = *self.sending.front()?;
        let passed = now.saturating_sub(self.counted).as_secs_f64();
        (self.tokens, self.counted) = ((self.tokens + passed * QPS).min(BURST), now);
        // Times are whole nanoseconds: a token that lacks less than one is there.
        if self.tokens < 1.0 - 1e-6 {
            self.token_at = Some(now + Duration::from_secs_f64((1.0 - self.tokens) / QPS));
            return None;
        }
        self.tokens -= 1.0;
        self.sending.pop_front();
        let work = self.working.iter().find(|work| work.service == service)?;
        Some(Grant {
            object: *work.left.front()?,
            state_of: work.state_of,
        })
    }

    fn wake(&self, _now: Duration) -> Option<Duration> {
        let retry = self.retries.first().map(|(at, _)| *at);
        [retry, self.token_at].into_iter().flatten().min()
    }

    fn answered(
        &mut self,
        object: usize,
        version: u64,
        _took: Duration,
        again: Option<Priority>,
        now: Duration,
    ) {
        self.written[object] = version;
        let service = object / self.slices;
        if let Some(priority) = again {
            self.wanted(object, priority, now);
        }
        let at = self.working.iter().position(|work| work.service == service);
        let at = at.expect("a worker waits for the answer");
        self.working[at].left.pop_front();
        if !self.working[at].left.is_empty() {
            self.sending.push_back(service);
            return;
        }
        self.working.remove(at);
        let state = &mut self.services[service];
        (state.taken, state.failures) = (false, 0);
        if std::mem::take(&mut state.changed) {
            self.add(service);
        }
    }

    fn echoed(&mut self, object: usize, version: u64, _now: Duration) {
        self.seen[object] = version;
    }
}
