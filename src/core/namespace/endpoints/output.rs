//! Endpoints as published objects: what they should hold, and what the lifecycle needs of them.

use super::server::Agreement;
use super::{Endpoints, EndpointsDesk, EndpointsNews, GONE_WITH_ITS_SERVICE};
use crate::core::body::{AddressBody, Encode, EndpointsBody, Metadata, PodReference, Subject};
use crate::core::compact::table::Named;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::{EndpointsFacts, EndpointsMeta, ServiceFacts};
use crate::core::ids::{EndpointsId, PodId, ServiceId, Uid};
use crate::core::namespace::WorkItem;
use crate::core::namespace::context::Context;
use crate::core::namespace::lifecycle::{
    BuiltRequest, Content, Gone, Lifecycle, ObjectMeta, Objects, Outcome, Published, Publishing, Trouble,
    Whole,
};
use crate::core::namespace::services::{ServiceEndpoints, address_of, by_uid};
use crate::core::object::{ObjectName, ObjectState, Phase, Remote, RequestKind};
use crate::core::ports::SlicePort;
use crate::core::priority::Priority;
use crate::core::subsets::{MAX_ADDRESSES, Published as Subsets, Subset};
use crate::core::time::Time;
use std::net::IpAddr;
use std::num::NonZeroU64;

impl Named for Endpoints {
    fn name(&self) -> &str {
        &self.name
    }
}

impl ObjectMeta for EndpointsMeta {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns false: no deletion of an Endpoints object is delayed, so it is gone with the next event.
    fn is_deleting(&self) -> bool {
        false
    }
}

impl AsRef<ObjectState> for Endpoints {
    fn as_ref(&self) -> &ObjectState {
        &self.object
    }
}

impl AsMut<ObjectState> for Endpoints {
    fn as_mut(&mut self) -> &mut ObjectState {
        &mut self.object
    }
}

impl Whole for EndpointsFacts {
    type Meta = EndpointsMeta;

    fn meta(&self) -> &EndpointsMeta {
        &self.meta
    }

    fn created(&self) -> Option<Time> {
        None
    }

    fn units(&self) -> u64 {
        EndpointsFacts::units(self)
    }

    fn from_content(content: Content) -> Option<Self> {
        match content {
            Content::Endpoints(facts) => Some(*facts),
            Content::Slice(_) => None,
        }
    }
}

impl Published for Endpoints {
    type Id = EndpointsId;
    type Facts = EndpointsFacts;

    fn work_item(&self) -> WorkItem {
        let object = ObjectName::endpoints(self.name.clone());
        let item = WorkItem::new(object, self.name.clone(), &self.object, self.stage());
        if self.object.phase != Phase::Unmanaged {
            return item;
        }
        // Read to be mirrored: it is not known yet what has changed, and slices wait for it.
        WorkItem {
            priority: Priority::Remove,
            reads: true,
            ..item
        }
    }

    fn accepted(&mut self) {
        self.published = self.object.take_sent();
        // A mark of others that forbids it may be gone with this write. The object is read before it is mirrored, and
        // shows then whether it may be.
        self.mirrorable = true;
    }
}

impl AsRef<Objects<Endpoints>> for EndpointsDesk<'_> {
    fn as_ref(&self) -> &Objects<Endpoints> {
        &self.endpoints.objects
    }
}

impl AsMut<Objects<Endpoints>> for EndpointsDesk<'_> {
    fn as_mut(&mut self) -> &mut Objects<Endpoints> {
        &mut self.endpoints.objects
    }
}

impl AsRef<Context> for EndpointsDesk<'_> {
    fn as_ref(&self) -> &Context {
        self.ctx
    }
}

impl AsMut<Context> for EndpointsDesk<'_> {
    fn as_mut(&mut self) -> &mut Context {
        self.ctx
    }
}

