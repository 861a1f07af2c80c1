//! The writer: one actor that decides which object is written when, and has it done.
//!
//! It knows objects by name only. When one has a token and a place in flight, the writer grants it; the shard
//! answers with the request, built from the state of that moment, or with nothing. So a body carries every
//! change up to the moment it leaves, and an object that changes often is written no more often than its
//! answers come back.

use super::router::Router;
use super::shard::ShardMsg;
use super::standing::Role;
use crate::cluster::objects::{Answer, ObjectClient};
use crate::core::backoff::Retry;
use crate::core::bucket::TokenBucket;
use crate::core::hash::{KeyedMap, hash_of};
use crate::core::namespace::{Granted, Outcome, Want};
use crate::core::object::{ObjectName, Output};
use crate::core::queue::{Lane, Urgency, WriteQueue};
use crate::core::window::{Sign, Window};
use crate::ops::metrics::WriterMetrics;
use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// An object, cluster-wide.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its kind and name.
    pub object: ObjectName,
}

/// What the writer is told.
#[derive(Debug)]
pub enum WriterMsg {
    /// Objects are due: they wait in the handle's map. At most one of these is in the mailbox.
    Wake,
    /// A shard's answer to a grant.
    Body(ObjectKey, Option<Granted>),
    /// The server's answer to a request.
    Done(ObjectKey, Answer),
    /// After its answer, nothing more is due of an object.
    Settled(ObjectKey),
    /// Time has passed that something waited for.
    Tick,
    /// Whether anything may be written from now on. Until it is told, the writer takes it that it may.
    Role(Role),
    /// Somebody asks whether it still answers.
    Ping(oneshot::Sender<()>),
    /// Let nothing new go, and say when nothing is in flight any more.
    Drain(RpcReplyPort<()>),
}

/// How writes are paced.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pacing {
    /// Requests a second; zero or less is no limit.
    pub qps: f64,
    /// Requests that may go at once after a pause.
    pub burst: u32,
    /// Requests in flight.
    pub in_flight: usize,
    /// How long a change of a slice that exists waits for others to come along.
    pub slice_batch: Duration,
    /// The same of Endpoints.
    pub endpoints_batch: Duration,
}

/// How shards reach the writer. Wants wait here, latest by object.
#[derive(Clone, Debug, Default)]
pub struct WriterHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    wants: Mutex<Wants>,
    actor: OnceLock<ActorRef<WriterMsg>>,
}

#[derive(Debug, Default)]
struct Wants {
    by_key: KeyedMap<ObjectKey, WantState>,
    next: u64,
    woken: bool,
}

#[derive(Debug)]
struct WantState {
    /// Wants are handed on in the order in which they came.
    order: u64,
    lane: Lane,
    retry: Retry,
    exists: bool,
    group: u64,
    /// When what it is due to was first noticed.
    noticed: Instant,
}

impl WriterHandle {
    /// Objects of a namespace are due, since something that was noticed then.
    pub fn want(&self, namespace: &Arc<str>, wants: Vec<Want>, noticed: Instant) {
        let mut state = self.0.wants.lock();
        for want in wants {
            let Want {
                object,
                service,
                exists,
                lane,
                retry,
            } = want;
            state.next += 1;
            let new = WantState {
                order: state.next,
                lane,
                retry,
                exists,
                group: hash_of(&(&**namespace, &*service)),
                noticed,
            };
            state
                .by_key
                .entry(ObjectKey {
                    namespace: namespace.clone(),
                    object,
                })
                .and_modify(|old| {
                    (old.lane, old.retry, old.exists) = (old.lane.min(lane), retry, exists);
                    old.noticed = old.noticed.min(noticed);
                })
                .or_insert(new);
        }
        let wake = !std::mem::replace(&mut state.woken, true);
        drop(state);
        if wake {
            self.send(WriterMsg::Wake);
        }
    }

    /// Tells the writer something. Before it is there, and after it has gone, nobody needs to know.
    pub fn send(&self, message: WriterMsg) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(message);
        }
    }

    fn take(&self) -> Vec<(ObjectKey, WantState)> {
        let mut state = self.0.wants.lock();
        state.woken = false;
        let mut wants: Vec<_> = state.by_key.drain().collect();
        wants.sort_unstable_by_key(|(_, want)| want.order);
        wants
    }
}

