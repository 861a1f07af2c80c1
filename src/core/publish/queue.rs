//! The objects that are due and in flight, in the order in which they are written: Services take turns.
//!
//! A turn sends what is due of one Service: objects to create, updates that add endpoints, other updates, deletions. So no
//! removal is sent before an addition of its own Service that was due as early. What becomes due meanwhile waits for the next round. Slices and Endpoints
//! have turns of their own, and so have namespaces that are slow and those that were not written yet.

mod services;

use self::services::{Lane, Namespace, Service};
use super::resource::Resource;
use super::tuning::TUNING;
use super::turns::{Age, Turns, Waiting};
use crate::core::deadlines::Deadlines;
use crate::core::hash::{Hashed, IdMap, KnownState};
use crate::core::object::ObjectKey;
use crate::core::priority::{Priority, Stage};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// What decides when an object's turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// Its resource.
    pub resource: Resource,
    /// The priority of the change.
    pub priority: Priority,
    /// Its place among the writes of its Service.
    pub stage: Stage,
    /// The hash of its namespace.
    pub namespace: u64,
    /// The hash of its namespace and Service.
    pub service: u64,
}

/// An object whose turn has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted<K> {
    /// The object.
    pub key: K,
    /// The priority of its change.
    pub priority: Priority,
    /// For how long it has waited.
    pub age: Duration,
}

/// Objects that are due, each at most once, and those in flight. To want an object again never moves it back. Owned by the writer.
#[derive(Clone, Debug)]
pub struct WriteQueue<K, S> {
    entries: HashMap<K, Entry, S>,
    /// Objects that may not go yet, by the time from which they may.
    delayed: BTreeSet<(Duration, u64, K)>,
    services: IdMap<u64, Service<K>>,
    namespaces: IdMap<u64, Namespace>,
    /// The Services, by the time since which they are out of sync.
    oldest: BTreeSet<(Duration, u64)>,
    /// By resource and lane: the turns of namespaces.
    turns: [[Turns; 3]; 2],
    /// By resource: the turn that has begun.
    current: [Option<CurrentTurn<K>>; 2],
    /// By resource: true if the last turn was not in the normal lane.
    was_slow: [bool; 2],
    /// The namespaces whose last write was answered promptly, and those that are slow since then.
    prompt: IdMap<u64, bool>,
    /// Namespaces that have no turn, and until when.
    paused: Deadlines<u64>,
    /// The most writes that a namespace may have in flight.
    most: usize,
    sequence: u64,
    in_flight: usize,
    /// By resource: the objects that may go.
    ready: [usize; 2],
    /// The objects that wait, including delayed ones.
    waiting: usize,
}

/// The queue of the objects that the controller writes.
pub type ObjectQueue = WriteQueue<Hashed<ObjectKey>, KnownState>;

/// The place of an object in a turn.
type Rank = (u64, Stage, Age);

#[derive(Clone, Debug)]
struct CurrentTurn<K> {
    namespace: u64,
    service: u64,
    /// What it sends.
    keys: VecDeque<K>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// The time at which it was first wanted since it last went.
    since: Duration,
    due: Due,
    sequence: u64,
    /// What became ready in an earlier round of its Service goes first, so that endless additions do not hold up a removal.
    round: u64,
}