impl Publishing for EndpointsDesk<'_> {
    type Entry = Endpoints;

    fn differs(&self, entry: &Endpoints) -> bool {
        let on_server = entry.object.remote.is_some();
        let deferred = || {
            self.services
                .is_deferred_by_name(self.ctx, &entry.name, on_server)
        };
        (!on_server || entry.object.rewrite) && !entry.object.waits && !deferred()
    }

    fn waits_for_slices(&self, entry: &Endpoints) -> bool {
        let awaiting = |id| self.services[id].awaiting > 0;
        entry.object.phase == Phase::Managed && self.services.find(&entry.name).is_some_and(awaiting)
    }

    /// Builds nothing if all that changed has changed back, or is not shown.
    fn build<E: Encode>(&mut self, id: EndpointsId, encoder: &mut E) -> Option<E::Body> {
        let entry = &self.endpoints.objects[id];
        let service = self.services.find(&entry.name)?;
        let published = self.published(service);
        let body = self.endpoints_body(service, Some(&entry.object), &published);
        let (visited, read) = (body.addresses() as u64, self.listed_ports(service));
        let departing = body.fingerprint();
        let same = entry.published == Some(departing);
        let body = (!same).then(|| encoder.endpoints(body));
        self.ctx.work.addresses_visited += visited;
        self.ctx.work.ports_read += read;
        let object = &mut self.endpoints.objects[id].object;
        if same {
            object.rewrite = false;
            object.found_in_sync();
            object.priority = Priority::Rest;
        } else {
            object.note_sent(departing);
        }
        body
    }

    fn seen(&mut self, known: Option<EndpointsId>, meta: &EndpointsMeta, epoch: u8) {
        match known {
            Some(id) => self.changed_by_others(id, meta),
            None => self.appear(meta, epoch),
        }
    }

    fn read(&mut self, known: Option<EndpointsId>, facts: EndpointsFacts, epoch: u8) {
        match known {
            Some(id) => self.reconcile_observed(id, facts),
            None => self.arrive(facts, epoch),
        }
    }

    fn gone(&mut self, id: EndpointsId, gone: Gone) {
        match gone {
            Gone::Shown(version) => self.vanish(id, version),
            // One that was given away is created again too: the object with a Service's name is ours whatever it says.
            Gone::Missing => self.remake(id),
            Gone::Unneeded => drop(self.endpoints.objects.remove(id)),
        }
    }

    fn notice(&self, entry: &Endpoints, trouble: Trouble, message: String) -> Option<Notice> {
        let flight = match trouble {
            Trouble::Failed(flight) => flight,
            Trouble::Rival => {
                let service = self.services.find(&entry.name)?;
                return Some(self.services.rival_notice(&self.ctx.namespace, service, message));
            }
        };
        let remote = entry.object.remote.as_ref();
        Some(Notice {
            source: Source::Endpoints,
            involved: Involved {
                kind: InvolvedKind::Endpoints,
                namespace: self.ctx.namespace.clone(),
                name: entry.name.clone(),
                uid: remote.map_or_else(Uid::none, |remote| remote.uid.clone()),
                version: remote.map(|remote| remote.version),
            },
            warning: true,
            reason: match flight {
                RequestKind::Create => "FailedToCreateEndpoint",
                _ => "FailedToUpdateEndpoint",
            },
            message,
        })
    }
}

