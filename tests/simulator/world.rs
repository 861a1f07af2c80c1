//! The world in virtual time: objects that change, the writer that writes them, the API servers that answer, and how long
//! each change waits until it is carried out.

use crate::rollout::{Rollouts, Step};
use crate::server::{Servers, Written};
use endpointd::core::backoff::Retry;
use endpointd::core::object::Output;
use endpointd::core::priority::Priority;
use endpointd::core::publish::{Load, WriteEffect};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A slice or an Endpoints object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub namespace: u32,
    pub service: u32,
    pub output: Output,
    /// The size of the next write of it; zero deletes it.
    pub bytes: usize,
    /// The API server has it.
    pub exists: bool,
    /// Changes of the objects of a party are counted together.
    pub party: &'static str,
    /// Since when it has changes of each priority that no write shows.
    due: [Option<Duration>; 3],
    flight: Option<Flight>,
    failures: u8,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sent: Duration,
    shows: [Option<Duration>; 3],
    answer: Answer,
}

impl Object {
    pub(crate) fn slice(namespace: u32, service: u32, bytes: usize, party: &'static str) -> Self {
        Self {
            namespace,
            service,
            output: Output::Slice,
            bytes,
            exists: bytes > 0,
            party,
            due: [None; 3],
            flight: None,
            failures: 0,
        }
    }

    pub(crate) fn endpoints(namespace: u32, service: u32, bytes: usize, party: &'static str) -> Self {
        Self {
            output: Output::Endpoints,
            ..Self::slice(namespace, service, bytes, party)
        }
    }
}

/// The answer to a write, after a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub load: Load,
    pub effect: WriteEffect,
    pub pause: Option<Duration>,
    pub after: Duration,
}

/// What a shard tells the writer of an object that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub priority: Priority,
    pub exists: bool,
    pub retry: Retry,
}

/// Decides which object is written next, and when.
pub(crate) trait Writer {
    /// An object that is not in flight has a change.
    fn want(&mut self, object: usize, want: Want, now: Duration);
    /// Returns the object that is written now, or when to ask again.
    fn next(&mut self, objects: &[Object], now: Duration) -> Result<usize, Option<Duration>>;
    /// A write was answered; the object is to be written again if it has other changes.
    fn answered(&mut self, object: usize, answer: Answer, took: Duration, again: Option<Want>, now: Duration);
    /// The controller's own watch has brought a version of an object.
    fn shown(&mut self, object: usize, output: Output, version: u64, now: Duration);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Change(usize, Priority),
    Pods(usize, Step),
    Answered(usize),
    Shown(usize, u64),
}

