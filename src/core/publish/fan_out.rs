//! Limits what API servers have to send to watchers because of our writes: the places for writes without an echo
//! ([`super::echo`]), the bytes to watchers ([`super::budget`]), and the time between two writes of an object.
//!
//! On a server that keeps up, and within the budget, nothing waits.

use super::budget::{self, FinalCost, Size, WatchBudget, WatchLimits};
use super::echo::{Beyond, Echoes, QUICK, Resource, WriteEffect};
use super::promptness::Promptness;
use super::signals::Signal;
use super::stuck::Stuck;
use super::throttling::Limit;
use crate::core::body::Request;
use crate::core::bucket::TokenBucket;
use crate::core::hash::{Hashed, HashedMap};
use crate::core::object::{ObjectKey, Output};
use crate::core::priority::Priority;
use crate::core::publish::queue::Classes;
use std::sync::Arc;
use std::time::Duration;

/// While echoes take longer than [`QUICK`], the gap between two writes of an object is the time of an echo multiplied by this.
const SPACING: u32 = 4;
/// The factor before a write that removes an endpoint.
const SPACING_OF_REMOVALS: u32 = 1;
/// The longest gap.
const MOST_SPACING: Duration = Duration::from_secs(2);
/// The writes of slices, and those of Endpoints, that go beyond the places in a second while our own watch is merely late or
/// quiet ([`Echoes::beyond`]). This is the rate that kube-controller-manager 1.36 allows itself by default
/// (`--kube-api-qps`), however late its own watch is.
const UPSTREAM_QPS: f64 = 20.0;
/// The writes that go beyond the places in a second while a watch is quiet. At this rate, the few that may go then are spread
/// over the time until the watch counts as silent.
const QUIET_QPS: f64 = 0.75;
/// For this long after a removal, only removals go beyond the places, unless our own watch is known to be late by itself: on a
/// server that is behind, each addition that goes beyond makes the next removals later, and takes the room that is kept
/// for them.
const KEPT: Duration = Duration::from_secs(5);
/// The length of a trial: when echoes become late, and again after pauses, additions go beyond the places all the same for this
/// long. Only with several writes on their way can it be found out that our own watch is late by itself.
const TRIAL: Duration = Duration::from_millis(500);
/// The first pause between two trials. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause, with which fewer than one in a hundred removals meet a trial on a server that is behind.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Number of written objects above which those that may be written again are dropped.
const WRITTEN_KEPT: usize = 1024;

/// The objects that may be written now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowed {
    /// The classes of objects that may go.
    pub classes: Classes,
    /// The classes that a limit holds back, each set with its limit.
    pub limited: [(Classes, Limit); 2],
}

/// The account of a grant, until its request is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct GrantCost {
    of_budget: budget::Paid,
    /// True if the write goes although no place is free, provided that something is written.
    beyond: bool,
}

/// The limits on what is sent to watchers. Owned by the publisher.
#[derive(Clone, Debug)]
pub(super) struct FanOut {
    echoes: Echoes,
    /// The rates of the writes that go beyond the places, by resource: while a watch is late, and while one is quiet.
    beyond: [TokenBucket; 2],
    quiet: [TokenBucket; 2],
    /// When a removal was last granted, by resource.
    removed: [Option<Duration>; 2],
    /// The last trial since echoes became late, by resource.
    trials: [Option<Trial>; 2],
    /// When a write may next go beyond the places if no echo comes before, by resource. `None` if that was not refused when it
    /// was last asked.
    beyond_at: [Option<Duration>; 2],
    /// The largest number of places while there are other watchers.
    places: u16,
    budget: WatchBudget,
    /// When objects were last written while echoes were not quick.
    written: HashedMap<ObjectKey, Duration>,
    /// The costs of the requests in flight.
    paid: HashedMap<ObjectKey, FinalCost>,
    /// The bytes that watchers were sent since this was last taken.
    sent: f64,
    /// The number of writes that went beyond the places since it was last taken, by resource.
    gone_beyond: [u64; 2],
}

/// A time in which additions go beyond the places.
#[derive(Clone, Copy, Debug)]
struct Trial {
    since: Duration,
    /// The time from its begin to that of the next one.
    pause: Duration,
}

impl Trial {
    /// Returns the last trial after an addition has gone beyond the places.
    fn after(last: Option<Self>, now: Duration) -> Self {
        match last {
            Some(last) if now < last.next() => last,
            Some(last) => Self {
                since: now,
                pause: (last.pause * 2).min(LONGEST_PAUSE),
            },
            None => Self {
                since: now,
                pause: FIRST_PAUSE,
            },
        }
    }

    fn next(self) -> Duration {
        self.since + self.pause
    }
}

