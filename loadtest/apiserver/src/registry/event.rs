//! Events, in both of their groups.

use crate::cause::Faults;
use crate::json::{fill, text};
use serde_json::{Value, json};

/// Fields of a core Event that are always written.
pub(crate) fn default(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    for name in ["involvedObject", "source"] {
        fill(fields, &[(name, json!({}))]);
    }
    for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        fill(fields, &[(name, Value::Null)]);
    }
    for name in ["reportingComponent", "reportingInstance"] {
        fill(fields, &[(name, "".into())]);
    }
}

pub(crate) fn check_core(faults: &mut Faults, value: &Value, _old: Option<&Value>) {
    check_namespace(faults, value, "/involvedObject/namespace");
}

pub(crate) fn check_new(faults: &mut Faults, value: &Value, _old: Option<&Value>) {
    check_namespace(faults, value, "/regarding/namespace");
    for field in [
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
        "eventTime",
    ] {
        if text(value, &format!("/{field}")).is_empty() {
            faults.required(field, "");
        }
    }
    if !matches!(text(value, "/type"), "Normal" | "Warning") {
        faults.invalid_text("type", text(value, "/type"), "has invalid value: ");
    }
}

/// An event lies in the namespace of what it is about, or in one of two for what has none.
fn check_namespace(faults: &mut Faults, value: &Value, about: &str) {
    let (own, referred) = (text(value, "/metadata/namespace"), text(value, about));
    let fits = match referred {
        "" => matches!(own, "default" | "kube-system"),
        referred => referred == own,
    };
    if !fits {
        faults.invalid_text(
            "involvedObject.namespace",
            referred,
            "does not match event.namespace",
        );
    }
}
