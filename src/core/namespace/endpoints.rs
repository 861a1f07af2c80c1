//! Endpoints objects: one per Service, written whole, and deprecated upstream. They are computed from the same pods
//! and the same matches as slices; in addition they need a sorted list of members per Service.
//!
//! The content of the object on the API server is remembered as a fingerprint of what we wrote. A change marks the
//! object; when its turn comes, it is built, and sent only if the fingerprint differs. So a pod that comes and goes
//! before that, or that sorts beyond the thousandth, costs no write.

mod output;
mod server;

use super::addresses::{Collecting, ServiceEndpoints};
use super::passes::Pass;
use super::rounds::{Round, Visit};
use super::{Kind, NamespaceState, Service};
use crate::core::facts::{ServiceFacts, TolerateUnready};
use crate::core::hash::IdMap;
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::{Inputs, Pod, PodChange};
use crate::core::object::{ObjectState, Phase};
use crate::core::ports::SlicePorts;
use crate::core::queue::Priority;
use crate::core::subsets::Members;
use crate::core::time::{Time, earliest};
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

/// An Endpoints object, owned by its namespace's state.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    name: Arc<str>,
    pub(super) object: ObjectState,
    /// The fingerprint of what the API server has, where that is known to be what we would write.
    published: Option<u64>,
    /// The fingerprint of what is in flight.
    departing: u64,
    /// True if slices may mirror it, should its Service have no selector, as far as is known without reading it.
    mirrorable: bool,
    /// The version at which a watch last showed that the object was deleted.
    gone: u64,
}

impl Endpoints {
    fn new(name: Arc<str>, phase: Phase) -> Self {
        Self {
            name,
            object: ObjectState::new(phase),
            published: None,
            departing: 0,
            mirrorable: true,
            gone: 0,
        }
    }

    /// Returns whether slices may mirror the object, should its Service have no selector.
    pub(super) fn may_be_mirrored(&self) -> bool {
        self.mirrorable && self.object.remote.is_some()
    }
}

// === what pods change ===

/// Returns the address by which a Service's Endpoints show a pod, if it has one.
#[inline]
fn address_of(pod: &Pod, service: &ServiceFacts) -> Option<IpAddr> {
    pod.ip(service.endpoints_family.or(pod.primary())?)
}

/// Returns a pod's address and whether it counts as ready, or `None` if it is not shown.
fn shown(pod: &Pod, service: &Service, tolerant: bool) -> Option<(IpAddr, bool)> {
    let ip = address_of(pod, &service.facts)?;
    (tolerant || !pod.conditions().terminating()).then_some((ip, tolerant || pod.conditions().serving()))
}

/// Orders two pods with the same address.
fn by_uid(inputs: &Inputs) -> impl Fn(PodId, PodId) -> Ordering {
    |a, b| inputs.pod(a).uid().compare(inputs.pod(b).uid())
}

impl NamespaceState {
    /// Returns whether a Service's Endpoints show pods whatever their state.
    fn is_tolerant(&self, facts: &ServiceFacts) -> bool {
        match facts.tolerate_unready {
            TolerateUnready::Set(tolerate) if self.settings.legacy_tolerate_unready => tolerate,
            _ => facts.publish_not_ready,
        }
    }

    /// Updates a pod in the Endpoints of one of its Services after a change.
    pub(super) fn visit_endpoints(&mut self, pod_id: PodId, service_id: ServiceId, change: PodChange) {
        let service = &self.services[service_id];
        let Some(endpoints) = &service.endpoints else {
            return;
        };
        self.work.addresses_visited += 1;
        let pod = self.inputs.pod(pod_id);
        let now = shown(pod, service, self.is_tolerant(&service.facts));
        let known = endpoints.members.get(pod_id);
        let was_ready = known.map(|(_, ready, _)| ready);
        let ports = match known {
            Some((_, _, ports)) if !change.ports => ports.clone(),
            _ if now.is_none() => SlicePorts::default(),
            _ => self.ports_of(pod_id, service_id),
        };
        if now.is_some_and(|(_, ready)| ready) {
            self.has_ready_endpoint(service_id);
        }
        let service = &mut self.services[service_id];
        let endpoints = service.endpoints.as_mut().expect("it was there just now");
        let left = (now.is_none() || change.endpoints) && endpoints.members.remove(pod_id);
        let changed = match now {
            None => left,
            // A member that was removed just above counts as changed: it has another UID, hostname or node, and with
            // the UID perhaps another place among pods of the same address.
            Some((ip, ready)) => endpoints
                .members
                .set(pod_id, ip, ready, &ports, by_uid(&self.inputs)),
        };
        if changed {
            let priority = match (was_ready, now.map(|(_, ready)| ready)) {
                (Some(true), None | Some(false)) => Priority::Remove,
                (None | Some(false), Some(true)) => Priority::Add,
                _ => Priority::Rest,
            };
            endpoints.touch(priority);
            self.mark(service_id);
        }
    }

