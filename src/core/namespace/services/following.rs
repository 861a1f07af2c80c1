//! Services whose annotated selector cannot be used, so that they are frozen: their members are the pods that are published,
//! whatever their labels, until they are gone. So a mistake in a selector neither empties a Service nor keeps addresses in it
//! that other pods may get.

use super::Services;
use super::passes::Pass;
use crate::core::address::Family;
use crate::core::facts::SliceFacts;
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::Inputs;
use crate::core::namespace::Placement;
use smallvec::SmallVec;

/// Pods that are listed as one unit of work.
const LISTED: u64 = 64;

impl Services {
    /// Returns the pods that belong to a Service: those that it selects, or those that it still follows.
    pub(in crate::core::namespace) fn pods_of(&self, inputs: &Inputs, id: ServiceId) -> Vec<PodId> {
        let service = &self.table[id];
        if let Some(following) = &service.following {
            return following.iter().collect();
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

    /// Returns whether a member of a Service still belongs to it after its labels have changed.
    pub(in crate::core::namespace) fn keeps(&self, pod: PodId, service: ServiceId) -> bool {
        let facts = &self.services.table[service].facts;
        facts.is_frozen() || self.inputs.selects(service, self.inputs.pod(pod))
    }

    /// Returns whether a member of a Service still belongs to it after the selector has changed: if that cannot be used, what
    /// some slice shows does.
    pub(super) fn keeps_reselected(&self, pod: PodId, service: ServiceId) -> bool {
        let is_shown = |family| self.shown(pod, service, family).is_some();
        self.keeps(pod, service)
            && (!self.services.table[service].facts.is_frozen() || Family::ALL.into_iter().any(is_shown))
    }

    /// Removes a pod from the Services that only follow it, since another pod has its name now.
    pub(in crate::core::namespace) fn leave_followed(&mut self, pod: PodId) {
        let members = self.services.memberships[pod].iter().map(|member| member.service);
        let follows = |service: &ServiceId| self.services.table[*service].following.is_some();
        let mut gone: SmallVec<[ServiceId; 4]> = members.filter(follows).collect();
        gone.dedup();
        for service in gone.into_iter().rev() {
            self.remove_member(pod, service);
        }
    }

    /// Remembers the members of a Service when it becomes frozen, and forgets them when it is so no longer.
    pub(in crate::core::namespace) fn follow_members(&mut self, id: ServiceId, members: &[PodId]) {
        let service = &mut self.services.table[id];
        if !service.facts.is_frozen() {
            service.following = None;
        } else if service.following.is_none() {
            self.ctx.count_read(members.len() as u64);
            service.following = Some(Box::new(members.iter().copied().collect()));
        }
    }

    /// Begins to follow the pods that an adopted slice shows, as far as they are still there.
    pub(in crate::core::namespace) fn follow_published(&mut self, service: ServiceId, facts: &SliceFacts) {
        if self.services.table[service].following.is_none() {
            return;
        }
        for endpoint in &facts.endpoints {
            let pod = endpoint.pod.as_deref().and_then(|name| self.inputs.find(name));
            let same = |pod: &PodId| endpoint.pod_uid.as_ref() == Some(self.inputs.pod(*pod).uid());
            if let Some(pod) = pod.filter(same)
                && !self.services.memberships[pod].has(service)
            {
                self.join(pod, service);
            }
        }
    }

    /// Removes the members of a frozen Service, since slices are forgotten.
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
