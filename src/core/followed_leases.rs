//! The Leases that Services of one namespace follow: they publish only the pod that holds the Lease. These Leases belong to
//! others; this process only reads them.
//!
//! `FollowedLeases` knows Leases and the numbers of the Services that follow them, and answers two questions: which Services
//! are to be judged again after a change, and who leads one of them (`FollowedLeases::judge`, the only place that decides
//! it). Pods and slices are not known here: the caller passes in the pods that a holder may be, and whether other controllers
//! publish the Service as well. [`lease`] has the rules for one Lease.

mod following;
pub mod lease;
pub(crate) mod reads;
mod retention;
mod rounds;

pub use following::LeaderStatus;
pub(crate) use following::{Following, Settled};
pub(crate) use rounds::{Applied, LeaseRound};

use self::lease::{
    FollowedLease, Leader, LeaseAnswer, LeaseEffect, LeaseRequest, NumberedRead, Vacancy, holder_name,
    is_lease_name,
};
use self::retention::Retention;
use super::compact::small::SmallSet;
use super::deadlines::Deadlines;
use super::hash::KeyedMap;
use super::ids::{PodId, ServiceId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The Leases that Services of the namespace follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FollowedLeases {
    /// Counts the requests to follow, so that late reports of an earlier one are recognized. Where the count begins depends on the
    /// shard.
    generation: u64,
    /// When this process began to follow them.
    begun: Option<Duration>,
    listed: bool,
    /// Counts the lists.
    lists: u64,
    /// Counts the reads that were taken back.
    taken_back: u64,
    /// The Leases by name. They are sorted, so that work on all of them is done in steps, in an order that does not depend on
    /// hashes.
    followed: BTreeMap<Arc<str>, Followed>,
    /// When to look at them next.
    wakes: Deadlines<Arc<str>>,
    /// Leases that no Service follows any more.
    retention: Retention,
    requests: Vec<LeaseRequest>,
    /// The Leases by the name that their holder's identity begins with.
    by_holder: KeyedMap<Box<str>, BTreeSet<Arc<str>>>,
}

/// A Lease and the Services that follow it.
#[derive(Clone, Debug, Default)]
struct Followed {
    lease: FollowedLease,
    /// The number of its last read.
    read: u64,
    /// Its entry in [`FollowedLeases::by_holder`].
    holder: Option<Box<str>>,
    /// The number of the last list that showed it.
    listed_in: u64,
    services: SmallSet<ServiceId>,
    /// The Services that follow it and publish no pod.
    vacant: SmallSet<ServiceId>,
}

/// The Services to be judged again after a change of a Lease.
#[derive(Clone, Default, Debug)]
pub(crate) struct Concerned {
    /// The Services.
    pub(crate) services: VecDeque<ServiceId>,
    /// True if the Lease was seen to change, so that its holder may be taken in.
    pub(crate) joins: bool,
}

/// The decision about the pod that a Service publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaderDecision {
    /// The pods that are published, and the reason.
    pub(crate) status: LeaderStatus,
    /// The member that stays. All others leave.
    pub(crate) keeps: Option<PodId>,
    /// The pod to be taken in.
    pub(crate) takes: Option<PodId>,
}

impl Concerned {
    /// Returns the units of work that it takes to list the Services, besides those of judging them.
    pub(crate) fn units(&self) -> u64 {
        self.services.len() as u64 / 16
    }
}

impl LeaderDecision {
    fn nobody(status: LeaderStatus) -> Self {
        Self {
            status,
            keeps: None,
            takes: None,
        }
    }
}

impl FollowedLeases {
    /// Returns whether no Lease is followed, and the watch has been left.
    pub(crate) fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Takes the requests about Leases since the last call.
    pub(crate) fn take_requests(&mut self) -> Vec<LeaseRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Begins to follow the Lease of a Service.
    pub(crate) fn follow(&mut self, service: ServiceId, name: &Arc<str>, now: Duration) {
        if !is_lease_name(name) {
            return;
        }
        if self.followed.is_empty() {
            self.retention.begin(now);
            self.start();
        }
        let (begun, listed) = (self.begun, self.listed);
        let followed = self.followed.entry(name.clone()).or_default();
        self.retention.take_back(name);
        followed.services.insert(service);
        if listed {
            if followed.lease.ask() {
                self.ask_for(name);
            }
        } else if let Some(begun) = begun {
            followed.lease.begun(begun);
        }
        self.rearm(name);
    }

