//! Endpoints as published objects: what they should hold, and what the lifecycle needs of them.

use super::by_uid;
use crate::core::body::{AddressBody, EndpointsBody, PodReference};
use crate::core::facts::{EndpointsFacts, EndpointsMeta, ServiceFacts};
use crate::core::ids::{PodId, ServiceId};
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::namespace::lifecycle::{Content, Metadata, Outcome, Published, Queue};
use crate::core::namespace::{NamespaceState, WorkItem};
use crate::core::object::{Flight, ObjectName, ObjectState, Phase};
use crate::core::queue::Priority;
use crate::core::subsets::MAX_ADDRESSES;
use std::net::IpAddr;
use std::sync::Arc;

/// The Endpoints kind.
#[derive(Debug)]
pub(in crate::core::namespace) struct EndpointsOutput;

impl Metadata for EndpointsMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }

    /// Nothing delays the deletion of an Endpoints object: it is gone with the next event.
    fn is_deleting(&self) -> bool {
        false
    }
}

impl Published for EndpointsOutput {
    type Id = Arc<str>;
    type Meta = EndpointsMeta;
    type Facts = EndpointsFacts;

    fn queue(state: &mut NamespaceState) -> &mut Queue<Arc<str>, EndpointsFacts> {
        &mut state.endpoints_queue
    }

    fn find(state: &NamespaceState, name: &str) -> Option<Arc<str>> {
        state.endpoints.get_key_value(name).map(|(name, _)| name.clone())
    }

    fn name<'s>(state: &'s NamespaceState, id: &'s Arc<str>) -> Option<&'s Arc<str>> {
        state.endpoints.contains_key(id).then_some(id)
    }

