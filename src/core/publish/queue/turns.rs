//! The turns of namespaces, whatever the classes of their objects.

use super::classes::{CLASSES, Classes};
use crate::core::hash::IdMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, VecDeque};

/// The number of last writes whose namespaces are known.
pub(super) const LAST: usize = 256;

/// The namespaces with objects that may go, in the order of their turns. A namespace joins at the end, and returns there after
/// each of its objects that goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    namespaces: IdMap<u64, NamespaceTurn>,
    /// By class: the namespaces that have objects in it, in the order of their turns.
    by_class: [BTreeSet<(u64, u64)>; CLASSES],
    /// The turn of the namespace at the end.
    end: u64,
    /// The namespaces of the [last writes](LAST) that others waited for.
    last: VecDeque<u64>,
    /// How many of these each namespace had.
    writes: IdMap<u64, usize>,
}

/// The turn of a namespace, and the classes in which it has something.
#[derive(Clone, Copy, Debug)]
struct NamespaceTurn {
    turn: u64,
    classes: Classes,
}

impl Turns {
    /// Adds a namespace that has an object in a class now.
    pub(super) fn enter(&mut self, class: usize, tenant: u64) {
        let known = self.namespaces.entry(tenant).or_insert_with(|| {
            self.end += 1;
            NamespaceTurn {
                turn: self.end,
                classes: Classes::NONE,
            }
        });
        known.classes = known.classes.with(class);
        self.by_class[class].insert((known.turn, tenant));
    }

    /// Removes a namespace from a class in which it has nothing left.
    pub(super) fn leave(&mut self, class: usize, tenant: u64) {
        if let Some(known) = self.namespaces.get_mut(&tenant) {
            self.by_class[class].remove(&(known.turn, tenant));
            known.classes = known.classes.without(Classes::NONE.with(class));
            if known.classes == Classes::NONE {
                self.namespaces.remove(&tenant);
            }
        }
    }

    /// Counts a write of a namespace, and moves it to the end if it still has something.
    pub(super) fn had_turn(&mut self, tenant: u64) {
        self.last.push_back(tenant);
        *self.writes.entry(tenant).or_default() += 1;
        if self.last.len() > LAST
            && let Some(left) = self.last.pop_front()
            && let Entry::Occupied(mut writes) = self.writes.entry(left)
        {
            *writes.get_mut() -= 1;
            if *writes.get() == 0 {
                writes.remove();
            }
        }
        if let Some(known) = self.namespaces.get_mut(&tenant) {
            self.end += 1;
            for class in known.classes.iter() {
                self.by_class[class].remove(&(known.turn, tenant));
                self.by_class[class].insert((self.end, tenant));
            }
            known.turn = self.end;
        }
    }

    /// Returns whether a namespace had one of the [last writes](LAST).
    pub(super) fn had_a_last_write(&self, tenant: u64) -> bool {
        self.writes.contains_key(&tenant)
    }

    /// Returns the namespace whose turn it is, among those that have something in these classes and may have a turn.
    pub(super) fn first(&self, classes: Classes, may: impl Fn(usize, u64) -> bool) -> Option<u64> {
        let firsts = classes.iter().filter_map(|class| {
            let mut turns = self.by_class[class].iter();
            turns.find(|(_, tenant)| may(class, *tenant))
        });
        firsts.min().map(|(_, tenant)| *tenant)
    }
}
