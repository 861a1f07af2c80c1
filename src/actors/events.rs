//! Notices for users: a line of the log and a Kubernetes Event for each, within the limit of its namespace.
//!
//! A caller records a notice and goes on. One task writes Events, one at a time, from one queue; a notice for which the queue
//! has no room is dropped, and counted. So are those that are unwritten at the shutdown.

use crate::clock;
use crate::cluster::events::{EventAnswer, EventClient};
use crate::core::bucket::TokenBucket;
use crate::core::events::{EventLog, EventOutcome, Notice};
use crate::core::leadership::role::Role;
use crate::core::time::Time;
use crate::metrics::catalogue::Events;
use crate::tenant_log::TenantLog;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// The most notices that wait.
const MOST_WAITING: usize = 1024;
/// Number of Events that may be sent at once,
const BURST: u32 = 50;
/// and then per second. Each is a write to etcd that no endpoint waits for: when the Services of a thousand namespaces fail
/// at once, their Events must not add to the load of an API server that may be in trouble already.
const QPS: f64 = 5.0;
/// Number of requests after which an Event is given up.
const TRIES: u32 = 6;
/// The pause of all Events after a failed request, as the next would likely fail too; it doubles with each further one,
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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

/// Takes notices for users. Clones share everything.
#[derive(Clone, Debug)]
pub struct EventHandle {
    queue: mpsc::Sender<(Notice, Time)>,
    /// True if this process may write.
    writes: Arc<AtomicBool>,
    log: TenantLog,
    clock: WallClock,
    metrics: Arc<Events>,
}

impl Default for EventHandle {
    /// Creates a handle whose Events are written by no task.
    fn default() -> Self {
        queue(TenantLog::default(), WallClock::default()).0
    }
}

/// Creates the queue of notices: the handle that fills it, and its other end.
fn queue(log: TenantLog, clock: WallClock) -> (EventHandle, mpsc::Receiver<(Notice, Time)>) {
    let (queue, waiting) = mpsc::channel(MOST_WAITING);
    let handle = EventHandle {
        queue,
        writes: Arc::new(AtomicBool::new(true)),
        log,
        clock,
        metrics: Arc::default(),
    };
    (handle, waiting)
}

impl EventHandle {
    /// Logs a notice, and queues it to be written as an Event, if its namespace's limit allows that. The caller never waits.
    ///
    /// A process that does not write says what is wrong, and nothing else: the one that writes says the rest, and writes the
    /// Events.
    pub fn record(&self, notice: Notice) {
        let writes = self.writes.load(Ordering::Relaxed);
        if !writes && !notice.warning {
            return;
        }
        if !self.log.admits(&notice.involved.namespace) {
            return self.leave_out(1);
        }
        log(&notice);
        if writes && self.queue.try_send((notice, self.clock.now())).is_err() {
            self.leave_out(1);
        }
    }

    /// Counts notices that were left out before they could be recorded.
    pub fn leave_out(&self, notices: u64) {
        self.metrics.dropped.increment(notices);
    }

    /// Returns the limit of the lines about each namespace.
    pub(crate) fn log(&self) -> &TenantLog {
        &self.log
    }

    /// Changes the role of this process; until the first call, it may write. Must be called before the shards hear of the
    /// change.
    pub fn change_role(&self, role: Role) {
        self.writes.store(role.writes(), Ordering::Relaxed);
    }
}

fn log(notice: &Notice) {
    let Notice {
        involved,
        warning,
        reason,
        message,
        ..
    } = notice;
    let (namespace, kind, name) = (&involved.namespace, involved.kind.as_str(), &involved.name);
    if *warning {
        tracing::warn!(%namespace, %kind, %name, reason, "{message}");
    } else {
        tracing::info!(%namespace, %kind, %name, reason, "{message}");
    }
}

/// Writes Events.
#[derive(Debug)]
pub struct EventWriter {
    queue: mpsc::Receiver<(Notice, Time)>,
    client: EventClient,
    events: EventLog,
    bucket: TokenBucket,
    start: Instant,
    /// True since a failure to write an Event was logged, and until one is written.
    complained: bool,
    metrics: Arc<Events>,
}

impl EventWriter {
    /// Creates the writer, and the handle by which it is told what to write.
    pub fn new(client: EventClient, log: TenantLog, clock: WallClock) -> (EventHandle, Self) {
        let (handle, queue) = queue(log, clock);
        let writer = Self {
            queue,
            client,
            events: EventLog::default(),
            bucket: TokenBucket::new(QPS, BURST),
            start: Instant::now(),
            complained: false,
            metrics: handle.metrics.clone(),
        };
        (handle, writer)
    }

    /// Writes what is recorded, for as long as there are handles.
    pub async fn run(mut self) {
        while let Some((notice, at)) = self.queue.recv().await {
            if !self.write(&notice, at).await {
                self.metrics.dropped.increment(1);
            }
        }
    }

    /// Writes an Event. Returns false if it was given up.
    async fn write(&mut self, notice: &Notice, at: Time) -> bool {
        let mut write = self.events.write(notice, at);
        for tries in 0..TRIES {
            while let Err(wait) = self.bucket.take(clock::since(self.start)) {
                sleep(wait).await;
            }
            let EventAnswer { outcome, complaint } = self.client.carry_out(&write).await;
            let result = match outcome {
                EventOutcome::Written => 0,
                EventOutcome::Exists | EventOutcome::NotFound | EventOutcome::Rejected => 1,
                EventOutcome::Failed { .. } => 2,
            };
            self.metrics.outcomes[result].increment(1);
            self.complain(complaint);
            match outcome {
                EventOutcome::Written | EventOutcome::Exists => {
                    self.complained = false;
                    self.events.remember(&write);
                    return true;
                }
                EventOutcome::NotFound => {
                    self.events.forget(&write);
                    write = self.events.write(notice, at);
                }
                // What fails for one namespace, such as a webhook of its own, is no reason for the others to wait.
                EventOutcome::Rejected | EventOutcome::Failed { alone: true, .. } => return false,
                EventOutcome::Failed { pause, .. } => {
                    let pause = (FIRST_PAUSE * (1 << tries)).max(pause.unwrap_or_default());
                    sleep(pause.min(LONGEST_PAUSE)).await;
                }
            }
        }
        false
    }

    /// Logs the first failure: a controller that may not write Events would otherwise warn about each of them.
    fn complain(&mut self, complaint: Option<String>) {
        let Some(complaint) = complaint else {
            return;
        };
        if std::mem::replace(&mut self.complained, true) {
            tracing::debug!(complaint, "an Event could not be written");
        } else {
            tracing::warn!(
                complaint,
                "an Event could not be written; further failures are not logged until one succeeds"
            );
        }
    }
}
