//! Make before break: an endpoint that moves stays published where it was until the API server has it in its new slice.
//!
//! A slice's body has the endpoints that are placed in it, and each of its [remainders](Remainder) that is placed in another
//! slice of the Service which the server does not show with it yet. So a create that is refused, or a restart between two
//! writes, takes no endpoint along. What is placed nowhere leaves at once. Nothing is remembered for this but what the
//! server is known to hold.

use super::members::desired;
use crate::core::address::Family;
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::namespace::Placement;
use crate::core::object::Phase;
use crate::core::priority::Priority;
use crate::core::slices::{Conditions, Difference, FamilyState, Remainder, Slice, Slot};

/// Returns whether an endpoint that a slice shows stays there while its node is missing.
pub(in crate::core::namespace) fn outlasts_node(shown: Conditions, desired: Conditions) -> bool {
    desired.ready() || shown == desired
}

impl Placement<'_> {
    /// Returns whether a Service publishes a pod in a family: the pod has an address there, and its node exists, or the
    /// Service wants its pods published whatever their state. A missing node keeps new endpoints out. It takes none out
    /// that a slice shows, unless that has to be written because the endpoint is ready no longer.
    pub(in crate::core::namespace) fn is_fit(&self, pod: PodId, service: ServiceId, family: Family) -> bool {
        let (state, owner) = (self.inputs.pod(pod), &self.services[service]);
        state.ip(family).is_some()
            && (owner.facts.publish_not_ready
                || self.inputs.node_of(state).is_some()
                || self
                    .shown(pod, service, family)
                    .is_some_and(|shown| outlasts_node(shown, desired(state, owner))))
    }

    /// Returns the conditions with which some slice of the Service shows a member, or may show it: a write of the slice is in
    /// flight, or it is to be read.
    pub(super) fn shown(&self, pod: PodId, service: ServiceId, family: Family) -> Option<Conditions> {
        if let Some((id, at, acknowledged)) = self.find_place(pod, service, family) {
            let slice = &self.slices[id];
            let published = slice.slots[at].published;
            if acknowledged || (slice.object.is_unknown() && published.is_published()) {
                return Some(published);
            }
        }
        let id = self.family_of(service, family)?.shown_in(pod)?;
        let mut remainders = self.slices[id].remainders().iter();
        let remainder = remainders.find(|remainder| remainder.slot.pod == pod)?;
        Some(remainder.slot.published)
    }

    fn family_of(&self, service: ServiceId, family: Family) -> Option<&FamilyState> {
        self.services.get(service)?.families[family.index()].as_deref()
    }

    /// Returns the slice in which a member is placed, its position, and whether the server is known to have it there.
    fn find_place(&self, pod: PodId, service: ServiceId, family: Family) -> Option<(SliceId, usize, bool)> {
        let members = &self.services.memberships()[pod];
        let member = members[members.find(service, family)?];
        let (slice, at) = (self.slices.get(member.slice)?, usize::from(member.at));
        Some((member.slice, at, slice.slots[at].acknowledged))
    }

    /// Returns the place of a remainder that its slice keeps, since the slice in which it is placed does not show it yet.
    pub(in crate::core::namespace) fn place_of_held(
        &self,
        id: SliceId,
        pod: PodId,
    ) -> Option<(SliceId, usize)> {
        let slice = &self.slices[id];
        let state = self.family_of(slice.service, slice.family)?;
        // No slice is created for a Service that is being deleted, so none takes the endpoint over.
        if state.shown_in(pod) != Some(id) || self.services[slice.service].facts.deleting {
            return None;
        }
        let (other, at, acknowledged) = self.find_place(pod, slice.service, slice.family)?;
        (other != id && !acknowledged).then_some((other, at))
    }

    fn holds(&self, id: SliceId, pod: PodId) -> bool {
        self.place_of_held(id, pod).is_some()
    }

    /// Returns whether a slice that shows nothing of use may do so all the same: what became of its last write is not known.
    pub(super) fn may_show_more(&self, id: SliceId) -> bool {
        let slice = &self.slices[id];
        slice.object.is_unknown() && !slice.remainders().is_empty()
    }

    /// Returns the remainders that a slice keeps.
    pub(in crate::core::namespace) fn held(&self, id: SliceId) -> impl Iterator<Item = &Remainder> {
        let remainders = self.slices[id].remainders().iter();
        remainders.filter(move |remainder| self.holds(id, remainder.slot.pod))
    }

    /// Returns whether a slice has to be written for its remainders.
    pub(in crate::core::namespace) fn remainders_differ(&self, id: SliceId) -> bool {
        let slice = &self.slices[id];
        slice.remainders().iter().any(|Remainder { slot, sent }| {
            if !self.holds(id, slot.pod) {
                return *sent;
            }
            let wanted = desired(self.inputs.pod(slot.pod), &self.services[slice.service]);
            !sent || slot.difference != Difference::None || slot.published != wanted
        })
    }

    /// Returns whether a managed slice is not on the server as it should be.
    pub(in crate::core::namespace) fn slice_differs(&self, id: SliceId) -> bool {
        self.slices[id].differs() || self.remainders_differ(id)
    }

    /// Returns the number of endpoints that still fit into a slice.
    pub(super) fn room(&self, id: SliceId) -> usize {
        let fill = self.slices[id].slots.len() + self.held(id).count();
        self.ctx.settings.max_endpoints.saturating_sub(fill)
    }

    /// Notes that a slice shows a member that has just lost its place there.
    pub(in crate::core::namespace) fn keep_remainder(&mut self, id: SliceId, slot: Slot) {
        let slice = &mut self.slices[id];
        let may_be_there = slot.acknowledged || (slice.object.is_unknown() && slot.published.is_published());
        if !may_be_there {
            // What is there is not this pod's, or nothing.
            slice.removed += u32::from(slot.published.is_published());
            return;
        }
        slice.add_remainder(slot);
        let shown = &mut self.services[slice.service].family(slice.family).pending().shown;
        if !slot.acknowledged {
            shown.entry(slot.pod).or_insert(id);
        } else if let Some(other) = shown.insert(slot.pod, id).filter(|other| *other != id) {
            self.release(other);
        }
    }

    /// Applies a change of a member to the slice that shows it without having it placed.
    pub(super) fn visit_remainder(
        &mut self,
        pod: PodId,
        service: ServiceId,
        family: Family,
        difference: Difference,
    ) {
        let Some(id) = self
            .family_of(service, family)
            .and_then(|state| state.shown_in(pod))
        else {
            return;
        };
        let wanted = desired(self.inputs.pod(pod), &self.services[service]);
        let Some(Remainder { slot, .. }) = self.slices[id].remainder_mut(pod) else {
            return;
        };
        slot.difference.add(difference);
        let priority = slot.priority_to(wanted);
        self.touch(id, priority);
    }

    /// Forgets that a slice shows a pod that is a member no more: the slice loses it at once.
    pub(super) fn forget_remainder(&mut self, pod: PodId, service: ServiceId, family: Family) {
        let state = self.services[service].families[family.index()].as_mut();
        let Some(id) = state.and_then(|state| state.forget_shown(pod)) else {
            return;
        };
        let slice = &mut self.slices[id];
        slice.removed += u32::from(slice.remainder_mut(pod).is_some());
        slice.retain_remainders(|remainder| remainder.slot.pod != pod);
        self.touch(id, Priority::Remove);
    }

    /// Forgets all remainders of a slice.
    pub(in crate::core::namespace) fn forget_remainders(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        let (service, family) = (slice.service, slice.family);
        for remainder in slice.take_remainders() {
            self.forget_shown(remainder.slot.pod, service, family, id);
        }
    }

    /// Forgets that this slice, if it does, shows a pod without having it placed.
    fn forget_shown(&mut self, pod: PodId, service: ServiceId, family: Family, id: SliceId) {
        let service = self.services.get_mut(service);
        if let Some(state) = service.and_then(|service| service.families[family.index()].as_mut())
            && state.shown_in(pod) == Some(id)
        {
            state.forget_shown(pod);
        }
    }

    /// Handles the success of a write: the server has what was sent, and no remainder that was left out.
    pub(in crate::core::namespace) fn acknowledged(&mut self, id: SliceId) {
        let Some(slice) = self.slices.get_mut(id) else {
            return;
        };
        let (service, family) = (slice.service, slice.family);
        let mut gone = Vec::new();
        slice.retain_remainders(|remainder| {
            gone.extend((!remainder.sent).then_some(remainder.slot.pod));
            remainder.sent
        });
        for pod in gone {
            self.forget_shown(pod, service, family, id);
        }
        self.release_holders(id);
        let slice = &mut self.slices[id];
        if slice.object.phase != Phase::Managed {
            return;
        }
        // It may have been published for an annotation before.
        slice.manager = self.services[service].facts.manager();
        if slice.slots.is_empty() {
            self.release(id);
        }
    }

    /// Has the slices written that kept endpoints until this one, which the server is known to have, shows them.
    pub(in crate::core::namespace) fn release_holders(&mut self, id: SliceId) {
        let Some(slice) = self
            .slices
            .get(id)
            .filter(|slice| slice.object.phase == Phase::Managed)
        else {
            return;
        };
        let state = self.services[slice.service].family(slice.family);
        if !state.has_shown() {
            return;
        }
        let shown = slice.slots.iter().filter(|slot| slot.acknowledged);
        let mut holders: Vec<_> = shown.filter_map(|slot| state.forget_shown(slot.pod)).collect();
        holders.sort_unstable();
        holders.dedup();
        for holder in holders.into_iter().filter(|holder| *holder != id) {
            self.release(holder);
        }
    }

    /// Has a slice written that may keep fewer endpoints. One that is empty may be needed no longer.
    fn release(&mut self, id: SliceId) {
        let slice: &Slice = &self.slices[id];
        let (service, family) = (slice.service, slice.family);
        if slice.slots.is_empty() {
            self.services[service].family(family).pending().empties.push(id);
            self.revise(id, Priority::Rest);
        } else {
            self.slices.want(id);
        }
    }
}
