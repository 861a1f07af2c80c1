//! Events for people: one actor that writes them, one at a time, and never in anybody's way.
//!
//! Whoever has something to say leaves it in the handle's map, latest wins, and goes on. Nothing waits for an
//! Event, and on shutdown those that are not written yet are forgotten.

use super::messages::{EventHandle, EventMsg};
use crate::cluster::events::{EventAnswer, EventClient};
use crate::core::events::{EventLog, EventOutcome, Key, Moment, Pending};
use crate::core::leadership::Role;
use crate::core::time::Time;
use crate::metrics::EventMetrics;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The clock that people read.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Time + Send + Sync>);

impl WallClock {
    /// One that a test sets.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time on it.
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl Default for WallClock {
    /// The system's.
    fn default() -> Self {
        Self::new(|| {
            let nanoseconds = jiff::Timestamp::now().as_nanosecond();
            Time::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
        })
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WallClock").field(&self.now()).finish()
    }
}

/// What the actor is made with.
#[derive(Debug)]
pub struct EventArguments {
    /// The handle that others have.
    pub handle: EventHandle,
    /// How to reach the API server.
    pub client: EventClient,
    /// What the time is.
    pub clock: WallClock,
}

/// What the actor owns.
#[derive(Debug)]
pub struct EventState {
    handle: EventHandle,
    client: EventClient,
    clock: WallClock,
    log: EventLog,
    role: Role,
    start: Instant,
    /// When the next [`EventMsg::Tick`] comes, if one does.
    tick: Option<Duration>,
    /// Whether people have been told that Events cannot be written, since one was.
    complained: bool,
    metrics: EventMetrics,
}

/// The actor's behaviour.
#[derive(Debug)]
pub struct Events;

impl Actor for Events {
    type Msg = EventMsg;
    type State = EventState;
    type Arguments = EventArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<EventMsg>,
        arguments: EventArguments,
    ) -> Result<EventState, ActorProcessingErr> {
        let EventArguments {
            handle,
            client,
            clock,
        } = arguments;
        handle.set(myself.clone())?;
        // What was recorded before had nobody to wake.
        let _ = myself.cast(EventMsg::Wake);
        Ok(EventState {
            handle,
            client,
            clock,
            log: EventLog::default(),
            role: Role::Leader,
            start: Instant::now(),
            tick: None,
            complained: false,
            metrics: EventMetrics::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<EventMsg>,
        message: EventMsg,
        state: &mut EventState,
    ) -> Result<(), ActorProcessingErr> {
        let now = Instant::now().saturating_duration_since(state.start);
        match message {
            // Whoever leads will say what is to be said.
            EventMsg::Wake if !state.role.writes() => drop(state.handle.take()),
            EventMsg::Wake => {
                let wall = state.clock.now();
                let (notices, dropped) = state.handle.take();
                for Pending { notice, times } in notices {
                    state.log.record(notice, times, Moment { now, wall });
                }
                state.metrics.dropped(dropped);
            }
            EventMsg::Done(key, answer) => state.done(&key, answer, now),
            // One that was armed for later than the present one changes nothing.
            EventMsg::Tick => state.tick = state.tick.filter(|&at| at > now),
            EventMsg::Ping(answer) => {
                let _ = answer.send(());
            }
            EventMsg::Role(role) => {
                state.role = role;
                if !role.writes() {
                    state.log = EventLog::default();
                    drop(state.handle.take());
                }
            }
        }
        if state.role.writes() {
            state.send(now, &myself);
        }
        state.metrics.dropped(state.log.take_given_up());
        state.metrics.observe(state.log.waiting());
        Ok(())
    }
}

impl EventState {
    /// Sends the next request, or sees to it that this is looked at again in time.
    fn send(&mut self, now: Duration, myself: &ActorRef<EventMsg>) {
        if let Some(write) = self.log.next(now) {
            let (client, myself) = (self.client.clone(), myself.clone());
            // One of these at a time: the log has nothing else before this one is done.
            tokio::spawn(async move {
                let answer = client.carry_out(&write).await;
                let _ = myself.cast(EventMsg::Done(write.key, answer));
            });
        } else if let Some(at) = self.log.next_due()
            && self.tick.is_none_or(|tick| tick > at)
        {
            self.tick = Some(at);
            // Its handle is not kept: a tick that comes too early or too late does no harm.
            drop(myself.send_after(at.saturating_sub(now), || EventMsg::Tick));
        }
    }

    fn done(&mut self, key: &Key, answer: EventAnswer, now: Duration) {
        let EventAnswer { outcome, complaint } = answer;
        self.metrics.done(outcome);
        if outcome == EventOutcome::Written {
            self.complained = false;
        }
        // Once is enough: a controller that may not write Events would else say so with each.
        if let Some(complaint) = complaint {
            if std::mem::replace(&mut self.complained, true) {
                tracing::debug!(complaint, "an Event could not be written");
            } else {
                tracing::warn!(
                    complaint,
                    "an Event could not be written; until one can, this is not said again"
                );
            }
        }
        self.log.done(key, outcome, now);
    }
}
