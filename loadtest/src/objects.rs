//! What the objects that are made here have in common, as the API server gets them.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// An object of the core group with nothing but a name and labels.
pub(crate) fn object(kind: &str, name: &str, labels: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "labels": labels } })
}

/// An object in a namespace, with a spec.
pub(crate) fn namespaced(kind: &str, namespace: &str, name: &str, labels: Value, spec: Value) -> Value {
    let mut object = object(kind, name, labels);
    object["metadata"]["namespace"] = json!(namespace);
    object["spec"] = spec;
    object
}

/// A condition of a pod or a node.
pub(crate) fn condition(kind: &str, status: bool, since: &str) -> Value {
    let status = if status { "True" } else { "False" };
    json!({ "type": kind, "status": status, "lastTransitionTime": since })
}

/// The part of a pod's status that endpoints depend on, as a patch. Without an address, it takes the addresses away.
pub(crate) fn pod_status(phase: &str, ips: &[IpAddr], ready: bool, since: &str) -> Value {
    let all: Value = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!({ "status": {
        "phase": phase,
        "podIP": ips.first(),
        "podIPs": if ips.is_empty() { Value::Null } else { all },
        "conditions": [condition("Ready", ready, since)],
    } })
}

/// A time as objects have it, to the second.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
