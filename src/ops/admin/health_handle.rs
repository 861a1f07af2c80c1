//! The health of a running controller, as the admin server and the election see it.

use super::health::Check;
use crate::actors::inbox::Inbox;
use crate::actors::messages::{RootMsg, ShardMsg, WriterHandle, WriterMsg};
use crate::actors::router::Router;
use crate::cluster::fence::{Clock, Fence};
use crate::core::leadership::Leadership;
use crate::core::namespace::Kind;
use crate::core::outputs::Outputs;
use crate::ops::progress::Progress;
use parking_lot::Mutex;
use ractor::ActorRef;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// An actor that has not answered for this long is considered stuck. A namespace of 100,000 pods is read in a second
/// or two, and a kubelet acts only after several failures.
const STUCK: Duration = Duration::from_secs(20);
/// The interval at which the watchdog runs.
const BEAT: Duration = Duration::from_secs(1);
/// The number of shards that it asks at a time. Shards with pending work are all covered by the age of that work.
const SAMPLE: usize = 32;
/// The time beyond its duration that a Lease may go without a renewal before this process reports itself as
/// unhealthy. Upstream has the same.
const TOLERANCE: Duration = Duration::from_secs(20);
/// The time that a request for metrics waits for the writer's latest figures.
const REFRESH: Duration = Duration::from_millis(500);

/// The time of the last renewal of the Lease that this process holds. Clones share it.
#[derive(Clone, Debug)]
pub struct Renewal {
    clock: Clock,
    lease: Duration,
    /// The time at which the last accepted renewal was sent. `None` while this process does not hold the Lease.
    sent: Arc<Mutex<Option<Duration>>>,
}

impl Renewal {
    /// Creates the record of a Lease of this duration that this process does not hold yet.
    pub fn new(clock: Clock, lease: Duration) -> Self {
        Self {
            clock,
            lease,
            sent: Arc::default(),
        }
    }

    /// Records the time of a renewal, or `None` when this process does not hold the Lease any more.
    pub(in crate::ops) fn set(&self, sent: Option<Duration>) {
        *self.sent.lock() = sent;
    }

    /// Returns the time since the last renewal, if this process holds the Lease.
    fn age(&self) -> Option<Duration> {
        let sent = (*self.sent.lock())?;
        Some(self.clock.now().saturating_sub(sent))
    }

    /// Returns an error if the Lease is held and its last renewal is too long ago.
    fn check(&self) -> Result<(), String> {
        match self.age() {
            Some(age) if age > self.lease + TOLERANCE => {
                Err(format!("the lease was last renewed {} s ago", age.as_secs()))
            }
            _ => Ok(()),
        }
    }
}

/// The parts of a running controller that are observed.
#[derive(Debug)]
pub struct Parts {
    /// The root actor.
    pub root: ActorRef<RootMsg>,
    /// The handle to the writer.
    pub writer: WriterHandle,
    /// The router, which knows the shards.
    pub router: Arc<Router>,
    /// The current role.
    pub leadership: watch::Receiver<Leadership>,
    /// The renewals of the Lease, if there is an election.
    pub renewal: Option<Renewal>,
    /// The fence that all writes pass.
    pub fence: Fence,
    /// The kinds of objects that are managed.
    pub outputs: Outputs,
    /// The progress record to which the watchdog reports, if there is an election.
    pub progress: Option<Progress>,
}

/// A handle on the health of a controller, which is empty until the controller runs. Clones share it.
#[derive(Clone, Default)]
pub struct HealthHandle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    parts: OnceLock<Parts>,
    /// Whether the watchdog runs.
    watched: AtomicBool,
    /// The questions of the watchdog, with at most one to each actor in flight.
    questions: Mutex<State>,
    /// The last warning about each failing endpoint and its time, so that not every probe logs it again.
    complaints: Mutex<Vec<(String, String, Instant)>>,
}

impl fmt::Debug for HealthHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthHandle").finish_non_exhaustive()
    }
}

