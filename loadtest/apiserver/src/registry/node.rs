//! Nodes.

use serde_json::{Value, json};

/// The parts of a Node's status that are always written.
pub(crate) fn default(value: &mut Value) {
    if value.get("spec").is_none() {
        value["spec"] = json!({});
    }
    if !value.get("status").is_some_and(Value::is_object) {
        value["status"] = json!({});
    }
    let status = &mut value["status"];
    if let Some(capacity) = status.get("capacity").cloned()
        && status.get("allocatable").is_none()
    {
        status["allocatable"] = capacity;
    }
    if status.pointer("/daemonEndpoints/kubeletEndpoint").is_none() {
        status["daemonEndpoints"]["kubeletEndpoint"] = json!({"Port": 0});
    }
    for field in [
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ] {
        if status.pointer(&format!("/nodeInfo/{field}")).is_none() {
            status["nodeInfo"][field] = "".into();
        }
    }
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            for field in ["lastHeartbeatTime", "lastTransitionTime"] {
                condition.entry(field).or_insert(Value::Null);
            }
        }
    }
}

/// A Node's status may be set when it is created: kubelets register so.
pub(crate) fn prepare_create(_value: &mut Value) {}
