//! Far more changes at once than the server takes writes: memory stays bounded, at least every other turn is that of something that must
//! stop receiving traffic, and the end is right.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use endpointd::actors::writer::Pacing;
use endpointd::cluster::connect::Clients;
use endpointd::core::namespace::Settings;
use endpointd::core::outputs::Outputs;
use endpointd::ops::run::{Options, run};
use http::Request;
use kube::Client;
use loadtest::oracle;
use memory_apiserver::{
    ApiServer, Config, Fault, FaultPlan, Over, RequestRecord, Rule, Verb, Verbs, WatchFault,
};
use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NAMESPACES: usize = 4;
/// Services of each namespace; in one half of them pods become unready, in the other they become ready.
const SERVICES: usize = 10;
/// Pods of each Service.
const PODS: usize = 230;
/// Flips of each pod: an odd number, so that each ends as it was not before.
const FLIPS: usize = 11;
const CHANGES: usize = NAMESPACES * SERVICES * PODS * FLIPS;
const MAX_ENDPOINTS: usize = 10;
const WRITES_PER_SECOND: f64 = 50.0;
const IN_FLIGHT: usize = 16;

/// The highest values of the gauges that say how much waits.
#[derive(Debug, Default)]
struct Highest {
    waiting: Arc<Peak>,
    in_flight: Arc<Peak>,
}

#[derive(Debug, Default)]
struct Peak(AtomicU64);

impl GaugeFn for Peak {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
    fn set(&self, value: f64) {
        self.0.fetch_max(value as u64, Ordering::Relaxed);
    }
}

impl Recorder for Highest {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match key.name() {
            "endpointd_queue_waiting" => Gauge::from_arc(self.waiting.clone()),
            "endpointd_requests_in_flight" => Gauge::from_arc(self.in_flight.clone()),
            _ => Gauge::noop(),
        }
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

struct Cluster {
    server: ApiServer,
    client: Client,
}

impl Cluster {
    async fn send(&self, request: http::request::Builder, body: &Value) {
        let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
        self.client
            .request::<serde::de::IgnoredAny>(request)
            .await
            .unwrap();
    }

    async fn create(&self, path: &str, body: Value) {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request, &body).await;
    }

    async fn set_ready(&self, pod: &Pod, ready: bool, flip: usize) {
        let path = format!(
            "/api/v1/namespaces/ns{}/pods/{}/status",
            pod.namespace,
            pod.name()
        );
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let status = if ready { "True" } else { "False" };
        let ip = format!("10.{}.{}.{}", pod.namespace, pod.service, pod.number);
        let patch = json!({ "status": {
            "phase": "Running", "podIP": ip,
            "conditions": [{
                "type": "Ready", "status": status, "lastTransitionTime": format!("2026-01-01T00:00:{flip:02}Z"),
            }],
        } });
        self.send(request, &patch).await;
    }

    async fn fill(&self) {
        let node = json!({ "metadata": { "name": "node" } });
        self.create("/api/v1/nodes", node).await;
        for namespace in 0..NAMESPACES {
            let name = format!("ns{namespace}");
            self.create("/api/v1/namespaces", json!({ "metadata": { "name": name } }))
                .await;
            for service in 0..SERVICES {
                let body = json!({
                    "metadata": { "name": service_name(service) },
                    "spec": { "selector": { "app": service.to_string() }, "ports": [{ "port": 80 }] },
                });
                self.create(&format!("/api/v1/namespaces/{name}/services"), body)
                    .await;
            }
        }
        for pod in pods() {
            let body = json!({
                "metadata": { "name": pod.name(), "labels": { "app": pod.service.to_string() } },
                "spec": { "nodeName": "node", "containers": [{ "name": "c", "image": "i" }] },
            });
            self.create(&format!("/api/v1/namespaces/ns{}/pods", pod.namespace), body)
                .await;
            self.set_ready(&pod, pod.becomes_unready(), 0).await;
        }
    }
}

struct Pod {
    namespace: usize,
    service: usize,
    number: usize,
}

impl Pod {
    fn name(&self) -> String {
        format!("pod-{}-{}", self.service, self.number)
    }

    fn becomes_unready(&self) -> bool {
        self.service >= SERVICES / 2
    }
}

fn service_name(service: usize) -> String {
    let what = if service >= SERVICES / 2 {
        "removals"
    } else {
        "additions"
    };
    format!("{what}{service}")
}

/// Pods that become ready come first, so that order alone does not put the others before them.
fn pods() -> impl Iterator<Item = Pod> {
    let services =
        (0..SERVICES).flat_map(|service| (0..NAMESPACES).map(move |namespace| (namespace, service)));
    services.flat_map(|(namespace, service)| {
        (0..PODS).map(move |number| Pod {
            namespace,
            service,
            number,
        })
    })
}

fn options() -> Options {
    Options {
        settings: Settings {
            max_endpoints: MAX_ENDPOINTS,
            outputs: Outputs::ALL,
            seed: 1,
            ..Settings::default()
        },
        pacing: Pacing::unlimited(IN_FLIGHT),
        deadline: Duration::from_secs(30),
        drain: Duration::from_secs(10),
    }
}

