//! Strategic merge patches: lists are merged by the keys of their items, and directives say what a merge cannot.

use crate::kinds::Kind;
use crate::schema::{Form, Merge, Place};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE: &str = "$deleteFromPrimitiveList/";

/// Why a patch cannot be merged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoKey { item: String, key: &'static str },
    #[error("invalid patch format of {0}")]
    Form(&'static str),
    #[error("unknown patch type found: {0}")]
    Unknown(String),
}

/// Merges a patch into an object.
pub(crate) fn patch(kind: Kind, into: &mut Value, patch: Value) -> Result<(), Fault> {
    let (Value::Object(into), Value::Object(patch)) = (into, patch) else {
        return Err(Fault::Form("an object"));
    };
    object(Place::root(kind), into, patch)
}

fn directive(patch: &mut Map<String, Value>) -> Result<Option<String>, Fault> {
    match patch.remove(DIRECTIVE) {
        None => Ok(None),
        Some(Value::String(text)) if matches!(text.as_str(), "replace" | "delete" | "merge") => {
            Ok(Some(text))
        }
        Some(other) => Err(Fault::Unknown(other.to_string())),
    }
}

fn object(
    place: Place<'_>,
    into: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(), Fault> {
    match directive(&mut patch)?.as_deref() {
        Some("replace") => {
            into.clear();
            patch.retain(|_, value| !value.is_null());
        }
        Some("delete") => {
            into.clear();
            return Ok(());
        }
        _ => {}
    }
    if let Some(retained) = patch.remove(RETAIN) {
        let retained = retained.as_array().ok_or(Fault::Form(RETAIN))?;
        into.retain(|name, _| retained.iter().any(|one| one == name));
    }
    let mut orders: Map<String, Value> = Map::new();
    let mut changes: Vec<(String, Value)> = Vec::new();
    for (name, value) in patch {
        if let Some(field) = name.strip_prefix(ORDER) {
            orders.insert(field.to_owned(), value);
        } else if let Some(field) = name.strip_prefix(DELETE) {
            let gone = value.as_array().ok_or(Fault::Form("$deleteFromPrimitiveList"))?;
            if let Some(list) = into.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(|item| !gone.contains(item));
            }
        } else {
            changes.push((name, value));
        }
    }
    let before: Map<String, Value> = orders
        .keys()
        .filter_map(|field| Some((field.clone(), into.get(field)?.clone())))
        .collect();
    for (name, value) in changes {
        if value.is_null() {
            into.remove(&name);
            continue;
        }
        field(place.child(&name), into.entry(name).or_insert(Value::Null), value)?;
    }
    for (name, order) in orders {
        let order = order.as_array().ok_or(Fault::Form("$setElementOrder"))?;
        if let Some(list) = into.get_mut(&name).and_then(Value::as_array_mut) {
            let server = before.get(&name).and_then(Value::as_array);
            arrange(place.child(&name), list, order, server.map_or(&[], Vec::as_slice));
        }
    }
    Ok(())
}

fn field(place: Place<'_>, into: &mut Value, patch: Value) -> Result<(), Fault> {
    match patch {
        // Also into nothing, so that directives are heard and not stored.
        Value::Object(patch) => {
            if !into.is_object() {
                *into = Map::new().into();
            }
            into.as_object_mut()
                .map_or(Ok(()), |into| object(place, into, patch))
        }
        Value::Array(patch) => {
            if !into.is_array() {
                *into = Value::Array(Vec::new());
            }
            into.as_array_mut()
                .map_or(Ok(()), |into| list(place, into, patch))
        }
        patch => {
            *into = patch;
            Ok(())
        }
    }
}

