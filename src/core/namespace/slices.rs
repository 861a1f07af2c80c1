//! Slices as published objects: what they should hold, and what the lifecycle needs of them.

use super::hinting::auto_hint;
use super::lifecycle::{Content, Metadata, Objects, Published};
use super::members::desired;
use super::{NamespaceState, Service, WorkItem};
use crate::core::address::Family;
use crate::core::body::{Encode, EndpointBody, Metadata as BodyMetadata, PodReference, SliceBody, Subject};
use crate::core::compact::table::Named;
use crate::core::events::{Notice, Source};
use crate::core::facts::{EndpointFacts, SliceFacts, SliceMeta};
use crate::core::hints::HintMode;
use crate::core::ids::{SliceId, Uid};
use crate::core::inputs::Pod;
use crate::core::object::{Flight, ObjectName, ObjectState, Phase};
use crate::core::queue::Priority;
use crate::core::slices::Slice;
use crate::core::time::Time;

impl Named for Slice {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Metadata for SliceMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn uid(&self) -> &Uid {
        &self.uid
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }
}

impl Published for Slice {
    type Id = SliceId;
    type Meta = SliceMeta;
    type Facts = SliceFacts;

    fn objects(state: &NamespaceState) -> &Objects<Self> {
        &state.slices
    }

    fn objects_mut(state: &mut NamespaceState) -> &mut Objects<Self> {
        &mut state.slices
    }

    fn object(&self) -> &ObjectState {
        &self.object
    }

    fn object_mut(&mut self) -> &mut ObjectState {
        &mut self.object
    }

    fn meta(facts: &SliceFacts) -> &SliceMeta {
        &facts.meta
    }

    /// The older of two slices that hold an endpoint keeps it, so that one is adopted first.
    fn created(facts: &SliceFacts) -> Option<Time> {
        facts.created
    }

    fn content(content: Content) -> Option<SliceFacts> {
        match content {
            Content::Slice(facts) => Some(*facts),
            Content::Endpoints(_) => None,
        }
    }

    fn work_item(&self) -> WorkItem {
        let name = ObjectName::slice(self.name.clone());
        WorkItem::new(name, self.service_name.clone(), &self.object)
    }

    fn gives_way(&self) -> bool {
        self.gives_way
    }

    fn order(&self) -> u8 {
        Slice::order(self)
    }

    /// Nothing is created for a Service that is being deleted, and nothing is written while that has to wait.
    fn differs(&self, state: &NamespaceState) -> bool {
        let creates = self.object.remote.is_none();
        let deleting = || state.services[self.service].facts.deleting;
        let differs = !self.yielded && Slice::differs(self) && !(creates && deleting());
        differs && !state.is_deferred(self.service, !creates)
    }

    /// Returns whether the Service still waits for slices that must be fetched first. A slice is not created before one that
    /// somebody else has made meanwhile was read, since that may hold the same endpoints.
    fn waits_for_slices(&self, state: &NamespaceState) -> bool {
        let service = state.services.get(self.service);
        let creates = self.object.phase == Phase::Managed && self.object.remote.is_none();
        service.is_some_and(|service| service.awaiting > 0)
            || (creates && state.reads_slices_of(self.service))
    }

    fn build<E: Encode>(state: &mut NamespaceState, id: SliceId, encoder: &mut E) -> Option<E::Body> {
        Some(state.body(&state.slices[id], encoder))
    }

    fn depart(state: &mut NamespaceState, id: SliceId, flight: Flight) {
        let (inputs, services) = (&state.inputs, &state.services);
        let slice = &mut state.slices[id];
        if matches!(flight, Flight::Create | Flight::Update) {
            let service = &services[slice.service];
            slice.depart(flight, |pod| desired(inputs.pod(pod), service));
        } else {
            slice.object.depart(flight);
        }
    }

