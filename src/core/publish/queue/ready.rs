//! The objects that may go, and which of them is next.

use super::classes::{CLASSES, Classes};
use super::patience::Patience;
use super::promises::{Promise, Promises, Waiting, Write};
use super::turns::Turns;
use crate::core::hash::IdSet;
use crate::core::turn_queue::{Age, TurnQueue};
use std::array;
use std::time::Duration;

/// The objects that may go. An object whose priority has risen stands in its class and in those in which it stood
/// before, with the places that it had there, and goes by the one that comes up first.
#[derive(Clone, Debug)]
pub(super) struct Ready<K> {
    classes: [TurnQueue<K>; CLASSES],
    turns: Turns,
    /// The namespaces that have no turn, so that nothing here is looked at for them.
    held: IdSet<u64>,
    promises: Promises,
    /// A bit for each set of classes: whether an aged object has just gone before a more urgent one of another
    /// namespace, which is therefore next.
    owes_urgent: u64,
}

/// The objects that would go first, by class.
struct Heads {
    /// The namespaces whose turns it is.
    tenants: [Option<u64>; CLASSES],
    /// The times since which the oldest objects have waited.
    oldest: [Option<Duration>; CLASSES],
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        Self {
            classes: array::from_fn(|_| TurnQueue::default()),
            turns: Turns::default(),
            held: IdSet::default(),
            promises: Promises::default(),
            owes_urgent: 0,
        }
    }
}

impl<K: Clone> Ready<K> {
    /// Adds an object to a class.
    pub(super) fn insert(&mut self, class: usize, tenant: u64, group: u64, age: Age, key: K) {
        if self.held.contains(&tenant) {
            return self.classes[class].insert_held(tenant, group, age, key);
        }
        if !self.classes[class].has(tenant) {
            self.turns.enter(class, tenant);
        }
        self.classes[class].insert(tenant, group, age, key);
    }

    /// Gives a namespace no turn until it is released.
    pub(super) fn hold(&mut self, tenant: u64) {
        if self.held.insert(tenant) {
            for class in Classes::ALL.iter() {
                self.classes[class].hold(tenant);
                self.turns.leave(class, tenant);
            }
        }
    }

    /// Gives a namespace turns again.
    pub(super) fn release(&mut self, tenant: u64) {
        if self.held.remove(&tenant) {
            for class in Classes::ALL.iter() {
                if self.classes[class].release(tenant) {
                    self.turns.enter(class, tenant);
                }
            }
        }
    }

    /// Removes an object from a class.
    pub(super) fn remove(&mut self, class: usize, tenant: u64, group: u64, age: Age) {
        self.classes[class].remove(tenant, group, age);
        if !self.classes[class].has(tenant) {
            self.turns.leave(class, tenant);
        }
    }

    /// Returns whether any of these classes has something.
    pub(super) fn has(&self, classes: Classes) -> bool {
        classes.iter().any(|class| !self.classes[class].is_empty())
    }

    /// Chooses the object that goes next, among those of these classes and of the namespaces that may have a turn in them. That is
    /// a turn of its namespace and of its group. The object leaves the class by which it goes, and stays in the others in which it
    /// stands until it is removed.
    ///
    /// If a promise is due, the next write keeps it. A namespace whose turn it is goes with the most urgent of its classes,
    /// and in a class the namespace goes whose turn it is there.
    pub(super) fn choose(
        &mut self,
        classes: Classes,
        may: impl Fn(usize, u64) -> bool,
        patience: &Patience,
        now: Duration,
    ) -> Option<K> {
        if let Some((class, tenant)) = self.only() {
            // Most writes find nothing else that waits. Such a one makes no debt, and keeps the promises that it can.
            if !classes.has(class) || !may(class, tenant) {
                return None;
            }
            let write = Write {
                class,
                in_order: true,
                in_turn: true,
            };
            self.promises.keep(write, classes);
            self.turns.leave(class, tenant);
            return self.classes[class].take_only();
        }
        let heads = self.heads(classes, &may);
        let waiting = heads.waiting(classes, patience, now);
        let (of_turn, turn) = self.whose_turn(waiting.classes, &may)?;
        let (class, tenant) = match self.promises.gain(waiting) {
            Some(Promise::Turn) => {
                let oldest = |class: usize| self.classes[class].oldest_of(turn).filter(|_| may(class, turn));
                (patience.most_urgent(of_turn, oldest)?, turn)
            }
            Some(Promise::Class(class)) => (class, heads.tenants[class]?),
            Some(Promise::Endpoints) => {
                self.by_urgency(waiting.classes.and(Classes::ENDPOINTS), &heads, patience)?
            }
            None => self.by_urgency(waiting.classes, &heads, patience)?,
        };
        let in_order = heads.tenants[class] == Some(tenant);
        let write = Write {
            class,
            in_order,
            in_turn: tenant == turn,
        };
        self.promises.keep(write, classes);
        let key = self.classes[class].take(tenant, in_order)?;
        if !self.classes[class].has(tenant) {
            self.turns.leave(class, tenant);
        }
        self.turns.had_turn(tenant);
        Some(key)
    }

