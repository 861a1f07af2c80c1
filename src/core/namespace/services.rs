//! The Services of a namespace: what each asks for, which pods belong to it, and where each endpoint is placed.
//!
//! [`Services`] owns the Services, the memberships of pods and the passes that an event has left to be done. Endpoints are
//! placed in slices, so most of what is done here is done at a [`Placement`], which holds the inputs and the slices beside the
//! Services. Endpoints objects and mirrors are out of reach: what they have to know comes back as a value.
//!
//! [`Placement`]: super::Placement

mod addresses;
mod annotations;
mod changes;
mod deferral;
mod evaluate;
mod following;
mod forget;
mod handover;
mod health;
mod hinting;
mod members;
mod notices;
mod passes;
mod pods;
mod remainders;
mod sync_stats;
mod unknown_nodes;

pub(super) use addresses::{ServiceEndpoints, address_of, by_uid};
pub(super) use annotations::Start;
pub(super) use changes::Compared;
pub(super) use evaluate::Trigger;
pub(super) use hinting::auto_hint;
pub(super) use members::{AllMemberships, desired};
pub(super) use passes::{Finished, Pass, Queued};
pub(super) use remainders::outlasts_node;

pub use health::{FamilyHealth, ServiceHealth};
pub use sync_stats::{SyncReport, Totals};

use crate::core::address::Family;
use crate::core::compact::small::SmallSet;
use crate::core::compact::table::{Named, Table};
use crate::core::deadlines::Deadlines;
use crate::core::facts::ServiceFacts;
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::namespace::rounds::STRIDE;
use crate::core::ports::ResolvedPorts;
use crate::core::slices::FamilyState;
use crate::core::time::{Time, earliest};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Ready times, by the name of the pod. There may be a hundred thousand: no insertion has to move all of them.
type ReadyTimes = BTreeMap<Box<str>, Time>;

/// A Service, owned by its namespace's state.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) facts: ServiceFacts,
    /// Replaced by a new number whenever its ports change.
    ports: u64,
    /// By [`Family::index`]; `None` for a family in which it has no slices, and for both while it is unmanaged.
    pub(super) families: [Option<Box<FamilyState>>; 2],
    /// Whether it has been evaluated with a selector: only the first evaluation stamps its creation time.
    pub(super) known: bool,
    /// The earliest Ready time that moved forward since the last evaluation.
    pub(super) trigger: Option<Time>,
    /// While it is unmanaged: the Ready times of the pods that it selected when it was last managed.
    paused_times: Option<Box<ReadyTimes>>,
    /// Number of slices that must be fetched before it can be evaluated.
    pub(super) awaiting: u32,
    /// Its slices, in any phase.
    pub(super) slices: SmallSet<SliceId>,
    /// Its pods, if its selector cannot be used.
    pub(super) following: Option<Box<SmallSet<PodId>>>,
    /// Set while another controller takes it over.
    handover: Option<Box<handover::Handover>>,
    /// True if users were told of slices that others publish for it.
    told_of_others: bool,
    /// The members of its Endpoints object, while that is ours to write.
    pub(super) endpoints: Option<Box<ServiceEndpoints>>,
    pub(super) dirty: bool,
    epoch: u8,
    sync_stats: sync_stats::SyncStats,
    moves: sync_stats::Moves,
}

impl Service {
    fn new(facts: ServiceFacts, ports: u64, epoch: u8) -> Self {
        Self {
            facts,
            ports,
            families: [None, None],
            known: false,
            trigger: None,
            paused_times: None,
            awaiting: 0,
            slices: SmallSet::default(),
            following: None,
            handover: None,
            told_of_others: false,
            endpoints: None,
            dirty: false,
            sync_stats: sync_stats::SyncStats::default(),
            moves: sync_stats::Moves::default(),
            epoch,
        }
    }

    /// Keeps a time for the next evaluation, unless an earlier one is kept.
    pub(super) fn note(&mut self, time: Option<Time>) {
        self.trigger = earliest(self.trigger, time);
    }

