//! One `EndpointSlice` as the controller sees it: its desired content and what the API server is known to hold.

mod groups;

pub use groups::Groups;

use super::address::Family;
use super::facts::{Manager, Owners};
use super::hints::{HintState, Zone};
use super::ids::{GroupId, PodId, ServiceId, SliceId, Uid};
use super::object::{ObjectState, Phase};
use super::priority::{Priority, Stage};
use super::time::Time;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The conditions of an endpoint, packed into a few bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Conditions(u8);

impl Conditions {
    const PUBLISHED: u8 = 1;
    const READY: u8 = 2;
    const SERVING: u8 = 4;
    const TERMINATING: u8 = 8;

    /// Not published on the server.
    pub const ABSENT: Self = Self(0);

    /// Creates the conditions of a published endpoint.
    pub fn new(ready: bool, serving: bool, terminating: bool) -> Self {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        Self(
            Self::PUBLISHED
                | bit(ready, Self::READY)
                | bit(serving, Self::SERVING)
                | bit(terminating, Self::TERMINATING),
        )
    }

    /// Returns whether the endpoint is published at all.
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

    /// Returns the priority of changing the published conditions to the desired ones. It decides when the slice's turn comes in
    /// the queue, before its position in a plan does ([`Slice::order`]).
    pub fn priority_to(self, desired: Self) -> Priority {
        match (self.ready(), desired.ready()) {
            (true, false) => Priority::Remove,
            (false, true) => Priority::Add,
            _ if self.serving() && !desired.serving() => Priority::Remove,
            _ => Priority::Rest,
        }
    }

    /// Returns whether clients may send traffic to the endpoint: an endpoint that is only serving gets it where none is ready.
    pub fn gets_traffic(self) -> bool {
        self.0 & (Self::READY | Self::SERVING) != 0
    }
}

/// How the server's copy of an endpoint differs from the desired one, apart from the conditions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Difference {
    /// Not at all.
    #[default]
    None,
    /// In content that directs no traffic.
    Content,
    /// In its address: the pod has another one.
    Address,
}

impl Difference {
    /// Creates the difference that a change of the pod makes.
    pub fn of(content: bool, address: bool) -> Self {
        match (content, address) {
            (_, true) => Self::Address,
            (true, false) => Self::Content,
            (false, false) => Self::None,
        }
    }

    /// Adds another difference.
    pub fn add(&mut self, other: Self) {
        *self = (*self).max(other);
    }
}

/// An endpoint's place in a slice.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The pod behind the endpoint.
    pub pod: PodId,
    /// The conditions on the server, or those it will have once the write in flight succeeds.
    pub published: Conditions,
    /// How the server's copy differs from the pod.
    pub difference: Difference,
    /// True if the server is known to have this pod's endpoint in the slice.
    pub acknowledged: bool,
    /// True if this slot is counted in [`Slice::dirty`].
    pub dirty: bool,
}

impl Slot {
    /// Creates the slot of an endpoint that the server does not have.
    pub fn absent(pod: PodId) -> Self {
        Self {
            pod,
            published: Conditions::ABSENT,
            difference: Difference::None,
            acknowledged: false,
            dirty: false,
        }
    }

    /// Returns whether clients may send traffic to an address that the pod no longer has.
    pub fn misdirects(&self) -> bool {
        self.difference == Difference::Address && self.published.gets_traffic()
    }

    /// Returns the priority of writing the endpoint with the desired conditions. An address that gets traffic is removed when
    /// another takes its place, although the endpoint stays ready.
    pub fn priority_to(&self, desired: Conditions) -> Priority {
        if self.misdirects() {
            return Priority::Remove;
        }
        self.published.priority_to(desired)
    }
}

/// An endpoint that the server's copy of a slice shows, and that has no slot in it any more.
#[derive(Clone, Copy, Debug)]
pub struct Remainder {
    /// The endpoint as the server has it.
    pub slot: Slot,
    /// False if the write in flight leaves the endpoint out, or one that failed did.
    pub sent: bool,
}

/// A slice, owned by its namespace's state.
#[derive(Clone, Debug)]
pub struct Slice {
    /// `metadata.name`; chosen by the controller for slices that it creates.
    pub name: Arc<str>,
    /// The Service that its label names.
    pub service_name: Arc<str>,
    /// The controller that its label names.
    pub manager: Manager,
    /// Its Service; none when unmanaged.
    pub service: ServiceId,
    /// Its address type. For a slice that is not managed it may be unknown, and this value is then meaningless.
    pub family: Family,
    /// Its port group; none if it is not managed.
    pub group: GroupId,
    /// Its state relative to the API server.
    pub object: ObjectState,
    /// Its endpoints, in the order they are written.
    pub slots: SmallVec<[Slot; 2]>,
    rare: Option<Box<Rare>>,
    /// The object's creation time, for objects that were listed in full.
    pub created: Option<Time>,
    /// True if it is counted among the slices of other controllers that name its Service.
    pub counts_as_foreign: bool,
    /// The number of slots that differ from the server's copy.
    pub dirty: u32,
    /// The number of endpoints on the server that belong to no member of the Service.
    pub removed: u32,
    /// True if the next evaluation of the Service must check it.
    pub touched: bool,
    /// True if the current evaluation has found that it is no longer needed.
    pub pooled: bool,
}

