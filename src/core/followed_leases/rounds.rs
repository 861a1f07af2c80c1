//! Applies news of the Leases of a namespace. News that concern all of them are applied in steps: there may be a
//! hundred thousand, and other namespaces must not wait for all of them.

use super::lease::{FollowedLease, LeaseChange, LeaseEffect, LeaseEvent, LeaseFacts, LeaseList, ListMoment};
use super::{Concerned, FollowedLeases};
use crate::core::compact::small::SmallSet;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher as _;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

/// The largest jitter.
const LONGEST_SPREAD: Duration = Duration::from_secs(2);

/// A change that concerns all Leases, and how far it has been applied. Nothing else may be applied in between.
#[derive(Clone, Debug)]
pub(crate) enum LeaseRound {
    /// This process has begun to follow the Leases, at this time: those after this name are left.
    Begun(Duration, Option<Arc<str>>),
    /// The Leases were listed as of this moment, and the list came at this time: these are left.
    Listed(ListMoment, Duration, IntoIter<LeaseFacts>),
    /// The whole list has been applied, and Leases that it did not show are looked for: those after this name are left.
    Unlisted(ListMoment, Duration, Option<Arc<str>>),
    /// This process no longer follows the outputs: those after this name are left to be forgotten.
    Forgotten(Option<Arc<str>>),
}

/// The Leases that a change concerns.
#[derive(Debug)]
pub(crate) enum Applied {
    /// At most one Lease, which these Services follow.
    One(Option<Concerned>),
    /// All Leases.
    All(LeaseRound),
}

impl LeaseRound {
    /// Creates the round that forgets what is known of all Leases, because this process no longer follows the outputs.
    /// It follows the Leases again when it follows the outputs again.
    pub(crate) fn forget() -> Self {
        Self::Forgotten(None)
    }

    /// Returns the units of work of the next step of `count` Leases, besides one for each.
    pub(crate) fn units(&self, count: usize) -> u64 {
        match self {
            Self::Listed(_, _, all) => all.as_slice().iter().take(count).map(LeaseFacts::units).sum(),
            Self::Begun(..) | Self::Unlisted(..) | Self::Forgotten(_) => 0,
        }
    }
}

impl FollowedLeases {
    /// Applies what was learned of the namespace's Leases, unless it concerns all of them. Returns what it concerns.
    pub(crate) fn apply(&mut self, change: LeaseChange) -> Applied {
        let LeaseChange {
            generation,
            at,
            event,
        } = change;
        if generation != self.generation {
            return Applied::One(None);
        }
        Applied::One(match event {
            LeaseEvent::Begun => {
                self.begun = Some(at);
                return Applied::All(LeaseRound::Begun(at, None));
            }
            LeaseEvent::Listed(all) => {
                self.listed = true;
                self.lists += 1;
                let LeaseList { moment, leases } = all;
                return Applied::All(LeaseRound::Listed(moment, at, leases.into_iter()));
            }
            LeaseEvent::Seen(facts) => {
                self.apply_to_one(&facts.name, |lease| lease.seen(facts.version, &facts.record, at))
            }
            LeaseEvent::Gone(name, version) => self.apply_to_one(&name, |lease| lease.gone(version, at)),
            LeaseEvent::Read(read, answer) => self.apply_read(&read, &answer, at),
        })
    }

