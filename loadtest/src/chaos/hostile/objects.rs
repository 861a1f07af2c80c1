//! The bodies of objects that are made here.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

/// Where all pods run, but for those of the attack on nodes.
pub(super) const NODE: &str = "node";

pub(super) fn namespace(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

pub(super) fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "zone-0" } } })
}

/// A Service with one port.
pub(super) fn service(name: &str, labels: &Value, selector: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "selector": selector, "ports": [{ "port": 80 }] },
    })
}

/// A pod on a node, which has no status yet.
pub(super) fn pod(name: &str, node: &str, labels: &Value, container: &Value) -> Value {
    let mut container = container.clone();
    container["name"] = json!("c");
    container["image"] = json!("i");
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "nodeName": node, "containers": [container] },
    })
}

/// A pod's status, as a patch. `at` is a number that grows.
pub(super) fn status(ip: IpAddr, ready: bool, at: u64) -> Value {
    let status = if ready { "True" } else { "False" };
    let time = jiff::Timestamp::from_second(1_767_225_600 + at.cast_signed()).unwrap_or_default();
    json!({ "status": {
        "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
        "conditions": [{ "type": "Ready", "status": status, "lastTransitionTime": time.to_string() }],
    } })
}

/// Labels with these keys.
pub(super) fn labels(keys: impl IntoIterator<Item = String>) -> Value {
    Value::Object(
        keys.into_iter()
            .map(|key| (key, json!("x")))
            .collect::<Map<_, _>>(),
    )
}
