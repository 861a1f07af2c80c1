//! `ConfigMap`s, and what Secrets have in common with them.

use crate::cause::Faults;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The most bytes that the entries of an object may have together.
const MOST: usize = 1024 * 1024;
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    check_entries(faults, value, &["data", "binaryData"]);
    if let Some(old) = old {
        check_immutable(faults, value, old, &["data", "binaryData"]);
    }
}

/// Checks the keys and the size of an object's maps; no key may stand in two of them.
pub(super) fn check_entries(faults: &mut Faults, value: &Value, fields: &[&str]) {
    let (mut seen, mut size) = (HashSet::new(), 0);
    for field in fields {
        for (key, entry) in value.get(field).and_then(Value::as_object).into_iter().flatten() {
            let field = format!("{field}[{key}]");
            faults.each(&field, key, key_faults(key));
            if !seen.insert(key) {
                faults.invalid_text(&field, key, "duplicate of key present in data");
            }
            size += entry.as_str().map_or(0, str::len);
        }
    }
    if size > MOST {
        faults.too_long("", MOST);
    }
}

/// Checks that an object that was made immutable stays so, and that its fields stay as they are.
pub(super) fn check_immutable(faults: &mut Faults, new: &Value, old: &Value, fields: &[&str]) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    if new.get("immutable") != Some(&Value::Bool(true)) {
        faults.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    let nothing = Value::Object(Map::new());
    let at = |value: &Value, field: &str| value.get(field).unwrap_or(&nothing).clone();
    for field in fields.iter().filter(|field| at(new, field) != at(old, field)) {
        faults.forbidden(field, "field is immutable when `immutable` is set");
    }
}

fn key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(is_sign) {
        faults.push(KEY.to_owned());
    } else if key == "." || key.starts_with("..") {
        let what = if matches!(key, "." | "..") {
            "be"
        } else {
            "start with"
        };
        faults.push(format!(
            "must not {what} '{}'",
            if key == "." { "." } else { ".." }
        ));
    }
    faults
}