/// The part of a slice that few managed ones have. Boxed, because there may be a slice for each pod.
#[derive(Clone, Default, Debug)]
struct Rare {
    owner: Option<Owners>,
    hints: Vec<Option<Zone>>,
    remainders: Vec<Remainder>,
}

impl Slice {
    /// Creates a slice that is not on the server yet.
    pub fn new(
        name: Arc<str>,
        service_name: Arc<str>,
        manager: Manager,
        phase: Phase,
        service: ServiceId,
    ) -> Self {
        Self {
            name,
            service_name,
            manager,
            service,
            family: Family::V4,
            group: GroupId::NONE,
            object: ObjectState::new(phase),
            slots: SmallVec::new(),
            rare: None,
            created: None,
            counts_as_foreign: false,
            dirty: 0,
            removed: 0,
            touched: false,
            pooled: false,
        }
    }

    /// Returns the zone that each slot's endpoint is hinted to. Empty unless the Service's hints depend on the zones.
    pub fn hints(&self) -> &[Option<Zone>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.hints)
    }

    /// Returns the same, to be changed as the slots are.
    pub fn hints_mut(&mut self) -> &mut Vec<Option<Zone>> {
        &mut self.rare.get_or_insert_default().hints
    }

    /// Sets the zone that each slot's endpoint is hinted to. Returns those before.
    pub fn set_hints(&mut self, hints: Vec<Option<Zone>>) -> Vec<Option<Zone>> {
        if hints.is_empty() && self.rare.is_none() {
            return hints;
        }
        let before = std::mem::replace(self.hints_mut(), hints);
        self.tidy();
        before
    }

    /// Returns the Services that own it. `None` if it is its Service alone, as for nearly all slices that are managed.
    pub fn owner(&self) -> Option<&Owners> {
        self.rare.as_ref()?.owner.as_ref()
    }

    /// Sets the Services that own it.
    pub fn set_owner(&mut self, owner: Option<Owners>) {
        if owner.is_some() || self.rare.is_some() {
            self.rare.get_or_insert_default().owner = owner;
            self.tidy();
        }
    }

    /// Gives back the memory of the rare part, if there is nothing in it any more.
    fn tidy(&mut self) {
        self.rare
            .take_if(|rare| rare.owner.is_none() && rare.hints.is_empty() && rare.remainders.is_empty());
    }

    /// Returns the endpoints of the server's copy that have no slot any more.
    pub fn remainders(&self) -> &[Remainder] {
        self.rare.as_ref().map_or(&[], |rare| &rare.remainders)
    }

    /// Returns the remainder of a pod.
    pub fn remainder_mut(&mut self, pod: PodId) -> Option<&mut Remainder> {
        let remainders = &mut self.rare.as_mut()?.remainders;
        remainders.iter_mut().find(|remainder| remainder.slot.pod == pod)
    }

    /// Adds an endpoint that the server has and that has lost its slot.
    pub fn add_remainder(&mut self, slot: Slot) {
        let remainder = Remainder { slot, sent: true };
        if let Some(earlier) = self.remainder_mut(slot.pod) {
            *earlier = remainder;
        } else {
            self.rare.get_or_insert_default().remainders.push(remainder);
        }
    }

    /// Takes out the remainders that fail the test.
    pub fn retain_remainders(&mut self, keep: impl FnMut(&Remainder) -> bool) {
        if let Some(rare) = &mut self.rare {
            rare.remainders.retain(keep);
            self.tidy();
        }
    }

    /// Takes out all remainders.
    pub fn take_remainders(&mut self) -> Vec<Remainder> {
        let taken = self
            .rare
            .as_mut()
            .map(|rare| std::mem::take(&mut rare.remainders));
        self.tidy();
        taken.unwrap_or_default()
    }

    /// Returns whether an object is another one of the name, made since this one was deleted.
    pub fn is_another(&self, uid: &Uid) -> bool {
        let remote = self.object.remote.as_ref();
        self.object.phase == Phase::Deleting && remote.is_some_and(|remote| remote.uid != *uid)
    }

    /// Returns whether another controller has it on the API server, if it is not managed.
    pub fn is_foreign(&self) -> bool {
        self.manager != Manager::Custom && self.object.remote.is_some()
    }

    /// Returns whether the server's copy is known to differ from the desired content, its remainders aside.
    pub fn differs(&self) -> bool {
        self.object.remote.is_none() || self.object.rewrite || self.dirty > 0 || self.removed > 0
    }

    /// Returns the place of its write among those of its Service.
    pub fn stage(&self) -> Stage {
        match self.object.phase {
            Phase::Adopting { .. } => Stage::Create,
            Phase::Managed if self.object.remote.is_none() => Stage::Create,
            Phase::Managed if self.removed == 0 && self.remainders().is_empty() => Stage::Add,
            Phase::Managed => Stage::Remove,
            _ => Stage::Delete,
        }
    }

    /// Records a change that makes a write due, with its priority.
    pub fn change(&mut self, priority: Priority) {
        self.object.change(priority);
    }

    /// Updates whether a slot counts as dirty, given its desired conditions.
    pub fn recount(&mut self, at: usize, desired: Conditions) {
        let slot = &mut self.slots[at];
        let dirty = slot.difference != Difference::None || slot.published != desired;
        if dirty != slot.dirty {
            slot.dirty = dirty;
            if dirty {
                self.dirty += 1;
            } else {
                self.dirty -= 1;
            }
        }
    }

    /// Records that a request was built from the slice's content, which counts as published from now on. `held` tells which
    /// remainders the request has.
    pub fn send(&mut self, desired: impl Fn(PodId) -> Conditions, held: impl Fn(PodId) -> bool) {
        self.removed = 0;
        self.dirty = 0;
        let depart = |slot: &mut Slot| {
            slot.published = desired(slot.pod);
            (slot.difference, slot.dirty) = (Difference::None, false);
        };
        self.slots.iter_mut().for_each(depart);
        for remainder in self.rare.iter_mut().flat_map(|rare| &mut rare.remainders) {
            remainder.sent = held(remainder.slot.pod);
            if remainder.sent {
                depart(&mut remainder.slot);
            }
        }
    }

    /// Records that the server has what was sent.
    pub fn acknowledge(&mut self) {
        for slot in &mut self.slots {
            slot.acknowledged = slot.published.is_published();
        }
    }

    /// Forgets the server's copy, which no longer exists; the next write creates a new one under a new name.
    pub fn forget_remote(&mut self, name: Arc<str>) {
        self.name = name;
        self.object.forget_remote();
        self.created = None;
        self.removed = 0;
        self.object.priority = self.object.priority.min(Priority::Add);
        self.dirty = self.slots.len() as u32;
        for slot in &mut self.slots {
            let dirty = true;
            *slot = Slot {
                dirty,
                ..Slot::absent(slot.pod)
            };
        }
    }
}

