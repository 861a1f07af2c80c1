//! A writer and an API server that cannot keep up with it, in virtual time: pods flip at a rate, the writer sends the
//! objects that change, and a server of some workers answers them.
//!
//! Three writers can be compared: the product's [`Publisher`], the one before it ([`earlier`]), whose window grew until
//! the server refused, and an ideal one ([`ideal`]) that knows the server. All of them meet the same flips.

#[path = "saturation/earlier.rs"]
pub(crate) mod earlier;
#[path = "saturation/ideal.rs"]
pub(crate) mod ideal;
#[path = "saturation/server.rs"]
mod server;

use crate::simulated::Simulated;
use endpointd::core::priority::Priority;
use endpointd::core::publish::{Pacing, WriteEffect};
use server::Server;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A cluster, what happens in it, and its server.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Flips a second, as a multiple of the writes a second that the server can take.
    pub load: f64,
    pub namespaces: usize,
    /// In each namespace.
    pub services: usize,
    /// In each Service.
    pub slices: usize,
    /// In each slice.
    pub pods: usize,
    /// How long pods flip.
    pub lasting: Duration,
    /// Requests that the server works on at once.
    pub workers: usize,
    /// How long a worker is busy with a write, on average over all objects.
    pub each: Duration,
    /// Objects differ in size, the largest taking eight times as long as the smallest.
    pub mixed: bool,
    /// The part of its time by which a write may take longer or shorter than another of the object.
    pub jitter: f64,
    /// The way to the server and back.
    pub distance: Duration,
    /// From this time on everything takes so many times as long.
    pub turn: Option<(Duration, f64)>,
    /// Requests that the writers may have in flight at most.
    pub limit: usize,
    /// Each Service has Endpoints as well, which every flip of its pods changes. Only the product knows them.
    pub endpoints: bool,
    /// Requests that the product may send a second; zero means no limit.
    pub qps: f64,
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            load: 1.0,
            namespaces: 8,
            services: 5,
            slices: 5,
            pods: 20,
            lasting: Duration::from_secs(60),
            workers: 4,
            each: Duration::from_millis(20),
            mixed: false,
            jitter: 0.3,
            distance: Duration::from_millis(1),
            turn: None,
            limit: 64,
            endpoints: false,
            qps: 0.0,
            seed: 1,
        }
    }
}

impl Case {
    /// The number of slices.
    pub(crate) fn objects(&self) -> usize {
        self.namespaces * self.services * self.slices
    }

    /// The number of all objects: Endpoints come after slices.
    fn all_objects(&self) -> usize {
        let endpoints = if self.endpoints {
            self.objects() / self.slices
        } else {
            0
        };
        self.objects() + endpoints
    }

    /// Writes a second that the server can take.
    pub(crate) fn capacity(&self) -> f64 {
        self.workers as f64 / self.each.as_secs_f64()
    }
}

/// Decides which object is written next.
pub(crate) trait Writer {
    /// An object has a change, and is not in flight.
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration);
    /// Returns the object that is sent now, if one is.
    fn next(&mut self, now: Duration) -> Option<usize>;
    /// Returns when to ask for the next object at the latest, if it was not sent because of the time.
    fn wake(&self) -> Option<Duration> {
        None
    }
    /// A write was answered; the object is wanted again if it has changed meanwhile.
    fn answered(&mut self, object: usize, took: Duration, again: Option<Priority>, now: Duration);
    /// The number of requests that may be in flight.
    fn window(&self) -> usize;
}

/// The times from changes to the answers of the writes that show them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Returns a quantile in milliseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * quantile) as usize;
        let time = sorted.get(at.min(sorted.len().saturating_sub(1)));
        time.map_or(0.0, Duration::as_secs_f64) * 1e3
    }

    pub(crate) fn p50(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.quantile(0.99)
    }
}

/// The figures of a writer in a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub changes: usize,
    pub writes: usize,
    pub removals: Times,
    pub additions: Times,
    /// Both, of Endpoints.
    pub endpoints: Times,
    /// The window at each answer.
    pub windows: Vec<(Duration, usize)>,
    /// When each write was answered.
    pub answers: Vec<Duration>,
}

impl Figures {
    pub(crate) fn writes_a_change(&self) -> f64 {
        self.writes as f64 / self.changes.max(1) as f64
    }

    /// Answers a second between two times.
    pub(crate) fn rate(&self, from: Duration, to: Duration) -> f64 {
        let answers = self.answers.iter().filter(|at| (from..to).contains(*at));
        answers.count() as f64 / to.saturating_sub(from).as_secs_f64()
    }

