//! Fills the cluster, and keeps changing it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

use super::{
    objects,
    world::{Kind, Pod, TRACK, World},
};
use crate::{
    api::Http,
    observe::{visible::Shown, watch::Seen},
};

/// Requests under way at once. Each is a connection.
const CONCURRENCY: usize = 32;
/// Operations under way at once; most of their time they wait, as pods do that are about to end.
const MAX_OPERATIONS: usize = 2_000;
/// The largest scaling step.
const MAX_SCALE: u32 = 3;

/// Changes the cluster and counts what it changed.
#[derive(Clone)]
pub(super) struct Churn {
    http: Http,
    world: Arc<Mutex<World>>,
    seen: Arc<Seen>,
    counts: Arc<Mutex<Counts>>,
    edits: Arc<tokio::sync::Mutex<()>>,
    /// How many pods the cluster had at first; it never has many more or fewer.
    pods: i64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) flips: u64,
    pub(super) replacements: u64,
    pub(super) scalings: u64,
    pub(super) edits: u64,
    /// Writes to the API server that these took.
    pub(super) events: u64,
    /// More pods now than at first, or fewer.
    grown: i64,
}

#[derive(Clone, Copy)]
enum Operation {
    Flip,
    Replace,
    ScaleUp,
    ScaleDown,
    Edit,
}