impl FanOut {
    pub(super) fn new(limits: WatchLimits) -> Self {
        let budget = WatchBudget::new(limits);
        let mut fan_out = Self {
            echoes: Echoes::default(),
            beyond: [(); 2].map(|()| TokenBucket::new(UPSTREAM_QPS, 1)),
            quiet: [(); 2].map(|()| TokenBucket::new(QUIET_QPS, 1)),
            removed: [None; 2],
            trials: [None; 2],
            beyond_at: [None; 2],
            places: limits.places,
            budget,
            written: HashedMap::default(),
            paid: HashedMap::default(),
            sent: 0.0,
            gone_beyond: [0; 2],
        };
        fan_out.count_watchers();
        fan_out
    }

    fn count_watchers(&mut self) {
        let watched = self.budget.watchers() > 0.0;
        self.echoes.set_most_places(watched.then_some(self.places));
    }

    /// Lets the time pass.
    pub(super) fn pass(&mut self, now: Duration) {
        self.echoes.pass(now);
    }

    /// Returns what may be written now.
    pub(super) fn allow(&mut self, now: Duration) -> Allowed {
        self.budget.set_blind(!self.echoes.counts(Resource::Slices), now);
        let (removals, others) = self.budget.allow(now);
        let by_budget = refused(Resource::Slices, removals, others);
        let mut by_echo = Classes::NONE;
        self.beyond_at = [None; 2];
        for resource in Resource::ALL {
            if self.is_unlimited(resource) {
                let may = self.has_token(resource, Beyond::Late, now);
                if let Err(at) = may {
                    self.note_beyond(resource, at);
                    by_echo = by_echo.or(refused(resource, false, false));
                    continue;
                }
                if !self.echoes.any_counts(resource) {
                    continue;
                }
            }
            let (removals, others) = self.echoes.allow(resource);
            if removals && others {
                continue;
            }
            let beyond = self.may_go_beyond(resource, now);
            let kept_until = self.kept_until(resource, now).filter(|_| beyond && !others);
            if let Some(until) = kept_until {
                self.note_beyond(resource, until);
            }
            let others = others || beyond && kept_until.is_none();
            by_echo = by_echo.or(refused(resource, removals || beyond, others));
        }
        Allowed {
            classes: Classes::ALL.without(by_budget).without(by_echo),
            limited: [(by_echo, Limit::Echoes), (by_budget, Limit::Watchers)],
        }
    }

    /// Returns whether a write may go beyond the places.
    fn may_go_beyond(&mut self, resource: Resource, now: Duration) -> bool {
        let may = self.echoes.beyond(resource, now);
        let may = may.and_then(|beyond| self.has_token(resource, beyond, now).map_err(Some));
        if let Err(Some(at)) = may {
            self.note_beyond(resource, at);
        }
        may.is_ok()
    }

    /// Returns until when additions may not go beyond the places, if they may not now: a removal was granted lately, and it
    /// is not known that our own watch is late by itself.
    fn kept_until(&self, resource: Resource, now: Duration) -> Option<Duration> {
        let removed = self.removed[resource as usize]?;
        if now >= removed + KEPT || self.echoes.is_late_by_itself(resource) {
            return None;
        }
        let trial = self.trials[resource as usize]?;
        let trials = now < trial.since + TRIAL || now >= trial.next();
        (!trials).then_some((removed + KEPT).min(trial.next()))
    }

    /// Returns whether another write may go beyond the places now as far as their rate allows it, and if not, when it may.
    fn has_token(&mut self, resource: Resource, beyond: Beyond, now: Duration) -> Result<(), Duration> {
        let look = self.bucket(resource, beyond).look(now);
        look.map_err(|wait| now + wait)
    }

    fn bucket(&mut self, resource: Resource, beyond: Beyond) -> &mut TokenBucket {
        match beyond {
            Beyond::Late => &mut self.beyond[resource as usize],
            Beyond::Quiet => &mut self.quiet[resource as usize],
        }
    }

    fn note_beyond(&mut self, resource: Resource, at: Duration) {
        let known = &mut self.beyond_at[resource as usize];
        *known = Some(known.map_or(at, |known| known.min(at)));
    }

    /// Returns whether nothing limits the writes of a resource that others watch, or of one of its outputs: its own watch tells
    /// nothing, and there is no budget for it. Then they go at kube-controller-manager's rate.
    fn is_unlimited(&self, resource: Resource) -> bool {
        let has_budget = resource == Resource::Slices && self.budget.has_limit();
        self.budget.watchers() > 0.0 && !has_budget && !self.echoes.counts(resource)
    }

    /// Returns when more may be written than [`Self::allow`] has said, if no echo comes.
    pub(super) fn wake(&self, now: Duration) -> Option<Duration> {
        let budget = [self.budget.wait(), self.budget.wait_of_removals()];
        let budget = budget.into_iter().filter(|wait| !wait.is_zero()).min();
        let known = [
            budget.map(|wait| now + wait),
            self.budget.owed_until(now),
            self.echoes.wake(now),
        ];
        known.into_iter().chain(self.beyond_at).flatten().min()
    }