    /// Removes a pod that is gone, or that its Service no longer selects.
    pub(super) fn leave_endpoints(&mut self, pod: PodId, service_id: ServiceId) {
        let Some(endpoints) = &mut self.services[service_id].endpoints else {
            return;
        };
        let was_ready = endpoints.members.get(pod).map(|(_, ready, _)| ready);
        if endpoints.members.remove(pod) {
            endpoints.touch(if was_ready == Some(true) {
                Priority::Remove
            } else {
                Priority::Rest
            });
            self.mark(service_id);
        }
    }

    /// Collects a Service's members anew, in a pass over its pods. `before` is the list to be replaced.
    pub(super) fn collect_endpoints(&mut self, id: ServiceId, before: Option<Box<ServiceEndpoints>>) {
        if !self.settings.outputs.endpoints || self.services[id].facts.custom {
            return;
        }
        self.passes.push_front(Pass::Collect(Box::new(Collecting {
            id,
            before,
            pods: self.inputs.selected(id),
            at: 0,
            resolved: IdMap::default(),
            found: Vec::new(),
        })));
    }

    /// Visits the next pod of a list that is collected anew; returns false when the list is complete.
    pub(super) fn collect_next(&mut self, collecting: &mut Collecting) -> bool {
        let Some(&pod_id) = collecting.pods.get(collecting.at) else {
            return false;
        };
        collecting.at += 1;
        self.work.addresses_visited += 1;
        let service = &self.services[collecting.id];
        let tolerant = self.is_tolerant(&service.facts);
        let Some(pod) = self.inputs.get(pod_id) else {
            return true;
        };
        let port_set = pod.port_set();
        if let Some((ip, ready)) = shown(pod, service, tolerant) {
            // Pods of one template share their ports, so each distinct list is resolved once.
            let ports = collecting
                .resolved
                .entry(port_set)
                .or_insert_with(|| self.ports_of(pod_id, collecting.id));
            collecting.found.push((pod_id, ip, ready, ports.clone()));
        }
        true
    }

    /// Finishes a list, once all pods have been visited.
    pub(super) fn finish_collecting(&mut self, collecting: Collecting) {
        let Collecting {
            id, before, found, ..
        } = collecting;
        let facts = &self.services[id].facts;
        let portless = facts.no_cluster_ip && facts.ports.is_empty();
        let any_ready = found.iter().any(|(_, _, ready, _)| *ready);
        let members = Members::collect(portless, found, by_uid(&self.inputs));
        let priority = match &before {
            Some(before) if before.members.loses_to(&members) => Priority::Remove,
            Some(before) if !members.loses_to(&before.members) => Priority::Rest,
            None if !any_ready => Priority::Rest,
            _ => Priority::Add,
        };
        if any_ready {
            self.has_ready_endpoint(id);
        }
        let (changes, pending) =
            before.map_or((0, Priority::Rest), |before| (before.changes, before.priority));
        self.services[id].endpoints = Some(Box::new(ServiceEndpoints {
            members,
            changes: changes + 1,
            renewed: false,
            priority: priority.min(pending),
        }));
        self.mark(id);
    }

    // === what Services change ===

    /// Starts to manage the object of a Service that has become managed.
    pub(super) fn manage_endpoints(&mut self, id: ServiceId) {
        if !self.settings.outputs.endpoints {
            return;
        }
        self.collect_endpoints(id, None);
        let name = &self.services[id].facts.name;
        let id = self.endpoints.find(name).unwrap_or_else(|| {
            let entry = Endpoints::new(name.clone(), Phase::Managed);
            self.endpoints.insert(entry)
        });
        let entry = &mut self.endpoints[id];
        entry.object.phase = Phase::Managed;
        entry.object.interference = None;
        // Only the version is known of an object that was unmanaged until now.
        entry.object.needs_refetch |= entry.object.remote.is_some() && entry.published.is_none();
        // The evaluation that follows queues all others: a start would queue a hundred thousand at once.
        if entry.object.needs_refetch {
            self.endpoints.want(id);
        }
    }

