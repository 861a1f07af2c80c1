//! Kubernetes Events: one actor that writes them, one at a time, without blocking anything else.
//!
//! A caller records a notice in the handle and goes on. A notice that repeats one that still waits replaces it. Nothing waits
//! for an Event to be written, and those that are unwritten at the shutdown are dropped.

use super::messages::{EventHandle, EventMsg};
use crate::clock;
use crate::cluster::events::{EventAnswer, EventClient};
use crate::core::events::{EventLog, EventOutcome, Key, Moment, RepeatedNotice, TakenNotices};
use crate::core::time::Time;
use crate::metrics::EventMetrics;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The wall clock, for the times in Events.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Time + Send + Sync>);

impl WallClock {
    /// Creates a clock from a function, for tests.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl Default for WallClock {
    /// Creates the system's clock.
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

/// Arguments for starting the actor.
#[derive(Debug)]
pub struct EventArguments {
    /// The handle in which notices are recorded.
    pub handle: EventHandle,
    /// Sends the requests.
    pub client: EventClient,
    /// The wall clock.
    pub clock: WallClock,
}

/// The state of the actor.
#[derive(Debug)]
pub struct EventState {
    handle: EventHandle,
    client: EventClient,
    clock: WallClock,
    log: EventLog,
    /// True if this process may write.
    writes: bool,
    start: Instant,
    /// When the next [`EventMsg::Tick`] is due, if one is armed.
    tick: Option<Duration>,
    /// True since a failure to write an Event was logged, and until one is written.
    complained: bool,
    metrics: EventMetrics,
}

/// The actor that writes Events.
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
        // Notices recorded before the start could not wake the actor.
        let _ = myself.cast(EventMsg::Wake);
        Ok(EventState {
            handle,
            client,
            clock,
            log: EventLog::default(),
            writes: true,
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
        let now = clock::since(state.start);
        match message {
            EventMsg::Wake => {
                let wall = state.clock.now();
                let TakenNotices {
                    role,
                    notices,
                    dropped,
                } = state.handle.take();
                if let Some(change) = role {
                    state.writes = change.role.writes();
                    if change.lost {
                        state.log = EventLog::default();
                    }
                }
                for RepeatedNotice { notice, times } in notices {
                    state.log.record(notice, times, Moment { now, wall });
                }
                state.metrics.dropped(dropped);
            }
            EventMsg::Done(key, answer) => state.done(&key, answer, now),
            // The timer of a tick that an earlier one replaced still fires. It must not disarm the tick that is armed by then.
            EventMsg::Tick => state.tick = state.tick.filter(|&at| at > now),
            EventMsg::Ping(answer) => {
                let _ = answer.send(());
            }
        }
        if state.writes {
            state.send(now, &myself);
        }
        state.metrics.dropped(state.log.take_given_up());
        Ok(())
    }
}

impl EventState {
    /// Sends the next request, or arms a tick for when the next one is due.
    fn send(&mut self, now: Duration, myself: &ActorRef<EventMsg>) {
        if let Some(write) = self.log.next(now) {
            let (client, myself) = (self.client.clone(), myself.clone());
            // There is one request at a time: the log returns no other one before this one is done.
            tokio::spawn(async move {
                let answer = client.carry_out(&write).await;
                let _ = myself.cast(EventMsg::Done(write.key, answer));
            });
        } else if let Some(at) = self.log.next_due()
            && self.tick.is_none_or(|tick| tick > at)
        {
            self.tick = Some(at);
            // The timer's handle is dropped: it is not stopped. A tick that comes too early or too late does no harm.
            drop(myself.send_after(at.saturating_sub(now), || EventMsg::Tick));
        }
    }

    /// Handles the answer to a request.
    fn done(&mut self, key: &Key, answer: EventAnswer, now: Duration) {
        let EventAnswer { outcome, complaint } = answer;
        self.metrics.done(outcome);
        if outcome == EventOutcome::Written {
            self.complained = false;
        }
        // Warn only once: a controller that may not write Events would otherwise warn about each of them.
        if let Some(complaint) = complaint {
            if std::mem::replace(&mut self.complained, true) {
                tracing::debug!(complaint, "an Event could not be written");
            } else {
                tracing::warn!(
                    complaint,
                    "an Event could not be written; further failures are not logged until one succeeds"
                );
            }
        }
        self.log.done(key, outcome, now);
    }
}
