//! Secrets. Values that are given as text are kept in the form of data.

use super::configmap::{check_entries, check_immutable};
use crate::cause::Faults;
use crate::json::{object_at, text};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

pub(crate) fn default(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    fields.entry("type").or_insert_with(|| "Opaque".into());
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    let data = object_at(value, "data");
    for (key, text) in texts {
        data.insert(key, BASE64_STANDARD.encode(text.as_str().unwrap_or("")).into());
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    check_entries(faults, value, &["data"]);
    for key in required(text(value, "/type")) {
        if value["data"].get(key).is_none() {
            faults.required(&format!("data[{key}]"), "");
        }
    }
    if let Some(old) = old {
        faults.immutable("type", &value["type"], &old["type"]);
        check_immutable(faults, value, old, &["data"]);
    }
}

/// The entries that Secrets of a type must have.
fn required(named: &str) -> &'static [&'static str] {
    match named {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    }
}
