//! The order in which objects are written.

pub(super) mod class;

pub use class::Classes;

use super::hash::{IdMap, KeyedMap};
use class::{CLASSES, Class};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

/// The priority of a write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Priority {
    /// An endpoint must stop receiving traffic.
    Remove,
    /// An endpoint can begin to receive traffic.
    Add,
    /// Anything else: labels, repacking.
    Rest,
}

impl Priority {
    /// All priorities, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Remove, Self::Add, Self::Rest];

    /// Returns the name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Add => "add",
            Self::Rest => "rest",
        }
    }
}

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

    fn class(self) -> usize {
        match (self.priority, self.yields) {
            (Priority::Remove, false) => 0,
            (Priority::Add, false) => ADDITIONS,
            (Priority::Remove, true) => 2,
            (Priority::Add, true) => 3,
            (Priority::Rest, false) => 4,
            (Priority::Rest, true) => 5,
        }
    }
}

/// How long objects of a class may be overtaken by those of the classes before it. At that age an object is as urgent
/// as one of the first class that has just come, so none starves.
///
/// If the pace of writes is known, additions to slices have that age sooner: after [`PART_OF_BACKLOG`] of the time that
/// all slices need that wait. From then on they alternate with removals, and after the thirty seconds they go first.
/// Where removals never end, additions would otherwise wait for thirty seconds in a cluster whose slices could all be
/// written in one.
///
/// Age alone would let a namespace with a long backlog hold up the removals of all others, so where an aged object
/// of one namespace competes with a more urgent one of another, the two alternate. Nor does urgency decide alone: see
/// [`WriteQueue::choose`].
const PATIENCE: [Duration; CLASSES] = [
    Duration::ZERO,
    Duration::from_secs(30),
    Duration::from_secs(40),
    Duration::from_secs(50),
    Duration::from_secs(60),
    Duration::from_secs(70),
];

/// The class of additions to slices.
const ADDITIONS: usize = 1;
/// One divided by this is the part of the backlog's time for which additions are overtaken by all removals. With a half,
/// additions that no removal takes along wait three times as long as others while changes come at several times the pace
/// of writes; with a tenth, they would hardly be overtaken at all.
const PART_OF_BACKLOG: u32 = 6;

/// Number of namespaces among which one with an object of the classes that may go is looked for.
const TURNS_LOOKED_AT: usize = 64;

/// Objects that are due, each at most once, and those in flight. The latest wins: to want an object again changes its
/// place, never the number of objects. Owned by the writer.
#[derive(Clone, Debug)]
pub struct WriteQueue<K> {
    entries: KeyedMap<K, Entry>,
    /// Objects that may go, by class, the most urgent first.
    ready: [Class<K>; CLASSES],
    /// Objects that may not go yet, by the time from which they may.
    delayed: BTreeSet<(Duration, u64, K)>,
    tenants: IdMap<u64, Tenant>,
    /// Namespaces with objects that may go, by turn.
    turns: BTreeSet<((u64, u64), u64)>,
    /// The turn given to namespaces that come to have such objects.
    turn: u64,
    groups: IdMap<u64, Group>,
    /// The groups, by the time since which they are out of order.
    oldest: BTreeSet<(Duration, u64)>,
    /// Set when an aged object has just gone before a more urgent one of another namespace, which is therefore next.
    owes_urgent: bool,
    /// Set when an object has just gone for its urgency, though it was another namespace's turn.
    owes_turn: bool,
    sequence: u64,
    in_flight: usize,
    /// Number of objects that wait: those that do not yield, and those that do.
    waiting: [usize; 2],
    /// The time from one write to the next, if it is known.
    pace: Option<Duration>,
}

/// A namespace with objects that wait or are in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    groups: u32,
    /// The turn given to Services that come to have objects here.
    turn: u64,
    /// Number of its objects in flight.
    in_flight: usize,
    /// Number of its objects that may go.
    ready: usize,
    /// Its turn among all namespaces that have any, and since when it has waited for one.
    place: (u64, u64),
}

/// The objects of one Service that wait or are in flight.
#[derive(Clone, Copy, Debug)]
struct Group {
    tenant: u64,
    /// The turn given to its next object that becomes ready.
    next_turn: u64,
    members: u32,
    /// The time at which the first of them was wanted: since then the group is out of order.
    since: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// The time at which it was first wanted since it last went.
    since: Duration,
    urgency: Urgency,
    sequence: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready {
        turn: u64,
    },
    Delayed {
        until: Duration,
    },
    Flying {
        again: Option<Duration>,
    },
    /// Answered; it is not known yet whether it is due again.
    Answered,
}

