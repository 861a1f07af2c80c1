//! A process whose threads stand still: a lease that is renewed by a thread of its own outlives that for a while,
//! and is lost to another process when it lasts. In real time, each process on a thread of its own, with the times of
//! the election cut down.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/cluster.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod cluster;
#[path = "support/gate.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod gate;
#[path = "support/objects.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod objects;

use cluster::Api;
use endpointd::core::leadership::election::Timing;
use endpointd::ops::admin::HealthHandle;
use endpointd::ops::election::Candidacy;
use endpointd::ops::run::{Connect, Renewing, RunMode, run_observed};
use futures::FutureExt as _;
use gate::Gate;
use http::Method;
use kube::Client;
use memory_apiserver::{ApiServer, Config};
use serde_json::{Value, json};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

const NS: &str = "default";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/endpointd";
const MS: Duration = Duration::from_millis(1);
const LASTS: Duration = Duration::from_secs(3);

/// A controller on a thread of its own.
struct Process {
    gate: Gate,
    /// How long its thread is to stand still.
    blocks: mpsc::UnboundedSender<Duration>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    fn start(server: &ApiServer, name: &str, patience: Duration) -> Self {
        let gate = Gate::new(server);
        let (blocks, mut blocked) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let candidacy = Candidacy {
            timing: Timing::new(LASTS, 2500 * MS, 250 * MS).unwrap(),
            stalled_after: patience,
            ..cluster::candidacy(name)
        };
        let work = {
            let gate = gate.clone();
            async move {
                let clients = cluster::clients(|| Client::new(gate.clone(), "default"));
                tokio::spawn(async move {
                    while let Some(time) = blocked.recv().await {
                        std::thread::sleep(time);
                    }
                });
                let lease = gate.clone();
                let connect: Connect =
                    Box::new(move || async move { Ok(Client::new(lease, "default")) }.boxed());
                let mode = RunMode::Candidate(Renewing::Apart(connect), Box::new(candidacy));
                let stopped = async {
                    let _ = stopped.await;
                };
                let (options, health) = (cluster::options(10), HealthHandle::default());
                run_observed(clients, options, mode, &health, stopped)
                    .await
                    .unwrap();
            }
        };
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work);
        });
        Self {
            gate,
            blocks,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// From now on, for so long, its thread gets to nothing.
    fn block(&self, time: Duration) {
        self.blocks.send(time).unwrap();
    }

    /// The writes since the last time, without those to the Lease.
    fn writes(&self) -> Vec<String> {
        let mut sent = self.gate.take();
        sent.retain(|sent| sent.verb != Method::GET && sent.kind() != "leases");
        sent.iter().map(gate::Sent::outline).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A test that fails says so itself.
            let _ = thread.join();
        }
    }
}

async fn cluster() -> (ApiServer, Api) {
    let server = ApiServer::new(Config::default());
    let api = Api(cluster::client(&server));
    let node = objects::node("n0", None, None);
    api.create(&node, "").await.unwrap();
    api.create(&objects::service(), NS).await.unwrap();
    (server, api)
}

async fn pod(api: &Api, number: u32) {
    pod_of(api, NS, "a", number).await;
}

async fn pod_of(api: &Api, namespace: &str, app: &str, number: u32) {
    let ip = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
    let mut pod = objects::pod(&format!("p{number}"), &ip, "n0");
    pod["metadata"]["labels"]["app"] = json!(app);
    api.create(&pod, namespace).await.unwrap();
}

async fn lease(api: &Api) -> Value {
    let lease = api.call(Method::GET, LEASE, None).await;
    lease.map(|lease| lease["spec"].clone()).unwrap_or_default()
}

fn passed(start: Instant) -> Duration {
    Instant::now().saturating_duration_since(start)
}

async fn until_published(api: &Api, count: usize) {
    let start = Instant::now();
    loop {
        let slices = api.slices_of(NS, "s").await.unwrap();
        let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array());
        if endpoints.map(Vec::len).sum::<usize>() == count {
            return;
        }
        assert!(
            passed(start) < Duration::from_secs(20),
            "{count} are not published"
        );
        sleep(20 * MS).await;
    }
}