    /// The mean window between two times.
    pub(crate) fn window(&self, from: Duration, to: Duration) -> f64 {
        let windows = self.windows.iter().filter(|(at, _)| (from..to).contains(at));
        let (count, sum) = windows.fold((0, 0), |(count, sum), (_, size)| (count + 1, sum + size));
        sum as f64 / f64::from(count.max(1))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Flip,
    /// A write is answered that was sent at this time.
    Answered(usize, Duration),
    /// The writer asked to look again.
    Look,
}

#[derive(Clone, Debug, Default)]
struct Object {
    ready: Vec<bool>,
    /// Changes that no write has taken along yet.
    changes: Vec<(Duration, Priority)>,
    in_flight: Vec<(Duration, Priority)>,
    flies: bool,
}

/// Plays a case: pods flip at equal distances in time, each time another one by chance.
pub(crate) fn play(case: &Case, writer: &mut dyn Writer) -> Figures {
    let mut random = fastrand::Rng::with_seed(case.seed);
    let slices = case.objects();
    let mut objects = vec![Object::default(); case.all_objects()];
    for object in &mut objects[..slices] {
        object.ready = (0..case.pods).map(|_| random.bool()).collect();
    }
    let mut server = Server::new(case);
    let mut figures = Figures::default();
    let gap = Duration::from_secs_f64(1.0 / (case.capacity() * case.load));
    let mut events = BinaryHeap::from([Reverse((Duration::ZERO, 0, Event::Flip))]);
    let (mut sequence, mut look) = (0, None);
    while let Some(Reverse((now, _, event))) = events.pop() {
        match event {
            Event::Flip => {
                let slice = random.usize(..slices);
                let ready = &mut objects[slice].ready[random.usize(..case.pods)];
                let priority = if *ready { Priority::Remove } else { Priority::Add };
                *ready = !*ready;
                figures.changes += 1;
                let endpoints = case.endpoints.then(|| slices + slice / case.slices);
                for at in [slice].into_iter().chain(endpoints) {
                    let object = &mut objects[at];
                    object.changes.push((now, priority));
                    if !object.flies {
                        writer.wanted(at, priority, now);
                    }
                }
                if now + gap < case.lasting {
                    sequence += 1;
                    events.push(Reverse((now + gap, sequence, Event::Flip)));
                }
            }
            Event::Answered(at, sent) => {
                let object = &mut objects[at];
                object.flies = false;
                for (since, priority) in object.in_flight.drain(..) {
                    match priority {
                        _ if at >= slices => figures.endpoints.push(now.saturating_sub(since)),
                        Priority::Remove => figures.removals.push(now.saturating_sub(since)),
                        _ => figures.additions.push(now.saturating_sub(since)),
                    }
                }
                let again = object.changes.iter().map(|(_, priority)| *priority).min();
                writer.answered(at, now.saturating_sub(sent), again, now);
                figures.answers.push(now);
                figures.windows.push((now, writer.window()));
            }
            Event::Look => look = None,
        }
        while let Some(at) = writer.next(now) {
            let object = &mut objects[at];
            (object.flies, object.in_flight) = (true, std::mem::take(&mut object.changes));
            figures.writes += 1;
            sequence += 1;
            let answered = server.serve(at, now);
            events.push(Reverse((answered, sequence, Event::Answered(at, now))));
        }
        if let Some(wake) = writer.wake().filter(|wake| look.is_none_or(|look| *wake < look)) {
            sequence += 1;
            look = Some(wake);
            events.push(Reverse((wake, sequence, Event::Look)));
        }
    }
    assert!(
        objects.iter().all(|object| object.changes.is_empty()),
        "a change was not written"
    );
    figures
}

/// The product's writer.
pub(crate) struct Product {
    simulated: Simulated,
    wake: Option<Duration>,
}

impl Product {
    pub(crate) fn new(case: &Case) -> Self {
        let of_namespace = case.services * case.slices;
        let pacing = Pacing {
            qps: case.qps,
            ..Pacing::unlimited(case.limit)
        };
        let slices = Simulated::new(case.objects(), of_namespace, case.slices, pacing, case.seed);
        Self {
            simulated: if case.endpoints {
                slices.with_endpoints(case.slices)
            } else {
                slices
            },
            wake: None,
        }
    }
}

impl Writer for Product {
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration) {
        self.simulated.want(object, priority, now);
    }

    fn next(&mut self, now: Duration) -> Option<usize> {
        let next = self.simulated.next(0, now);
        next.map_err(|until| self.wake = until).ok()
    }

    fn wake(&self) -> Option<Duration> {
        self.wake
    }

    fn answered(&mut self, object: usize, took: Duration, again: Option<Priority>, now: Duration) {
        self.simulated
            .answered(object, WriteEffect::Nothing, took, again, now);
    }

    fn window(&self) -> usize {
        self.simulated.publisher.window()
    }
}
