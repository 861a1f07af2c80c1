//! From RBAC objects to tables, checked as the real server checks them.

use super::rules::{Binding, RBAC, Rule, Subject, Tables};
use crate::json::text;
use serde_json::{Value, json};

/// Why objects give no access.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The text is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// An object is not one the real server would take.
    #[error("{kind} {name:?}: {why}")]
    Object {
        /// The object's kind.
        kind: String,
        /// Its name, with its namespace if it has one.
        name: String,
        /// The fault of the object.
        why: String,
    },
}

/// The roles and bindings of every cluster that clients need.
pub(crate) fn every_cluster() -> Vec<Value> {
    let role = |name: &str, rules: Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let bind = |name: &str, groups: &[&str]| {
        let subjects: Vec<Value> = groups
            .iter()
            .map(|group| json!({"kind": "Group", "name": group}))
            .collect();
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": subjects,
        })
    };
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let mut known = vec!["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    known.extend(public);
    let review = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
    let (all, none) = ("system:authenticated", "system:unauthenticated");
    vec![
        role(
            "cluster-admin",
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]),
        ),
        bind("cluster-admin", &["system:masters"]),
        role(
            "system:discovery",
            json!([{"nonResourceURLs": known, "verbs": ["get"]}]),
        ),
        bind("system:discovery", &[all]),
        role(
            "system:public-info-viewer",
            json!([{"nonResourceURLs": public, "verbs": ["get"]}]),
        ),
        bind("system:public-info-viewer", &[all, none]),
        role(
            "system:basic-user",
            json!([review("authorization.k8s.io", "selfsubjectaccessreviews")]),
        ),
        bind("system:basic-user", &[all]),
        role(
            "system:auth-delegator",
            json!([
                review("authentication.k8s.io", "tokenreviews"),
                review("authorization.k8s.io", "subjectaccessreviews"),
            ]),
        ),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
            "metadata": {"name": "extension-apiserver-authentication-reader", "namespace": "kube-system"},
            "rules": [{
                "apiGroups": [""], "resources": ["configmaps"],
                "resourceNames": ["extension-apiserver-authentication"], "verbs": ["get", "list", "watch"],
            }],
        }),
    ]
}

/// Adds what an object gives; one of the same name is replaced, as by an update.
pub(crate) fn add(tables: &mut Tables, mut object: Value) -> Result<(), AccessError> {
    if !object.is_object() {
        return Err(AccessError::Object {
            kind: "object".to_owned(),
            name: String::new(),
            why: format!("not an object: {object}"),
        });
    }
    without_nulls(&mut object);
    let kind = text(&object, "/kind").to_owned();
    if kind.ends_with("List") {
        let items = object.get_mut("items").map(Value::take);
        // Items of a typed list need not say what they are.
        let (version, item_kind) = (object["apiVersion"].clone(), kind.trim_end_matches("List"));
        for mut item in items
            .as_ref()
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
        {
            if !item_kind.is_empty() && item.is_object() && item.get("kind").is_none() {
                item["kind"] = item_kind.into();
                item["apiVersion"] = version.clone();
            }
            add(tables, item)?;
        }
        return Ok(());
    }
    let roles = matches!(kind.as_str(), "Role" | "ClusterRole");
    let bindings = matches!(kind.as_str(), "RoleBinding" | "ClusterRoleBinding");
    let version = text(&object, "/apiVersion");
    if !(roles || bindings) || version.split('/').next() != Some(RBAC) {
        return Ok(());
    }
    let name = text(&object, "/metadata/name").to_owned();
    let mut namespace = text(&object, "/metadata/namespace").to_owned();
    let wrong = |why: String| {
        let name = if namespace.is_empty() {
            name.clone()
        } else {
            format!("{namespace}/{name}")
        };
        let kind = kind.clone();
        AccessError::Object { kind, name, why }
    };
    if version != format!("{RBAC}/v1") {
        return Err(wrong(format!("only {RBAC}/v1 is known, not {version}")));
    }
    if name.is_empty() {
        return Err(wrong("metadata.name: Required value".to_owned()));
    }
    let cluster = kind.starts_with("Cluster");
    if !cluster && namespace.is_empty() {
        return Err(wrong("metadata.namespace: Required value".to_owned()));
    }
    if roles {
        if object.get("aggregationRule").is_some() {
            return Err(wrong(
                "aggregationRule: roles are not gathered here; give the rules themselves".to_owned(),
            ));
        }
        let rules = object.get_mut("rules").map_or_else(|| json!([]), Value::take);
        let rules: Vec<Rule> =
            serde_json::from_value(rules).map_err(|error| wrong(format!("rules: {error}")))?;
        for (i, rule) in rules.iter().enumerate() {
            check_rule(rule, cluster).map_err(|why| wrong(format!("rules[{i}]{why}")))?;
        }
        if cluster {
            namespace.clear();
        }
        tables.roles.insert((namespace, name), rules);
        return Ok(());
    }
    let binding: Binding = serde_json::from_value(object).map_err(|error| wrong(error.to_string()))?;
    check_binding(&binding, cluster).map_err(wrong)?;
    if cluster {
        namespace.clear();
    }
    tables.bindings.insert((namespace, name), binding);
    Ok(())
}

