//! Slices as published objects: what they should hold, and what the lifecycle needs of them.

use crate::core::address::Family;
use crate::core::body::{Encode, EndpointBody, Metadata, PodReference, SliceBody, Subject};
use crate::core::compact::table::Named;
use crate::core::events::{Notice, Source};
use crate::core::facts::{EndpointFacts, SliceFacts, SliceMeta};
use crate::core::hints::HintMode;
use crate::core::ids::{PodId, SliceId, Uid};
use crate::core::inputs::Pod;
use crate::core::namespace::context::Context;
use crate::core::namespace::lifecycle::{
    BuiltRequest, Content, Gone, Lifecycle, ObjectMeta, Objects, Outcome, Published, Publishing, Trouble,
    Whole,
};
use crate::core::namespace::services::{Service, auto_hint, desired};
use crate::core::namespace::{Placement, WorkItem};
use crate::core::object::{ObjectName, ObjectState, Phase, RequestKind};
use crate::core::priority::{Priority, Stage};
use crate::core::slices::Slice;
use crate::core::time::Time;
use smallvec::SmallVec;

impl Named for Slice {
    fn name(&self) -> &str {
        &self.name
    }
}

impl ObjectMeta for SliceMeta {
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

impl AsRef<ObjectState> for Slice {
    fn as_ref(&self) -> &ObjectState {
        &self.object
    }
}

impl AsMut<ObjectState> for Slice {
    fn as_mut(&mut self) -> &mut ObjectState {
        &mut self.object
    }
}

impl Whole for SliceFacts {
    type Meta = SliceMeta;

    fn meta(&self) -> &SliceMeta {
        &self.meta
    }

    /// Returns the time of creation: the older of two slices that hold an endpoint keeps it, so that one is adopted
    /// first.
    fn created(&self) -> Option<Time> {
        self.created
    }

    fn units(&self) -> u64 {
        SliceFacts::units(self)
    }

    fn from_content(content: Content) -> Option<Self> {
        match content {
            Content::Slice(facts) => Some(*facts),
            Content::Endpoints(_) => None,
        }
    }
}

impl Published for Slice {
    type Id = SliceId;
    type Facts = SliceFacts;

    fn work_item(&self) -> WorkItem {
        let name = ObjectName::slice(self.name.clone());
        WorkItem::new(name, self.service_name.clone(), &self.object, self.stage())
    }

    fn stage(&self) -> Stage {
        Slice::stage(self)
    }

    fn accepted(&mut self) {
        self.acknowledge();
    }
}

impl AsRef<Objects<Slice>> for Placement<'_> {
    #[inline]
    fn as_ref(&self) -> &Objects<Slice> {
        &self.slices.objects
    }
}

impl AsMut<Objects<Slice>> for Placement<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut Objects<Slice> {
        &mut self.slices.objects
    }
}

impl AsRef<Context> for Placement<'_> {
    #[inline]
    fn as_ref(&self) -> &Context {
        self.ctx
    }
}

impl AsMut<Context> for Placement<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut Context {
        self.ctx
    }
}

impl Publishing for Placement<'_> {
    type Entry = Slice;

    /// Returns whether a managed slice must be written. No slice is created for a Service that is being deleted, and
    /// none is written while that has to wait.
    fn differs(&self, slice: &Slice) -> bool {
        let creates = slice.object.remote.is_none();
        let deleting = || self.services[slice.service].facts.deleting;
        let id = || self.slices.find(&slice.name);
        let differs = slice.differs()
            || (!slice.remainders().is_empty() && id().is_some_and(|id| self.remainders_differ(id)));
        let differs = differs && !(creates && deleting());
        differs && !self.services.is_deferred(self.ctx, slice.service, !creates)
    }

    /// Returns whether the Service still waits for slices that must be fetched first. A slice is not created before one
    /// that another client has made meanwhile was read, since that may hold the same endpoints.
    fn waits_for_slices(&self, slice: &Slice) -> bool {
        let service = self.services.get(slice.service);
        let creates = slice.object.phase == Phase::Managed && slice.object.remote.is_none();
        service.is_some_and(|service| service.awaiting > 0)
            || (creates && self.slices.reads_slices_of(slice.service))
    }

    fn build<E: Encode>(&mut self, id: SliceId, encoder: &mut E) -> Option<E::Body> {
        self.leave_out_unfit(id);
        let slice = &self.slices.objects[id];
        if slice.slots.is_empty() && slice.object.remote.is_none() && slice.touched {
            // The next evaluation decides what becomes of it.
            return None;
        }
        let body = self.body(id, encoder);
        let held: Vec<_> = self.held(id).map(|remainder| remainder.slot.pod).collect();
        let slice = &mut self.slices.objects[id];
        let service = &self.services[slice.service];
        slice.send(
            |pod| desired(self.inputs.pod(pod), service),
            |pod| held.contains(&pod),
        );
        Some(body)
    }

    fn seen(&mut self, known: Option<SliceId>, meta: &SliceMeta, epoch: u8) {
        match known {
            Some(id) => self.changed_by_others(id, meta),
            None => self.appear(meta, epoch),
        }
    }

    fn read(&mut self, known: Option<SliceId>, facts: SliceFacts, epoch: u8) {
        match known {
            Some(id) => {
                self.reconcile_observed(id, facts);
                self.decide(id);
            }
            None => self.arrive(facts, epoch),
        }
    }

    fn gone(&mut self, id: SliceId, gone: Gone) {
        self.decide(id);
        match gone {
            Gone::Shown(_) => self.vanish(id),
            Gone::Missing => self.remake(id),
            Gone::Unneeded => self.drop_slice(id),
        }
    }

    fn notice(&self, slice: &Slice, trouble: Trouble, message: String) -> Option<Notice> {
        if trouble == Trouble::Rival {
            let service = self.services.find(&slice.service_name)?;
            return Some(self.services.rival_notice(&self.ctx.namespace, service, message));
        }
        (!slice.service.is_none()).then(|| Notice {
            source: Source::Slices,
            involved: self.services.involved(&self.ctx.namespace, slice.service),
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message: format!("EndpointSlice {}: {message}", slice.name),
        })
    }
}

