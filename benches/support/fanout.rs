//! Pods that change, a controller that writes their slices, and API servers that pass the slices on to many watchers,
//! in virtual time. The servers are memory-apiserver's model of them ([`memory_apiserver::fanout`]).
//!
//! Controllers of four sorts can be compared: the product's writer ([`product`]), told of its own watch or not, one that
//! works like kube-controller-manager's ([`kcm`]), and one that knows the servers ([`ideal`]). All of them meet the same
//! changes.

#[path = "fanout/ideal.rs"]
pub(crate) mod ideal;
#[path = "fanout/kcm.rs"]
pub(crate) mod kcm;
#[path = "fanout/product.rs"]
pub(crate) mod product;

use endpointd::core::priority::Priority;
use endpointd::core::publish::Pacing;
use ideal::Ideal;
use kcm::KcmLike;
use memory_apiserver::fanout::{Change, Clients, Cluster, Config, Figures, Histogram, Output, Own};
use product::{DEFAULT, Product};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// How long a controller takes from a pod's event to its decision.
const REACTION: Duration = Duration::from_millis(1);

/// How long after all watchers have listed, since their connections had broken, everything has to be as it was before.
pub(crate) const RECOVERY: Duration = Duration::from_secs(10);

/// Which pods change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Any, by chance: each time another one becomes ready or unready.
    Random,
    /// The pods of the first Service, one after the other: each is removed, and another one takes its place.
    Rollout,
}

/// A cluster and what happens in it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub kind: Kind,
    /// Changes of pods a second. To replace one is two changes.
    pub rate: f64,
    pub lasting: Duration,
    /// How long the controller and the servers may take after that.
    pub patience: Duration,
    pub namespaces: usize,
    /// In each namespace.
    pub services: usize,
    /// In each Service.
    pub slices: usize,
    /// In each slice.
    pub pods: usize,
    pub seed: u64,
    pub servers: Config,
    /// When the connections of all watchers break, so that all of them list at once.
    pub breaks: Option<Duration>,
}

impl Case {
    /// 20,000 pods in 200 slices of 40 Services; for a rollout, one Service has 1,000 of them.
    pub(crate) fn new(kind: Kind, rate: f64, watchers: usize) -> Self {
        let (services, slices) = match kind {
            Kind::Random => (10, 5),
            Kind::Rollout => (5, 10),
        };
        Self {
            kind,
            rate,
            lasting: Duration::from_secs(20),
            patience: Duration::from_secs(60),
            namespaces: 4,
            services,
            slices,
            pods: 100,
            seed: 1,
            servers: Config::for_watchers(watchers),
            breaks: None,
        }
    }

    /// The same on servers for which updates of pods are at most 60% of what they can do. Without, they are the only
    /// thing that counts at 100 changes a second and more, since two cores can hardly take them.
    pub(crate) fn with_room(mut self) -> Self {
        let costs = &self.servers.costs;
        let pod = costs.pod + costs.pod_event + costs.others_write;
        let cores = (pod.as_secs_f64() * self.rate / 0.6).ceil() as usize;
        self.servers.cores = self.servers.cores.max(cores);
        self
    }

    /// Returns the case that was measured on a kube-apiserver with two cores for it, etcd and all clients: random pods
    /// of 20,000 become ready or unready, 50 a second, and 300 clients watch.
    pub(crate) fn measured(clients: Clients, seed: u64) -> Self {
        let mut case = Self::new(Kind::Random, 50.0, 300);
        case.patience = Duration::from_secs(150);
        (case.seed, case.servers.seed, case.servers.clients) = (seed, seed, clients);
        // The clients that list again did so without a pause.
        case.servers.list_pause = Duration::ZERO;
        case
    }

    /// The same with 200 clients, and 100 pods a second of two Services of 1,000.
    pub(crate) fn measured_two_services(seed: u64) -> Self {
        let mut case = Self::new(Kind::Random, 100.0, 200);
        (case.namespaces, case.services, case.slices) = (1, 2, 10);
        (case.seed, case.servers.seed) = (seed, seed);
        case
    }

    pub(crate) fn objects(&self) -> usize {
        self.namespaces * self.services * self.slices
    }
}

/// A write that a controller sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub object: usize,
    /// It shows the changes that the controller had noticed then.
    pub state_of: Duration,
}

/// Decides which slice is written next, and when.
pub(crate) trait Controller {
    /// An object has a change, and is not in flight.
    fn wanted(&mut self, object: usize, priority: Priority, now: Duration);
    /// Returns what is sent now, if anything is.
    fn next(&mut self, now: Duration) -> Option<Grant>;
    /// Returns when to ask again if nothing happens before.
    fn wake(&self, now: Duration) -> Option<Duration>;
    /// A write was answered; the object is wanted again if it has other changes.
    fn answered(
        &mut self,
        object: usize,
        version: u64,
        took: Duration,
        again: Option<Priority>,
        now: Duration,
    );
    /// The controller's own watch has brought a version of an object. It may come before the answer does.
    fn echoed(&mut self, object: usize, version: u64, now: Duration);
    /// The controller's own watch has begun again, after the server had ended it.
    fn watch_begins(&mut self, _now: Duration) {}
    /// The number of writes that a watcher has yet to get, on average. Only a controller that knows the servers may use
    /// it.
    fn backlog(&mut self, _writes: f64) {}
}

