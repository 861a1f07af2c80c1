//! A drill: a new cluster comes up with endpointd in the place of the built-in controllers, as the overlay `control-plane` runs it.
//! Services are there first; no node is ready, and there is no pod network. The network plugin finds its own parts through a
//! Service, so it comes up only if the endpoints of pods on the nodes' network are published by then.

use crate::cluster::Api;
use crate::objects;
use crate::rbac::grants::{self, Grants};
use crate::rbac::process::WithToken;
use memory_apiserver::{Config, Handle, start};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Far longer than anything takes on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for a write that should not be made.
const QUIET: Duration = Duration::from_secs(1);

fn manifest(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy/kustomize")
        .join(path);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The flags of the Deployment. The overlay changes none of them.
fn flags() -> Vec<String> {
    let container = |manifest: &Value| manifest["spec"]["template"]["spec"]["containers"][0].clone();
    let changed = container(&manifest("components/control-plane/deployment.yaml"));
    assert!(changed["args"].is_null(), "{changed}");
    let args = container(&manifest("base/deployment.yaml"))["args"].clone();
    let args = args.as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let flags = args.filter(|arg| *arg != "run" && !arg.starts_with("--admin-port="));
    flags.map(str::to_owned).collect()
}

/// Service of the pods with this label.
fn service(name: &str, port: &str, number: u16) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"k8s-app": name}, "ports": [{"name": port, "port": number, "targetPort": port}]}})
}

/// A node that has just joined: its kubelet reports that the network is not there, and the taints follow from that.
fn new_node(name: &str) -> Value {
    let mut node = objects::node(name, Some("a"), Some("4"));
    node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = json!("");
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    node["spec"] = json!({"taints": [
        taint("node-role.kubernetes.io/control-plane", "NoSchedule"),
        taint("node.kubernetes.io/not-ready", "NoSchedule"),
        taint("node.kubernetes.io/not-ready", "NoExecute"),
        taint("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    ]});
    node["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]);
    node
}

/// A pod that has been scheduled and waits for an address of the pod network.
fn waiting_pod(name: &str, app: &str, port: &str, number: u16) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"k8s-app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "example.com/app:1",
            "ports": [{"name": port, "containerPort": number, "protocol": "TCP"}]}]},
        "status": {"phase": "Pending", "conditions": [objects::ready_condition(false, 0)]}})
}

/// A pod on the network of its node.
fn host_pod(name: &str, app: &str, port: &str, number: u16, address: &str) -> Value {
    let mut pod = waiting_pod(name, app, port, number);
    pod["spec"]["hostNetwork"] = json!(true);
    pod["status"] = json!({"phase": "Running", "conditions": [objects::ready_condition(true, 1)],
        "hostIP": address, "podIP": address, "podIPs": [{"ip": address}]});
    pod
}

/// The ready addresses in the Endpoints of a Service with the number of its port, as Calico's agents look for Typha; nothing before
/// there are Endpoints.
async fn in_endpoints(api: &Api, service: &str) -> Option<Vec<String>> {
    let path = Api::path("Endpoints", "default", Some(service)).unwrap();
    let endpoints = api.call(http::Method::GET, &path, None).await.ok()?;
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for subset in &subsets {
        let port = &subset["ports"][0]["port"];
        let addresses = subset["addresses"].as_array().into_iter().flatten();
        found.extend(addresses.map(|address| format!("{}:{port}", address["ip"].as_str().unwrap())));
    }
    Some(found)
}

/// The ready addresses in its slices, as proxies and Antrea's agents look for them; nothing before there is a slice.
async fn in_slices(api: &Api, service: &str) -> Option<Vec<String>> {
    let slices = api.slices_of("default", service).await.unwrap();
    let mut found = Vec::new();
    for slice in &slices {
        let port = &slice["ports"][0]["port"];
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
        found.extend(ready.map(|endpoint| format!("{}:{port}", endpoint["addresses"][0].as_str().unwrap())));
    }
    (!slices.is_empty()).then_some(found)
}

