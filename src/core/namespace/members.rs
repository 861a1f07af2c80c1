//! Membership of pods in Services, and the position of each endpoint: the part of the state that every pod event goes
//! through.

use super::{Member, NamespaceState, Pod, PodChange, Service};
use crate::core::address::Family;
use crate::core::hints::HintMode;
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::ports::{ResolvedPorts, SlicePorts};
use crate::core::queue::Priority;
use crate::core::slices::{Conditions, Slice, Slot};
use smallvec::SmallVec;

/// Returns the conditions that a pod's endpoint of a Service should have.
pub(super) fn desired(pod: &Pod, service: &Service) -> Conditions {
    let (serving, terminating) = (pod.conditions.serving(), pod.conditions.terminating());
    let ready = service.facts.publish_not_ready || (serving && !terminating);
    Conditions::new(ready, serving, terminating)
}

impl NamespaceState {
    /// Adds a pod that a Service has begun to select.
    pub(super) fn join(&mut self, pod: PodId, service: ServiceId) {
        for family in Family::ALL {
            if self.services[service].facts.has(family) {
                self.join_family(pod, service, family);
            }
        }
        self.visit_endpoints(pod, service, PodChange::default());
        if let Some(following) = &mut self.services[service].following {
            following.members.insert(pod);
        }
        self.mark(service);
    }

