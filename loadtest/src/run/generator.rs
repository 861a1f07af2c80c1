//! Changes the cluster when changes are due, and has the watch wait for what they lead to.

mod claim;
mod services;
mod tally;
mod zone;

use super::fill::path;
use super::objects;
use super::phase::Phase;
use super::script::{Next, Operation, Script};
use super::world::{Pod, State, World};
use crate::api::{Http, Resource};
use crate::observe::PodNumber;
use crate::observe::visible::{self, SetId, Shown};
use crate::observe::watch::Seen;
use crate::oracle::Outputs;
use anyhow::{Context, bail};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Requests under way at once. Each is a connection.
const REQUESTS: usize = 64;
/// Operations under way at once; most of their time they wait, as pods do that are about to end, and sandboxes that live.
const OPERATIONS: usize = 100_000;
/// How long to wait when everything is in hand.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// The grace that a pod is given, far more than it takes here.
const GRACE: u32 = 30;
/// Refusals that are no reason to give up; above that, more than one in so many is.
const FEW_FAILURES: u64 = 20;
const FAILURES_SHARE: u64 = 4;
pub(super) use self::tally::{Operations, Tally};

/// Makes changes.
#[derive(Clone)]
pub(super) struct Generator {
    http: Http,
    world: Arc<Mutex<World>>,
    seen: Arc<Seen>,
    outputs: Outputs,
    tally: Arc<Tally>,
    requests: Arc<Semaphore>,
}

/// How a pod is changed.
#[derive(Clone, Copy)]
enum Change {
    /// Its kubelet reports its state.
    Report,
    /// The pod is deleted, with so many seconds to end.
    Delete(u32),
}

/// The states of one pod that a change leads to.
struct Expected {
    pod: PodNumber,
    slices: Vec<(SetId, Shown)>,
    endpoints: Vec<(SetId, Shown)>,
}

/// A change that was announced to the observers of slices, and of Endpoints.
type Announced = (visible::Change, visible::Change);

/// When operations are due. Counted from a beginning, so that no rounding adds up.
struct Pace {
    rate: u32,
    beginning: Instant,
    done: u32,
}

// === impl Pace ===

impl Pace {
    fn new(rate: u32) -> Self {
        Self {
            rate,
            beginning: Instant::now(),
            done: 0,
        }
    }

    /// When the next one is.
    fn due(&self) -> Instant {
        self.beginning + Duration::from_secs(1) * self.done / self.rate
    }

    /// One was done.
    fn go_on(&mut self) {
        self.done += 1;
    }

    /// Puts off the steps to come until that time, if they would be due before it.
    fn not_before(&mut self, time: Instant) {
        if self.due() < time {
            self.beginning = time;
            self.done = 0;
        }
    }
}

// === impl Generator ===

impl Generator {
    pub(super) fn new(http: Http, world: Arc<Mutex<World>>, seen: Arc<Seen>, outputs: Outputs) -> Self {
        Self {
            http,
            world,
            seen,
            outputs,
            tally: Arc::new(Tally::new()),
            requests: Arc::new(Semaphore::new(REQUESTS)),
        }
    }

    pub(super) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Does what a phase says, and lets what is under way come to its end.
    pub(super) async fn run(&self, phase: &Phase) -> anyhow::Result<()> {
        let limit = Arc::new(Semaphore::new(OPERATIONS));
        let phase = Arc::new(phase.clone());
        let mut pace = Pace::new(phase.rate);
        let mut script = Script::new(&phase, &mut self.world.lock());
        let mut operations: JoinSet<()> = JoinSet::new();
        let end = phase.duration.map(|duration| pace.due() + duration);
        let is_over = |time: Instant| end.is_some_and(|end| time >= end);
        while !is_over(pace.due()) {
            let due = pace.due();
            sleep_until(due).await;
            while let Some(done) = operations.try_join_next() {
                done?;
            }
            self.give_up_if_refused()?;
            let next = script.next(&mut self.world.lock());
            match next {
                Next::Do(operation) => {
                    let permit = Arc::clone(&limit).acquire_owned().await;
                    let permit = permit.context("the semaphore is never closed")?;
                    let (generator, phase) = (self.clone(), Arc::clone(&phase));
                    operations.spawn(async move {
                        generator.perform(operation, &phase, due).await;
                        drop(permit);
                    });
                    pace.go_on();
                }
                // The next operation comes late, and that counts as lag, unless time is up.
                Next::Busy if is_over(Instant::now()) => break,
                Next::Busy => sleep(BUSY_PAUSE).await,
                Next::Settle => {
                    join(&mut operations).await?;
                    pace.not_before(Instant::now());
                }
                Next::Done if end.is_none() => break,
                Next::Done => {
                    join(&mut operations).await?;
                    script.begin(&mut self.world.lock());
                    // A round without anything to do takes its time, too.
                    pace.not_before(Instant::now());
                    pace.go_on();
                }
            }
        }
        join(&mut operations).await?;
        if let Some(end) = end {
            sleep_until(end).await;
        }
        self.give_up_if_refused()
    }