/// Waits until Endpoints and slices of a Service hold these addresses and no others.
async fn published(api: &Api, process: &mut WithToken, service: &str, expected: &[&str]) {
    let start = Instant::now();
    loop {
        let found = (in_endpoints(api, service).await, in_slices(api, service).await);
        let is_so = |found: &Option<Vec<String>>| found.as_deref().is_some_and(|found| found == expected);
        if is_so(&found.0) && is_so(&found.1) {
            return;
        }
        assert!(process.is_running(), "it has ended\n{}", process.log());
        let waited = Instant::now().saturating_duration_since(start);
        assert!(
            waited < LIMIT,
            "{service}: {expected:?} are to be published, and {found:?} are\n{}",
            process.log()
        );
        sleep(Duration::from_millis(20)).await;
    }
}

async fn cluster() -> (Handle, Api, Grants) {
    let grants = Grants::of_base();
    let handle = start(Config::default().access(grants::access(&[&grants])))
        .await
        .unwrap();
    let service = handle.server().service_without_faults().with_token(grants::ADMIN);
    let api = Api(kube::Client::new(service, "default"));
    (handle, api, grants)
}

#[tokio::test]
async fn a_network_plugin_that_finds_its_parts_through_a_service_comes_up() {
    let (handle, api, grants) = cluster().await;
    for service in [
        service("calico-typha", "calico-typha", 5473),
        service("kube-dns", "dns-tcp", 53),
    ] {
        api.create(&service, "default").await.unwrap();
    }
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut process = WithToken::start(&handle, grants.token(), &flags);
    // Without a node and a pod, there is something to publish all the same: that there is nothing.
    published(&api, &mut process, "calico-typha", &[]).await;
    published(&api, &mut process, "kube-dns", &[]).await;

    api.create(&new_node("node-1"), "").await.unwrap();
    let waiting = waiting_pod("coredns", "kube-dns", "dns-tcp", 53);
    api.create(&waiting, "default").await.unwrap();
    let typha = host_pod("typha", "calico-typha", "calico-typha", 5473, "192.0.2.11");
    api.create(&typha, "default").await.unwrap();
    published(&api, &mut process, "calico-typha", &["192.0.2.11:5473"]).await;
    sleep(QUIET).await;
    published(&api, &mut process, "kube-dns", &[]).await;

    // The plugin has found its part: the node gets a network, and its pods addresses.
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    api.patch("Node", "", "node-1", Some("status"), &ready)
        .await
        .unwrap();
    let addressed = json!({"status": {"phase": "Running", "conditions": [objects::ready_condition(true, 2)],
        "hostIP": "192.0.2.11", "podIP": "10.1.0.5", "podIPs": [{"ip": "10.1.0.5"}]}});
    api.patch("Pod", "default", "coredns", Some("status"), &addressed)
        .await
        .unwrap();
    published(&api, &mut process, "kube-dns", &["10.1.0.5:53"]).await;
    published(&api, &mut process, "calico-typha", &["192.0.2.11:5473"]).await;
    process.terminate().await;
}

/// The control plane's own pods are replaced one after the other, each on a node that is new: the plugin is never without an address.
#[tokio::test]
async fn nodes_that_join_one_by_one_are_published_before_they_are_ready() {
    let (handle, api, grants) = cluster().await;
    api.create(&service("antrea", "api", 10349), "default")
        .await
        .unwrap();
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut process = WithToken::start(&handle, grants.token(), &flags);
    let mut expected = Vec::new();
    for number in 1..=3 {
        let (node, address) = (format!("node-{number}"), format!("192.0.2.{number}"));
        // The pod may be seen before its Node.
        let mut pod = host_pod(&format!("antrea-{number}"), "antrea", "api", 10349, &address);
        pod["spec"]["nodeName"] = json!(node);
        api.create(&pod, "default").await.unwrap();
        api.create(&new_node(&node), "").await.unwrap();
        expected.push(format!("{address}:10349"));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        published(&api, &mut process, "antrea", &expected).await;
    }
    process.terminate().await;
}