/// The result of a controller in a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub changes: u64,
    pub servers: Figures,
    /// The most writes that were answered but not yet seen by the controller's own watch.
    pub unechoed: usize,
    /// When all was written and passed on, or nothing if it never was.
    pub over: Option<Duration>,
    /// The times until watchers saw changes, of what they saw [`RECOVERY`] or later after they had listed again.
    pub recovered: Histogram,
}

impl Outcome {
    pub(crate) fn writes_a_change(&self) -> f64 {
        self.servers.writes as f64 / self.changes.max(1) as f64
    }

    /// The times until changes were seen, by all watchers, or by the controller's own watch if there are none.
    pub(crate) fn seen(&self) -> Histogram {
        let seen = self.servers.seen();
        if seen.total() == 0 {
            self.servers.own.clone()
        } else {
            seen
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Changes,
    /// The controller has decided about a pod.
    Noticed(u64),
    /// The connections of all watchers break.
    Break,
    /// The servers and their clients have had [`RECOVERY`] since.
    Recovered,
}

/// A pod that changed.
#[derive(Clone, Copy, Debug)]
struct Changed {
    object: usize,
    priority: Priority,
    since: Duration,
}

#[derive(Clone, Debug, Default)]
struct Object {
    ready: Vec<bool>,
    /// The changes that have been noticed and not been written yet, and when they were noticed.
    changes: Vec<(Duration, Priority, Change)>,
    flies: Option<Duration>,
}

struct Player<'a> {
    case: &'a Case,
    controller: &'a mut dyn Controller,
    cluster: Cluster,
    random: fastrand::Rng,
    objects: Vec<Object>,
    changed: Vec<Changed>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    now: Duration,
    /// The last versions that were answered and that came back, by object.
    answered: Vec<u64>,
    echoed: Vec<u64>,
    unechoed: usize,
    /// True while watchers list whose connections have broken.
    lists: bool,
    /// The times until watchers saw changes, counted until they should have recovered.
    before: Histogram,
    outcome: Outcome,
}

/// The controllers that can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    KcmLike,
    /// The product without what it hears from its own watch.
    Earlier,
    /// The same with `--kube-api-qps=30` and a burst of 30.
    Thirty,
    /// The product.
    Now,
    Ideal,
}

impl Sort {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KcmLike => "kcm-like",
            Self::Earlier => "earlier",
            Self::Thirty => "earlier, 30 a second",
            Self::Now => "now",
            Self::Ideal => "ideal",
        }
    }

    /// Plays a case with such a controller.
    pub(crate) fn play(self, case: &Case) -> Outcome {
        let thirty = Pacing {
            qps: 30.0,
            burst: 30,
            ..DEFAULT
        };
        match self {
            Self::KcmLike => {
                let mut case = case.clone();
                case.servers.own = Own::FULL;
                play(&case, &mut KcmLike::new(&case))
            }
            Self::Earlier => play(case, &mut Product::earlier(case, DEFAULT)),
            Self::Thirty => play(case, &mut Product::earlier(case, thirty)),
            Self::Now => play(case, &mut Product::new(case, DEFAULT)),
            Self::Ideal => play(case, &mut Ideal::new(case)),
        }
    }
}

/// Plays a case. Pods change at equal distances in time.
pub(crate) fn play(case: &Case, controller: &mut dyn Controller) -> Outcome {
    let mut random = fastrand::Rng::with_seed(case.seed);
    let mut objects = vec![Object::default(); case.objects()];
    for object in &mut objects {
        object.ready = (0..case.pods).map(|_| random.bool()).collect();
    }
    let mut player = Player {
        cluster: Cluster::new(Config {
            slices: case.servers.slices.max(case.objects()),
            ..case.servers.clone()
        }),
        case,
        controller,
        random,
        answered: vec![0; objects.len()],
        echoed: vec![0; objects.len()],
        objects,
        changed: Vec::new(),
        events: BinaryHeap::from([Reverse((Duration::ZERO, 0, Event::Changes))]),
        now: Duration::ZERO,
        unechoed: 0,
        lists: false,
        before: Histogram::default(),
        outcome: Outcome::default(),
    };
    if let Some(at) = case.breaks {
        player.events.push(Reverse((at, 0, Event::Break)));
    }
    player.play();
    player.outcome.servers = player.cluster.figures().clone();
    player.outcome.recovered = player.outcome.servers.seen().since(&player.before);
    player.outcome
}

