//! Measures how many writes a second the server carries while watchers keep up, all over HTTP on loopback and in one
//! process: `cargo run --release -p memory-apiserver --example writes -- [WATCHERS [SECONDS [PODS]]]`.
//!
//! Half of the writes are status patches of pods, as kubelets send them, half replace slices of 100 endpoints. Each
//! watcher watches both kinds in all namespaces. A run counts until every watcher has received every event.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

type Failed = Box<dyn Error + Send + Sync>;

// As the load test's own server has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SLICES: usize = 200;
const WRITERS: usize = 8;

/// The events and bytes that a watcher has received.
#[derive(Debug, Default)]
struct Received {
    events: AtomicU64,
    bytes: AtomicU64,
}

/// Two states of each object, written by turns. They are made beforehand: what is measured is the server.
#[derive(Debug)]
struct Bodies {
    statuses: [Bytes; 2],
    slices: Vec<[Bytes; 2]>,
}

impl Bodies {
    fn new() -> Self {
        Self {
            statuses: [0, 1].map(|round| text(&status(round))),
            slices: (0..SLICES)
                .map(|i| [1, 2].map(|round| text(&slice(i, round))))
                .collect(),
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failed> {
    let number = |at: usize, otherwise: usize| {
        std::env::args()
            .nth(at)
            .map_or(Ok(otherwise), |text| text.parse())
    };
    let (watchers, seconds) = (number(1, 10)?, number(2, 10)?);
    // No two writers share an object.
    let pods = number(3, 2000)?.next_multiple_of(WRITERS);
    let server = memory_apiserver::start(Config::default().gc(false).seed(1)).await?;
    let addr = server.addr();
    fill(addr, pods).await?;
    let mut received: Vec<Arc<Received>> = Vec::new();
    let mut watches = JoinSet::new();
    for _ in 0..watchers {
        for path in ["/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices"] {
            let mine: Arc<Received> = Arc::default();
            received.push(Arc::clone(&mine));
            let version = server.server().resource_version();
            watches.spawn(watch(
                addr,
                format!("{path}?watch=1&resourceVersion={version}"),
                mine,
            ));
        }
    }
    let bodies = Arc::new(Bodies::new());
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    let (start, cpu) = (Instant::now(), cpu_time());
    for writer in 0..WRITERS {
        writers.spawn(write(addr, writer, pods, Arc::clone(&bodies), Arc::clone(&stop)));
    }
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut written, mut latencies) = (0, Vec::new());
    while let Some(done) = writers.join_next().await {
        let mut done = done??;
        written += done.len() as u64;
        latencies.append(&mut done);
    }
    let wrote = Instant::now().saturating_duration_since(start);
    let total = |what: fn(&Received) -> &AtomicU64| -> u64 {
        received.iter().map(|one| what(one).load(Ordering::Relaxed)).sum()
    };
    let wanted = written * watchers as u64;
    while total(|one| &one.events) < wanted {
        if let Some(ended) = watches.try_join_next() {
            ended??;
            return Err("a watch ended: it could not keep up".into());
        }
        if Instant::now().saturating_duration_since(start) > wrote + Duration::from_secs(30) {
            return Err("the watchers are not told all".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let all = Instant::now().saturating_duration_since(start);
    let cpu = cpu_time().saturating_sub(cpu).as_secs_f64();
    latencies.sort_unstable();
    let at = |part: f64| {
        latencies
            .get((latencies.len() as f64 * part) as usize)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{written} writes in {:.2} s: {:.0}/s; {watchers} watchers were told the last of them {:.0} ms later",
        wrote.as_secs_f64(),
        written as f64 / all.as_secs_f64(),
        all.saturating_sub(wrote).as_secs_f64() * 1e3,
    );
    println!(
        "a write: median {:.2} ms, p99 {:.2} ms; {:.0} events/s, {:.0} MB/s to watchers",
        at(0.5).as_secs_f64() * 1e3,
        at(0.99).as_secs_f64() * 1e3,
        wanted as f64 / all.as_secs_f64(),
        total(|one| &one.bytes) as f64 / 1e6 / all.as_secs_f64(),
    );
    // On a machine with other work to do this says more than the clock.
    println!(
        "CPU time, clients included: {:.3} ms a write; two cores of one's own carry {:.0}/s",
        cpu * 1e3 / written as f64,
        2.0 * written as f64 / cpu,
    );
    server.shutdown().await;
    Ok(())
}

/// Returns the time that this process has used of all cores; zero where there is no procfs. It counts in hundredths of
/// a second.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Creates what is written to later.
async fn fill(addr: SocketAddr, pods: usize) -> Result<(), Failed> {
    let mut setup = connect(addr).await?;
    for i in 0..pods {
        send(
            &mut setup,
            Method::POST,
            "/api/v1/namespaces/default/pods",
            text(&pod(i)),
        )
        .await?;
    }
    for i in 0..SLICES {
        let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        send(&mut setup, Method::POST, path, text(&slice(i, 0))).await?;
    }
    Ok(())
}

async fn connect(addr: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Failed> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // It ends with the server.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn send(
    sender: &mut SendRequest<Full<Bytes>>,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<(), Failed> {
    let media = match method {
        Method::PATCH => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "127.0.0.1")
        .header(header::CONTENT_TYPE, media)
        .body(Full::new(body))?;
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    if status.is_success() {
        Ok(())
    } else {
        Err(format!("{path}: {status}").into())
    }
}

/// Writes until told to stop, each writer to its own objects; how long each write took.
async fn write(
    addr: SocketAddr,
    writer: usize,
    pods: usize,
    bodies: Arc<Bodies>,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Duration>, Failed> {
    let mut sender = connect(addr).await?;
    let mut turns = (vec![0; pods], vec![0; SLICES]);
    let mut took = Vec::new();
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        let at = round * WRITERS + writer;
        let start = Instant::now();
        if round.is_multiple_of(2) {
            let pod = at % pods;
            turns.0[pod] ^= 1;
            let path = format!("/api/v1/namespaces/default/pods/pod-{pod}/status");
            let body = bodies.statuses[turns.0[pod]].clone();
            send(&mut sender, Method::PATCH, &path, body).await?;
        } else {
            let slice = at % SLICES;
            turns.1[slice] ^= 1;
            let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/slice-{slice}");
            let body = bodies.slices[slice][turns.1[slice]].clone();
            send(&mut sender, Method::PUT, &path, body).await?;
        }
        took.push(Instant::now().saturating_duration_since(start));
    }
    Ok(took)
}

fn text(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Counts events, one a line, until the server goes.
async fn watch(addr: SocketAddr, path: String, received: Arc<Received>) -> Result<(), Failed> {
    let mut sender = connect(addr).await?;
    let request = Request::get(path)
        .header(header::HOST, "127.0.0.1")
        .body(Full::default())?;
    let response = timeout(Duration::from_secs(10), sender.send_request(request)).await??;
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            let lines = memchr::memchr_iter(b'\n', &data).count();
            received.events.fetch_add(lines as u64, Ordering::Relaxed);
            received.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn pod(i: usize) -> Value {
    let variable = |i: usize| json!({"name": format!("VARIABLE_{i}"), "value": format!("value-{i}")});
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "metadata": {
            "name": format!("pod-{i}"),
            "labels": {"app": format!("app-{}", i % 50), "pod-template-hash": "7d9f8b6c54", "tier": "backend"},
            "annotations": {"checksum/config": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        },
        "spec": {
            "nodeName": format!("node-{}", i % 100),
            "containers": [{
                "name": "app", "image": "registry.example.com/team/app:1.2.3",
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": (0..12).map(variable).collect::<Vec<_>>(),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "readinessProbe": probe, "livenessProbe": probe,
            }],
        },
    })
}

fn status(round: usize) -> Value {
    let ready = if round.is_multiple_of(2) { "True" } else { "False" };
    let time = "2026-01-01T00:00:00Z";
    json!({"status": {
        "phase": "Running", "podIP": "10.1.2.3", "hostIP": "192.0.2.1",
        "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": time, "message": format!("round {round}")},
            {"type": "ContainersReady", "status": ready, "lastTransitionTime": time},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
        ],
        "containerStatuses": [{
            "name": "app", "ready": ready == "True", "restartCount": 0, "image": "registry.example.com/team/app:1.2.3",
            "imageID": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "state": {"running": {"startedAt": time}},
        }],
    }})
}

fn slice(i: usize, round: usize) -> Value {
    let endpoint = |n: usize| {
        json!({
            "addresses": [format!("10.{}.{}.{n}", i / 250, i % 250)],
            "conditions": {"ready": n != round % 100, "serving": true, "terminating": false},
            "nodeName": format!("node-{n}"), "zone": "zone-a",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("pod-{i}-{n}"),
                "uid": "db401131-2164-403f-94e2-19ace6ed99cb"},
        })
    };
    json!({
        "metadata": {
            "name": format!("slice-{i}"),
            "labels": {"kubernetes.io/service-name": format!("svc-{i}")},
            "annotations": {"example.com/round": round.to_string()},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (0..100).map(endpoint).collect::<Vec<_>>(),
    })
}