/// Go's decoder does not tell null from absent.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

fn check_rule(rule: &Rule, cluster: bool) -> Result<(), String> {
    let fault = |why: &str| Err(why.to_owned());
    if rule.verbs.is_empty() {
        return fault(".verbs: Required value: verbs must contain at least one value");
    }
    if !rule.non_resource_urls.is_empty() {
        if !cluster {
            return fault(
                ".nonResourceURLs: Invalid value: namespaced rules cannot apply to non-resource URLs",
            );
        }
        if !(rule.api_groups.is_empty() && rule.resources.is_empty() && rule.resource_names.is_empty()) {
            return fault(
                ".nonResourceURLs: Invalid value: rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return Ok(());
    }
    if rule.api_groups.is_empty() {
        return fault(".apiGroups: Required value: resource rules must supply at least one api group");
    }
    if rule.resources.is_empty() {
        return fault(".resources: Required value: resource rules must supply at least one resource");
    }
    Ok(())
}

fn check_binding(binding: &Binding, cluster: bool) -> Result<(), String> {
    let role = &binding.role_ref;
    if !matches!(role.api_group.as_str(), "" | RBAC) {
        return Err(format!(
            "roleRef.apiGroup: Unsupported value: \"{}\": supported values: \"{RBAC}\"",
            role.api_group
        ));
    }
    let kinds: &[&str] = if cluster {
        &["ClusterRole"]
    } else {
        &["Role", "ClusterRole"]
    };
    if !kinds.contains(&role.kind.as_str()) {
        return Err(format!(
            "roleRef.kind: Unsupported value: \"{}\": supported values: {}",
            role.kind,
            kinds
                .iter()
                .map(|kind| format!("\"{kind}\""))
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    if role.name.is_empty() {
        return Err("roleRef.name: Required value".to_owned());
    }
    binding.subjects.iter().enumerate().try_for_each(|(i, subject)| {
        check_subject(subject, cluster).map_err(|why| format!("subjects[{i}]{why}"))
    })
}

fn check_subject(subject: &Subject, cluster: bool) -> Result<(), String> {
    if subject.name.is_empty() {
        return Err(".name: Required value".to_owned());
    }
    let group = match subject.kind.as_str() {
        "ServiceAccount" => {
            if cluster && subject.namespace.is_empty() {
                return Err(".namespace: Required value".to_owned());
            }
            ""
        }
        "User" | "Group" => RBAC,
        kind => {
            return Err(format!(
                ".kind: Unsupported value: \"{kind}\": supported values: \"Group\", \"ServiceAccount\", \"User\""
            ));
        }
    };
    if !subject.api_group.is_empty() && subject.api_group != group {
        return Err(format!(
            ".apiGroup: Unsupported value: \"{}\": supported values: \"{group}\"",
            subject.api_group
        ));
    }
    Ok(())
}