impl HealthHandle {
    /// Asks the actors once a second whether they answer, and reports the result to the election. Never ends. Only the
    /// first call does this; any other call just waits.
    pub(in crate::ops) async fn watch_over(&self) {
        if self.0.watched.swap(true, Ordering::AcqRel) {
            std::future::pending::<()>().await;
        }
        let mut beats = interval(BEAT);
        // A process that was suspended does not make up for the ticks that it missed.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.beat();
        }
    }

    fn beat(&self) {
        let parts = self.parts();
        self.0.questions.lock().ask(parts);
        let verdict = self.verdict();
        if let Err(why) = &verdict {
            self.complain("watchdog", why);
        }
        if let Some(progress) = parts.and_then(|parts| parts.progress.as_ref()) {
            progress.note(verdict);
        }
    }

    /// Returns a check for the watchdog and for each kind of actor.
    pub(super) fn checks(&self) -> Vec<Check> {
        self.0.questions.lock().checks()
    }

    /// Returns the first failure among the checks, if there is one.
    pub(super) fn verdict(&self) -> Result<(), String> {
        for Check { name, result } in self.checks() {
            result.map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(())
    }

    /// Sets the parts of the controller once it runs. Later calls have no effect.
    pub fn set(&self, parts: Parts) {
        let _ = self.0.parts.set(parts);
    }

    fn parts(&self) -> Option<&Parts> {
        self.0.parts.get()
    }

    /// Returns whether the cache of each kind is complete. A standby needs only the kinds that endpoints are made from.
    pub(super) fn readiness(&self) -> Vec<Check> {
        let Some(parts) = self.parts() else {
            return vec![Check::new("start", Err("not started yet".to_owned()))];
        };
        let follows_outputs = parts.leadership.borrow().role.follows_outputs();
        Kind::needed_for(parts.outputs)
            .filter(|kind| follows_outputs || !kind.is_output())
            .map(|kind| {
                let applied = parts.router.has_applied(kind);
                let wrong = || "not listed and applied yet".to_owned();
                Check::new(kind.as_str(), applied.then_some(()).ok_or_else(wrong))
            })
            .collect()
    }

    /// Returns the checks of kube-controller-manager: the election, and the controllers, which are as healthy as the
    /// actors.
    pub(super) fn health(&self, actors: &Result<(), String>) -> Vec<Check> {
        let mut checks = Vec::new();
        let Some(parts) = self.parts() else {
            return checks;
        };
        if let Some(renewal) = &parts.renewal {
            checks.push(Check::new("leaderElection", renewal.check()));
        }
        let controllers = parts.outputs.controllers();
        checks.extend(controllers.map(|name| Check::new(name, actors.clone())));
        checks
    }

    /// Lets the writer bring its figures up to date, and returns whether this process may write.
    pub(super) async fn refresh(&self) -> bool {
        let Some(parts) = self.parts() else {
            return false;
        };
        let (answer, answered) = oneshot::channel();
        parts.writer.send(WriterMsg::Ping(answer));
        // If the writer does not answer in time, those figures are served that it had when it last answered.
        let _ = timeout(REFRESH, answered).await;
        parts.fence.is_open()
    }

    /// Logs why an endpoint fails: when the reason changes, and otherwise at most once a minute.
    pub(super) fn complain(&self, endpoint: &str, why: &str) {
        let now = Instant::now();
        let mut complaints = self.0.complaints.lock();
        let known = complaints.iter().position(|(known, ..)| known == endpoint);
        if let Some(at) = known {
            let (_, said, when) = &complaints[at];
            if said == why && now.saturating_duration_since(*when) < Duration::from_secs(60) {
                return;
            }
            complaints.remove(at);
        }
        complaints.push((endpoint.to_owned(), why.to_owned(), now));
        tracing::warn!(endpoint, why, "the admin server reports a failure");
    }
}

#[derive(Default, Debug)]
struct State {
    /// The time of its last run, if it has started.
    beat: Option<Instant>,
    root: Asked,
    writer: Asked,
    shards: Vec<(Arc<str>, Arc<Inbox>, Asked)>,
    /// The shard with the longest-unhandled inbox.
    longest: Option<(Arc<str>, Duration)>,
    random: fastrand::Rng,
}

