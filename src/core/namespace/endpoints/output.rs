//! Endpoints as published objects: what they should hold, and what the lifecycle needs of them.

use super::server::Verdict;
use super::{Endpoints, address_of, by_uid};
use crate::core::body::{
    AddressBody, Encode, EndpointsBody, Metadata as BodyMetadata, PodReference, Subject,
};
use crate::core::compact::table::Named;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::{EndpointsFacts, EndpointsMeta, ServiceFacts};
use crate::core::ids::{EndpointsId, PodId, ServiceId, Uid};
use crate::core::namespace::addresses::ServiceEndpoints;
use crate::core::namespace::lifecycle::{Content, Metadata, Objects, Outcome, Published};
use crate::core::namespace::{NamespaceState, WorkItem};
use crate::core::object::{Flight, ObjectName, ObjectState, Phase, Remote};
use crate::core::ports::SlicePort;
use crate::core::queue::Priority;
use crate::core::subsets::{MAX_ADDRESSES, Published as Subsets, Subset};
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

    fn uid(&self) -> &Uid {
        &self.uid
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
        let item = WorkItem::new(object, self.name.clone(), &self.object);
        if self.object.phase != Phase::Unmanaged {
            return item;
        }
        // Read to be mirrored: nobody knows yet what has changed, and slices wait for it.
        WorkItem {
            priority: Priority::Remove,
            reads: true,
            ..item
        }
    }

    fn differs(&self, state: &NamespaceState) -> bool {
        let on_server = self.object.remote.is_some();
        (!on_server || self.object.rewrite) && !state.defers_endpoints(&self.name, on_server)
    }

    fn waits_for_slices(&self, state: &NamespaceState) -> bool {
        let awaiting = |id| state.services[id].awaiting > 0;
        self.object.phase == Phase::Managed && state.services.find(&self.name).is_some_and(awaiting)
    }

    /// Builds nothing if all that changed has changed back, or is not shown.
    fn build<E: Encode>(state: &mut NamespaceState, id: EndpointsId, encoder: &mut E) -> Option<E::Body> {
        let entry = &state.endpoints[id];
        let service = state.services.find(&entry.name)?;
        let published = state.published(service);
        let body = state.endpoints_body(service, &published);
        let (visited, read) = (body.addresses() as u64, state.listed_ports(service));
        let departing = body.fingerprint();
        let same = entry.published == Some(departing);
        let body = (!same).then(|| encoder.endpoints(body));
        state.work.addresses_visited += visited;
        state.work.ports_read += read;
        let entry = &mut state.endpoints[id];
        if same {
            let object = &mut entry.object;
            (object.rewrite, object.trigger, object.changes) = (false, None, 0);
            object.priority = Priority::Rest;
        }
        entry.departing = departing;
        body
    }

    fn accepted(&mut self) {
        self.published = Some(self.departing);
        // A mark of others that forbids it may be gone with this write. What we have written is read before it is
        // mirrored, and shows then whether it may be.
        self.mirrorable = true;
    }

    /// Takes in an object that was not known, once its pods and Service are. Its owner is checked as on any change.
    fn arrive(state: &mut NamespaceState, facts: EndpointsFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        let left = state.starting && state.settings.outputs.endpoints && state.services.find(&name).is_none();
        let phase = if left {
            Phase::Leftover { confirmed: false }
        } else {
            Phase::Unmanaged
        };
        let mut entry = Endpoints::new(name, phase);
        entry.object.epoch = epoch;
        let id = state.endpoints.insert(entry);
        state.observed::<Endpoints>(id, facts);
    }

    /// Takes in an object that a watch shows and that was not known: written since it was listed, or it would have
    /// arrived then.
    fn appear(state: &mut NamespaceState, meta: &EndpointsMeta, epoch: u8) {
        let managed = |id| state.services[id].endpoints.is_some();
        let phase = if state.services.find(&meta.name).is_some_and(managed) {
            Phase::Managed
        } else if state.starting
            && state.settings.outputs.endpoints
            && meta.ours
            && !meta.leader
            && state.services.find(&meta.name).is_none()
        {
            // It may still be a leftover.
            Phase::Leftover { confirmed: false }
        } else {
            // One that appears later is left alone, as upstream: somebody may create it ahead of its Service.
            Phase::Unmanaged
        };
        let mut entry = Endpoints::new(meta.name.clone(), phase);
        (entry.object.epoch, entry.object.seen) = (epoch, meta.version);
        let id = state.endpoints.insert(entry);
        Self::changed_by_others(state, id, meta);
    }

    /// Handles a version of an object that is not known to be what it should be. A managed object is fetched.
    fn changed_by_others(state: &mut NamespaceState, id: EndpointsId, meta: &EndpointsMeta) {
        let entry = &mut state.endpoints[id];
        entry.look_again(&meta.uid, meta.ours && !meta.leader);
        entry.published = None;
        if entry.object.phase == Phase::Managed {
            // The refetch that follows shows more than the version.
            entry.object.mark_stale();
        } else {
            entry.object.remote = Some(meta.remote());
        }
        entry.mirrorable = meta.may_be_mirrored();
        if matches!(entry.object.phase, Phase::Managed | Phase::Leftover { .. }) {
            state.endpoints.want(id);
        }
        state.touch_mirror(&meta.name);
    }

    /// Applies the content of an object that was read while nothing of ours was in flight.
    fn reconcile_observed(state: &mut NamespaceState, id: EndpointsId, mut facts: EndpointsFacts) {
        state.endpoints[id].mirrorable = facts.meta.may_be_mirrored();
        state.mirror_content(&mut facts);
        let verdict = state.services.find(&facts.meta.name).map(|id| {
            let service = &mut state.services[id];
            if state.starting
                && facts.meta.ours
                && service.facts.is_managed()
                && !service.facts.custom
                && !std::mem::replace(&mut service.known, true)
            {
                // The object is older than this process, so the Service's creation is long past.
                service.trigger = None;
            }
            let verdict = state.judge_endpoints(id, &facts);
            state.work.ports_read += 4 * state.listed_ports(id);
            if let (Some(endpoints), Verdict::Same(_)) = (&mut state.services[id].endpoints, &verdict) {
                // It was compared with the current members.
                (endpoints.changes, endpoints.priority) = (0, Priority::Rest);
            }
            verdict
        });
        let entry = &mut state.endpoints[id];
        let EndpointsFacts { meta, extras, .. } = facts;
        entry.look_again(&meta.uid, meta.ours && !meta.leader);
        let moved = entry.object.read(meta.remote());
        entry.object.extras = (!extras.is_empty()).then(|| Box::new(extras));
        entry.published = None;
        match (entry.object.phase, verdict) {
            (Phase::Managed, Some(Verdict::Same(fingerprint))) => {
                entry.published = fingerprint;
                (entry.object.rewrite, entry.object.trigger) = (false, None);
                // As with slices.
                if moved && !entry.object.needs_refetch {
                    entry.object.succeed();
                }
            }
            (Phase::Managed, Some(Verdict::Differs(priority))) => {
                entry.object.rewrite = true;
                entry.object.priority = entry.object.priority.min(priority);
            }
            // Read to be mirrored, and nothing more is to be read.
            (Phase::Unmanaged, _) if !entry.object.needs_refetch => entry.object.succeed(),
            _ => {}
        }
        state.endpoints.want(id);
    }

    fn vanish(state: &mut NamespaceState, id: EndpointsId, version: u64) {
        let entry = &mut state.endpoints[id];
        entry.gone = version;
        // A request in flight is answered first: a later version has already replaced the one that is gone.
        if entry.object.flight.is_none() && entry.object.is_news(version) {
            state.lost::<Self>(id);
        }
    }

    /// One that was given away is created again too: the object with a Service's name is ours whatever it says.
    fn remake(state: &mut NamespaceState, id: EndpointsId) {
        let entry = &mut state.endpoints[id];
        entry.published = None;
        // A watch may have shown another object of the name while a request for this one was out.
        let object = &entry.object;
        let again = object
            .remote
            .as_ref()
            .is_some_and(|old| object.seen > old.version.max(entry.gone));
        entry.object.forget_remote();
        let name = entry.name.clone();
        if entry.object.phase == Phase::Managed {
            entry.object.priority = entry.object.priority.min(Priority::Add);
            state.endpoints.want(id);
        } else if again {
            entry.object.phase = Phase::Unmanaged;
            entry.object.mark_stale();
            state.endpoints.want(id);
        } else {
            state.endpoints.remove(id);
        }
        state.forget_mirror_content(&name);
    }

    /// Handles the answer to a request that was forgotten when this process became a standby. The list since then may
    /// be from before the request was carried out, and the Service may be gone when the watch shows the object that it
    /// made, which then could not be told from what others make.
    fn answered_late(state: &mut NamespaceState, name: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Written(_) | Outcome::Unknown if state.settings.outputs.endpoints => {}
            _ => return,
        }
        let id = state.endpoints.find(name).unwrap_or_else(|| {
            let left = Phase::Leftover { confirmed: false };
            state.endpoints.insert(Endpoints::new(name.into(), left))
        });
        let entry = &mut state.endpoints[id];
        let known = |remote: &Remote| !entry.object.is_news(remote.version);
        if entry.object.phase == Phase::Unmanaged
            || matches!(outcome, Outcome::Written(remote) if known(remote))
        {
            return;
        }
        // The API server may have gone back from the version in the answer since.
        entry.object.needs_refetch = true;
        state.endpoints.want(id);
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
        let pod = self.inputs.pod(id);
        AddressBody {
            ip,
            hostname: self.inputs.hostname(pod, &service.name),
            node: self.inputs.node_name(pod).map(|node| &**node),
            target: PodReference {
                name: pod.name(),
                uid: pod.uid(),
            },
        }
    }

    /// Returns the number of ports to read to lay out a Service's subsets.
    pub(super) fn listed_ports(&self, id: ServiceId) -> u64 {
        let endpoints = self.services[id].endpoints.as_deref();
        endpoints.map_or(0, |endpoints| endpoints.members.listed_ports())
    }

    /// Returns the subsets that a managed Service's object should have.
    fn published(&self, id: ServiceId) -> Subsets<SlicePort, AddressBody<'_>> {
        let (service, members) = (&self.services[id].facts, &self.endpoints_of(id).members);
        let published = members.publish(MAX_ADDRESSES, by_uid(&self.inputs));
        // Read once, since the fingerprint and the encoding both need them.
        let addresses = |pods: Vec<PodId>| {
            let body = |pod| {
                // As the members have it, but found at once.
                let ip =
                    address_of(self.inputs.pod(pod), service).expect("only pods with an address are members");
                debug_assert_eq!(Some(ip), members.get(pod).map(|(ip, ..)| ip));
                self.address_body(pod, ip, service)
            };
            pods.into_iter().map(body).collect()
        };
        let subsets = published.subsets.into_iter().map(|subset| Subset {
            ports: subset.ports,
            ready: addresses(subset.ready),
            not_ready: addresses(subset.not_ready),
        });
        Subsets {
            subsets: subsets.collect(),
            truncated: published.truncated,
        }
    }

    fn endpoints_of(&self, id: ServiceId) -> &ServiceEndpoints {
        let endpoints = self.services[id].endpoints.as_deref();
        endpoints.expect("only objects of managed Services are built")
    }

    fn endpoints_body<'a>(
        &'a self,
        id: ServiceId,
        published: &'a Subsets<SlicePort, AddressBody<'a>>,
    ) -> EndpointsBody<'a> {
        let service = &self.services[id].facts;
        let object = self
            .endpoints
            .find(&service.name)
            .map(|id| &self.endpoints[id].object);
        EndpointsBody {
            metadata: BodyMetadata {
                namespace: &self.namespace,
                name: &service.name,
                subject: Subject::EndpointsOf(service),
                remote: object.and_then(|object| object.remote.as_ref()),
                extras: object.and_then(|object| object.extras.as_deref()),
                trigger: object.and_then(|object| object.trigger),
                clear_managed_fields: self.settings.clear_managed_fields
                    && object.is_some_and(|object| !object.updated),
                truncated: published.truncated,
            },
            subsets: &published.subsets,
        }
    }

    /// Returns the fingerprint of what a managed Service's object should hold.
    pub(super) fn endpoints_fingerprint(&self, id: ServiceId) -> u64 {
        self.endpoints_body(id, &self.published(id)).fingerprint()
    }
}
