//! One `EndpointSlice` as the controller sees it: what it should hold, and what the server is known to hold.

use super::address::Family;
use super::compact::intern::make_room;
use super::compact::small::SmallSet;
use super::facts::Owners;
use super::hash::hash_of;
use super::hints::{HintState, Zone};
use super::ids::{GroupId, PodId, ServiceId, SliceId};
use super::object::{Flight, ObjectState, Phase};
use super::ports::SlicePorts;
use super::queue::Priority;
use super::time::Time;
use hashbrown::HashTable;
use slab::Slab;
use std::sync::Arc;

/// The conditions of an endpoint in a few bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Conditions(u8);

impl Conditions {
    const PUBLISHED: u8 = 1;
    const READY: u8 = 2;
    const SERVING: u8 = 4;
    const TERMINATING: u8 = 8;

    /// Not on the server.
    pub const ABSENT: Self = Self(0);

    /// Published with these conditions.
    pub fn new(ready: bool, serving: bool, terminating: bool) -> Self {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        Self(
            Self::PUBLISHED
                | bit(ready, Self::READY)
                | bit(serving, Self::SERVING)
                | bit(terminating, Self::TERMINATING),
        )
    }

    /// Whether it is published at all.
    pub fn is_published(self) -> bool {
        self.0 & Self::PUBLISHED != 0
    }

    /// `conditions.ready`.
    pub fn ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// `conditions.serving`.
    pub fn serving(self) -> bool {
        self.0 & Self::SERVING != 0
    }

    /// `conditions.terminating`.
    pub fn terminating(self) -> bool {
        self.0 & Self::TERMINATING != 0
    }

    /// How urgent it is to get from what is published to what should be.
    pub fn priority_to(self, desired: Self) -> Priority {
        match (self.ready(), desired.ready()) {
            (true, false) => Priority::Remove,
            (false, true) => Priority::Add,
            _ if self.serving() && !desired.serving() => Priority::Remove,
            _ => Priority::Rest,
        }
    }
}

/// An endpoint's place in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Whose endpoint it is.
    pub pod: PodId,
    /// What the server has, or will have once the write in flight is through.
    pub published: Conditions,
    /// Whether anything but the conditions differs from what the server has.
    pub stale: bool,
    /// Whether this slot is counted in [`Slice::dirty`].
    pub dirty: bool,
}

/// A slice. Owned by its namespace's state.
#[derive(Clone, Debug)]
pub struct Slice {
    /// `metadata.name`; chosen by us for slices that we create.
    pub name: Arc<str>,
    /// The Service that it names.
    pub service_name: Arc<str>,
    /// What it is to us.
    pub phase: Phase,
    /// Its Service; none when parked.
    pub service: ServiceId,
    /// Its address type. Of a slice that is not live it may be unknown, and then says nothing.
    pub family: Family,
    /// Its port group; none when not live.
    pub group: GroupId,
    /// How it stands with the server.
    pub object: ObjectState,
    /// Its endpoints, in the order they are written.
    pub slots: Vec<Slot>,
    /// By slot: the zone that the endpoint is hinted to. Empty unless the Service's hints depend on the zones.
    pub hints: Vec<Option<Zone>>,
    /// The Services that own it.
    pub owner: Owners,
    /// When the object was created, of those that were listed whole.
    pub created: Option<Time>,
    /// Its object was given to another manager. Until what it holds changes, it is left to them.
    pub yielded: bool,
    /// How many slots differ from what the server has.
    pub dirty: u32,
    /// How many endpoints the server has that should not be there.
    pub removed: u32,
    /// Whether an evaluation of the Service has yet to look at it.
    pub touched: bool,
    /// Whether the present evaluation has found that nobody needs it any more.
    pub pooled: bool,
}

impl Slice {
    /// A slice that nobody has created yet.
    pub fn new(name: Arc<str>, service_name: Arc<str>, phase: Phase, service: ServiceId) -> Self {
        Self {
            name,
            service_name,
            phase,
            service,
            family: Family::V4,
            group: GroupId::NONE,
            object: ObjectState::default(),
            slots: Vec::new(),
            hints: Vec::new(),
            owner: Owners::default(),
            created: None,
            yielded: false,
            dirty: 0,
            removed: 0,
            touched: false,
            pooled: false,
        }
    }

    /// Whether the server is known to have something else than it should.
    pub fn differs(&self) -> bool {
        self.object.remote.is_none() || self.object.rewrite || self.dirty > 0 || self.removed > 0
    }

    /// The slice's place in a plan: creates first, then updates that only add, then updates that also take
    /// away, then deletes, so that an endpoint that moves is in its new slice before it leaves the old one.
    pub fn order(&self) -> u8 {
        match self.phase {
            Phase::Managed if self.object.remote.is_none() => 0,
            Phase::Managed if self.removed == 0 => 1,
            Phase::Managed => 2,
            _ => 3,
        }
    }

    /// A change that makes a write due, and how urgent it is.
    pub fn change(&mut self, priority: Priority) {
        self.object.change(priority);
        self.yielded = false;
    }

