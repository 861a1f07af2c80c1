//! Objects that are put into a store without a request.

use crate::accept::{Body, Media};
use crate::json::{list, text};
use crate::kinds::{Kind, Role};
use crate::object::{Draft, format_uid};
use crate::query::Query;
use crate::route::{ObjectTarget, Sub};
use crate::status::Refusal;
use crate::store::Store;
use crate::write::{self, Change, Write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Why objects could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// The server refuses an object.
    #[error("{what}: {why}")]
    Object {
        /// The object's kind and name.
        what: String,
        /// The fault of the object.
        why: String,
    },
}

/// Takes fields out of the metadata.
pub(crate) fn strip(value: &mut Value, fields: &[&str]) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// Stores objects, and the items of lists. Namespaces go first, all others in their order, but for what
/// names another of them by its UID: that comes after it, and names it by its new UID.
pub(crate) fn load(store: &Store, objects: &[Value]) -> Result<(), LoadError> {
    let mut pending: Vec<&Value> = objects.iter().flat_map(items).collect();
    pending.sort_by_key(|object| text(object, "/kind") != "Namespace");
    let mut uids = BTreeMap::new();
    while !pending.is_empty() {
        let awaited: BTreeSet<&str> = pending.iter().map(|object| uid_of(object)).collect();
        let (mut ready, mut rest): (Vec<_>, Vec<_>) = pending.into_iter().partition(|object| {
            let mut named = Vec::new();
            named_uids(object, &mut named);
            !named.iter().any(|uid| awaited.contains(uid))
        });
        if ready.is_empty() {
            // They name each other in a circle; one of them has to be the first.
            ready.push(rest.remove(0));
        }
        for object in ready {
            let uid = load_one(store, object, &uids)?;
            if !uid_of(object).is_empty() {
                uids.insert(uid_of(object), uid);
            }
        }
        pending = rest;
    }
    Ok(())
}

/// An object, or the items of a list.
fn items(object: &Value) -> Vec<&Value> {
    if text(object, "/kind").ends_with("List") && object.get("items").is_some() {
        list(object, "/items").iter().flat_map(items).collect()
    } else {
        vec![object]
    }
}

fn uid_of(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The UIDs of other objects that an object names: in owner references, target references and the like.
fn named_uids<'a>(object: &'a Value, found: &mut Vec<&'a str>) {
    let own = uid_of(object);
    let mut values = vec![object];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => {
                found.extend(
                    fields
                        .get("uid")
                        .and_then(Value::as_str)
                        .filter(|uid| *uid != own),
                );
                values.extend(fields.values());
            }
            Value::Array(items) => values.extend(items),
            _ => {}
        }
    }
    found.retain(|uid| !uid.is_empty());
}

/// Puts the new UIDs of objects in the place of those that they had.
fn rename(value: &mut Value, uids: &BTreeMap<&str, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(uid) if name == "uid" => {
                        if let Some(new) = uids.get(uid.as_str()) {
                            new.clone_into(uid);
                        }
                    }
                    value => rename(value, uids),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, uids)),
        _ => {}
    }
}

/// Stores an object that names others by the UIDs that they had, and gives back its own new UID.
fn load_one(store: &Store, object: &Value, uids: &BTreeMap<&str, String>) -> Result<String, LoadError> {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let name = text(object, "/metadata/name");
    let refused = |why: String| LoadError::Object {
        what: format!("{kind} {name:?}"),
        why,
    };
    let Some(kind) = store.read().find_kind(version, kind) else {
        return Err(refused(format!("the server serves no such kind in {version:?}")));
    };
    let namespace = match (kind.namespaced, text(object, "/metadata/namespace")) {
        (false, _) => "",
        (true, "") => "default",
        (true, namespace) => namespace,
    };
    if kind.namespaced && store.read().namespace(namespace).is_none() {
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        load_one(store, &made, uids)?;
    }
    let mut value = object.clone();
    strip(
        &mut value,
        &["uid", "resourceVersion", "creationTimestamp", "managedFields"],
    );
    rename(&mut value, uids);
    put(store, kind, namespace, &value).map_err(|refusal| refused(refusal.message))
}

/// Stores an object that is complete but for its UID and the time of its creation.
pub(crate) fn restore(store: &Store, mut object: Value) -> Result<(), LoadError> {
    let refused = |object: &Value, why: &str| LoadError::Object {
        what: format!("{} {:?}", text(object, "/kind"), text(object, "/metadata/name")),
        why: why.to_owned(),
    };
    let kind = store
        .read()
        .find_kind(text(&object, "/apiVersion"), text(&object, "/kind"));
    let Some(kind) = kind.filter(|kind| matches!(kind.role, Role::Plain | Role::Pod)) else {
        return Err(refused(
            &object,
            "the server does not serve this kind, or does more with it than to store it",
        ));
    };
    strip(&mut object, &["resourceVersion", "managedFields"]);
    object["metadata"]["uid"] = store.uid().into();
    object["metadata"]["creationTimestamp"] = store.clock.time().into();
    let stored = store.insert(Draft::new(kind, &object));
    stored
        .map(drop)
        .map_err(|refusal| refused(&object, &refusal.message))
}

fn put(store: &Store, kind: Kind, namespace: &str, value: &Value) -> Result<String, Box<Refusal>> {
    let query = Query::default();
    let mut target = ObjectTarget {
        kind,
        namespace: namespace.to_owned(),
        name: text(value, "/metadata/name").to_owned(),
        sub: Sub::Main,
    };
    let status = value.get("status").filter(|_| kind.has_status()).cloned();
    let write = |target: &ObjectTarget, change: Option<Change>| {
        let write = Write {
            store,
            target,
            query: &query,
            manager: "memory-apiserver",
        };
        match change {
            None => {
                let bytes = value.to_string();
                let body = Body {
                    bytes: bytes.as_bytes(),
                    media: Media::Json,
                };
                write::create(write, body)
            }
            Some(change) => write::update(write, change),
        }
    };
    let stored = match write(&target, None) {
        Err(refusal) if refusal.reason == "AlreadyExists" => {
            write(&target, Some(Change::Merge(value.clone())))?
        }
        stored => stored?,
    };
    if let Some(status) = status {
        stored.0.name().clone_into(&mut target.name);
        target.sub = Sub::Status;
        write(&target, Some(Change::Merge(json!({"status": status}))))?;
    }
    Ok(format_uid(stored.0.uid))
}