/// Creates everything there is in the world, with `progress` told how many pods there are so far.
pub(super) async fn fill(http: &Http, world: &World, progress: impl Fn(u64)) -> anyhow::Result<()> {
    let namespaces = world
        .namespaces
        .iter()
        .map(|name| ("/api/v1/namespaces".to_owned(), objects::namespace(name)));
    create_all(http, namespaces.collect()).await?;
    let nodes = world
        .nodes
        .iter()
        .map(|node| ("/api/v1/nodes".to_owned(), objects::node(node)));
    create_all(http, nodes.collect()).await?;
    let services = world.services.iter().map(|service| {
        let namespace = &world.namespaces[service.namespace];
        (
            format!("/api/v1/namespaces/{namespace}/services"),
            objects::service(world, service),
        )
    });
    create_all(http, services.collect()).await?;
    let filled = AtomicU64::new(0);
    stream::iter(world.idle.iter().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |pod| {
            let (collection, path) = paths(world, pod);
            let mut body = objects::pod(world, pod);
            http.create(&collection, &body).await?;
            body["status"] = objects::pod_status(pod)["status"].take();
            http.replace(&format!("{path}/status"), &body).await?;
            progress(filled.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(())
        })
        .await
}

async fn create_all(http: &Http, objects: Vec<(String, Value)>) -> anyhow::Result<()> {
    stream::iter(objects.into_iter().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, async |(path, body)| http.create(&path, &body).await)
        .await
}

/// The paths of a pod's collection and of the pod.
fn paths(world: &World, pod: &Pod) -> (String, String) {
    let namespace = &world.namespaces[world.workloads[pod.workload].namespace];
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    let path = format!("{collection}/{}", pod.name);
    (collection, path)
}

// === impl Churn ===

impl Churn {
    pub(super) fn new(http: Http, world: World, seen: Arc<Seen>) -> Self {
        let pods = world
            .idle
            .len()
            .try_into()
            .expect("the flags allow far fewer pods");
        Self {
            http,
            world: Arc::new(Mutex::new(world)),
            seen,
            counts: Arc::default(),
            edits: Arc::default(),
            pods,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    /// How many pods there are, while no operation has one in hand.
    pub(super) fn pods(&self) -> u64 {
        self.world.lock().idle.len() as u64
    }

    /// Churns for so long, then lets what is under way come to its end.
    pub(super) async fn run(&self, duration: Duration, rate: u32) -> anyhow::Result<()> {
        let limit = Arc::new(Semaphore::new(MAX_OPERATIONS));
        let end = Instant::now() + duration;
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut operations: JoinSet<anyhow::Result<()>> = JoinSet::new();
        while ticks.tick().await < end {
            while let Some(done) = operations.try_join_next() {
                done??;
            }
            let permit = Arc::clone(&limit)
                .acquire_owned()
                .await
                .context("the semaphore is never closed")?;
            let operation = self.choose();
            let churn = self.clone();
            operations.spawn(async move {
                let done = churn.perform(operation).await;
                drop(permit);
                done
            });
        }
        while let Some(done) = operations.join_next().await {
            done??;
        }
        Ok(())
    }

    fn choose(&self) -> Operation {
        let mut world = self.world.lock();
        match world.rng.u32(..1000) {
            0..740 => Operation::Flip,
            740..880 => Operation::Replace,
            880..990 => {
                // Back to the size at the start, with a chance that grows with the distance from it.
                let grown = self.counts.lock().grown;
                let slack = (self.pods / 20).max(1);
                let up = world.rng.i64(-slack..=slack) >= grown;
                if up {
                    Operation::ScaleUp
                } else {
                    Operation::ScaleDown
                }
            }
            _ => Operation::Edit,
        }
    }

    async fn perform(&self, operation: Operation) -> anyhow::Result<()> {
        match operation {
            Operation::Flip => {
                let Some(pod) = self.take() else { return Ok(()) };
                self.counts.lock().flips += 1;
                let pod = self.set_ready(pod).await?;
                self.put_back(pod);
            }
            Operation::Replace => {
                let Some(pod) = self.take() else { return Ok(()) };
                self.counts.lock().replacements += 1;
                self.start(pod.workload).await?;
                self.end(pod).await?;
            }
            Operation::ScaleUp => {
                let (workload, step) = {
                    let mut world = self.world.lock();
                    let workloads = world.workloads.len();
                    (world.rng.usize(..workloads), world.rng.u32(1..=MAX_SCALE))
                };
                self.counts.lock().scalings += 1;
                for _ in 0..step {
                    self.counts.lock().grown += 1;
                    self.start(workload).await?;
                }
            }
            Operation::ScaleDown => {
                let step = self.world.lock().rng.u32(1..=MAX_SCALE);
                self.counts.lock().scalings += 1;
                for _ in 0..step {
                    let Some(pod) = self.take() else { break };
                    self.counts.lock().grown -= 1;
                    self.end(pod).await?;
                }
            }
            Operation::Edit => self.edit().await?,
        }
        Ok(())
    }

    fn take(&self) -> Option<Pod> {
        self.world.lock().take_pod()
    }

    fn put_back(&self, pod: Pod) {
        self.world.lock().idle.push(pod);
    }

    /// Readiness changes.
    async fn set_ready(&self, mut pod: Pod) -> anyhow::Result<Pod> {
        pod.ready = !pod.ready;
        self.report_status(&pod, false).await?;
        Ok(pod)
    }

    /// A new pod starts and becomes ready.
    async fn start(&self, workload: usize) -> anyhow::Result<()> {
        let (pod, collection, body) = {
            let mut world = self.world.lock();
            let pod = world.new_pod(workload);
            let collection = paths(&world, &pod).0;
            let body = objects::pod(&world, &pod);
            (pod, collection, body)
        };
        self.http.create(&collection, &body).await?;
        self.counts.lock().events += 1;
        self.report_status(&pod, false).await?;
        self.put_back(pod);
        Ok(())
    }

    /// A pod is deleted: it is given time to end, stops being ready, and is gone.
    async fn end(&self, mut pod: Pod) -> anyhow::Result<()> {
        let path = paths(&self.world.lock(), &pod).1;
        let leaving = Shown::Present {
            ready: false,
            serving: pod.ready,
            terminating: true,
        };
        self.change(&pod, Some(leaving), self.http.delete(&path, 30))
            .await?;
        self.pause().await;
        if pod.ready {
            pod.ready = false;
            self.report_status(&pod, true).await?;
            self.pause().await;
        }
        self.change(&pod, None, self.http.delete(&path, 0)).await
    }

    async fn pause(&self) {
        let millis = self.world.lock().rng.u64(50..200);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    async fn report_status(&self, pod: &Pod, terminating: bool) -> anyhow::Result<()> {
        let path = paths(&self.world.lock(), pod).1 + "/status";
        let status = objects::pod_status(pod);
        let shown = Shown::Present {
            ready: pod.ready && !terminating,
            serving: pod.ready,
            terminating,
        };
        self.change(pod, Some(shown), self.http.patch(&path, &status))
            .await
    }

    /// Sends a change of a pod and has the slice watch wait for it; `shown` is its endpoint then, if any.
    async fn change(
        &self,
        pod: &Pod,
        shown: Option<Shown>,
        send: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let targets: Vec<_> = {
            let world = self.world.lock();
            let target = |(service, family): (usize, _)| {
                let shown = match shown {
                    None => Shown::Absent,
                    Some(Shown::Present {
                        serving, terminating, ..
                    }) if world.services[service].publishes_not_ready() => Shown::Present {
                        ready: true,
                        serving,
                        terminating,
                    },
                    Some(shown) => shown,
                };
                ((service, family), shown)
            };
            world.published_in(pod).map(target).collect()
        };
        let change = self
            .seen
            .slices
            .lock()
            .announce(pod.number, targets.into_iter(), Instant::now());
        send.await?;
        let answered = Instant::now();
        self.seen.slices.lock().answered(&change, answered);
        self.counts.lock().events += 1;
        Ok(())
    }

    /// A Service gets another label, another port, or selects other pods.
    async fn edit(&self) -> anyhow::Result<()> {
        // One after another: two edits of one Service must not change places on their way.
        let _turn = self.edits.lock().await;
        let (path, patch) = {
            let mut world = self.world.lock();
            let services = world.services.len();
            let index = world.rng.usize(..services);
            let choice = world.rng.u8(..3);
            let service = &mut world.services[index];
            let narrowable = service.selector.len() == 1 || service.kind != Kind::MultiKey;
            let patch = match choice {
                0 if service.kind != Kind::ExternalName => {
                    service.edits.extra_port = !service.edits.extra_port;
                    json!({ "spec": { "ports": objects::service_ports(service) } })
                }
                1 if !service.selector.is_empty() && narrowable => {
                    let position = service.selector.iter().position(|(key, _)| *key == TRACK);
                    match position {
                        Some(position) => drop(service.selector.remove(position)),
                        None => service.selector.push((TRACK, "stable".to_owned())),
                    }
                    json!({ "spec": { "selector": objects::selector_patch(service) } })
                }
                _ => {
                    service.edits.label += 1;
                    json!({ "metadata": { "labels": objects::service_labels(service) } })
                }
            };
            let service = service.clone();
            let mut visibility = self.seen.slices.lock();
            for family in service.families() {
                visibility.blur((index, *family), Instant::now());
            }
            let namespace = &world.namespaces[service.namespace];
            (
                format!("/api/v1/namespaces/{namespace}/services/{}", service.name),
                patch,
            )
        };
        self.http.patch(&path, &patch).await?;
        let mut counts = self.counts.lock();
        counts.edits += 1;
        counts.events += 1;
        Ok(())
    }
}

// === impl Counts ===

impl Counts {
    pub(super) fn operations(&self) -> u64 {
        self.flips + self.replacements + self.scalings + self.edits
    }
}
