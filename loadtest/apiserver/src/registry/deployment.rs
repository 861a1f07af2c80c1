//! Deployments. They are kept; no controller acts on them, and nothing but the number of replicas is filled in.

use crate::json::{fill, object_at};
use crate::object::next_generation;
use serde_json::{Value, json};

pub(crate) fn default(value: &mut Value) {
    object_at(value, "status");
    fill(object_at(value, "spec"), &[("replicas", 1.into())]);
}

pub(crate) fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    value["status"] = json!({});
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    if new["spec"] != old["spec"] {
        next_generation(new, old);
    }
}
