//! Strategic merge patches: a table says which lists are merged by a key of their items; all others are replaced.

use crate::kinds::Kind;
use crate::status::{Answer, Refusal};
use serde_json::{Map, Value};

/// The field that tells the items of a list apart, where a list is merged.
fn key_of(kind: Kind, list: &str) -> Option<&'static str> {
    Some(match (kind.kind, list) {
        (_, "ownerReferences") => "uid",
        ("EndpointSlice" | "Endpoints", _) => return None,
        ("Service", "ports") => "port",
        (_, "ports") => "containerPort",
        (_, "conditions" | "addresses") => "type",
        (_, "containers" | "initContainers" | "env" | "volumes") => "name",
        (_, "volumeMounts") => "mountPath",
        (_, "podIPs" | "hostIPs") => "ip",
        _ => return None,
    })
}

/// Merges a patch into an object. Of the directives, `$patch: delete` and `$patch: replace` and
/// `$deleteFromPrimitiveList` are heard; the order of items stays as it is.
pub(crate) fn merge(kind: Kind, into: &mut Value, patch: Value) -> Answer<()> {
    field(kind, "", into, patch)
}

fn field(kind: Kind, name: &str, into: &mut Value, patch: Value) -> Answer<()> {
    match (patch, key_of(kind, name)) {
        (Value::Object(patch), _) => return object(kind, into, patch),
        (Value::Array(patch), Some(key)) => {
            let mut items = into.as_array_mut().map(std::mem::take).unwrap_or_default();
            for item in patch {
                merge_item(kind, key, &mut items, item)?;
            }
            *into = items.into();
        }
        (Value::Array(patch), None) if name == "finalizers" => {
            let mut items = into.as_array_mut().map(std::mem::take).unwrap_or_default();
            let fresh: Vec<Value> = patch.into_iter().filter(|item| !items.contains(item)).collect();
            items.extend(fresh);
            *into = items.into();
        }
        (patch, _) => *into = patch,
    }
    Ok(())
}

/// Also into nothing, so that directives are heard and not stored.
fn object(kind: Kind, into: &mut Value, mut patch: Map<String, Value>) -> Answer<()> {
    let mut fields = into.as_object_mut().map(std::mem::take).unwrap_or_default();
    if patch
        .get("$patch")
        .is_some_and(|directive| directive == "replace" || directive == "delete")
    {
        fields.clear();
    }
    if patch
        .remove("$patch")
        .is_some_and(|directive| directive == "delete")
    {
        patch.clear();
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(items), Some(gone)) = (
                fields.get_mut(list).and_then(Value::as_array_mut),
                value.as_array(),
            ) {
                items.retain(|item| !gone.contains(item));
            }
        } else if name.starts_with('$') {
            // The order of a list, or which of several fields stays.
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
    *into = fields.into();
    Ok(())
}

fn merge_item(kind: Kind, key: &str, items: &mut Vec<Value>, patch: Value) -> Answer<()> {
    if patch[key].is_null() {
        let why = format!("map: {patch} does not contain declared merge key: {key}");
        return Err(Refusal::internal(&why));
    }
    // A number may be that of two ports.
    let protocol = &patch["protocol"];
    let is_it =
        |item: &Value| item[key] == patch[key] && (protocol.is_null() || item["protocol"] == *protocol);
    let at = items.iter().position(is_it);
    if patch["$patch"] == "delete" {
        items.retain(|item| !is_it(item));
        return Ok(());
    }
    let at = at.unwrap_or_else(|| {
        items.push(Value::Null);
        items.len() - 1
    });
    field(kind, "", &mut items[at], patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::kind;
    use serde_json::json;

    #[test]
    fn lists_are_merged_by_key_and_directives_are_heard() {
        let containers = json!({"spec": {"containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b"},
        ]}});
        let metadata = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["a", "b"]}});
        let slice = json!({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80, "name": "a"}]});
        for (of, there, patch, want) in [
            (
                "Pod",
                containers,
                json!({"spec": {
                    "containers": [
                        {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}]},
                        {"name": "b", "$patch": "delete"}, {"name": "c", "ports": [{"containerPort": 80}]},
                    ],
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                }}),
                json!({"spec": {"containers": [
                    {"name": "a", "image": "a:2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                    {"name": "c", "ports": [{"containerPort": 80}]},
                ]}}),
            ),
            (
                "EndpointSlice",
                slice,
                json!({"endpoints": [], "ports": [{"port": 81}]}),
                json!({"endpoints": [], "ports": [{"port": 81}]}),
            ),
            (
                "Service",
                metadata.clone(),
                json!({"metadata": {
                    "labels": {"b": null, "c": "3"}, "finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"],
                }}),
                json!({"metadata": {"labels": {"a": "1", "c": "3"}, "finalizers": ["a", "c"]}}),
            ),
            (
                "Node",
                metadata,
                json!({"metadata": {"labels": {"$patch": "replace", "z": "1"}, "finalizers": null}}),
                json!({"metadata": {"labels": {"z": "1"}}}),
            ),
        ] {
            let mut got = there;
            merge(kind(of), &mut got, patch).unwrap();
            assert_eq!(got, want, "{of}");
        }
        let nameless = json!({"spec": {"containers": [{"image": "x"}]}});
        assert_eq!(
            merge(kind("Pod"), &mut json!({}), nameless).unwrap_err().code,
            500
        );
    }
}
