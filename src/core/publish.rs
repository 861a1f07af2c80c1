//! The write side as a pure state machine: it decides which object is written next, and when.
//!
//! ```text
//!            shards                                            API server
//!   Reports │    ▲ grant, outcome                                   ▲ request     │ answer
//!           ▼    │                                                  │             ▼
//!   ┌───────────────────────────────────────────────────────────────────────────────────┐
//!   │ Publisher: WriteQueue (turns, priorities) · TokenBucket · Window · FanOut         │
//!   └───────────────────────────────────────────────────────────────────────────────────┘
//!           ▲ signals: the versions that our own watches have shown, and the number of nodes
//! ```
//!
//! The publisher knows objects by name only. When one has a token and a place in flight, the publisher grants it; the
//! shard replies with the request, built from the state at that moment, or with nothing. Each object has at most one
//! grant or request out. The writer actor carries the messages; [`reports::Reports`] keeps the shards' reports of
//! each object in order, and lets namespaces take turns.
//!
//! [`queue`] orders the writes, and `window` learns how many of them the API server works on at once. `fan_out` limits what
//! watchers are sent, by means of `echo` and `budget`. `pauses`, `refusals`, `promptness` and `stuck` tell what a webhook does to its
//! namespaces from what the API server does to all.

mod budget;
mod echo;
mod fan_out;
mod pauses;
mod promptness;
pub mod queue;
mod refusals;
pub mod reports;
pub mod signals;
mod stuck;
pub mod throttling;
mod window;

pub use budget::{WatchLimits, Watchers};
pub use echo::{LATE, Resource, WriteEffect};

use super::backoff::Retry;
use super::body::Request;
use super::bucket::TokenBucket;
use super::hash::{Hashed, HashedMap, HashedSet, IdMap, KnownState, hash_of};
use super::leadership::Term;
use super::leadership::role::RoleChange;
use super::namespace::{BuiltRequest, WorkItem};
use super::object::{ObjectKey, Output};
use super::priority::Priority;
use fan_out::{FanOut, GrantCost};
use pauses::Pauses;
use promptness::Promptness;
use queue::{Classes, ObjectQueue, Urgency};
use refusals::Refusals;
use reports::{Reply, Reported};
use signals::Signal;
use std::sync::Arc;
use std::time::Duration;
use stuck::{End, Stuck};
use throttling::Limit;
use window::{Completed, Sign, Window};

/// The part of the rate limit at which a namespace may retry refused requests (403, 422), so that ten thousand
/// hopeless objects of one tenant do not use up what all others need.
const REFUSED_SHARE: f64 = 0.1;
/// The least rate of such retries, in requests per second.
const LEAST_REFUSED_RATE: f64 = 1.0;
/// Number of namespaces with refused requests above which those that no longer wait for their turn are dropped.
const REFUSED_KEPT: usize = 1024;

/// The limits that pace writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pacing {
    /// Requests per second; zero or less means no limit.
    pub qps: f64,
    /// Requests that may be sent at once after a pause.
    pub burst: u32,
    /// Requests in flight.
    pub in_flight: usize,
    /// The limits on what API servers send to watchers because of these requests.
    pub watch: WatchLimits,
    /// The time a change of a slice that exists waits to be batched with others.
    pub slice_batch: Duration,
    /// The time that a change of an Endpoints object that exists waits to be batched with others.
    pub endpoints_batch: Duration,
    /// The time that a change of a slice that mirrors Endpoints, and exists, waits to be batched with others.
    pub mirrored_batch: Duration,
}

impl Pacing {
    /// Limits nothing but the number of requests in flight, and batches nothing.
    pub const fn unlimited(in_flight: usize) -> Self {
        Self {
            qps: 0.0,
            burst: 1,
            in_flight,
            watch: WatchLimits::UNWATCHED,
            slice_batch: Duration::ZERO,
            endpoints_batch: Duration::ZERO,
            mirrored_batch: Duration::ZERO,
        }
    }
}

