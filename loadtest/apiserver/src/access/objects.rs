//! From RBAC objects to tables.

use super::rules::{Binding, RBAC, Rule, Tables};
use crate::json::text;
use serde_json::{Value, json};

/// Why objects give no access.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The text is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// An object has not the fields of its kind.
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
    let namespace = match kind.strip_prefix("Cluster") {
        Some(_) => String::new(),
        None => text(&object, "/metadata/namespace").to_owned(),
    };
    let wrong = |why: String| {
        let name = if namespace.is_empty() {
            name.clone()
        } else {
            format!("{namespace}/{name}")
        };
        let kind = kind.clone();
        AccessError::Object { kind, name, why }
    };
    if roles {
        let rules = object.get_mut("rules").map_or_else(|| json!([]), Value::take);
        let rules: Vec<Rule> =
            serde_json::from_value(rules).map_err(|error| wrong(format!("rules: {error}")))?;
        tables.roles.insert((namespace, name), rules);
        return Ok(());
    }
    let binding: Binding = serde_json::from_value(object).map_err(|error| wrong(error.to_string()))?;
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
