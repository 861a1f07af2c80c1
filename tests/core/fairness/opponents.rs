//! Parties that compete for writes, each with a habit that an opponent of the others might choose, and the world in
//! which they do: a queue from which one object goes in each tick in which the window has room.

use endpointd::core::priority::Priority;
use endpointd::core::publish::queue::{Classes, Urgency, WriteQueue};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

/// Objects age while few others go.
const TICK: Duration = Duration::from_secs(1);
/// The number of last writes after which a namespace with slices comes before those that have only Endpoints.
const LAST: usize = 256;
/// The number of classes: of three priorities, of slices and then of Endpoints.
pub(super) const CLASSES: usize = 6;

/// How a competitor wants its objects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Habit {
    /// One after the other, so many ticks apart.
    Steady(usize),
    /// So many at once, and so many ticks later the next ones.
    Burst(usize, usize),
    /// The same again and again, in each tick, with any of its priorities.
    Nags,
    /// Each one again as soon as it was answered.
    Full,
    /// The same, with no more than so many.
    Few(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Competitor {
    /// Its objects are in so many namespaces, from the first on.
    first: u64,
    namespaces: u64,
    objects: usize,
    /// In each namespace.
    services: u64,
    endpoints: bool,
    priorities: Vec<Priority>,
    habit: Habit,
    /// The ticks in which it is there.
    from: usize,
    until: usize,
}

/// The limits that decide which classes may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limits {
    None,
    /// Only at one write in so many others than removals may go.
    MostlyRemovals(usize),
    /// Endpoints may not go for as many writes as they may.
    EndpointsInTurns(usize),
    /// Slices may not go at every other write, but for removals.
    SlicesAtEveryOther,
}

#[derive(Clone, Debug)]
pub(super) struct Opponents {
    competitors: Vec<Competitor>,
    limits: Limits,
    window: usize,
    /// Ticks until a write is answered.
    answer: usize,
    /// True if the queue knows the pace.
    paced: bool,
    ticks: usize,
    seed: u64,
}

pub(super) fn opponents() -> impl Strategy<Value = Opponents> {
    let limits = prop_oneof![
        3 => Just(Limits::None),
        1 => (2..5usize).prop_map(Limits::MostlyRemovals),
        1 => (1..20usize).prop_map(Limits::EndpointsInTurns),
        1 => Just(Limits::SlicesAtEveryOther),
    ];
    (
        vec(competitor(), 1..7),
        limits,
        1..12usize,
        1..6usize,
        any::<bool>(),
        100..700usize,
        any::<u64>(),
    )
        .prop_map(
            |(competitors, limits, window, answer, paced, ticks, seed)| Opponents {
                competitors,
                limits,
                window,
                answer,
                paced,
                ticks,
                seed,
            },
        )
}

fn competitor() -> impl Strategy<Value = Competitor> {
    let habit = prop_oneof![
        (1..8usize).prop_map(Habit::Steady),
        (1..60usize, 1..60usize).prop_map(|(size, every)| Habit::Burst(size, every)),
        Just(Habit::Nags),
        Just(Habit::Full),
        (1..4usize).prop_map(Habit::Few),
    ];
    let priorities = vec(prop::sample::select(&Priority::ALL), 1..3);
    let who = (
        0..6u64,
        prop_oneof![3 => Just(1), 1 => 1..40u64],
        1..60usize,
        1..4u64,
    );
    let when = (
        prop_oneof![Just(0), 0..300usize],
        prop_oneof![Just(usize::MAX), 0..500usize],
    );
    (who, any::<bool>(), priorities, habit, when).prop_map(
        |((first, namespaces, objects, services), endpoints, priorities, habit, (from, until))| Competitor {
            first,
            namespaces,
            objects,
            services,
            endpoints,
            priorities,
            habit,
            from,
            until,
        },
    )
}

#[derive(Clone, Debug)]
struct Object {
    competitor: usize,
    tenant: u64,
    group: u64,
    waits: Option<Waits>,
    flies: bool,
    /// It was wanted again while it was in flight.
    again: Option<Waits>,
}

impl Object {
    fn at(&self, class: usize) -> Place {
        Place {
            tenant: self.tenant,
            group: self.group,
            class,
        }
    }
}

/// An object that waits: since when, and for which classes it was wanted, as bits.
#[derive(Clone, Copy, Debug)]
struct Waits {
    since: usize,
    classes: u8,
}