impl Player<'_> {
    fn play(&mut self) {
        let end = self.case.lasting + self.case.patience;
        while self.now < end {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let wake = self.controller.wake(self.now);
            let wake = wake.map(|at| at.max(self.now + Duration::from_micros(100)));
            let until = [event, wake].into_iter().flatten().min().unwrap_or(end);
            if let Some(output) = self.cluster.run(until) {
                self.tell(output);
            } else {
                self.now = self.now.max(until);
                if event.is_some_and(|at| at <= self.now)
                    && let Some(Reverse((_, _, event))) = self.events.pop()
                {
                    self.happens(event);
                }
            }
            if self.lists && self.cluster.figures().listed >= self.case.servers.watchers as u64 {
                self.lists = false;
                let recovered = (self.now + RECOVERY, 0, Event::Recovered);
                self.events.push(Reverse(recovered));
            }
            self.controller.backlog(self.cluster.backlog());
            while let Some(grant) = self.controller.next(self.now) {
                self.send(grant);
            }
            let written = || self.objects.iter().all(|object| object.changes.is_empty());
            if self.events.is_empty() && self.cluster.is_idle() && written() {
                self.outcome.over = Some(self.cluster.last_event());
                return;
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Break => {
                self.cluster.break_connections(self.now);
                self.lists = true;
            }
            Event::Recovered => self.before = self.cluster.figures().seen(),
            Event::Changes => {
                let (object, priority) = self.pick();
                let pod = self.changed.len() as u64;
                self.outcome.changes += 1;
                self.changed.push(Changed {
                    object,
                    priority,
                    since: Duration::ZERO,
                });
                self.cluster.update_pod(pod, self.now);
                let next = self.now + Duration::from_secs_f64(1.0 / self.case.rate);
                let pods = 2 * self.case.slices * self.case.pods;
                if next < self.case.lasting && (self.case.kind == Kind::Random || (pod as usize) + 1 < pods) {
                    self.events.push(Reverse((next, 0, Event::Changes)));
                }
            }
            Event::Noticed(pod) => {
                let Changed {
                    object,
                    priority,
                    since,
                } = self.changed[pod as usize];
                let removal = priority == Priority::Remove;
                let noticed = (self.now, priority, Change { since, removal });
                let state = &mut self.objects[object];
                state.changes.push(noticed);
                if state.flies.is_none() {
                    self.controller.wanted(object, priority, self.now);
                }
            }
        }
    }

    /// Chooses the pod that changes now.
    fn pick(&mut self) -> (usize, Priority) {
        match self.case.kind {
            Kind::Random => {
                let object = self.random.usize(..self.objects.len());
                let ready = &mut self.objects[object].ready[self.random.usize(..self.case.pods)];
                *ready = !*ready;
                let priority = if *ready { Priority::Add } else { Priority::Remove };
                (object, priority)
            }
            Kind::Rollout => {
                let number = self.changed.len();
                let priority = if number.is_multiple_of(2) {
                    Priority::Remove
                } else {
                    Priority::Add
                };
                (number / 2 / self.case.pods, priority)
            }
        }
    }

    fn tell(&mut self, output: Output) {
        match output {
            Output::Pod { pod, changed, at } => {
                self.now = at;
                self.changed[pod as usize].since = changed;
                self.events
                    .push(Reverse((at + REACTION, pod, Event::Noticed(pod))));
            }
            Output::Answered { object, version, at } => {
                self.now = at;
                let state = &mut self.objects[object];
                let sent = state.flies.take().expect("what is answered was sent");
                let again = state.changes.iter().map(|(_, priority, _)| *priority).min();
                self.answered[object] = version;
                if self.echoed[object] < version {
                    self.unechoed += 1;
                    self.outcome.unechoed = self.outcome.unechoed.max(self.unechoed);
                }
                self.controller
                    .answered(object, version, at.saturating_sub(sent), again, at);
            }
            Output::Echo { object, version, at } => {
                self.now = at;
                if self.answered[object] >= version {
                    self.unechoed -= 1;
                }
                self.echoed[object] = version;
                self.controller.echoed(object, version, at);
            }
            Output::Ended { watcher, at } => {
                self.now = at;
                if watcher == self.case.servers.watchers {
                    self.controller.watch_begins(at);
                }
            }
        }
    }

    fn send(&mut self, grant: Grant) {
        let state = &mut self.objects[grant.object];
        let shown = |noticed: &(Duration, Priority, Change)| noticed.0 <= grant.state_of;
        let changes: Vec<_> = state
            .changes
            .extract_if(.., |noticed| shown(noticed))
            .map(|(_, _, change)| change)
            .collect();
        state.flies = Some(self.now);
        let bytes = self.case.servers.bytes;
        self.cluster.write(grant.object, bytes, &changes, self.now);
    }
}
