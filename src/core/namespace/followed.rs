//! Services whose annotated selector cannot be used: no pods are added, and those that are published are followed until
//! they are gone or not ready, whatever their labels. A mistake in a selector so neither empties a Service nor keeps
//! addresses in it that other pods may get.

use super::NamespaceState;
use super::members::desired;
use crate::core::facts::SliceFacts;
use crate::core::ids::{PodId, ServiceId};
use smallvec::SmallVec;

impl NamespaceState {
    /// Returns the pods that belong to a Service: those that it selects, or those that it still follows.
    pub(super) fn pods_of(&self, id: ServiceId) -> Vec<PodId> {
        let service = &self.services[id];
        if !service.facts.is_frozen() {
            return self.cache.pods(id);
        }
        let slices = service.slices.iter().map(|slice| &self.slices[slice]);
        let mut pods: Vec<_> = slices
            .flat_map(|slice| slice.slots.iter().map(|slot| slot.pod))
            .collect();
        // A pod with two addresses is in a slice of each family.
        pods.sort_unstable();
        pods.dedup();
        pods
    }

    /// Returns whether a pod that belongs to a Service goes on to.
    pub(super) fn keeps(&self, pod: PodId, service: ServiceId) -> bool {
        let state = &self.services[service];
        if !state.facts.is_frozen() {
            return self.cache.selects(service, self.pods[pod].labels.0);
        }
        let pod = &self.pods[pod];
        let members = &pod.members[pod.members_of(service)];
        members.iter().any(|member| !member.slice.is_none()) && desired(pod, state).ready()
    }

    /// Returns whether the API server has been sent an endpoint of a pod for a Service.
    pub(super) fn is_published(&self, pod: PodId, service: ServiceId) -> bool {
        let pod = &self.pods[pod];
        let members = &pod.members[pod.members_of(service)];
        members.iter().any(|member| {
            let slice = self.slices.get(member.slice);
            slice.is_some_and(|slice| slice.slots[usize::from(member.at)].published.is_published())
        })
    }

    /// Removes a pod that has changed from the Services that only follow it, unless it stays. `reborn` says that another
    /// pod has its name now.
    pub(super) fn leave_followed(&mut self, pod: PodId, reborn: bool) {
        if !self.settings.outputs.custom {
            return;
        }
        let members = self.pods[pod].members.iter().map(|member| member.service);
        let frozen = |service: &ServiceId| self.services[*service].facts.is_frozen();
        let mut gone: SmallVec<[ServiceId; 4]> = members
            .filter(|service| frozen(service) && (reborn || !self.keeps(pod, *service)))
            .collect();
        gone.dedup();
        for service in gone.into_iter().rev() {
            self.part(pod, service);
        }
    }

    /// Begins to follow the pods that an adopted slice of a Service shows as ready, when the process begins to write.
    pub(super) fn follow_published(&mut self, service: ServiceId, facts: &SliceFacts) {
        for endpoint in facts
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.ready == Some(true))
        {
            let Some(pod) = endpoint.pod.as_deref().and_then(|name| self.pods.find(name)) else {
                continue;
            };
            let state = &self.pods[pod];
            let same = endpoint.pod_uid.as_ref() == Some(&state.uid);
            if same && !state.is_member_of(service) && desired(state, &self.services[service]).ready() {
                self.join(pod, service);
            }
        }
    }

    /// Makes pods forget the Services that only follow them, since slices are about to be forgotten.
    pub(super) fn forget_followed(&mut self) {
        let frozen = self
            .services
            .iter()
            .filter(|(_, service)| service.facts.is_frozen());
        let frozen: Vec<_> = frozen.map(|(id, _)| id).collect();
        for service in frozen {
            for pod in self.pods_of(service) {
                self.forget_member(pod, service);
            }
        }
    }
}
