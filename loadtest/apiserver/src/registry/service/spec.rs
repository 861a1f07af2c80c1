//! Readers of a Service's spec.

use crate::json::text;
use serde_json::Value;

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