    fn give_up_if_refused(&self) -> anyhow::Result<()> {
        let (made, failed) = (self.tally.made(), self.tally.failed());
        if failed > FEW_FAILURES && failed * FAILURES_SHARE > made + failed {
            let first = self.tally.failures().into_iter().next().unwrap_or_default();
            bail!(
                "the server refuses too many changes ({failed} of {}), such as {first}",
                made + failed
            );
        }
        Ok(())
    }

    async fn perform(&self, operation: Operation, phase: &Phase, due: Instant) {
        self.tally.operations.lock().count(&operation);
        match operation {
            Operation::Flip(pod) => {
                let ready = self.ready(pod);
                if self.set_ready(pod, !ready, due).await {
                    self.put_back(pod);
                }
            }
            Operation::Start { group, count } => {
                self.start(group, due).await;
                for _ in 1..count {
                    self.start(group, Instant::now()).await;
                }
            }
            Operation::Shrink(count) => {
                for at in 0..count {
                    let Some(pod) = self.world.lock().take_any() else {
                        break;
                    };
                    self.end(pod, if at == 0 { due } else { Instant::now() }).await;
                }
            }
            Operation::End(pod) => self.end(pod, due).await,
            Operation::Replace(pod) => {
                if let Some(group) = self.group(pod) {
                    self.start(group, due).await;
                    self.end(pod, Instant::now()).await;
                }
            }
            Operation::Empty { namespace, zone } => self.empty(namespace, zone, due).await,
            Operation::Silence(node) => {
                let path = Resource::Nodes.path("", &self.world.lock().nodes[node].name) + "/status";
                let patch = objects::node_status(false);
                self.send(due, Vec::new(), self.http.patch(&path, &patch)).await;
            }
            Operation::Claim(group) => self.claim(group, phase, due).await,
            Operation::Service(service, edit) => {
                self.edit(service, edit, due).await;
                self.world.lock().services[service].busy = false;
            }
        }
    }

    fn put_back(&self, pod: PodNumber) {
        self.world.lock().put_back(pod);
    }

    fn ready(&self, pod: PodNumber) -> bool {
        self.world.lock().pod(pod).is_some_and(Pod::ready)
    }

    fn group(&self, pod: PodNumber) -> Option<usize> {
        Some(self.world.lock().pod(pod)?.group)
    }

    async fn set_ready(&self, pod: PodNumber, ready: bool, due: Instant) -> bool {
        self.change(pod, State::Running { ready }, due, Change::Report)
            .await
    }

    /// A new pod starts and becomes ready.
    async fn start(&self, group: usize, due: Instant) {
        if let Some(number) = self.make_pod(group, due).await
            && self.set_ready(number, true, Instant::now()).await
        {
            self.put_back(number);
        }
    }

    /// A new pod is made, in hand; none if that is refused.
    async fn make_pod(&self, group: usize, due: Instant) -> Option<PodNumber> {
        let (number, collection, body) = {
            let mut world = self.world.lock();
            let number = world.new_pod(group);
            let pod = world.pod(number).expect("it was just made");
            let namespace = &world.namespaces[world.groups[group].namespace];
            let collection = Resource::Pods.path(namespace, "");
            (number, collection, objects::pod(&world, pod))
        };
        let created = self
            .send(due, Vec::new(), self.http.create(&collection, &body))
            .await;
        if !created {
            self.world.lock().set_state(number, State::Gone);
        }
        created.then_some(number)
    }

    /// A pod is deleted: it is given time to end, stops being ready, and is gone.
    async fn end(&self, pod: PodNumber, due: Instant) {
        let ready = self.ready(pod);
        if self
            .change(pod, State::Ending { ready }, due, Change::Delete(GRACE))
            .await
        {
            self.finish_end(pod, ready).await;
        }
    }

