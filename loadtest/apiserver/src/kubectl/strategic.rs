//! Strategic merge patches: lists are merged by the keys of their items, and directives say what a merge cannot.

use crate::kinds::Kind;
use crate::status::{Answer, Refusal};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";

/// The field that tells the items of a list apart, and by which the list is merged; all other lists are replaced.
fn key_of(kind: Kind, list: &str) -> Option<&'static str> {
    match (kind.kind, list) {
        ("EndpointSlice" | "Endpoints", _) if list != "ownerReferences" => None,
        ("Service", "ports") => Some("port"),
        (_, "ports") => Some("containerPort"),
        (_, "conditions" | "addresses") => Some("type"),
        (
            _,
            "containers" | "initContainers" | "ephemeralContainers" | "env" | "volumes" | "imagePullSecrets",
        ) => Some("name"),
        (_, "volumeMounts") => Some("mountPath"),
        (_, "ownerReferences") => Some("uid"),
        (_, "podIPs" | "hostIPs" | "hostAliases") => Some("ip"),
        _ => None,
    }
}

fn malformed(what: &str) -> Box<Refusal> {
    Refusal::bad_request(format!("invalid patch format of {what}"))
}

/// Merges a patch into an object.
pub(crate) fn merge(kind: Kind, into: &mut Value, patch: Value) -> Answer<()> {
    field(kind, "", into, patch)
}

fn field(kind: Kind, name: &str, into: &mut Value, patch: Value) -> Answer<()> {
    match patch {
        Value::Object(patch) => object(kind, into, patch),
        Value::Array(patch) => list(kind, name, into, patch),
        patch => {
            *into = patch;
            Ok(())
        }
    }
}

/// Also into nothing, so that directives are heard and not stored.
fn object(kind: Kind, into: &mut Value, mut patch: Map<String, Value>) -> Answer<()> {
    let mut fields = into.as_object_mut().map(std::mem::take).unwrap_or_default();
    match patch.remove(DIRECTIVE).as_ref().map(Value::as_str) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            fields.clear();
            patch.retain(|_, value| !value.is_null());
        }
        Some(Some("delete")) => {
            fields.clear();
            patch.clear();
        }
        Some(other) => {
            return Err(Refusal::bad_request(format!(
                "unknown patch type found: {other:?}"
            )));
        }
    }
    if let Some(retained) = patch.remove("$retainKeys") {
        let retained = retained.as_array().ok_or_else(|| malformed("$retainKeys"))?;
        fields.retain(|name, _| retained.iter().any(|one| one == name));
    }
    let mut orders = Vec::new();
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$setElementOrder/") {
            orders.push((list.to_owned(), value));
        } else if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().ok_or_else(|| malformed(&name))?;
            if let Some(items) = fields.get_mut(list).and_then(Value::as_array_mut) {
                items.retain(|item| !gone.contains(item));
            }
        } else if value.is_null() {
            fields.remove(&name);
        } else {
            field(
                kind,
                &name,
                fields.entry(name.clone()).or_insert(Value::Null),
                value,
            )?;
        }
    }
    for (list, order) in orders {
        if let (Some(items), Some(order)) = (
            fields.get_mut(&list).and_then(Value::as_array_mut),
            order.as_array(),
        ) {
            let id = |item: &Value| key_of(kind, &list).map_or_else(|| item.clone(), |key| item[key].clone());
            // What the order does not name comes last.
            items.sort_by_key(|item| {
                order
                    .iter()
                    .position(|one| id(one) == id(item))
                    .unwrap_or(order.len())
            });
        }
    }
    *into = fields.into();
    Ok(())
}

fn list(kind: Kind, name: &str, into: &mut Value, patch: Vec<Value>) -> Answer<()> {
    let mut items = into.as_array_mut().map(std::mem::take).unwrap_or_default();
    if let Some(key) = key_of(kind, name) {
        merge_items(kind, key, &mut items, patch)?;
    } else if name == "finalizers" {
        let fresh: Vec<Value> = patch.into_iter().filter(|item| !items.contains(item)).collect();
        items.extend(fresh);
    } else {
        items = patch;
    }
    *into = items.into();
    Ok(())
}

fn merge_items(kind: Kind, key: &str, items: &mut Vec<Value>, mut patch: Vec<Value>) -> Answer<()> {
    let count = patch.len();
    patch.retain(|item| item[DIRECTIVE] != "replace" || !item[key].is_null());
    if patch.len() < count {
        items.clear();
    }
    for patch in patch {
        let id = &patch[key];
        if id.is_null() {
            let why = format!("map: {patch} does not contain declared merge key: {key}");
            return Err(Refusal::internal(&why));
        }
        // A number may be that of two ports.
        let protocol = &patch["protocol"];
        let is_it = |item: &Value| item[key] == *id && (protocol.is_null() || item["protocol"] == *protocol);
        let at = items.iter().position(is_it);
        match at {
            _ if patch[DIRECTIVE] == "delete" => items.retain(|item| !is_it(item)),
            Some(at) => field(kind, "", &mut items[at], patch)?,
            None => {
                let mut fresh = Value::Null;
                field(kind, "", &mut fresh, patch)?;
                items.push(fresh);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::kind;
    use serde_json::json;

    fn patched(kind: Kind, mut into: Value, with: Value) -> Value {
        merge(kind, &mut into, with).unwrap();
        into
    }

    #[test]
    fn lists_are_merged_by_key() {
        let there = json!({"spec": {"containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "s"}, {"name": "b"},
        ]}});
        let with = json!({"spec": {
            "containers": [
                {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}]},
                {"name": "b", "$patch": "delete"},
                {"name": "c", "ports": [{"containerPort": 80, "$patch": "merge"}]},
            ],
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        }});
        let want = json!({"spec": {"containers": [
            {"name": "c", "ports": [{"containerPort": 80}]},
            {"name": "a", "image": "a:2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "s"},
        ]}});
        assert_eq!(patched(kind("Pod"), there.clone(), with), want);
        let with = json!({"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}});
        let want = json!({"spec": {"containers": [{"name": "z"}]}});
        assert_eq!(patched(kind("Pod"), there, with), want);
    }

    #[test]
    fn other_lists_are_replaced_and_finalizers_are_a_set() {
        let slice = json!({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80, "name": "a"}]});
        let with = json!({"endpoints": [{"addresses": ["10.0.0.3"]}], "ports": [{"port": 80}]});
        assert_eq!(patched(kind("EndpointSlice"), slice, with.clone()), with);
        let there = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
        let with =
            json!({"metadata": {"finalizers": ["d", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}});
        let want = json!({"metadata": {"finalizers": ["a", "c", "d"]}});
        assert_eq!(patched(kind("Service"), there, with), want);
    }

    #[test]
    fn directives_and_nulls() {
        let there = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}});
        let with =
            json!({"metadata": {"labels": {"b": null, "c": "3"}, "annotations": {"$patch": "delete"}}});
        let want = json!({"metadata": {"labels": {"a": "1", "c": "3"}, "annotations": {}}});
        assert_eq!(patched(kind("Node"), there.clone(), with), want);
        let with = json!({"metadata": {"labels": {"$patch": "replace", "z": "1", "n": null}}});
        let labels = patched(kind("Node"), there, with)["metadata"]["labels"].take();
        assert_eq!(labels, json!({"z": "1"}));
        let there = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        let with = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}});
        let want = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}});
        assert_eq!(patched(kind("Pod"), there, with), want);
        let unknown = json!({"metadata": {"$patch": "explode"}});
        assert_eq!(merge(kind("Pod"), &mut json!({}), unknown).unwrap_err().code, 400);
    }
}