    /// Returns the slices of a family in which it is published.
    pub(super) fn family(&mut self, family: Family) -> &mut FamilyState {
        self.families[family.index()]
            .as_mut()
            .expect("a slice's Service has the slice's family")
    }
}

impl Named for Service {
    fn name(&self) -> &str {
        &self.facts.name
    }
}

/// The Services of a namespace, with the memberships of its pods.
#[derive(Clone, Default, Debug)]
pub(super) struct Services {
    table: Table<ServiceId, Service>,
    memberships: AllMemberships,
    resolved: ResolvedPorts,
    /// The last number that was given to the ports of a Service.
    last_ports: u64,
    /// Services to be evaluated.
    dirty: Vec<ServiceId>,
    /// The times before which the first writes for Services are not to be sent.
    not_before: Deadlines<ServiceId>,
    /// When to look at Services that another controller takes over.
    handovers: Deadlines<ServiceId>,
    /// Work that the last event has left to be done.
    passes: VecDeque<Queued>,
    auto_hints: hinting::AutoHints,
    syncs: Vec<SyncReport>,
    totals: Totals,
}

impl Deref for Services {
    type Target = Table<ServiceId, Service>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Services {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

impl Services {
    /// Returns the memberships of all pods.
    pub(super) fn memberships(&self) -> &AllMemberships {
        &self.memberships
    }

    /// Queues a Service to be evaluated.
    pub(super) fn mark(&mut self, id: ServiceId) {
        let service = &mut self.table[id];
        if !service.dirty {
            service.dirty = true;
            self.dirty.push(id);
            // Services may come and go while nothing is planned, perhaps for days.
            if self.dirty.len() > 2 * self.table.len() + 16 {
                self.dirty.sort_unstable();
                self.dirty.dedup();
                let services = &self.table;
                self.dirty
                    .retain(|&id| services.get(id).is_some_and(|service| service.dirty));
            }
        }
    }

    /// Returns whether Services are to be evaluated.
    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the Services to be evaluated.
    pub(super) fn take_dirty(&mut self) -> Vec<ServiceId> {
        std::mem::take(&mut self.dirty)
    }

    /// Takes the names of the Services that have changed since they were last evaluated, or taken here.
    pub(super) fn take_dirty_names(&mut self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for id in self.take_dirty() {
            // The index may belong to another Service by now.
            if let Some(service) = self.table.get_mut(id)
                && std::mem::take(&mut service.dirty)
            {
                names.push(service.facts.name.clone());
            }
        }
        names
    }

    /// Returns the names of the Services that the list of an epoch did not show.
    pub(super) fn unlisted(&self, epoch: u8) -> Vec<Box<str>> {
        let gone = self.table.iter().filter(|(_, service)| service.epoch != epoch);
        gone.map(|(_, service)| (*service.facts.name).into()).collect()
    }

    /// Returns the names of those that the list of an epoch did not show, of some Services from a number on, and where to go
    /// on if there may be more.
    pub(super) fn some_unlisted(&self, epoch: u8, from: usize) -> (Vec<Box<str>>, Option<usize>) {
        let next = from + STRIDE;
        let some = (from..next).filter_map(|number| self.table.get(ServiceId::from(number)));
        let gone = some.filter(|service| service.epoch != epoch);
        let names = gone.map(|service| (*service.facts.name).into()).collect();
        (names, (next < self.table.end()).then_some(next))
    }

    /// Forgets trigger times noted before the first plan, since those changes were there before this process wrote: those of
    /// some Services, from a number on.
    pub(super) fn forget_triggers(&mut self, from: usize) {
        for number in from..from + STRIDE {
            if let Some(service) = self.table.get_mut(ServiceId::from(number))
                && service.known
            {
                service.trigger = None;
            }
        }
    }

    /// Notes that a plan is complete.
    pub(super) fn planned(&mut self) {
        self.resolved.planned();
    }

    /// Returns the managed Service of a name.
    pub(super) fn managed(&self, name: &str) -> Option<ServiceId> {
        let id = self.table.find(name);
        id.filter(|&id| self.table[id].facts.is_managed())
    }
}
