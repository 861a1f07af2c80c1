//! Slices as the API server has them: adopting them, and correcting what others did to them.

use super::duplicates::Keeper;
use crate::core::address::Family;
use crate::core::facts::{EndpointFacts, SliceFacts, SliceMeta, is_reserved_label};
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::inputs::PodChange;
use crate::core::namespace::Placement;
use crate::core::namespace::lifecycle::{Lifecycle as _, ObjectMeta as _};
use crate::core::namespace::services::{desired, outlasts_node};
use crate::core::object::Phase;
use crate::core::priority::Priority;
use crate::core::slices::{Conditions, Difference, Slice, Slot};
use crate::core::time::Time;
use std::sync::Arc;

impl Placement<'_> {
    /// Adds a slice that was not known, unmanaged until it is attributed to its Service.
    pub(in crate::core::namespace) fn keep(&mut self, meta: &SliceMeta, epoch: u8) -> SliceId {
        let name: Arc<str> = Arc::from(&*meta.name);
        let (service, none) = (meta.service.clone(), ServiceId::NONE);
        let mut slice = Slice::new(name, service, meta.manager, Phase::Unmanaged, none);
        slice.object.remote = Some(meta.remote());
        slice.set_owner(Some(meta.owner.clone()));
        (slice.object.epoch, slice.object.seen) = (epoch, meta.version);
        self.slices.objects.insert(slice)
    }

    /// Forgets a slice that is not managed.
    pub(in crate::core::namespace) fn drop_slice(&mut self, id: SliceId) {
        self.end_awaiting(id);
        self.forget_remainders(id);
        self.slices.duplicates.forget(self.slices.objects[id].service, id);
        let slice = self.slices.objects.remove(id);
        if let Some(service) = self.services.get_mut(slice.service) {
            service.slices.remove(&id);
        }
        self.slices.leave_unmanaged(&slice, id);
    }

    /// Stops the Service from waiting for this slice.
    pub(in crate::core::namespace) fn end_awaiting(&mut self, id: SliceId) {
        let slice = &mut self.slices.objects[id];
        if slice.object.phase != (Phase::Adopting { awaited: true }) {
            return;
        }
        slice.object.phase = Phase::Adopting { awaited: false };
        let service = slice.service;
        self.services[service].awaiting -= 1;
        self.services.mark(service);
    }

    /// Handles an object that is not what we took it for: another Service's, another owner's, or of another family.
    /// Its endpoints get another object, and it is treated as if it had just appeared.
    pub(in crate::core::namespace) fn disown(&mut self, id: SliceId, meta: &SliceMeta) {
        let object = &self.slices.objects[id].object;
        let (epoch, seen) = (object.epoch, object.seen);
        self.lost(id);
        self.reappear(meta, epoch, seen);
    }

    /// Gives an unmanaged slice to its Service, if that is managed and the slice's controller publishes it: the slice is
    /// fetched if it is the Service's own, and deleted if not. A slice that was published for the Service's annotation, where
    /// that no longer counts, serves for the selector that the Service has now; if another controller publishes for that, it
    /// is handed over; and if there is none, it is withdrawn.
    pub(in crate::core::namespace) fn attribute(&mut self, id: SliceId, awaited: bool) {
        let slice = &self.slices.objects[id];
        let service = self.services.find(&slice.service_name);
        let facts = service.map(|service| &self.services[service].facts);
        match (service, facts) {
            (Some(service), Some(facts))
                if self.ctx.writes_slices(facts)
                    && (facts.manager() == slice.manager || self.is_abandoned(slice, facts)) =>
            {
                self.claim(id, service, awaited);
            }
            (Some(service), Some(facts)) if self.is_abandoned(slice, facts) => {
                let (name, goes) = (slice.service_name.clone(), slice.object.phase == Phase::Deleting);
                self.slices.enter_unmanaged(name, id);
                if !goes && !self.schedule_handover(service) {
                    self.withdraw_slice(id);
                }
            }
            // Where another controller writes slices, it only counts that they are there.
            _ => {
                let custom = facts.is_some_and(|facts| facts.custom);
                let name = slice.service_name.clone();
                self.slices.enter_unmanaged(name, id);
                self.read_other(id);
                if let Some(service) = service.filter(|_| custom) {
                    self.services.mark(service);
                }
            }
        }
    }

    /// Gives a Service a slice that names it and whose content is not known.
    pub(in crate::core::namespace) fn claim(&mut self, id: SliceId, service: ServiceId, awaited: bool) {
        let state = &mut self.services[service];
        let slice = &mut self.slices.objects[id];
        slice.service = service;
        state.slices.insert(id);
        let owner = slice.owner();
        if owner.is_some_and(|owner| owner.includes(&state.facts.uid)) {
            slice.object.phase = Phase::Adopting { awaited };
            state.awaiting += u32::from(awaited);
            self.slices.duplicates.reads(service, id);
        } else {
            slice.object.phase = Phase::Deleting;
        }
        slice.object.change_by(1);
        self.slices.objects.want(id);
    }

    /// Adopts a slice of the Service's own as managed.
    pub(in crate::core::namespace) fn adopt(&mut self, id: SliceId, family: Family, facts: SliceFacts) {
        self.end_awaiting(id);
        let slice = &mut self.slices.objects[id];
        self.slices.duplicates.forget(slice.service, id);
        slice.object.phase = Phase::Managed;
        slice.family = family;
        let service = slice.service;
        let state = self.services[service].family(family);
        state.managed += 1;
        state.pending().empties.push(id);
        state.pending().rehint = true;
        self.join_group(id, &facts.ports);
        self.services.mark(service);
        self.follow_published(service, &facts);
        // A slice that was made with another limit stays as it is.
        self.reconcile_slice(id, facts, usize::MAX);
    }

    /// Compares a managed slice with what the API server has, and marks what differs. Endpoints that others have put
    /// there stay if they should be in some slice, and if this one then holds no more than `limit`.
    pub(in crate::core::namespace) fn reconcile_slice(
        &mut self,
        id: SliceId,
        facts: SliceFacts,
        limit: usize,
    ) {
        let SliceFacts {
            meta,
            created,
            labels,
            extras,
            ports,
            endpoints,
            ..
        } = facts;
        let group_ports = self.group_ports(id);
        let slice = &mut self.slices.objects[id];
        let (service_id, family) = (slice.service, slice.family);
        self.slices.duplicates.forget(service_id, id);
        let moved = slice.object.read(meta.remote());
        // One without a time counts as older than all others.
        slice.created = created.or(Some(Time::from_seconds(0)));
        let usual = extras.is_usual(&slice.service_name);
        slice.object.set_extras((!usual).then_some(extras));
        slice.removed = 0;
        for slot in &mut slice.slots {
            let dirty = slot.dirty;
            *slot = Slot {
                dirty,
                ..Slot::absent(slot.pod)
            };
        }
        let service = &self.services[service_id];
        let others = !meta.owner.is_only(&service.facts.uid);
        slice.set_owner(others.then_some(meta.owner));
        slice.object.rewrite = ports != group_ports
            || slice.manager != service.facts.manager()
            || labels.project(|key| !is_reserved_label(key))
                != service.facts.labels.project(|key| !is_reserved_label(key));

        self.forget_remainders(id);
        self.take_endpoints(id, &endpoints, limit);
        self.release_holders(id);
        let priority = self.recount_slots(id);
        let differs = self.slice_differs(id);
        let slice = &mut self.slices.objects[id];
        if differs {
            self.revise(id, priority);
        } else {
            slice.object.found_in_sync();
            // If it is still the version from before a write that failed, things have changed back, and the next write
            // may fail as well.
            if moved && !slice.object.needs_refetch {
                slice.object.succeed();
            }
        }
        if self.slices.objects[id].slots.is_empty() {
            self.services[service_id]
                .family(family)
                .pending()
                .empties
                .push(id);
            self.services.mark(service_id);
        }
    }

    /// Takes in the endpoints of a slice, as the API server has them, and counts those that should not be in it.
    fn take_endpoints(&mut self, id: SliceId, endpoints: &[EndpointFacts], limit: usize) {
        let slice = &self.slices.objects[id];
        let (service_id, family) = (slice.service, slice.family);
        // First those that are where they should be: what is then left in the slice is not on the API server, and makes room
        // for what is.
        let mut others = Vec::new();
        for endpoint in endpoints {
            let pod = endpoint.pod.as_deref().and_then(|name| self.inputs.find(name));
            if let Some(pod) =
                pod.filter(|pod| endpoint.pod_uid.as_ref() == Some(self.inputs.pod(*pod).uid()))
            {
                self.inputs.note_zone(pod, endpoint.zone.as_deref());
            }
            let placed = pod.is_some_and(|pod| {
                let members = &self.services.memberships()[pod];
                members
                    .find(service_id, family)
                    .is_some_and(|at| members[at].slice == id)
            });
            match pod {
                Some(pod) if placed => {
                    if !self.reconcile_endpoint(id, pod, endpoint) {
                        self.slices.objects[id].removed += 1;
                    }
                }
                pod => others.push((pod, endpoint)),
            }
        }
        let mut room = Room {
            limit,
            unsent: self.slices.objects[id].slots.len(),
        };
        for (pod, endpoint) in others {
            let taken = pod.is_some_and(|pod| self.take_endpoint(id, pod, endpoint, &mut room));
            if !taken && !pod.is_some_and(|pod| self.take_remainder(id, pod, endpoint)) {
                self.slices.objects[id].removed += 1;
            }
        }
    }

    /// Counts the endpoints of a slice that are not published as they should be. Returns the priority of the write that puts
    /// them right.
    fn recount_slots(&mut self, id: SliceId) -> Priority {
        let slice = &mut self.slices.objects[id];
        let service = &self.services[slice.service];
        let mut priority = if slice.removed > 0 || !slice.remainders().is_empty() {
            Priority::Remove
        } else {
            Priority::Rest
        };
        for at in 0..slice.slots.len() {
            let desired = desired(self.inputs.pod(slice.slots[at].pod), service);
            priority = priority.min(slice.slots[at].priority_to(desired));
            slice.recount(at, desired);
        }
        priority
    }

    /// Returns which of a pod's memberships an endpoint of this slice belongs to, and whether its content is not what it should
    /// be. Returns nothing if the pod is no member of the Service in this family.
    fn place_of(&self, id: SliceId, pod_id: PodId, endpoint: &EndpointFacts) -> Option<(usize, Difference)> {
        let slice = &self.slices.objects[id];
        let place = self.services.memberships()[pod_id].find(slice.service, slice.family)?;
        let (pod, service) = (self.inputs.pod(pod_id), &self.services[slice.service]);
        let differs = !self.same_content(pod, service, slice.family, endpoint);
        let address = differs
            && pod.ip(slice.family).is_some_and(|ip| {
                let ip = ip.to_string();
                endpoint.addresses.iter().any(|address| **address != *ip)
            });
        Some((place, Difference::of(differs, address)))
    }

    /// Finds the slot of an endpoint that is placed in this slice, as the API server has it. Returns false if it stands in the
    /// slice twice.
    fn reconcile_endpoint(&mut self, id: SliceId, pod_id: PodId, endpoint: &EndpointFacts) -> bool {
        let Some((place, difference)) = self.place_of(id, pod_id, endpoint) else {
            return false;
        };
        let member = self.services.memberships()[pod_id][place];
        let at = usize::from(member.at);
        let mut read = self.slot_of(pod_id, endpoint, difference);
        let slot = &mut self.slices.objects[id].slots[at];
        if slot.published.is_published() {
            return false;
        }
        read.dirty = slot.dirty;
        *slot = read;
        if self.reconcile_hint(id, at, false, endpoint) {
            self.slices.objects[id].slots[at]
                .difference
                .add(Difference::Content);
        }
        true
    }

    /// Takes in an endpoint that the API server has in this slice, and that is not placed there. Returns false if it should
    /// not be in the slice.
    fn take_endpoint(
        &mut self,
        id: SliceId,
        pod_id: PodId,
        endpoint: &EndpointFacts,
        room: &mut Room,
    ) -> bool {
        let Some((place, difference)) = self.place_of(id, pod_id, endpoint) else {
            return false;
        };
        let member = self.services.memberships()[pod_id][place];
        let slice = &self.slices.objects[id];
        let service_id = slice.service;
        // If it is placed here, it was taken in just now, and stands here a second time.
        if member.slice == id
            || !self.stays_shown(id, pod_id, endpoint)
            || self.ports_of(pod_id, service_id) != self.group_ports(id)
        {
            return false;
        }
        let keeper = if member.slice.is_none() {
            Keeper::This
        } else {
            self.keeper(member.slice, usize::from(member.at), id)
        };
        if keeper == Keeper::Unknown {
            self.decide_later(member.slice, id);
            // If the other slice may not show it, this one keeps it until then.
            return self.slices[member.slice].slots[usize::from(member.at)].acknowledged;
        }
        if keeper == Keeper::Holder || !self.make_room(id, room) {
            return false;
        }
        // Making room may have moved it.
        let member = self.services.memberships()[pod_id][place];
        if !member.slice.is_none() {
            self.unplace(pod_id, place, Priority::Rest);
        }
        self.place(id, self.slot_of(pod_id, endpoint, difference));
        let at = self.slices.objects[id].slots.len() - 1;
        if self.reconcile_hint(id, at, true, endpoint) {
            self.slices.objects[id].slots[at]
                .difference
                .add(Difference::Content);
        }
        true
    }

    /// Returns whether a Service goes on to publish an endpoint that a slice shows.
    fn stays_shown(&self, id: SliceId, pod: PodId, endpoint: &EndpointFacts) -> bool {
        let slice = &self.slices.objects[id];
        let (state, service) = (self.inputs.pod(pod), &self.services[slice.service]);
        let shown = endpoint.pod_uid.as_ref() == Some(state.uid())
            && outlasts_node(published(endpoint), desired(state, service));
        self.is_fit(pod, slice.service, slice.family) || (shown && state.ip(slice.family).is_some())
    }

    /// Returns what the API server has of an endpoint.
    fn slot_of(&self, pod: PodId, endpoint: &EndpointFacts, difference: Difference) -> Slot {
        Slot {
            published: published(endpoint),
            difference,
            acknowledged: endpoint.pod_uid.as_ref() == Some(self.inputs.pod(pod).uid()),
            ..Slot::absent(pod)
        }
    }

    /// Notes that the API server has an endpoint of a member in this slice, which is to be placed in another one. Returns
    /// false if there is no reason to keep it until then.
    fn take_remainder(&mut self, id: SliceId, pod: PodId, endpoint: &EndpointFacts) -> bool {
        let Some((place, difference)) = self.place_of(id, pod, endpoint) else {
            return false;
        };
        let slot = self.slot_of(pod, endpoint, difference);
        let member = self.services.memberships()[pod][place];
        if !slot.acknowledged || member.slice == id || !self.stays_shown(id, pod, endpoint) {
            return false;
        }
        self.keep_remainder(id, slot);
        if member.slice.is_none() {
            self.visit(pod, place, PodChange::default());
        }
        true
    }

    /// Makes room for one more endpoint of a slice as the API server has it: one that is not there yet is placed anew.
    /// Returns false if there is none.
    fn make_room(&mut self, id: SliceId, room: &mut Room) -> bool {
        while self.slices.objects[id].slots.len() >= room.limit {
            if room.unsent == 0 {
                return false;
            }
            room.unsent -= 1;
            let slice = &self.slices.objects[id];
            let Some(slot) = slice
                .slots
                .get(room.unsent)
                .filter(|slot| !slot.published.is_published())
            else {
                continue;
            };
            let pod = slot.pod;
            if let Some(place) = self.services.memberships()[pod].find(slice.service, slice.family) {
                self.unplace(pod, place, Priority::Add);
                self.visit(pod, place, PodChange::default());
            }
        }
        true
    }
}

/// The room in a slice that is compared with the API server.
struct Room {
    /// The number of endpoints that it may hold.
    limit: usize,
    /// The position from which on all endpoints that it held before are on the API server, or were taken in.
    unsent: usize,
}

/// Returns the conditions of an endpoint that was read.
fn published(endpoint: &EndpointFacts) -> Conditions {
    match (endpoint.ready, endpoint.serving, endpoint.terminating) {
        (Some(ready), Some(serving), Some(terminating)) => Conditions::new(ready, serving, terminating),
        (ready, ..) => Conditions::new(ready.unwrap_or(true), false, false),
    }
}
