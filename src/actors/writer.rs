//! The writer: one actor that carries messages between the shards, the [`Publisher`] (which decides what is written
//! when) and the API server.
//!
//! A body is built only when the object's turn has come, so it carries every change up to the moment it is sent, and an
//! object that changes often is written no more often than its answers come back.

use super::messages::{GRANTED_AT_ONCE, ShardMsg, WriterHandle, WriterMsg};
use super::router::Routes;
use crate::cluster::objects::{Answer, ObjectClient};
use crate::core::backoff::Retry;
use crate::core::hash::Hashed;
use crate::core::leadership::role::{Role, RoleChange};
use crate::core::namespace::{BuiltRequest, Outcome};
use crate::core::object::ObjectKey;
use crate::core::publish::reports::{Reply, Reported, Taken};
use crate::core::publish::throttling::{Limit, Throttled, Throttling};
use crate::core::publish::{Landing, Next, Publisher, Replied, WriteEffect};
use crate::metrics::WriterMetrics;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use smallvec::SmallVec;
use std::time::Duration;
use tokio::task::yield_now;

pub use crate::core::publish::Pacing;

/// A timer that fires later than this shows that the process could not do anything meanwhile.
const STALL: Duration = Duration::from_millis(50);

/// Arguments for starting the writer.
#[derive(Debug)]
pub struct WriterArguments {
    /// The handle that the shards hold.
    pub handle: WriterHandle,
    /// Reaches the shards.
    pub router: Routes,
    /// Reaches the API server.
    pub objects: ObjectClient,
    /// Rate limits and batching of the writes.
    pub pacing: Pacing,
    /// Seed for the jitter of delays.
    pub seed: u64,
}

/// The state of the writer.
#[derive(Debug)]
pub struct WriterState {
    handle: WriterHandle,
    router: Routes,
    objects: ObjectClient,
    publisher: Publisher,
    throttling: Throttling,
    /// When the next [`WriterMsg::Tick`] is due, if one is armed.
    tick: Option<Duration>,
    role: Role,
    draining: Vec<RpcReplyPort<()>>,
    /// The entries that are being taken from the handle; empty between messages.
    taken: Vec<Taken>,
    metrics: WriterMetrics,
}