    /// Returns how many namespaces are in debt for huge writes.
    pub(super) fn debtors(&self) -> usize {
        self.budget.debtors()
    }

    /// Returns the namespace that owes most, and how many bytes for each watcher.
    pub(super) fn worst_debtor(&self) -> Option<(Arc<str>, f64)> {
        self.budget.worst_debtor()
    }

    /// Returns a test of whether a namespace has to wait with a class, because its writes cost more than they have paid.
    pub(super) fn owes(&self, now: Duration) -> impl Fn(usize, u64) -> bool {
        move |class, tenant| {
            let removes = Classes::SLICE_REMOVALS.has(class);
            (removes || Classes::SLICE_OTHERS.has(class)) && self.budget.holds(tenant, removes, now)
        }
    }

    /// Returns a test of whether a namespace has to leave the places of a class's resource to others whose writes are answered more
    /// promptly. A request that hangs holds its place for a while, and there are fewer of them than the window has.
    pub(super) fn crowds(&self, stuck: &Stuck, now: Duration) -> impl Fn(usize, u64) -> bool {
        let slowest = Resource::ALL.map(|resource| self.slowest(resource, stuck, now));
        let removals = Classes::SLICE_REMOVALS.or(Classes::ENDPOINTS_REMOVALS);
        move |class, tenant| {
            let [of_removals, of_others] = slowest[usize::from(!Classes::SLICES.has(class))];
            let slowest = if removals.has(class) {
                of_removals
            } else {
                of_others
            };
            stuck.is_slower(tenant, slowest)
        }
    }

    /// Returns the classes in which [`Self::crowds`] has some namespaces wait.
    pub(super) fn crowded(&self, stuck: &Stuck, now: Duration) -> Classes {
        let mut classes = Classes::NONE;
        for resource in Resource::ALL {
            let [removals, others] = self
                .slowest(resource, stuck, now)
                .map(|it| it == Promptness::Slow);
            classes = classes.or(refused(resource, removals, others));
        }
        classes
    }

    /// Returns how slow a namespace may be to take a place of a resource for a removal, and for another write.
    fn slowest(&self, resource: Resource, stuck: &Stuck, now: Duration) -> [Promptness; 2] {
        let unanswered = self.echoes.unanswered(resource);
        let [all, others] =
            unanswered.map(|(places, [_, unknown, slow])| stuck.slowest(places, slow, unknown, now));
        [all, all.min(others)]
    }

    /// Returns how long an object that exists waits until it may be written again.
    pub(super) fn spacing(&self, key: &Hashed<ObjectKey>, priority: Priority, now: Duration) -> Duration {
        let late = self.echoes.late(Resource::from(key.object.output), now);
        if late <= QUICK {
            return Duration::ZERO;
        }
        let Some(written) = self.written.get(key) else {
            return Duration::ZERO;
        };
        let times = match priority {
            Priority::Remove => SPACING_OF_REMOVALS,
            Priority::Add | Priority::Rest => SPACING,
        };
        (*written + (late * times).min(MOST_SPACING)).saturating_sub(now)
    }

    /// Records that an object was granted. Its cost is settled when its request is known.
    pub(super) fn granted(
        &mut self,
        key: &Hashed<ObjectKey>,
        priority: Priority,
        promptness: Promptness,
        now: Duration,
    ) -> GrantCost {
        let resource = Resource::from(key.object.output);
        let (removals, others) = self.echoes.allow(resource);
        let has_place = if priority == Priority::Remove {
            removals
        } else {
            others
        };
        let is_unlimited = self.is_unlimited(resource) && !self.echoes.counts_of(key.object.output);
        let beyond = !has_place || is_unlimited;
        if beyond {
            self.goes_beyond(resource, priority, is_unlimited, now);
        }
        if priority == Priority::Remove {
            self.removed[resource as usize] = Some(now);
        }
        self.echoes.granted(key, priority, promptness, now);
        if self.echoes.late(resource, now) > QUICK {
            if self.written.len() >= WRITTEN_KEPT {
                self.written.retain(|_, written| *written + MOST_SPACING > now);
            }
            self.written.insert(key.clone(), now);
        } else {
            self.written.remove(key);
            self.trials[resource as usize] = None;
        }
        let of_budget = match resource {
            Resource::Slices => self.budget.pay(priority == Priority::Remove),
            Resource::Endpoints => budget::Paid::NOTHING,
        };
        GrantCost { of_budget, beyond }
    }

