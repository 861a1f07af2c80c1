//! The write side as a pure state machine: it decides which object is written next, and when.
//!
//! ```text
//!            shards                                            API server
//!   Reports │    ▲ grant, outcome                                   ▲ request     │ answer
//!           ▼    │                                                  │             ▼
//!   ┌───────────────────────────────────────────────────────────────────────────────────┐
//!   │ Publisher: WriteQueue (turns of Services) · Echoes · WatchBudget · Window         │
//!   └───────────────────────────────────────────────────────────────────────────────────┘
//!           ▲ signals: the versions that our own watches have shown, and the number of nodes
//! ```
//!
//! The publisher knows objects by name only. When one has its turn and the rules let it go, the publisher grants it; the
//! shard replies with the request, built from the state at that moment, or with nothing. Each object has at most one
//! grant or request out. The writer actor carries the messages; [`reports::Reports`] keeps the shards' reports of
//! each object in order, and lets namespaces take turns.
//!
//! Three rules decide whether a write may go now: it needs a place, or one of the writes a second that kube-controller-manager
//! allows itself (`places`); bytes times watchers (`budget`); and a place in the window of requests in flight (`window`), of
//! which namespaces whose writes hang or are refused share a part (`slow`). Beside them there is only the flag
//! `--kube-api-qps`, and the pause that an answer asks for.

mod budget;
mod places;
pub mod queue;
pub mod reports;
mod resource;
pub mod signals;
mod slow;
pub mod throttling;
mod tuning;
mod turns;
mod window;

pub use budget::{WatchLimits, Watchers};
pub use places::WriteEffect;
pub use resource::Resource;
pub use tuning::LATE;

use super::backoff::Retry;
use super::body::Request;
use super::bucket::TokenBucket;
use super::hash::{Hashed, HashedMap, HashedSet, IdMap, hash_of};
use super::leadership::Term;
use super::leadership::role::RoleChange;
use super::namespace::{BuiltRequest, Outcome, WorkItem};
use super::object::{ObjectKey, Output};
use super::priority::Priority;
use budget::WatchBudget;
use places::Echoes;
use queue::{Due, Granted, ObjectQueue};
use reports::{Reply, Reported};
use signals::Signal;
use slow::SlowLane;
use std::time::Duration;
use throttling::Limit;
use tuning::TUNING;
use window::Window;

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
    /// The API server answered that it is overloaded (429, 503), or someone on the way did.
    Overloaded,
    /// No answer came, or one from a gateway (504, a time-out, a broken connection).
    Unanswered,
    /// The request was not sent, or its answer not awaited: the lease was lost.
    Unknown,
}

impl WriteEffect {
    /// Returns the effect of a request with this outcome. An answer that is an error wrote nothing, however little it says
    /// of the object; and a request that was not sent, or whose answer does not matter any more, counts as none.
    pub fn of(outcome: &Outcome, load: Load) -> Self {
        match outcome {
            _ if load == Load::Unknown => Self::Nothing,
            Outcome::Written(remote) => Self::Written(remote.version),
            Outcome::Deleted(version) => Self::Deleted(*version),
            // An answer that says it was carried out, and cannot be read, is as good as none.
            Outcome::Unknown if matches!(load, Load::Unanswered | Load::Answered) => Self::Unknown,
            Outcome::Unknown
            | Outcome::Fetched { .. }
            | Outcome::NotFound
            | Outcome::Conflict
            | Outcome::Exists
            | Outcome::Foreign { .. }
            | Outcome::Terminating
            | Outcome::Rejected
            | Outcome::TooLarge { .. }
            | Outcome::Throttled => Self::Nothing,
        }
    }
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
    bucket: TokenBucket,
    echoes: Echoes,
    budget: WatchBudget,
    window: Window,
    slow: SlowLane,
    /// Chooses the jitter of delays.
    seed: u64,
    /// True if this process may write.
    writes: bool,
    /// The present term.
    term: Term,
    /// The term in which each object without a request yet was granted.
    granted: HashedMap<ObjectKey, Term>,
    /// True if nothing is to be granted any more.
    drains: bool,
    /// When the next retry of a write that was refused with 403 or 422 may go, by namespace.
    refused: IdMap<u64, Duration>,
    /// Objects whose request in flight only reads.
    reading: HashedSet<ObjectKey>,
    /// The bytes that watchers are sent for each slice in flight, and what the budget has paid for it.
    sending: HashedMap<ObjectKey, (f64, f64)>,
    /// The bytes that they are sent for those written since this was last taken.
    sent: f64,
    /// The slices that were granted since an Endpoints object was.
    slices_in_a_row: usize,
    /// The writes that went without a place since they were last taken, by resource.
    beyond: [u64; 2],
}