/// The result of a request, as far as it tells of the API server's load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// The API server has carried the request out.
    Answered,
    /// The API server answered, but has not carried the request out, which takes another time than if it had. If the answer asks
    /// for a pause, it is that of a webhook.
    Declined,
    /// The API server answered that it is overloaded (429, 503), or someone on the way did. It counts as overload unless the same
    /// object's last write ended like this too, or had no answer: the failures of one object are no sign of the server's load.
    Overloaded,
    /// No answer came, or one from a gateway (504, a time-out, a broken connection). It counts as overload unless the
    /// same object's last write ended like this too: the failures of one object are no sign of the server's load.
    Unanswered,
    /// The request was not sent, or its answer not awaited: the lease was lost.
    Unknown,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Landing {
    /// The sign of the API server's load that it gives.
    pub load: Load,
    /// Its effect on the object.
    pub effect: WriteEffect,
    /// How long it was out.
    pub took: Duration,
    /// The pause that the API server asks for.
    pub pause: Option<Duration>,
    /// True if the object's shard still exists, which then reports whether the object is due again.
    pub has_shard: bool,
}

/// The next thing to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Ask the object's shard for its request.
    Grant {
        /// The object.
        key: Hashed<ObjectKey>,
        /// The priority of its write.
        priority: Priority,
        /// The time it has waited for its turn.
        age: Duration,
    },
    /// Wait: nothing can go before the next message, or before a time.
    Wait {
        /// The time to look again, if nothing happens before.
        until: Option<Duration>,
        /// The limit that something is held back by.
        limited: Option<Limit>,
    },
}

impl Next {
    const NOTHING: Self = Self::Wait {
        until: None,
        limited: None,
    };
}

/// The result of a shard's report of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replied {
    /// Send the request.
    Send(BuiltRequest),
    /// Do not send the request: this process has lost the lease. The shard must be told so.
    Unsent,
    /// Send nothing now.
    Nothing,
}

/// The write side of one process. Owned by the writer actor, which passes in the time.
#[derive(Clone, Debug)]
pub struct Publisher {
    pacing: Pacing,
    queue: ObjectQueue,
    window: Window,
    bucket: TokenBucket,
    fan_out: FanOut,
    random: fastrand::Rng,
    pauses: Pauses,
    refusals: Refusals,
    stuck: Stuck,
    /// True if this process may write.
    writes: bool,
    /// The present term.
    term: Term,
    /// The term in which each object without a request yet was granted, and what was paid for it.
    granted: HashedMap<ObjectKey, (Term, GrantCost)>,
    /// True if nothing is to be granted any more.
    drains: bool,
    /// The time at which the next retry of a refused request may go, by namespace.
    refused: IdMap<u64, Duration>,
    /// Objects whose last write was not answered, or refused for overload.
    unserved: HashedSet<ObjectKey>,
    /// Objects whose request in flight only reads.
    reading: HashedSet<ObjectKey>,
    /// Set while an object waits that could go if the window were larger.
    held_back: bool,
}

impl Publisher {
    /// Creates a publisher with nothing to do, for a process that may write. `seed` is for the jitter of delays.
    pub fn new(pacing: Pacing, seed: u64) -> Self {
        Self {
            pacing,
            queue: ObjectQueue::with_hasher(KnownState::default()),
            window: Window::new(pacing.in_flight),
            bucket: TokenBucket::new(pacing.qps, pacing.burst),
            fan_out: FanOut::new(pacing.watch),
            random: fastrand::Rng::with_seed(seed),
            pauses: Pauses::default(),
            refusals: Refusals::default(),
            stuck: Stuck::default(),
            writes: true,
            term: Term::default(),
            granted: HashedMap::default(),
            drains: false,
            refused: IdMap::default(),
            unserved: HashedSet::default(),
            reading: HashedSet::default(),
            held_back: false,
        }
    }