    /// Records that a write goes although no place is free.
    fn goes_beyond(&mut self, resource: Resource, priority: Priority, is_unlimited: bool, now: Duration) {
        let beyond = match self.echoes.beyond(resource, now) {
            Ok(beyond) if !is_unlimited => beyond,
            Ok(_) | Err(_) => Beyond::Late,
        };
        // Where it is refused, the queue had nothing that could go otherwise.
        let _ = self.bucket(resource, beyond).take(now);
        if priority != Priority::Remove {
            let trial = &mut self.trials[resource as usize];
            *trial = Some(Trial::after(*trial, now));
        }
    }

    /// Records the request that an object was granted for.
    pub(super) fn built(
        &mut self,
        key: &Hashed<ObjectKey>,
        paid: GrantCost,
        request: &Request,
        now: Duration,
    ) {
        let size = match request {
            Request::Fetch | Request::Probe => return self.nothing(key, paid, now),
            Request::Create(body) | Request::Update(body) => Size::Bytes(body.len()),
            Request::Delete(_) => Size::Unknown,
        };
        let resource = Resource::from(key.object.output);
        self.gone_beyond[resource as usize] += u64::from(paid.beyond);
        if resource == Resource::Slices {
            let cost = self.budget.correct(paid.of_budget, Some(size), now);
            self.budget.owe(&key.namespace, cost, now);
            if self.budget.watchers() > 0.0 {
                self.paid.insert(key.clone(), cost);
            }
        }
    }

    /// Records that nothing is written for an object that was granted.
    pub(super) fn nothing(&mut self, key: &Hashed<ObjectKey>, paid: GrantCost, now: Duration) {
        self.budget.correct(paid.of_budget, None, now);
        self.answered(key, WriteEffect::Nothing, now);
    }

    /// Records the effect of a request, or that none is sent.
    pub(super) fn answered(&mut self, key: &Hashed<ObjectKey>, effect: WriteEffect, now: Duration) {
        match self.paid.remove(key) {
            Some(cost) if effect == WriteEffect::Nothing => self.budget.refund(&key.namespace, cost),
            Some(cost) => self.sent += cost.sent,
            None => {}
        }
        self.echoes.answered(key, effect, now);
    }

    /// Takes in what our own watches have shown.
    pub(super) fn signalled(&mut self, signal: &Signal, now: Duration) {
        match signal {
            Signal::Opened(output, from) => self.echoes.opened(*output, *from, now),
            Signal::Shown { output, version, at } => self.echoes.shown(*output, *version, *at),
            Signal::Deleted { key, at } => self.echoes.deleted(key, *at),
            Signal::Nodes(nodes) => {
                self.budget.set_nodes(*nodes, now);
                self.count_watchers();
            }
        }
    }

    /// See [`Echoes::due`].
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        self.echoes.due(now)
    }

    /// See [`Echoes::stalled`].
    pub(super) fn stalled(&mut self, from: Duration, to: Duration) {
        self.echoes.stalled(from, to);
    }

    /// Returns the number of watchers of slices.
    pub(super) fn watchers(&self) -> f64 {
        self.budget.watchers()
    }

    /// Returns the places for writes without an echo, and how many are held.
    pub(super) fn places(&self, resource: Resource) -> (usize, usize) {
        self.echoes.places(resource)
    }

    /// Takes the bytes that watchers were sent since the last call.
    pub(super) fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.sent) as u64
    }

    /// Takes the number of writes of each resource that went beyond the places since the last call.
    pub(super) fn take_beyond(&mut self) -> [u64; 2] {
        std::mem::take(&mut self.gone_beyond)
    }

    /// See [`Echoes::take_heard`].
    pub(super) fn take_heard(&mut self) -> std::vec::Drain<'_, (Output, Duration)> {
        self.echoes.take_heard()
    }

    /// Returns the time from one write of a slice to the next while only these limits hold it back.
    pub(super) fn pace(&self, now: Duration) -> Option<Duration> {
        let (places, _) = self.echoes.places(Resource::Slices);
        let usual = self.echoes.usual(Resource::Slices, now);
        let echoes = (usual > QUICK).then(|| usual / places as u32);
        self.budget.pace().into_iter().chain(echoes).max()
    }

    /// Forgets all writes, since this process writes no more.
    pub(super) fn clear(&mut self) {
        self.echoes.clear();
        self.written.clear();
        self.paid.clear();
        self.budget.forgive_all();
    }
}

/// Returns the classes of a resource that may not go.
fn refused(resource: Resource, removals: bool, others: bool) -> Classes {
    let (of_removals, of_others) = match resource {
        Resource::Slices => (Classes::SLICE_REMOVALS, Classes::SLICE_OTHERS),
        Resource::Endpoints => (Classes::ENDPOINTS_REMOVALS, Classes::ENDPOINTS_OTHERS),
    };
    match (removals, others) {
        (true, true) => Classes::NONE,
        (true, false) => of_others,
        (false, true) => of_removals,
        (false, false) => of_removals.or(of_others),
    }
}

#[cfg(test)]
mod tests;
