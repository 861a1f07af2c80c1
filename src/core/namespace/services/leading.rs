//! Services that publish only the pod that leads: which pods a holder may be, and the one pod that each has.
//!
//! A pod is taken in only when the Lease of its Service is seen to change, and leaves at once when anything says that it
//! does not lead. Until a Lease has been seen, the pods that are published stay, but for those that are gone. [`FollowedLeases`]
//! decides who leads.
//!
//! [`FollowedLeases`]: crate::core::followed_leases::FollowedLeases

use super::Services;
use super::members::desired;
use crate::core::address::Family;
use crate::core::facts::{Manager, SliceFacts};
use crate::core::followed_leases::lease::holder_name;
use crate::core::followed_leases::{FollowedLeases, LeaderDecision, Settled};
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::inputs::Inputs;
use crate::core::namespace::Placement;
use crate::core::namespace::notifications::Told;
use crate::core::object::Phase;

/// How many pods that an identity may stand for are looked at. No pod leads if there are more.
const MOST_CANDIDATES: usize = 64;

impl Services {
    /// Returns whether a Service may publish a pod if it leads.
    pub(in crate::core::namespace) fn may_lead(&self, inputs: &Inputs, pod: PodId, id: ServiceId) -> bool {
        let facts = &self.table[id].facts;
        !facts.is_frozen() && (facts.selector.is_none() || inputs.selects(id, inputs.pod(pod)))
    }

    /// Returns whether a pod that leads a Service goes on to, as far as its labels say.
    pub(in crate::core::namespace) fn keeps_leader(
        &self,
        inputs: &Inputs,
        pod: PodId,
        id: ServiceId,
    ) -> bool {
        let service = &self.table[id];
        let following = service.following.as_deref();
        following.is_some_and(|following| following.has(pod))
            && if service.facts.is_frozen() {
                desired(inputs.pod(pod), service).ready()
            } else {
                self.may_lead(inputs, pod, id)
            }
    }

    /// Returns the name of the pod that leads a Service, or did last, as far as this process knows.
    fn last_leader(&self, inputs: &Inputs, id: ServiceId) -> Option<Box<str>> {
        let following = self.table[id].following.as_deref()?;
        let member = || Some(inputs.get(following.members().next()?)?.name());
        following.last_leader().or_else(member).map(Into::into)
    }

    /// Returns the pods that an identity may stand for and that a Service may publish if they lead. `None` if there are
    /// too many to look at.
    pub(in crate::core::namespace) fn leader_candidates(
        &self,
        inputs: &Inputs,
        id: ServiceId,
        identity: &str,
    ) -> Option<Vec<PodId>> {
        let mut pods = candidates(inputs, identity)?;
        pods.retain(|pod| self.keeps_leader(inputs, *pod, id) || self.may_lead(inputs, *pod, id));
        Some(pods)
    }
}

/// Returns the pods that an identity may stand for: those whose name, hostname or, on the host's network, node it begins
/// with. `None` if there are too many to look at.
pub(in crate::core::namespace) fn candidates(inputs: &Inputs, identity: &str) -> Option<Vec<PodId>> {
    inputs.named(holder_name(identity), MOST_CANDIDATES)
}

