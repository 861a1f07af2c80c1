//! The pods that a Service's Endpoints object shows, kept beside the Service whatever the server has of the object.

use super::{Pass, Service};
use crate::core::facts::{ServiceFacts, TolerateUnready};
use crate::core::hash::IdMap;
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::{Inputs, Pod, PodChange};
use crate::core::namespace::{Placement, Settings};
use crate::core::ports::{SlicePort, SlicePorts};
use crate::core::priority::Priority;
use crate::core::subsets::Members;
use std::cmp::Ordering;
use std::net::IpAddr;

/// The pods that a Service's Endpoints object shows. Kept while the Service is managed.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct ServiceEndpoints {
    pub(in crate::core::namespace) members: Members<SlicePort, PodId>,
    /// Number of changes since the last evaluation.
    pub(in crate::core::namespace) changes: u32,
    /// True if the object has a new entry, which the next evaluation queues.
    pub(in crate::core::namespace) renewed: bool,
    pub(in crate::core::namespace) priority: Priority,
}

/// The members of a Service's Endpoints, while they are being collected.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct Collecting {
    pub(in crate::core::namespace) id: ServiceId,
    /// The list to be replaced.
    pub(in crate::core::namespace) before: Option<Box<ServiceEndpoints>>,
    /// The Service's pods, and how many of them have been visited.
    pub(in crate::core::namespace) pods: Vec<PodId>,
    pub(in crate::core::namespace) at: usize,
    pub(in crate::core::namespace) resolved: IdMap<u32, SlicePorts>,
    pub(in crate::core::namespace) found: Vec<(PodId, IpAddr, bool, SlicePorts)>,
}

impl ServiceEndpoints {
    pub(in crate::core::namespace) fn touch(&mut self, priority: Priority) {
        self.changes += 1;
        self.priority = self.priority.min(priority);
    }
}

/// Returns the address by which a Service's Endpoints show a pod, if it has one.
#[inline]
pub(in crate::core::namespace) fn address_of(pod: &Pod, service: &ServiceFacts) -> Option<IpAddr> {
    pod.ip(service.endpoints_family.or(pod.primary())?)
}

/// Returns a pod's address and whether it counts as ready, or `None` if it is not shown.
fn shown(pod: &Pod, service: &Service, tolerant: bool) -> Option<(IpAddr, bool)> {
    let ip = address_of(pod, &service.facts)?;
    (tolerant || !pod.conditions().terminating()).then_some((ip, tolerant || pod.conditions().serving()))
}

/// Orders two pods with the same address.
pub(in crate::core::namespace) fn by_uid(inputs: &Inputs) -> impl Fn(PodId, PodId) -> Ordering {
    |a, b| inputs.pod(a).uid().compare(inputs.pod(b).uid())
}

/// Returns whether a Service's Endpoints show pods whatever their state.
fn is_tolerant(settings: &Settings, facts: &ServiceFacts) -> bool {
    match facts.tolerate_unready {
        TolerateUnready::Set(tolerate) if settings.legacy_tolerate_unready => tolerate,
        _ => facts.publish_not_ready,
    }
}