    /// Applies a change to the next `count` Leases. Returns the Services that this concerns, Lease by Lease, and the rest of the
    /// round.
    pub(crate) fn step(
        &mut self,
        round: LeaseRound,
        count: usize,
        now: Duration,
    ) -> (Vec<Concerned>, Option<LeaseRound>) {
        match round {
            LeaseRound::Begun(at, after) => {
                let begin = |lease: &mut FollowedLease| {
                    lease.begun(at);
                    LeaseEffect::None
                };
                let (concerned, last) = self.apply_to_some(after.as_ref(), count, |_| true, begin);
                (concerned, last.map(|last| LeaseRound::Begun(at, Some(last))))
            }
            LeaseRound::Listed(moment, at, mut all) => {
                let concerned = all.by_ref().take(count).filter_map(|facts| {
                    let followed = self.followed.get_mut(&facts.name)?;
                    followed.listed_in = self.lists;
                    let shown = Some((facts.version, &facts.record));
                    self.apply_to_one(&facts.name, |lease| lease.listed(moment, shown, at))
                });
                let concerned = concerned.collect();
                let rest = if all.len() > 0 {
                    LeaseRound::Listed(moment, at, all)
                } else {
                    LeaseRound::Unlisted(moment, at, None)
                };
                (concerned, Some(rest))
            }
            LeaseRound::Unlisted(moment, at, after) => {
                let lists = self.lists;
                let (concerned, last) = self.apply_to_some(
                    after.as_ref(),
                    count,
                    |listed_in| listed_in != lists,
                    |lease| lease.listed(moment, None, at),
                );
                let rest = last.map(|last| LeaseRound::Unlisted(moment, at, Some(last)));
                (concerned, rest)
            }
            LeaseRound::Forgotten(after) => {
                let rest = self.forget_some(after.as_ref(), count, now);
                (Vec::new(), rest)
            }
        }
    }

    /// Returns the names of the `count` Leases that follow one in order.
    fn some_after(&self, after: Option<&Arc<str>>, count: usize) -> Vec<Arc<str>> {
        let from = after.map_or(Unbounded, |name| Excluded(&**name));
        let some = self.followed.range::<str, _>((from, Unbounded)).take(count);
        some.map(|(name, _)| name.clone()).collect()
    }

    /// Applies a change to those of the `count` Leases after one whose last list passes the test. Returns the Services that this
    /// concerns, and the last of these Leases, if more may be left.
    fn apply_to_some(
        &mut self,
        after: Option<&Arc<str>>,
        count: usize,
        passes: impl Fn(u64) -> bool,
        apply: impl Fn(&mut FollowedLease) -> LeaseEffect,
    ) -> (Vec<Concerned>, Option<Arc<str>>) {
        let names = self.some_after(after, count);
        let passing = names
            .iter()
            .filter_map(|name| {
                let followed = self.followed.get(name)?;
                passes(followed.listed_in)
                    .then(|| self.apply_to_one(name, &apply))
                    .flatten()
            })
            .collect();
        (passing, last_of(names, count))
    }

    /// Forgets what is known of the `count` Leases after one. Returns the rest of the round.
    fn forget_some(&mut self, after: Option<&Arc<str>>, count: usize, now: Duration) -> Option<LeaseRound> {
        for _ in 0..count {
            let Some(name) = self.retention.pop() else {
                break;
            };
            self.drop_lease(&name, now);
        }
        if !self.retention.is_empty() {
            return Some(LeaseRound::Forgotten(None));
        }
        if self.followed.is_empty() {
            return None;
        }
        let names = self.some_after(after, count);
        for name in &names {
            if let Some(followed) = self.followed.get_mut(name) {
                followed.lease = FollowedLease::default();
                followed.vacant = SmallSet::default();
            }
            self.rearm(name);
            self.index_holder(name, None);
        }
        if let Some(last) = last_of(names, count) {
            return Some(LeaseRound::Forgotten(Some(last)));
        }
        self.start();
        None
    }
}

/// Returns the jitter to add to the pause before a failed read is repeated. Thousands of reads may fail at the same moment, and
/// should not all be repeated at once.
pub(super) fn spread(name: &str, at: Duration) -> Duration {
    LONGEST_SPREAD.mul_f64(f64::from(FxBuildHasher.hash_one((name, at)) as u32) / f64::from(u32::MAX))
}

/// Returns the last of these names, if there are `count` of them, as were asked for.
fn last_of(mut names: Vec<Arc<str>>, count: usize) -> Option<Arc<str>> {
    if names.len() < count {
        return None;
    }
    names.pop()
}