impl Waits {
    fn classes(self) -> impl Iterator<Item = usize> {
        (0..CLASSES).filter(move |class| self.classes & 1 << class != 0)
    }
}

/// A namespace, a Service of it, and a class for which an object of that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub tenant: u64,
    pub group: u64,
    pub class: usize,
}

/// A write: what waited and might have gone, and what went.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// What might have gone.
    pub might_go: Vec<Place>,
    /// The ticks for which the oldest of them has waited, by class.
    pub waited: [usize; CLASSES],
    /// What waited, whether or not it might have gone, and what still does.
    pub waited_before: Vec<Place>,
    pub wait: Vec<Place>,
    /// Of the object that went, one for each class for which it was wanted.
    pub went: Vec<Place>,
    /// True if a change of a slice went whose namespace had none of the last 256 writes for which others waited.
    pub first_for_long: bool,
    /// True if an older object of the same Service waits that was wanted for the same classes.
    pub overtaken: bool,
}

pub(super) struct World<'a> {
    opponents: &'a Opponents,
    queue: WriteQueue<usize>,
    objects: Vec<Object>,
    in_flight: VecDeque<(usize, usize)>,
    tick: usize,
    writes: usize,
    /// The namespaces of the writes for which others waited.
    tenants: Vec<u64>,
    random: fastrand::Rng,
}

impl<'a> World<'a> {
    pub(super) fn new(opponents: &'a Opponents) -> Self {
        let mut objects = Vec::new();
        for (number, competitor) in opponents.competitors.iter().enumerate() {
            for object in 0..competitor.objects as u64 {
                let tenant = competitor.first + object % competitor.namespaces;
                let service = object / competitor.namespaces % competitor.services;
                objects.push(Object {
                    competitor: number,
                    tenant,
                    group: (number as u64) << 32 | tenant << 16 | service,
                    waits: None,
                    flies: false,
                    again: None,
                });
            }
        }
        let mut queue = WriteQueue::default();
        queue.set_pace(opponents.paced.then_some(TICK));
        Self {
            opponents,
            queue,
            objects,
            in_flight: VecDeque::new(),
            tick: 0,
            writes: 0,
            tenants: Vec::new(),
            random: fastrand::Rng::with_seed(opponents.seed),
        }
    }

    fn now(&self) -> Duration {
        TICK * self.tick as u32
    }

    fn want(&mut self, object: usize) {
        let known = &mut self.objects[object];
        let competitor = &self.opponents.competitors[known.competitor];
        let priority = competitor.priorities[self.random.usize(..competitor.priorities.len())];
        let urgency = Urgency {
            priority,
            yields: competitor.endpoints,
            tenant: known.tenant,
            group: known.group,
        };
        let classes = 1 << class(priority, competitor.endpoints);
        let waits = if known.flies {
            &mut known.again
        } else {
            &mut known.waits
        };
        match waits {
            // A lower priority than before changes nothing.
            Some(waits) if waits.classes.trailing_zeros() <= u8::trailing_zeros(classes) => {}
            Some(waits) => waits.classes |= classes,
            None => {
                let since = self.tick;
                *waits = Some(Waits { since, classes });
            }
        }
        self.queue
            .want(object, urgency, Duration::ZERO, TICK * self.tick as u32);
    }

    /// Has all competitors want what they want in this tick.
    fn compete(&mut self) {
        let mut first = 0;
        for number in 0..self.opponents.competitors.len() {
            let Competitor {
                objects,
                habit,
                from,
                until,
                ..
            } = self.opponents.competitors[number];
            let all = first..first + objects;
            first += objects;
            if !(from..until).contains(&self.tick) {
                continue;
            }
            let passed = self.tick - from;
            match habit {
                Habit::Steady(every) if passed.is_multiple_of(every) => {
                    self.want(all.start + passed / every % objects);
                }
                Habit::Burst(size, every) if passed.is_multiple_of(every) => {
                    for object in 0..size.min(objects) {
                        self.want(all.start + (passed / every * size + object) % objects);
                    }
                }
                Habit::Nags => self.want(all.start),
                Habit::Full => self.keep_up(all),
                Habit::Few(count) => self.keep_up(all.start..all.start + count.min(objects)),
                Habit::Steady(_) | Habit::Burst(..) => {}
            }
        }
    }