/// The slices of one Service and family.
#[derive(Clone, Debug, Default)]
pub struct FamilyState {
    pending: Option<Box<ToEvaluate>>,
    /// The outcome of the Service's request for zone hints.
    pub hint_state: HintState,
    /// The number of managed slices.
    pub managed: u32,
    /// The port groups.
    pub groups: Groups,
}

/// The pods and slices that the next evaluation looks at.
#[derive(Clone, Debug, Default)]
pub struct ToEvaluate {
    /// Pods with an endpoint to place. May include pods that have since been placed, deleted or become unfit.
    pub to_place: Vec<PodId>,
    /// Slices for the next evaluation to check. May include slices that no longer exist.
    pub touched: Vec<SliceId>,
    /// Slices without endpoints. May include slices that have since gained some or no longer exist.
    pub empties: Vec<SliceId>,
    /// True if it checks all hints.
    pub rehint: bool,
    /// Members that a slice shows in which they are not placed, by that slice: the endpoint is a [`Remainder`] of it. Kept
    /// from one evaluation to the next.
    pub shown: BTreeMap<PodId, SliceId>,
}

impl ToEvaluate {
    fn is_settled(&self) -> bool {
        self.to_place.is_empty() && self.touched.is_empty() && self.empties.is_empty() && !self.rehint
    }
}

impl FamilyState {
    /// Returns what the next evaluation looks at, to be added to or taken from.
    pub fn pending(&mut self) -> &mut ToEvaluate {
        self.pending.get_or_insert_default()
    }

    /// Returns whether the next evaluation has nothing to do.
    pub fn is_settled(&self) -> bool {
        let waits = self.pending.as_ref().is_some_and(|pending| !pending.is_settled());
        !waits && self.managed > 0
    }

    /// Returns the slice that shows a member without having it placed.
    pub fn shown_in(&self, pod: PodId) -> Option<SliceId> {
        self.pending.as_ref()?.shown.get(&pod).copied()
    }

    /// Returns whether any member is shown by a slice in which it is not placed.
    pub fn has_shown(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| !pending.shown.is_empty())
    }

    /// Forgets that a slice shows a member. Returns the slice.
    pub fn forget_shown(&mut self, pod: PodId) -> Option<SliceId> {
        self.pending.as_mut()?.shown.remove(&pod)
    }

    /// Gives back the memory of what an evaluation has looked at.
    pub fn evaluated(&mut self) {
        self.pending
            .take_if(|pending| pending.is_settled() && pending.shown.is_empty());
    }
}