    fn get<'s>(state: &'s NamespaceState, id: &Arc<str>) -> Option<(Phase, &'s ObjectState)> {
        let entry = state.endpoints.get(id)?;
        Some((entry.phase, &entry.object))
    }

    fn get_mut<'s>(
        state: &'s mut NamespaceState,
        id: &Arc<str>,
    ) -> Option<(&'s mut Phase, &'s mut ObjectState)> {
        let entry = state.endpoints.get_mut(id)?;
        Some((&mut entry.phase, &mut entry.object))
    }

    fn unlisted(state: &NamespaceState, epoch: u8, version: u64) -> Vec<Arc<str>> {
        let entries = state.endpoints.iter();
        let gone = entries.filter(|(_, entry)| entry.object.is_unlisted(epoch, version));
        gone.map(|(name, _)| name.clone()).collect()
    }

    fn meta(facts: &EndpointsFacts) -> &EndpointsMeta {
        &facts.meta
    }

    fn content(content: Content) -> Option<EndpointsFacts> {
        match content {
            Content::Endpoints(facts) => Some(*facts),
            Content::Slice(_) => None,
        }
    }

    fn differs(state: &NamespaceState, id: &Arc<str>) -> bool {
        let object = &state.endpoints[id].object;
        object.remote.is_none() || object.rewrite
    }

    fn awaits(state: &NamespaceState, id: &Arc<str>) -> bool {
        let awaiting = || {
            let service = state.services_by_name.get(id);
            service.is_some_and(|id| state.services[id.index()].awaiting > 0)
        };
        state.endpoints[id].phase == Phase::Managed && awaiting()
    }

    /// Builds nothing if all that changed has changed back, or is not shown.
    fn build(state: &mut NamespaceState, name: &Arc<str>) -> Option<Vec<u8>> {
        let id = state.services_by_name[name];
        let body = state.endpoints_body(id);
        let (visited, read) = (body.addresses() as u64, state.listed_ports(id));
        let departing = body.fingerprint();
        let entry = &state.endpoints[name];
        let same = entry.published == Some(departing);
        let json = (!same).then(|| {
            let (remote, extras) = (entry.object.remote.as_ref(), entry.object.extras.as_deref());
            body.into_json(&state.namespace, remote, extras, entry.object.trigger)
        });
        state.work.addresses_visited += visited;
        state.work.ports_read += read;
        let entry = state.endpoints.get_mut(name)?;
        if same {
            let object = &mut entry.object;
            (object.rewrite, object.trigger, object.changes) = (false, None, 0);
            object.priority = Priority::Rest;
        }
        entry.departing = departing;
        json
    }

    fn depart(state: &mut NamespaceState, id: &Arc<str>, flight: Flight) {
        if let Some(entry) = state.endpoints.get_mut(id) {
            entry.object.depart(flight);
        }
    }

    fn accepted(state: &mut NamespaceState, id: &Arc<str>) {
        if let Some(entry) = state.endpoints.get_mut(id) {
            entry.published = Some(entry.departing);
        }
    }

    fn want(state: &NamespaceState, name: &Arc<str>) -> Option<WorkItem> {
        let entry = state.endpoints.get(name)?;
        let object = ObjectName::endpoints(name.clone());
        Some(WorkItem::of(object, name.clone(), &entry.object))
    }

    fn arrive(state: &mut NamespaceState, facts: EndpointsFacts, epoch: u8) {
        state.take_endpoints(facts, epoch);
    }

    fn appear(state: &mut NamespaceState, meta: &EndpointsMeta, epoch: u8) {
        state.endpoints_appeared(meta, epoch);
    }

    fn change(state: &mut NamespaceState, _: &Arc<str>, meta: &EndpointsMeta) {
        state.endpoints_written(meta);
    }

    fn reconcile_observed(state: &mut NamespaceState, id: &Arc<str>, facts: EndpointsFacts) {
        state.settle_endpoints(id, facts);
    }

    fn vanish(state: &mut NamespaceState, id: &Arc<str>, version: u64) {
        let object = &state.endpoints[id].object;
        // A request in flight is answered first: a later version has already replaced the one that is gone.
        if object.flight.is_none() && object.is_news(version) {
            state.lost::<Self>(id);
        }
    }

    fn remake(state: &mut NamespaceState, id: &Arc<str>) {
        state.endpoints_missing(id);
    }

    fn give_away(state: &mut NamespaceState, id: &Arc<str>) {
        // The object with a Service's name is ours, whatever it says.
        state.endpoints_missing(id);
    }

    fn forget(state: &mut NamespaceState, id: &Arc<str>) {
        state.endpoints.remove(id);
    }

    fn answered_late(state: &mut NamespaceState, name: &str, outcome: &Outcome) {
        state.endpoints_late(name, outcome);
    }

    fn remark_failure(
        state: &mut NamespaceState,
        id: &Arc<str>,
        flight: Flight,
        bytes: Option<usize>,
        why: Option<&str>,
    ) {
        state.remark_endpoints_failure(id, flight, bytes, why);
    }
}

impl NamespaceState {
    pub(super) fn address_body<'a>(
        &'a self,
        id: PodId,
        ip: IpAddr,
        service: &'a ServiceFacts,
    ) -> AddressBody<'a> {
        let pod = &self.pods[id.index()];
        AddressBody {
            ip,
            hostname: self.hostname(pod, &service.name),
            node: self.nodes.get(pod.node.index()).map(|node| &*node.view.name),
            target: PodReference {
                namespace: &self.namespace,
                name: &pod.name,
                uid: &pod.uid,
            },
        }
    }

    /// Returns the number of ports to read to lay out a Service's subsets.
    pub(super) fn listed_ports(&self, id: ServiceId) -> u64 {
        let endpoints = self.services[id.index()].endpoints.as_deref();
        endpoints.map_or(0, |endpoints| endpoints.members.listed_ports())
    }

    pub(super) fn endpoints_body(&self, id: ServiceId) -> EndpointsBody<'_> {
        let service = &self.services[id.index()];
        let ServiceEndpoints { members, .. } = service
            .endpoints
            .as_deref()
            .expect("only objects of managed Services are built");
        let published = members.publish(MAX_ADDRESSES, by_uid(&self.pods));
        EndpointsBody::new(&service.facts, &published, |pod| {
            let (ip, ..) = members.get(pod).expect("only members are published");
            self.address_body(pod, ip, &service.facts)
        })
    }
}
