//! Events, in both of their groups.

use crate::kinds::Kind;
use crate::object::text;
use crate::validate::Faults;
use serde_json::{Map, Value};

/// Fields of a core Event that are always written.
pub(crate) fn default(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    for name in ["involvedObject", "source"] {
        fields.entry(name).or_insert_with(|| Map::new().into());
    }
    for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        fields.entry(name).or_insert(Value::Null);
    }
    for name in ["reportingComponent", "reportingInstance"] {
        fields.entry(name).or_insert_with(|| "".into());
    }
}

pub(crate) fn check(faults: &mut Faults, kind: Kind, value: &Value) {
    let about = if kind == Kind::Event {
        "involvedObject"
    } else {
        "regarding"
    };
    let namespace = text(value, "/metadata/namespace");
    let referred = text(value, &format!("/{about}/namespace"));
    if referred.is_empty() {
        if !matches!(namespace, "default" | "kube-system") {
            faults.invalid_text(
                "involvedObject.namespace",
                referred,
                "does not match event.namespace",
            );
        }
    } else if referred != namespace {
        faults.invalid_text(
            "involvedObject.namespace",
            referred,
            "does not match event.namespace",
        );
    }
    if kind == Kind::NewEvent {
        for (field, pointer) in [
            ("reportingController", "/reportingController"),
            ("reportingInstance", "/reportingInstance"),
            ("action", "/action"),
            ("reason", "/reason"),
        ] {
            if text(value, pointer).is_empty() {
                faults.required(field, "");
            }
        }
        if text(value, "/eventTime").is_empty() {
            faults.required("eventTime", "");
        }
        if !matches!(text(value, "/type"), "Normal" | "Warning") {
            faults.invalid_text("type", text(value, "/type"), "has invalid value: ");
        }
    }
}