impl EndpointsDesk<'_> {
    /// Takes in an object that was not known, once its pods and Service are. Its owner is checked as on any change.
    fn arrive(&mut self, facts: EndpointsFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        let left =
            self.ctx.starting && self.ctx.settings.outputs.endpoints && self.services.find(&name).is_none();
        let phase = if left {
            Phase::Leftover { confirmed: false }
        } else {
            Phase::Unmanaged
        };
        let mut entry = Endpoints::new(name, phase);
        entry.object.epoch = epoch;
        let id = self.endpoints.objects.insert(entry);
        self.observed(id, facts);
    }

    /// Takes in an object that a watch shows and that was not known: written since it was listed, or it would have
    /// arrived then.
    fn appear(&mut self, meta: &EndpointsMeta, epoch: u8) {
        let managed = |id| self.services[id].endpoints.is_some();
        let phase = if self.services.find(&meta.name).is_some_and(managed) {
            Phase::Managed
        } else if self.ctx.starting
            && self.ctx.settings.outputs.endpoints
            && meta.ours
            && !meta.leader
            && self.services.find(&meta.name).is_none()
        {
            // It may still be a leftover.
            Phase::Leftover { confirmed: false }
        } else {
            // One that appears later is left alone, as upstream: a client may create it ahead of its Service.
            Phase::Unmanaged
        };
        let mut entry = Endpoints::new(meta.name.clone(), phase);
        (entry.object.epoch, entry.object.seen) = (epoch, meta.version);
        let id = self.endpoints.objects.insert(entry);
        self.changed_by_others(id, meta);
    }

    /// Handles a version of an object that is not known to be what it should be. A managed object is fetched.
    fn changed_by_others(&mut self, id: EndpointsId, meta: &EndpointsMeta) {
        let entry = &mut self.endpoints.objects[id];
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
            self.endpoints.objects.want(id);
        }
        self.endpoints
            .news
            .push(EndpointsNews::Changed(meta.name.clone()));
    }

    /// Applies the content of an object that was read while nothing of ours was in flight.
    fn reconcile_observed(&mut self, id: EndpointsId, mut facts: EndpointsFacts) {
        self.endpoints.objects[id].mirrorable = facts.meta.may_be_mirrored();
        self.tell_mirrors(&mut facts);
        let agreement = self.services.find(&facts.meta.name).map(|id| {
            let service = &mut self.services[id];
            if self.ctx.starting
                && facts.meta.ours
                && service.facts.is_managed()
                && !service.facts.custom
                && !std::mem::replace(&mut service.known, true)
            {
                // The object is older than this process, so the Service's creation is long past.
                service.trigger = None;
            }
            let agreement = self.compare_endpoints(id, &facts);
            self.ctx.work.ports_read += 4 * self.listed_ports(id);
            if let (Some(endpoints), Agreement::Same(_)) = (&mut self.services[id].endpoints, &agreement) {
                // It was compared with the current members.
                (endpoints.changes, endpoints.priority) = (0, Priority::Rest);
            }
            agreement
        });
        let entry = &mut self.endpoints.objects[id];
        let EndpointsFacts { meta, extras, .. } = facts;
        entry.look_again(&meta.uid, meta.ours && !meta.leader);
        let moved = entry.object.read(meta.remote());
        let empty = extras.is_empty();
        entry.object.set_extras((!empty).then_some(extras));
        entry.published = None;
        match (entry.object.phase, agreement) {
            (Phase::Managed, Some(Agreement::Same(fingerprint))) => {
                entry.published = fingerprint;
                entry.object.rewrite = false;
                entry.object.found_in_sync();
                // As with slices.
                if moved && !entry.object.needs_refetch {
                    entry.object.succeed();
                }
            }
            (Phase::Managed, Some(Agreement::Differs(priority))) => {
                entry.object.rewrite = true;
                entry.object.priority = entry.object.priority.min(priority);
            }
            // Read to be mirrored, and nothing more is to be read.
            (Phase::Unmanaged, _) if !entry.object.needs_refetch => entry.object.succeed(),
            _ => {}
        }
        self.endpoints.objects.want(id);
    }

    fn vanish(&mut self, id: EndpointsId, version: u64) {
        let entry = &self.endpoints.objects[id];
        // A request in flight is answered first: a later version has already replaced the one that is gone.
        if entry.object.flight.is_none() && entry.object.is_news(version) {
            self.lost(id);
            let remakes =
                |entry: &Endpoints| entry.object.phase == Phase::Managed && entry.object.remote.is_none();
            if self.endpoints.objects.get(id).is_some_and(remakes) && self.may_wait() {
                self.endpoints.wait(id, self.ctx.now + GONE_WITH_ITS_SERVICE);
            }
        }
    }

    /// Handles an object that is gone: a managed one is created again. So is one that was given away, since the object
    /// with a Service's name is ours whatever it says.
    fn remake(&mut self, id: EndpointsId) {
        let entry = &mut self.endpoints.objects[id];
        entry.published = None;
        // A watch may have shown another object of the name while a request for this one was out.
        let object = &entry.object;
        let again = object
            .remote
            .as_ref()
            .is_some_and(|old| object.is_shown_since(old.version));
        entry.object.forget_remote();
        let name = entry.name.clone();
        if entry.object.phase == Phase::Managed {
            entry.object.priority = entry.object.priority.min(Priority::Add);
            self.endpoints.objects.want(id);
        } else if again {
            entry.object.phase = Phase::Unmanaged;
            entry.object.mark_stale();
            self.endpoints.objects.want(id);
        } else {
            self.endpoints.objects.remove(id);
        }
        self.endpoints.news.push(EndpointsNews::Gone(name));
    }

    /// Tells mirrors of Endpoints that were read whole. If they are mirrored, the facts lose all but their metadata.
    fn tell_mirrors(&mut self, facts: &mut EndpointsFacts) {
        if !self.ctx.settings.outputs.mirrored {
            return;
        }
        let name = &facts.meta.name;
        let service = self.services.find(name).map(|id| &self.services[id].facts);
        let news = if facts.meta.may_be_mirrored() && service.is_some_and(|service| service.selectorless) {
            let meta = facts.meta.clone();
            let whole = std::mem::replace(facts, EndpointsFacts::only(meta));
            EndpointsNews::Read {
                facts: Box::new(whole),
                before_start: self.ctx.starting,
            }
        } else {
            EndpointsNews::Changed(name.clone())
        };
        self.endpoints.news.push(news);
    }

    /// Adopts what the API server has for a managed Service.
    pub(in crate::core::namespace) fn adopt_for_service(
        &mut self,
        name: &str,
        facts: Option<EndpointsFacts>,
    ) {
        let entry = self.endpoints.objects.find(name);
        let entry = entry.expect("a managed Service has an entry for its Endpoints");
        match facts {
            Some(facts) => self.observed(entry, facts),
            None => self.remake(entry),
        }
    }

    /// Builds the request of an object whose turn has come.
    pub(in crate::core::namespace) fn build_request<E: Encode>(
        &mut self,
        name: &str,
        encoder: &mut E,
    ) -> Option<BuiltRequest<E::Body>> {
        let pending = self.ctx.pending_lists.any();
        let id = self.endpoints.objects.find(name)?;
        let object = &mut self.endpoints.objects[id].object;
        if matches!(object.phase, Phase::Leftover { .. })
            && object.flight.is_none()
            && !object.needs_refetch
            && !pending
            && self.services.find(name).is_some()
        {
            // The Service has been created since.
            object.phase = Phase::Unmanaged;
            return None;
        }
        self.request(id, encoder)
    }

    /// Handles the answer to a request. Returns the object if it is due again.
    pub(in crate::core::namespace) fn apply_outcome(
        &mut self,
        name: &str,
        outcome: Outcome,
        why: Option<&str>,
    ) -> Option<WorkItem> {
        let Some(id) = self.endpoints.objects.in_flight(name) else {
            self.answered_late(name, &outcome);
            return None;
        };
        self.answered(id, name, outcome, why)
    }

    /// Handles the answer to a request that was forgotten when this process became a standby. The list since then may
    /// be from before the request was carried out, and the Service may be gone when the watch shows the object that it
    /// made, which then could not be told from what others make.
    fn answered_late(&mut self, name: &str, outcome: &Outcome) {
        match outcome {
            Outcome::Written(_) | Outcome::Unknown if self.ctx.settings.outputs.endpoints => {}
            _ => return,
        }
        let id = self.endpoints.objects.find(name).unwrap_or_else(|| {
            let left = Phase::Leftover { confirmed: false };
            self.endpoints.objects.insert(Endpoints::new(name.into(), left))
        });
        let entry = &mut self.endpoints.objects[id];
        let known = |remote: &Remote| !entry.object.is_news(remote.version);
        if entry.object.phase == Phase::Unmanaged
            || matches!(outcome, Outcome::Written(remote) if known(remote))
        {
            return;
        }
        // The API server may have gone back from the version in the answer since.
        entry.object.needs_refetch = true;
        self.endpoints.objects.want(id);
    }

    /// Returns what an address of a Service's object should be.
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
        let published = members.publish(MAX_ADDRESSES, by_uid(self.inputs));
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
        object: Option<&'a ObjectState>,
        published: &'a Subsets<SlicePort, AddressBody<'a>>,
    ) -> EndpointsBody<'a> {
        let service = &self.services[id].facts;
        EndpointsBody {
            metadata: Metadata {
                namespace: &self.ctx.namespace,
                name: &service.name,
                subject: Subject::EndpointsOf(service),
                remote: object.and_then(|object| object.remote.as_ref()),
                extras: object.and_then(ObjectState::extras),
                trigger: object.and_then(ObjectState::trigger),
                clear_managed_fields: self.ctx.settings.clear_managed_fields
                    && object.is_some_and(|object| !object.updated),
                truncated: published.truncated,
            },
            subsets: &published.subsets,
        }
    }

    /// Returns the fingerprint of what a managed Service's object should hold.
    pub(super) fn endpoints_fingerprint(&self, id: ServiceId) -> NonZeroU64 {
        let objects = &self.endpoints.objects;
        let object = objects.find(&self.services[id].facts.name);
        let object = object.map(|id| &objects[id].object);
        self.endpoints_body(id, object, &self.published(id)).fingerprint()
    }
}