    /// Ends what [`Self::follow`] began. If no other Service follows the Lease, it is still followed for a while, unless there are
    /// too many such Leases. Returns the number of those that are forgotten because of that.
    pub(crate) fn unfollow(&mut self, service: ServiceId, name: &Arc<str>, now: Duration) -> u64 {
        let Some(followed) = self.followed.get_mut(name) else {
            return 0;
        };
        followed.services.remove(&service);
        followed.vacant.remove(&service);
        if !followed.services.is_empty() {
            return 0;
        }
        self.retention.keep(name, now);
        let mut forgotten = 0;
        while let Some(name) = self.retention.pop_excess(self.followed.len()) {
            self.drop_lease(&name, now);
            forgotten += 1;
        }
        forgotten
    }

    /// Forgets a Lease that no Service follows, and leaves the watch with the last one.
    fn drop_lease(&mut self, name: &Arc<str>, now: Duration) {
        self.index_holder(name, None);
        let dropped = self.followed.remove(name);
        self.wakes.remove(name);
        if self.followed.is_empty() {
            self.retention.leave(now);
            self.requests.push(LeaseRequest::Leave);
        } else if let Some(dropped) = dropped.filter(|dropped| dropped.lease.is_reading()) {
            self.take_back(name, dropped.read);
        }
    }

    /// Asks for a read of a Lease.
    fn ask_for(&mut self, name: &Arc<str>) {
        if let Some(followed) = self.followed.get_mut(name) {
            followed.read = self.taken_back;
            let (name, number) = (name.clone(), followed.read);
            let request = LeaseRequest::Read(self.generation, NumberedRead { name, number });
            self.requests.push(request);
        }
    }

    /// Takes a read back, whose answer counts for nothing from now on.
    fn take_back(&mut self, name: &Arc<str>, number: u64) {
        self.taken_back += 1;
        let name = name.clone();
        self.requests
            .push(LeaseRequest::Cancel(NumberedRead { name, number }));
    }

    /// Begins the numbers of requests to follow at a number that belongs to this shard alone.
    pub(crate) fn begin_generations(&mut self, ordinal: u32) {
        self.generation = u64::from(ordinal) << 32;
    }

    fn start(&mut self) {
        self.generation += 1;
        // All reads before it.
        self.taken_back += 1;
        (self.begun, self.listed) = (None, false);
        self.requests.push(LeaseRequest::Follow(self.generation));
    }

    // === news of Leases ===

    /// Returns when to call [`Self::look_at_one`] next.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        [self.wakes.next(), self.retention.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Looks at one of the Leases whose time has come, and returns the Services that this concerns, or forgets a Lease that no
    /// Service has followed for a while. Returns `None` if there is no such Lease.
    pub(crate) fn look_at_one(&mut self, now: Duration) -> Option<Concerned> {
        if let Some(name) = self.retention.pop_due(now) {
            self.drop_lease(&name, now);
            return Some(Concerned::default());
        }
        let name = self.wakes.pop_due(now)?;
        let followed = self.followed.get_mut(&name);
        let followed = followed.expect("only a Lease that is followed is looked at");
        let published = followed.services.len() > followed.vacant.len();
        let (reads, effect) = followed.lease.due(now, published);
        if reads {
            self.ask_for(&name);
        }
        Some(self.enact(&name, effect).unwrap_or_default())
    }

    fn apply_to_one(
        &mut self,
        name: &Arc<str>,
        apply: impl FnOnce(&mut FollowedLease) -> LeaseEffect,
    ) -> Option<Concerned> {
        let followed = self.followed.get_mut(name)?;
        let was_reading = followed.lease.is_reading();
        let effect = apply(&mut followed.lease);
        if was_reading && !followed.lease.is_reading() {
            let number = followed.read;
            self.take_back(name, number);
        }
        self.enact(name, effect)
    }

    /// Applies the answer to a read, unless that was taken back.
    fn apply_read(&mut self, read: &NumberedRead, answer: &LeaseAnswer, at: Duration) -> Option<Concerned> {
        let NumberedRead { name, number } = read;
        let followed = self.followed.get_mut(name)?;
        if followed.read != *number {
            return None;
        }
        let lease = &mut followed.lease;
        let failures = lease.failures();
        let effect = lease.read(answer, at);
        if lease.failures() > failures {
            lease.postpone(rounds::spread(name, at));
        }
        self.enact(name, effect)
    }

