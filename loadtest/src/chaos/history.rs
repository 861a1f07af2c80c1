//! A random history of a cluster: the operations of users, kubelets and other controllers on it, one after the other,
//! from a seed.

mod held;
mod nodes;
mod pods;
mod services;
mod tamper;

use super::api::{Ask, Resource, list};
use super::losses::Writes;
use super::trace::Trace;
use super::world::World;
use crate::api::Http;
use crate::objects::object;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// Drives the cluster.
pub(super) struct History {
    api: Http,
    world: World,
    rng: Rng,
    /// The wall time at the start, of which tokio's clock tells how far it is by now.
    wall: Timestamp,
    start: Instant,
    /// Some operations need another one after them, by then.
    follow_ups: VecDeque<(Instant, FollowUp)>,
    /// Whether slices are given to other managers: with those Services more is done in the end.
    gives_away: bool,
    given_away: BTreeSet<(String, String)>,
    /// Endpoints that were deleted and made again by a user, by namespace and name.
    remade: BTreeSet<(String, String)>,
    operations: BTreeMap<&'static str, Count>,
    writes: Writes,
    trace: Option<Trace>,
}

/// How often something was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The server took it.
    pub done: u64,
    /// The server refused it: the object was gone by then, say.
    pub refused: u64,
}

/// A change that must follow an operation.
enum FollowUp {
    /// A slice was given to another manager: its Service changes.
    TouchService { namespace: String, name: String },
    /// A finalizer holds a Service that is being deleted.
    Release { namespace: String, name: String },
    /// A finalizer holds an object of another kind that is being deleted.
    LetGo {
        kind: Resource,
        namespace: String,
        name: String,
    },
    /// A Node was deleted: it comes back under its name, with these labels.
    Node { name: String, labels: Value },
    /// A namespace is being deleted: its pods' kubelets let them go, and then it is made again.
    Namespace(usize),
}

/// The total of the chances of all operations.
const CHANCES: u32 = 116;

// === impl History ===

impl History {
    /// Returns the history of a cluster that is still empty.
    pub(super) fn new(api: Http, seed: u64, wall: Timestamp, trace: Option<Trace>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let namespaces = rng.usize(2..=3);
        Self {
            api,
            world: World::new(namespaces),
            wall,
            start: Instant::now(),
            follow_ups: VecDeque::new(),
            gives_away: rng.usize(..4) == 0,
            given_away: BTreeSet::new(),
            remade: BTreeSet::new(),
            operations: BTreeMap::new(),
            writes: Writes::default(),
            trace,
            rng,
        }
    }

