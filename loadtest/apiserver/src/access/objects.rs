//! From RBAC objects to tables.

use super::rules::{Binding, Rule, Tables};
use crate::json::{text, without_nulls};
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
pub(crate) const EVERY_CLUSTER: &str = r#"
{kind: ClusterRole, metadata: {name: system:discovery}, rules: [{verbs: [get], nonResourceURLs: [
  /api, /api/*, /apis, /apis/*, /openapi, /openapi/*, /healthz, /livez, /readyz, /version, /version/]}]}
---
{kind: ClusterRoleBinding, metadata: {name: system:discovery}, roleRef: {kind: ClusterRole, name: system:discovery},
  subjects: [{kind: Group, name: system:authenticated}]}
---
{kind: ClusterRole, metadata: {name: system:public-info-viewer},
  rules: [{verbs: [get], nonResourceURLs: [/healthz, /livez, /readyz, /version, /version/]}]}
---
{kind: ClusterRoleBinding, metadata: {name: system:public-info-viewer},
  roleRef: {kind: ClusterRole, name: system:public-info-viewer},
  subjects: [{kind: Group, name: system:authenticated}, {kind: Group, name: system:unauthenticated}]}
---
{kind: ClusterRole, metadata: {name: system:basic-user},
  rules: [{verbs: [create], apiGroups: [authorization.k8s.io], resources: [selfsubjectaccessreviews]}]}
---
{kind: ClusterRoleBinding, metadata: {name: system:basic-user}, roleRef: {kind: ClusterRole, name: system:basic-user},
  subjects: [{kind: Group, name: system:authenticated}]}
---
{kind: ClusterRole, metadata: {name: system:auth-delegator}, rules: [
  {verbs: [create], apiGroups: [authentication.k8s.io], resources: [tokenreviews]},
  {verbs: [create], apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews]}]}
---
{kind: Role, metadata: {name: extension-apiserver-authentication-reader, namespace: kube-system}, rules: [
  {verbs: [get, list, watch], apiGroups: [""], resources: [configmaps],
    resourceNames: [extension-apiserver-authentication]}]}
"#;

/// Adds what an object gives; one of the same name is replaced, as by an update.
pub(crate) fn add(tables: &mut Tables, mut object: Value) -> Result<(), AccessError> {
    without_nulls(&mut object);
    let kind = text(&object, "/kind").to_owned();
    if kind.ends_with("List") {
        let items = object.get_mut("items").map(Value::take);
        // Items of a typed list need not say of which kind they are.
        let item_kind = kind.trim_end_matches("List");
        for mut item in items
            .as_ref()
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
        {
            if !item_kind.is_empty() && item.is_object() && item.get("kind").is_none() {
                item["kind"] = item_kind.into();
            }
            add(tables, item)?;
        }
        return Ok(());
    }
    let name = text(&object, "/metadata/name").to_owned();
    let namespace = match kind.strip_prefix("Cluster") {
        Some(_) => String::new(),
        None => text(&object, "/metadata/namespace").to_owned(),
    };
    let wrong = |error: serde_json::Error| AccessError::Object {
        kind: kind.clone(),
        name: format!("{namespace}/{name}").trim_start_matches('/').to_owned(),
        why: error.to_string(),
    };
    match kind.as_str() {
        "Role" | "ClusterRole" => {
            let rules = object.get_mut("rules").map_or_else(|| json!([]), Value::take);
            let rules: Vec<Rule> = serde_json::from_value(rules).map_err(wrong)?;
            tables.roles.insert((namespace, name), rules);
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            let binding: Binding = serde_json::from_value(object).map_err(wrong)?;
            tables.bindings.insert((namespace, name), binding);
        }
        _ => {}
    }
    Ok(())
}