    /// Returns the objects that wait and those in flight.
    pub fn queue(&self) -> &ObjectQueue {
        &self.queue
    }

    /// Returns the number of requests that may be in flight now.
    pub fn window(&self) -> usize {
        self.window.size()
    }

    /// Returns the number of places for writes of a resource whose events have not come back, and how many are held.
    pub fn places(&self, resource: Resource) -> (usize, usize) {
        self.fan_out.places(resource)
    }

    /// Returns the number of clients that watch slices.
    pub fn watchers(&self) -> f64 {
        self.fan_out.watchers()
    }

    /// Takes the echoes that have come since the last call: the output, and the time from the answer.
    pub fn take_echoes(&mut self) -> std::vec::Drain<'_, (Output, Duration)> {
        self.fan_out.take_heard()
    }

    /// Takes the bytes that API servers send to watchers for the slices written since the last call.
    pub fn take_sent(&mut self) -> u64 {
        self.fan_out.take_sent()
    }

    /// Takes the number of writes that went without a place since the last call, by resource, in the order of [`Resource::ALL`].
    pub fn take_beyond(&mut self) -> [u64; 2] {
        self.fan_out.take_beyond()
    }

    /// Returns how many namespaces are in debt, because they have written slices that are much larger than usual.
    pub fn debtors(&self) -> usize {
        self.fan_out.debtors()
    }

    /// Returns the one of them that owes most, and how many bytes for each watcher.
    pub fn worst_debtor(&self) -> Option<(Arc<str>, f64)> {
        self.fan_out.worst_debtor()
    }

    /// Takes in what our own watches have shown.
    pub fn signalled(&mut self, signal: &Signal, now: Duration) {
        self.fan_out.signalled(signal, now);
    }

    /// Returns when to call [`Self::next`] at the latest while echoes are awaited, even if nothing waits to be written: a call that
    /// comes later shows that this process did nothing meanwhile.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        self.fan_out.due(now)
    }

    /// Records that this process did nothing between these times, though it had to, so that its own pauses are not
    /// taken for the API server's.
    pub fn stalled(&mut self, from: Duration, to: Duration) {
        self.fan_out.stalled(from, to);
    }

    /// Returns whether this process may write.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Applies a change of role. If this process may not write, or could not for a while, all waiting objects are
    /// forgotten, since everything is planned again at the start of the next term.
    pub fn change_role(&mut self, change: RoleChange) {
        self.writes = change.role.writes();
        if change.lost {
            self.queue.clear_waiting();
            self.unserved.clear();
            self.reading.clear();
            self.refused.clear();
            self.fan_out.clear();
        }
    }

    /// Sets the term in which requests are granted. A request that was granted in another term is not sent, because it
    /// may have been built from an older state.
    pub fn set_term(&mut self, term: Term) {
        self.term = term;
    }

    /// Returns the present term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Stops granting requests.
    pub fn drain(&mut self) {
        self.drains = true;
    }

    /// Returns whether granting has stopped and nothing is in flight.
    pub fn is_drained(&self) -> bool {
        self.drains && self.queue.in_flight() == 0
    }

    /// Queues an object that a shard wants to write. It is kept while this process may not write, since the shard may
    /// have heard before the writer that it may again.
    fn wanted(&mut self, key: &Hashed<ObjectKey>, want: &WorkItem, now: Duration) {
        let (yields, batch) = match key.object.output {
            Output::Slice => (false, self.pacing.slice_batch),
            Output::Endpoints if want.reads => (false, Duration::ZERO),
            Output::Endpoints => (true, self.pacing.endpoints_batch),
            Output::Mirrored => (false, self.pacing.mirrored_batch),
        };
        let tenant = key.tenant();
        let urgency = Urgency {
            priority: want.priority,
            yields,
            tenant,
            group: hash_of(&(tenant, &*want.service)),
        };
        let mut delay = want.retry.delay(self.random.f64());
        if matches!(want.retry, Retry::Floor | Retry::Slowly { .. }) {
            // A retry takes a turn in its namespace's share of the rate, or keeps the one it has if that comes sooner.
            let at = self.after_other_refused(urgency.tenant, now + delay);
            match self.queue.waits_until(key) {
                Some(until) if until <= at => delay = until.saturating_sub(now),
                _ => {
                    self.take_turn_of_refused(urgency.tenant, at);
                    delay = at.saturating_sub(now);
                }
            }
        }
        if want.exists {
            delay = delay
                .max(batch)
                .max(self.fan_out.spacing(key, want.priority, now));
        }
        self.queue.want(key.clone(), urgency, delay, now);
    }

    /// Returns when a retry of a refused request, due at `at`, may go, so that its namespace keeps to its share of the
    /// rate.
    fn after_other_refused(&self, tenant: u64, at: Duration) -> Duration {
        self.refused.get(&tenant).map_or(at, |next| at.max(*next))
    }

    /// Records that a retry of a refused request of a namespace goes at `at`, so that the next one comes later.
    fn take_turn_of_refused(&mut self, tenant: u64, at: Duration) {
        if self.pacing.qps > 0.0 {
            let rate = (self.pacing.qps * REFUSED_SHARE).max(LEAST_REFUSED_RATE);
            self.refused
                .insert(tenant, at + Duration::from_secs_f64(1.0 / rate));
        }
    }

    /// Applies a shard's report of an object; the reply in it came first.
    pub fn reported(&mut self, key: &Hashed<ObjectKey>, reported: Reported, now: Duration) -> Replied {
        let Reported { reply, wanted } = reported;
        let replied = reply.map_or(Replied::Nothing, |reply| self.replied(key, reply, now));
        if let Some((want, _)) = wanted {
            self.wanted(key, &want, now);
        }
        replied
    }

    /// Applies a shard's reply to a grant, or to an answer.
    fn replied(&mut self, key: &Hashed<ObjectKey>, reply: Reply, now: Duration) -> Replied {
        match reply {
            Reply::Built(built) => {
                self.queue.built(key);
                let Some((term, paid)) = self.granted.remove(key) else {
                    return Replied::Unsent;
                };
                if term != self.term || !self.writes {
                    self.fan_out.nothing(key, paid, now);
                    return Replied::Unsent;
                }
                self.fan_out.built(key, paid, &built.request, now);
                if matches!(built.request, Request::Fetch | Request::Probe) {
                    self.reading.insert(key.clone());
                    // However long it takes, no webhook has a part in it.
                    self.stuck.ended(key, End::Nothing);
                } else {
                    self.stuck.sent(key, now);
                }
                Replied::Send(built)
            }
            Reply::Nothing => {
                self.nothing(key, now);
                Replied::Nothing
            }
            Reply::Settled => {
                self.unserved.remove(key);
                self.queue.settled(key);
                Replied::Nothing
            }
        }
    }

    /// Ends the grant of an object for which there is nothing to send, or no shard left to ask.
    pub fn nothing(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        if let Some((_, paid)) = self.granted.remove(key) {
            self.fan_out.nothing(key, paid, now);
        }
        self.bucket.give_back();
        self.stuck.ended(key, End::Nothing);
        self.queue.built(key);
        self.queue.landed(key, true, now);
        self.unserved.remove(key);
    }

    /// Ends a request.
    pub fn answered(&mut self, key: &Hashed<ObjectKey>, landing: Landing, now: Duration) {
        let Landing {
            load,
            effect,
            took,
            pause,
            has_shard,
        } = landing;
        self.fan_out.answered(key, effect, now);
        let reads = self.reading.remove(key);
        let namespace = key.tenant();
        let end = match load {
            _ if reads => End::Nothing,
            Load::Answered => End::CarriedOut,
            Load::Declined => End::Declined,
            Load::Overloaded | Load::Unanswered => End::Refused,
            Load::Unknown => End::Nothing,
        };
        let carried_out = end == End::CarriedOut;
        // A namespace whose writes are not answered promptly, while others' are carried out, says nothing of the API server.
        // Nor does an answer that is known to be a webhook's.
        let was_prompt = self.stuck.namespaces().is_known_prompt(namespace);
        let counts = load != Load::Declined && (was_prompt || !self.refusals.goes_on(now));
        // If it has left its place, it takes one all the same, since it is answered.
        let in_flight = self.window_taken().max(1);
        let waited_for_webhook = self.stuck.ended(key, end);
        match pause {
            Some(pause) => {
                self.pauses.asked(namespace, pause, counts, now);
                self.queue.hold(namespace);
            }
            None if carried_out => self.pauses.carried_out(),
            None => {}
        }
        if carried_out {
            self.refusals.carried_out(namespace, now);
        }
        let webhook = match load {
            Load::Overloaded => !self.refusals.refused(namespace, now.saturating_sub(took)) || !counts,
            // A webhook may answer with any code, such as 504.
            Load::Unanswered => !counts,
            Load::Answered | Load::Declined | Load::Unknown => false,
        };
        if !reads && matches!(load, Load::Answered | Load::Declined) {
            self.unserved.remove(key);
        }
        let sign = match load {
            Load::Overloaded | Load::Unanswered if self.unserved.insert(key.clone()) && !webhook => {
                Some(Sign::Overloaded)
            }
            Load::Answered if !reads && !waited_for_webhook => Some(Sign::Answered),
            Load::Answered | Load::Declined | Load::Overloaded | Load::Unanswered | Load::Unknown => None,
        };
        if let Some(sign) = sign {
            let completed = Completed {
                sign,
                took,
                in_flight,
                held_back: self.held_back,
            };
            self.window.answered(completed, now);
        }
        if !has_shard {
            self.unserved.remove(key);
        }
        self.queue.landed(key, !has_shard, now);
    }

    /// Returns how many places of the window are taken.
    fn window_taken(&self) -> usize {
        self.queue.in_flight() - self.stuck.left(self.window.size())
    }

    /// Returns whether as many requests are in flight as may be. If all of them are stuck, one more goes all the same: only answers
    /// make the window larger.
    fn is_full(&self) -> bool {
        self.window_taken() >= self.window.size() && self.queue.in_flight() > self.stuck.count()
    }

    /// Returns the next thing to do. Must be called again after a grant.
    pub fn next(&mut self, now: Duration) -> Next {
        self.held_back = false;
        if !self.writes || self.drains {
            return Next::NOTHING;
        }
        self.window.pass(now);
        self.fan_out.pass(now);
        while let Some(namespace) = self.pauses.take_over(now) {
            self.queue.release(namespace);
        }
        let long = self.window.long();
        self.stuck.pass(long, now);
        if self.queue.waiting() == 0 {
            return Next::NOTHING;
        }
        if self.is_full() {
            self.held_back = self.queue.has_ready(now);
            let times = [self.window.probes_until(), self.stuck.next(long)];
            return Next::Wait {
                until: times.into_iter().flatten().min(),
                limited: self.held_back.then_some(Limit::InFlight),
            };
        }
        if self.refused.len() > REFUSED_KEPT {
            self.refused.retain(|_, next| *next > now);
        }
        if let Some(end) = self.pauses.all(now) {
            return Next::Wait {
                until: Some(end),
                limited: self.queue.has_ready(now).then_some(Limit::Server),
            };
        }
        if let Err(wait) = self.bucket.take(now) {
            return Next::Wait {
                until: (self.queue.waiting() > 0).then_some(now + wait),
                limited: self.queue.has_ready(now).then_some(Limit::Rate),
            };
        }
        let allowed = self.fan_out.allow(now);
        self.queue.set_pace(self.pace(now));
        // All that are out are stuck.
        let alone = self.window_taken() >= self.window.size();
        let lone = self.stuck.lone(now).filter(|_| alone);
        let next = match (alone || self.pauses.is_on(now), lone) {
            (false, _) => self.choose(allowed.classes, &[Promptness::Slow], now),
            // A write that goes alone is of a namespace as prompt as any that has one.
            (true, None) => self.choose(allowed.classes, &Promptness::ALL, now),
            (true, Some((_, true))) => self.choose(allowed.classes, &[Promptness::Prompt], now),
            (true, Some((_, false))) => None,
        };
        if let Some((key, priority, age)) = next {
            let promptness = self.stuck.namespaces().of(key.tenant());
            let paid = self.fan_out.granted(&key, priority, promptness, now);
            self.granted.insert(key.clone(), (self.term, paid));
            self.stuck.granted(&key, promptness, alone, now);
            self.pauses.goes(now);
            return Next::Grant { key, priority, age };
        }
        self.bucket.give_back();
        let mut limits = allowed.limited.into_iter();
        let limited = limits.find(|(classes, _)| self.queue.has_ready_in(*classes));
        let ready = self.queue.has_ready(now);
        let pause = self.pauses.next_end().filter(|_| ready);
        let limited = limited
            .map(|(_, limit)| limit)
            .or_else(|| self.limit_of_namespaces(now))
            .or(pause.map(|_| Limit::Server));
        self.held_back = limited.is_none() && ready;
        let until = self.queue.next_delayed().into_iter();
        let more = limited.and_then(|_| self.fan_out.wake(now));
        // Whatever holds the rest back, those that wait because requests of others hang may go when these leave their places.
        let others_leave = [
            self.stuck.next(long),
            self.stuck.slow_for_all_at(now),
            lone.map(|(until, _)| until),
        ];
        Next::Wait {
            until: until
                .chain(self.window.probes_until())
                .chain(more)
                .chain(pause)
                .chain(others_leave.into_iter().flatten().filter(|_| ready))
                .min(),
            limited: limited.or(self.held_back.then_some(Limit::InFlight)),
        }
    }

    /// Returns the limit that holds back writes of some namespaces and lets those of others go.
    fn limit_of_namespaces(&self, now: Duration) -> Option<Limit> {
        if self.queue.has_ready_in(Classes::SLICES) && self.fan_out.debtors() > 0 {
            return Some(Limit::Watchers);
        }
        let crowded = self.fan_out.crowded(&self.stuck, now);
        self.queue.has_ready_in(crowded).then_some(Limit::Echoes)
    }

    /// Chooses the object that goes next: one of a namespace that is no slower than the first of these, where there is one, and so on.
    fn choose(
        &mut self,
        classes: Classes,
        slowest: &[Promptness],
        now: Duration,
    ) -> Option<(Hashed<ObjectKey>, Priority, Duration)> {
        let window = self.window.size();
        // One namespace gets half of the window, so that others go on while its requests get no answer, such as when
        // its webhook hangs.
        let most = window.div_ceil(2);
        let stuck = &self.stuck;
        let (holds, owes) = (stuck.holds(window, now), self.fan_out.owes(now));
        let crowds = self.fan_out.crowds(stuck, now);
        slowest.iter().find_map(|slowest| {
            let too_slow =
                |tenant: u64| *slowest != Promptness::Slow && stuck.namespaces().of(tenant) > *slowest;
            let held = |class: usize, tenant: u64| {
                holds(tenant) || owes(class, tenant) || crowds(class, tenant) || too_slow(tenant)
            };
            self.queue.next_but(most, classes, held, now)
        })
    }

    /// Returns the time from one write to the next while there are more than the server or the limits allow.
    fn pace(&self, now: Duration) -> Option<Duration> {
        let pace = self.window.pace().max(self.fan_out.pace(now));
        if self.pacing.qps <= 0.0 {
            return pace;
        }
        let limit = Duration::try_from_secs_f64(1.0 / self.pacing.qps).unwrap_or(Duration::MAX);
        Some(pace.map_or(limit, |pace| pace.max(limit)))
    }
}

#[cfg(test)]
mod tests;