    /// Counts a slot as dirty or not, given the conditions that it should have.
    pub fn recount(&mut self, at: usize, desired: Conditions) {
        let slot = &mut self.slots[at];
        let dirty = slot.stale || slot.published != desired;
        if dirty != slot.dirty {
            slot.dirty = dirty;
            if dirty {
                self.dirty += 1;
            } else {
                self.dirty -= 1;
            }
        }
    }

    /// What the slice holds has been built into a request: from here on, that counts as published.
    pub fn depart(&mut self, flight: Flight, desired: impl Fn(PodId) -> Conditions) {
        self.object.depart(flight);
        self.removed = 0;
        self.dirty = 0;
        for slot in &mut self.slots {
            *slot = Slot {
                pod: slot.pod,
                published: desired(slot.pod),
                stale: false,
                dirty: false,
            };
        }
    }

    /// The server no longer has the object: the next write makes a new one, under a new name.
    pub fn forget_remote(&mut self, name: Arc<str>) {
        self.name = name;
        self.object.forget_remote();
        self.created = None;
        self.removed = 0;
        self.object.priority = self.object.priority.min(Priority::Add);
        self.dirty = self.slots.len() as u32;
        for slot in &mut self.slots {
            *slot = Slot {
                pod: slot.pod,
                published: Conditions::ABSENT,
                stale: false,
                dirty: true,
            };
        }
    }
}

/// The slices of one Service and family.
#[derive(Clone, Debug, Default)]
pub struct FamilyState {
    /// Pods with an endpoint to place. May name pods that are placed, gone or unfit by now.
    pub to_place: Vec<PodId>,
    /// Slices for the next evaluation to look at. May name slices that are gone by now.
    pub touched: Vec<SliceId>,
    /// Slices without an endpoint. May name slices that have some by now, or are gone.
    pub empties: Vec<SliceId>,
    /// What became of the wish for hints by zone.
    pub hint_state: HintState,
    /// Whether the next evaluation looks at all hints.
    pub rehint: bool,
    /// How many live slices there are.
    pub live: u32,
    /// The port groups.
    pub groups: Groups,
}

/// The port groups of one Service and family, by index and by ports.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    groups: Slab<Group>,
    by_ports: HashTable<u32>,
}

/// The pods with one list of ports, and their slices.
#[derive(Clone, Debug)]
pub struct Group {
    /// The ports, sorted.
    pub ports: SlicePorts,
    /// How many endpoints are placed.
    pub endpoints: u32,
    /// Its live slices by how full they are.
    pub by_fill: SmallSet<(u32, SliceId)>,
}

impl Groups {
    /// The group with these ports, made if there is none.
    pub fn obtain(&mut self, ports: &SlicePorts) -> GroupId {
        if let Some(id) = self.find(ports) {
            return id;
        }
        let group = Group {
            ports: ports.clone(),
            endpoints: 0,
            by_fill: SmallSet::default(),
        };
        make_room(&mut self.groups);
        let id = GroupId::from(self.groups.insert(group));
        self.by_ports.insert_unique(hash_of(ports), id.0, |&id| {
            hash_of(&self.groups[id as usize].ports)
        });
        id
    }

    /// The group with these ports, if there is one.
    pub fn find(&self, ports: &SlicePorts) -> Option<GroupId> {
        let found = self
            .by_ports
            .find(hash_of(ports), |&id| self.groups[id as usize].ports == *ports);
        found.map(|&id| GroupId(id))
    }

    /// A group in use.
    pub fn get(&self, id: GroupId) -> &Group {
        &self.groups[id.index()]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|(_, group)| group)
    }

    /// A slice joins a group.
    pub fn join(&mut self, id: GroupId, slice: SliceId, fill: usize) {
        let group = &mut self.groups[id.index()];
        group.endpoints += fill as u32;
        group.by_fill.insert((fill as u32, slice));
    }

    /// A slice leaves its group; an idle group is freed.
    pub fn leave(&mut self, id: GroupId, slice: SliceId, fill: usize) {
        let group = &mut self.groups[id.index()];
        group.endpoints -= fill as u32;
        group.by_fill.remove(&(fill as u32, slice));
        self.free_if_idle(id);
    }

    /// A slice of a group holds another number of endpoints now.
    pub fn refill(&mut self, id: GroupId, slice: SliceId, before: usize, after: usize) {
        let group = &mut self.groups[id.index()];
        group.endpoints = group.endpoints + after as u32 - before as u32;
        group.by_fill.remove(&(before as u32, slice));
        group.by_fill.insert((after as u32, slice));
    }

    /// Frees a group without slices.
    pub fn free_if_idle(&mut self, id: GroupId) {
        if self
            .groups
            .get(id.index())
            .is_some_and(|group| group.by_fill.is_empty())
        {
            let group = self.groups.remove(id.index());
            self.by_ports
                .find_entry(hash_of(&group.ports), |&other| other == id.0)
                .expect("a group is in the table of its ports")
                .remove();
        }
    }
}
