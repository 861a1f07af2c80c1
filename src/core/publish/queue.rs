//! The order in which objects are written. Each class of writes (`classes`) is a queue in which namespaces take turns. `ready`
//! chooses among the classes: by urgency, within the bounds that `patience` and `promises` set to it.

mod classes;
mod patience;
mod promises;
mod ready;
mod turns;

pub use classes::Classes;

use crate::core::hash::{Hashed, IdMap, KeyedState, KnownState};
use crate::core::object::ObjectKey;
use crate::core::priority::Priority;
use crate::core::turn_queue::Age;
use classes::{ADDITIONS, ENDPOINTS_ADDITIONS, ENDPOINTS_REMOVALS, ENDPOINTS_REST, REMOVALS, REST};
use patience::Patience;
use ready::Ready;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// The attributes that decide when an object's turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Urgency {
    /// The priority of the change.
    pub priority: Priority,
    /// True if traffic does not depend on it: Endpoints, which few still read, while kube-proxy and its like read
    /// slices. They are written whole, and so take more changes along while there is a queue.
    pub yields: bool,
    /// The namespace of the object. Namespaces take turns, so that one with a hundred thousand objects does not hold
    /// up the others.
    pub tenant: u64,
    /// The Service of the object. The Services of a namespace take turns too.
    pub group: u64,
}

impl Urgency {
    fn min(self, other: Self) -> Self {
        Self {
            priority: self.priority.min(other.priority),
            yields: self.yields && other.yields,
            tenant: self.tenant,
            group: self.group,
        }
    }

    /// Returns the class: the priority, of slices or of Endpoints.
    fn class(self) -> usize {
        match (self.priority, self.yields) {
            (Priority::Remove, false) => REMOVALS,
            (Priority::Add, false) => ADDITIONS,
            (Priority::Remove, true) => ENDPOINTS_REMOVALS,
            (Priority::Add, true) => ENDPOINTS_ADDITIONS,
            (Priority::Rest, false) => REST,
            (Priority::Rest, true) => ENDPOINTS_REST,
        }
    }
}

/// Objects that are due, each at most once, and those in flight. To want an object again never moves it back, nor its
/// namespace: it keeps its place, and if its priority rises, it gets one among the more urgent besides. Owned by the writer.
#[derive(Clone, Debug)]
pub struct WriteQueue<K, S = KeyedState> {
    entries: HashMap<K, Entry, S>,
    /// Objects that may go.
    ready: Ready<K>,
    /// Objects that may not go yet, by the time from which they may.
    delayed: BTreeSet<(Duration, u64, K)>,
    tenants: IdMap<u64, Tenant>,
    groups: IdMap<u64, Group>,
    /// The groups, by the time since which they are out of sync.
    oldest: BTreeSet<(Duration, u64)>,
    sequence: u64,
    in_flight: usize,
    /// The number of waiting objects that do not yield, and of those that do.
    waiting: [usize; 2],
    /// The time from one write to the next, if it is known.
    pace: Option<Duration>,
}

/// A namespace with objects that wait or are in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    groups: u32,
    /// Number of its objects in flight.
    in_flight: usize,
}

/// The objects of one Service that wait or are in flight.
#[derive(Clone, Copy, Debug)]
struct Group {
    tenant: u64,
    members: u32,
    /// The time at which the first of them was wanted: since then the group is out of sync.
    since: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// The time at which it was first wanted since it last went.
    since: Duration,
    urgency: Urgency,
    sequence: u64,
    /// The classes in which it stands while it is ready.
    stands: Classes,
}

