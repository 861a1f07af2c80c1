//! Nodes, pods and Services, as JSON.

use serde_json::{Value, json};

pub(crate) fn ip(i: usize) -> String {
    format!("10.1.{}.{}", i / 250, i % 250 + 1)
}

/// A second of 2026, as the API writes it.
pub(crate) fn time(second: u32) -> String {
    format!("2026-02-01T00:{:02}:{:02}Z", second / 60, second % 60)
}

pub(crate) fn ready_condition(ready: bool, second: u32) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": time(second)})
}

pub(crate) fn node(name: &str, zone: Option<&str>, cpu: Option<&str>) -> Value {
    let labels = zone.map_or(json!({}), |zone| json!({"topology.kubernetes.io/zone": zone}));
    let mut allocatable = json!({"memory": "8Gi", "pods": "110"});
    if let Some(cpu) = cpu {
        allocatable["cpu"] = json!(cpu);
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A ready pod that Service `s` selects.
pub(crate) fn pod(name: &str, ip: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "example.com/app:1",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
        "status": {"phase": "Running", "conditions": [ready_condition(true, 0)], "podIP": ip,
            "podIPs": [{"ip": ip}]}})
}

/// A pod with an address of each family.
pub(crate) fn dual_pod(name: &str, v4: &str, v6: &str, node: &str) -> Value {
    let mut pod = pod(name, v4, node);
    pod["status"]["podIPs"] = json!([{"ip": v4}, {"ip": v6}]);
    pod
}

/// Service `s`.
pub(crate) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"app": "a"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
}

/// Service `s` with something laid over it.
pub(crate) fn service_with(over: &Value) -> Value {
    let mut service = service();
    merge(&mut service, over);
    service
}

fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (key, value) in over {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over.clone(),
    }
}