    /// Stops managing the object of a Service that is no longer managed: it stays as it is.
    pub(super) fn unmanage_endpoints(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        service.endpoints = None;
        if let Some(id) = self.endpoints.find(&service.facts.name) {
            let entry = &mut self.endpoints[id];
            entry.object.phase = Phase::Unmanaged;
            entry.object.rewrite = false;
            (entry.object.trigger, entry.object.flight_trigger) = (None, None);
            if entry.object.is_nothing() {
                self.endpoints.remove(id);
            }
        }
    }

    /// Deletes the object of a Service that is gone, whoever created it.
    pub(super) fn delete_endpoints(&mut self, name: &Arc<str>) {
        let Some(id) = self
            .endpoints
            .find(name)
            .filter(|_| self.settings.outputs.endpoints)
        else {
            return;
        };
        let entry = &mut self.endpoints[id];
        // Until Endpoints are listed, perhaps for days, none of them is known. If there is an object, it will be found
        // to be a leftover then.
        if self.starting
            && self.pending_lists.has(Kind::Endpoints)
            && entry.object.is_nothing()
            && !self.endpoints.has_arrived(name)
        {
            self.endpoints.remove(id);
            return;
        }
        let entry = &mut self.endpoints[id];
        entry.object.phase = Phase::Deleting;
        entry.object.change(Priority::Add);
        self.endpoints.want(id);
    }

    /// Leaves alone the object of a Service without a selector, even if it was to be deleted with another Service of
    /// that name.
    pub(super) fn spare_endpoints(&mut self, name: &Arc<str>) {
        if let Some(id) = self.endpoints.find(name) {
            self.endpoints[id].object.phase = Phase::Unmanaged;
        }
    }

    /// Does what [`NamespaceState::forget`] does, for Endpoints.
    pub(super) fn forget_endpoints(&mut self) {
        let endpoints = std::mem::take(&mut self.endpoints);
        self.passes.push_back(Pass::Round(Round::drop(endpoints)));
        self.forget_mirror_contents();
        self.visit_services(Visit::RenewEndpoints);
    }

    /// Gives a Service's object a new entry, if this process manages it. The next evaluation queues it.
    pub(super) fn renew_endpoints(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        if let Some(endpoints) = &mut service.endpoints {
            endpoints.renewed = true;
            let entry = Endpoints::new(service.facts.name.clone(), Phase::Managed);
            self.endpoints.insert(entry);
            self.mark(id);
        }
    }

    /// Queues the object of a Service that has been evaluated, if its members changed.
    pub(super) fn evaluate_endpoints(&mut self, id: ServiceId, trigger: Option<Time>) {
        let unwritten = self.is_unwritten(id);
        let service = &mut self.services[id];
        let Some(endpoints) = &mut service.endpoints else {
            return;
        };
        let changes = std::mem::take(&mut endpoints.changes);
        let renewed = std::mem::take(&mut endpoints.renewed);
        let priority = std::mem::replace(&mut endpoints.priority, Priority::Rest);
        if changes == 0 && !renewed {
            return;
        }
        let id = self
            .endpoints
            .find(&service.facts.name)
            .expect("a managed Service has an entry for its Endpoints");
        self.endpoints.want(id);
        if changes == 0 {
            return;
        }
        let entry = &mut self.endpoints[id];
        entry.object.priority = entry.object.priority.min(priority);
        entry.object.change_by(changes);
        entry.object.rewrite = true;
        // As with slices.
        let replaces = unwritten && entry.object.remote.is_none();
        let before = entry.object.trigger.filter(|_| !replaces);
        entry.object.trigger = earliest(before, trigger);
    }

    /// Returns whether the write of the object of a Service has to wait.
    fn defers_endpoints(&self, name: &str, on_server: bool) -> bool {
        if self.next_look_at_deferral().is_none() {
            return false;
        }
        let service = self.services.find(name);
        service.is_some_and(|id| self.is_deferred(id, on_server))
    }
}
