//! The bodies of objects that are made here.

use crate::objects::{self, ZONE_LABEL, object};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// Where all pods run, but for those of the attack on nodes.
pub(super) const NODE: &str = "node";

pub(super) fn namespace(name: &str) -> Value {
    object("Namespace", name, json!({}))
}

pub(super) fn node(name: &str) -> Value {
    object("Node", name, json!({ ZONE_LABEL: "zone-0" }))
}

/// A Service with one port.
pub(super) fn service(name: &str, labels: &Value, selector: &Value) -> Value {
    let mut service = object("Service", name, labels.clone());
    service["spec"] = json!({ "selector": selector, "ports": [{ "port": 80 }] });
    service
}

/// A pod on a node, which has no status yet.
pub(super) fn pod(name: &str, node: &str, labels: &Value, container: &Value) -> Value {
    let mut container = container.clone();
    container["name"] = json!("c");
    container["image"] = json!("i");
    let mut pod = object("Pod", name, labels.clone());
    pod["spec"] = json!({ "nodeName": node, "containers": [container] });
    pod
}

/// A pod's status, as a patch. `at` is a number that grows.
pub(super) fn status(ip: IpAddr, ready: bool, at: u64) -> Value {
    let time = jiff::Timestamp::from_second(1_767_225_600 + at.cast_signed()).unwrap_or_default();
    objects::pod_status("Running", &[ip], ready, &objects::seconds(time))
}

/// Labels with these keys.
pub(super) fn labels(keys: impl IntoIterator<Item = String>) -> Value {
    Value::Object(
        keys.into_iter()
            .map(|key| (key, json!("x")))
            .collect::<Map<_, _>>(),
    )
}
