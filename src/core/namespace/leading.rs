//! Services that publish only the pod that leads: the Leases that they follow, and the one pod that each has.
//!
//! A pod is taken in only when the Lease of its Service is seen to change, and leaves at once when anything says that it
//! does not lead. Until a Lease has been seen, what is published stays. [`crate::core::leader`] has the rules for one
//! Lease.

use super::NamespaceState;
use super::passes::Pass;
use crate::core::address::Family;
use crate::core::compact::small::SmallSet;
use crate::core::facts::{Manager, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::ids::{PodId, ServiceId, SliceId};
use crate::core::leader::{
    Effect, FollowedLease, LeaseChange, LeaseEvent, LeaseFacts, LeaseRequest, Vacancy, Verdict, holder_name,
    is_lease_name,
};
use crate::core::object::Phase;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a Lease is followed on after the last Service has ceased to follow it, and with it the watch of the namespace's
/// Leases: to begin to follow takes a list of all of them, which may be megabytes, and one annotation of one Service may
/// come and go many times a second. The time doubles with each list that comes soon after the last one.
const KEPT: Duration = Duration::from_secs(60);
/// The longest such time.
const KEPT_LONGEST: Duration = Duration::from_secs(960);
/// How many pods that an identity may stand for are looked at. Nobody leads if there are more.
const MOST_CANDIDATES: usize = 64;

/// Who is published for a Service that follows a Lease.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LeaderStatus {
    /// Whoever was published before, since nothing is known of the Lease yet.
    #[default]
    Unknown,
    /// The holder of the Lease.
    Leads,
    /// Nobody: the Lease has a holder, but has not been seen to change since.
    AwaitsRenewal,
    /// Nobody, because nobody holds the Lease.
    Vacant(Vacancy),
    /// Nobody: no pod that the Service may publish has the name in the Lease.
    NoPod,
    /// Nobody: several pods have the name in the Lease.
    SeveralPods,
    /// Nobody: slices of other controllers hold endpoints of the Service.
    OthersPublish,
    /// Nobody is added until it has been read whether slices of other controllers hold endpoints of the Service.
    OthersUnread,
}

/// The Leases that Services of the namespace follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    /// Counts the requests to follow, so that late reports of an earlier one are recognized.
    generation: u64,
    /// When this process began to follow them.
    begun: Option<Duration>,
    listed: bool,
    followed: KeyedMap<Arc<str>, Followed>,
    wakes: BTreeSet<(Duration, Arc<str>)>,
    /// Leases that no Service follows any more, by when they are forgotten.
    kept: BTreeSet<(Duration, Arc<str>)>,
    /// How long they are kept.
    keeps_for: Duration,
    /// When the watch was last left.
    left: Option<Duration>,
    requests: Vec<LeaseRequest>,
    /// The Leases by the name that their holder's identity begins with.
    by_holder: KeyedMap<Box<str>, BTreeSet<Arc<str>>>,
}

/// A Lease and the Services that follow it.
#[derive(Clone, Debug, Default)]
struct Followed {
    lease: FollowedLease,
    /// Its entry in [`Leases::wakes`].
    wake: Option<Duration>,
    /// Its entry in [`Leases::by_holder`].
    holder: Option<Box<str>>,
    /// Its entry in [`Leases::kept`].
    until: Option<Duration>,
    services: SmallSet<ServiceId>,
    /// Those that publish nobody.
    vacant: SmallSet<ServiceId>,
}

impl Leases {
    /// Returns whether no Lease is followed, and the watch has been left.
    pub(super) fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Begins to follow the namespace's Leases for the first of them.
    fn begin(&mut self, now: Duration) {
        let soon = self.left.is_some_and(|left| now < left + 4 * self.keeps_for);
        self.keeps_for = if soon {
            KEPT_LONGEST.min(2 * self.keeps_for)
        } else {
            KEPT
        };
        self.follow();
    }

    /// Keeps a Lease that no Service follows any more, for a while.
    fn keep(&mut self, name: &Arc<str>, now: Duration) {
        let Some(followed) = self.followed.get_mut(name) else {
            return;
        };
        let until = now + self.keeps_for;
        followed.until = Some(until);
        self.kept.insert((until, name.clone()));
    }

    /// Forgets one of the Leases that no Service has followed for a while. Returns whether there was one.
    fn forget_one(&mut self, now: Duration) -> bool {
        if self.kept.first().is_none_or(|(until, _)| *until > now) {
            return false;
        }
        let Some((_, name)) = self.kept.pop_first() else {
            return false;
        };
        self.forget(&name, now);
        true
    }

