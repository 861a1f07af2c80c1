//! Membership of pods in Services, and the position of each endpoint: the part of the state that every pod event goes
//! through.

use super::Service;
use crate::core::address::Family;
use crate::core::compact::slab::Pieces;
use crate::core::hints::HintMode;
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::inputs::{Pod, PodChange};
use crate::core::namespace::Placement;
use crate::core::ports::{ResolvedPorts, SlicePorts};
use crate::core::priority::Priority;
use crate::core::slices::{Conditions, Difference, Slice, Slot};
use smallvec::SmallVec;
use std::ops::{Deref, Index, IndexMut, Range};

/// The membership of a pod in a Service, with the position of its endpoint of one family.
#[derive(Clone, Copy, Debug)]
pub(in crate::core::namespace) struct Member {
    pub(in crate::core::namespace) service: ServiceId,
    /// `SliceId::NONE` while it is not published.
    pub(in crate::core::namespace) slice: SliceId,
    /// The index in the slice. The API allows 1000 endpoints in one.
    pub(in crate::core::namespace) at: u16,
    pub(in crate::core::namespace) family: Family,
    /// Whether it is queued to be placed by the next evaluation.
    pub(in crate::core::namespace) queued: bool,
}

/// The Services that a pod belongs to, with its position in each of their IP families; sorted by both.
#[derive(Clone, Default, Debug)]
pub(in crate::core::namespace) struct Memberships(SmallVec<[Member; 1]>);

impl Memberships {
    /// Returns the index of the member for a Service and family, or the index to insert it at.
    fn search(&self, service: ServiceId, family: Family) -> Result<usize, usize> {
        self.0
            .binary_search_by_key(&(service, family), |m| (m.service, m.family))
    }

    /// Returns the index of the member for a Service and family.
    pub(in crate::core::namespace) fn find(&self, service: ServiceId, family: Family) -> Option<usize> {
        self.search(service, family).ok()
    }

    /// Returns the indexes of the members for a Service.
    pub(in crate::core::namespace) fn of(&self, service: ServiceId) -> Range<usize> {
        let (Ok(start) | Err(start)) = self.search(service, Family::V4);
        let of = self.0[start..].iter().take_while(|m| m.service == service);
        start..start + of.count()
    }

    /// Takes a member out of the queue of those to be placed. Returns whether it is to be placed.
    pub(in crate::core::namespace) fn unqueue(&mut self, service: ServiceId, family: Family) -> bool {
        let Some(at) = self.find(service, family) else {
            return false;
        };
        let member = &mut self.0[at];
        std::mem::replace(&mut member.queued, false) && member.slice.is_none()
    }

    /// Forgets the places of some members.
    pub(in crate::core::namespace) fn displace(&mut self, members: Range<usize>) {
        for member in &mut self.0[members] {
            (member.slice, member.at, member.queued) = (SliceId::NONE, 0, false);
        }
    }

    /// Returns whether the pod belongs to a Service.
    pub(in crate::core::namespace) fn has(&self, service: ServiceId) -> bool {
        !self.of(service).is_empty()
    }
}

impl Deref for Memberships {
    type Target = [Member];

    fn deref(&self) -> &[Member] {
        &self.0
    }
}

/// The memberships of all pods, by their numbers.
#[derive(Clone, Default, Debug)]
pub(in crate::core::namespace) struct AllMemberships(Pieces<Memberships>);

impl AllMemberships {
    /// Adds a pod, which belongs to no Service yet.
    pub(in crate::core::namespace) fn enter(&mut self, pod: PodId) {
        self.0.reach(pod.index(), Memberships::default);
    }

    /// Forgets a pod.
    pub(in crate::core::namespace) fn leave(&mut self, pod: PodId) {
        self[pod] = Memberships::default();
    }
}

impl Index<PodId> for AllMemberships {
    type Output = Memberships;

    #[inline]
    fn index(&self, pod: PodId) -> &Memberships {
        &self.0[pod.index()]
    }
}

impl IndexMut<PodId> for AllMemberships {
    #[inline]
    fn index_mut(&mut self, pod: PodId) -> &mut Memberships {
        &mut self.0[pod.index()]
    }
}

/// Returns the conditions that a pod's endpoint of a Service should have.
pub(in crate::core::namespace) fn desired(pod: &Pod, service: &Service) -> Conditions {
    let (serving, terminating) = (pod.conditions().serving(), pod.conditions().terminating());
    let ready = service.facts.publish_not_ready || (serving && !terminating);
    Conditions::new(ready, serving, terminating)
}

