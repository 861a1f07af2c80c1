//! What the spec of a Service says.

use crate::object::text;
use serde_json::Value;

/// The texts of a list in the spec.
pub(super) fn texts(service: &Value, field: &str) -> Vec<String> {
    let list = service
        .get("spec")
        .and_then(|s| s.get(field))
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

pub(super) fn service_type(service: &Value) -> &str {
    text(service, "/spec/type")
}

pub(super) fn needs_cluster_ip(service: &Value) -> bool {
    service_type(service) != "ExternalName"
}

pub(super) fn needs_node_ports(service: &Value) -> bool {
    match service_type(service) {
        "NodePort" => true,
        "LoadBalancer" => {
            service
                .pointer("/spec/allocateLoadBalancerNodePorts")
                .and_then(Value::as_bool)
                != Some(false)
        }
        _ => false,
    }
}