impl Placement<'_> {
    /// Updates a pod in the Endpoints of one of its Services after a change.
    pub(in crate::core::namespace) fn visit_endpoints(
        &mut self,
        pod_id: PodId,
        service_id: ServiceId,
        change: PodChange,
    ) {
        let service = &self.services.table[service_id];
        let Some(endpoints) = &service.endpoints else {
            return;
        };
        self.ctx.work.addresses_visited += 1;
        let pod = self.inputs.pod(pod_id);
        let now = shown(pod, service, is_tolerant(&self.ctx.settings, &service.facts));
        let known = endpoints.members.get(pod_id);
        let was_ready = known.and_then(|(ip, ready, _)| ready.then_some(ip));
        let ports = match known {
            Some((_, _, ports)) if !change.ports => ports.clone(),
            _ if now.is_none() => SlicePorts::default(),
            _ => self.ports_of(pod_id, service_id),
        };
        if now.is_some_and(|(_, ready)| ready) {
            self.services.has_ready_endpoint(service_id);
        }
        let service = &mut self.services.table[service_id];
        let endpoints = service.endpoints.as_mut().expect("it was there just now");
        let left = (now.is_none() || change.endpoints) && endpoints.members.remove(pod_id);
        let changed = match now {
            None => left,
            // A member that was removed just above counts as changed: it has another UID, hostname or node, and with
            // the UID perhaps another place among pods of the same address.
            Some((ip, ready)) => endpoints
                .members
                .set(pod_id, ip, ready, &ports, by_uid(self.inputs)),
        };
        if changed {
            let is_ready = now.and_then(|(ip, ready)| ready.then_some(ip));
            let priority = match (was_ready, is_ready) {
                (Some(before), Some(after)) if before == after => Priority::Rest,
                // An address that another takes the place of gets traffic until the object is written.
                (Some(_), _) => Priority::Remove,
                (None, Some(_)) => Priority::Add,
                (None, None) => Priority::Rest,
            };
            endpoints.touch(priority);
            self.services.mark(service_id);
        }
    }

    /// Removes a pod that is gone, or that its Service no longer selects.
    pub(in crate::core::namespace) fn leave_endpoints(&mut self, pod: PodId, service_id: ServiceId) {
        let Some(endpoints) = &mut self.services.table[service_id].endpoints else {
            return;
        };
        let was_ready = endpoints.members.get(pod).map(|(_, ready, _)| ready);
        if endpoints.members.remove(pod) {
            endpoints.touch(if was_ready == Some(true) {
                Priority::Remove
            } else {
                Priority::Rest
            });
            self.services.mark(service_id);
        }
    }

    /// Collects a Service's members anew, in a pass over its pods. `before` is the list to be replaced.
    pub(in crate::core::namespace) fn collect_endpoints(
        &mut self,
        id: ServiceId,
        before: Option<Box<ServiceEndpoints>>,
    ) {
        if !self.ctx.settings.outputs.endpoints || self.services.table[id].facts.custom {
            return;
        }
        self.services.queue_first(Pass::Collect(Box::new(Collecting {
            id,
            before,
            pods: self.inputs.selected(id),
            at: 0,
            resolved: IdMap::default(),
            found: Vec::new(),
        })));
    }

    /// Visits the next pod of a list that is collected anew; returns false when the list is complete.
    pub(in crate::core::namespace) fn collect_next(&mut self, collecting: &mut Collecting) -> bool {
        let Some(&pod_id) = collecting.pods.get(collecting.at) else {
            return false;
        };
        collecting.at += 1;
        self.ctx.work.addresses_visited += 1;
        let service = &self.services.table[collecting.id];
        let tolerant = is_tolerant(&self.ctx.settings, &service.facts);
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
    pub(in crate::core::namespace) fn finish_collecting(&mut self, collecting: Collecting) {
        let Collecting {
            id, before, found, ..
        } = collecting;
        let facts = &self.services.table[id].facts;
        let portless = facts.no_cluster_ip && facts.ports.is_empty();
        let any_ready = found.iter().any(|(_, _, ready, _)| *ready);
        let members = Members::collect(portless, found, by_uid(self.inputs));
        let priority = match &before {
            Some(before) if before.members.loses_to(&members) => Priority::Remove,
            Some(before) if !members.loses_to(&before.members) => Priority::Rest,
            None if !any_ready => Priority::Rest,
            _ => Priority::Add,
        };
        if any_ready {
            self.services.has_ready_endpoint(id);
        }
        let (changes, pending) =
            before.map_or((0, Priority::Rest), |before| (before.changes, before.priority));
        self.services.table[id].endpoints = Some(Box::new(ServiceEndpoints {
            members,
            changes: changes + 1,
            renewed: false,
            priority: priority.min(pending),
        }));
        self.services.mark(id);
    }
}