impl Entry {
    /// Returns its place among the objects of its Service.
    fn age(&self) -> Age {
        (self.since, self.sequence)
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

/// Returns a test of whether a namespace may have another object of a class in flight.
fn may(
    tenants: &IdMap<u64, Tenant>,
    most: usize,
    is_held: impl Fn(usize, u64) -> bool,
) -> impl Fn(usize, u64) -> bool {
    move |class, tenant| {
        let has_room = tenants.get(&tenant).is_none_or(|known| known.in_flight < most);
        has_room && !is_held(class, tenant)
    }
}

/// The queue of the objects that the controller writes.
pub type ObjectQueue = WriteQueue<Hashed<ObjectKey>, KnownState>;

impl<K> Default for WriteQueue<K> {
    fn default() -> Self {
        Self::with_hasher(KeyedState)
    }
}

impl<K, S> WriteQueue<K, S> {
    /// Creates an empty queue whose objects are hashed like this.
    pub fn with_hasher(state: S) -> Self {
        Self {
            entries: HashMap::with_hasher(state),
            ready: Ready::default(),
            delayed: BTreeSet::new(),
            tenants: IdMap::default(),
            groups: IdMap::default(),
            oldest: BTreeSet::new(),
            sequence: 0,
            in_flight: 0,
            waiting: [0; 2],
            pace: None,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord, S: BuildHasher> WriteQueue<K, S> {
    /// Queues an object that is due `delay` from now. If it is wanted again before it went, the more urgent priority,
    /// the earlier want and the shorter delay count; if it is wanted while in flight, it comes again after that.
    pub fn want(&mut self, key: K, mut urgency: Urgency, delay: Duration, now: Duration) {
        let until = now + delay;
        let known = self.entries.get(&key).copied();
        if let Some(known) = known {
            // A slice that was given to another Service is counted where it was until it has left the queue.
            (urgency.tenant, urgency.group) = (known.urgency.tenant, known.urgency.group);
        }
        let Some(mut entry) = known.filter(|known| known.state != State::Answered) else {
            if known.is_none() {
                self.enter_group(urgency, now);
            }
            self.sequence += 1;
            let mut entry = Entry {
                state: State::Delayed { until },
                since: now,
                urgency,
                sequence: self.sequence,
                stands: Classes::NONE,
            };
            self.link(&key, &mut entry, now);
            self.entries.insert(key, entry);
            return;
        };
        let more_urgent = entry.urgency.min(urgency);
        match entry.state {
            State::InFlight { again: None } => {
                entry.state = State::InFlight { again: Some(until) };
                (entry.urgency, entry.since) = (urgency, now);
            }
            State::InFlight { again: Some(again) } => {
                let again = Some(until.min(again));
                entry.state = State::InFlight { again };
                entry.urgency = more_urgent;
            }
            State::Ready => self.rise(&key, &mut entry, more_urgent),
            State::Delayed { until: before } => {
                self.unlink(&key, entry);
                // Never later than it was: otherwise an object that is wanted often enough would never go.
                let until = until.min(before);
                (entry.state, entry.urgency) = (State::Delayed { until }, more_urgent);
                self.link(&key, &mut entry, now);
            }
            State::Answered => {}
        }
        self.entries.insert(key, entry);
    }

    /// Gives an object that may go a place in a more urgent class, besides those that it has.
    fn rise(&mut self, key: &K, entry: &mut Entry, urgency: Urgency) {
        self.waiting[usize::from(entry.urgency.yields)] -= 1;
        self.waiting[usize::from(urgency.yields)] += 1;
        entry.urgency = urgency;
        if !entry.stands.has(urgency.class()) {
            self.stand(key, entry);
        }
    }

    /// Gives an object a place in the class of its priority.
    fn stand(&mut self, key: &K, entry: &mut Entry) {
        let Urgency { tenant, group, .. } = entry.urgency;
        let class = entry.urgency.class();
        entry.stands = entry.stands.with(class);
        self.ready.insert(class, tenant, group, entry.age(), key.clone());
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

    /// Returns the object whose turn it is, its priority, and how long it has waited. It counts as in flight until
    /// [`Self::landed`]. No namespace gets more than `most` in flight, and only objects of these classes go.
    pub fn next(&mut self, most: usize, classes: Classes, now: Duration) -> Option<(K, Priority, Duration)> {
        self.next_but(most, classes, |_, _| false, now)
    }

    /// Does the same as [`Self::next`], but a namespace has no turn in a class if the pair passes the test of `held`.
    /// Its objects keep their places.
    pub(super) fn next_but(
        &mut self,
        most: usize,
        classes: Classes,
        held: impl Fn(usize, u64) -> bool,
        now: Duration,
    ) -> Option<(K, Priority, Duration)> {
        while let Some((until, _, key)) = self.delayed.first() {
            if *until > now {
                break;
            }
            let key = key.clone();
            let mut entry = self.entries[&key];
            self.unlink(&key, entry);
            self.link(&key, &mut entry, now);
            self.entries.insert(key, entry);
        }
        let patience = Patience::new(self.pace, self.waiting);
        let may = may(&self.tenants, most, held);
        let key = self.ready.choose(classes, may, &patience, now)?;
        let entry = self.entries[&key];
        self.unlink(&key, entry);
        self.tenants
            .get_mut(&entry.urgency.tenant)
            .expect("a namespace with objects is in the queue")
            .in_flight += 1;
        self.in_flight += 1;
        let entry = self.entries.get_mut(&key).expect("what is ready is in the queue");
        entry.state = State::InFlight { again: None };
        Some((key, entry.urgency.priority, now.saturating_sub(entry.since)))
    }

    /// Gives a namespace no turn until it is released. Its objects that may go stay in their order.
    pub(super) fn hold(&mut self, tenant: u64) {
        self.ready.hold(tenant);
    }

    /// Gives a namespace turns again, beginning with the next round.
    pub(super) fn release(&mut self, tenant: u64) {
        self.ready.release(tenant);
    }

    /// Sets the time from one write to the next while objects wait for their turn.
    pub fn set_pace(&mut self, pace: Option<Duration>) {
        self.pace = pace;
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
        self.in_flight -= 1;
        if let Some(tenant) = self.tenants.get_mut(&entry.urgency.tenant) {
            tenant.in_flight -= 1;
        }
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
            urgency,
            ..
        }) = self.entries.get(key)
        {
            let group = urgency.group;
            self.entries.remove(key);
            self.leave_group(group);
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
            self.leave_group(entry.urgency.group);
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
        self.waiting.iter().sum()
    }

    /// Returns the number of objects that wait and pass the test. Looks at each object.
    pub fn waiting_of(&self, pass: impl Fn(&K) -> bool) -> usize {
        let waits = |entry: &Entry| matches!(entry.state, State::Ready | State::Delayed { .. });
        let waiting = self.entries.iter().filter(|(_, entry)| waits(entry));
        waiting.filter(|(key, _)| pass(key)).count()
    }

    /// Returns whether an object waits only for its turn.
    pub fn has_ready(&self, now: Duration) -> bool {
        self.has_ready_in(Classes::ALL) || self.next_delayed().is_some_and(|until| until <= now)
    }

    /// Returns whether an object of these classes has become ready, and waits for its turn.
    pub fn has_ready_in(&self, classes: Classes) -> bool {
        self.ready.has(classes)
    }

    /// Returns how long the oldest object of a priority that may go has waited. Looks at each object.
    pub fn oldest(&self, priority: Priority, now: Duration) -> Duration {
        let ready = self
            .entries
            .values()
            .filter(|entry| entry.state == State::Ready && entry.urgency.priority == priority);
        let since = ready.map(|entry| entry.since).min();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the number of groups with objects that wait or are in flight, and for how long the oldest of them has
    /// been out of sync.
    pub fn out_of_order(&self, now: Duration) -> (usize, Duration) {
        let oldest = self.oldest.first().map(|(since, _)| now.saturating_sub(*since));
        (self.groups.len(), oldest.unwrap_or_default())
    }

    /// Returns whether nothing waits and nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    fn enter_group(&mut self, Urgency { tenant, group, .. }: Urgency, now: Duration) {
        let group = self.groups.entry(group).or_insert_with_key(|id| {
            self.oldest.insert((now, *id));
            self.tenants.entry(tenant).or_default().groups += 1;
            Group {
                tenant,
                members: 0,
                since: now,
            }
        });
        group.members += 1;
    }

    fn leave_group(&mut self, id: u64) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        group.members -= 1;
        if group.members > 0 {
            return;
        }
        let Group { tenant, since, .. } = *group;
        self.oldest.remove(&(since, id));
        self.groups.remove(&id);
        if let Some(known) = self.tenants.get_mut(&tenant) {
            known.groups -= 1;
            if known.groups == 0 {
                self.tenants.remove(&tenant);
            }
        }
    }

    fn link(&mut self, key: &K, entry: &mut Entry, now: Duration) {
        self.waiting[usize::from(entry.urgency.yields)] += 1;
        let State::Delayed { until } = entry.state else {
            return;
        };
        if until > now {
            self.delayed.insert((until, entry.sequence, key.clone()));
            return;
        }
        (entry.state, entry.stands) = (State::Ready, Classes::NONE);
        self.stand(key, entry);
    }

    fn unlink(&mut self, key: &K, entry: Entry) {
        match entry.state {
            State::Ready => {
                let Urgency { tenant, group, .. } = entry.urgency;
                for class in entry.stands.iter() {
                    self.ready.remove(class, tenant, group, entry.age());
                }
            }
            State::Delayed { until } => {
                self.delayed.remove(&(until, entry.sequence, key.clone()));
            }
            State::InFlight { .. } | State::Answered => return,
        }
        self.waiting[usize::from(entry.urgency.yields)] -= 1;
    }
}

#[cfg(test)]
mod tests;