/// Returns a test of whether a namespace may have another object in flight.
fn may(tenants: &IdMap<u64, Tenant>, most: usize) -> impl Fn(u64) -> bool {
    move |tenant| tenants.get(&tenant).is_none_or(|known| known.in_flight < most)
}

impl<K> Default for WriteQueue<K> {
    fn default() -> Self {
        Self {
            entries: KeyedMap::default(),
            ready: std::array::from_fn(|_| Class::default()),
            delayed: BTreeSet::new(),
            tenants: IdMap::default(),
            turns: BTreeSet::new(),
            turn: 0,
            groups: IdMap::default(),
            oldest: BTreeSet::new(),
            owes_urgent: false,
            owes_turn: false,
            sequence: 0,
            in_flight: 0,
            waiting: [0; 2],
            pace: None,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> WriteQueue<K> {
    /// Queues an object that is due `delay` from now. If it is wanted again before it went, the more urgent priority,
    /// the earlier want and the shorter delay count; if it is wanted while in flight, it comes again after that.
    pub fn want(&mut self, key: K, mut urgency: Urgency, delay: Duration, now: Duration) {
        let until = now + delay;
        if let Some(known) = self.entries.get(&key) {
            // A slice that was given to another Service is counted where it was until it has left the queue.
            (urgency.tenant, urgency.group) = (known.urgency.tenant, known.urgency.group);
        }
        let mut entry = match self.entries.get(&key) {
            None => {
                self.enter_group(urgency, now);
                self.fresh(urgency, until, now)
            }
            Some(Entry {
                state: State::Answered,
                ..
            }) => self.fresh(urgency, until, now),
            Some(entry) => {
                let mut entry = *entry;
                match &mut entry.state {
                    State::Flying { again: again @ None } => {
                        *again = Some(until);
                        (entry.urgency, entry.since) = (urgency, now);
                    }
                    State::Flying { again: Some(again) } => {
                        *again = until.min(*again);
                        entry.urgency = entry.urgency.min(urgency);
                    }
                    State::Ready { .. } => {
                        self.unlink(&key, entry);
                        entry.urgency = entry.urgency.min(urgency);
                    }
                    State::Delayed { until: before } => {
                        // Never later than it was: otherwise an object that is wanted often enough would never go.
                        let until = until.min(*before);
                        self.unlink(&key, entry);
                        entry.urgency = entry.urgency.min(urgency);
                        entry.state = State::Delayed { until };
                    }
                    State::Answered => {}
                }
                entry
            }
        };
        if !matches!(entry.state, State::Flying { .. }) {
            self.link(&key, &mut entry, now);
        }
        self.entries.insert(key, entry);
    }

    fn fresh(&mut self, urgency: Urgency, until: Duration, now: Duration) -> Entry {
        self.sequence += 1;
        Entry {
            state: State::Delayed { until },
            since: now,
            urgency,
            sequence: self.sequence,
        }
    }

    /// Returns when an object that waits may go, or zero if it only waits for its turn.
    pub fn waits_until(&self, key: &K) -> Option<Duration> {
        match self.entries.get(key)?.state {
            State::Ready { .. } => Some(Duration::ZERO),
            State::Delayed { until } => Some(until),
            State::Flying { again } => again,
            State::Answered => None,
        }
    }

    /// Returns the object whose turn it is, its priority, and how long it has waited. It counts as in flight until
    /// [`Self::landed`]. No namespace gets more than `most` in flight, and only objects of these classes go.
    pub fn next(&mut self, most: usize, classes: Classes, now: Duration) -> Option<(K, Priority, Duration)> {
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
        let (class, tenant) = self.choose(most, classes)?;
        let key = self.ready[class].first_of(tenant)?.clone();
        let entry = self.entries[&key];
        // Before it counts as in flight, with which its namespace may have as many as it may have.
        let has_turn = self.whose_turn(most, classes) == Some(tenant);
        let known = self
            .tenants
            .get_mut(&tenant)
            .expect("a namespace with objects is in the queue");
        if let State::Ready { turn } = entry.state {
            // As with namespaces, Services that come from now on have the next turn.
            known.turn = known.turn.max(turn + 1);
        }
        known.in_flight += 1;
        let place = known.place;
        let turn = self.ready[class].turn_of(tenant);
        self.unlink(&key, entry);
        self.ready[class].served(turn, tenant);
        if has_turn {
            self.turn = self.turn.max(place.0 + 1);
            if self.turns.remove(&(place, tenant)) {
                let next = (place.0 + 1, place.1);
                self.turns.insert((next, tenant));
                if let Some(known) = self.tenants.get_mut(&tenant) {
                    known.place = next;
                }
            }
        }
        self.in_flight += 1;
        let entry = self.entries.get_mut(&key).expect("what is ready is in the queue");
        entry.state = State::Flying { again: None };
        Some((key, entry.urgency.priority, now.saturating_sub(entry.since)))
    }

    /// Returns the namespace that has waited longest for a turn, however urgent its objects are. Those that have nothing in
    /// these classes keep their turns; only the first few are looked at.
    fn whose_turn(&self, most: usize, classes: Classes) -> Option<u64> {
        let may = may(&self.tenants, most);
        let has = |tenant: u64| {
            let mut open = (0..CLASSES).filter(|class| classes.has(*class));
            open.any(|class| self.ready[class].oldest_of(tenant).is_some())
        };
        // A namespace with a turn has something in one of all classes.
        let all = classes == Classes::ALL;
        let looked_at = if all { usize::MAX } else { TURNS_LOOKED_AT };
        let mut first = self.turns.iter().take(looked_at);
        let next = first.find(|(_, tenant)| may(*tenant) && (all || has(*tenant)));
        next.map(|(_, tenant)| *tenant)
    }

    /// Chooses the class and the namespace of the next object. One half of the choices goes by urgency: the most
    /// urgent class that has something, unless an object of another one is older than its patience allows. The other
    /// half goes by namespace, each with what is most urgent of it by the same rule: otherwise one with removals without
    /// end would hold up what all others add.
    fn choose(&mut self, most: usize, classes: Classes) -> Option<(usize, u64)> {
        let may = may(&self.tenants, most);
        let heads: [_; CLASSES] = std::array::from_fn(|class| {
            let head = classes.has(class).then(|| self.ready[class].head(&may));
            head.flatten()
        });
        let (urgent, urgent_tenant) = heads
            .iter()
            .enumerate()
            .find_map(|(class, head)| head.map(|tenant| (class, tenant)))?;
        let deadline = |class: usize| Some((self.ready[class].oldest(&may)? + self.patience(class), class));
        let open = (0..CLASSES).filter(|class| classes.has(*class));
        let (_, aged) = open.filter_map(deadline).min()?;
        let aged_tenant = heads[aged]?;
        let starves = {
            let latest = |class: usize| Some(self.ready[class].oldest(&may)? + PATIENCE[class]);
            latest(aged)? <= latest(urgent)?
        };
        let compete = aged != urgent && (aged_tenant != urgent_tenant || !starves);
        let owed = compete && self.owes_urgent;
        let chosen = if owed {
            (urgent, urgent_tenant)
        } else {
            (aged, aged_tenant)
        };
        let turn = self
            .whose_turn(most, classes)
            .filter(|tenant| *tenant != chosen.1);
        if let Some(tenant) = turn.filter(|_| self.owes_turn) {
            self.owes_turn = false;
            let deadline =
                |class: usize| Some((self.ready[class].oldest_of(tenant)? + self.patience(class), class));
            let open = (0..CLASSES).filter(|class| classes.has(*class));
            let class = open.filter_map(deadline).min();
            return class.map(|(_, class)| (class, tenant));
        }
        self.owes_turn = turn.is_some();
        self.owes_urgent = compete && !owed;
        Some(chosen)
    }

    /// Returns how long objects of a class may be overtaken.
    fn patience(&self, class: usize) -> Duration {
        match self.pace {
            Some(pace) if class == ADDITIONS => {
                let waiting = u32::try_from(self.waiting[0]).unwrap_or(u32::MAX);
                PATIENCE[class].min(pace.saturating_mul(waiting) / PART_OF_BACKLOG)
            }
            _ => PATIENCE[class],
        }
    }

    /// Sets the time from one write to the next while objects wait for their turn.
    pub fn set_pace(&mut self, pace: Option<Duration>) {
        self.pace = pace;
    }

    /// Records that the request of an object in flight has been built: it holds all that was wanted until now.
    pub fn built(&mut self, key: &K) {
        if let Some(Entry {
            state: State::Flying { again },
            ..
        }) = self.entries.get_mut(key)
        {
            *again = None;
        }
    }

    /// Ends the flight of an object: it was answered, or there was nothing to send. With `settled`, nothing more is
    /// due unless it is wanted again; otherwise that is known when it is wanted, or by [`Self::settled`].
    pub fn landed(&mut self, key: &K, settled: bool, now: Duration) {
        let Some(mut entry) = self.entries.get(key).copied() else {
            return;
        };
        let State::Flying { again } = entry.state else {
            return;
        };
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
            self.entries.remove(key);
            self.leave_group(entry.urgency.group);
        } else {
            entry.state = State::Answered;
            self.entries.insert(key.clone(), entry);
        }
    }

    /// Removes an answered object of which nothing is due.
    pub fn settled(&mut self, key: &K) {
        if let Some(Entry {
            state: State::Answered,
            urgency,
            ..
        }) = self.entries.get(key).copied()
        {
            self.entries.remove(key);
            self.leave_group(urgency.group);
        }
    }

    /// Removes everything that waits. Objects in flight do not come again.
    pub fn clear_waiting(&mut self) {
        let mut gone = Vec::new();
        for (key, entry) in &mut self.entries {
            match &mut entry.state {
                State::Flying { again } => *again = None,
                State::Ready { .. } | State::Delayed { .. } | State::Answered => {
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
        let waits = |entry: &Entry| matches!(entry.state, State::Ready { .. } | State::Delayed { .. });
        let waiting = self.entries.iter().filter(|(_, entry)| waits(entry));
        waiting.filter(|(key, _)| pass(key)).count()
    }

    /// Returns whether an object waits for nothing but its turn.
    pub fn has_ready(&self, now: Duration) -> bool {
        self.has_ready_in(Classes::ALL) || self.next_delayed().is_some_and(|until| until <= now)
    }

    /// Returns whether an object of these classes has become ready, and waits for its turn.
    pub fn has_ready_in(&self, classes: Classes) -> bool {
        let mut open = (0..CLASSES).filter(|class| classes.has(*class));
        open.any(|class| !self.ready[class].is_empty())
    }

    /// Returns how long the oldest object of a priority that may go has waited.
    pub fn oldest(&self, priority: Priority, now: Duration) -> Duration {
        let oldest = [false, true].into_iter().filter_map(|yields| {
            let class = Urgency {
                priority,
                yields,
                tenant: 0,
                group: 0,
            }
            .class();
            self.ready[class].oldest(|_| true)
        });
        let since = oldest.min();
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the number of groups with objects that wait or are in flight, and for how long the oldest of them has
    /// been out of order.
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
                next_turn: 0,
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
        if let State::Delayed { until } = entry.state {
            if until > now {
                self.delayed.insert((until, entry.sequence, key.clone()));
                return;
            }
            let group = self
                .groups
                .get_mut(&entry.urgency.group)
                .expect("what is in the queue is in its group");
            let tenant = self
                .tenants
                .get(&group.tenant)
                .expect("a group that is in the queue is in its namespace");
            let turn = group.next_turn.max(tenant.turn);
            group.next_turn = turn + 1;
            entry.state = State::Ready { turn };
        }
        if let State::Ready { turn } = entry.state {
            let Urgency { tenant, .. } = entry.urgency;
            let place = (turn, entry.since, entry.sequence);
            self.ready[entry.urgency.class()].insert(tenant, place, key.clone());
            let known = self
                .tenants
                .get_mut(&tenant)
                .expect("what is in the queue is in its namespace");
            known.ready += 1;
            if known.ready == 1 {
                known.place = (self.turn, self.sequence);
                self.turns.insert((known.place, tenant));
            }
        }
    }

    fn unlink(&mut self, key: &K, entry: Entry) {
        match entry.state {
            State::Ready { turn } => {
                let Urgency { tenant, .. } = entry.urgency;
                let place = (turn, entry.since, entry.sequence);
                self.ready[entry.urgency.class()].remove(tenant, place);
                let known = self
                    .tenants
                    .get_mut(&tenant)
                    .expect("what is in the queue is in its namespace");
                known.ready -= 1;
                if known.ready == 0 {
                    self.turns.remove(&(known.place, tenant));
                }
            }
            State::Delayed { until } => {
                self.delayed.remove(&(until, entry.sequence, key.clone()));
            }
            State::Flying { .. } | State::Answered => return,
        }
        self.waiting[usize::from(entry.urgency.yields)] -= 1;
    }
}

#[cfg(test)]
mod tests;
