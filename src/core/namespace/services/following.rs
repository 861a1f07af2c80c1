//! Services whose annotated selector cannot be used, so that it is frozen: no pods are added, and those that are published
//! are followed until they are gone or not ready, whatever their labels. So a mistake in a selector neither empties a
//! Service nor keeps addresses in it that other pods may get.

use super::Services;
use super::members::desired;
use super::passes::Pass;
use crate::core::compact::small::SmallSet;
use crate::core::facts::{EndpointFacts, SliceFacts};
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::Inputs;
use crate::core::namespace::Placement;
use smallvec::SmallVec;

/// The pods of a Service whose selector cannot be used.
#[derive(Clone, Debug, Default)]
pub(in crate::core::namespace) struct Following {
    members: SmallSet<PodId>,
    /// False while the pods are those that adopted slices show: until all slices have been adopted.
    decided: bool,
}

impl Following {
    /// Creates the pods of a Service that keeps those that it has. `decided` says that all of its slices are known.
    fn new(members: impl Iterator<Item = PodId>, decided: bool) -> Self {
        Self {
            members: members.collect(),
            decided,
        }
    }

    /// Returns the pods, in the order of their numbers.
    fn members(&self) -> impl Iterator<Item = PodId> {
        self.members.iter()
    }

    /// Adds a pod.
    pub(super) fn enter(&mut self, pod: PodId) {
        self.members.insert(pod);
    }

    /// Removes a pod.
    pub(super) fn leave(&mut self, pod: PodId) {
        self.members.remove(&pod);
    }

    /// Notes that all slices have been adopted.
    pub(super) fn decide(&mut self) {
        self.decided = true;
    }

    /// Notes that the slices are to be adopted anew.
    pub(super) fn reopen(&mut self) {
        self.decided = false;
    }
}

/// Pods that are listed as one unit of work.
const LISTED: u64 = 64;

impl Services {
    /// Returns the pods that belong to a Service: those that it selects, or those that it still follows.
    pub(in crate::core::namespace) fn pods_of(&self, inputs: &Inputs, id: ServiceId) -> Vec<PodId> {
        let service = &self.table[id];
        if let Some(following) = &service.following {
            return following.members().collect();
        }
        inputs.selected(id)
    }
}

impl Placement<'_> {
    /// Returns the pods that belong to a Service: those that it selects, or those that it still follows. Listing them is cheap
    /// beside the work on each of them, so it is charged to the turn, but not split into steps.
    pub(in crate::core::namespace) fn pods_of(&mut self, id: ServiceId) -> Vec<PodId> {
        let pods = self.services.pods_of(self.inputs, id);
        self.ctx.count_read(pods.len() as u64 / LISTED);
        pods
    }

    /// Returns whether a pod that belongs to a Service goes on to.
    pub(in crate::core::namespace) fn keeps(&self, pod: PodId, service: ServiceId) -> bool {
        let state = &self.services.table[service];
        if !state.facts.is_frozen() {
            return self.inputs.selects(service, self.inputs.pod(pod));
        }
        let members = &self.services.memberships[pod][self.services.memberships[pod].of(service)];
        members.iter().any(|member| !member.slice.is_none()) && desired(self.inputs.pod(pod), state).ready()
    }

    /// Returns whether the API server has been sent an endpoint of a pod for a Service.
    pub(in crate::core::namespace) fn is_published(&self, pod: PodId, service: ServiceId) -> bool {
        let members = &self.services.memberships[pod][self.services.memberships[pod].of(service)];
        members.iter().any(|member| {
            let slice = self.slices.get(member.slice);
            slice.is_some_and(|slice| slice.slots[usize::from(member.at)].published.is_published())
        })
    }

    /// Removes a pod that has changed from the Services that only follow it, unless it stays. `reborn` says that another pod
    /// has its name now.
    pub(in crate::core::namespace) fn leave_followed(&mut self, pod: PodId, reborn: bool) {
        if !self.ctx.settings.outputs.custom {
            return;
        }
        let members = self.services.memberships[pod].iter().map(|member| member.service);
        let follows = |service: &ServiceId| self.services.table[*service].facts.is_frozen();
        let mut gone: SmallVec<[ServiceId; 4]> = members
            .filter(|service| follows(service) && (reborn || !self.keeps(pod, *service)))
            .collect();
        gone.dedup();
        for service in gone.into_iter().rev() {
            self.remove_member(pod, service);
        }
    }

    /// Keeps the pods of a Service that has changed, if they are not those of a selector any more, and forgets them if they
    /// are again.
    pub(in crate::core::namespace) fn follow_members(&mut self, id: ServiceId, members: &[PodId]) {
        let known = !self.ctx.starting && !self.ctx.pending_lists.any();
        let service = &mut self.services.table[id];
        if service.following.is_none() && service.facts.is_frozen() {
            self.ctx.count_read(members.len() as u64);
        }
        match (service.following.is_some(), service.facts.is_frozen()) {
            (false, true) => {
                // A standby knows no slices, and takes over the pods that they show once it may write.
                let decided = known && service.awaiting == 0;
                let following = Following::new(members.iter().copied(), decided);
                service.following = Some(Box::new(following));
            }
            (true, false) => service.following = None,
            _ => {}
        }
    }

    /// Begins to follow the pods that an adopted slice shows, until it is decided which pods the Service publishes.
    pub(in crate::core::namespace) fn follow_published(&mut self, service: ServiceId, facts: &SliceFacts) {
        let following = self.services.table[service].following.as_ref();
        if following.is_some_and(|following| !following.decided) {
            for endpoint in &facts.endpoints {
                self.follow_endpoint(service, endpoint);
            }
        }
    }

    /// Begins to follow the pod of a published endpoint, if it is still there.
    fn follow_endpoint(&mut self, service: ServiceId, endpoint: &EndpointFacts) {
        let Some(pod) = endpoint.pod.as_deref().and_then(|name| self.inputs.find(name)) else {
            return;
        };
        let state = self.inputs.pod(pod);
        let same = endpoint.pod_uid.as_ref() == Some(state.uid());
        let shown = endpoint.ready == Some(true);
        let stays = || desired(state, &self.services.table[service]).ready();
        if same && shown && !self.services.memberships[pod].has(service) && stays() {
            self.join(pod, service);
        }
    }

    /// Makes pods forget a Service that only follows them, since slices are forgotten.
    pub(in crate::core::namespace) fn forget_followed(&mut self, service: ServiceId) {
        if !self.services.table[service].facts.is_frozen() {
            return;
        }
        let pods = self.pods_of(service).into();
        self.services.table[service].following = Some(Box::default());
        // Before the pods forget their places in slices.
        self.services.queue_first(Pass::Unfollow(service, pods));
    }
}
