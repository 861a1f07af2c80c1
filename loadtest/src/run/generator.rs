//! Changes the cluster when changes are due, and has the watch wait for what they lead to.

mod address;
mod lead;
mod zone;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{
    fill::path,
    objects,
    phase::Phase,
    script::{Edit, Next, Operation, Script},
    sizes::Layout,
    world::{Pod, Selection, State, World},
};
use crate::{
    api::{Http, Resource},
    observe::{
        PodNumber,
        latencies::Latencies,
        visible::{self, SetId, Shown},
        watch::Seen,
    },
    oracle::{Family, Outputs},
};

/// Requests under way at once. Each is a connection.
const REQUESTS: usize = 64;
/// Operations under way at once; most of their time they wait, as pods do that are about to end.
const OPERATIONS: usize = 5_000;
/// How long to wait when everything is in hand.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// The grace that a pod is given, far more than it takes here.
const GRACE: u32 = 30;
/// Refusals that are no reason to give up; above that, more than one in so many is.
const FEW_FAILURES: u64 = 20;
const FAILURES_SHARE: u64 = 4;
/// How many refusals are kept for people to read.
const SHOWN_FAILURES: usize = 3;

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

/// Counts of what was done, which all tasks share.
pub(super) struct Tally {
    made: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
    operations: Mutex<Operations>,
    /// From when a change was due until it was sent.
    pub(super) lag: Mutex<Latencies>,
}

/// Operations, each counted once however many requests it took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operations {
    pub(super) flips: u64,
    pub(super) replacements: u64,
    pub(super) scalings: u64,
    pub(super) edits: u64,
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

/// A change that was announced to those who wait for slices, and for Endpoints.
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

    /// Those to come are not due before that time.
    fn not_before(&mut self, time: Instant) {
        if self.due() < time {
            self.beginning = time;
            self.done = 0;
        }
    }
}

// === impl Operations ===

impl Operations {
    pub(super) fn all(&self) -> u64 {
        self.flips + self.replacements + self.scalings + self.edits
    }

    fn count(&mut self, operation: &Operation) {
        *match operation {
            Operation::Flip(_) | Operation::Lose(_) | Operation::Address(_) | Operation::Lead(_) => {
                &mut self.flips
            }
            Operation::Replace(_) | Operation::Evict(_) => &mut self.replacements,
            Operation::Start { .. } | Operation::Shrink(_) | Operation::End(_) | Operation::Empty { .. } => {
                &mut self.scalings
            }
            Operation::Service(..) => &mut self.edits,
            Operation::Node { .. } => return,
        } += 1;
    }
}

// === impl Tally ===

impl Tally {
    fn new() -> Self {
        Self {
            made: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            failures: Mutex::default(),
            operations: Mutex::default(),
            lag: Mutex::new(Latencies::new()),
        }
    }

    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn operations(&self) -> Operations {
        *self.operations.lock()
    }

