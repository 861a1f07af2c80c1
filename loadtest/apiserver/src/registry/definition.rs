//! `CustomResourceDefinition`s.

use crate::cause::Faults;
use crate::custom::CLEANUP;
use crate::json::{fill, list, object_at, text, texts};
use crate::kinds::GROUPS;
use crate::object::next_generation;
use crate::validate::{label_1035_faults, label_faults, subdomain_faults};
use serde_json::{Value, json};

pub(crate) fn default(value: &mut Value) {
    let kind = text(value, "/spec/names/kind").to_owned();
    if let Some(names) = value.pointer_mut("/spec/names").and_then(Value::as_object_mut)
        && !kind.is_empty()
    {
        let list = format!("{kind}List");
        fill(
            names,
            &[
                ("singular", kind.to_lowercase().into()),
                ("listKind", list.into()),
            ],
        );
    }
    fill(
        object_at(value, "spec"),
        &[("conversion", json!({"strategy": "None"}))],
    );
}

/// The store decides on the names, and with them on the conditions (`accept_names`).
pub(crate) fn create(value: &mut Value) {
    value["metadata"]["generation"] = 1.into();
    value["status"] = json!({"storedVersions": storage(value)});
}

pub(crate) fn update(new: &mut Value, old: &Value) {
    if new["spec"] != old["spec"] {
        next_generation(new, old);
    }
    let mut stored = texts(new, "/status/storedVersions");
    for version in storage(new) {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    new["status"]["storedVersions"] = stored.into();
}

/// The versions in which objects are kept: one, once the definition is checked.
fn storage(definition: &Value) -> Vec<String> {
    let versions = list(definition, "/spec/versions").iter();
    let stored = versions.filter(|version| version["storage"] == true);
    stored.map(|version| text(version, "/name").to_owned()).collect()
}

/// Marks a definition that is deleted and whose objects are about to be.
pub(crate) fn terminate(value: &mut Value, now: &str) {
    value["metadata"]["deletionTimestamp"] = now.into();
    let mut finalizers = texts(value, "/metadata/finalizers");
    finalizers.push(CLEANUP.to_owned());
    value["metadata"]["finalizers"] = finalizers.into();
    let condition = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress", "lastTransitionTime": now,
    });
    if let Some(conditions) = value
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        conditions.push(condition);
    }
}

/// Groups that need the word of the Kubernetes project.
fn check_approval(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    const KEY: &str = "api-approved.kubernetes.io";
    let group = text(value, "/spec/group");
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        let rest = group.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let said = |value: &Value| {
        value["metadata"]["annotations"][KEY]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let now = said(value);
    if !is_protected || old.is_some_and(|old| said(old) == now) {
        return;
    }
    let field = format!("metadata.annotations[{KEY}]");
    let must = format!("protected groups must have approval annotation \"{KEY}\"");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if now.is_empty() {
        faults.required(&field, &format!("{must}, {see}"));
    } else if !(now.starts_with("unapproved") || now.starts_with("https://") || now.starts_with("http://")) {
        let with = "with either a URL or a reason starting with \"unapproved\"";
        faults.invalid_text(&field, &now, &format!("{must} {with}, {see}"));
    }
}

pub(crate) fn check(faults: &mut Faults, value: &Value, old: Option<&Value>) {
    let (group, plural) = (text(value, "/spec/group"), text(value, "/spec/names/plural"));
    let name = text(value, "/metadata/name");
    if name != format!("{plural}.{group}") {
        faults.invalid_text(
            "metadata.name",
            name,
            "must be spec.names.plural+\".\"+spec.group",
        );
    }
    if group.is_empty() {
        faults.required("spec.group", "");
    } else {
        faults.each("spec.group", group, subdomain_faults(group));
        if !group.contains('.') {
            faults.invalid_text("spec.group", group, "should be a domain with at least one dot");
        }
    }
    // All that the server has by itself is v1.
    let mut versions = list(value, "/spec/versions").iter();
    if GROUPS.contains(&group) && versions.any(|version| text(version, "/name") == "v1") {
        let why = "version v1 of the group is this server's own, which definitions cannot add to";
        faults.invalid_text("spec.group", group, why);
    }
    check_approval(faults, value, old);
    let scope = text(value, "/spec/scope");
    if !matches!(scope, "Cluster" | "Namespaced") {
        faults.not_supported("spec.scope", scope, &["Cluster", "Namespaced"]);
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let (at, name) = (
            format!("spec.names.{field}"),
            text(value, &format!("/spec/names/{field}")),
        );
        if name.is_empty() {
            faults.required(&at, "");
        } else {
            faults.each(&at, name, label_1035_faults(&name.to_lowercase()));
        }
    }
    let versions = list(value, "/spec/versions");
    for (i, version) in versions.iter().enumerate() {
        let (field, name) = (format!("spec.versions[{i}]"), text(version, "/name"));
        faults.each(&format!("{field}.name"), name, label_faults(name));
        if !version
            .pointer("/schema/openAPIV3Schema")
            .is_some_and(Value::is_object)
        {
            faults.required(&format!("{field}.schema.openAPIV3Schema"), "schemas are required");
        }
    }
    if storage(value).len() != 1 {
        let why = "must have exactly one version marked as storage version";
        faults.invalid("spec.versions", &versions.into(), why);
    }
    if let Some(old) = old {
        for (i, version) in list(value, "/status/storedVersions").iter().enumerate() {
            if !versions.iter().any(|there| there["name"] == *version) {
                let field = format!("status.storedVersions[{i}]");
                faults.invalid(&field, version, "must appear in spec.versions");
            }
        }
        for field in ["group", "scope"] {
            faults.immutable(
                &format!("spec.{field}"),
                &value["spec"][field],
                &old["spec"][field],
            );
        }
        for field in ["kind", "plural"] {
            let at = |value: &Value| value["spec"]["names"][field].clone();
            faults.immutable(&format!("spec.names.{field}"), &at(value), &at(old));
        }
    }
}
