//! Service events. A change of a Service takes a pass over its pods; a change of a pod does not.

use super::addresses::ServiceEndpoints;
use super::deferral::Reason;
use super::passes::{Edit, Pass};
use super::{NamespaceState, Service};
use crate::core::address::Family;
use crate::core::compact::small::SmallSet;
use crate::core::facts::{ServiceFacts, is_reserved_label};
use crate::core::hash::KeyedMap;
use crate::core::ids::{GroupId, PodId, ServiceId, SliceId};
use crate::core::inputs::Matching;
use crate::core::object::{Flight, Phase, Remote};
use crate::core::queue::Priority;
use crate::core::slices::Slice;
use crate::core::time::Time;

impl NamespaceState {
    /// Applies a Service from a list (of the given epoch) or a watch. One with another UID than the known one is a new
    /// Service.
    pub fn apply_service(&mut self, facts: ServiceFacts, epoch: u8) {
        self.begin_service(facts, epoch);
        self.finish_passes();
    }

    /// Removes a Service. Its slices stay: the garbage collector deletes them.
    pub fn remove_service(&mut self, name: &str) {
        self.begin_removal(name);
        self.finish_passes();
    }

    /// Does what [`Self::apply_service`] does, but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_service(&mut self, mut facts: ServiceFacts, epoch: u8) {
        if let Some(id) = self.services.find(&facts.name)
            && let known = &self.services[id].facts
            && known.uid == facts.uid
        {
            facts.keep_families(known);
        }
        let facts = facts.resolve(&self.namespace, self.settings.outputs);
        if let Some(id) = self.services.find(&facts.name) {
            let service = &mut self.services[id];
            if service.facts.uid == facts.uid {
                service.epoch = epoch;
                if service.facts == facts {
                    // Any event of a Service evaluates it, as upstream does.
                    if facts.is_managed() {
                        self.mark(id);
                    }
                } else {
                    let reannotated = service.facts.tolerate_unready != facts.tolerate_unready
                        || service.facts.annotated != facts.annotated
                        || service.facts.leader != facts.leader
                        || service.facts.external != facts.external
                        || service.facts.selectorless != facts.selectorless;
                    self.update_service(id, facts);
                    if reannotated {
                        self.passes.push_back(Pass::Notification(id));
                    }
                }
                return;
            }
            self.begin_removal(&facts.name);
        }
        self.passes.push_back(Pass::Insert(Box::new(facts), epoch));
    }

    /// Does what [`Self::remove_service`] does, but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_removal(&mut self, name: &str) {
        if let Some(id) = self.services.find(name) {
            // Nothing that comes from now on belongs to it.
            self.services.hide(id);
            if self.services[id].facts.is_managed() {
                self.stop_service(id);
            }
            self.passes.push_back(Pass::Remove(id));
        }
    }

    /// Adds a Service that was not known.
    pub(super) fn insert_service(&mut self, facts: ServiceFacts, epoch: u8) {
        let name = facts.name.clone();
        let (managed, custom) = (facts.is_managed(), facts.custom);
        self.service_ports += 1;
        let id = self.services.insert(Service {
            facts,
            ports: self.service_ports,
            families: [None, None],
            known: false,
            trigger: None,
            paused_times: None,
            awaiting: 0,
            slices: SmallSet::default(),
            following: None,
            told_of_others: false,
            endpoints: None,
            dirty: false,
            sync_stats: super::sync_stats::SyncStats::default(),
            moves: super::sync_stats::Moves::default(),
            epoch,
        });
        self.notify_annotations(id);
        if managed {
            self.defer(id, Reason::New);
            self.start_service(id);
        }
        if !managed || custom {
            self.spare_endpoints(&name);
        }
        self.withdraw_abandoned(id);
        self.touch_mirror(&name);
    }

    /// Drops a Service of which nothing is left but its name.
    pub(super) fn drop_service(&mut self, id: ServiceId) {
        self.forget_deferral(id);
        let service = self.services.remove(id);
        self.resolved
            .forget_service((service.ports, &service.facts.ports));
        self.delete_endpoints(&service.facts.name);
        self.touch_mirror(&service.facts.name);
        self.check_replacement(&service.facts.name);
    }

    fn update_service(&mut self, id: ServiceId, facts: ServiceFacts) {
        if self.services[id].facts.ports != facts.ports {
            self.service_ports += 1;
            self.services[id].ports = self.service_ports;
        }
        let old = &self.services[id].facts;
        if facts.foreground && !old.foreground {
            self.defer(id, Reason::Going);
        }
        let old = &self.services[id].facts;
        match (old.is_managed(), facts.is_managed()) {
            (false, false) => self.replace_unmanaged(id, facts),
            (false, true) => {
                self.replace_unmanaged(id, facts);
                self.start_service(id);
            }
            // Another controller's slices, and its alone; or another way to choose the pods.
            (true, true) if old.custom != facts.custom || old.followed_lease() != facts.followed_lease() => {
                self.stop_service(id);
                self.passes.push_back(Pass::Replace(id, Box::new(facts)));
            }
            (true, false) => {
                let times = self.pods_of(id).into_iter().filter_map(|pod| {
                    let pod = self.inputs.pod(pod);
                    Some((pod.name().into(), pod.ready_time()?))
                });
                self.services[id].paused_times = Some(Box::new(times.collect()));
                self.stop_service(id);
                self.passes.push_back(Pass::Replace(id, Box::new(facts)));
            }
            (true, true) => self.reconfigure(id, facts),
        }
    }

    /// Applies a change of a Service that was not managed, or no longer is.
    pub(super) fn replace_unmanaged(&mut self, id: ServiceId, facts: ServiceFacts) {
        let name = facts.name.clone();
        self.services[id].facts = facts;
        self.withdraw_abandoned(id);
        self.touch_mirror(&name);
    }

    /// Applies a change of a Service that is managed no longer, or in another way.
    pub(super) fn replace_stopped(&mut self, id: ServiceId, facts: ServiceFacts) {
        let managed = facts.is_managed();
        self.replace_unmanaged(id, facts);
        if managed {
            self.start_service(id);
        }
    }

    /// Applies a change of a managed Service that stays managed.
    fn reconfigure(&mut self, id: ServiceId, facts: ServiceFacts) {
        let members = self.pods_of(id);
        let old = std::mem::replace(&mut self.services[id].facts, facts);
        self.follow_members(id, &members);
        let new = &self.services[id].facts;
        let reselected = old.selector != new.selector;
        // Endpoints are compared with what was last written before they are written again, so a change that does not
        // concern them costs no write. Their members are collected anew in the end, and not maintained until then.
        let endpoints = self.services[id].endpoints.take();
        let mut matching = None;
        if reselected {
            self.remove_selector(id);
            if let Some(selector) = &self.services[id].facts.selector {
                matching = self.inputs.begin_selector(id, selector, &mut self.work);
            }
        }
        self.pass_after(
            matching,
            Pass::Edit(Box::new(Edit::new(id, old, members, endpoints))),
        );
    }

    /// Finishes a change of a Service, once all its pods have been visited.
    pub(super) fn finish_edit(
        &mut self,
        id: ServiceId,
        old: &ServiceFacts,
        endpoints: Option<Box<ServiceEndpoints>>,
    ) {
        let new = &self.services[id].facts;
        let relabelled = !same_slice_labels(old, new);
        if old.hints != new.hints {
            self.switch_hints(id, old.hints);
        }
        if relabelled {
            for slice in self.slices_of(id, |slice| slice.object.phase == Phase::Managed) {
                self.slices[slice].object.rewrite = true;
                self.touch(slice, Priority::Rest);
            }
        }
        let new = &self.services[id].facts;
        let same_members = old.selector == new.selector
            && old.ports == new.ports
            && old.no_cluster_ip == new.no_cluster_ip
            && old.endpoints_family == new.endpoints_family
            && old.publish_not_ready == new.publish_not_ready
            && old.tolerate_unready == new.tolerate_unready;
        match endpoints {
            Some(mut endpoints) if same_members => {
                endpoints.touch(Priority::Rest);
                self.services[id].endpoints = Some(endpoints);
            }
            endpoints => self.collect_endpoints(id, endpoints),
        }
        // Not every one of these changes has touched a slice or a pod: a family may be new and empty.
        self.mark(id);
    }

    /// Starts to manage a Service.
    fn start_service(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        for family in Family::ALL {
            let writes = service.facts.custom || self.settings.outputs.slices;
            let has = writes && service.facts.has(family);
            service.families[family.index()] = has.then(Box::default);
        }
        let times = service.paused_times.take();
        self.note_hint_mode(id);
        let service = &mut self.services[id];
        service.following = service.facts.follows().then(Box::default);
        self.follow_lease(id);
        let selector = self.services[id].facts.selector.as_ref();
        let matching = selector.and_then(|selector| self.inputs.begin_selector(id, selector, &mut self.work));
        self.pass_after(matching, Pass::Begin(id, times));
    }

    /// Queues a pass, after the comparison of a selector with labels if there is one.
    fn pass_after(&mut self, matching: Option<Matching>, pass: Pass) {
        self.passes.push_back(match matching {
            Some(matching) => Pass::Match(Box::new(matching), Box::new(pass)),
            None => pass,
        });
    }

    /// Adds a pod to a Service. `times` has the Ready times of pods from when the Service was last managed.
    pub(super) fn take_in(&mut self, id: ServiceId, pod: PodId, times: Option<&KeyedMap<Box<str>, Time>>) {
        let Some(state) = self.inputs.get(pod) else {
            return;
        };
        let before = times.and_then(|times| times.get(state.name()).copied());
        let time = state.ready_time().filter(|&time| Some(time) > before);
        self.services[id].note(time);
        self.join(pod, id);
        self.foresee_ports(pod, id);
    }

    /// Finishes the start of a Service, once it has taken in its pods.
    pub(super) fn finish_start(&mut self, id: ServiceId) {
        if !self.services[id].facts.custom {
            self.manage_endpoints(id);
        }
        if self.writes_slices(&self.services[id].facts) {
            let name = self.services[id].facts.name.clone();
            for slice_id in self.unmanaged.remove(&name).unwrap_or_default().iter() {
                self.attribute(slice_id, true);
            }
        }
        self.mark(id);
    }

    /// Stops managing a Service: its slices stay as they are, and what they hold is forgotten.
    fn stop_service(&mut self, id: ServiceId) {
        self.auto_hinted.remove(&id);
        self.reset_sync_stats(id);
        if !self.services[id].facts.custom {
            self.unmanage_endpoints(id);
        }
        let pods = self.pods_of(id).into();
        self.passes.push_back(Pass::Stop(id, pods));
    }

    fn remove_selector(&mut self, id: ServiceId) {
        if self.inputs.remove_selector(id, &mut self.work) {
            self.passes.push_back(Pass::GiveUpPairs);
        }
    }

    /// Finishes the stop of a Service, once its pods have forgotten it.
    pub(super) fn finish_stop(&mut self, id: ServiceId) {
        self.remove_selector(id);
        self.unfollow_lease(id);
        self.services[id].following = None;
        for slice in std::mem::take(&mut self.services[id].slices).iter() {
            self.unmanage(slice);
        }
        let service = &mut self.services[id];
        service.families = [None, None];
        service.awaiting = 0;
        service.dirty = false;
    }

    /// Leaves a slice alone from now on. One that the API server does not have, and will not, is dropped.
    pub(super) fn unmanage(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        slice.object.phase = Phase::Unmanaged;
        slice.service = ServiceId::NONE;
        slice.group = GroupId::NONE;
        slice.slots = Vec::new();
        slice.hints = Vec::new();
        (slice.dirty, slice.removed, slice.object.rewrite, slice.touched) = (0, 0, false, false);
        // A create whose answer was lost may have been carried out; and a slice that was shown to be gone before its
        // Service was would be kept forever without a refetch.
        let outdated = |remote: &Remote| remote.version < slice.object.seen;
        slice.object.needs_refetch &= slice.object.remote.as_ref().is_none_or(outdated);
        (slice.object.trigger, slice.object.flight_trigger) = (None, None);
        (slice.object.extras, slice.object.interference) = (None, None);
        if slice.object.remote.is_none()
            && !slice.object.needs_refetch
            && slice.object.flight != Some(Flight::Create)
        {
            self.drop_slice(id);
        } else {
            let name = self.slices[id].service_name.clone();
            self.unmanaged.entry(name).or_default().insert(id);
            self.slices.want(id);
        }
    }

    /// Drops a family that a Service has lost, and deletes its slices.
    pub(super) fn drop_family(&mut self, id: ServiceId, family: Family) {
        self.services[id].families[family.index()] = None;
        for slice in self.slices_of(id, |slice| {
            slice.object.phase == Phase::Managed && slice.family == family
        }) {
            self.mark_deleting(slice);
            self.slices.want(slice);
        }
    }

    /// Returns the slices of a Service that pass the test.
    pub(super) fn slices_of(&self, id: ServiceId, pass: impl Fn(&Slice) -> bool) -> Vec<SliceId> {
        let slices = self.services[id].slices.iter();
        slices.filter(|&slice| pass(&self.slices[slice])).collect()
    }
}

/// Returns whether two states of a Service give its slices the same labels. A change to or from headless is no reason
/// to write, as upstream.
fn same_slice_labels(a: &ServiceFacts, b: &ServiceFacts) -> bool {
    let own = |facts: &ServiceFacts| facts.labels.project(|key| !is_reserved_label(key));
    own(a) == own(b)
}