impl Placement<'_> {
    /// Returns whether a pod of a Service is a member in a family: not before it has an address there, or a Service with many
    /// pods would need memory for each that has none. Endpoints of a Service that names no families show any address, and
    /// a pod that was chosen by something else than the selector has to be found again.
    fn belongs(&self, pod: PodId, service: ServiceId, family: Family) -> bool {
        let (pod, facts) = (self.inputs.pod(pod), &self.services.table[service].facts);
        let any = facts.is_frozen() || (facts.endpoints_family.is_none() && pod.primary().is_some());
        facts.has(family) && (any || pod.ip(family).is_some())
    }

    /// Adds a pod that a Service has begun to select.
    pub(in crate::core::namespace) fn join(&mut self, pod: PodId, service: ServiceId) {
        for family in Family::ALL {
            self.join_family(pod, service, family);
        }
        self.visit_endpoints(pod, service, PodChange::default());
        if let Some(following) = &mut self.services.table[service].following {
            following.insert(pod);
        }
        self.services.mark(service);
    }

    /// Adds a pod to a family of a Service that did not have it, if it belongs there.
    pub(in crate::core::namespace) fn join_family(&mut self, pod: PodId, service: ServiceId, family: Family) {
        if !self.belongs(pod, service, family) {
            return;
        }
        let members = &mut self.services.memberships[pod];
        let Err(at) = members.search(service, family) else {
            return;
        };
        let members = &mut members.0;
        if members.len() == members.capacity() {
            members.reserve_exact(members.len() / 8 + 1);
        }
        let member = Member {
            service,
            slice: SliceId::NONE,
            at: 0,
            family,
            queued: false,
        };
        members.insert(at, member);
        self.visit(pod, at, PodChange::default());
    }

    /// Adds a pod to a family of a Service, or removes it, after a change of what it depends on whether it belongs there.
    pub(super) fn rejoin_family(&mut self, pod: PodId, service: ServiceId, family: Family) {
        if self.belongs(pod, service, family) {
            self.join_family(pod, service, family);
        } else {
            self.remove_from_family(pod, service, family);
        }
    }

    /// Removes a pod that is gone, or that the Service no longer selects.
    pub(in crate::core::namespace) fn remove_member(&mut self, pod: PodId, service: ServiceId) {
        for family in Family::ALL {
            self.remove_from_family(pod, service, family);
        }
        self.leave_endpoints(pod, service);
        self.leave_following(pod, service);
        self.services.mark(service);
    }

    fn leave_following(&mut self, pod: PodId, service: ServiceId) {
        if let Some(following) = &mut self.services.table[service].following {
            following.remove(&pod);
        }
    }

    /// Removes a pod from one family of a Service.
    pub(in crate::core::namespace) fn remove_from_family(
        &mut self,
        pod: PodId,
        service: ServiceId,
        family: Family,
    ) {
        let Some(at) = self.services.memberships[pod].find(service, family) else {
            return;
        };
        if let Some((id, slot)) = self.take_place(pod, at) {
            self.slices[id].removed += u32::from(slot.published.is_published());
            self.touch(id, Priority::Remove);
        }
        self.services.memberships[pod].0.remove(at);
        self.forget_remainder(pod, service, family);
    }

    /// Removes a pod from the Services that its labels no longer match.
    pub(in crate::core::namespace) fn leave_unmatched(&mut self, id: PodId) {
        let mut gone: SmallVec<[ServiceId; 4]> = self.services.memberships[id]
            .iter()
            .map(|m| m.service)
            .filter(|s| !self.keeps(id, *s))
            .collect();
        gone.dedup();
        // Members are removed from the end, so that few must shift.
        for service in gone.into_iter().rev() {
            self.remove_member(id, service);
        }
    }

    /// Adds a pod to the Services that its labels match, but for those that selected it before.
    pub(in crate::core::namespace) fn join_matched(&mut self, id: PodId, before: &[ServiceId]) {
        for service in self.inputs.selecting(id) {
            if !before.contains(&service) {
                self.join_new(id, service);
            }
        }
    }

    /// Adds a pod to a Service that has begun to select it.
    pub(in crate::core::namespace) fn join_new(&mut self, id: PodId, service: ServiceId) {
        self.services.table[service].note(self.inputs.pod(id).ready_time());
        self.join(id, service);
        self.foresee_ports(id, service);
    }

    /// Removes a pod's membership in a family that the Service has lost; the pod stays in the slices to be deleted.
    pub(in crate::core::namespace) fn forget_family(
        &mut self,
        pod: PodId,
        service: ServiceId,
        family: Family,
    ) {
        let members = &mut self.services.memberships[pod];
        if let Some(at) = members.find(service, family) {
            members.0.remove(at);
        }
    }

    /// Removes a pod's membership in a Service that is no longer managed; the pod stays in its slices.
    pub(in crate::core::namespace) fn forget_member(&mut self, pod: PodId, service: ServiceId) {
        self.leave_following(pod, service);
        let members = &mut self.services.memberships[pod];
        let places = members.of(service);
        members.0.drain(places);
    }

    /// Updates the memberships of a pod whose addresses have changed, in the Services that select it.
    pub(super) fn readdress(&mut self, id: PodId) {
        for service in self.inputs.selecting(id) {
            for family in Family::ALL {
                self.rejoin_family(id, service, family);
            }
            self.foresee_ports(id, service);
            self.visit_endpoints(id, service, PodChange::default());
            self.services.mark(service);
        }
    }

    /// Updates each endpoint of a pod after a change.
    pub(in crate::core::namespace) fn revisit(&mut self, id: PodId, change: PodChange) {
        for at in 0..self.services.memberships[id].len() {
            self.visit(id, at, change);
            let members = &self.services.memberships[id];
            let service = members[at].service;
            if at == 0 || members[at - 1].service != service {
                self.visit_endpoints(id, service, change);
            }
            self.services.mark(service);
        }
    }

    /// Updates one endpoint of a pod after a change: it is removed, queued to be placed, or marked to be written where
    /// it is.
    pub(in crate::core::namespace) fn visit(&mut self, id: PodId, at: usize, change: PodChange) {
        if !self.ctx.settings.outputs.slices && !self.ctx.settings.outputs.custom {
            return;
        }
        self.ctx.work.endpoints_visited += 1;
        let Member {
            service: service_id,
            slice: slice_id,
            at: place,
            family,
            ..
        } = self.services.memberships[id][at];
        let service = &self.services.table[service_id];
        if !self.ctx.writes_slices(&service.facts) {
            return;
        }
        let difference = Difference::of(change.content[family.index()], change.address[family.index()]);
        if change.reborn {
            // What a slice shows is another pod's.
            self.forget_remainder(id, service_id, family);
            if let Some(slice) = self.slices.get_mut(slice_id) {
                slice.slots[usize::from(place)].acknowledged = false;
            }
        }
        self.visit_remainder(id, service_id, family, difference);
        if !self.is_fit(id, service_id, family) {
            self.unplace(id, at, Priority::Remove);
            return;
        }
        if slice_id.is_none() {
            self.queue(id, at);
            return;
        }
        if change.ports && self.ports_of(id, service_id) != self.group_ports(slice_id) {
            let slot = &mut self.slices[slice_id].slots[usize::from(place)];
            slot.difference.add(difference);
            let priority = if slot.misdirects() {
                Priority::Remove
            } else {
                Priority::Add
            };
            self.unplace(id, at, priority);
            self.queue(id, at);
            return;
        }
        let desired = desired(self.inputs.pod(id), &self.services.table[service_id]);
        if desired.ready() {
            self.services.has_ready_endpoint(service_id);
        }
        let slice = &mut self.slices[slice_id];
        let slot = &mut slice.slots[usize::from(place)];
        slot.difference.add(difference);
        let (priority, differed) = (slot.priority_to(desired), slot.dirty);
        slice.recount(usize::from(place), desired);
        if slice.slots[usize::from(place)].dirty {
            self.touch(slice_id, priority);
        } else if differed && self.services.table[service_id].facts.hints == HintMode::Auto {
            // A change that was never written has shifted the shares of the zones, and has come back.
            self.services.table[service_id].family(family).pending().rehint = true;
        }
    }

    /// Queues a pod's endpoint to be placed by the next evaluation.
    fn queue(&mut self, pod: PodId, at: usize) {
        let member = &mut self.services.memberships[pod].0[at];
        if std::mem::replace(&mut member.queued, true) {
            return;
        }
        let Member { service, family, .. } = *member;
        let to_place = &mut self.services.table[service].family(family).pending().to_place;
        to_place.push(pod);
        // While evaluation is held up, pods that come and go leave stale entries behind.
        if to_place.len() > 2 * self.inputs.len() + 16 {
            to_place.sort_unstable();
            to_place.dedup();
            to_place.retain(|&pod| self.inputs.get(pod).is_some());
        }
    }

    /// Returns the ports under which a pod serves a Service.
    pub(in crate::core::namespace) fn ports_of(&mut self, pod: PodId, service: ServiceId) -> SlicePorts {
        let pod = self.inputs.pod(pod);
        let service = &self.services.table[service];
        self.services.resolved.resolve(
            (service.ports, &service.facts.ports),
            (pod.port_set(), self.inputs.ports_of(pod)),
            &mut self.ctx.work.ports_read,
        )
    }

    /// Resolves a pod's ports ahead of time, if that takes long: a Service that takes in thousands of pods is
    /// evaluated in one piece.
    pub(in crate::core::namespace) fn foresee_ports(&mut self, pod: PodId, service: ServiceId) {
        let pod_ports = self.inputs.ports_of(self.inputs.pod(pod));
        if ResolvedPorts::remembers(&self.services.table[service].facts.ports, pod_ports) {
            self.ports_of(pod, service);
        }
    }

    /// Returns the ports of the group that a managed slice belongs to.
    pub(in crate::core::namespace) fn group_ports(&self, id: SliceId) -> SlicePorts {
        let slice = &self.slices[id];
        let family = self.services.table[slice.service].families[slice.family.index()].as_ref();
        family
            .expect("a managed slice's Service has the slice's family")
            .groups
            .get(slice.group)
            .ports
            .clone()
    }

    /// Appends a pod's endpoint to a managed slice. `slot` says what the API server has of it there.
    pub(in crate::core::namespace) fn place(&mut self, id: SliceId, slot: Slot) {
        let pod = slot.pod;
        self.ctx.work.endpoints_placed += 1;
        let slice = &mut self.slices[id];
        let at = slice.slots.len();
        if at == slice.slots.capacity() {
            slice.slots.reserve_exact(at / 4 + 4);
        }
        slice.slots.push(slot);
        let (service_id, family) = (slice.service, slice.family);
        let service = &self.services.table[service_id];
        let desired = desired(self.inputs.pod(pod), service);
        slice.recount(at, desired);
        let hinted = service.facts.hints == HintMode::Auto;
        if hinted {
            slice.hints_mut().push(None);
        }
        let group = slice.group;
        if desired.ready() {
            self.services.has_ready_endpoint(service_id);
        }
        let state = self.services.table[service_id].family(family);
        state.groups.refill(group, id, at, at + 1);
        // One more endpoint shifts the shares of the zones, also if another client has put it there and nothing is written.
        if hinted {
            state.pending().rehint = true;
        }
        let members = &mut self.services.memberships[pod];
        let member = members
            .find(service_id, family)
            .expect("only a member of the Service is placed");
        let member = &mut members.0[member];
        member.slice = id;
        member.at = u16::try_from(at).expect("the API server refuses slices of more than 1000 endpoints");
    }

    /// Removes the endpoint of a pod that remains a member from its slice, if it is in one. The slice shows it until it is
    /// written, and beyond that if the endpoint moves to another slice.
    pub(in crate::core::namespace) fn unplace(&mut self, pod: PodId, at: usize, priority: Priority) {
        if let Some((id, slot)) = self.take_place(pod, at) {
            self.keep_remainder(id, slot);
            self.touch(id, priority);
        }
    }

    /// Takes a pod's endpoint out of its slice, if it is in one.
    fn take_place(&mut self, pod: PodId, at: usize) -> Option<(SliceId, Slot)> {
        let member = &mut self.services.memberships[pod].0[at];
        let (id, place) = (
            std::mem::replace(&mut member.slice, SliceId::NONE),
            usize::from(member.at),
        );
        if id.is_none() {
            return None;
        }
        let slice = &mut self.slices[id];
        let before = slice.slots.len();
        let slot = slice.slots.swap_remove(place);
        if !slice.hints().is_empty() {
            slice.hints_mut().swap_remove(place);
        }
        slice.dirty -= u32::from(slot.dirty);
        let (service_id, family, group) = (slice.service, slice.family, slice.group);
        self.services.table[service_id].moves.removed += 1;
        if let Some(moved) = slice.slots.get(place) {
            let members = &mut self.services.memberships[moved.pod];
            let member = members
                .find(service_id, family)
                .expect("a placed pod is a member of the slice's Service");
            members.0[member].at = place as u16;
        }
        let family = self.services.table[service_id].family(family);
        family.groups.refill(group, id, before, before - 1);
        if before == 1 {
            family.pending().empties.push(id);
        }
        Some((id, slot))
    }

    /// Marks a managed slice as changed, for the next evaluation of its Service.
    pub(in crate::core::namespace) fn touch(&mut self, id: SliceId, priority: Priority) {
        self.slices[id].change(priority);
        self.revise(id, priority);
    }

    /// Marks a slice whose desired content has not changed, but which the API server has otherwise.
    pub(in crate::core::namespace) fn revise(&mut self, id: SliceId, priority: Priority) {
        let slice: &mut Slice = &mut self.slices[id];
        slice.object.priority = slice.object.priority.min(priority);
        let (service, family) = (slice.service, slice.family);
        if !std::mem::replace(&mut slice.touched, true) {
            self.services.table[service]
                .family(family)
                .pending()
                .touched
                .push(id);
        }
        self.services.mark(service);
    }
}
