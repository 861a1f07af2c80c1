//! Objects that are put into a store without a request.

use crate::accept::{Body, Media};
use crate::json::{list, text};
use crate::kinds::{Kind, Role};
use crate::object::Draft;
use crate::query::Query;
use crate::route::{ObjectTarget, Sub};
use crate::status::Answer;
use crate::store::Store;
use crate::write::{self, Change, Write};
use serde_json::{Value, json};

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
fn strip(value: &mut Value, fields: &[&str]) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// Stores objects, and the items of lists: namespaces first, all others in their order.
pub(crate) fn load(store: &Store, objects: &[Value]) -> Result<(), LoadError> {
    let mut all: Vec<&Value> = objects.iter().flat_map(items).collect();
    all.sort_by_key(|object| text(object, "/kind") != "Namespace");
    all.into_iter().try_for_each(|object| load_one(store, object))
}

/// An object, or the items of a list.
fn items(object: &Value) -> Vec<&Value> {
    if text(object, "/kind").ends_with("List") && object.get("items").is_some() {
        list(object, "/items").iter().flat_map(items).collect()
    } else {
        vec![object]
    }
}

fn load_one(store: &Store, object: &Value) -> Result<(), LoadError> {
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
        load_one(store, &made)?;
    }
    let mut value = object.clone();
    strip(
        &mut value,
        &["uid", "resourceVersion", "creationTimestamp", "managedFields"],
    );
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

fn put(store: &Store, kind: Kind, namespace: &str, value: &Value) -> Answer<()> {
    let query = Query::default();
    let target = ObjectTarget {
        kind,
        namespace: namespace.to_owned(),
        name: text(value, "/metadata/name").to_owned(),
        sub: Sub::Main,
    };
    let write = Write {
        store,
        target: &target,
        query: &query,
        manager: "memory-apiserver",
    };
    let bytes = value.to_string();
    let body = Body {
        bytes: bytes.as_bytes(),
        media: Media::Json,
    };
    let (stored, _) = match write::create(write, body) {
        Err(refusal) if refusal.reason == "AlreadyExists" => {
            write::update(write, &Change::Merge(value.clone()))?
        }
        stored => stored?,
    };
    if let Some(status) = value.get("status").filter(|_| kind.has_status()) {
        let target = ObjectTarget {
            name: stored.name().to_owned(),
            sub: Sub::Status,
            ..target.clone()
        };
        let status = Change::Merge(json!({"status": status}));
        write::update(
            Write {
                target: &target,
                ..write
            },
            &status,
        )?;
    }
    Ok(())
}
