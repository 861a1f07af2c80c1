//! The checks every kind shares: names, labels, references; and how their findings read.

mod ip;

pub(crate) use self::ip::{address_faults, family_of, parse_ip, special_faults};

use crate::cause::Faults;
use crate::json::{list, text};
use crate::kinds::NameRule;
use serde_json::Value;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn longer(text: &str, most: usize) -> Option<String> {
    (text.len() > most).then(|| format!("must be no more than {most} bytes"))
}

fn is_edge(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if is_edge(first) && is_edge(last))
        && bytes.iter().all(|&c| is_edge(c) || c == b'-')
}

pub(crate) fn subdomain_faults(text: &str) -> Vec<String> {
    let mut faults: Vec<String> = longer(text, 253).into_iter().collect();
    if !text.split('.').all(is_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

pub(crate) fn label_faults(text: &str) -> Vec<String> {
    let mut faults: Vec<String> = longer(text, 63).into_iter().collect();
    if !is_label(text) {
        faults.push(LABEL.to_owned());
    }
    faults
}

pub(crate) fn label_1035_faults(text: &str) -> Vec<String> {
    let mut faults: Vec<String> = longer(text, 63).into_iter().collect();
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        faults.push(LABEL_1035.to_owned());
    }
    faults
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(inner)
}

/// Returns the faults of a label's or annotation's key.
pub(crate) fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(
                    subdomain_faults(prefix)
                        .into_iter()
                        .map(|f| format!("prefix part {f}")),
                );
            }
            name
        }
        Some(_) => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                NAME_PART.trim_start_matches("name part ")
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if let Some(fault) = longer(name, 63) {
        faults.push(format!("name part {fault}"));
    }
    if !is_name_part(name) {
        faults.push(NAME_PART.to_owned());
    }
    faults
}

pub(crate) fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults: Vec<String> = longer(value, 63).into_iter().collect();
    if !value.is_empty() && !is_name_part(value) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

pub(crate) fn name_faults(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain_faults(name),
        NameRule::Label => label_faults(name),
        NameRule::Label1035 => label_1035_faults(name),
    }
}

/// Checks metadata as it is at creation.
pub(crate) fn metadata(faults: &mut Faults, value: &Value, rule: NameRule) {
    let name = text(value, "/metadata/name");
    let generate = text(value, "/metadata/generateName");
    if !generate.is_empty() {
        // A prefix may end with a dash: what follows makes it a name.
        let probe = if generate.ends_with('-') {
            format!("{generate}a")
        } else {
            generate.to_owned()
        };
        faults.each("metadata.generateName", generate, name_faults(rule, &probe));
    }
    if name.is_empty() {
        faults.required("metadata.name", "name or generateName is required");
    } else {
        faults.each("metadata.name", name, name_faults(rule, name));
    }
    shared_metadata(faults, value);
}

/// Checks the metadata that may change.
fn shared_metadata(faults: &mut Faults, value: &Value) {
    if let Some(labels) = value.pointer("/metadata/labels").and_then(Value::as_object) {
        for (key, value) in labels {
            faults.each("metadata.labels", key, label_key_faults(key));
            let value = value.as_str().unwrap_or("");
            faults.each("metadata.labels", value, label_value_faults(value));
        }
    }
    if let Some(annotations) = value.pointer("/metadata/annotations").and_then(Value::as_object) {
        let mut size = 0;
        for (key, value) in annotations {
            faults.each(
                "metadata.annotations",
                key,
                label_key_faults(&key.to_ascii_lowercase()),
            );
            size += key.len() + value.as_str().map_or(0, str::len);
        }
        if size > 256 * 1024 {
            faults.too_long("metadata.annotations", 256 * 1024);
        }
    }
    owner_references(faults, value);
    for finalizer in finalizers(value) {
        faults.each("metadata.finalizers", finalizer, label_key_faults(finalizer));
        if !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            faults.invalid_text("metadata.finalizers", finalizer, why);
        }
    }
}

fn owner_references(faults: &mut Faults, value: &Value) {
    for (i, reference) in list(value, "/metadata/ownerReferences").iter().enumerate() {
        for part in ["apiVersion", "kind", "name", "uid"] {
            if text(reference, &format!("/{part}")).is_empty() {
                let field = format!("metadata.ownerReferences[{i}].{part}");
                faults.invalid_text(&field, "", "must not be empty");
            }
        }
    }
}

pub(crate) fn finalizers(value: &Value) -> Vec<&str> {
    let list = list(value, "/metadata/finalizers").iter();
    list.filter_map(Value::as_str).collect()
}

/// Checks metadata against what was stored.
pub(crate) fn metadata_update(faults: &mut Faults, new: &Value, old: &Value) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let at = |value: &Value| {
            value
                .pointer(&format!("/metadata/{field}"))
                .cloned()
                .unwrap_or_default()
        };
        faults.immutable(&format!("metadata.{field}"), &at(new), &at(old));
    }
    if old.pointer("/metadata/deletionTimestamp").is_some() {
        let before = finalizers(old);
        let added: Vec<&str> = finalizers(new)
            .into_iter()
            .filter(|f| !before.contains(f))
            .collect();
        if !added.is_empty() {
            let list: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{{}}}",
                list.join(", ")
            );
            faults.forbidden("metadata.finalizers", &why);
        }
    }
    shared_metadata(faults, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels() {
        let long = "a".repeat(64);
        for (check, good, bad) in [
            (
                subdomain_faults as fn(&str) -> Vec<String>,
                &["a.b-c.1"][..],
                &["", "A", "a_b", "-a", "a-", "a..b", ".a"][..],
            ),
            (label_faults, &["1-a"], &["a.b", &long]),
            (label_1035_faults, &["a-1"], &["1-a"]),
            (
                label_key_faults,
                &["a", "A_b.c", "example.com/x", "kubernetes.io/metadata.name"],
                &["", "/a", "a/", "a/b/c", "-a", "a b", "UPPER.com/x"],
            ),
            (label_value_faults, &["", "a"], &["a/b"]),
        ] {
            assert!(good.iter().all(|text| check(text).is_empty()), "{good:?}");
            assert!(bad.iter().all(|text| !check(text).is_empty()), "{bad:?}");
        }
    }
}