    /// A pod that was given time to end stops being ready, and is gone.
    async fn finish_end(&self, pod: PodNumber, ready: bool) {
        let mut due = self.pause().await;
        if ready {
            let not_ready = State::Ending { ready: false };
            if !self.change(pod, not_ready, due, Change::Report).await {
                return;
            }
            due = self.pause().await;
        }
        self.change(pod, State::Gone, due, Change::Delete(0)).await;
    }

    /// Waits a moment, and says when it was over.
    async fn pause(&self) -> Instant {
        let millis = self.world.lock().rng.u64(50..200);
        let due = Instant::now() + Duration::from_millis(millis);
        sleep_until(due).await;
        due
    }

    /// Brings a pod to a state. After a refused change the state of the pod is unknown, so it is left alone from then
    /// on.
    async fn change(&self, number: PodNumber, state: State, due: Instant, how: Change) -> bool {
        let (expected, path, patch) = {
            let world = self.world.lock();
            let Some(pod) = world.pod(number) else {
                return false;
            };
            (
                self.expected_of(&world, pod, state),
                path(&world, pod),
                objects::pod_patch(&world, pod, state),
            )
        };
        let send = async {
            match how {
                Change::Report => self.http.patch(&(path + "/status"), &patch).await,
                Change::Delete(grace) => self.http.delete(&path, grace).await,
            }
        };
        let made = self.send(due, vec![expected], send).await;
        let state = if made { state } else { State::Gone };
        self.world.lock().set_state(number, state);
        made
    }

    /// Where it shows that a pod comes to a state.
    fn expected_of(&self, world: &World, pod: &Pod, state: State) -> Expected {
        let mut expected = Expected {
            pod: pod.number,
            slices: Vec::new(),
            endpoints: Vec::new(),
        };
        for place in world.places(pod) {
            let [before, after] = [pod.state, state].map(|state| state.in_slices(place.not_ready));
            if self.outputs.slices && before != after {
                expected.slices.push((place.set, after));
            }
            let [before, after] = [pod.state, state].map(State::in_endpoints);
            if self.outputs.endpoints && place.in_endpoints && before != after {
                expected.endpoints.push((place.set, after));
            }
        }
        expected
    }

    /// Sends a request when there is a connection for it.
    async fn send(
        &self,
        due: Instant,
        expected: Vec<Expected>,
        send: impl Future<Output = anyhow::Result<()>>,
    ) -> bool {
        let Ok(_permit) = self.requests.acquire().await else {
            return false;
        };
        let now = Instant::now();
        self.tally.lag.lock().record(now.saturating_duration_since(due));
        let expected = expected.into_iter();
        let announced: Vec<Announced> = expected.map(|expected| self.announce(expected, now)).collect();
        let outcome = send.await;
        let answered = Instant::now();
        if outcome.is_ok() {
            self.answered(&announced, answered);
        } else {
            self.failed(&announced, answered);
        }
        self.note(outcome, 1)
    }

    fn announce(&self, expected: Expected, now: Instant) -> Announced {
        let Expected {
            pod,
            slices,
            endpoints,
        } = expected;
        let in_slices = self.seen.slices.lock().announce(pod, slices.into_iter(), now);
        let in_endpoints = self
            .seen
            .endpoints
            .lock()
            .announce(pod, endpoints.into_iter(), now);
        (in_slices, in_endpoints)
    }

    /// The server has made the changes.
    fn answered(&self, announced: &[Announced], at: Instant) {
        for (in_slices, in_endpoints) in announced {
            self.seen.slices.lock().answered(in_slices, at);
            self.seen.endpoints.lock().answered(in_endpoints, at);
        }
    }

    /// Notes that the server has refused the changes, or that their result is unknown.
    fn failed(&self, announced: &[Announced], at: Instant) {
        for (in_slices, in_endpoints) in announced {
            self.seen.slices.lock().failed(in_slices, at);
            self.seen.endpoints.lock().failed(in_endpoints, at);
        }
    }

    /// Counts a request that makes so many changes; true if it did.
    fn note(&self, outcome: anyhow::Result<()>, changes: u64) -> bool {
        match outcome {
            Ok(()) => {
                self.tally.made.fetch_add(changes, Ordering::Relaxed);
                true
            }
            Err(error) => {
                self.tally.note_failure(&error);
                false
            }
        }
    }
}

async fn join(operations: &mut JoinSet<()>) -> anyhow::Result<()> {
    while let Some(done) = operations.join_next().await {
        done?;
    }
    Ok(())
}
