//! Services whose annotated selector cannot be used: no pods are added, and those that are published are followed until
//! they are gone or not ready, whatever their labels. A mistake in a selector so neither empties a Service nor keeps
//! addresses in it that other pods may get.

use super::NamespaceState;
use super::leading::LeaderStatus;
use super::members::desired;
use crate::core::compact::small::SmallSet;
use crate::core::facts::{EndpointFacts, SliceFacts};
use crate::core::ids::{PodId, ServiceId};
use smallvec::SmallVec;

/// The pods of a Service that publishes others than those that a selector selects: it follows a Lease, or its selector
/// cannot be used.
#[derive(Clone, Debug, Default)]
pub(super) struct Following {
    /// The pods. At most one if the Service follows a Lease, once it is decided who leads.
    pub(super) members: SmallSet<PodId>,
    /// False while the pods are those that adopted slices show: until all slices have been adopted and, if the Service
    /// follows a Lease, that has been seen.
    pub(super) decided: bool,
    /// Who is published, if the Service follows a Lease.
    pub(super) status: LeaderStatus,
    /// The holder of the Lease, if that was seen to change while it was not known whether slices of other controllers hold
    /// endpoints: it is added once they have been read and hold none, unless the Lease has another holder by then.
    pub(super) waits_for_others: Option<Box<str>>,
}

impl NamespaceState {
    /// Returns the pods that belong to a Service: those that it selects, or those that it still follows.
    pub(super) fn pods_of(&self, id: ServiceId) -> Vec<PodId> {
        let service = &self.services[id];
        if let Some(following) = &service.following {
            return following.members.iter().collect();
        }
        self.inputs.selected(id)
    }

    /// Returns whether a pod that belongs to a Service goes on to.
    pub(super) fn keeps(&self, pod: PodId, service: ServiceId) -> bool {
        let state = &self.services[service];
        if state.facts.is_led() {
            return self.keeps_leader(pod, service);
        }
        if !state.facts.is_frozen() {
            return self.inputs.selects(service, self.inputs.pod(pod));
        }
        let members = &self.memberships[pod][self.memberships[pod].of(service)];
        members.iter().any(|member| !member.slice.is_none()) && desired(self.inputs.pod(pod), state).ready()
    }

    /// Returns whether the API server has been sent an endpoint of a pod for a Service.
    pub(super) fn is_published(&self, pod: PodId, service: ServiceId) -> bool {
        let members = &self.memberships[pod][self.memberships[pod].of(service)];
        members.iter().any(|member| {
            let slice = self.slices.get(member.slice);
            slice.is_some_and(|slice| slice.slots[usize::from(member.at)].published.is_published())
        })
    }

    /// Removes a pod that has changed from the Services that only follow it or that it leads, unless it stays.
    /// `reborn` says that another pod has its name now.
    pub(super) fn leave_followed(&mut self, pod: PodId, reborn: bool) {
        if !self.settings.outputs.custom {
            return;
        }
        let members = self.memberships[pod].iter().map(|member| member.service);
        let follows = |service: &ServiceId| self.services[*service].facts.follows();
        let mut gone: SmallVec<[ServiceId; 4]> = members
            .filter(|service| follows(service) && (reborn || !self.keeps(pod, *service)))
            .collect();
        gone.dedup();
        for service in gone.into_iter().rev() {
            self.part(pod, service);
        }
    }

    /// Keeps the pods of a Service that has changed, if they are not those of a selector any more, and forgets them if they
    /// are again.
    pub(super) fn follow_members(&mut self, id: ServiceId, members: &[PodId]) {
        let service = &mut self.services[id];
        match (service.following.is_some(), service.facts.follows()) {
            (false, true) => {
                service.following = Some(Box::new(Following {
                    members: members.iter().copied().collect(),
                    decided: service.awaiting == 0,
                    status: LeaderStatus::default(),
                    waits_for_others: None,
                }));
            }
            (true, false) => service.following = None,
            _ => {}
        }
    }

    /// Begins to follow the pods that an adopted slice shows, until it is decided whom the Service publishes.
    pub(super) fn follow_published(&mut self, service: ServiceId, facts: &SliceFacts) {
        let following = self.services[service].following.as_ref();
        if following.is_some_and(|following| !following.decided) {
            for endpoint in &facts.endpoints {
                self.follow_endpoint(service, endpoint);
            }
        }
    }

    /// Begins to follow the pod of a published endpoint, if it is still there.
    pub(super) fn follow_endpoint(&mut self, service: ServiceId, endpoint: &EndpointFacts) {
        let Some(pod) = endpoint.pod.as_deref().and_then(|name| self.inputs.find(name)) else {
            return;
        };
        let (state, facts) = (self.inputs.pod(pod), &self.services[service].facts);
        let same = endpoint.pod_uid.as_ref() == Some(state.uid());
        let shown = !facts.is_frozen() || endpoint.ready == Some(true);
        let stays = || !facts.is_frozen() || desired(state, &self.services[service]).ready();
        if same && shown && !self.memberships[pod].has(service) && stays() {
            self.join(pod, service);
        }
    }

    /// Makes pods forget the Services that only follow them, since slices are about to be forgotten.
    pub(super) fn forget_followed(&mut self) {
        if !self.settings.outputs.custom {
            return;
        }
        let followers = self
            .services
            .iter()
            .filter(|(_, service)| service.facts.follows());
        let followers: Vec<_> = followers.map(|(id, _)| id).collect();
        for service in followers {
            for pod in self.pods_of(service) {
                self.forget_member(pod, service);
            }
            self.services[service].following = Some(Box::default());
        }
    }
}
