//! Objects that a list showed before their pods and Services were known.

use super::{ObjectEvent, ObjectMeta as _, Whole};
use crate::core::compact::table::{Named, Table};
use crate::core::time::Time;
use std::collections::BTreeSet;

/// The objects of one kind that wait for their pods and Services. They are adopted when those are known.
#[derive(Clone, Debug)]
pub(super) struct Arrivals<F> {
    objects: Table<usize, Arrival<F>>,
    /// The same, in the order in which they are to be adopted: that of [`super::adoption_order`].
    order: BTreeSet<(Option<Time>, Box<str>)>,
}

/// An object that waits.
#[derive(Clone, Debug)]
struct Arrival<F> {
    /// The epoch of the last list that showed it.
    epoch: u8,
    /// Boxed, since it is moved whenever the table's first piece grows.
    facts: Box<F>,
}

impl<F: Whole> Named for Arrival<F> {
    fn name(&self) -> &str {
        self.facts.meta().name()
    }
}

impl<F> Default for Arrivals<F> {
    fn default() -> Self {
        Self {
            objects: Table::default(),
            order: BTreeSet::new(),
        }
    }
}

impl<F: Whole> Arrivals<F> {
    /// Returns whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the object of a name.
    pub(super) fn get(&self, name: &str) -> Option<&F> {
        Some(&self.objects[self.objects.find(name)?].facts)
    }

    /// Takes the first in the order of adoption, with the epoch of its list.
    pub(super) fn take_first(&mut self) -> Option<ObjectEvent<F, F::Meta>> {
        let Some((_, name)) = self.order.pop_first() else {
            // This is asked at each plan, and there is memory to give back only after a start.
            if self.objects.end() > 0 {
                self.objects = Table::default();
            }
            return None;
        };
        let id = self.objects.find(&name);
        let id = id.expect("an object that is to be adopted was listed");
        let Arrival { epoch, facts } = self.objects.remove(id);
        Some(ObjectEvent::Whole(facts, epoch))
    }

    /// Keeps an object, in place of an earlier one of its name.
    pub(super) fn keep(&mut self, epoch: u8, facts: Box<F>) {
        self.drop(facts.meta().name());
        self.order.insert((facts.created(), facts.meta().name().into()));
        self.objects.insert(Arrival { epoch, facts });
    }

    /// Drops the object of a name.
    pub(super) fn drop(&mut self, name: &str) {
        if let Some(id) = self.objects.find(name) {
            let arrival = self.objects.remove(id);
            self.order.remove(&(arrival.facts.created(), name.into()));
        }
    }

    /// Drops the objects that the list of an epoch did not show.
    pub(super) fn drop_older(&mut self, epoch: u8) {
        let older = self.objects.iter().filter(|(_, arrival)| arrival.epoch != epoch);
        let older: Vec<Box<str>> = older.map(|(_, arrival)| arrival.name().into()).collect();
        for name in older {
            self.drop(&name);
        }
    }
}