impl Placement<'_> {
    /// Brings the pods of a Service in line with its Lease. `joins` says that the Lease was just seen to change, so that
    /// its holder may be taken in.
    pub(in crate::core::namespace) fn settle_leader(
        &mut self,
        leases: &mut FollowedLeases,
        id: ServiceId,
        joins: bool,
    ) {
        let Some(service) = self.services.table.get(id) else {
            return;
        };
        let (Some(following), Some(name)) = (&service.following, service.facts.followed_lease().cloned())
        else {
            return;
        };
        let decided = following.is_decided();
        // The published pods must be known first.
        if !decided && (self.ctx.starting || self.ctx.pending_lists.any() || service.awaiting > 0) {
            // The next plan decides.
            self.services.mark(id);
            return;
        }
        self.ctx.work.leaders_judged += 1;
        let holder = leases.holder(&name);
        // Its Lease was seen to change while it was not known whether others publish.
        let joins = joins || following.is_awaited(holder);
        let candidates = |identity: &str| self.services.leader_candidates(self.inputs, id, identity);
        let others = || self.others_publish(id);
        let Some(decision) = leases.decide_leader(&name, following, joins, candidates, others) else {
            return;
        };
        let LeaderDecision { status, keeps, takes } = decision;
        let waits = joins && keeps.is_none() && takes.is_none() && self.others_publish(id).is_none();
        let (former, withdrawn) = self.replace_leader(id, decision, holder);
        if !decided {
            self.services.mark(id);
        }
        let leader = keeps.or(takes).map(|pod| self.inputs.pod(pod).name().into());
        let settled = Settled {
            status,
            leader: leader.or(former),
            holder: holder.map(Into::into),
            waits,
            withdrawn,
        };
        let Some(following) = &mut self.services.table[id].following else {
            return;
        };
        let (news, vacant) = (following.settle(settled), following.is_empty());
        if news.status {
            self.services.mark(id);
        }
        if news.told {
            let told = if news.standing {
                Told::Standing
            } else {
                Told::Problem
            };
            self.notify_leader(id, status, holder.unwrap_or_default(), told);
        }
        leases.note_vacancy(id, &name, vacant);
    }

    /// Takes the pods out of a Service that do not lead it, and takes in the one that does. Returns the name of the pod that
    /// led it last, and whether its pods were withdrawn without a successor.
    fn replace_leader(
        &mut self,
        id: ServiceId,
        decision: LeaderDecision,
        holder: Option<&str>,
    ) -> (Option<Box<str>>, bool) {
        let LeaderDecision { status, keeps, takes } = decision;
        let holder = holder.unwrap_or_default();
        let former = self.services.last_leader(self.inputs, id);
        let Some(following) = &self.services.table[id].following else {
            return (former, false);
        };
        let members: Vec<PodId> = following.members().collect();
        let withdrawn = !members.is_empty() && keeps.is_none() && takes.is_none();
        for pod in members.into_iter().filter(|pod| Some(*pod) != keeps) {
            self.remove_member(pod, id);
        }
        if let Some(pod) = takes {
            let time = self.inputs.pod(pod).ready_time();
            self.services.table[id].note(time);
            self.join(pod, id);
            self.foresee_ports(pod, id);
            self.notify_takeover(id, holder, pod, former.clone());
        }
        if let Some(from) = former.as_deref().filter(|_| withdrawn) {
            self.notify_withdrawal(id, status, holder, from);
        }
        (former, withdrawn)
    }

    /// Returns whether slices of other controllers hold endpoints of a Service. `None` if none of those that have been read
    /// does, and some are yet to be read.
    pub(in crate::core::namespace) fn others_publish(&self, id: ServiceId) -> Option<bool> {
        let name = &self.services.table[id].facts.name;
        self.slices.foreign_of(name).hold_endpoints()
    }

    /// Has a slice of another controller read, if it matters to a Service whether it holds endpoints.
    pub(in crate::core::namespace) fn learn_content(&mut self, id: SliceId) {
        let slice = &self.slices[id];
        let service = self.services.table.find(&slice.service_name);
        let led = service.is_some_and(|service| self.services.table[service].facts.is_led());
        let led_unread = led && slice.others_hold.is_none();
        let unread = self.needs_content(id) || led_unread;
        let slice = &self.slices[id];
        if unread
            && slice.manager != Manager::Custom
            && slice.object.phase == Phase::Unmanaged
            && slice.object.remote.is_some()
        {
            self.slices[id].object.needs_refetch = true;
            self.slices.want(id);
        }
    }

    /// Handles the content of a slice of another controller, or of one that gives way to others.
    pub(in crate::core::namespace) fn learned_content(&mut self, id: SliceId, facts: &SliceFacts) {
        self.hold_content(id, facts);
        if let Some(slice) = self.slices.get_mut(id).filter(|slice| slice.object.gives_way) {
            slice.object.needs_refetch = false;
            let name = slice.service_name.clone();
            return self.check_replacement(&name);
        }
        let is_empty = facts.endpoints.is_empty();
        let Some(slice) = self
            .slices
            .get_mut(id)
            .filter(|slice| slice.object.phase == Phase::Unmanaged)
        else {
            return;
        };
        (slice.others_hold, slice.object.needs_refetch) = (Some(!is_empty), false);
        let name = slice.service_name.clone();
        self.slices.recount(id);
        self.check_replacement(&name);
        if let Some(service) = self.services.table.find(&name)
            && self.services.table[service].facts.is_led()
        {
            self.services.mark(service);
        }
    }

    /// Returns whether endpoints of a Service must wait for its other slices to go: with more than one slice in a family,
    /// clients might see the old leader and the new one at once.
    pub(in crate::core::namespace) fn waits_for_single_slice(&self, id: ServiceId, family: Family) -> bool {
        let service = &self.services.table[id];
        service.facts.is_led() && {
            let slices = service.slices.iter().map(|slice| &self.slices[slice]);
            let counts =
                slices.filter(|slice| slice.family == family || slice.object.phase != Phase::Managed);
            counts.count() > 1
        }
    }
}