impl Entry {
    fn rank(&self) -> Rank {
        (self.round, self.due.stage, (self.since, self.sequence))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    Delayed {
        until: Duration,
    },
    InFlight {
        again: Option<Duration>,
    },
    /// Answered; it is not known yet whether it is due again.
    Answered,
}

impl<K: Clone + Eq + Hash + Ord, S: BuildHasher + Default> Default for WriteQueue<K, S> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            delayed: BTreeSet::new(),
            services: IdMap::default(),
            namespaces: IdMap::default(),
            oldest: BTreeSet::new(),
            turns: Default::default(),
            current: [None, None],
            was_slow: [false; 2],
            prompt: IdMap::default(),
            paused: Deadlines::default(),
            most: usize::MAX,
            sequence: 0,
            in_flight: 0,
            ready: [0; 2],
            waiting: 0,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord, S: BuildHasher> WriteQueue<K, S> {
    /// Queues an object that is due `delay` from now. If it is wanted again before it went, the more urgent priority,
    /// the earlier want and the shorter delay count; if it is wanted while in flight, it comes again after that.
    pub fn want(&mut self, key: K, mut due: Due, delay: Duration, now: Duration) {
        let until = now + delay;
        let Some(mut entry) = self.entries.get(&key).copied() else {
            self.enter_service(due, now);
            return self.add(key, due, until, now);
        };
        // A slice that was given to another Service is counted where it was until it has left the queue.
        (due.namespace, due.service) = (entry.due.namespace, entry.due.service);
        let urgent = Due {
            priority: due.priority.min(entry.due.priority),
            ..due
        };
        match entry.state {
            State::Answered => return self.add(key, due, until, now),
            State::InFlight { again: None } => {
                entry.state = State::InFlight { again: Some(until) };
                (entry.due, entry.since) = (due, now);
            }
            State::InFlight { again: Some(again) } => {
                entry.state = State::InFlight {
                    again: Some(until.min(again)),
                };
                entry.due = urgent;
            }
            State::Ready if urgent == entry.due => return,
            State::Ready => {
                self.unlink(&key, entry);
                entry.due = urgent;
                self.link(&key, &mut entry, now);
            }
            State::Delayed { until: before } => {
                self.unlink(&key, entry);
                // Never later than it was: otherwise an object that is wanted often enough would never go.
                entry.state = State::Delayed {
                    until: until.min(before),
                };
                entry.due = urgent;
                self.link(&key, &mut entry, now);
            }
        }
        self.entries.insert(key, entry);
    }

    fn add(&mut self, key: K, due: Due, until: Duration, now: Duration) {
        self.sequence += 1;
        let mut entry = Entry {
            state: State::Delayed { until },
            since: now,
            due,
            sequence: self.sequence,
            round: 0,
        };
        self.link(&key, &mut entry, now);
        self.entries.insert(key, entry);
    }

    /// Returns when an object that waits may go, or zero if it only waits for its turn.
    pub fn waits_until(&self, key: &K) -> Option<Duration> {
        match self.entries.get(key)?.state {
            State::Ready => Some(Duration::ZERO),
            State::Delayed { until } => Some(until),
            State::InFlight { again } => again,
            State::Answered => None,
        }
    }

    /// Lets the time pass: what was delayed may go, and namespaces whose pause is over have turns again.
    pub fn pass(&mut self, now: Duration) {
        while self.delayed.first().is_some_and(|(until, ..)| *until <= now) {
            let (until, _, key) = self.delayed.pop_first().expect("the first was looked at");
            let mut entry = self.entries[&key];
            self.waiting -= 1;
            entry.state = State::Delayed { until };
            self.link(&key, &mut entry, now);
            self.entries.insert(key, entry);
        }
        while let Some(namespace) = self.paused.pop_due(now) {
            self.settle_lane(namespace);
        }
    }

    /// Sets the most writes that a namespace may have in flight. One in the slow lane may have one, and so may one that has not been
    /// written yet.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Returns the object of a resource whose turn it is, and takes it as in flight until [`Self::landed`]. A namespace
    /// that is slow, or was not written yet, has a turn only if `slow`.
    pub fn next(&mut self, resource: Resource, slow: bool, now: Duration) -> Option<Granted<K>> {
        let at = resource as usize;
        loop {
            if let Some(turn) = &mut self.current[at] {
                let lane = self.namespaces.get(&turn.namespace).and_then(|it| it.lane);
                let may = lane == Some(Lane::Normal) || slow && lane.is_some();
                let ready = |key: &K| {
                    self.entries
                        .get(key)
                        .is_some_and(|entry| entry.state == State::Ready)
                };
                let mut keys = std::iter::from_fn(|| turn.keys.pop_front());
                if let Some(key) = keys.find(|key| ready(key)).filter(|_| may) {
                    return Some(self.grant(key, now));
                }
                self.end_turn(at, now);
            }
            self.begin_turn(at, slow)?;
        }
    }

    fn begin_turn(&mut self, at: usize, slow: bool) -> Option<()> {
        let has = |lane: Lane| !self.turns[at][lane as usize].is_empty();
        let waits = [Lane::New, Lane::Slow].into_iter().find(|lane| has(*lane));
        let waits = waits.filter(|_| slow && (!self.was_slow[at] || !has(Lane::Normal)));
        let (is_slow, lane) = (waits.is_some(), waits.unwrap_or(Lane::Normal));
        let (namespace, by) = self.turns[at][lane as usize].next()?;
        self.was_slow[at] = is_slow;
        let known = self
            .namespaces
            .get_mut(&namespace)
            .expect("it has Services that wait");
        let service = known.waiting[at].next(by).expect("it has Services that wait");
        let turns = &mut self.turns[at][lane as usize];
        turns.leave(namespace, &known.waiting[at]);
        known.waiting[at].had_turn();
        turns.enter(namespace, &mut known.waiting[at]);
        let ready = &mut self.services.get_mut(&service).expect("it waits").ready[at];
        ready.has_turn = true;
        let most = if is_slow { 1 } else { TUNING.turn_writes };
        let turn = ready.objects.iter().take(most);
        let keys = turn.clone().map(|(_, key)| key.clone()).collect();
        ready.round = turn.last().map_or(ready.round, |((round, ..), _)| *round);
        self.settle_place(service, at);
        self.current[at] = Some(CurrentTurn {
            namespace,
            service,
            keys,
        });
        Some(())
    }

    fn end_turn(&mut self, at: usize, now: Duration) {
        let Some(CurrentTurn { service, .. }) = self.current[at].take() else {
            return;
        };
        if let Some(known) = self.services.get_mut(&service) {
            let ready = &mut known.ready[at];
            self.sequence += 1;
            (ready.has_turn, ready.age) = (false, (now, self.sequence));
            self.settle_place(service, at);
        }
    }

    fn grant(&mut self, key: K, now: Duration) -> Granted<K> {
        let entry = self.entries[&key];
        self.unlink(&key, entry);
        let Due {
            namespace, priority, ..
        } = entry.due;
        self.in_flight += 1;
        if let Some(known) = self.namespaces.get_mut(&namespace) {
            known.in_flight += 1;
        }
        self.settle_lane(namespace);
        let known = self.entries.get_mut(&key).expect("what is ready is in the queue");
        known.state = State::InFlight { again: None };
        known.round = 0;
        let age = now.saturating_sub(entry.since);
        Granted { key, priority, age }
    }

    /// Gives a namespace no turn until then.
    pub fn pause(&mut self, namespace: u64, until: Duration) {
        let until = self
            .paused
            .get(&namespace)
            .map_or(until, |known| known.max(until));
        self.paused.set(namespace, until);
        self.settle_lane(namespace);
    }

    /// Returns when the next pause of a namespace ends.
    pub fn next_pause(&self) -> Option<Duration> {
        self.paused.next()
    }

    /// Returns the number of namespaces that are paused.
    pub fn paused(&self) -> usize {
        self.paused.len()
    }

    /// Puts a namespace into the slow lane, or back.
    pub fn set_slow(&mut self, namespace: u64, slow: bool) {
        // Most of so many namespaces have been deleted, and what is known of the others is soon learned again.
        if self.prompt.len() >= TUNING.namespaces_kept {
            self.prompt.clear();
        }
        if self.prompt.insert(namespace, !slow) != Some(!slow) {
            self.settle_lane(namespace);
        }
    }

    /// Returns whether the last write of a namespace was answered promptly, or `None` if it is not known.
    pub fn is_prompt(&self, namespace: u64) -> Option<bool> {
        self.prompt.get(&namespace).copied()
    }

    /// Records that the request of an object in flight has been built: it holds all that was wanted until now.
    pub fn built(&mut self, key: &K) {
        if let Some(Entry {
            state: State::InFlight { again },
            ..
        }) = self.entries.get_mut(key)
        {
            *again = None;
        }
    }

    /// Ends the flight of an object: it was answered, or there was nothing to send. With `settled`, nothing more is
    /// due unless it is wanted again; otherwise that is known when it is wanted, or by [`Self::settled`].
    pub fn landed(&mut self, key: &K, settled: bool, now: Duration) {
        let Some(known) = self.entries.get_mut(key) else {
            return;
        };
        let State::InFlight { again } = known.state else {
            return;
        };
        known.state = State::Answered;
        let mut entry = *known;
        let namespace = entry.due.namespace;
        self.in_flight -= 1;
        if let Some(known) = self.namespaces.get_mut(&namespace) {
            known.in_flight -= 1;
        }
        self.settle_lane(namespace);
        if let Some(until) = again {
            self.sequence += 1;
            entry.sequence = self.sequence;
            entry.state = State::Delayed { until };
            self.link(key, &mut entry, now);
            self.entries.insert(key.clone(), entry);
        } else if settled {
            self.settled(key);
        }
    }

    /// Removes an answered object that needs no further request.
    pub fn settled(&mut self, key: &K) {
        if let Some(Entry {
            state: State::Answered,
            due,
            ..
        }) = self.entries.get(key)
        {
            let service = due.service;
            self.entries.remove(key);
            self.leave_service(service);
        }
    }

    /// Removes everything that waits. Objects in flight do not come again.
    pub fn clear_waiting(&mut self) {
        let mut gone = Vec::new();
        for (key, entry) in &mut self.entries {
            match &mut entry.state {
                State::InFlight { again } => *again = None,
                State::Ready | State::Delayed { .. } | State::Answered => {
                    gone.push((key.clone(), *entry));
                }
            }
        }
        for (key, entry) in gone {
            self.unlink(&key, entry);
            self.entries.remove(&key);
            self.leave_service(entry.due.service);
        }
    }

    /// Returns when the first of the delayed objects may go, or `None` if none is delayed.
    pub fn next_delayed(&self) -> Option<Duration> {
        self.delayed.first().map(|(until, ..)| *until)
    }

    /// Returns the number of objects in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of objects that wait, including delayed ones.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of objects that wait and pass the test. Looks at each object.
    pub fn waiting_of(&self, pass: impl Fn(&K) -> bool) -> usize {
        let waits = |entry: &Entry| matches!(entry.state, State::Ready | State::Delayed { .. });
        let waiting = self.entries.iter().filter(|(_, entry)| waits(entry));
        waiting.filter(|(key, _)| pass(key)).count()
    }

    /// Returns whether an object of a resource waits only for its turn.
    pub fn has_ready(&self, resource: Resource) -> bool {
        self.ready[resource as usize] > 0
    }

    /// Returns how long the oldest object of a priority that may go has waited. Looks at each object.
    pub fn oldest(&self, priority: Priority, now: Duration) -> Duration {
        let ready = self
            .entries
            .values()
            .filter(|entry| entry.state == State::Ready && entry.due.priority == priority);
        let since = ready.map(|entry| entry.since).min();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the number of Services with objects that wait or are in flight, and for how long the oldest of them has
    /// been out of sync.
    pub fn out_of_sync(&self, now: Duration) -> (usize, Duration) {
        let oldest = self.oldest.first().map(|(since, _)| now.saturating_sub(*since));
        (self.services.len(), oldest.unwrap_or_default())
    }

    /// Returns whether nothing waits and nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    fn enter_service(
        &mut self,
        Due {
            namespace, service, ..
        }: Due,
        now: Duration,
    ) {
        let service = self.services.entry(service).or_insert_with_key(|id| {
            self.oldest.insert((now, *id));
            self.namespaces.entry(namespace).or_default().services += 1;
            Service {
                namespace,
                members: 0,
                since: now,
                ready: Default::default(),
            }
        });
        service.members += 1;
    }

    fn leave_service(&mut self, id: u64) {
        let Some(service) = self.services.get_mut(&id) else {
            return;
        };
        service.members -= 1;
        if service.members > 0 {
            return;
        }
        let Service { namespace, since, .. } = *service;
        self.oldest.remove(&(since, id));
        self.services.remove(&id);
        if let Some(known) = self.namespaces.get_mut(&namespace) {
            known.services -= 1;
            if known.services == 0 {
                self.namespaces.remove(&namespace);
            }
        }
    }

    fn link(&mut self, key: &K, entry: &mut Entry, now: Duration) {
        self.waiting += 1;
        if let State::Delayed { until } = entry.state
            && until > now
        {
            self.delayed.insert((until, entry.sequence, key.clone()));
            return;
        }
        let is_new = entry.state != State::Ready;
        entry.state = State::Ready;
        let at = entry.due.resource as usize;
        self.ready[at] += 1;
        let ready = &mut self
            .services
            .get_mut(&entry.due.service)
            .expect("it has this object")
            .ready[at];
        if ready.objects.is_empty() {
            ready.age = (entry.since, entry.sequence);
        }
        // Rounds have begun anew if it is alone.
        if is_new || ready.objects.is_empty() {
            entry.round = ready.round + 1;
        }
        ready.objects.insert(entry.rank(), key.clone());
        ready.by_priority[entry.due.priority as usize] += 1;
        self.settle_place(entry.due.service, at);
    }

    fn unlink(&mut self, key: &K, entry: Entry) {
        match entry.state {
            State::Ready => {
                let at = entry.due.resource as usize;
                self.ready[at] -= 1;
                let service = self
                    .services
                    .get_mut(&entry.due.service)
                    .expect("it has this object");
                let ready = &mut service.ready[at];
                ready.objects.remove(&entry.rank());
                ready.by_priority[entry.due.priority as usize] -= 1;
                if ready.objects.is_empty() {
                    // Nothing is left of earlier rounds.
                    ready.round = 0;
                }
                self.settle_place(entry.due.service, at);
            }
            State::Delayed { until } => {
                self.delayed.remove(&(until, entry.sequence, key.clone()));
            }
            State::InFlight { .. } | State::Answered => return,
        }
        self.waiting -= 1;
    }

    /// Puts a Service where it should stand among those of its namespace.
    fn settle_place(&mut self, id: u64, at: usize) {
        let service = self.services.get_mut(&id).expect("it has objects");
        let ready = &mut service.ready[at];
        let place = ready.wanted_place();
        if place == ready.place {
            return;
        }
        let before = std::mem::replace(&mut ready.place, place);
        let known = self
            .namespaces
            .get_mut(&service.namespace)
            .expect("it has a Service");
        let waiting = &mut known.waiting[at];
        let turns = known.lane.map(|lane| &mut self.turns[at][lane as usize]);
        let change = |waiting: &mut Waiting| {
            if let Some(before) = before {
                waiting.remove(before, id);
            }
            if let Some(place) = place {
                waiting.insert(place, id);
            }
        };
        if let Some(turns) = turns {
            turns.leave(service.namespace, waiting);
            change(waiting);
            turns.enter(service.namespace, waiting);
        } else {
            change(waiting);
            let namespace = service.namespace;
            self.settle_lane(namespace);
        }
    }

    /// Puts a namespace into the lane where it should stand.
    fn settle_lane(&mut self, namespace: u64) {
        let Some(known) = self.namespaces.get_mut(&namespace) else {
            return;
        };
        let (lane, most) = match self.prompt.get(&namespace) {
            Some(true) => (Lane::Normal, self.most),
            Some(false) => (Lane::Slow, 1),
            None => (Lane::New, 1),
        };
        let may = known.in_flight < most && self.paused.get(&namespace).is_none();
        let lane = may.then_some(lane);
        let before = std::mem::replace(&mut known.lane, lane);
        if lane == before {
            return;
        }
        for (turns, waiting) in self.turns.iter_mut().zip(&mut known.waiting) {
            if let Some(before) = before {
                turns[before as usize].leave(namespace, waiting);
            }
            if let Some(lane) = lane {
                waiting.had_turn();
                turns[lane as usize].enter(namespace, waiting);
            }
        }
    }
}

#[cfg(test)]
mod tests;
