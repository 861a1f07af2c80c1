//! Namespaces.

use crate::json::{object_at, text};
use serde_json::{Value, json};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) fn default(value: &mut Value) {
    let name = text(value, "/metadata/name").to_owned();
    if !name.is_empty() {
        value["metadata"]["labels"][NAME_LABEL] = name.into();
    }
    object_at(value, "spec");
    if text(value, "/status/phase").is_empty() {
        value["status"]["phase"] = "Active".into();
    }
}

pub(crate) fn create(value: &mut Value) {
    default(value);
    value["status"] = json!({"phase": "Active"});
    let finalizers = object_at(value, "spec").entry("finalizers");
    if let Value::Array(list) = finalizers.or_insert_with(|| json!([]))
        && !list.iter().any(|f| f == "kubernetes")
    {
        list.push("kubernetes".into());
    }
}

/// The finalizers in the spec are changed through `/finalize` alone.
pub(crate) fn update(new: &mut Value, old: &Value) {
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    match old.pointer("/spec/finalizers") {
        Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers.clone()),
        None => spec.remove("finalizers"),
    };
}