/// A question that may be in flight, and the time at which it was sent.
#[derive(Default, Debug)]
struct Asked(Option<(Instant, oneshot::Receiver<()>)>);

impl Asked {
    /// Returns whether the answer is still pending. An actor that is gone need not answer: if it should not be gone,
    /// the root knows.
    fn waits(&mut self) -> bool {
        if let Some((_, answer)) = &mut self.0
            && answer.try_recv() != Err(TryRecvError::Empty)
        {
            self.0 = None;
        }
        self.0.is_some()
    }

    fn ask(&mut self, now: Instant, send: impl FnOnce(oneshot::Sender<()>)) {
        if !self.waits() {
            let (answer, answered) = oneshot::channel();
            send(answer);
            self.0 = Some((now, answered));
        }
    }

    /// Returns an error if the answer is overdue. An actor that has been seen at work since is not stuck.
    fn check(&mut self, now: Instant, seen: Option<Instant>) -> Result<(), String> {
        if self.waits()
            && let Some((since, _)) = self.0
            && let age = now.saturating_duration_since(seen.map_or(since, |seen| seen.max(since)))
            && age > STUCK
        {
            return Err(format!("no answer for {} s", age.as_secs()));
        }
        Ok(())
    }
}

impl State {
    /// Asks the actors whether they answer.
    fn ask(&mut self, parts: Option<&Parts>) {
        let now = Instant::now();
        self.beat = Some(now);
        let Some(parts) = parts else { return };
        // The root may be gone already, in which case it need not answer.
        self.root
            .ask(now, |answer| drop(parts.root.cast(RootMsg::Ping(answer))));
        self.writer
            .ask(now, |answer| parts.writer.send(WriterMsg::Ping(answer)));
        self.shards.retain_mut(|(.., asked)| asked.waits());
        if self.shards.is_empty() {
            let random = self.random.f64();
            for (namespace, shard, inbox) in parts.router.sample(SAMPLE, random) {
                let mut asked = Asked::default();
                asked.ask(now, |answer| drop(shard.cast(ShardMsg::Ping(answer))));
                self.shards.push((namespace, inbox, asked));
            }
        }
        self.longest = parts.router.longest_unhandled(now);
    }

