//! Builders of objects, as the API server gets them, for all that makes a cluster here.

use crate::oracle::Family;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::IpAddr;

/// The families of a pod or a Service, the first one first.
pub(crate) type Families = &'static [Family];

pub(crate) const V4: Families = &[Family::V4];
pub(crate) const V6: Families = &[Family::V6];
pub(crate) const V4_V6: Families = &[Family::V4, Family::V6];
pub(crate) const V6_V4: Families = &[Family::V6, Family::V4];

pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// An object of the core group with nothing but a name and labels.
pub(crate) fn object(kind: &str, name: &str, labels: Value) -> Value {
    let version = if kind == "Lease" {
        "coordination.k8s.io/v1"
    } else {
        "v1"
    };
    let mut object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } });
    object["metadata"]["labels"] = labels;
    object
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

/// Families as Services list them.
pub(crate) fn names(families: Families) -> Value {
    families.iter().map(ToString::to_string).collect()
}