    /// Adds a pod to a family of a Service that did not have it.
    pub(super) fn join_family(&mut self, pod: PodId, service: ServiceId, family: Family) {
        let state = &mut self.pods[pod];
        let Err(at) = state.find_member(service, family) else {
            return;
        };
        let members = &mut state.members;
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

    /// Removes a pod that is gone, or that the Service no longer selects.
    pub(super) fn part(&mut self, pod: PodId, service: ServiceId) {
        for family in Family::ALL {
            self.part_family(pod, service, family);
        }
        self.leave_endpoints(pod, service);
        self.leave_following(pod, service);
        self.mark(service);
    }

    fn leave_following(&mut self, pod: PodId, service: ServiceId) {
        if let Some(following) = &mut self.services[service].following {
            following.members.remove(&pod);
        }
    }

    /// Removes a pod from one family of a Service.
    pub(super) fn part_family(&mut self, pod: PodId, service: ServiceId, family: Family) {
        if let Some(at) = self.pods[pod].member(service, family) {
            self.unplace(pod, at, Priority::Remove);
            self.pods[pod].members.remove(at);
        }
    }

    /// Removes a pod from the Services that its labels no longer match.
    pub(super) fn leave_unmatched(&mut self, id: PodId) {
        let pod = &self.pods[id];
        let mut gone: SmallVec<[ServiceId; 4]> = pod
            .members
            .iter()
            .map(|m| m.service)
            .filter(|s| !self.keeps(id, *s))
            .collect();
        gone.dedup();
        // Members are removed from the end, so that few must shift.
        for service in gone.into_iter().rev() {
            self.part(id, service);
        }
    }

    /// Adds a pod to the Services that its labels match and that do not have it yet.
    pub(super) fn join_matched(&mut self, id: PodId) {
        for service in self.cache.services(self.pods[id].labels.0) {
            if !self.services[service].facts.is_led() {
                self.join_if_new(id, service);
            }
        }
    }

    /// Adds a pod to a Service that its labels match, if that does not have it yet.
    pub(super) fn join_if_new(&mut self, id: PodId, service: ServiceId) {
        let pod = &self.pods[id];
        if !pod.is_member_of(service) {
            self.services[service].note(pod.ready_time);
            self.join(id, service);
            self.foresee_ports(id, service);
        }
    }

    /// Removes a pod's membership in a family that the Service has lost; the pod stays in the slices to be deleted.
    pub(super) fn forget_family(&mut self, pod: PodId, service: ServiceId, family: Family) {
        let pod = &mut self.pods[pod];
        if let Some(at) = pod.member(service, family) {
            pod.members.remove(at);
        }
    }

    /// Removes a pod's membership in a Service that is no longer managed; the pod stays in its slices.
    pub(super) fn forget_member(&mut self, pod: PodId, service: ServiceId) {
        self.leave_following(pod, service);
        let pod = &mut self.pods[pod];
        let places = pod.members_of(service);
        pod.members.drain(places);
    }

    /// Updates each endpoint of a pod after a change.
    pub(super) fn revisit(&mut self, id: PodId, change: PodChange) {
        for at in 0..self.pods[id].members.len() {
            self.visit(id, at, change);
            let members = &self.pods[id].members;
            let service = members[at].service;
            if at == 0 || members[at - 1].service != service {
                self.visit_endpoints(id, service, change);
            }
            self.mark(service);
        }
    }

    /// Updates one endpoint of a pod after a change: it is removed, queued to be placed, or marked to be written where
    /// it is.
    pub(super) fn visit(&mut self, id: PodId, at: usize, change: PodChange) {
        if !self.settings.outputs.slices && !self.settings.outputs.custom {
            return;
        }
        self.work.endpoints_visited += 1;
        let pod = &self.pods[id];
        let Member {
            service: service_id,
            slice: slice_id,
            at: place,
            family,
            ..
        } = pod.members[at];
        let service = &self.services[service_id];
        if !self.writes_slices(&service.facts) {
            return;
        }
        if !self.is_fit(pod, service, family) {
            self.unplace(id, at, Priority::Remove);
            return;
        }
        if slice_id.is_none() {
            if !service.facts.is_frozen() {
                self.queue(id, at);
            }
            return;
        }
        if change.ports && self.ports_of(id, service_id) != self.group_ports(slice_id) {
            self.unplace(id, at, Priority::Add);
            self.queue(id, at);
            return;
        }
        let desired = desired(&self.pods[id], &self.services[service_id]);
        let slice = &mut self.slices[slice_id];
        let slot = &mut slice.slots[usize::from(place)];
        slot.stale |= change.content[family.index()];
        let priority = slot.published.priority_to(desired);
        slice.recount(usize::from(place), desired);
        if slice.slots[usize::from(place)].dirty {
            self.touch(slice_id, priority);
        }
    }

    /// Queues a pod's endpoint to be placed by the next evaluation.
    fn queue(&mut self, pod: PodId, at: usize) {
        let member = &mut self.pods[pod].members[at];
        if std::mem::replace(&mut member.queued, true) {
            return;
        }
        let Member { service, family, .. } = *member;
        let to_place = &mut self.services[service].family(family).to_place;
        to_place.push(pod);
        // While evaluation is held up, pods that come and go leave stale entries behind.
        if to_place.len() > 2 * self.pods.len() + 16 {
            to_place.sort_unstable();
            to_place.dedup();
            to_place.retain(|&pod| self.pods.contains(pod));
        }
    }

    /// Returns whether a Service publishes a pod in a family: the pod has an address there, and its node is known (or
    /// the Service wants its pods published whatever their state).
    pub(super) fn is_fit(&self, pod: &Pod, service: &Service, family: Family) -> bool {
        pod.ip(family).is_some() && (service.facts.publish_not_ready || self.node_of(pod).is_some())
    }

    /// Returns the ports under which a pod serves a Service.
    pub(super) fn ports_of(&mut self, pod: PodId, service: ServiceId) -> SlicePorts {
        let id = self.pods[pod].ports;
        let service = &self.services[service];
        self.resolved.resolve(
            (service.ports, &service.facts.ports),
            (id, self.port_sets.get(id)),
            &mut self.work.ports_read,
        )
    }

    /// Resolves a pod's ports ahead of time, if that takes long: a Service that takes in thousands of pods is
    /// evaluated in one piece.
    pub(super) fn foresee_ports(&mut self, pod: PodId, service: ServiceId) {
        let pod_ports = self.port_sets.get(self.pods[pod].ports);
        if ResolvedPorts::remembers(&self.services[service].facts.ports, pod_ports) {
            self.ports_of(pod, service);
        }
    }

    /// Returns the ports of the group that a managed slice belongs to.
    pub(super) fn group_ports(&self, id: SliceId) -> SlicePorts {
        let slice = &self.slices[id];
        let family = self.services[slice.service].families[slice.family.index()].as_ref();
        family
            .expect("a managed slice's Service has the slice's family")
            .groups
            .get(slice.group)
            .ports
            .clone()
    }

    /// Appends a pod's endpoint to a managed slice. `published` and `stale` say what the API server has of it.
    pub(super) fn place(&mut self, pod: PodId, id: SliceId, published: Conditions, stale: bool) {
        self.work.endpoints_placed += 1;
        let slice = &mut self.slices[id];
        let at = slice.slots.len();
        if at == slice.slots.capacity() {
            slice.slots.reserve_exact(at / 4 + 4);
        }
        slice.slots.push(Slot {
            pod,
            published,
            stale,
            dirty: false,
        });
        let (service_id, family) = (slice.service, slice.family);
        let service = &self.services[service_id];
        let desired = desired(&self.pods[pod], service);
        slice.recount(at, desired);
        if service.facts.hints == HintMode::Auto {
            slice.hints.push(None);
        }
        let group = slice.group;
        self.services[service_id]
            .family(family)
            .groups
            .refill(group, id, at, at + 1);
        let pod = &mut self.pods[pod];
        let member = pod
            .member(service_id, family)
            .expect("only a member of the Service is placed");
        let member = &mut pod.members[member];
        member.slice = id;
        member.at = u16::try_from(at).expect("the API server refuses slices of more than 1000 endpoints");
    }

    /// Removes a pod's endpoint from its slice, if it is in one.
    pub(super) fn unplace(&mut self, pod: PodId, at: usize, priority: Priority) {
        let member = &mut self.pods[pod].members[at];
        let (id, place) = (
            std::mem::replace(&mut member.slice, SliceId::NONE),
            usize::from(member.at),
        );
        if id.is_none() {
            return;
        }
        let slice = &mut self.slices[id];
        let before = slice.slots.len();
        let slot = slice.slots.swap_remove(place);
        if !slice.hints.is_empty() {
            slice.hints.swap_remove(place);
        }
        slice.dirty -= u32::from(slot.dirty);
        slice.removed += u32::from(slot.published.is_published());
        let (service_id, family, group) = (slice.service, slice.family, slice.group);
        self.services[service_id].moves.removed += 1;
        if let Some(moved) = slice.slots.get(place) {
            let moved = &mut self.pods[moved.pod];
            let member = moved
                .member(service_id, family)
                .expect("a placed pod is a member of the slice's Service");
            moved.members[member].at = place as u16;
        }
        let family = self.services[service_id].family(family);
        family.groups.refill(group, id, before, before - 1);
        if before == 1 {
            family.empties.push(id);
        }
        self.touch(id, priority);
    }

    /// Marks a managed slice as changed, for the next evaluation of its Service.
    pub(super) fn touch(&mut self, id: SliceId, priority: Priority) {
        self.slices[id].change(priority);
        self.revise(id, priority);
    }

    /// Marks a slice whose desired content has not changed, but which the API server has otherwise.
    pub(super) fn revise(&mut self, id: SliceId, priority: Priority) {
        let slice: &mut Slice = &mut self.slices[id];
        slice.object.priority = slice.object.priority.min(priority);
        slice.yielded = false;
        let (service, family) = (slice.service, slice.family);
        if !std::mem::replace(&mut slice.touched, true) {
            self.services[service].family(family).touched.push(id);
        }
        self.mark(service);
    }
}
