//! The objects of one class that may go, by namespace.

use crate::core::hash::IdMap;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The number of classes.
pub(in crate::core) const CLASSES: usize = 6;

/// Classes whose objects may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes(u8);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// Every class.
    pub const ALL: Self = Self((1 << CLASSES) - 1);
    /// The removals of slices.
    pub const SLICE_REMOVALS: Self = Self(1);
    /// Everything else that is written to slices.
    pub const SLICE_OTHERS: Self = Self(1 << 1 | 1 << 4);
    /// The removals of Endpoints.
    pub const ENDPOINTS_REMOVALS: Self = Self(1 << 2);
    /// Everything else that is written to Endpoints.
    pub const ENDPOINTS_OTHERS: Self = Self(1 << 3 | 1 << 5);

    /// Returns the classes that are in either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these classes without the others.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(in crate::core) fn has(self, class: usize) -> bool {
        self.0 & 1 << class != 0
    }
}

/// Objects of one priority; those that yield have a class of their own.
#[derive(Clone, Debug)]
pub(in crate::core) struct Class<K> {
    /// Objects by turn, by namespace: the first object of each Service has the present turn, its second the next one,
    /// and so on. Within a turn the oldest goes first.
    by_tenant: IdMap<u64, Share<K>>,
    /// The namespaces in `by_tenant`, by their turn, then by their next object.
    tenants: BTreeSet<(u64, Duration, u64, u64)>,
    /// The namespaces, by when the first of their objects was wanted.
    oldest: BTreeSet<(Duration, u64, u64)>,
    /// The turn given to namespaces that come to have objects here.
    turn: u64,
}

/// The objects of one namespace that may go, in one class.
#[derive(Clone, Debug)]
struct Share<K> {
    turn: u64,
    by_turn: BTreeMap<(u64, Duration, u64), K>,
    /// When its objects were first wanted.
    ages: BTreeSet<(Duration, u64)>,
}

impl<K> Share<K> {
    /// Returns its place among the namespaces of its class.
    fn place(&self, tenant: u64) -> Option<(u64, Duration, u64, u64)> {
        let ((_, since, sequence), _) = self.by_turn.first_key_value()?;
        Some((self.turn, *since, *sequence, tenant))
    }

    /// Returns its place by age.
    fn age(&self, tenant: u64) -> Option<(Duration, u64, u64)> {
        let (since, sequence) = self.ages.first()?;
        Some((*since, *sequence, tenant))
    }
}

impl<K> Default for Class<K> {
    fn default() -> Self {
        Self {
            by_tenant: IdMap::default(),
            tenants: BTreeSet::new(),
            oldest: BTreeSet::new(),
            turn: 0,
        }
    }
}

impl<K> Class<K> {
    pub(in crate::core) fn insert(&mut self, tenant: u64, at: (u64, Duration, u64), key: K) {
        let turn = self.turn;
        self.change(tenant, turn, |share| {
            share.by_turn.insert(at, key);
            share.ages.insert((at.1, at.2));
        });
    }

    pub(in crate::core) fn remove(&mut self, tenant: u64, at: (u64, Duration, u64)) {
        self.change(tenant, 0, |share| {
            share.by_turn.remove(&at);
            share.ages.remove(&(at.1, at.2));
        });
    }

    /// Changes a namespace's share; `turn` is its turn if it had nothing here.
    fn change(&mut self, tenant: u64, turn: u64, change: impl FnOnce(&mut Share<K>)) {
        let share = self.by_tenant.entry(tenant).or_insert_with(|| Share {
            turn,
            by_turn: BTreeMap::new(),
            ages: BTreeSet::new(),
        });
        if let (Some(place), Some(age)) = (share.place(tenant), share.age(tenant)) {
            self.tenants.remove(&place);
            self.oldest.remove(&age);
        }
        change(share);
        match (share.place(tenant), share.age(tenant)) {
            (Some(place), Some(age)) => {
                self.tenants.insert(place);
                self.oldest.insert(age);
            }
            _ => {
                self.by_tenant.remove(&tenant);
            }
        }
    }

    /// Returns the namespace whose turn it is, of those that may have one.
    pub(in crate::core) fn head(&self, may: impl Fn(u64) -> bool) -> Option<u64> {
        let place = self.tenants.iter().find(|(.., tenant)| may(*tenant));
        place.map(|(.., tenant)| *tenant)
    }

    /// Returns when the oldest object was wanted, of the namespaces that may have a turn.
    pub(in crate::core) fn oldest(&self, may: impl Fn(u64) -> bool) -> Option<Duration> {
        let age = self.oldest.iter().find(|(.., tenant)| may(*tenant));
        age.map(|(since, ..)| *since)
    }

    /// Returns when the oldest object of a namespace was wanted.
    pub(in crate::core) fn oldest_of(&self, tenant: u64) -> Option<Duration> {
        let (since, _) = self.by_tenant.get(&tenant)?.ages.first()?;
        Some(*since)
    }

    pub(in crate::core) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Returns the next object of a namespace.
    pub(in crate::core) fn first_of(&self, tenant: u64) -> Option<&K> {
        let (_, key) = self.by_tenant.get(&tenant)?.by_turn.first_key_value()?;
        Some(key)
    }

    /// Returns the turn that a namespace has here.
    pub(in crate::core) fn turn_of(&self, tenant: u64) -> u64 {
        self.by_tenant.get(&tenant).map_or(0, |share| share.turn)
    }

    /// Records that the namespace has had this turn. Namespaces that come from now on get the next one: with the
    /// present one, those that come and go could overtake one that waits, again and again.
    pub(in crate::core) fn served(&mut self, turn: u64, tenant: u64) {
        if self.tenants.first().is_none_or(|(first, ..)| *first >= turn) {
            self.turn = self.turn.max(turn + 1);
        }
        if self.by_tenant.contains_key(&tenant) {
            self.change(tenant, turn, |share| share.turn = turn + 1);
        }
    }
}
