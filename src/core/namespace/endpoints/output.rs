//! Endpoints as published objects: what they should hold, and what the lifecycle needs of them.

use super::{Endpoints, by_uid};
use crate::core::body::{AddressBody, EndpointsBody, PodReference};
use crate::core::compact::table::Named;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::{EndpointsFacts, EndpointsMeta, ServiceFacts};
use crate::core::ids::{EndpointsId, PodId, ServiceId, Uid};
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::namespace::lifecycle::{Content, Metadata, Objects, Outcome, Published};
use crate::core::namespace::{NamespaceState, WorkItem};
use crate::core::object::{Flight, ObjectName, ObjectState, Phase};
use crate::core::queue::Priority;
use crate::core::subsets::MAX_ADDRESSES;
use std::net::IpAddr;

impl Named for Endpoints {
    fn name(&self) -> &str {
        &self.name
    }
}

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

impl Published for Endpoints {
    type Id = EndpointsId;
    type Meta = EndpointsMeta;
    type Facts = EndpointsFacts;

    fn objects(state: &NamespaceState) -> &Objects<Self> {
        &state.endpoints
    }

    fn objects_mut(state: &mut NamespaceState) -> &mut Objects<Self> {
        &mut state.endpoints
    }

    fn object(&self) -> &ObjectState {
        &self.object
    }

    fn object_mut(&mut self) -> &mut ObjectState {
        &mut self.object
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

    fn work_item(&self) -> WorkItem {
        let object = ObjectName::endpoints(self.name.clone());
        WorkItem::new(object, self.name.clone(), &self.object)
    }

    fn differs(&self, _state: &NamespaceState) -> bool {
        self.object.remote.is_none() || self.object.rewrite
    }

    fn waits_for_slices(&self, state: &NamespaceState) -> bool {
        let awaiting = |id| state.services[id].awaiting > 0;
        self.object.phase == Phase::Managed && state.services.find(&self.name).is_some_and(awaiting)
    }

    /// Builds nothing if all that changed has changed back, or is not shown.
    fn build(state: &mut NamespaceState, id: EndpointsId) -> Option<Vec<u8>> {
        let entry = &state.endpoints[id];
        let service = state.services.find(&entry.name)?;
        let body = state.endpoints_body(service);
        let (visited, read) = (body.addresses() as u64, state.listed_ports(service));
        let departing = body.fingerprint();
        let same = entry.published == Some(departing);
        let json = (!same).then(|| {
            let (remote, extras) = (entry.object.remote.as_ref(), entry.object.extras.as_deref());
            body.into_json(&state.namespace, remote, extras, entry.object.trigger)
        });
        state.work.addresses_visited += visited;
        state.work.ports_read += read;
        let entry = &mut state.endpoints[id];
        if same {
            let object = &mut entry.object;
            (object.rewrite, object.trigger, object.changes) = (false, None, 0);
            object.priority = Priority::Rest;
        }
        entry.departing = departing;
        json
    }

    fn accepted(&mut self) {
        self.published = Some(self.departing);
    }

    fn arrive(state: &mut NamespaceState, facts: EndpointsFacts, epoch: u8) {
        state.take_endpoints(facts, epoch);
    }

    fn appear(state: &mut NamespaceState, meta: &EndpointsMeta, epoch: u8) {
        state.endpoints_appeared(meta, epoch);
    }

    fn change(state: &mut NamespaceState, id: EndpointsId, meta: &EndpointsMeta) {
        state.endpoints_written(id, meta);
    }

    fn reconcile_observed(state: &mut NamespaceState, id: EndpointsId, facts: EndpointsFacts) {
        state.reconcile_endpoints(id, facts);
    }

    fn vanish(state: &mut NamespaceState, id: EndpointsId, version: u64) {
        let object = &state.endpoints[id].object;
        // A request in flight is answered first: a later version has already replaced the one that is gone.
        if object.flight.is_none() && object.is_news(version) {
            state.lost::<Self>(id);
        }
    }

    /// The object with a Service's name is ours whatever it says, so one that was given away is created again too.
    fn remake(state: &mut NamespaceState, id: EndpointsId) {
        state.endpoints_missing(id);
    }

    fn answered_late(state: &mut NamespaceState, name: &str, outcome: &Outcome) {
        state.endpoints_late(name, outcome);
    }

    fn failure_notice(&self, state: &NamespaceState, flight: Flight, message: String) -> Option<Notice> {
        let remote = self.object.remote.as_ref();
        Some(Notice {
            source: Source::Endpoints,
            involved: Involved {
                kind: InvolvedKind::Endpoints,
                namespace: state.namespace.clone(),
                name: self.name.clone(),
                uid: remote.map_or_else(Uid::none, |remote| remote.uid.clone()),
                version: remote.map(|remote| remote.version),
            },
            warning: true,
            reason: match flight {
                Flight::Create => "FailedToCreateEndpoint",
                _ => "FailedToUpdateEndpoint",
            },
            message,
        })
    }
}

impl NamespaceState {
    pub(super) fn address_body<'a>(
        &'a self,
        id: PodId,
        ip: IpAddr,
        service: &'a ServiceFacts,
    ) -> AddressBody<'a> {
        let pod = &self.pods[id];
        AddressBody {
            ip,
            hostname: self.hostname(pod, &service.name),
            node: self.nodes.get(pod.node).map(|node| &*node.view.name),
            target: PodReference {
                namespace: &self.namespace,
                name: &pod.name,
                uid: &pod.uid,
            },
        }
    }

    /// Returns the number of ports to read to lay out a Service's subsets.
    pub(super) fn listed_ports(&self, id: ServiceId) -> u64 {
        let endpoints = self.services[id].endpoints.as_deref();
        endpoints.map_or(0, |endpoints| endpoints.members.listed_ports())
    }

    pub(super) fn endpoints_body(&self, id: ServiceId) -> EndpointsBody<'_> {
        let service = &self.services[id];
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
