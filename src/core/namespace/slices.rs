//! Slices as published objects: what they should hold, and what the lifecycle needs of them.

use super::hinting::auto_hint;
use super::lifecycle::{Content, Metadata, Published, Queue};
use super::members::desired;
use super::{NamespaceState, WorkItem};
use crate::core::body::{EndpointBody, PodReference, SliceBody};
use crate::core::facts::{SliceFacts, SliceMeta};
use crate::core::hints::HintMode;
use crate::core::ids::SliceId;
use crate::core::object::{Flight, ObjectState, Phase};
use crate::core::queue::Priority;
use crate::core::slices::Slice;
use std::sync::Arc;

/// The kind of slices.
#[derive(Debug)]
pub(super) struct SliceOutput;

impl Metadata for SliceMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }
}

impl Published for SliceOutput {
    type Id = SliceId;
    type Meta = SliceMeta;
    type Facts = SliceFacts;

    fn queue(state: &mut NamespaceState) -> &mut Queue<SliceId, SliceFacts> {
        &mut state.slice_queue
    }

    fn find(state: &NamespaceState, name: &str) -> Option<SliceId> {
        state.slices_by_name.get(name).copied()
    }

    fn name<'s>(state: &'s NamespaceState, id: &'s SliceId) -> Option<&'s Arc<str>> {
        state.slices.get(id.index()).map(|slice| &slice.name)
    }

    fn get<'s>(state: &'s NamespaceState, id: &SliceId) -> Option<(Phase, &'s ObjectState)> {
        let slice = state.slices.get(id.index())?;
        Some((slice.phase, &slice.object))
    }

    fn get_mut<'s>(
        state: &'s mut NamespaceState,
        id: &SliceId,
    ) -> Option<(&'s mut Phase, &'s mut ObjectState)> {
        let slice = state.slices.get_mut(id.index())?;
        Some((&mut slice.phase, &mut slice.object))
    }

    fn unlisted(state: &NamespaceState, epoch: u8, version: u64) -> Vec<Arc<str>> {
        let slices = state.slices.iter().map(|(_, slice)| slice);
        let gone = slices.filter(|slice| slice.object.is_unlisted(epoch, version));
        gone.map(|slice| slice.name.clone()).collect()
    }

    fn meta(facts: &SliceFacts) -> &SliceMeta {
        &facts.meta
    }

    fn content(content: Content) -> Option<SliceFacts> {
        match content {
            Content::Slice(facts) => Some(*facts),
            Content::Endpoints(_) => None,
        }
    }

    /// Nothing is created for a Service that is being deleted.
    fn differs(state: &NamespaceState, id: &SliceId) -> bool {
        let slice = &state.slices[id.index()];
        let creates = slice.object.remote.is_none();
        let deleting = || state.services[slice.service.index()].facts.deleting;
        !slice.yielded && slice.differs() && !(creates && deleting())
    }

    /// Returns whether the Service still waits for slices that must be fetched first.
    fn awaits(state: &NamespaceState, id: &SliceId) -> bool {
        let service = state.slices[id.index()].service;
        let service = state.services.get(service.index());
        service.is_some_and(|service| service.awaiting > 0)
    }

    fn build(state: &mut NamespaceState, id: &SliceId) -> Option<Vec<u8>> {
        Some(state.body(&state.slices[id.index()]))
    }

    fn depart(state: &mut NamespaceState, id: &SliceId, flight: Flight) {
        let (pods, services) = (&state.pods, &state.services);
        let slice = &mut state.slices[id.index()];
        if matches!(flight, Flight::Create | Flight::Update) {
            let service = &services[slice.service.index()];
            slice.depart(flight, |pod| desired(&pods[pod.index()], service));
        } else {
            slice.object.depart(flight);
        }
    }

    fn want(state: &NamespaceState, id: &SliceId) -> Option<WorkItem> {
        state.slices.get(id.index()).map(WorkItem::of_slice)
    }

    fn order(state: &NamespaceState, id: &SliceId) -> u8 {
        state.slices[id.index()].order()
    }

    fn arrive(state: &mut NamespaceState, facts: SliceFacts, epoch: u8) {
        state.take_arrival(facts, epoch);
    }

    fn appear(state: &mut NamespaceState, meta: &SliceMeta, epoch: u8) {
        let id = state.keep(meta, epoch);
        // Before the first plan, planning must wait for a slice whose content is not known.
        state.attribute(id, state.pending_lists.any());
    }

    fn change(state: &mut NamespaceState, id: &SliceId, meta: &SliceMeta) {
        state.meta_changed(*id, meta);
    }

    fn reconcile_observed(state: &mut NamespaceState, id: &SliceId, facts: SliceFacts) {
        state.content_known(*id, facts);
    }

    /// Fetches a managed slice before another takes its place: it may be gone, or another manager's.
    fn vanish(state: &mut NamespaceState, id: &SliceId, _version: u64) {
        let slice = &mut state.slices[id.index()];
        if slice.phase == Phase::Managed {
            // A request in flight is answered first: a create may have made what is gone already.
            if slice.object.flight.is_none() && slice.object.remote.is_some() {
                slice.object.mark_stale();
                state.want(*id);
            }
        } else if slice.object.flight != Some(Flight::Create) {
            state.drop_slice(*id);
        }
    }

    /// Creates a managed slice anew, under another name. A request in flight to the old name no longer matters.
    fn remake(state: &mut NamespaceState, id: &SliceId) {
        if state.slices[id.index()].phase == Phase::Managed {
            state.yield_remote(*id);
            state.revise(*id, Priority::Add);
        } else {
            state.drop_slice(*id);
        }
    }

    fn give_away(state: &mut NamespaceState, id: &SliceId) {
        state.yield_remote(*id);
    }

    fn forget(state: &mut NamespaceState, id: &SliceId) {
        state.drop_slice(*id);
    }

    fn remark_failure(
        state: &mut NamespaceState,
        id: &SliceId,
        _flight: Flight,
        bytes: Option<usize>,
        why: Option<&str>,
    ) {
        state.remark_slice_failure(*id, bytes, why);
    }
}

impl NamespaceState {
    fn body(&self, slice: &Slice) -> Vec<u8> {
        let service = &self.services[slice.service.index()];
        let state = service.families[slice.family.index()].as_ref();
        let state = state.expect("a live slice's Service has the slice's family");
        let endpoints = || {
            slice.slots.iter().enumerate().map(|(at, slot)| {
                let pod = &self.pods[slot.pod.index()];
                let node = self.nodes.get(pod.node.index());
                let zone = node.and_then(|node| node.view.facts.as_ref()?.zone.as_deref());
                let node = node.map(|node| &*node.view.name);
                let conditions = desired(pod, service);
                EndpointBody {
                    hints: match service.facts.hints {
                        HintMode::Auto => auto_hint(slice, at),
                        mode => mode.hint(conditions.ready(), zone, node),
                    },
                    ip: pod
                        .ip(slice.family)
                        .expect("a placed pod has an address of the slice's family"),
                    conditions,
                    hostname: self.hostname(pod, &service.facts.name),
                    target: PodReference {
                        namespace: &self.namespace,
                        name: &pod.name,
                        uid: &pod.uid,
                    },
                    node,
                    zone,
                }
            })
        };
        SliceBody {
            namespace: &self.namespace,
            name: &slice.name,
            remote: slice.object.remote.as_ref(),
            extras: slice.object.extras.as_deref(),
            service: &service.facts,
            trigger: slice.object.trigger,
            address_type: slice.family.as_str(),
            ports: &state.groups.get(slice.group).ports,
            endpoints,
        }
        .to_json()
    }
}
