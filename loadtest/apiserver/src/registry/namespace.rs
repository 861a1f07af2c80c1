//! Namespaces.

use crate::object::text;
use serde_json::{Value, json};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) fn default(value: &mut Value) {
    let name = text(value, "/metadata/name").to_owned();
    if !name.is_empty() {
        value["metadata"]["labels"][NAME_LABEL] = name.into();
    }
    if value.get("spec").is_none() {
        value["spec"] = json!({});
    }
    if text(value, "/status/phase").is_empty() {
        value["status"]["phase"] = "Active".into();
    }
}

pub(crate) fn prepare_create(value: &mut Value) {
    default(value);
    value["status"] = json!({"phase": "Active"});
    let finalizers = value["spec"]
        .as_object_mut()
        .map(|s| s.entry("finalizers").or_insert_with(|| json!([])));
    if let Some(Value::Array(list)) = finalizers
        && !list.iter().any(|f| f == "kubernetes")
    {
        list.push("kubernetes".into());
    }
}