/// The writer actor.
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
        handle.set(myself)?;
        Ok(WriterState {
            handle,
            router,
            objects,
            publisher: Publisher::new(pacing, seed),
            throttling: Throttling::default(),
            tick: None,
            role: Role::Leader,
            draining: Vec::new(),
            taken: Vec::new(),
            metrics: WriterMetrics::default(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<WriterMsg>,
        message: WriterMsg,
        state: &mut WriterState,
    ) -> Result<(), ActorProcessingErr> {
        let now = state.now();
        state.notice_stall(now);
        state.publisher.set_term(state.objects.term());
        state.take_signals(now);
        let (mut more, mut asked) = (false, None);
        match message {
            WriterMsg::Wake => more = state.take_reports(true, now, &myself),
            WriterMsg::Done(key, answer) => state.done(&key, answer, now),
            // A tick that was armed for later than the present one changes nothing.
            WriterMsg::Tick => state.tick = state.tick.filter(|&at| at > now),
            WriterMsg::Ping(answer) => {
                more = state.take_reports(false, now, &myself);
                asked = Some(answer);
            }
            WriterMsg::Drain(reply) => {
                state.publisher.drain();
                state.throttling.clear();
                state.draining.push(reply);
            }
        }
        state.grant(now, &myself);
        if state.publisher.is_drained() {
            for reply in state.draining.drain(..) {
                let _ = reply.send(());
            }
        }
        // In a dry run the drift tracker reports what is out of sync, and on a standby the leader does.
        let observes = state.publisher.writes() && state.role != Role::DryRun;
        if observes {
            let (queue, metrics) = (state.publisher.queue(), &state.metrics.queue);
            metrics.waiting.set(queue.waiting() as f64);
            metrics.in_flight.set(queue.in_flight() as f64);
        }
        if let Some(asked) = asked {
            state.metrics.refresh(&state.publisher, observes, now);
            let _ = asked.send(());
        }
        if more {
            // Without this, the runtime would run a hundred messages more before it polls other actors.
            yield_now().await;
        }
        Ok(())
    }
}

impl WriterState {
    fn now(&self) -> Duration {
        self.handle.now()
    }

    /// Takes the reports that come next, for a [`WriterMsg::Wake`] or, if `woken` is false, for another message. Returns whether the
    /// writer wakes itself for those that are left.
    fn take_reports(&mut self, woken: bool, now: Duration, myself: &ActorRef<WriterMsg>) -> bool {
        // Kept, so that its memory is asked for once.
        let mut taken = std::mem::take(&mut self.taken);
        let more = self.handle.take(&mut taken, woken);
        for taken in taken.drain(..) {
            match taken {
                Taken::Role(change) => self.change_role(change, now),
                Taken::Reported(key, reported) => self.reported(&key, reported, now, myself),
            }
        }
        self.taken = taken;
        if more {
            let _ = myself.cast(WriterMsg::Wake);
        }
        more
    }

    /// Takes the signals of our own watches since the last message.
    fn take_signals(&mut self, now: Duration) {
        for signal in self.handle.take_signals() {
            self.publisher.signalled(&signal, now);
        }
        for (output, took) in self.publisher.take_echoes() {
            self.metrics.queue.echoes[output as usize].record(took);
        }
        let metrics = &self.metrics.queue;
        metrics.sent_to_watchers.increment(self.publisher.take_sent());
        for (counter, writes) in metrics.beyond.iter().zip(self.publisher.take_beyond()) {
            counter.increment(writes);
        }
    }

    /// Notices that this process was busy or stopped when a timer should have fired.
    fn notice_stall(&mut self, now: Duration) {
        if self.tick.is_some_and(|tick| tick + STALL < now) {
            self.publisher.stalled(now);
        }
    }

    /// Grants as many objects as the rate limit and the window in flight allow.
    fn grant(&mut self, now: Duration, myself: &ActorRef<WriterMsg>) {
        let mut again = true;
        loop {
            let mut granted: SmallVec<[_; 4]> = SmallVec::new();
            let (until, limited) = loop {
                match self.publisher.next(now) {
                    Next::Grant { key, priority, age } => {
                        self.metrics.granted(&key, priority, age, now);
                        granted.push(key);
                    }
                    Next::Wait { until, limited } => break (until, limited),
                }
            };
            if self.tell_granted(&granted, now) {
                self.metrics.held_back(now, limited);
                self.log_throttling(limited, now);
                if let Some(until) = until.into_iter().chain(self.throttling.due()).min() {
                    self.wake_at(until, now, myself);
                }
                if self.handle.await_echoes(limited == Some(Limit::Echoes)) {
                    if !std::mem::take(&mut again) {
                        // The clock goes on, and others have their turn.
                        let _ = myself.cast(WriterMsg::Wake);
                        return;
                    }
                    // One has come meanwhile.
                    self.take_signals(now);
                    continue;
                }
                return;
            }
        }
    }

    /// Tells the shards which objects are granted, with one message for those of one namespace that follow one another. Returns
    /// false if the grant of an object has ended with this because its shard was retired: it had nothing left to write.
    fn tell_granted(&mut self, granted: &[Hashed<ObjectKey>], now: Duration) -> bool {
        let mut told = true;
        for same in granted.chunk_by(|a, b| a.namespace == b.namespace) {
            for some in same.chunks(GRANTED_AT_ONCE) {
                let objects = some.iter().map(|key| key.object.clone()).collect();
                if !self.tell(&some[0], ShardMsg::Grant(objects)) {
                    told = false;
                    for key in some {
                        self.publisher.nothing(key, now);
                        self.metrics.nothing(key);
                    }
                }
            }
        }
        told
    }

    /// Logs that writes have been held back for long, and later that they no longer are.
    fn log_throttling(&mut self, limit: Option<Limit>, now: Duration) {
        match self.throttling.observe(limit, now) {
            Some(Throttled::Long(limit, lasted)) => tracing::warn!(
                seconds = lasted.as_secs(),
                waiting = self.publisher.queue().waiting(),
                reason = match limit {
                    Limit::Rate => "--kube-api-qps",
                    Limit::Namespace | Limit::InFlight => "answers are awaited",
                    Limit::Echoes =>
                        "endpointd's own watch has not shown earlier writes: the API server is behind with events, or that watch is late or closed",
                    Limit::Watchers => "--watch-budget or --watch-budget-per-watcher",
                },
                "writes are held back"
            ),
            Some(Throttled::Over(lasted)) => {
                tracing::info!(seconds = lasted.as_secs(), "writes are no longer held back");
            }
            None => {}
        }
    }

    /// Sends a message to an object's shard. Returns false when there is none.
    fn tell(&self, key: &Hashed<ObjectKey>, message: ShardMsg) -> bool {
        let router = self.router.get();
        router.is_some_and(|router| router.tell(&key.namespace, message))
    }

    fn wake_at(&mut self, at: Duration, now: Duration, myself: &ActorRef<WriterMsg>) {
        if self.tick.is_some_and(|tick| tick <= at) {
            return;
        }
        self.tick = Some(at);
        // The timer's handle is dropped: a tick that comes too early or too late does no harm.
        drop(myself.send_after(at.saturating_sub(now), || WriterMsg::Tick));
    }

    fn change_role(&mut self, change: RoleChange, now: Duration) {
        self.role = change.role;
        self.publisher.change_role(change);
        if change.lost {
            self.throttling.clear();
            self.metrics.cleared(now);
        }
    }

    /// Handles a shard's report about an object.
    fn reported(
        &mut self,
        key: &Hashed<ObjectKey>,
        reported: Reported,
        now: Duration,
        myself: &ActorRef<WriterMsg>,
    ) {
        match &reported.reply {
            Some(Reply::Settled) => self.metrics.settled(key),
            Some(Reply::Nothing) => self.metrics.nothing(key),
            Some(Reply::Built(_)) | None => {}
        }
        let wanted = reported.wanted.as_ref();
        let wanted = wanted.map(|(want, noticed)| (want.retry != Retry::Now, *noticed));
        match self.publisher.reported(key, reported, now) {
            Replied::Send(built) => self.send(key.clone(), built, myself),
            Replied::Unsent => self.done(key, Answer::unsent(), now),
            Replied::Nothing => {}
        }
        // Counted last: a request that has just been sent does not carry these changes.
        if let Some((again, noticed)) = wanted
            && self.publisher.writes()
        {
            self.metrics.wanted(key, again, noticed);
        }
    }

    fn send(&mut self, key: Hashed<ObjectKey>, built: BuiltRequest, myself: &ActorRef<WriterMsg>) {
        let BuiltRequest { request, changes } = built;
        self.metrics.sent(&key, &request, changes);
        let (objects, myself, term) = (self.objects.clone(), myself.clone(), self.publisher.term());
        // Boxed where it is made: the runtime moves a task several times, and this one is of some kilobytes.
        let exchange = Box::pin(async move {
            let answer = objects
                .carry_out(&key.namespace, &key.object, request, term)
                .await;
            let _ = myself.cast(WriterMsg::Done(key, answer));
        });
        // There are at most as many of these tasks as requests may be in flight.
        tokio::spawn(exchange);
    }

    fn done(&mut self, key: &Hashed<ObjectKey>, answer: Answer, now: Duration) {
        let Answer {
            outcome,
            why,
            pause,
            took,
            load,
        } = answer;
        self.metrics.done(key, &outcome, took, now);
        if let Outcome::Rejected = outcome {
            tracing::debug!(namespace = %key.namespace, kind = %key.object.output, name = %key.object.name, "a request was refused; it is retried slowly");
        }
        let effect = WriteEffect::of(&outcome, load);
        // The shard reports whether the object is due again; without a shard, there is nothing left to write.
        let has_shard = self.tell(key, ShardMsg::Outcome(key.object.clone(), outcome, why));
        let landing = Landing {
            load,
            effect,
            took,
            pause,
            has_shard,
        };
        self.publisher.answered(key, landing, now);
    }
}