impl Publisher {
    /// Creates a publisher with nothing to do, for a process that may write. `seed` is for the jitter of delays.
    pub fn new(pacing: Pacing, seed: u64) -> Self {
        Self {
            pacing,
            queue: ObjectQueue::default(),
            bucket: TokenBucket::new(pacing.qps, pacing.burst),
            echoes: Echoes::new(pacing.watch.places),
            budget: WatchBudget::new(pacing.watch),
            window: Window::new(pacing.in_flight),
            slow: SlowLane::default(),
            seed,
            writes: true,
            term: Term::default(),
            granted: HashedMap::default(),
            drains: false,
            refused: IdMap::default(),
            reading: HashedSet::default(),
            sending: HashedMap::default(),
            sent: 0.0,
            slices_in_a_row: 0,
            beyond: [0; 2],
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
        self.echoes.places(resource)
    }

    /// Returns the number of clients that watch slices.
    pub fn watchers(&self) -> f64 {
        self.budget.watchers().unwrap_or_default()
    }

    /// Takes the echoes that have come since the last call: the output, and the time from the answer.
    pub fn take_echoes(&mut self) -> std::vec::Drain<'_, (Output, Duration)> {
        self.echoes.take_heard()
    }

    /// Takes the bytes that API servers send to watchers for the slices written since the last call.
    pub fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.sent) as u64
    }

    /// Takes the number of writes that went without a place since the last call, by resource, in the order of [`Resource::ALL`].
    pub fn take_beyond(&mut self) -> [u64; 2] {
        std::mem::take(&mut self.beyond)
    }

    /// Takes in what our own watches have shown.
    pub fn signalled(&mut self, signal: &Signal, now: Duration) {
        match signal {
            Signal::Opened(output, from) => self.echoes.opened(*output, *from),
            Signal::Shown { output, version, at } => self.echoes.shown(*output, *version, *at),
            Signal::Deleted(key) => self.echoes.deleted(key),
            Signal::Nodes(nodes) => self.budget.set_nodes(*nodes, now),
        }
    }

    /// Records that this process did nothing until then, though it had to, so that its own pauses are not
    /// taken for the API server's.
    pub fn stalled(&mut self, to: Duration) {
        self.echoes.stalled(to);
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
            self.reading.clear();
            self.refused.clear();
            self.sending.clear();
            self.echoes.clear();
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
        let batch = match key.object.output {
            Output::Slice => self.pacing.slice_batch,
            Output::Endpoints if want.reads => Duration::ZERO,
            Output::Endpoints => self.pacing.endpoints_batch,
            Output::Mirrored => self.pacing.mirrored_batch,
        };
        let namespace = key.tenant();
        let due = Due {
            resource: key.object.output.into(),
            priority: want.priority,
            stage: want.stage,
            namespace,
            service: hash_of(&(namespace, &*want.service)),
        };
        let jitter = hash_of(&(self.seed, key.known_hash(), want.retry)) as f64 / u64::MAX as f64;
        let mut delay = want.retry.delay(jitter);
        if matches!(want.retry, Retry::Floor | Retry::Slowly { .. }) {
            // A retry takes a turn among its namespace's, or keeps the one it has if that comes sooner.
            let next = self.refused.get(&namespace).copied().unwrap_or_default();
            let at = next.max(now + delay);
            match self.queue.waits_until(key) {
                Some(until) if until <= at => delay = until.saturating_sub(now),
                _ => {
                    self.refused
                        .insert(namespace, next.max(now) + TUNING.refused_retry);
                    delay = at.saturating_sub(now);
                }
            }
        }
        if want.exists {
            delay = delay.max(batch);
        }
        self.queue.want(key.clone(), due, delay, now);
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
                let Some(term) = self.granted.remove(key) else {
                    return Replied::Unsent;
                };
                if term != self.term || !self.writes {
                    self.take_back(key, now);
                    return Replied::Unsent;
                }
                let bytes = match &built.request {
                    Request::Fetch | Request::Probe => {
                        self.reading.insert(key.clone());
                        self.take_back(key, now);
                        return Replied::Send(built);
                    }
                    Request::Create(body) | Request::Update(body) => body.len(),
                    Request::Delete(_) => TUNING.slice_bytes as usize,
                };
                if Resource::from(key.object.output) == Resource::Slices {
                    let (cost, huge) = self.budget.settle(bytes);
                    if !huge.is_zero() {
                        self.queue.pause(key.tenant(), now + huge);
                    }
                    let sent = bytes as f64 * self.watchers();
                    self.sending.insert(key.clone(), (sent, cost));
                }
                self.slow.sent(key, now);
                Replied::Send(built)
            }
            Reply::Nothing => {
                self.nothing(key, now);
                Replied::Nothing
            }
            Reply::Settled => {
                self.queue.settled(key);
                Replied::Nothing
            }
        }
    }

    /// Takes back what the grant of a write has cost.
    fn take_back(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        if Resource::from(key.object.output) == Resource::Slices {
            self.budget.pay(-self.budget.usual());
        }
        self.echoes.answered(key, WriteEffect::Nothing, now);
        self.slow.forget(key);
    }

    /// Ends the grant of an object for which there is nothing to send, or no shard left to ask.
    pub fn nothing(&mut self, key: &Hashed<ObjectKey>, now: Duration) {
        if self.granted.remove(key).is_some() {
            self.take_back(key, now);
        }
        self.bucket.give_back();
        self.queue.built(key);
        self.queue.landed(key, true, now);
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
        let namespace = key.tenant();
        let is_write = !self.reading.remove(key);
        let overloaded = matches!(load, Load::Overloaded | Load::Unanswered);
        let refused = is_write && (overloaded || pause.is_some());
        self.echoes.answered(key, effect, now);
        if let Some((bytes, paid)) = self.sending.remove(key) {
            if effect == WriteEffect::Nothing {
                self.budget.pay(-paid);
            } else {
                self.sent += bytes;
            }
        }
        if let Some(pause) = pause {
            self.queue.pause(namespace, now + pause.max(TUNING.place_kept));
        }
        if !is_write {
            // However long it took, no webhook had a part in it.
        } else if load == Load::Unknown {
            self.slow.forget(key);
        } else {
            let was_prompt = self.queue.is_prompt(namespace) == Some(true);
            let carried_out = load == Load::Answered;
            let (prompt, overtaken) = self.slow.answered(key, carried_out, took);
            let is_prompt = prompt && !refused;
            for hung in &overtaken {
                self.echoes.hangs(hung);
            }
            if refused || is_prompt {
                self.queue.set_slow(namespace, refused);
            }
            if load == Load::Overloaded {
                self.slow.refused(now);
            }
            // A webhook may answer like that too, or not at all: a namespace that is slow, or was not written yet, says nothing of
            // the server.
            if overloaded && was_prompt {
                self.window.overloaded(now.saturating_sub(took), now);
            } else if carried_out && is_prompt {
                self.window.carried_out();
            }
            if carried_out {
                // What refused others may be over: changes need not queue up behind their retries.
                self.refused.remove(&namespace);
            }
        }
        self.queue.landed(key, !has_shard, now);
    }

    /// Returns the next thing to do. Must be called again after a grant.
    pub fn next(&mut self, now: Duration) -> Next {
        if !self.writes || self.drains {
            return Next::Wait {
                until: None,
                limited: None,
            };
        }
        self.echoes.pass(now);
        while let Some(key) = self.slow.pass(now) {
            self.queue.set_slow(key.tenant(), true);
        }
        self.queue.pass(now);
        if self.queue.waiting() == 0 {
            // A call that comes later shows that this process did nothing meanwhile.
            return Next::Wait {
                until: self.next_echo(now),
                limited: None,
            };
        }
        if self.refused.len() > TUNING.namespaces_kept {
            self.refused.retain(|_, next| *next > now);
        }
        let may = match self.bucket.look(now) {
            Ok(()) => Resource::ALL.map(|resource| self.may(resource, now)),
            Err(wait) => [(Limit::Rate, Some(now + wait)); 2].map(Err),
        };
        let window = self.window.size();
        self.queue.set_most((window / TUNING.slow_share).max(1));
        // Slices go first, but while they wait a part of the writes is the Endpoints'.
        let order = if self.slices_in_a_row + 1 >= TUNING.endpoints_share {
            [Resource::Endpoints, Resource::Slices]
        } else {
            Resource::ALL
        };
        for resource in order {
            let (places, held) = self.echoes.places(resource);
            let room = if self.is_watched() {
                window.min(places)
            } else {
                window
            };
            let slow = self.slow.held() < (room / TUNING.slow_share).max(1);
            if may[resource as usize].is_ok()
                && let Some(granted) = self.queue.next(resource, slow, now)
            {
                let Granted { key, priority, age } = granted;
                let _ = self.bucket.take(now);
                if self.is_watched() {
                    self.beyond[resource as usize] += u64::from(held >= places);
                    self.echoes.pay(resource, now);
                }
                self.echoes.granted(&key, now);
                let is_prompt = self.queue.is_prompt(key.tenant()) == Some(true);
                self.slow.granted(&key, !is_prompt, now);
                if resource == Resource::Slices {
                    self.budget.pay(self.budget.usual());
                    self.slices_in_a_row = (self.slices_in_a_row + 1).min(TUNING.endpoints_share);
                } else {
                    self.slices_in_a_row = 0;
                }
                self.granted.insert(key.clone(), self.term);
                return Next::Grant { key, priority, age };
            }
        }
        let waits = Resource::ALL
            .into_iter()
            .filter(|resource| self.queue.has_ready(*resource));
        let limits = waits.map(|resource| may[resource as usize].err());
        // What may go and does not waits for its namespace: for a pause, or for an answer.
        let limited = limits
            .map(|limit| limit.map_or(Limit::Namespace, |(limit, _)| limit))
            .max();
        let rules = may.iter().filter_map(|may| may.err()?.1);
        let others = [
            self.queue.next_delayed(),
            self.queue.next_pause(),
            self.slow.next(),
            self.next_echo(now),
        ];
        Next::Wait {
            until: rules.chain(others.into_iter().flatten()).min(),
            limited,
        }
    }

    fn is_full(&self) -> bool {
        self.slow.taken(self.queue.in_flight()) >= self.window.size()
    }

    /// Returns when to look at echoes at the latest. Without watchers, nothing waits for them.
    fn next_echo(&self, now: Duration) -> Option<Duration> {
        self.is_watched().then(|| self.echoes.next(now)).flatten()
    }

    fn is_watched(&self) -> bool {
        self.budget.watchers() != Some(0.0)
    }

    /// Returns whether a write of a resource may go now, and otherwise what holds it back and until when at the latest.
    fn may(&mut self, resource: Resource, now: Duration) -> Result<(), (Limit, Option<Duration>)> {
        if self.is_full() {
            let probe = self.slow.probe();
            if probe.is_none_or(|at| now < at) {
                return Err((Limit::InFlight, probe));
            }
        }
        if !self.is_watched() {
            return Ok(());
        }
        let is_known = self.budget.watchers().is_some();
        self.echoes
            .allow(resource, is_known, now)
            .map_err(|at| (Limit::Echoes, Some(at)))?;
        if resource == Resource::Slices {
            let pace = self.echoes.pace();
            self.budget
                .allow(pace, now)
                .map_err(|at| (Limit::Watchers, Some(at)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