/// Checks until everything is right, in simulated time.
async fn settle(client: &Client, limit: Duration) -> oracle::Report {
    let options = oracle::Options {
        max_endpoints_per_slice: MAX_ENDPOINTS,
        headless_label: true,
        ..oracle::Options::default()
    };
    let start = Instant::now();
    loop {
        sleep(Duration::from_secs(5)).await;
        let report = oracle::check(client, &options).await.unwrap();
        if report.is_correct() {
            return report;
        }
        assert!(
            Instant::now().saturating_duration_since(start) < limit,
            "{report:.10}"
        );
    }
}

/// The controller is told nothing of the pods until all have changed: then it comes at once. Writes are slow.
fn faults() -> FaultPlan {
    let silent = WatchFault::Silent {
        after: Duration::ZERO,
        lasting: Duration::from_secs(1),
    };
    let budget = Fault::Budget {
        per_second: WRITES_PER_SECOND,
        burst: 1,
        over: Over::Wait,
    };
    FaultPlan::new(1)
        .rule(Rule::on(Verb::Watch, "pods").fault(silent.into()))
        .rule(Rule::on(Verbs::WRITES, "*").fault(budget))
}

async fn overload() {
    let server = ApiServer::new(
        Config::default()
            .seed(1)
            .start_time("2026-01-01T00:00:00Z".parse().unwrap())
            .request_log(1_000_000)
            // The watch that is held up shall be told everything, and not begin again with a list.
            .history(2 * CHANGES)
            .watch_buffer(2 * CHANGES),
    );
    let cluster = Cluster {
        client: Client::new(server.service_without_faults(), "default"),
        server,
    };
    cluster.fill().await;
    let client = || Client::new(cluster.server.service_as("controller"), "default");
    let clients = Clients {
        watches: client(),
        objects: client().into(),
        events: client(),
        in_pod: false,
    };
    let controller = tokio::spawn(run(clients, options(), std::future::pending()));
    settle(&cluster.client, Duration::from_secs(60)).await;

    cluster.server.set_faults(faults());
    let began = Instant::now();
    for flip in 1..=FLIPS {
        for pod in pods() {
            let ready = pod.becomes_unready() == flip.is_multiple_of(2);
            cluster.set_ready(&pod, ready, flip).await;
        }
    }
    assert_eq!(
        Instant::now().saturating_duration_since(began),
        Duration::ZERO,
        "all at one moment"
    );
    let before = cluster.server.requests().len();
    let report = settle(&cluster.client, Duration::from_secs(180)).await;
    assert!(!controller.is_finished());
    assert_eq!(report.endpoints, NAMESPACES * SERVICES * PODS, "{report}");

    assert_removals_have_turns(&cluster.server.requests()[before..]);
}

/// The writes of slices are few, and at least half of them take traffic away as long as there are such.
fn assert_removals_have_turns(requests: &[RequestRecord]) {
    let writes = requests.iter().filter(|r| r.method != "GET" && r.applied);
    let slices: Vec<&str> = writes
        .clone()
        .filter_map(|r| r.path.split_once("/endpointslices/").map(|(_, name)| name))
        .collect();
    let slices_there = NAMESPACES * SERVICES * PODS.div_ceil(MAX_ENDPOINTS);
    assert!(slices.len() >= slices_there, "{} writes", slices.len());
    // As many changes as fit into each write: what was under way when the rest came is written once more.
    assert!(
        slices.len() <= slices_there + 4 * IN_FLIGHT,
        "{} writes",
        slices.len()
    );
    let last_removal = slices
        .iter()
        .rposition(|name| name.starts_with("removals"))
        .unwrap();
    let early = slices[..last_removal]
        .iter()
        .filter(|name| name.starts_with("additions"));
    // Some additions went before any removal was known.
    let early = early.count();
    assert!(
        early <= last_removal / 2 + 2 * IN_FLIGHT,
        "{early} additions went before the last removal, of {last_removal} writes"
    );
    assert_eq!(
        writes
            .clone()
            .filter(|r| r.method == "POST" && !r.path.contains("/events"))
            .count(),
        0,
        "no slice had to be made"
    );
}

#[test]
fn a_hundred_thousand_changes_at_once() {
    const { assert!(CHANGES >= 100_000) };
    let highest = Highest::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    // The handles are registered by this thread, on which everything runs.
    metrics::with_local_recorder(&highest, || runtime.block_on(overload()));

    let objects = NAMESPACES * SERVICES * (PODS.div_ceil(MAX_ENDPOINTS) + 1);
    let waiting = highest.waiting.0.load(Ordering::Relaxed) as usize;
    let in_flight = highest.in_flight.0.load(Ordering::Relaxed) as usize;
    assert!(
        waiting > objects / 2,
        "{waiting} of {objects}: this was no overload"
    );
    assert!(
        waiting <= objects,
        "{waiting} wait, and there are {objects} objects"
    );
    // At first all places are taken, which is more than the server works on. So answers take much longer than before, and as many
    // requests as there are places may leave these.
    assert!((1..=2 * IN_FLIGHT).contains(&in_flight), "{in_flight}");
}
