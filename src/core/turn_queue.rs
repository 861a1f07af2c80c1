//! A queue in which namespaces take turns, so that one with many objects does not hold up the others. The writes of one class
//! wait in one (`core::publish::queue`).

mod ring;

pub(in crate::core) use ring::Age;

use super::hash::IdMap;
use ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

/// Objects that may go. Namespaces take turns, and so do the Services of a namespace; among the objects of a Service, the one
/// that has waited longest goes first.
#[derive(Clone, Debug)]
pub(in crate::core) struct TurnQueue<K> {
    tenants: Ring<NamespaceObjects<K>>,
    /// The namespaces, by when the first of their objects was wanted.
    oldest: BTreeSet<(Age, u64)>,
    /// The objects of namespaces that have no turn for now.
    held: IdMap<u64, NamespaceObjects<K>>,
}

/// The objects of one namespace that may go.
#[derive(Clone, Debug)]
struct NamespaceObjects<K> {
    groups: Ring<Line<K>>,
    ages: BTreeSet<Age>,
}

/// The objects of one Service, the oldest first. Most Services have a single one, which needs no allocation.
#[derive(Clone, Debug)]
struct Line<K> {
    first: (Age, K),
    more: BTreeMap<Age, K>,
}

impl<K> Line<K> {
    fn new(age: Age, key: K) -> Self {
        Self {
            first: (age, key),
            more: BTreeMap::new(),
        }
    }

    fn insert(&mut self, age: Age, key: K) {
        let mut later = (age, key);
        if later.0 < self.first.0 {
            mem::swap(&mut self.first, &mut later);
        }
        self.more.insert(later.0, later.1);
    }

    /// Removes an object. Returns false if it was the last one, which stays.
    fn remove(&mut self, age: Age) -> bool {
        if age != self.first.0 {
            self.more.remove(&age);
            return true;
        }
        let next = self.more.pop_first();
        let more = next.is_some();
        if let Some(next) = next {
            self.first = next;
        }
        more
    }
}

impl<K> Default for NamespaceObjects<K> {
    fn default() -> Self {
        Self {
            groups: Ring::default(),
            ages: BTreeSet::new(),
        }
    }
}

impl<K> Default for TurnQueue<K> {
    fn default() -> Self {
        Self {
            tenants: Ring::default(),
            oldest: BTreeSet::new(),
            held: IdMap::default(),
        }
    }
}

impl<K> NamespaceObjects<K> {
    /// Returns the age of the object that goes next.
    fn next_age(&self) -> Option<Age> {
        let line = self.groups.get(self.groups.first(|_| true)?)?;
        Some(line.first.0)
    }

    fn insert(&mut self, group: u64, age: Age, key: K) {
        self.ages.insert(age);
        match self.groups.get_mut(group) {
            Some(line) => {
                line.insert(age, key);
                let first = line.first.0;
                self.groups.set_age(group, first);
            }
            None => self.groups.join(group, age, Line::new(age, key)),
        }
    }

    fn remove(&mut self, group: u64, age: Age) {
        self.ages.remove(&age);
        if let Some(line) = self.groups.get_mut(group) {
            if line.remove(age) {
                let first = line.first.0;
                self.groups.set_age(group, first);
            } else {
                drop(self.groups.leave(group));
            }
        }
    }

    fn take(&mut self) -> Option<K>
    where
        K: Clone,
    {
        let group = self.groups.first(|_| true)?;
        let (age, key) = self.groups.get(group)?.first.clone();
        self.groups.begin_turn(group);
        self.remove(group, age);
        self.groups.end_turn(group);
        Some(key)
    }
}

impl<K> TurnQueue<K> {
    /// Adds an object of a group of a namespace.
    pub(in crate::core) fn insert(&mut self, tenant: u64, group: u64, age: Age, key: K) {
        if self.tenants.get(tenant).is_none() {
            self.tenants.join(tenant, age, NamespaceObjects::default());
        }
        self.change(tenant, |objects| objects.insert(group, age, key));
    }

    /// Adds an object of a namespace that has no turn for now.
    pub(in crate::core) fn insert_held(&mut self, tenant: u64, group: u64, age: Age, key: K) {
        self.held.entry(tenant).or_default().insert(group, age, key);
    }

