//! Event objects as the API server wants them, in JSON.

use super::{Entry, Key};
use serde_json::json;

/// Returns the object to create, an Event of the core group.
pub(super) fn create(key: &Key, entry: &Entry) -> Vec<u8> {
    let object = &key.object;
    let mut involved = json!({
        "apiVersion": "v1",
        "kind": object.kind.as_str(),
        "namespace": &*object.namespace,
        "name": &*object.name,
    });
    if !object.uid.is_none() {
        involved["uid"] = object.uid.to_string().into();
    }
    if let Some(version) = entry.version {
        involved["resourceVersion"] = version.to_string().into();
    }
    let component = object.source.component();
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": &*entry.name, "namespace": &*object.namespace},
        "involvedObject": involved,
        "type": if key.warning { "Warning" } else { "Normal" },
        "reason": key.reason,
        "message": entry.message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": entry.first.whole_seconds().to_string(),
        "lastTimestamp": entry.last.whole_seconds().to_string(),
        "count": entry.count,
    });
    event.to_string().into_bytes()
}

/// Returns a merge patch with the fields that change when the Event repeats.
pub(super) fn patch(entry: &Entry) -> Vec<u8> {
    let patch = json!({
        "count": entry.count,
        "lastTimestamp": entry.last.whole_seconds().to_string(),
        "message": entry.message,
    });
    patch.to_string().into_bytes()
}
