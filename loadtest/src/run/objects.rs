//! The bodies of a run's objects, as the API server gets them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::world::{Node, Pod, Service, State, World};
use crate::{names::LABEL, observe::pod_ip, oracle::Family};

const PORT: u16 = 8080;

pub(super) fn namespace(world: &World, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": { LABEL: world.run } },
    })
}

/// A node that nobody else's pods are put on.
pub(super) fn node(world: &World, node: &Node) -> Value {
    let capacity = json!({ "cpu": "16", "memory": "64Gi", "pods": "1000" });
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": {
                LABEL: world.run,
                "kubernetes.io/hostname": node.name,
                "topology.kubernetes.io/zone": node.zone,
            },
        },
        "spec": { "taints": [{ "key": LABEL, "value": world.run, "effect": "NoSchedule" }] },
    });
    body["status"] = node_status(node.up)["status"].take();
    body["status"]["capacity"] = capacity.clone();
    body["status"]["allocatable"] = capacity;
    body
}

/// What a kubelet says of its node now and then, or what is said of it when it is silent. Serves as a patch.
pub(super) fn node_status(up: bool) -> Value {
    let now = now();
    let (status, reason) = if up {
        ("True", "KubeletReady")
    } else {
        ("Unknown", "NodeStatusUnknown")
    };
    json!({
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": status,
                "reason": reason,
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }],
        },
    })
}

pub(super) fn service(world: &World, service: &Service) -> Value {
    let mut spec = json!({ "ports": service_ports(service), "selector": service_selector(world, service) });
    if service.headless {
        spec["clusterIP"] = json!("None");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service.name,
            "namespace": world.namespaces[service.namespace],
            "labels": service_labels(world, service),
        },
        "spec": spec,
    })
}

/// The Service's labels; the patch of a label edit, too.
pub(super) fn service_labels(world: &World, service: &Service) -> Value {
    let mut labels = json!({ "app.kubernetes.io/name": service.name, LABEL: world.run });
    if service.edits > 0 {
        labels["revision"] = json!(service.edits.to_string());
    }
    labels
}

pub(super) fn service_selector(world: &World, service: &Service) -> Value {
    json!({ "app": world.groups[service.group].name })
}

/// The Service's ports; every other edit adds one.
pub(super) fn service_ports(service: &Service) -> Value {
    let mut ports = vec![json!({ "name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP" })];
    if service.edits % 2 == 1 {
        ports.push(json!({ "name": "metrics", "port": 9090, "targetPort": "metrics", "protocol": "TCP" }));
    }
    json!(ports)
}

/// The name that a pod has in its namespace.
pub(super) fn pod_name(world: &World, pod: &Pod) -> String {
    format!("{}-{:06}", world.groups[pod.group].name, pod.number)
}

/// A pod as a Deployment's, before its kubelet says anything. It is deleted at once when nobody asks for a grace,
/// because there is no kubelet to confirm it.
pub(super) fn pod(world: &World, pod: &Pod) -> Value {
    let group = &world.groups[pod.group];
    let name = pod_name(world, pod);
    let probe = |path: &str| {
        json!({ "httpGet": { "path": path, "port": "http", "scheme": "HTTP" }, "periodSeconds": 5, "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 3 })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": world.namespaces[group.namespace],
            "labels": { "app": group.name, "pod-template-hash": "5d4f8c7b9", LABEL: world.run },
            "annotations": { "example.com/config-hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c" },
        },
        "spec": {
            "nodeName": world.nodes[pod.node].name,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            // Nobody else is to evict it.
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "main",
                "image": "example.com/app:2",
                "imagePullPolicy": "IfNotPresent",
                "args": ["--listen", "0.0.0.0:8080", "--log-format", "json"],
                "env": [
                    { "name": "POD_IP", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } } },
                    { "name": "POD_NAME", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.name" } } },
                    { "name": "LOG_LEVEL", "value": "info" },
                ],
                "ports": [
                    { "name": "http", "containerPort": PORT, "protocol": "TCP" },
                    { "name": "metrics", "containerPort": 9090, "protocol": "TCP" },
                ],
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
                "livenessProbe": probe("/live"),
                "readinessProbe": probe("/ready"),
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true },
            }],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
        },
    })
}

/// The status of a pod that runs, as its kubelet reports it first. Serves as a patch.
pub(super) fn pod_status(world: &World, pod: &Pod, ready: bool) -> Value {
    let now = now();
    let ip = pod_ip(pod.number, Family::V4);
    let mut patch = pod_readiness(ready);
    let status = patch["status"]
        .as_object_mut()
        .expect("a patch of the status has one");
    let rest: Map<String, Value> = [
        ("phase", json!("Running")),
        ("hostIP", json!("172.16.0.1")),
        ("podIP", json!(ip)),
        ("podIPs", json!([{ "ip": ip }])),
        ("startTime", json!(now)),
        (
            "containerStatuses",
            json!([{
                "name": "main",
                "ready": ready,
                "started": true,
                "restartCount": 0,
                "image": "example.com/app:2",
                "imageID": format!("example.com/app@sha256:{:064x}", world.groups[pod.group].size),
                "containerID": format!("containerd://{:064x}", pod.number),
                "state": { "running": { "startedAt": now } },
            }]),
        ),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    status.extend(rest);
    patch
}

/// The conditions of a pod that runs. Serves as a patch.
pub(super) fn pod_readiness(ready: bool) -> Value {
    let now = now();
    let condition = |kind: &str, status: bool| {
        let status = if status { "True" } else { "False" };
        json!({ "type": kind, "status": status, "lastTransitionTime": now })
    };
    json!({
        "status": {
            "conditions": [
                condition("Initialized", true),
                condition("Ready", ready),
                condition("ContainersReady", ready),
                condition("PodScheduled", true),
            ],
        },
    })
}

/// The patch that brings a pod to that state.
pub(super) fn pod_patch(world: &World, pod: &Pod, state: State) -> Value {
    match (pod.state, state) {
        (State::Pending, State::Running { ready }) => pod_status(world, pod, ready),
        (_, State::Running { ready } | State::Ending { ready }) => pod_readiness(ready),
        (_, State::Pending | State::Gone) => json!({}),
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
