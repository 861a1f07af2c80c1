//! The program as a process of its own, and the cluster that the API server in this one has for it.

use kube::Client;
use memory_apiserver::ApiServer;
use scenario::Api;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pods of one workload.
pub(crate) const WORKLOAD: u32 = 50;

/// A cluster of workloads.
pub(crate) struct Cluster {
    pub(crate) pods: u32,
    pub(crate) namespaces: u32,
    /// The Services of each workload: what their names end in, and the port that they publish. Those that end in
    /// `-headless` are headless.
    pub(crate) services: &'static [(&'static str, &'static str)],
}

/// A child that does not outlive the benchmark.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts `command` with the arguments of the program.
    pub(crate) fn start(mut command: Command, url: &str, more: &[&str]) -> Self {
        command.args([
            "run",
            "--leader-elect=false",
            "--admin-port=0",
            "--server",
            url,
            "--kube-api-qps=0",
            "--log-level=warn",
        ]);
        command.args(more).stdin(Stdio::null());
        Self(command.spawn().expect("the program is built with the benchmarks"))
    }

    /// Waits until the process has ended in order.
    pub(crate) fn stop(mut self) {
        let kill = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(kill.is_ok_and(|status| status.success()), "the process runs");
        let status = self.0.wait().expect("it is a child of this process");
        assert!(status.success(), "the program ends in order: {status}");
    }

    /// A line of /proc/PID/status, in bytes.
    pub(crate) fn status(&self, key: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))
            .expect("the program runs, and this is Linux");
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kib.expect("the kernel tells resident memory in KiB") * 1024.0
    }
}

fn pod_name(number: u32) -> String {
    format!("checkout-{}-7c5d8bd957-{number:05}", number / WORKLOAD)
}

/// A pod of some two kilobytes.
fn pod(number: u32) -> Value {
    let app = format!("checkout-{}", number / WORKLOAD);
    let name = pod_name(number);
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

/// The status of a pod that became ready, or unready, in this second.
fn status(number: u32, ready: bool, second: u32) -> Value {
    let ip = std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
    let (minute, second) = (second / 60 % 60, second % 60);
    let condition = |kind, status| {
        let time = format!("2026-01-01T00:{minute:02}:{second:02}Z");
        json!({"type": kind, "status": if status { "True" } else { "False" }, "lastTransitionTime": time})
    };
    json!({
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "192.168.0.1",
        "conditions": [condition("Initialized", true), condition("Ready", ready), condition("ContainersReady", ready)],
        "containerStatuses": [{"name": "checkout", "ready": ready, "restartCount": 0, "image": "i", "imageID": "i"}],
    })
}

/// Makes a pod ready or unready.
pub(crate) async fn set_ready(client: &Client, cluster: &Cluster, number: u32, ready: bool, second: u32) {
    let namespace = format!("shop-{}", number / WORKLOAD % cluster.namespaces);
    let patch = json!({"status": status(number, ready, second)});
    Api(client.clone())
        .patch("Pod", &namespace, &pod_name(number), Some("status"), &patch)
        .await
        .expect("the server is in this process and takes the patch");
}

/// Makes the cluster on a server.
pub(crate) async fn fill(server: &ApiServer, cluster: &Cluster) {
    let api = Api(Client::new(server.service(), "default"));
    let create = async |object: Value, namespace: &str| {
        let made = api.create(&object, namespace).await;
        made.expect("the server is in this process and takes the object");
    };
    for node in 0..500 {
        let labels = json!({"topology.kubernetes.io/zone": format!("zone-{}", node % 3)});
        let name = format!("node-{node}");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        create(node, "").await;
    }
    for namespace in 0..cluster.namespaces {
        let name = format!("shop-{namespace}");
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(object, "").await;
    }
    for workload in 0..cluster.pods / WORKLOAD {
        let namespace = format!("shop-{}", workload % cluster.namespaces);
        let app = format!("checkout-{workload}");
        for &(kind, port) in cluster.services {
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
            create(service, &namespace).await;
        }
        for number in workload * WORKLOAD..(workload + 1) * WORKLOAD {
            let mut pod = pod(number);
            pod["status"] = status(number, true, 0);
            create(pod, &namespace).await;
        }
    }
}

/// Waits until so many objects have been written since a version, and nothing more comes.
pub(crate) async fn settled(server: &ApiServer, before: u64, objects: u64) {
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
