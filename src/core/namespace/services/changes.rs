//! Changes of a Service, as far as they concern the placement of its pods. They take passes over its pods; a change of
//! a pod does not.

use super::addresses::ServiceEndpoints;
use super::passes::{Edit, Pass};
use super::{ReadyTimes, Service, Services};
use crate::core::address::Family;
use crate::core::facts::{ServiceFacts, is_reserved_label};
use crate::core::ids::{GroupId, PodId, ServiceId, SliceId};
use crate::core::inputs::Matching;
use crate::core::namespace::Placement;
use crate::core::namespace::rounds::STRIDE;
use crate::core::object::{Phase, Remote, RequestKind};
use crate::core::priority::Priority;
use smallvec::SmallVec;
use std::sync::Arc;

/// How a Service that was listed or watched compares with what is known.
#[derive(Debug)]
pub(in crate::core::namespace) enum Compared {
    /// It is the same.
    Same,
    /// It has changed. The flag says that annotations or what decides on them have.
    Changed(ServiceId, ServiceFacts, bool),
    /// It was not known, or is another one of the name.
    Other(ServiceFacts),
}

impl Services {
    /// Adds a Service that was not known.
    pub(in crate::core::namespace) fn enter(&mut self, facts: ServiceFacts, epoch: u8) -> ServiceId {
        self.last_ports += 1;
        self.table.insert(Service::new(facts, self.last_ports, epoch))
    }

    /// Drops a Service of which nothing is left but its name. Returns its name.
    pub(in crate::core::namespace) fn drop_service(&mut self, id: ServiceId) -> Arc<str> {
        self.not_before.remove(&id);
        self.handovers.remove(&id);
        let service = self.table.remove(id);
        self.resolved
            .forget_service((service.ports, &service.facts.ports));
        service.facts.name
    }

    /// Gives the ports of a Service another number, if they change.
    pub(in crate::core::namespace) fn renumber_ports(&mut self, id: ServiceId, facts: &ServiceFacts) {
        if self.table[id].facts.ports != facts.ports {
            self.last_ports += 1;
            self.table[id].ports = self.last_ports;
        }
    }
}