    /// Forgets a Lease, and leaves the watch with the last one.
    fn forget(&mut self, name: &Arc<str>, now: Duration) {
        self.index_holder(name, None);
        if let Some(wake) = self.followed.remove(name).and_then(|followed| followed.wake) {
            self.wakes.remove(&(wake, name.clone()));
        }
        if self.followed.is_empty() {
            self.left = Some(now);
            self.requests.push(LeaseRequest::Leave);
        }
    }

    /// Updates when a Lease is looked at next.
    fn rearm(&mut self, name: &Arc<str>) {
        let Some(followed) = self.followed.get_mut(name) else {
            return;
        };
        let wake = followed.lease.wake();
        if followed.wake == wake {
            return;
        }
        if let Some(old) = std::mem::replace(&mut followed.wake, wake) {
            self.wakes.remove(&(old, name.clone()));
        }
        self.wakes.extend(wake.map(|wake| (wake, name.clone())));
    }

    /// Updates under which name a Lease is found by the pod that holds it.
    fn index_holder(&mut self, name: &Arc<str>, holder: Option<Box<str>>) {
        let Some(followed) = self.followed.get_mut(name) else {
            return;
        };
        if followed.holder == holder {
            return;
        }
        if let Some(old) = std::mem::replace(&mut followed.holder, holder.clone())
            && let Some(leases) = self.by_holder.get_mut(&old)
        {
            leases.remove(name);
            if leases.is_empty() {
                self.by_holder.remove(&old);
            }
        }
        if let Some(holder) = holder {
            self.by_holder.entry(holder).or_default().insert(name.clone());
        }
    }

    fn follow(&mut self) {
        self.generation += 1;
        (self.begun, self.listed) = (None, false);
        self.requests.push(LeaseRequest::Follow(self.generation));
    }
}

impl NamespaceState {
    /// Takes the requests about Leases since the last call.
    pub fn take_lease_requests(&mut self) -> Vec<LeaseRequest> {
        std::mem::take(&mut self.leases.requests)
    }

    /// Returns when to call [`Self::look_at_leases`] next.
    pub fn next_look_at_leases(&self) -> Option<Duration> {
        let first = |times: &BTreeSet<(Duration, _)>| times.first().map(|(time, _)| *time);
        let times = [first(&self.leases.wakes), first(&self.leases.kept)];
        times.into_iter().flatten().min()
    }

    /// Looks at the Leases whose time has come.
    pub fn look_at_leases(&mut self, now: Duration) {
        while self.begin_look_at_lease(now) {
            self.finish_passes();
        }
    }

    /// Looks at one of the Leases whose time has come, but leaves the visits to Services to [`Self::step_passes`].
    /// Returns false if there is none.
    pub fn begin_look_at_lease(&mut self, now: Duration) -> bool {
        if self.leases.forget_one(now) {
            return true;
        }
        let Some((wake, name)) = self.leases.wakes.first().cloned() else {
            return false;
        };
        if wake > now {
            return false;
        }
        self.leases.wakes.pop_first();
        let followed = self.leases.followed.get_mut(&name);
        let followed = followed.expect("only a Lease that is followed is looked at");
        followed.wake = None;
        let published = followed.services.len() > followed.vacant.len();
        let (reads, effect) = followed.lease.due(now, published);
        if reads {
            let request = LeaseRequest::Read(self.leases.generation, name.clone());
            self.leases.requests.push(request);
        }
        self.enact(&name, effect);
        true
    }

    /// Applies what was learned of the namespace's Leases.
    pub fn apply_leases(&mut self, change: &LeaseChange) {
        self.begin_leases(change);
        self.finish_passes();
    }

    /// Does what [`Self::apply_leases`] does, but leaves the visits to Services to [`Self::step_passes`].
    pub fn begin_leases(&mut self, change: &LeaseChange) {
        let LeaseChange {
            generation,
            at,
            ref event,
        } = *change;
        if generation != self.leases.generation {
            return;
        }
        let one = |leases: &mut Leases, name: &Arc<str>, apply: &dyn Fn(&mut FollowedLease) -> Effect| {
            let followed = leases.followed.get_mut(name);
            followed.map(|followed| (name.clone(), apply(&mut followed.lease)))
        };
        let effect = match event {
            LeaseEvent::Begun => {
                self.leases.begun = Some(at);
                return self.each_lease(|lease, _| {
                    lease.begun(at);
                    Effect::None
                });
            }
            LeaseEvent::Listed(all) => {
                self.leases.listed = true;
                let shown: KeyedMap<&str, &LeaseFacts> =
                    all.iter().map(|facts| (&*facts.name, facts)).collect();
                return self.each_lease(|lease, name| {
                    let shown = shown.get(name).map(|facts| (facts.version, &facts.record));
                    lease.listed(shown, at)
                });
            }
            LeaseEvent::Seen(facts) => one(&mut self.leases, &facts.name, &|lease| {
                lease.seen(facts.version, &facts.record, at)
            }),
            LeaseEvent::Gone(name, version) => one(&mut self.leases, name, &|lease| lease.gone(*version)),
            LeaseEvent::Read(name, answer) => one(&mut self.leases, name, &|lease| lease.read(answer, at)),
        };
        if let Some((name, effect)) = effect {
            self.enact(&name, effect);
        }
    }