    pub(super) fn operations(&self) -> BTreeMap<&'static str, Count> {
        self.operations.clone()
    }

    pub(super) fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Makes the cluster as it is at first.
    pub(super) async fn fill(&mut self) {
        for i in 0..self.world.namespaces.len() {
            self.create_namespace(i).await;
        }
        self.populate().await;
    }

    /// Adds nodes, Services and pods.
    pub(super) async fn populate(&mut self) {
        for _ in 0..self.rng.usize(2..=4) {
            self.create_node().await;
        }
        for _ in 0..self.rng.usize(4..=8) {
            self.create_service().await;
        }
        for _ in 0..self.rng.usize(5..=30) {
            self.create_pod().await;
        }
    }

    /// Lets things happen for a while. Pauses are `pace` times what they would be.
    pub(super) async fn run(&mut self, lasting: Duration, pace: f64) {
        let end = Instant::now() + lasting;
        while Instant::now() < end {
            self.step().await;
            let pause = self.pause().mul_f64(pace);
            if !pause.is_zero() {
                sleep(pause).await;
            }
            self.follow(Instant::now()).await;
        }
    }

    /// Does what must still follow.
    pub(super) async fn finish(&mut self, pace: f64) {
        while let Some((due, _)) = self.follow_ups.front() {
            let due = *due;
            sleep_until(due.min(Instant::now() + Duration::from_secs(5).mul_f64(pace))).await;
            self.follow(due).await;
        }
    }

    /// Whether something is left to do when the faults are over and the controller has seen everything.
    ///
    /// A slice that was given to another manager stays with it until what it holds changes, and such a change may
    /// have come before the controller saw that the slice was another's. So those Services change once more.
    ///
    /// Endpoints that were made again may have appeared to the controller after their Service had gone. They stay, as
    /// those that a client makes ahead of a Service, until their user deletes them.
    pub(super) fn has_amends(&self) -> bool {
        !(self.given_away.is_empty() && self.remade.is_empty())
    }

    pub(super) async fn amend(&mut self) {
        for (namespace, name) in std::mem::take(&mut self.given_away) {
            self.touch_service(&namespace, &name).await;
        }
        for (namespace, name) in std::mem::take(&mut self.remade) {
            let mut services = self.world.services.iter();
            if !services.any(|s| s.namespace == namespace && s.name == name) {
                let ask = Ask::delete(Resource::Endpoints, &namespace, &name, Value::Null);
                self.write("delete endpoints without a service", ask).await;
            }
        }
    }

    fn pause(&mut self) -> Duration {
        let ms = match self.rng.u32(..10) {
            0..=3 => 0,
            4 | 5 => self.rng.u64(1..50),
            6 | 7 => self.rng.u64(50..500),
            _ => self.rng.u64(500..3000),
        };
        Duration::from_millis(ms)
    }

    async fn step(&mut self) {
        match self.rng.u32(..CHANCES) {
            0..=13 => self.flip().await,
            14..=27 => self.create_pod().await,
            28..=30 => self.delete_pod().await,
            31..=34 => self.finish_pod().await,
            35..=37 => self.relabel().await,
            38..=40 => self.readdress().await,
            41 => self.end_pod().await,
            42..=45 => self.replace_pod().await,
            46 | 47 => self.rollout().await,
            48..=53 => self.create_service().await,
            54..=65 => self.edit_service().await,
            66 => self.delete_service().await,
            67..=69 => self.recreate_service().await,
            70 => self.hold_service().await,
            71 | 72 => self.change_node().await,
            73 => self.create_node().await,
            74 | 106..=109 => self.lose_node().await,
            75..=89 => self.tamper_with_slice().await,
            90..=95 => self.tamper_with_endpoints().await,
            96 | 97 => self.foreign_slice().await,
            98 => self.delete_namespace_sometimes().await,
            100 | 101 => self.hold_pod().await,
            102..=104 => self.hold_output(Resource::Slices).await,
            105 => self.hold_output(Resource::Endpoints).await,
            110 => self.lose_all_nodes().await,
            111..=115 => self.edit_ports().await,
            _ => self.burst().await,
        }
    }

    /// Sends a write and counts it. The object as it is then, if the server took it.
    async fn write(&mut self, what: &'static str, ask: Ask) -> Option<Value> {
        let answer = ask.send(&self.api).await;
        if let Some(trace) = &self.trace {
            trace.catch_up();
            let at = Instant::now().saturating_duration_since(self.start);
            let refused = answer.as_ref().err();
            let refused = refused.map_or_else(String::new, |error| format!(" ({error:#})"));
            println!("{at:?} {what}: {ask}{refused}");
        }
        let count = self.operations.entry(what).or_default();
        if let Ok(answer) = &answer {
            count.done += 1;
            self.writes.note(answer);
        } else {
            count.refused += 1;
        }
        answer.ok()
    }

    /// The present.
    fn now(&self) -> Timestamp {
        let passed = Instant::now().saturating_duration_since(self.start);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::ZERO);
        self.wall.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    fn follow_up(&mut self, within: u64, what: FollowUp) {
        let due = Instant::now() + Duration::from_millis(self.rng.u64(..within));
        let at = self.follow_ups.partition_point(|(other, _)| *other <= due);
        self.follow_ups.insert(at, (due, what));
    }

    /// Does what must follow by now.
    async fn follow(&mut self, now: Instant) {
        while self.follow_ups.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, what)) = self.follow_ups.pop_front() else {
                return;
            };
            match what {
                FollowUp::TouchService { namespace, name } => self.touch_service(&namespace, &name).await,
                FollowUp::Release { namespace, name } => self.release_service(&namespace, &name).await,
                FollowUp::LetGo {
                    kind,
                    namespace,
                    name,
                } => self.let_go(kind, &namespace, &name).await,
                FollowUp::Node { name, labels } => self.restore_node(name, labels).await,
                FollowUp::Namespace(i) => self.finish_namespace(i).await,
            }
        }
    }

    async fn create_namespace(&mut self, i: usize) {
        let name = self.world.namespaces[i].name.clone();
        let body = object("Namespace", &name, json!({}));
        let made = self
            .write("create namespace", Ask::create(Resource::Namespaces, "", body))
            .await;
        self.world.namespaces[i].deleted = made.is_none();
    }

    /// Rare, as it takes much away.
    async fn delete_namespace_sometimes(&mut self) {
        if self.rng.u32(..4) > 0 {
            return;
        }
        let i = self.rng.usize(..self.world.namespaces.len());
        if self.world.namespaces[i].deleted {
            return;
        }
        let name = self.world.namespaces[i].name.clone();
        self.world.namespaces[i].deleted = true;
        self.world.services.retain(|s| s.namespace != name);
        self.world.pods.retain(|p| p.namespace != name);
        let ask = Ask::delete(Resource::Namespaces, "", &name, Value::Null);
        self.write("delete namespace", ask).await;
        self.follow_up(8_000, FollowUp::Namespace(i));
    }

    /// Ends what is left in a namespace that goes, and makes it anew when it has gone.
    async fn finish_namespace(&mut self, i: usize) {
        let name = self.world.namespaces[i].name.clone();
        for pod in list(&self.api, Resource::Pods, &name).await {
            let pod = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let options = json!({ "gracePeriodSeconds": 0 });
            let ask = Ask::delete(Resource::Pods, &name, &pod, options);
            self.write("end a pod of a namespace that goes", ask).await;
        }
        for service in list(&self.api, Resource::Services, &name).await {
            let service = service["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            self.release_service(&name, &service).await;
        }
        // The collector has its turn.
        let path = Resource::Namespaces.path("", &name);
        for _ in 0..100 {
            tokio::task::yield_now().await;
            if self.api.read(&path).await.is_err() {
                self.create_namespace(i).await;
                return;
            }
        }
        self.follow_up(1_000, FollowUp::Namespace(i));
    }

    /// Many things at one moment.
    async fn burst(&mut self) {
        for _ in 0..self.rng.usize(5..25) {
            match self.rng.u32(..8) {
                0 => self.edit_service().await,
                1 => self.create_pod().await,
                2 => self.delete_pod().await,
                3 => self.finish_pod().await,
                4 => self.replace_pod().await,
                _ => self.flip().await,
            }
        }
    }
}