    /// Returns those Services that follow a Lease which a change of it concerns.
    fn enact(&mut self, name: &Arc<str>, effect: LeaseEffect) -> Option<Concerned> {
        self.rearm(name);
        let followed = self.followed.get(name)?;
        let holder = followed.lease.holder().map(|holder| holder_name(holder).into());
        self.index_holder(name, holder);
        let followed = self.followed.get(name)?;
        let (services, joins) = match effect {
            LeaseEffect::None => return None,
            LeaseEffect::Judge => (&followed.services, false),
            LeaseEffect::Renewed { moved: true } => (&followed.services, true),
            LeaseEffect::Renewed { moved: false } => (&followed.vacant, true),
        };
        let services = services.iter().collect();
        Some(Concerned { services, joins })
    }

    /// Updates when a Lease is looked at next.
    fn rearm(&mut self, name: &Arc<str>) {
        let Some(followed) = self.followed.get(name) else {
            return;
        };
        match followed.lease.wake() {
            Some(wake) => self.wakes.set(name.clone(), wake),
            None => {
                self.wakes.remove(name);
            }
        }
    }

    /// Updates the name under which a Lease is found by the pod that holds it.
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

    // === who leads ===

    /// Returns the holder that a Lease names, even if its time has run out.
    pub(crate) fn holder(&self, lease: &str) -> Option<&str> {
        self.followed.get(lease)?.lease.holder()
    }

    /// Returns whether any Lease that is followed has a holder.
    pub(crate) fn have_holders(&self) -> bool {
        !self.by_holder.is_empty()
    }

    /// Returns the Services that follow a Lease whose holder has one of these names.
    pub(crate) fn services_held_by<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<ServiceId> {
        let names = names.into_iter();
        let leases = names.filter_map(|name| self.by_holder.get(name));
        let followed = leases.flatten().filter_map(|lease| self.followed.get(lease));
        followed.flat_map(|followed| followed.services.iter()).collect()
    }

    /// Decides who leads a Service that follows a Lease. `joins` says that the Lease was just seen to change, so that its
    /// holder may be taken in. `candidates` returns the pods that an identity may stand for and that the Service may
    /// publish, or `None` if there are too many to look at. `others` returns whether slices of other controllers hold
    /// endpoints of the Service, or `None` if that is not known. The result is `None` while the Lease is not known.
    pub(crate) fn decide_leader(
        &self,
        lease: &str,
        following: &Following,
        joins: bool,
        candidates: impl FnOnce(&str) -> Option<Vec<PodId>>,
        others: impl FnOnce() -> Option<bool>,
    ) -> Option<LeaderDecision> {
        // A name that no Lease can have is not followed.
        let no_lease = Leader::Nobody(Vacancy::NoLease);
        let followed = self.followed.get(lease);
        let leader = followed.map_or(no_lease, |followed| followed.lease.leader());
        let identity = match leader {
            Leader::Unknown => return None,
            Leader::Nobody(vacancy) => return Some(LeaderDecision::nobody(LeaderStatus::Vacant(vacancy))),
            Leader::Held(identity) => identity,
        };
        let pods = candidates(identity);
        Some(match pods.as_deref() {
            Some([]) => LeaderDecision::nobody(LeaderStatus::NoPod),
            None | Some([_, _, ..]) => LeaderDecision::nobody(LeaderStatus::SeveralPods),
            Some(&[pod]) => match others() {
                Some(true) => LeaderDecision::nobody(LeaderStatus::OthersPublish),
                _ if following.has(pod) => LeaderDecision {
                    status: LeaderStatus::Leads,
                    keeps: Some(pod),
                    takes: None,
                },
                // A slice has changed and has yet to be read, which does not show that others have ceased to publish.
                None if following.status() == LeaderStatus::OthersPublish => {
                    LeaderDecision::nobody(LeaderStatus::OthersPublish)
                }
                None if joins => LeaderDecision::nobody(LeaderStatus::OthersUnread),
                Some(false) if joins => LeaderDecision {
                    status: LeaderStatus::Leads,
                    keeps: None,
                    takes: Some(pod),
                },
                _ => LeaderDecision::nobody(LeaderStatus::AwaitsRenewal),
            },
        })
    }

    /// Records whether a Service that follows a Lease publishes no pod, because then each renewal of the Lease concerns it.
    pub(crate) fn note_vacancy(&mut self, service: ServiceId, lease: &str, vacant: bool) {
        if let Some(followed) = self.followed.get_mut(lease) {
            if vacant {
                followed.vacant.insert(service);
            } else {
                followed.vacant.remove(&service);
            }
        }
    }
}