    fn checks(&mut self) -> Vec<Check> {
        let now = Instant::now();
        let mut shards = Ok(());
        for (namespace, inbox, asked) in &mut self.shards {
            // A shard that works for long, but turn by turn, delays only its own namespace.
            if let Err(why) = asked.check(now, inbox.turned()) {
                shards = Err(format!("namespace {namespace}: {why}"));
            }
        }
        if let Some((namespace, age)) = &self.longest
            && *age > STUCK
        {
            let age = age.as_secs();
            shards = Err(format!(
                "namespace {namespace}: events have not been processed for {age} s"
            ));
        }
        let late = self
            .beat
            .map_or(Duration::ZERO, |beat| now.saturating_duration_since(beat));
        let watchdog = if late > STUCK {
            Err(format!("no check has run for {} s", late.as_secs()))
        } else {
            Ok(())
        };
        vec![
            Check::new("watchdog", watchdog),
            Check::new("root", self.root.check(now, None)),
            Check::new("writer", self.writer.check(now, None)),
            Check::new("shards", shards),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::events::EventHandle;
    use crate::core::namespace::Settings;
    use crate::ops::progress::STALLED_AFTER;
    use ractor::{Actor, ActorProcessingErr};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_for_long_is_stuck() {
        let mut asked = Asked::default();
        let (start, mut answer) = (Instant::now(), None);
        asked.ask(start, |sender| answer = Some(sender));
        assert_eq!(asked.check(start + STUCK, None), Ok(()));
        let late = start + STUCK + BEAT;
        // A second question would be younger than the one in flight, so none is sent.
        asked.ask(late, |_| panic!("it was asked again"));
        assert_eq!(asked.check(late, None), Err("no answer for 21 s".to_owned()));
        assert_eq!(asked.check(late, Some(start + STUCK)), Ok(()), "it is at work");
        answer.unwrap().send(()).unwrap();
        assert_eq!(asked.check(late, None), Ok(()));
        asked.ask(late, drop);
        assert_eq!(
            asked.check(late + 2 * STUCK, None),
            Ok(()),
            "who is gone is not stuck"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_watchdog_that_does_not_look_is_stuck_itself() {
        let health = HealthHandle::default();
        assert_eq!(health.verdict(), Ok(()), "it has not begun");
        health.beat();
        tokio::time::advance(STUCK + BEAT).await;
        let verdict = health.verdict().unwrap_err();
        assert_eq!(verdict, "watchdog: no check has run for 21 s");
        health.beat();
        assert_eq!(health.verdict(), Ok(()));
    }

    /// A root that never finishes its first message.
    struct Stuck;

    impl Actor for Stuck {
        type Msg = RootMsg;
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<RootMsg>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(
            &self,
            _: ActorRef<RootMsg>,
            _message: RootMsg,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            std::future::pending().await
        }
    }

    /// A controller with these outputs, whose root is stuck.
    async fn stuck(outputs: Outputs, progress: Option<Progress>) -> HealthHandle {
        let (root, _) = Actor::spawn(None, Stuck, ()).await.unwrap();
        let writer = WriterHandle::default();
        let router = Router::new(
            Settings::default(),
            writer.clone(),
            root.clone(),
            EventHandle::default(),
        );
        let health = HealthHandle::default();
        health.set(Parts {
            root,
            writer,
            router: Arc::new(router),
            leadership: watch::channel(Leadership::STANDBY).1,
            renewal: None,
            fence: Fence::closed(Clock::default()),
            outputs,
            progress,
        });
        health
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_actor_is_no_progress_once_livez_has_failed_for_too_long() {
        let start = Instant::now();
        let clock = Clock::new(move || Instant::now().saturating_duration_since(start));
        let progress = Progress::new(clock, STALLED_AFTER);
        let health = stuck(Outputs::ALL, Some(progress.clone())).await;
        let watching = health.clone();
        tokio::spawn(async move { watching.watch_over().await });
        tokio::time::sleep(STUCK).await;
        assert_eq!(health.verdict(), Ok(()));
        tokio::time::sleep(2 * BEAT).await;
        let why = health.verdict().unwrap_err();
        assert!(why.starts_with("root: no answer"), "{why}");
        assert_eq!(progress.stall(), None, "it may still be well again");
        tokio::time::sleep(STALLED_AFTER).await;
        let stall = progress.stall().unwrap();
        assert!(stall.contains("root: no answer"), "{stall}");
    }

    #[tokio::test(start_paused = true)]
    async fn healthz_checks_the_actors_whichever_controllers_are_on() {
        let none = Outputs::NONE;
        for (outputs, controller) in [
            (
                Outputs {
                    endpoints: true,
                    ..none
                },
                "endpoints-controller",
            ),
            (Outputs { slices: true, ..none }, "endpointslice-controller"),
            (
                Outputs {
                    mirrored: true,
                    ..none
                },
                "endpointslice-mirroring-controller",
            ),
            (Outputs { custom: true, ..none }, "custom-selector-controller"),
        ] {
            let health = stuck(outputs, None).await;
            health.beat();
            tokio::time::advance(STUCK + BEAT).await;
            health.beat();
            let actors = health.verdict();
            let why = actors.clone().unwrap_err();
            assert_eq!(health.health(&actors), [Check::new(controller, Err(why))]);
        }
    }

    #[test]
    fn a_lease_that_is_held_and_not_renewed_is_unhealthy_after_a_while() {
        let now = Arc::new(AtomicU64::new(100));
        let clock = {
            let now = now.clone();
            Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)))
        };
        let renewal = Renewal::new(clock, Duration::from_secs(15));
        assert_eq!((renewal.age(), renewal.check()), (None, Ok(())));
        renewal.set(Some(Duration::from_secs(90)));
        now.store(125, Ordering::Relaxed);
        assert_eq!(renewal.check(), Ok(()));
        now.store(126, Ordering::Relaxed);
        assert_eq!(
            renewal.check(),
            Err("the lease was last renewed 36 s ago".to_owned())
        );
        renewal.set(None);
        assert_eq!(renewal.check(), Ok(()));
    }
}