/// Changes that are counted together: the party of their objects, the output and the priority.
pub(crate) type Class = (&'static str, Output, Priority);

/// The answer of a webhook to a write, if it has one for the object at the time.
pub(crate) type Webhook = Box<dyn Fn(&Object, Duration) -> Option<Answer>>;

/// Objects, their writer and the API servers.
pub(crate) struct World {
    pub now: Duration,
    pub objects: Vec<Object>,
    pub servers: Servers,
    pub rollouts: Rollouts,
    pub webhook: Webhook,
    writer: Box<dyn Writer>,
    events: BTreeMap<(Duration, usize), Event>,
    number: usize,
    look: Option<Duration>,
    pub writes: usize,
    /// The most writes that were in flight.
    pub most_in_flight: usize,
    in_flight: usize,
    /// When the last write was carried out.
    pub over: Duration,
    /// How long each change has waited, by party, output and priority, with the time at which it was carried out.
    pub waits: BTreeMap<Class, Vec<(Duration, Duration)>>,
}

impl World {
    pub(crate) fn new(objects: Vec<Object>, writer: Box<dyn Writer>, servers: Servers) -> Self {
        Self {
            now: Duration::ZERO,
            objects,
            servers,
            rollouts: Rollouts::default(),
            webhook: Box::new(|_, _| None),
            writer,
            events: BTreeMap::new(),
            number: 0,
            look: None,
            writes: 0,
            most_in_flight: 0,
            in_flight: 0,
            over: Duration::ZERO,
            waits: BTreeMap::new(),
        }
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number), event);
    }

    /// Has an object change at a time.
    pub(crate) fn change(&mut self, object: usize, priority: Priority, at: Duration) {
        self.at(at, Event::Change(object, priority));
    }

    /// Has pods of a Deployment take a step at a time.
    pub(crate) fn step(&mut self, deployment: usize, step: Step, at: Duration) {
        self.at(at, Event::Pods(deployment, step));
    }

    /// Lets time pass. What still waits then counts as if it were carried out.
    pub(crate) fn play(&mut self, until: Duration) {
        loop {
            let event = self.events.first_key_value().map(|((at, _), _)| *at);
            let next = event.into_iter().chain(self.look).min();
            let Some(at) = next.filter(|at| *at <= until) else {
                break;
            };
            self.now = at;
            while let Some(first) = self.events.first_entry().filter(|first| first.key().0 <= at) {
                let event = first.remove();
                self.happens(event);
            }
            self.send();
        }
        self.now = until;
        for number in 0..self.objects.len() {
            let object = &mut self.objects[number];
            let flight = object.flight.take().map(|flight| flight.shows);
            for since in [object.due, flight.unwrap_or_default()] {
                self.count(number, since);
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Change(object, priority) => self.wants(object, priority),
            Event::Pods(deployment, step) => {
                for (object, priority) in Rollouts::step(self, deployment, step) {
                    self.wants(object, priority);
                }
            }
            Event::Answered(object) => self.answered(object),
            Event::Shown(object, version) => {
                let output = self.objects[object].output;
                self.writer.shown(object, output, version, self.now);
            }
        }
    }

    fn wants(&mut self, number: usize, priority: Priority) {
        let object = &mut self.objects[number];
        object.due[priority as usize].get_or_insert(self.now);
        if object.flight.is_none()
            && let Some(want) = self.due(number, Retry::Now)
        {
            self.writer.want(number, want, self.now);
        }
    }

    fn due(&self, number: usize, retry: Retry) -> Option<Want> {
        let object = &self.objects[number];
        let mut priorities = Priority::ALL.into_iter();
        let priority = priorities.find(|priority| object.due[*priority as usize].is_some())?;
        let exists = object.exists;
        Some(Want {
            priority,
            exists,
            retry,
        })
    }

    fn send(&mut self) {
        loop {
            match self.writer.next(&self.objects, self.now) {
                Ok(object) => self.write(object),
                Err(until) => {
                    self.look = until.map(|until| until.max(self.now + MS));
                    return;
                }
            }
        }
    }

    fn write(&mut self, number: usize) {
        self.writes += 1;
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
        self.rollouts.sent(number);
        let object = &self.objects[number];
        let answer = (self.webhook)(object, self.now).unwrap_or_else(|| {
            let written = self.servers.write(object.output, object.bytes, self.now);
            let Written {
                version,
                answered,
                shown,
            } = written;
            let effect = match object.bytes {
                0 => WriteEffect::Deleted(Some(version)),
                _ => WriteEffect::Written(version),
            };
            self.number += 1;
            self.events
                .insert((shown, self.number), Event::Shown(number, version));
            Answer {
                load: Load::Answered,
                effect,
                pause: None,
                after: answered.saturating_sub(self.now),
            }
        });
        let object = &mut self.objects[number];
        object.flight = Some(Flight {
            sent: self.now,
            shows: std::mem::take(&mut object.due),
            answer,
        });
        self.at(self.now + answer.after, Event::Answered(number));
    }

    fn answered(&mut self, number: usize) {
        self.in_flight -= 1;
        let object = &mut self.objects[number];
        let Flight { sent, shows, answer } = object.flight.take().expect("what is answered was sent");
        let mut retry = Retry::Now;
        if answer.load == Load::Answered {
            object.failures = 0;
            object.exists = matches!(answer.effect, WriteEffect::Written(_));
            self.over = self.now;
            self.count(number, shows);
            self.rollouts.carried_out(number);
        } else {
            for (due, since) in object.due.iter_mut().zip(shows) {
                *due = since.or(*due);
            }
            object.failures = object.failures.saturating_add(1);
            let failures = object.failures;
            retry = match answer.load {
                Load::Declined if answer.pause.is_none() && answer.after < SECOND => {
                    Retry::Slowly { failures }
                }
                _ => Retry::After { failures },
            };
        }
        let again = self.due(number, retry);
        let took = self.now.saturating_sub(sent);
        self.writer.answered(number, answer, took, again, self.now);
    }

    fn count(&mut self, number: usize, since: [Option<Duration>; 3]) {
        let Object { party, output, .. } = self.objects[number];
        for (priority, since) in Priority::ALL.into_iter().zip(since) {
            if let Some(since) = since {
                let waits = self.waits.entry((party, output, priority)).or_default();
                waits.push((self.now.saturating_sub(since), self.now));
            }
        }
    }

    /// Returns the time within which this part of the changes of a class was carried out.
    pub(crate) fn waited(&self, class: Class, part: f64) -> Duration {
        let waits = self.waits.get(&class).into_iter().flatten();
        let mut waits: Vec<_> = waits.map(|(wait, _)| *wait).collect();
        waits.sort_unstable();
        let at = (waits.len().saturating_sub(1) as f64 * part) as usize;
        waits.get(at).copied().unwrap_or_default()
    }

    /// Returns how long after a time the last change from before it was carried out.
    pub(crate) fn recovered(&self, end: Duration) -> Duration {
        let waits = self.waits.values().flatten();
        let before = waits.filter(|(wait, at)| *at > end && at.saturating_sub(*wait) < end);
        before
            .map(|(_, at)| at.saturating_sub(end))
            .max()
            .unwrap_or_default()
    }
}