/// What the writer is made with.
#[derive(Debug)]
pub struct WriterArguments {
    /// The handle that shards have.
    pub handle: WriterHandle,
    /// How to reach shards.
    pub router: Arc<OnceLock<Arc<Router>>>,
    /// How to reach the API server.
    pub objects: ObjectClient,
    /// How writes are paced.
    pub pacing: Pacing,
    /// For the jitter of delays.
    pub seed: u64,
}

/// What the writer owns.
#[derive(Debug)]
pub struct WriterState {
    handle: WriterHandle,
    router: Arc<OnceLock<Arc<Router>>>,
    objects: ObjectClient,
    pacing: Pacing,
    queue: WriteQueue<ObjectKey>,
    window: Window,
    bucket: TokenBucket,
    random: fastrand::Rng,
    start: Instant,
    /// When the next [`WriterMsg::Tick`] comes, if one does.
    tick: Option<Duration>,
    /// Until when the server has asked us to be quiet.
    quiet_until: Duration,
    role: Role,
    draining: Vec<RpcReplyPort<()>>,
    metrics: WriterMetrics,
}

/// The writer's behaviour.
#[derive(Debug)]
pub struct Writer;

impl Actor for Writer {
    type Msg = WriterMsg;
    type State = WriterState;
    type Arguments = WriterArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<WriterMsg>,
        arguments: WriterArguments,
    ) -> Result<WriterState, ActorProcessingErr> {
        let WriterArguments {
            handle,
            router,
            objects,
            pacing,
            seed,
        } = arguments;
        handle
            .0
            .actor
            .set(myself)
            .map_err(|_| "the writer was started twice")?;
        Ok(WriterState {
            handle,
            router,
            objects,
            pacing,
            queue: WriteQueue::default(),
            window: Window::new(pacing.in_flight),
            bucket: TokenBucket::new(pacing.qps, pacing.burst),
            random: fastrand::Rng::with_seed(seed),
            start: Instant::now(),
            tick: None,
            quiet_until: Duration::ZERO,
            role: Role::Leader,
            draining: Vec::new(),
            metrics: WriterMetrics::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<WriterMsg>,
        message: WriterMsg,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        let now = state.now();
        match message {
            // When it is this process's turn, everything is looked at anew.
            WriterMsg::Wake if !state.role.writes() => drop(state.handle.take()),
            WriterMsg::Wake => {
                for (key, want) in state.handle.take() {
                    let WantState {
                        lane,
                        retry,
                        exists,
                        group,
                        noticed,
                        ..
                    } = want;
                    let noticed = noticed.saturating_duration_since(state.start);
                    state.metrics.wanted(&key, retry != Retry::Now, noticed);
                    let (yields, batch) = match key.object.output {
                        Output::Slice => (false, state.pacing.slice_batch),
                        Output::Endpoints => (true, state.pacing.endpoints_batch),
                    };
                    let mut delay = retry.delay(state.random.f64());
                    if exists {
                        delay = delay.max(batch);
                    }
                    let urgency = Urgency { lane, yields, group };
                    state.queue.want(key, urgency, delay, now);
                }
            }
            WriterMsg::Body(key, Some(granted)) => {
                state.queue.built(&key);
                if state.role.writes() {
                    state.send(key, granted, &myself);
                } else {
                    state.done(&key, Answer::unsent(), now);
                }
            }
            WriterMsg::Body(key, None) => {
                state.bucket.give_back();
                state.queue.built(&key);
                state.queue.landed(&key, true, now);
                state.metrics.nothing(&key);
            }
            WriterMsg::Settled(key) => {
                state.queue.settled(&key);
                state.metrics.settled(&key);
            }
            WriterMsg::Done(key, answer) => state.done(&key, answer, now),
            // One that was armed for later than the present one changes nothing.
            WriterMsg::Tick => state.tick = state.tick.filter(|&at| at > now),
            WriterMsg::Role(role) => {
                state.role = role;
                if !role.writes() {
                    state.queue.clear_waiting();
                    state.metrics.cleared(now);
                    drop(state.handle.take());
                }
            }
            WriterMsg::Ping(answer) => {
                state.metrics.refresh(&state.queue, now);
                let _ = answer.send(());
            }
            WriterMsg::Drain(reply) => state.draining.push(reply),
        }
        if state.draining.is_empty() {
            if state.role.writes() {
                state.grant(now, &myself);
            }
        } else if state.queue.in_flight() == 0 {
            for reply in state.draining.drain(..) {
                let _ = reply.send(());
            }
        }
        // In a dry run others say what is out of sync.
        if state.role != Role::Shadow {
            state.metrics.observe(&state.queue, state.window.size(), now);
        }
        Ok(())
    }
}

impl WriterState {
    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    /// Grants as many objects as tokens and places allow.
    fn grant(&mut self, now: Duration, myself: &ActorRef<WriterMsg>) {
        while self.queue.in_flight() < self.window.size() {
            if self.quiet_until > now {
                self.metrics.held_back(now, self.queue.has_ready(now));
                self.wake_at(self.quiet_until, now, myself);
                return;
            }
            if let Err(wait) = self.bucket.take(now) {
                self.metrics.held_back(now, self.queue.has_ready(now));
                if self.queue.waiting() > 0 {
                    self.wake_at(now + wait, now, myself);
                }
                return;
            }
            let Some((key, lane, age)) = self.queue.next(now) else {
                self.bucket.give_back();
                self.metrics.held_back(now, false);
                if let Some(at) = self.queue.next_delayed() {
                    self.wake_at(at, now, myself);
                }
                return;
            };
            self.metrics.granted(&key, lane, age, now);
            let shard = self.router.get().and_then(|router| router.shard(&key.namespace));
            if shard.is_none_or(|shard| shard.cast(ShardMsg::Grant(key.object.clone())).is_err()) {
                // Retired: it had nothing left to write.
                self.bucket.give_back();
                self.queue.landed(&key, true, now);
                self.metrics.nothing(&key);
            }
        }
    }

    fn wake_at(&mut self, at: Duration, now: Duration, myself: &ActorRef<WriterMsg>) {
        if self.tick.is_some_and(|tick| tick <= at) {
            return;
        }
        self.tick = Some(at);
        // Its handle is not kept: a tick that comes too early or too late does no harm.
        drop(myself.send_after(at.saturating_sub(now), || WriterMsg::Tick));
    }

    fn send(&mut self, key: ObjectKey, granted: Granted, myself: &ActorRef<WriterMsg>) {
        let Granted { request, changes } = granted;
        self.metrics.sent(&key, &request, changes);
        let (objects, myself) = (self.objects.clone(), myself.clone());
        // At most as many of these tasks as requests may be in flight.
        tokio::spawn(async move {
            let answer = objects.carry_out(&key.namespace, &key.object, request).await;
            let _ = myself.cast(WriterMsg::Done(key, answer));
        });
    }

    fn done(&mut self, key: &ObjectKey, answer: Answer, now: Duration) {
        let Answer {
            outcome,
            why,
            quiet,
            took,
            fenced,
        } = answer;
        self.metrics.done(key, &outcome, took, now);
        if let Some(quiet) = quiet {
            self.quiet_until = self.quiet_until.max(now + quiet);
        }
        if let Outcome::Rejected = outcome {
            tracing::debug!(namespace = %key.namespace, kind = %key.object.output, name = %key.object.name, "the request was refused; it is retried slowly");
        }
        let sign = match outcome {
            Outcome::Refused | Outcome::Unknown => Sign::Overloaded,
            _ => Sign::Answered,
        };
        // What was not sent, or not waited for, says nothing of the server.
        if !fenced {
            self.window.answered(sign, took, self.queue.in_flight(), now);
        }
        // Whether it is due again is the shard's to say; without one, nobody is left to want it.
        let shard = self.router.get().and_then(|router| router.shard(&key.namespace));
        self.queue.landed(key, shard.is_none(), now);
        if let Some(shard) = shard {
            let _ = shard.cast(ShardMsg::Outcome(key.object.clone(), outcome, why));
        }
    }
}