    /// Returns the class of the only object that may go, and its namespace; `None` if there is none or more than one, or one that
    /// stands in several classes.
    fn only(&self) -> Option<(usize, u64)> {
        let mut filled = self
            .classes
            .iter()
            .enumerate()
            .filter(|(_, queue)| !queue.is_empty());
        let (class, queue) = filled.next()?;
        if filled.next().is_some() {
            return None;
        }
        Some((class, queue.only()?))
    }

    /// Returns the namespace whose turn it is, and the classes of which it goes with the most urgent.
    ///
    /// After the loss of a zone, most of the namespaces that wait have nothing but Endpoints left. If all took turns alike, slices
    /// would have only half of the writes. So the next namespace with changes of slices comes before those that have none, unless it
    /// had one of the [last writes](super::turns::LAST): a namespace that has many does not hold up the Endpoints of others.
    fn whose_turn(&self, classes: Classes, may: &impl Fn(usize, u64) -> bool) -> Option<(Classes, u64)> {
        let slices = classes.and(Classes::SLICE_CHANGES);
        if classes.and(Classes::ENDPOINTS) != Classes::NONE
            && let Some(turn) = self.turns.first(slices, may)
            && !self.turns.had_a_last_write(turn)
        {
            return Some((slices, turn));
        }
        Some((classes, self.turns.first(classes, may)?))
    }

    fn heads(&self, classes: Classes, may: &impl Fn(usize, u64) -> bool) -> Heads {
        let of = |class: usize| classes.has(class).then(|| &self.classes[class]);
        Heads {
            tenants: array::from_fn(|class| of(class)?.head(|tenant| may(class, tenant))),
            oldest: array::from_fn(|class| of(class)?.oldest(|tenant| may(class, tenant))),
        }
    }

    /// Chooses a class and the namespace whose turn it is there: the most urgent class that has something, unless an
    /// object of another one is older than its patience allows.
    ///
    /// Age alone would let a namespace with a long backlog hold up the removals of all others, so where an aged object
    /// of one namespace competes with a more urgent one of another, the two alternate.
    fn by_urgency(&mut self, classes: Classes, heads: &Heads, patience: &Patience) -> Option<(usize, u64)> {
        let urgent = classes.iter().next()?;
        let aged = patience.most_urgent(classes, |class| heads.oldest[class])?;
        let (urgent_tenant, aged_tenant) = (heads.tenants[urgent]?, heads.tenants[aged]?);
        let latest = |class: usize| Some(Patience::latest(class, heads.oldest[class]?));
        let starves = latest(aged)? <= latest(urgent)?;
        let compete = aged != urgent && (aged_tenant != urgent_tenant || !starves);
        let bit = 1 << classes.number();
        let owed = compete && self.owes_urgent & bit != 0;
        if compete && !owed {
            self.owes_urgent |= bit;
        } else {
            self.owes_urgent &= !bit;
        }
        Some(if owed {
            (urgent, urgent_tenant)
        } else {
            (aged, aged_tenant)
        })
    }
}

impl Heads {
    fn waiting(&self, allowed: Classes, patience: &Patience, now: Duration) -> Waiting {
        let which = |has: &dyn Fn(usize, Duration) -> bool| {
            let of = |class: &usize| self.oldest[*class].is_some_and(|since| has(*class, since));
            Classes::ALL.iter().filter(of).fold(Classes::NONE, Classes::with)
        };
        Waiting {
            allowed,
            classes: which(&|_, _| true),
            aged: which(&|class, since| patience.deadline_in_output(class, since) <= now),
        }
    }
}
