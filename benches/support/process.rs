//! The program as a process of its own, with an API server in this one.

use crate::goals::Goals;
use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use memory_apiserver::{ApiServer, Config, start};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PODS: u32 = 100_000;
const NAMESPACES: u32 = 40;
const WORKLOAD: u32 = 50;

/// A child that does not outlive the benchmark.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(url: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_endpointd"));
        command.args([
            "run",
            "--leader-elect=false",
            "--admin-port=0",
            "--server",
            url,
            "--kube-api-qps=0",
            "--log-level=warn",
        ]);
        command.stdin(Stdio::null());
        Self(command.spawn().expect("the program is built with the benchmarks"))
    }

    /// A line of /proc/PID/status, in bytes.
    fn status(&self, key: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))
            .expect("the program runs, and this is Linux");
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kib.expect("the kernel tells resident memory in KiB") * 1024.0
    }
}

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Value {
    let body = serde_json::to_vec(body).expect("values can be written");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .expect("a method, a path and a body make a request");
    let response = client.send(request).await.expect("the server is in this process");
    let code = response.status();
    let body = response
        .into_body()
        .collect_bytes()
        .await
        .expect("the body is in memory");
    let value = serde_json::from_slice(&body).unwrap_or_default();
    assert!(code.is_success(), "{code} for {path}: {value}");
    value
}

async fn create(client: &Client, path: &str, object: &Value) -> Value {
    send(client, Method::POST, path, object).await
}

/// A pod of some two kilobytes.
fn pod(number: u32) -> Value {
    let app = format!("checkout-{}", number / WORKLOAD);
    let name = format!("{app}-7c5d8bd957-{number:05}");
    let mut labels = json!({
        "app.kubernetes.io/name": "checkout", "app.kubernetes.io/instance": app,
        "app.kubernetes.io/version": "1.24.7", "app.kubernetes.io/managed-by": "Helm",
    });
    if number / WORKLOAD % 3 == 2 {
        labels["statefulset.kubernetes.io/pod-name"] = json!(name);
        labels["apps.kubernetes.io/pod-index"] = json!((number % WORKLOAD).to_string());
    } else {
        labels["pod-template-hash"] = json!("7c5d8bd957");
    }
    let env: Vec<_> = (0..12)
        .map(|i| json!({"name": format!("CHECKOUT_SETTING_{i}"), "value": "some value or other"}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": {"checksum/config": "5f2e9a".repeat(10)}},
        "spec": {
            "nodeName": format!("node-{}", number % 500),
            "containers": [{
                "name": "checkout", "image": "registry.example.com/shop/checkout:1.24.7", "env": env,
                "ports": [
                    {"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090},
                ],
            }],
        },
    })
}

fn status(number: u32) -> Value {
    let ip = std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
    let condition =
        |kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "192.168.0.1",
        "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady")],
        "containerStatuses": [{"name": "checkout", "ready": true, "restartCount": 0, "image": "i", "imageID": "i"}],
    })
}

async fn fill(server: &ApiServer) {
    let client = Client::new(server.service(), "default");
    for node in 0..500 {
        let labels = json!({"topology.kubernetes.io/zone": format!("zone-{}", node % 3)});
        let name = format!("node-{node}");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        create(&client, "/api/v1/nodes", &node).await;
    }
    for namespace in 0..NAMESPACES {
        let name = format!("shop-{namespace}");
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&client, "/api/v1/namespaces", &object).await;
    }
    for workload in 0..PODS / WORKLOAD {
        let namespace = format!("/api/v1/namespaces/shop-{}", workload % NAMESPACES);
        let app = format!("checkout-{workload}");
        for (kind, port) in [("", "http"), ("-headless", "http"), ("-metrics", "metrics")] {
            let cluster_ip = if kind == "-headless" {
                json!("None")
            } else {
                Value::Null
            };
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{app}{kind}")},
                "spec": {
                    "clusterIP": cluster_ip,
                    "selector": {"app.kubernetes.io/name": "checkout", "app.kubernetes.io/instance": app},
                    "ports": [{"name": port, "port": 80, "targetPort": port}],
                },
            });
            create(&client, &format!("{namespace}/services"), &service).await;
        }
        for number in workload * WORKLOAD..(workload + 1) * WORKLOAD {
            let path = format!("{namespace}/pods");
            let mut made = create(&client, &path, &pod(number)).await;
            made["status"] = status(number);
            let name = made["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}/status");
            send(&client, Method::PUT, &path, &made).await;
        }
    }
}

/// Waits until every object has been written and nothing more comes.
async fn settled(server: &ApiServer, objects: u64) {
    let before = server.resource_version();
    let start = Instant::now();
    while server.resource_version() < before + objects {
        assert!(
            Instant::now().saturating_duration_since(start) < Duration::from_secs(300),
            "the objects are not written"
        );
        sleep(Duration::from_millis(50)).await;
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        server.resource_version(),
        before + objects,
        "each object is written once"
    );
}

/// The resident memory of the program after a start on 100,000 pods whose slices and Endpoints it must make.
pub(crate) fn resident(goals: &mut Goals) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        let empty = start(Config::default()).await.expect("a port is free");
        let idle = Process::start(&empty.url());
        sleep(Duration::from_secs(2)).await;
        let floor = idle.status("VmRSS");
        drop(idle);

        let full = start(Config::default()).await.expect("a port is free");
        println!("process: making {PODS} pods");
        fill(full.server()).await;
        let made = Process::start(&full.url());
        settled(full.server(), u64::from(2 * 3 * PODS / WORKLOAD)).await;
        report(goals, "writing everything", &made, floor);
        drop(made);
        let adopted = Process::start(&full.url());
        sleep(Duration::from_secs(15)).await;
        report(goals, "adopting everything", &adopted, floor);
        drop(adopted);
    });
}

fn report(goals: &mut Goals, start: &str, process: &Process, floor: f64) {
    let each = |bytes: f64| Some(bytes / f64::from(PODS));
    let (now, peak) = (process.status("VmRSS"), process.status("VmHWM"));
    goals.at_most(
        &format!("process: {PODS} pods, a start {start}, peak of resident memory"),
        each(peak),
        1024.0,
        " bytes a pod",
    );
    goals.note(
        &format!("process: a start {start}, peak above that of an empty cluster"),
        each(peak - floor),
        " bytes a pod",
    );
    goals.note(
        &format!("process: a start {start}, resident memory after it"),
        each(now),
        " bytes a pod",
    );
}
