//! Who wrote an object: `managedFields` has a manager, its operation and the time, and no fields. An apply is a merge.

use crate::json::{list, text, without_nulls};
use crate::kinds::Kind;
use crate::route::Sub;
use crate::status::{Answer, Refusal};
use serde_json::{Value, json};

/// The manager of a write, and the way it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) kind: Kind,
    pub(crate) sub: Sub,
    pub(crate) applies: bool,
    pub(crate) now: &'a str,
}

/// Whether the managers of an object are kept track of: where `all` are, or it was applied, and until they are forgotten.
pub(crate) fn is_tracked(object: &Value, all: bool) -> bool {
    let mut entries = list(object, "/metadata/managedFields").iter();
    entries.any(|entry| all || entry["operation"] == "Apply")
}

/// Whether a client asks for the managers to be forgotten, with a list of one empty entry.
pub(crate) fn asks_to_clear(object: &Value) -> bool {
    object.pointer("/metadata/managedFields") == Some(&json!([{}]))
}

/// Notes a write in an object, behind those before it.
pub(crate) fn note(writer: Writer<'_>, object: &mut Value) {
    let part = match writer.sub {
        Sub::Main => "",
        Sub::Status => "status",
        Sub::Finalize => "finalize",
        Sub::Binding => "binding",
        Sub::Scale => "scale",
    };
    let operation = if writer.applies { "Apply" } else { "Update" };
    let mut entries = list(object, "/metadata/managedFields").to_vec();
    entries.retain(|entry| {
        [
            text(entry, "/manager"),
            text(entry, "/operation"),
            text(entry, "/subresource"),
        ] != [writer.manager, operation, part]
    });
    let mut entry = json!({
        "manager": writer.manager, "operation": operation, "apiVersion": writer.kind.api_version, "time": writer.now,
        "fieldsType": "FieldsV1", "fieldsV1": {},
    });
    if !part.is_empty() {
        entry["subresource"] = part.into();
    }
    entries.push(entry);
    object["metadata"]["managedFields"] = entries.into();
}

/// Reads the configuration that a client applies, which is YAML.
pub(crate) fn configuration(body: &[u8]) -> Answer<Value> {
    let bad = |why: String| Refusal::bad_request(format!("error decoding YAML: {why}"));
    // JSON is YAML too, and read faster.
    let mut config: Value = if let Ok(config) = serde_json::from_slice(body) {
        config
    } else {
        let body = std::str::from_utf8(body).map_err(|error| bad(error.to_string()))?;
        serde_saphyr::from_str(body).map_err(|error| bad(error.to_string()))?
    };
    if !config.is_object() {
        return Err(bad("an object is wanted".to_owned()));
    }
    if text(&config, "/apiVersion").is_empty() || text(&config, "/kind").is_empty() {
        return Err(Refusal::bad_request("Object 'Kind' is missing in the patch"));
    }
    // An apply says nothing by a null.
    without_nulls(&mut config);
    if config.pointer("/metadata/managedFields").is_some() {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    Ok(config)
}
