//! endpointd as a process of its own, killed without warning again and again while the cluster changes.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use kube::Client;
use loadtest::{chaos, oracle};
use memory_apiserver::{
    ApiServer, Config, Fault, FaultPlan, Handle, Latency, RequestRecord, Resources, Rule, Stage, Verbs, start,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[path = "support/program.rs"]
mod program;

use program::{LIMIT, LOOK, Program, until};

const KILLS: usize = 50;
/// As small as lets every history fill several slices.
const MAX_ENDPOINTS: usize = 4;

/// Starts the program without leader election: one after the other leads at once, and does not wait for the lease of
/// one that was killed.
fn start_program(url: &str) -> Program {
    let max_endpoints = format!("--max-endpoints-per-slice={MAX_ENDPOINTS}");
    Program::start(url, &["--leader-elect=false".to_owned(), max_endpoints])
}

fn is_write(request: &RequestRecord) -> bool {
    request.method != "GET" && !request.path.contains("/events")
}

/// Whether all five kinds have been listed and are watched.
fn is_watching(requests: &[RequestRecord]) -> bool {
    // A list that is streamed is a watch, too, but one without a version to go on from.
    let watches = requests.iter().filter(|r| r.path.contains("resourceVersion="));
    let mut kinds: Vec<&str> = watches.filter_map(|r| r.path.split('?').next()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.len() == 5
}

fn checks() -> oracle::Options {
    oracle::Options {
        max_endpoints_per_slice: MAX_ENDPOINTS,
        ..oracle::Options::default()
    }
}

/// Waits until everything is as it should be, no endpoint twice among that, and stays so for a while.
async fn converge(server: &ApiServer, client: &Client) {
    let mut report;
    let start = Instant::now();
    loop {
        let before = server.resource_version();
        report = oracle::check(client, &checks()).await.unwrap();
        if report.is_correct() {
            sleep(Duration::from_secs(1)).await;
            if server.resource_version() == before {
                break;
            }
        }
        assert!(
            Instant::now().saturating_duration_since(start) < LIMIT,
            "{report:.20}"
        );
        sleep(LOOK).await;
    }
    assert!(report.endpoints >= 10, "{report}");
}

async fn api_server() -> Handle {
    let config = Config::default().seed(4).request_log(10_000_000);
    let handle = start(config).await.unwrap();
    // Answers take a little while, so that kills meet writes on their way, before and after they are applied.
    let latency = || Latency::Exponential {
        mean: Duration::from_millis(10),
        cap: Duration::from_millis(100),
    };
    let delay = |stage| {
        let outputs = Resources::from(["endpointslices", "endpoints"]);
        Rule::on(Verbs::WRITES, outputs).fault(Fault::Delay(stage, latency()))
    };
    let plan = FaultPlan::new(4)
        .rule(delay(Stage::Before))
        .rule(delay(Stage::After));
    handle.server().set_faults(plan);
    handle
}

/// A Service of ten pods that nothing changes, beside those that come and go.
fn load_pods(server: &ApiServer) {
    let service = "{apiVersion: v1, kind: Service, metadata: {name: still}, spec: {selector: {app: still}, ports: [{port: 80}]}}";
    server.load(service).unwrap();
    for number in 1..=10 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("still-{number}"), "labels": { "app": "still" } },
            "spec": { "containers": [{ "name": "app", "image": "app" }] },
            "status": {
                "phase": "Running", "podIP": format!("10.254.0.{number}"),
                "podIPs": [{ "ip": format!("10.254.0.{number}") }],
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        server.load(&pod.to_string()).unwrap();
    }
}

/// Kills processes at random moments: while they start, while they list, and most of them while they write.
/// Returns how many were killed after their first write, and how many with a write on its way.
async fn kill_often(handle: &Handle) -> (usize, usize) {
    let server = handle.server();
    let mut rng = fastrand::Rng::with_seed(4);
    let (mut wrote, mut writing) = (0, 0);
    for kill in 0..KILLS {
        let before = server.requests().len();
        let mut process = start_program(&handle.url());
        if kill % 5 > 0 {
            until("the process watches", async || {
                is_watching(&server.requests()[before..])
            })
            .await;
            assert!(process.runs(), "the process ended by itself");
        }
        sleep(Duration::from_millis(rng.u64(..400))).await;
        drop(process);
        // Only the process meets faults, so these writes are its own.
        let of_process = |r: &&RequestRecord| is_write(r) && !r.faults.is_empty();
        let requests = server.requests();
        let mut writes = requests[before..].iter().filter(of_process).peekable();
        wrote += usize::from(writes.peek().is_some());
        writing += usize::from(writes.any(|r| r.status == 0));
    }
    (wrote, writing)
}

/// A pod that no Service has seen becomes visible: proof that a controller is at work.
async fn publish_something(client: &Client, server: &ApiServer) {
    let create = async |path: &str, body: serde_json::Value| {
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&body).unwrap()).unwrap();
        client.request::<serde_json::Value>(request).await.unwrap()
    };
    let before = server.requests().len();
    create(
        "/api/v1/namespaces/default/services",
        json!({ "metadata": { "name": "last" }, "spec": { "selector": { "app": "last" }, "ports": [{ "port": 80 }] } }),
    )
    .await;
    until("the last Service is published", async || {
        let requests = server.requests();
        let mut made = requests[before..]
            .iter()
            .filter(|r| r.method == "POST" && r.applied);
        made.any(|r| r.path.contains("endpointslices"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_under_churn_leave_nothing_wrong_and_nothing_to_write() {
    let handle = api_server().await;
    let server = handle.server().clone();
    load_pods(&server);
    let client = Client::new(server.service_without_faults(), "default");
    let stop = Arc::new(AtomicBool::new(false));
    let churn = {
        let (server, stop) = (server.clone(), stop.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(chaos::churn(&server, 4, 0.05, &stop));
        })
    };
    let (wrote, writing) = kill_often(&handle).await;
    println!("{wrote} of {KILLS} processes had written, {writing} were killed with a write on its way");
    assert!(
        wrote * 2 >= KILLS,
        "only {wrote} of {KILLS} had written something"
    );
    assert!(writing > 0, "no kill met a write on its way");

    let mut last = start_program(&handle.url());
    stop.store(true, Ordering::Relaxed);
    tokio::task::spawn_blocking(|| churn.join().unwrap())
        .await
        .unwrap();
    converge(&server, &client).await;
    assert!(last.runs(), "the process ended by itself");
    drop(last);

    // On what is right already another process writes nothing before something happens.
    let before = server.requests().len();
    let mut idle = start_program(&handle.url());
    until("the last process watches", async || {
        is_watching(&server.requests()[before..])
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    assert!(idle.runs(), "the process ended by itself");
    let written: Vec<RequestRecord> = server.requests()[before..]
        .iter()
        .filter(|r| is_write(r))
        .cloned()
        .collect();
    assert!(written.is_empty(), "{written:#?}");
    publish_something(&client, &server).await;
    converge(&server, &client).await;
}