    /// The first refusals.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    fn note_failure(&self, error: &anyhow::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut failures = self.failures.lock();
        if failures.len() < SHOWN_FAILURES {
            failures.push(format!("{error:#}"));
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
        let mut pace = Pace::new(phase.rate);
        let mut script = Script::new(phase, &mut self.world.lock());
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
                    let generator = self.clone();
                    operations.spawn(async move {
                        generator.perform(operation, due).await;
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
                Next::Pause(pause) => pace.not_before(Instant::now() + pause),
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
            let first = self.tally.failures.lock().first().cloned().unwrap_or_default();
            bail!(
                "the server refuses too many changes ({failed} of {}), such as {first}",
                made + failed
            );
        }
        Ok(())
    }

    async fn perform(&self, operation: Operation, due: Instant) {
        self.tally.operations.lock().count(&operation);
        match operation {
            Operation::Flip(pod) => {
                let ready = self.ready(pod);
                if self.set_ready(pod, !ready, due).await {
                    self.put_back(pod);
                }
            }
            Operation::Lose(pod) => {
                if !self.ready(pod) || self.set_ready(pod, false, due).await {
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
            Operation::Evict(pod) => {
                if let Some(group) = self.group(pod)
                    && self.change(pod, State::Gone, due, Change::Delete(0)).await
                {
                    self.start(group, Instant::now()).await;
                }
            }
            Operation::Empty { namespace, zone } => self.empty(namespace, zone, due).await,
            Operation::Node { node, up } => {
                let path = Resource::Nodes.path("", &self.world.lock().nodes[node].name) + "/status";
                let patch = objects::node_status(up);
                self.send(due, Vec::new(), self.http.patch(&path, &patch)).await;
            }
            Operation::Address(service) => {
                self.set_address(service, due).await;
                self.world.lock().services[service].busy = false;
            }
            Operation::Lead(service) => {
                self.lead(service, due).await;
                self.world.lock().services[service].busy = false;
            }
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
        } else if self.set_ready(number, true, Instant::now()).await {
            self.put_back(number);
        }
    }

    /// A pod is deleted: it is given time to end, stops being ready, and is gone.
    async fn end(&self, pod: PodNumber, due: Instant) {
        let ready = self.ready(pod);
        if !self
            .change(pod, State::Ending { ready }, due, Change::Delete(GRACE))
            .await
        {
            return;
        }
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

    /// Brings a pod to a state. Of a pod whose change is refused nobody knows any more what it is, so it is left alone
    /// from then on.
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

    /// The server has refused the changes, or nobody knows what came of them.
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

    async fn edit(&self, index: usize, edit: Edit, due: Instant) {
        let (exists, collection, path) = {
            let world = self.world.lock();
            let service = &world.services[index];
            let namespace = &world.namespaces[service.namespace];
            let path = |name: &str| Resource::Services.path(namespace, name);
            (service.exists, path(""), path(&service.name))
        };
        if !exists {
            return self.create_service(index, &collection, due).await;
        }
        match edit {
            Edit::Label | Edit::Port | Edit::Narrow => {
                let patch = self.revise(index, edit);
                self.send(due, Vec::new(), self.http.patch(&path, &patch)).await;
            }
            Edit::Selector => {
                let Some(group) = self.world.lock().another_group(index) else {
                    return;
                };
                let gone = self.expected(index, Some(Shown::Absent));
                let patch = {
                    let mut world = self.world.lock();
                    world.services[index].selection = Selection::Group(group);
                    json!({ "spec": { "selector": objects::service_selector(&world, &world.services[index]) } })
                };
                let come = self.expected(index, None);
                let expected = gone.into_iter().chain(come).collect();
                self.send(due, expected, self.http.patch(&path, &patch)).await;
            }
            Edit::Delete | Edit::Recreate => {
                // Its slices are the garbage collector's, and only its Endpoints are the controller's to delete.
                let mut gone = self.expected(index, Some(Shown::Absent));
                if let Some(gone) = &mut gone
                    && edit == Edit::Delete
                {
                    gone.slices.clear();
                }
                let deleted = self
                    .send(due, gone.into_iter().collect(), self.http.delete(&path, 0))
                    .await;
                if deleted {
                    self.world.lock().services[index].exists = false;
                    if edit == Edit::Recreate {
                        self.create_service(index, &collection, Instant::now()).await;
                    }
                }
            }
        }
    }

    /// Edits a Service that goes on to exist, and gives the patch that does so in the server.
    fn revise(&self, index: usize, edit: Edit) -> Value {
        let mut world = self.world.lock();
        let service = &mut world.services[index];
        if edit == Edit::Narrow {
            service.stable = !service.stable;
        } else {
            service.edits += 1 + u32::from(edit == Edit::Label);
        }
        let service = &world.services[index];
        // Elsewhere no pod changes meanwhile.
        if world.layout == Layout::Demo {
            let mut slices = self.seen.slices.lock();
            for family in service.kind.families() {
                slices.blur((index, *family), Instant::now());
            }
        }
        if edit == Edit::Narrow {
            let mut selector = objects::service_selector(&world, service);
            if !service.stable {
                selector["track"] = Value::Null;
            }
            return json!({ "spec": { "selector": selector } });
        }
        json!({
            "metadata": { "labels": objects::service_labels(&world, service) },
            "spec": { "ports": objects::service_ports(service) },
        })
    }

    async fn create_service(&self, index: usize, collection: &str, due: Instant) {
        let body = {
            let mut world = self.world.lock();
            let service = &mut world.services[index];
            service.exists = true;
            service.edits = 0;
            objects::service(&world, &world.services[index])
        };
        let expected = self.expected(index, None).into_iter().collect();
        if !self
            .send(due, expected, self.http.create(collection, &body))
            .await
        {
            self.world.lock().services[index].exists = false;
        }
    }

    /// The effect of a change of a Service: one pod stands for all, which come and go with it. The pod is shown as it
    /// is, or as `shown` says.
    fn expected(&self, service: usize, shown: Option<Shown>) -> Option<Expected> {
        let world = self.world.lock();
        let pod = world.first_selected(service)?;
        let set = (service, Family::V4);
        let of = |wanted: bool, is: Shown| {
            let shown = shown.unwrap_or(is);
            wanted.then_some((set, shown)).into_iter().collect()
        };
        Some(Expected {
            pod: pod.number,
            slices: of(self.outputs.slices, pod.state.in_slices(false)),
            endpoints: of(self.outputs.endpoints, pod.state.in_endpoints()),
        })
    }
}

async fn join(operations: &mut JoinSet<()>) -> anyhow::Result<()> {
    while let Some(done) = operations.join_next().await {
        done?;
    }
    Ok(())
}