    /// Takes the turn of a namespace away.
    pub(in crate::core) fn hold(&mut self, tenant: u64) {
        let Some(objects) = self.tenants.leave(tenant) else {
            return;
        };
        if let Some(first) = objects.ages.first() {
            self.oldest.remove(&(*first, tenant));
        }
        self.held.insert(tenant, objects);
    }

    /// Gives a namespace a turn again. Returns whether it has something here.
    pub(in crate::core) fn release(&mut self, tenant: u64) -> bool {
        let Some(objects) = self.held.remove(&tenant) else {
            return false;
        };
        let (Some(next), Some(first)) = (objects.next_age(), objects.ages.first().copied()) else {
            return false;
        };
        self.oldest.insert((first, tenant));
        self.tenants.join(tenant, next, objects);
        true
    }

    /// Removes an object. The turns of its namespace and of its group stay as they are.
    pub(in crate::core) fn remove(&mut self, tenant: u64, group: u64, age: Age) {
        if let Some(objects) = self.held.get_mut(&tenant) {
            objects.remove(group, age);
            if objects.ages.is_empty() {
                self.held.remove(&tenant);
            }
            return;
        }
        self.change(tenant, |objects| objects.remove(group, age));
    }

    /// Changes the objects that a namespace has.
    fn change(&mut self, tenant: u64, change: impl FnOnce(&mut NamespaceObjects<K>)) {
        let Some(objects) = self.tenants.get_mut(tenant) else {
            return;
        };
        let before = objects.ages.first().copied();
        change(objects);
        let (after, next) = (objects.ages.first().copied(), objects.next_age());
        if before != after {
            if let Some(before) = before {
                self.oldest.remove(&(before, tenant));
            }
            if let Some(after) = after {
                self.oldest.insert((after, tenant));
            }
        }
        match next {
            Some(next) => self.tenants.set_age(tenant, next),
            None => drop(self.tenants.leave(tenant)),
        }
    }

    /// Returns the namespace whose turn it is, among those that may have one.
    pub(in crate::core) fn head(&self, may: impl Fn(u64) -> bool) -> Option<u64> {
        self.tenants.first(may)
    }

    /// Returns when the oldest object of the namespaces that may have a turn was wanted.
    pub(in crate::core) fn oldest(&self, may: impl Fn(u64) -> bool) -> Option<Duration> {
        let first = self.oldest.iter().find(|(_, tenant)| may(*tenant));
        first.map(|((since, _), _)| *since)
    }

    /// Returns when the oldest object of a namespace was wanted.
    pub(in crate::core) fn oldest_of(&self, tenant: u64) -> Option<Duration> {
        let (since, _) = self.tenants.get(tenant)?.ages.first()?;
        Some(*since)
    }

    /// Returns the namespace of the only object that there is, if there is one alone and it may have a turn.
    pub(in crate::core) fn only(&self) -> Option<u64> {
        let (tenant, objects) = self.tenants.only()?;
        (objects.ages.len() == 1 && self.held.is_empty()).then_some(tenant)
    }

    /// Removes and returns the object of [`Self::only`], which is a turn of its namespace.
    pub(in crate::core) fn take_only(&mut self) -> Option<K> {
        self.only()?;
        self.oldest.pop_first();
        let mut objects = self.tenants.take_only()?;
        let line = objects.groups.take_only()?;
        Some(line.first.1)
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.tenants.is_empty() && self.held.is_empty()
    }

    /// Returns whether a namespace has an object that may go now.
    pub(in crate::core) fn has(&self, tenant: u64) -> bool {
        self.tenants.get(tenant).is_some()
    }

    /// Removes and returns the next object of a namespace. That is a turn of its group and of the namespace, `in_order` if it is the
    /// one whose turn it is.
    pub(in crate::core) fn take(&mut self, tenant: u64, in_order: bool) -> Option<K>
    where
        K: Clone,
    {
        if in_order {
            self.tenants.begin_turn(tenant);
        }
        let mut taken = None;
        self.change(tenant, |objects| taken = objects.take());
        self.tenants.end_turn(tenant);
        taken
    }
}