    /// Takes in a slice that was not known.
    fn arrive(state: &mut NamespaceState, facts: SliceFacts, epoch: u8) {
        let id = state.keep(&facts.meta, epoch);
        state.slices[id].created = facts.created;
        state.slices[id].others_hold = Some(!facts.endpoints.is_empty());
        state.hold_content(id, &facts);
        state.attribute(id, false);
        if state.slices[id].gives_way {
            state.hold_content(id, &facts);
        }
        let service = facts.meta.service.clone();
        if matches!(state.slices[id].object.phase, Phase::Adopting { .. }) {
            // No fetch is needed, since its content is here.
            Self::reconcile_observed(state, id, facts);
        }
        state.check_replacement(&service);
    }

    fn appear(state: &mut NamespaceState, meta: &SliceMeta, epoch: u8) {
        let id = state.keep(meta, epoch);
        // Before the first plan, planning must wait for a slice whose content is not known.
        state.attribute(id, state.pending_lists.any());
        state.check_replacement(&meta.service);
    }

    /// Handles a newer version of a known slice that we did not write.
    fn changed_by_others(state: &mut NamespaceState, id: SliceId, meta: &SliceMeta) {
        let slice = &mut state.slices[id];
        let service = state.services.get(slice.service);
        let owned = || service.is_some_and(|service| meta.owner.includes(&service.facts.uid));
        let moved = slice.service_name != meta.service || slice.manager != meta.manager;
        if moved || (slice.object.phase == Phase::Managed && !owned()) {
            state.disown(id, meta);
        } else if slice.object.phase == Phase::Managed {
            slice.object.mark_stale();
            state.slices.want(id);
        } else {
            slice.object.remote = Some(meta.remote());
            slice.owner = meta.owner.clone();
            slice.others_hold = None;
            let service = slice.gives_way.then(|| slice.service_name.clone());
            state.drop_content(id);
            state.learn_content(id);
            if let Some(service) = service {
                state.check_leaving(&service);
            }
        }
    }

    /// Applies the content of a slice that was read while nothing of ours was in flight.
    fn reconcile_observed(state: &mut NamespaceState, id: SliceId, facts: SliceFacts) {
        let slice = &mut state.slices[id];
        slice.object.needs_refetch = false;
        if facts.meta.deleting {
            state.lost::<Slice>(id);
        } else if slice.service_name != facts.meta.service || slice.manager != facts.meta.manager {
            state.disown(id, &facts.meta);
        } else if matches!(slice.object.phase, Phase::Deleting | Phase::Unmanaged) {
            Self::changed_by_others(state, id, &facts.meta);
            state.learned_content(id, &facts);
        } else {
            let service = &mut state.services[slice.service];
            let family = facts
                .family
                .filter(|&family| facts.meta.owner.includes(&service.facts.uid) && service.facts.has(family));
            match (slice.object.phase, family) {
                (Phase::Managed, Some(family)) if family == slice.family => {
                    state.reconcile_slice(id, facts, state.settings.max_endpoints);
                }
                (Phase::Managed, _) => state.disown(id, &facts.meta),
                (_, Some(family)) => {
                    // The slice is older than this process, so the Service's creation is long past.
                    if !std::mem::replace(&mut service.known, true) {
                        service.trigger = None;
                    }
                    state.adopt(id, family, facts);
                }
                (_, None) => {
                    state.release_hold(id);
                    let slice = &mut state.slices[id];
                    slice.object.remote = Some(facts.meta.remote());
                    slice.owner = facts.meta.owner;
                    slice.object.phase = Phase::Deleting;
                    state.slices.want(id);
                }
            }
        }
    }

    /// Fetches a managed slice before another takes its place: it may be gone, or another manager's.
    fn vanish(state: &mut NamespaceState, id: SliceId, _version: u64) {
        let slice = &mut state.slices[id];
        if slice.object.phase == Phase::Managed {
            // A request in flight is answered first: a create may have made what is gone already.
            if slice.object.flight.is_none() && slice.object.remote.is_some() {
                slice.object.mark_stale();
                state.slices.want(id);
            }
        } else if slice.object.flight != Some(Flight::Create) {
            state.drop_slice(id);
        }
    }

    /// Creates a managed slice anew, under another name. A request in flight to the old name no longer matters.
    fn remake(state: &mut NamespaceState, id: SliceId) {
        if state.slices[id].object.phase == Phase::Managed {
            state.yield_remote(id);
            state.revise(id, Priority::Add);
        } else {
            state.drop_slice(id);
        }
    }

