//! Objects that are put into a store without a request.

use crate::kinds::Kind;
use crate::object::{list, text};
use crate::query::Query;
use crate::route::{ObjectTarget, Sub};
use crate::status::Refusal;
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
        /// What is wrong with it.
        why: String,
    },
}

/// Takes fields out of the metadata.
pub(crate) fn strip(value: &mut Value, fields: &[&str]) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !fields.contains(&name.as_str()));
    }
}

/// Stores an object, or the items of a list.
pub(crate) fn load(store: &Store, object: &Value) -> Result<(), LoadError> {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let name = text(object, "/metadata/name");
    let refused = |why: String| LoadError::Object {
        what: format!("{kind} {name:?}"),
        why,
    };
    if kind.ends_with("List") && object.get("items").is_some() {
        return list(object, "/items")
            .iter()
            .try_for_each(|item| load(store, item));
    }
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
        load(store, &made)?;
    }
    let mut value = object.clone();
    strip(
        &mut value,
        &["uid", "resourceVersion", "creationTimestamp", "managedFields"],
    );
    put(store, kind, namespace, &value).map_err(|refusal| refused(refusal.message))
}

fn put(store: &Store, kind: Kind, namespace: &str, value: &Value) -> Result<(), Box<Refusal>> {
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
            None => write::create(write, value.to_string().as_bytes()),
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
    Ok(())
}