impl Placement<'_> {
    /// Compares a Service from a list (of the given epoch) or a watch with what is known. One that is the same is evaluated,
    /// as upstream does at any event.
    pub(in crate::core::namespace) fn compare_service(
        &mut self,
        mut facts: ServiceFacts,
        epoch: u8,
    ) -> Compared {
        if let Some(id) = self.services.table.find(&facts.name)
            && let known = self.services.table[id].facts_on_server()
            && known.uid == facts.uid
        {
            facts.keep_families(known);
        }
        let mut facts = facts.resolve(&self.ctx.namespace, self.ctx.settings.outputs);
        facts.ports = self.services.resolved.share(facts.ports);
        if let Some(id) = self.services.table.find(&facts.name) {
            let known = self.services.table[id].facts_on_server();
            if known.uid == facts.uid {
                if *known == facts {
                    self.services.table[id].epoch = epoch;
                    if facts.is_managed() {
                        self.services.mark(id);
                    }
                    return Compared::Same;
                }
                let reannotated = known.tolerate_unready != facts.tolerate_unready
                    || known.annotated != facts.annotated
                    || known.unknown_annotations != facts.unknown_annotations
                    || known.external != facts.external
                    || known.selectorless != facts.selectorless;
                self.services.table[id].epoch = epoch;
                return Compared::Changed(id, facts, reannotated);
            }
        }
        Compared::Other(facts)
    }

    /// Has the Ready times of the pods of a Service that is about to stop kept for when it is managed again.
    pub(in crate::core::namespace) fn keep_ready_times(&mut self, id: ServiceId) {
        self.services.table[id].paused_times = Some(Box::default());
    }

    /// Keeps the Ready time of a pod of a Service that stops, if it may be managed again.
    pub(super) fn keep_ready_time(&mut self, id: ServiceId, pod: PodId) {
        if let Some(times) = &mut self.services.table[id].paused_times
            && let Some(pod) = self.inputs.get(pod)
            && let Some(time) = pod.ready_time()
        {
            times.insert(pod.name().into(), time);
        }
    }

    /// Applies a change of a managed Service that stays managed.
    pub(in crate::core::namespace) fn reconfigure(&mut self, id: ServiceId, facts: ServiceFacts) {
        let members = self.pods_of(id);
        let old = std::mem::replace(&mut self.services.table[id].facts, facts);
        self.follow_members(id, &members);
        let new = &self.services.table[id].facts;
        let reselected = old.selector != new.selector;
        // Endpoints are compared with what was last written before they are written again, so a change that does not
        // concern them costs no write. Their members are collected anew in the end, and not maintained until then.
        let endpoints = self.services.table[id].endpoints.take();
        let mut matching = None;
        if reselected {
            self.remove_selector(id);
            if let Some(selector) = &self.services.table[id].facts.selector {
                matching = self.inputs.begin_selector(id, selector, &mut self.ctx.work);
            }
        }
        self.pass_after(
            matching,
            Pass::Edit(Box::new(Edit::new(id, old, members, endpoints))),
        );
    }

    /// Switches the hints of a Service, if they have changed, before its slices are visited. Returns whether they get other
    /// labels.
    pub(super) fn begin_relabelling(&mut self, id: ServiceId, old: &ServiceFacts) -> bool {
        let new = &self.services.table[id].facts;
        let relabelled = !same_slice_labels(old, new);
        if old.hints != new.hints {
            self.switch_hints(id, old.hints);
        }
        relabelled
    }

    /// Gives a slice of a Service its other labels.
    pub(super) fn relabel(&mut self, id: SliceId) {
        if self.slices[id].object.phase == Phase::Managed {
            self.slices[id].object.rewrite = true;
            self.touch(id, Priority::Rest);
        }
    }

    /// Finishes a change of a Service, once all its pods and slices have been visited.
    pub(in crate::core::namespace) fn finish_edit(
        &mut self,
        id: ServiceId,
        old: &ServiceFacts,
        endpoints: Option<Box<ServiceEndpoints>>,
    ) {
        if self.services.table[id].facts.deleting != old.deleting {
            // Slices keep no endpoints that move any more.
            self.slices
                .want_all(&self.services.table[id].slices, &mut self.ctx.work);
        }
        let new = &self.services.table[id].facts;
        let same_members = old.selector == new.selector
            && old.ports == new.ports
            && old.no_cluster_ip == new.no_cluster_ip
            && old.endpoints_family == new.endpoints_family
            && old.publish_not_ready == new.publish_not_ready
            && old.tolerate_unready == new.tolerate_unready;
        match endpoints {
            Some(mut endpoints) if same_members => {
                endpoints.touch(Priority::Rest);
                self.services.table[id].endpoints = Some(endpoints);
            }
            endpoints => self.collect_endpoints(id, endpoints),
        }
        // Not every one of these changes has touched a slice or a pod: a family may be new and empty.
        self.services.mark(id);
    }

    /// Starts to manage a Service.
    pub(in crate::core::namespace) fn start_service(&mut self, id: ServiceId) {
        let service = &mut self.services.table[id];
        for family in Family::ALL {
            let writes = service.facts.custom || self.ctx.settings.outputs.slices;
            let has = writes && service.facts.has(family);
            service.families[family.index()] = has.then(Box::default);
        }
        let times = service.paused_times.take();
        self.note_hint_mode(id);
        let service = &mut self.services.table[id];
        service.following = service.facts.is_frozen().then(Box::default);
        let selector = self.services.table[id].facts.selector.as_ref();
        let matching =
            selector.and_then(|selector| self.inputs.begin_selector(id, selector, &mut self.ctx.work));
        self.pass_after(matching, Pass::Begin(id, times));
    }

    /// Queues a pass, after the comparison of a selector with labels if there is one.
    fn pass_after(&mut self, matching: Option<Matching>, pass: Pass) {
        self.services.queue(match matching {
            Some(matching) => Pass::Match(Box::new(matching), Box::new(pass)),
            None => pass,
        });
    }

    /// Adds a pod to a Service. `times` has the Ready times of pods from when the Service was last managed.
    pub(in crate::core::namespace) fn take_in(
        &mut self,
        id: ServiceId,
        pod: PodId,
        times: Option<&mut ReadyTimes>,
    ) {
        let Some(state) = self.inputs.get(pod) else {
            return;
        };
        let before = times.and_then(|times| times.remove(state.name()));
        let time = state.ready_time().filter(|&time| Some(time) > before);
        self.services.table[id].note(time);
        self.join(pod, id);
        self.foresee_ports(pod, id);
    }

    /// Gives a Service the slices that name it, before anything else is done.
    pub(in crate::core::namespace) fn attribute_all(&mut self, id: ServiceId) {
        let facts = &self.services.table[id].facts;
        let counts = self.ctx.settings.outputs.custom || self.ctx.writes_slices(facts);
        if counts && self.slices.unmanaged_set(&facts.name).is_some() {
            self.services.queue_first(Pass::Attribute(id, None));
        }
    }

    /// Continues to give a Service the slices that name it, those after this one. Returns the last one that was visited, if
    /// there may be more, and the number of those visited.
    pub(super) fn attribute_more(
        &mut self,
        id: ServiceId,
        after: Option<SliceId>,
    ) -> (Option<SliceId>, usize) {
        let name = &self.services.table[id].facts.name;
        let named = self.slices.unmanaged_set(name).into_iter();
        let some: Vec<_> = named.flat_map(|set| set.after(after)).take(STRIDE).collect();
        for slice in &some {
            self.ctx.work.slices_touched += 1;
            self.slices.take_from_unmanaged(*slice);
            self.attribute(*slice, true);
        }
        (some.get(STRIDE - 1).copied(), some.len())
    }

    /// Stops managing a Service: its slices stay as they are, and what they hold is forgotten.
    pub(in crate::core::namespace) fn stop_service(&mut self, id: ServiceId) {
        self.services.auto_hints.note(id, false);
        self.services.reset_sync_stats(id);
        let pods = self.pods_of(id).into();
        self.services.queue(Pass::Stop(id, pods));
    }

    fn remove_selector(&mut self, id: ServiceId) {
        self.inputs.remove_selector(id, &mut self.ctx.work);
    }

    /// Continues the stop of a Service, once its pods have forgotten it: its slices are left alone before anything else is
    /// done.
    pub(in crate::core::namespace) fn stop_pods(&mut self, id: ServiceId) {
        self.remove_selector(id);
        self.services.table[id].following = None;
        self.services.queue_first(Pass::Unmanage(id));
    }

    /// Leaves some more slices of a Service alone. Returns whether there may be more, and the number of those visited.
    pub(super) fn unmanage_more(&mut self, id: ServiceId) -> (bool, usize) {
        let some: Vec<_> = self.services.table[id].slices.iter().take(STRIDE).collect();
        for slice in &some {
            self.ctx.work.slices_touched += 1;
            self.services.table[id].slices.remove(slice);
            self.unmanage(*slice);
        }
        (some.len() == STRIDE, some.len())
    }

    /// Finishes the stop of a Service, once its slices are left alone.
    pub(in crate::core::namespace) fn finish_stop(&mut self, id: ServiceId) {
        let service = &mut self.services.table[id];
        service.families = [None, None];
        service.awaiting = 0;
        service.dirty = false;
    }

    /// Leaves a slice alone from now on. One that the API server does not have, and will not, is dropped.
    pub(in crate::core::namespace) fn unmanage(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        slice.object.phase = Phase::Unmanaged;
        let service = std::mem::replace(&mut slice.service, ServiceId::NONE);
        if slice.owner().is_none() {
            let uid = self.services.table[service].facts.uid.clone();
            slice.set_owner(Some(uid.into()));
        }
        slice.group = GroupId::NONE;
        slice.slots = SmallVec::new();
        slice.set_hints(Vec::new());
        slice.take_remainders();
        (slice.dirty, slice.removed, slice.object.rewrite, slice.touched) = (0, 0, false, false);
        // A create whose answer was lost may have been carried out; and a slice that was shown to be gone before its
        // Service was would be kept forever without a refetch.
        let outdated = |remote: &Remote| remote.version < slice.object.seen;
        slice.object.needs_refetch &= slice.object.remote.as_ref().is_none_or(outdated);
        slice.object.forget_triggers();
        slice.object.set_extras(None);
        self.slices.forget_unread(service, id);
        let slice = &self.slices[id];
        if slice.object.remote.is_none()
            && !slice.object.needs_refetch
            && slice.object.flight != Some(RequestKind::Create)
        {
            self.drop_slice(id);
        } else {
            let name = self.slices[id].service_name.clone();
            self.slices.enter_unmanaged(name, id);
            self.slices.want(id);
        }
    }

    /// Deletes a slice of a Service, if it is of this family, which the Service has lost.
    pub(super) fn delete_if_of_family(&mut self, id: SliceId, family: Family) {
        let slice = &self.slices[id];
        if slice.object.phase == Phase::Managed && slice.family == family {
            self.mark_deleting(id);
            self.slices.want(id);
        }
    }
}

/// Returns whether two states of a Service give its slices the same labels. A change to or from headless is no reason
/// to write, as upstream.
fn same_slice_labels(a: &ServiceFacts, b: &ServiceFacts) -> bool {
    let own = |facts: &ServiceFacts| facts.labels.project(|key| !is_reserved_label(key));
    own(a) == own(b)
}