#[tokio::test]
async fn a_process_that_stands_still_for_a_while_keeps_its_lease() {
    let (server, api) = cluster().await;
    let first = Process::start(&server, "a", Duration::from_secs(30));
    pod(&api, 1).await;
    until_published(&api, 1).await;
    let second = Process::start(&server, "b", Duration::from_secs(30));
    sleep(500 * MS).await;
    // For longer than the lease lasts.
    first.block(2 * LASTS);
    sleep(200 * MS).await;
    pod(&api, 2).await;
    let start = Instant::now();
    while passed(start) < 2 * LASTS {
        let lease = lease(&api).await;
        assert_eq!(
            (&lease["holderIdentity"], &lease["leaseTransitions"]),
            (&json!("a"), &json!(0))
        );
        sleep(50 * MS).await;
    }
    until_published(&api, 2).await;
    assert_eq!(second.writes(), [""; 0]);
}

#[tokio::test]
async fn a_process_that_stands_still_for_too_long_loses_its_lease_and_writes_nothing_more() {
    let (server, api) = cluster().await;
    let patience = Duration::from_secs(4);
    let first = Process::start(&server, "a", patience);
    pod(&api, 1).await;
    until_published(&api, 1).await;
    let second = Process::start(&server, "b", patience);
    sleep(500 * MS).await;
    first.writes();
    let (start, blocked) = (Instant::now(), 6 * patience);
    first.block(blocked);
    sleep(200 * MS).await;
    // The first process has this to write when it goes on.
    pod(&api, 2).await;
    until_published(&api, 2).await;
    let took = passed(start);
    assert!(took > patience, "not before it is out of patience: {took:?}");
    assert!(
        took < blocked.saturating_sub(LASTS),
        "another process has taken over: {took:?}"
    );
    assert_eq!(lease(&api).await["holderIdentity"], "b");
    sleep(blocked.saturating_sub(passed(start)) + 500 * MS).await;
    assert_eq!(first.writes(), [""; 0], "the fence was closed when it went on");
    assert!(!second.writes().is_empty());
    // The first process stands by, and takes over in its turn.
    drop(second);
    pod(&api, 3).await;
    until_published(&api, 3).await;
    assert_eq!(lease(&api).await["holderIdentity"], "a");
}

/// Measures what it costs to show that a picture of 20,000 pods is as new as the term. The test lasts for a minute, most
/// of which it takes to make the pods.
#[tokio::test]
#[ignore = "lasts for a minute"]
async fn taking_over_20_000_pods_lasts_less_than_three_seconds() {
    const OTHER: &str = "kube-system";
    let (server, api) = cluster().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "many"},
        "spec": {"selector": {"app": "b"}, "ports": [{"port": 80}]},
    });
    api.create(&service, OTHER).await.unwrap();
    for number in 0..20_000 {
        pod_of(&api, OTHER, "b", 1000 + number).await;
    }
    pod(&api, 1).await;
    let patience = Duration::from_secs(10);
    let first = Process::start(&server, "a", patience);
    until_published(&api, 1).await;
    let second = Process::start(&server, "b", patience);
    sleep(Duration::from_secs(20)).await;
    first.block(Duration::from_secs(60));
    sleep(200 * MS).await;
    pod(&api, 2).await;
    while lease(&api).await["holderIdentity"] != "b" {
        second.gate.take_all();
        sleep(5 * MS).await;
    }
    let start = Instant::now();
    until_published(&api, 2).await;
    let took = passed(start);
    let sent = second.gate.take_all();
    println!("taken over in {took:?}");
    for sent in sent.iter().filter(|sent| sent.kind() != "leases") {
        println!("{} {}?{}", sent.verb, sent.path, sent.query);
    }
    assert!(took < Duration::from_secs(3), "{took:?}");
}