    fn keep_up(&mut self, objects: std::ops::Range<usize>) {
        for object in objects {
            if self.objects[object].waits.is_none() && !self.objects[object].flies {
                self.want(object);
            }
        }
    }

    /// Returns the classes that the limits let go: removals of slices, their others, and the same of Endpoints.
    fn limits(&self) -> [bool; 4] {
        match self.opponents.limits {
            Limits::None => [true; 4],
            Limits::MostlyRemovals(others) => {
                let others = self.writes.is_multiple_of(others);
                [true, others, true, others]
            }
            Limits::EndpointsInTurns(writes) => {
                let endpoints = (self.writes / writes).is_multiple_of(2);
                [true, true, endpoints, endpoints]
            }
            Limits::SlicesAtEveryOther => [true, self.writes.is_multiple_of(2), true, true],
        }
    }

    /// Plays on until the next write could go, and returns what might have gone and what went.
    pub(super) fn step(&mut self) -> Option<Step> {
        while self.tick < self.opponents.ticks {
            self.tick += 1;
            while let Some((at, object)) = self.in_flight.front().copied()
                && at <= self.tick
            {
                self.in_flight.pop_front();
                let known = &mut self.objects[object];
                known.flies = false;
                // Among the most urgent of the classes for which it was wanted meanwhile.
                known.waits = known.again.take().map(|waits| Waits {
                    classes: waits.classes & waits.classes.wrapping_neg(),
                    ..waits
                });
                self.queue.landed(&object, true, TICK * self.tick as u32);
            }
            self.compete();
            if self.in_flight.len() < self.opponents.window {
                return Some(self.write());
            }
        }
        None
    }

    fn write(&mut self) -> Step {
        let most = self.opponents.window.div_ceil(2);
        let limits = self.limits();
        let mut step = Step {
            waited_before: self.waiting(),
            ..Step::default()
        };
        for object in &self.objects {
            let Some(waits) = object.waits else { continue };
            let out = self.in_flight.iter();
            let out = out.filter(|(_, other)| self.objects[*other].tenant == object.tenant);
            let has_room = out.count() < most;
            for class in waits.classes() {
                let limit = class / 3 * 2 + usize::from(class % 3 != 0);
                if limits[limit] && has_room {
                    step.might_go.push(object.at(class));
                    step.waited[class] = step.waited[class].max(self.tick - waits.since);
                }
            }
        }
        step.might_go.sort_unstable();
        step.might_go.dedup();
        let sets = [
            Classes::SLICE_REMOVALS,
            Classes::SLICE_OTHERS,
            Classes::ENDPOINTS_REMOVALS,
            Classes::ENDPOINTS_OTHERS,
        ];
        let refused = sets.into_iter().zip(limits).filter(|(_, may)| !may);
        let classes = refused.fold(Classes::ALL, |classes, (set, _)| classes.without(set));
        let now = self.now();
        if let Some((object, ..)) = self.queue.next(most, classes, now) {
            self.queue.built(&object);
            self.writes += 1;
            let known = &mut self.objects[object];
            let waited = known.waits.take().unwrap();
            known.flies = true;
            let (group, tenant) = (known.group, known.tenant);
            let mut last = self.tenants.iter().rev().take(LAST);
            step.first_for_long = waited.classes().any(|class| class < 2) && last.all(|last| *last != tenant);
            if waited.classes().count() > 1 || self.objects.iter().any(|object| object.waits.is_some()) {
                self.tenants.push(tenant);
            }
            let known = &self.objects[object];
            step.went = waited.classes().map(|class| known.at(class)).collect();
            self.in_flight
                .push_back((self.tick + self.opponents.answer, object));
            step.overtaken = self.objects.iter().any(|other| {
                let older = other.waits.filter(|waits| waits.since < waited.since);
                other.group == group
                    && older.is_some_and(|older| older.classes & waited.classes == waited.classes)
            });
        }
        step.wait = self.waiting();
        step
    }

    /// Returns what waits.
    fn waiting(&self) -> Vec<Place> {
        let objects = self.objects.iter();
        let waiting = objects.filter_map(|object| Some((object, object.waits?)));
        let mut waiting: Vec<_> = waiting
            .flat_map(|(object, waits)| waits.classes().map(move |class| object.at(class)))
            .collect();
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }
}

fn class(priority: Priority, endpoints: bool) -> usize {
    priority as usize + if endpoints { 3 } else { 0 }
}
