//! The schedule to compare with, which is fair by its construction. Endpoints have a fixed part of all writes, and so has
//! each class. Namespaces take turns: each of those that waited before has one write. One with slices that had none for long comes
//! before those that have no slices. In a class they share its part, and of the writes of a namespace in a class each of its Services
//! has one before another has its second.

use super::opponents::{CLASSES, Place, Step};
use std::collections::{BTreeMap, BTreeSet};

/// How many turns longer than twice as long anything may wait, however long the play.
const BOUND: f64 = 4.0;
/// The ticks that additions and the rest wait before their classes have parts: until then removals go first.
const PATIENCE: usize = 60;
/// The part of all writes that is each class's: of removals, of additions, and of the rest, both of slices and of Endpoints.
const OF_CLASS: [f64; 3] = [1.0 / 8.0, 1.0 / 16.0, 1.0 / 32.0];
/// The part of Endpoints; the second one if neither removals nor additions are among them.
const OF_ENDPOINTS: [f64; 2] = [1.0 / 2.0, 1.0 / 8.0];

/// A party that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Party {
    Endpoints,
    Class(usize),
    Namespace(u64),
    /// A namespace among those of a class.
    NamespaceInClass(u64, usize),
    /// A Service among those of a namespace in a class.
    Service(Place),
}

impl Party {
    fn is(self, place: Place) -> bool {
        match self {
            Self::Endpoints => place.class >= CLASSES / 2,
            Self::Class(class) => class == place.class,
            Self::Namespace(tenant) => tenant == place.tenant,
            Self::NamespaceInClass(tenant, class) => (tenant, class) == (place.tenant, place.class),
            Self::Service(own) => own == place,
        }
    }

    /// True for another Service that waits for the same writes.
    fn competes(self, place: Place) -> bool {
        matches!(self, Self::Service(own)
            if (own.tenant, own.class) == (place.tenant, place.class) && own.group != place.group)
    }

    /// True for a namespace none of whose slices are to change.
    fn has_no_slices(self, waiting: &[Place]) -> bool {
        let Self::Namespace(own) = self else { return false };
        let mut its = waiting.iter().filter(|place| place.tenant == own);
        its.all(|place| place.class > 1)
    }

    /// All parties of which these are.
    fn of(waiting: &[Place]) -> BTreeSet<Self> {
        let of_one = |place: &Place| {
            let Place { tenant, class, .. } = *place;
            let endpoints = (class >= CLASSES / 2).then_some(Self::Endpoints);
            let others = [
                Self::Class(class),
                Self::Namespace(tenant),
                Self::NamespaceInClass(tenant, class),
                Self::Service(*place),
            ];
            others.into_iter().chain(endpoints)
        };
        waiting.iter().flat_map(of_one).collect()
    }

    /// The writes that its next turn takes in the fair schedule while these wait, if each were one of its part.
    fn turn(self, waiting: &BTreeSet<Self>) -> f64 {
        let others = waiting.iter().filter(|other| match (self, *other) {
            (Self::Namespace(_), Self::Namespace(_)) => true,
            (Self::NamespaceInClass(_, class), Self::NamespaceInClass(_, other)) => class == *other,
            (Self::Service(_), Self::Service(place)) => self == **other || self.competes(*place),
            _ => false,
        });
        // Endpoints and classes take no turns with others.
        others.count().max(1) as f64
    }

    /// Its part of a write that might go to it.
    fn part(self, step: &Step) -> f64 {
        let of_class = |class: usize| {
            let goes_by_age = class.is_multiple_of(3) || step.waited[class] >= PATIENCE;
            if goes_by_age { OF_CLASS[class % 3] } else { 0.0 }
        };
        match self {
            Self::Namespace(_) => 1.0,
            Self::Endpoints => {
                let urgent = |place: &Place| (CLASSES / 2..CLASSES - 1).contains(&place.class);
                OF_ENDPOINTS[usize::from(!step.might_go.iter().any(urgent))]
            }
            Self::Class(class) => of_class(class),
            // Twice its part is as much as the class has for sure.
            Self::NamespaceInClass(_, class) => of_class(class) / 2.0,
            // It has a part of the writes of its namespace in its class, which are counted where they go.
            Self::Service(_) => 0.0,
        }
    }
}

/// A party that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// Half of its parts of all writes that might have gone to it, less the turns that it had, never below zero. As long as
    /// this is not much more than its next turn takes, it waits at most twice as long as in the fair schedule.
    pub owed: f64,
    /// The amount that its next turn takes in the fair schedule.
    pub turn: f64,
}

/// All parties that wait.
#[derive(Clone, Default)]
pub(super) struct Fair(BTreeMap<Party, Waits>);

impl Fair {
    /// Counts a write.
    pub(super) fn count(&mut self, step: &Step) {
        let before = Party::of(&step.waited_before);
        let after = Party::of(&step.wait);
        self.0.retain(|party, _| before.contains(party));
        for party in &before {
            let waits = || Waits {
                owed: 0.0,
                turn: party.turn(&before),
            };
            self.0.entry(*party).or_insert_with(waits);
        }
        for party in Party::of(&step.might_go) {
            if step.first_for_long && party.has_no_slices(&step.might_go) {
                continue;
            }
            if let Some(waits) = self.0.get_mut(&party) {
                waits.owed += party.part(step) / 2.0;
            }
        }
        // An object that was wanted for several classes may have gone in any of them.
        if let [place] = step.went[..] {
            for (_, waits) in self.0.iter_mut().filter(|(party, _)| party.competes(place)) {
                waits.owed += 0.5;
            }
        }
        if !step.went.is_empty() {
            for (party, waits) in &mut self.0 {
                if step.went.iter().any(|place| party.is(*place)) {
                    waits.owed = (waits.owed - waits.turn).max(0.0);
                    waits.turn = party.turn(&after);
                }
            }
        }
        self.0.retain(|party, _| after.contains(party));
    }

    /// Returns a party that waits too long.
    pub(super) fn late(&self) -> Option<(Party, Waits)> {
        let late = self.0.iter().find(|(_, waits)| waits.owed > waits.turn + BOUND);
        late.map(|(party, waits)| (*party, *waits))
    }
}
