//! Events.

use crate::cause::Faults;
use crate::json::{fill, text};
use serde_json::{Value, json};

/// Fields that are always written.
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

/// An Event lies in the namespace of its object, or in one of two where the object has none.
pub(crate) fn check(faults: &mut Faults, value: &Value, _old: Option<&Value>) {
    let own = text(value, "/metadata/namespace");
    let referred = text(value, "/involvedObject/namespace");
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