    fn give_away(state: &mut NamespaceState, id: SliceId) {
        state.yield_remote(id);
    }

    fn forget(state: &mut NamespaceState, id: SliceId) {
        state.drop_slice(id);
    }

    fn failure_notice(&self, state: &NamespaceState, _flight: Flight, message: String) -> Option<Notice> {
        (!self.service.is_none()).then(|| Notice {
            source: Source::Slices,
            involved: state.involved(self.service),
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message: format!("EndpointSlice {}: {message}", self.name),
        })
    }
}

impl NamespaceState {
    fn body<E: Encode>(&self, slice: &Slice, encoder: &mut E) -> E::Body {
        let service = &self.services[slice.service];
        let state = service.families[slice.family.index()].as_ref();
        let state = state.expect("a managed slice's Service has the slice's family");
        let endpoints = slice.slots.iter().enumerate().map(|(at, slot)| {
            let endpoint = self.endpoint(self.inputs.pod(slot.pod), service, slice.family);
            let mut endpoint = endpoint.expect("a placed pod has an address of the slice's family");
            if service.facts.hints == HintMode::Auto {
                endpoint.hints = auto_hint(slice, at);
            }
            endpoint
        });
        encoder.slice(SliceBody {
            metadata: BodyMetadata {
                namespace: &self.namespace,
                name: &slice.name,
                subject: Subject::SliceOf(&service.facts),
                remote: slice.object.remote.as_ref(),
                extras: slice.object.extras.as_deref(),
                trigger: slice.object.trigger,
                clear_managed_fields: self.settings.clear_managed_fields && !slice.object.updated,
                truncated: false,
            },
            address_type: slice.family.as_str(),
            ports: &state.groups.get(slice.group).ports,
            endpoints,
        })
    }

    /// Returns what a pod's endpoint of a family should be, without the hint where that depends on the zones; `None` if
    /// the pod has no address of the family.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "a slice has up to 1,000 endpoints, and each would be copied several times on its way to the encoder"
    )]
    fn endpoint<'a>(
        &'a self,
        pod: &'a Pod,
        service: &'a Service,
        family: Family,
    ) -> Option<EndpointBody<'a>> {
        let (node, zone) = self.inputs.node_and_zone(pod);
        let zone = zone.map(|zone| &**zone);
        let conditions = desired(pod, service);
        Some(EndpointBody {
            ip: pod.ip(family)?,
            conditions,
            hostname: self.inputs.hostname(pod, &service.facts.name),
            target: PodReference {
                name: pod.name(),
                uid: pod.uid(),
            },
            node,
            zone,
            hints: service.facts.hints.hint(conditions.ready(), zone, node),
        })
    }

    /// Returns whether an endpoint on the API server is, its conditions aside, what a pod's endpoint should be.
    /// Order and the spelling of addresses do not count.
    pub(super) fn same_content(
        &self,
        pod: &Pod,
        service: &Service,
        family: Family,
        endpoint: &EndpointFacts,
    ) -> bool {
        let Some(wanted) = self.endpoint(pod, service, family) else {
            return false;
        };
        let only = |hints: &[Box<str>], hint: Option<&str>| hints.iter().map(|h| &**h).eq(hint);
        let same_hints = service.facts.hints == HintMode::Auto
            || (only(&endpoint.zone_hints, wanted.hints.zone)
                && only(&endpoint.node_hints, wanted.hints.node));
        !endpoint.odd
            && same_hints
            && endpoint.ready.is_some()
            && endpoint.serving.is_some()
            && endpoint.terminating.is_some()
            && endpoint.pod_uid.as_ref() == Some(wanted.target.uid)
            && endpoint.addresses.len() == 1
            && *endpoint.addresses[0] == *wanted.ip.to_string()
            && endpoint.node.as_deref() == wanted.node
            && endpoint.zone.as_deref() == wanted.zone
            && endpoint.hostname.as_deref() == wanted.hostname
    }
}