impl Placement<'_> {
    /// Builds the request of a slice whose turn has come.
    pub(in crate::core::namespace) fn build_request<E: Encode>(
        &mut self,
        name: &str,
        encoder: &mut E,
    ) -> Option<BuiltRequest<E::Body>> {
        Lifecycle::build_request(self, name, encoder)
    }

    /// Handles the answer to a slice's request. Returns the slice if it is due again.
    pub(in crate::core::namespace) fn apply_outcome(
        &mut self,
        name: &str,
        outcome: Outcome,
        why: Option<&str>,
    ) -> Option<WorkItem> {
        let id = self.slices.objects.find(name)?;
        let is_written = matches!(outcome, Outcome::Written(_)) && self.slices[id].object.flight.is_some();
        let due = self.answered(id, name, outcome, why);
        if is_written {
            self.acknowledged(id);
        }
        self.slices.recount(id);
        self.decide(id);
        due
    }

    /// Takes in a slice that was not known.
    fn arrive(&mut self, facts: SliceFacts, epoch: u8) {
        let id = self.keep(&facts.meta, epoch);
        self.slices.objects[id].created = facts.created;
        self.attribute(id, false);
        if matches!(self.slices.objects[id].object.phase, Phase::Adopting { .. }) {
            // No fetch is needed, since its content is here.
            self.reconcile_observed(id, facts);
        }
    }

    fn appear(&mut self, meta: &SliceMeta, epoch: u8) {
        let id = self.keep(meta, epoch);
        // Before the first plan, planning must wait for a slice whose content is not known.
        self.attribute(id, self.ctx.pending_lists.any());
    }

    /// Handles a newer version of a known slice that we did not write.
    fn changed_by_others(&mut self, id: SliceId, meta: &SliceMeta) {
        let slice = &mut self.slices.objects[id];
        let service = self.services.get(slice.service);
        let owned = || service.is_some_and(|service| meta.owner.includes(&service.facts.uid));
        let moved = slice.service_name != meta.service || slice.manager != meta.manager;
        if moved || (slice.object.phase == Phase::Managed && !owned()) {
            self.disown(id, meta);
        } else if slice.object.phase == Phase::Managed {
            slice.object.mark_stale();
            self.slices.objects.want(id);
        } else {
            slice.object.remote = Some(meta.remote());
            slice.set_owner(Some(meta.owner.clone()));
            self.slices.recount(id);
            self.read_other(id);
        }
    }

    /// Applies the content of a slice that was read while nothing of ours was in flight.
    fn reconcile_observed(&mut self, id: SliceId, facts: SliceFacts) {
        let slice = &mut self.slices.objects[id];
        slice.object.needs_refetch = false;
        let unwatched = slice.manager != facts.meta.manager && !self.ctx.settings.outputs.custom;
        // A watch has shown the name since: what was read may have been taken back, or be another object by now.
        let there_again = slice.object.is_shown_since(facts.meta.version);
        if there_again && (facts.meta.deleting || unwatched) {
            let meta = SliceMeta {
                deleting: false,
                ..facts.meta
            };
            self.disown(id, &meta);
        } else if facts.meta.deleting {
            self.lost(id);
        } else if unwatched {
            // The watch does not select slices of the other manager, so later changes of this one would be missed.
            self.lost(id);
        } else if slice.service_name != facts.meta.service
            || slice.manager != facts.meta.manager
            || slice.is_another(&facts.meta.uid)
        {
            self.disown(id, &facts.meta);
        } else if matches!(slice.object.phase, Phase::Deleting | Phase::Unmanaged) {
            self.changed_by_others(id, &facts.meta);
            self.read_unmanaged(id, &facts);
        } else {
            let service = &mut self.services[slice.service];
            let family = facts
                .family
                .filter(|&family| facts.meta.owner.includes(&service.facts.uid) && service.facts.has(family));
            match (slice.object.phase, family) {
                (Phase::Managed, Some(family)) if family == slice.family => {
                    self.reconcile_slice(id, facts, self.ctx.settings.max_endpoints);
                }
                (Phase::Managed, _) => self.disown(id, &facts.meta),
                (_, Some(family)) => {
                    // The slice is older than this process, so the Service's creation is long past.
                    if !std::mem::replace(&mut service.known, true) {
                        service.trigger = None;
                    }
                    self.adopt(id, family, facts);
                }
                (_, None) => {
                    self.end_awaiting(id);
                    let slice = &mut self.slices.objects[id];
                    slice.object.remote = Some(facts.meta.remote());
                    slice.set_owner(Some(facts.meta.owner));
                    slice.object.phase = Phase::Deleting;
                    self.slices.objects.want(id);
                }
            }
        }
    }

    /// Fetches a managed slice before another takes its place: it may be gone, or another manager's.
    fn vanish(&mut self, id: SliceId) {
        let slice = &mut self.slices.objects[id];
        if slice.object.phase == Phase::Managed {
            // A request in flight is answered first: a create may have made what is gone already.
            if slice.object.flight.is_none() && slice.object.remote.is_some() {
                slice.object.mark_stale();
                self.slices.objects.want(id);
            }
        } else if slice.object.flight != Some(RequestKind::Create) {
            self.drop_slice(id);
        }
    }

    /// Creates a managed slice anew, under another name. A request in flight to the old name no longer matters.
    fn remake(&mut self, id: SliceId) {
        if self.slices.objects[id].object.phase == Phase::Managed {
            self.forget_remainders(id);
            let service = self.slices.objects[id].service_name.clone();
            let name = self.fresh_name(&service);
            self.slices.objects.rename(id, |slice| slice.forget_remote(name));
            self.leave_out_unfit(id);
            self.revise(id, Priority::Add);
        } else {
            self.drop_slice(id);
        }
    }

    /// Takes endpoints out of a slice that it was never known to show, and whose node has gone since they were placed.
    fn leave_out_unfit(&mut self, id: SliceId) {
        let slice = &self.slices.objects[id];
        let (service, family) = (slice.service, slice.family);
        let new = slice.slots.iter().filter(|slot| !slot.acknowledged);
        let unfit = new.filter(|slot| !self.is_fit(slot.pod, service, family));
        let unfit: SmallVec<[PodId; 4]> = unfit.map(|slot| slot.pod).collect();
        for pod in unfit {
            if let Some(at) = self.services.memberships()[pod].find(service, family) {
                self.unplace(pod, at, Priority::Remove);
            }
        }
    }

    fn body<E: Encode>(&self, id: SliceId, encoder: &mut E) -> E::Body {
        let slice = &self.slices.objects[id];
        let service = &self.services[slice.service];
        let state = service.families[slice.family.index()].as_ref();
        let state = state.expect("a managed slice's Service has the slice's family");
        let placed = (0..slice.slots.len()).map(|at| (slice, at));
        // As they will be where they are placed.
        let held = slice.remainders().iter().filter_map(|remainder| {
            let (other, at) = self.place_of_held(id, remainder.slot.pod)?;
            Some((&self.slices.objects[other], at))
        });
        let endpoints = placed.chain(held).map(|(slice, at)| {
            let pod = self.inputs.pod(slice.slots[at].pod);
            let endpoint = self.endpoint(pod, service, slice.family);
            let mut endpoint = endpoint.expect("a placed pod has an address of the slice's family");
            if service.facts.hints == HintMode::Auto {
                endpoint.hints = auto_hint(slice, at);
            }
            endpoint
        });
        encoder.slice(SliceBody {
            metadata: Metadata {
                namespace: &self.ctx.namespace,
                name: &slice.name,
                subject: Subject::SliceOf(&service.facts),
                remote: slice.object.remote.as_ref(),
                extras: slice.object.extras(),
                trigger: slice.object.trigger(),
                clear_managed_fields: self.ctx.settings.clear_managed_fields && !slice.object.updated,
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
    pub(in crate::core::namespace) fn same_content(
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
        // Where a node or its label is missing, the zone is unknown: one that is not shown is no difference.
        let zoned = self.inputs.knows_zone(pod);
        let same_hints = service.facts.hints == HintMode::Auto
            || (((!zoned && endpoint.zone_hints.is_empty())
                || only(&endpoint.zone_hints, wanted.hints.zone))
                && only(&endpoint.node_hints, wanted.hints.node));
        let same_zone = (!zoned && endpoint.zone.is_none()) || endpoint.zone.as_deref() == wanted.zone;
        !endpoint.has_foreign_fields
            && same_hints
            && endpoint.ready.is_some()
            && endpoint.serving.is_some()
            && endpoint.terminating.is_some()
            && endpoint.pod_uid.as_ref() == Some(wanted.target.uid)
            && endpoint.addresses.len() == 1
            && *endpoint.addresses[0] == *wanted.ip.to_string()
            && endpoint.node.as_deref() == wanted.node
            && same_zone
            && endpoint.hostname.as_deref() == wanted.hostname
    }
}
