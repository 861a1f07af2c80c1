//! Rows of nodes.

use super::cells::or;
use crate::json::{list, text};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn row(node: &Value, _now: Timestamp) -> Vec<Value> {
    let conditions = list(node, "/status/conditions");
    let ready = conditions.iter().find(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let address = |kind: &str| {
        let addresses = list(node, "/status/addresses");
        let found = addresses.iter().find(|a| text(a, "/type") == kind);
        or(found.map_or("", |a| text(a, "/address")), "<none>")
    };
    let info = |field: &str| or(text(node, &format!("/status/nodeInfo/{field}")), "<unknown>");
    let cells = [
        status,
        or(&roles.join(","), "<none>"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ];
    cells.into_iter().map(Value::from).collect()
}