/// The key a list's items are merged by.
fn key_of(place: Place<'_>) -> Option<&'static str> {
    match &place.field()?.merge {
        Merge::Keyed {
            keys, patch: true, ..
        } => keys.first().map(|(key, _)| *key),
        _ => None,
    }
}

fn list(place: Place<'_>, into: &mut Vec<Value>, patch: Vec<Value>) -> Result<(), Fault> {
    let Some(key) = key_of(place) else {
        if matches!(place.form(), Form::Set) {
            for item in patch {
                if !into.contains(&item) {
                    into.push(item);
                }
            }
        } else {
            *into = patch;
        }
        return Ok(());
    };
    let replaces =
        |item: &Value| item.get(DIRECTIVE).is_some_and(|d| d == "replace") && item.get(key).is_none();
    if patch.iter().any(replaces) {
        into.clear();
    }
    for item in patch.into_iter().filter(|item| !replaces(item)) {
        let Value::Object(mut item) = item else {
            return Err(Fault::Form("a list of objects"));
        };
        let Some(id) = item.get(key).cloned() else {
            let item = Value::Object(item).to_string();
            return Err(Fault::NoKey { item, key });
        };
        let at = into.iter().position(|there| there.get(key) == Some(&id));
        if item.get(DIRECTIVE).is_some_and(|d| d == "delete") {
            into.retain(|there| there.get(key) != Some(&id));
            continue;
        }
        if let Some(there) = at.and_then(|at| into[at].as_object_mut()) {
            object(place.item(), there, item)?;
        } else {
            let mut fresh = Map::new();
            item.remove(RETAIN);
            object(place.item(), &mut fresh, item)?;
            into.push(fresh.into());
        }
    }
    Ok(())
}

/// Brings a list into the order a patch wants; what it does not speak about stays where it was among its neighbours.
fn arrange(place: Place<'_>, list: &mut Vec<Value>, order: &[Value], server: &[Value]) {
    let key = key_of(place);
    let id = |item: &Value| key.map_or_else(|| Some(item.clone()), |key| item.get(key).cloned());
    let rank = |of: &[Value], item: &Value| of.iter().position(|one| id(one) == id(item));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        list.drain(..).partition(|item| rank(order, item).is_some());
    named.sort_by_key(|item| rank(order, item));
    others.sort_by_key(|item| rank(server, item));
    let mut others = others.into_iter().peekable();
    for item in named {
        let at = rank(server, &item);
        while let Some(other) = others.next_if(|other| at.is_some_and(|at| rank(server, other) < Some(at))) {
            list.push(other);
        }
        list.push(item);
    }
    list.extend(others);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::kind;
    use serde_json::json;

    fn patched(kind: Kind, mut into: Value, with: Value) -> Value {
        patch(kind, &mut into, with).unwrap();
        into
    }

    fn pod(containers: Value) -> Value {
        let spec = Map::from_iter([("containers".to_owned(), containers)]);
        json!({"spec": spec})
    }

    #[test]
    fn lists_are_merged_by_key() {
        let there = pod(
            json!([{"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "b:1"}]),
        );
        let got = patched(
            kind("Pod"),
            there.clone(),
            pod(json!([
                {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}]},
                {"name": "b", "$patch": "delete"},
                {"name": "c", "image": "c:1", "ports": [{"containerPort": 80, "$patch": "merge"}]},
            ])),
        );
        assert_eq!(
            got,
            pod(json!([
                {"name": "a", "image": "a:2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                {"name": "c", "image": "c:1", "ports": [{"containerPort": 80}]},
            ]))
        );
        let got = patched(
            kind("Pod"),
            there.clone(),
            pod(json!([{"$patch": "replace"}, {"name": "z"}])),
        );
        assert_eq!(got, pod(json!([{"name": "z"}])));
        let fault = patch(kind("Pod"), &mut there.clone(), pod(json!([{"image": "x"}]))).unwrap_err();
        assert_eq!(
            fault.to_string(),
            r#"map: {"image":"x"} does not contain declared merge key: name"#
        );
    }

    #[test]
    fn other_lists_are_replaced_and_texts_are_a_set() {
        let slice = json!({"endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]});
        let with = json!({"endpoints": [{"addresses": ["10.0.0.3"]}]});
        assert_eq!(patched(kind("EndpointSlice"), slice, with.clone()), with);
        let there = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
        let with =
            json!({"metadata": {"finalizers": ["d", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}});
        assert_eq!(
            patched(kind("Service"), there, with),
            json!({"metadata": {"finalizers": ["a", "c", "d"]}})
        );
    }

    #[test]
    fn directives_and_nulls() {
        let there = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}});
        let with =
            json!({"metadata": {"labels": {"b": null, "c": "3"}, "annotations": {"$patch": "delete"}}});
        assert_eq!(
            patched(kind("Node"), there.clone(), with),
            json!({"metadata": {"labels": {"a": "1", "c": "3"}, "annotations": {}}})
        );
        let with = json!({"metadata": {"labels": {"$patch": "replace", "z": "1", "n": null}}});
        assert_eq!(
            patched(kind("Node"), there, with)["metadata"]["labels"],
            json!({"z": "1"})
        );
        let there = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        let with = json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}});
        assert_eq!(
            patched(kind("Pod"), there, with)["spec"]["volumes"],
            json!([{"name": "v", "hostPath": {"path": "/x"}}])
        );
        let mut there = json!({});
        let with = json!({"metadata": {"$patch": "explode"}});
        assert!(matches!(
            patch(kind("Pod"), &mut there, with),
            Err(Fault::Unknown(_))
        ));
    }

    #[test]
    fn order() {
        let names = |value: &Value| -> Vec<String> {
            let list = value["spec"]["containers"].as_array().unwrap();
            list.iter()
                .map(|item| item["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let there = pod(json!([{"name": "a"}, {"name": "s"}, {"name": "b"}]));
        let mut with = pod(json!([{"name": "n"}]));
        with["spec"]["$setElementOrder/containers"] = json!([{"name": "b"}, {"name": "n"}, {"name": "a"}]);
        let got = patched(kind("Pod"), there, with);
        assert_eq!(names(&got), ["s", "b", "n", "a"]);
    }
}
