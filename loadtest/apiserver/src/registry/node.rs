//! Nodes. Their status may be set when they are created: kubelets register so.

use crate::json::{fill, object_at, objects_mut};
use serde_json::{Value, json};

/// The parts of a Node's status that are always written.
pub(crate) fn default(value: &mut Value) {
    object_at(value, "spec");
    object_at(value, "status");
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
    for condition in objects_mut(status, "/conditions") {
        fill(
            condition,
            &[
                ("lastHeartbeatTime", Value::Null),
                ("lastTransitionTime", Value::Null),
            ],
        );
    }
}