    fn each_lease(&mut self, mut apply: impl FnMut(&mut FollowedLease, &str) -> Effect) {
        let followed = self.leases.followed.iter_mut();
        let mut effects: Vec<_> = followed
            .map(|(name, followed)| (name.clone(), apply(&mut followed.lease, name)))
            .collect();
        // What follows must not depend on hashes.
        effects.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, effect) in effects {
            self.enact(&name, effect);
        }
    }

    /// Has the Services that follow a Lease visited, as far as a change of it concerns them.
    fn enact(&mut self, name: &Arc<str>, effect: Effect) {
        self.leases.rearm(name);
        let Some(followed) = self.leases.followed.get(name) else {
            return;
        };
        let holder = followed.lease.holder().map(|holder| holder_name(holder).into());
        self.leases.index_holder(name, holder);
        let Some(followed) = self.leases.followed.get(name) else {
            return;
        };
        let (services, joins) = match effect {
            Effect::None => return,
            Effect::Judge => (&followed.services, false),
            Effect::Renewed { moved: true } => (&followed.services, true),
            Effect::Renewed { moved: false } => (&followed.vacant, true),
        };
        let services = services.iter().collect();
        self.passes.push_back(Pass::Lead(services, joins));
    }

    /// Begins to follow the Lease of a Service.
    pub(super) fn follow_lease(&mut self, id: ServiceId) {
        let Some(name) = self.services[id].facts.followed_lease().cloned() else {
            return;
        };
        if !is_lease_name(&name) {
            return;
        }
        if self.leases.followed.is_empty() {
            self.leases.begin(self.now);
        }
        let (begun, listed) = (self.leases.begun, self.leases.listed);
        let followed = self.leases.followed.entry(name.clone()).or_default();
        if let Some(until) = followed.until.take() {
            self.leases.kept.remove(&(until, name.clone()));
        }
        followed.services.insert(id);
        if listed {
            if followed.lease.ask() {
                let request = LeaseRequest::Read(self.leases.generation, name.clone());
                self.leases.requests.push(request);
            }
        } else if let Some(begun) = begun {
            followed.lease.begun(begun);
        }
        self.leases.rearm(&name);
    }

    /// Ends what [`Self::follow_lease`] began. If no other Service follows the Lease, it is followed on for a while.
    pub(super) fn unfollow_lease(&mut self, id: ServiceId) {
        let Some(name) = self.services[id].facts.followed_lease().cloned() else {
            return;
        };
        let Some(followed) = self.leases.followed.get_mut(&name) else {
            return;
        };
        followed.services.remove(&id);
        followed.vacant.remove(&id);
        if followed.services.is_empty() && followed.until.is_none() {
            self.leases.keep(&name, self.now);
        }
    }

    /// Forgets what is known of all Leases, because this process no longer follows the outputs. It follows the Leases
    /// again when it does.
    pub(super) fn forget_leases(&mut self) {
        for (_, name) in std::mem::take(&mut self.leases.kept) {
            self.leases.forget(&name, self.now);
        }
        if self.leases.followed.is_empty() {
            return;
        }
        self.leases.wakes.clear();
        self.leases.by_holder = KeyedMap::default();
        for followed in self.leases.followed.values_mut() {
            (followed.lease, followed.wake) = (FollowedLease::default(), None);
            (followed.vacant, followed.holder) = (SmallSet::default(), None);
        }
        self.leases.follow();
    }

    /// Returns who is published for a Service that follows a Lease, and the holder that the Lease names.
    pub fn leader(&self, service: &str) -> Option<(LeaderStatus, Option<&str>)> {
        let service = &self.services[self.services.find(service)?];
        let status = service.following.as_ref()?.status;
        let followed = self.leases.followed.get(service.facts.followed_lease()?);
        Some((status, followed.and_then(|followed| followed.lease.holder())))
    }

    /// Returns the pods that the holder of a Service's Lease may be, by name, and of each whether the Service may publish
    /// it.
    pub fn leader_candidates(&self, service: &str) -> Vec<(&str, bool)> {
        let (Some((_, Some(holder))), Some(id)) = (self.leader(service), self.services.find(service)) else {
            return Vec::new();
        };
        let following = self.services[id].following.as_deref();
        let may = |pod| {
            following.is_some_and(|following| following.members.contains(&pod)) || self.may_lead(pod, id)
        };
        let pods = self.candidates(holder).unwrap_or_default().into_iter();
        let mut pods: Vec<_> = pods.map(|pod| (self.inputs.pod(pod).name(), may(pod))).collect();
        pods.sort_unstable();
        pods
    }

    /// Brings the pods of a Service in line with its Lease. `joins` says that the Lease was just seen to change, so that
    /// its holder may be taken in.
    pub(super) fn settle_leader(&mut self, id: ServiceId, joins: bool) {
        let Some(service) = self.services.get(id) else {
            return;
        };
        let (Some(following), Some(name)) = (&service.following, service.facts.followed_lease().cloned())
        else {
            return;
        };
        let decided = following.decided;
        let waiting = following.waits_for_others.clone();
        // What is published must be known first.
        if !decided && (self.starting || self.pending_lists.any() || service.awaiting > 0) {
            // The next plan decides.
            self.mark(id);
            return;
        }
        self.work.leaders_judged += 1;
        let holder = self.leases.followed.get(&name);
        let holder = holder.and_then(|followed| followed.lease.holder());
        // Its Lease was seen to change while it was not known whether others publish.
        let joins = joins || (waiting.is_some() && waiting.as_deref() == holder);
        let holder = holder.map(Into::into);
        let Some((status, keeps, takes)) = self.judge_leader(id, &name, joins) else {
            return;
        };
        let unread = self.others_publish(id).is_none();
        let former = self.last_leader(id);
        let members: Vec<PodId> = following.members.iter().collect();
        for pod in members.into_iter().filter(|pod| Some(*pod) != keeps) {
            self.part(pod, id);
        }
        if let Some(pod) = takes {
            let time = self.inputs.pod(pod).ready_time();
            self.services[id].note(time);
            self.join(pod, id);
            self.foresee_ports(pod, id);
            self.notify_takeover(id, pod, former.clone());
        }
        if !decided {
            self.mark(id);
        }
        let leader = keeps.or(takes).map(|pod| self.inputs.pod(pod).name().into());
        let Some(following) = &mut self.services[id].following else {
            return;
        };
        following.decided = true;
        following.last_leader = leader.or(former);
        let told_of = std::mem::replace(&mut following.told_of, holder.clone());
        let waits = joins && keeps.is_none() && takes.is_none() && unread;
        let other_holder = told_of != holder;
        following.waits_for_others = holder.filter(|_| waits);
        let before = std::mem::replace(&mut following.status, status);
        let vacant = following.members.is_empty();
        if let Some(followed) = self.leases.followed.get_mut(&name) {
            if vacant {
                followed.vacant.insert(id);
            } else {
                followed.vacant.remove(&id);
            }
        }
        if status != before {
            self.mark(id);
        }
        let names_holder = matches!(status, LeaderStatus::NoPod | LeaderStatus::SeveralPods);
        if status != before || (names_holder && other_holder) {
            self.notify_leader(id, status);
        }
    }

    /// Decides who leads a Service: the status, the member that stays, and the pod to take in. `None` while the Lease is
    /// not known.
    fn judge_leader(
        &self,
        id: ServiceId,
        lease: &str,
        joins: bool,
    ) -> Option<(LeaderStatus, Option<PodId>, Option<PodId>)> {
        let following = self.services[id].following.as_ref()?;
        // A name that no Lease can have is not followed.
        let no_lease = Verdict::Nobody(Vacancy::NoLease);
        let followed = self.leases.followed.get(lease);
        let verdict = followed.map_or(no_lease, |followed| followed.lease.verdict());
        let nobody = |status| Some((status, None, None));
        let identity = match verdict {
            Verdict::Unknown => return None,
            Verdict::Nobody(vacancy) => return nobody(LeaderStatus::Vacant(vacancy)),
            Verdict::Held(identity) => identity,
        };
        let Some(mut pods) = self.candidates(identity) else {
            return nobody(LeaderStatus::SeveralPods);
        };
        pods.retain(|pod| self.keeps_leader(*pod, id) || self.may_lead(*pod, id));
        match pods[..] {
            [] => nobody(LeaderStatus::NoPod),
            [_, _, ..] => nobody(LeaderStatus::SeveralPods),
            [pod] => {
                let others = self.others_publish(id);
                let leads = following.members.contains(&pod);
                match others {
                    Some(true) => nobody(LeaderStatus::OthersPublish),
                    _ if leads => Some((LeaderStatus::Leads, Some(pod), None)),
                    // That a slice has changed is no news of what it holds.
                    None if following.status == LeaderStatus::OthersPublish => {
                        nobody(LeaderStatus::OthersPublish)
                    }
                    None if joins => nobody(LeaderStatus::OthersUnread),
                    Some(false) if joins => Some((LeaderStatus::Leads, None, Some(pod))),
                    _ => nobody(LeaderStatus::AwaitsRenewal),
                }
            }
        }
    }

    /// Returns whether a Service may publish a pod if it leads.
    fn may_lead(&self, pod: PodId, id: ServiceId) -> bool {
        let facts = &self.services[id].facts;
        !facts.is_frozen() && (facts.selector.is_none() || self.inputs.selects(id, self.inputs.pod(pod)))
    }

    /// Returns whether a pod that leads a Service goes on to, as far as its labels say.
    pub(super) fn keeps_leader(&self, pod: PodId, id: ServiceId) -> bool {
        let service = &self.services[id];
        let following = service.following.as_deref();
        following.is_some_and(|following| following.members.contains(&pod))
            && if service.facts.is_frozen() {
                super::members::desired(self.inputs.pod(pod), service).ready()
            } else {
                self.may_lead(pod, id)
            }
    }

    /// Returns the pods that an identity may stand for: those whose name, hostname or, on the host's network, node it
    /// begins with. `None` if there are too many to look at.
    fn candidates(&self, identity: &str) -> Option<Vec<PodId>> {
        self.inputs.named(holder_name(identity), MOST_CANDIDATES)
    }

    /// Has the Services judged anew that a pod may lead, or may keep another from leading, since it has come or has
    /// changed.
    pub(super) fn judge_named(&mut self, id: PodId) {
        if self.leases.by_holder.is_empty() {
            return;
        }
        let names = self.inputs.names_of(id);
        let leases = names.iter().filter_map(|name| self.leases.by_holder.get(name));
        let followed = leases
            .flatten()
            .filter_map(|lease| self.leases.followed.get(lease));
        let services: Vec<_> = followed.flat_map(|followed| followed.services.iter()).collect();
        for service in services {
            self.mark(service);
        }
    }

    /// Returns whether slices of other controllers hold endpoints of a Service. `None` if none of those that have been read
    /// does, and some are yet to be read.
    fn others_publish(&self, id: ServiceId) -> Option<bool> {
        let slices = self.unmanaged.get(&self.services[id].facts.name);
        let mut unread = false;
        for id in slices.into_iter().flat_map(SmallSet::iter) {
            let slice = &self.slices[id];
            if slice.manager != Manager::Custom && slice.object.remote.is_some() {
                match slice.others_hold {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => unread = true,
                }
            }
        }
        (!unread).then_some(false)
    }

    /// Has a slice of another controller read, if it matters to a Service whether it holds endpoints.
    pub(super) fn learn_content(&mut self, id: SliceId) {
        let slice = &self.slices[id];
        let service = self.services.find(&slice.service_name);
        let led = service.is_some_and(|service| self.services[service].facts.is_led());
        let led_unread = led && slice.others_hold.is_none();
        let unread = self.needs_content(id) || led_unread;
        let slice = &self.slices[id];
        if unread
            && slice.manager == Manager::Builtin
            && slice.object.phase == Phase::Unmanaged
            && slice.object.remote.is_some()
        {
            self.slices[id].object.needs_refetch = true;
            self.slices.want(id);
        }
    }

    /// Handles the content of a slice of another controller, or of one that gives way to others.
    pub(super) fn learned_content(&mut self, id: SliceId, facts: &SliceFacts) {
        self.hold_content(id, facts);
        if let Some(slice) = self.slices.get_mut(id).filter(|slice| slice.gives_way) {
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
        self.check_replacement(&name);
        if let Some(service) = self.services.find(&name)
            && self.services[service].facts.is_led()
        {
            self.mark(service);
        }
    }

    /// Returns whether endpoints of a Service must wait for its other slices to go: with more than one slice in a family,
    /// clients might see the old leader and the new one at once.
    pub(super) fn waits_for_single_slice(&self, id: ServiceId, family: Family) -> bool {
        let service = &self.services[id];
        service.facts.is_led() && {
            let slices = service.slices.iter().map(|slice| &self.slices[slice]);
            let counts =
                slices.filter(|slice| slice.family == family || slice.object.phase != Phase::Managed);
            counts.count() > 1
        }
    }
}
