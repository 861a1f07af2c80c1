//! The garbage collector and the namespace controller of a cluster: dependents of the gone are deleted, deleted
//! namespaces are emptied and then removed.

use crate::delete::{self, FOREGROUND, ORPHAN, Options};
use crate::json::{number, texts};
use crate::kinds::{Kind, Role};
use crate::object::{Draft, Object, format_uid};
use crate::route::ObjectTarget;
use crate::store::{Presence, Store};
use crate::validate::finalizers;
use serde_json::Value;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// After so many objects others get a turn.
const TURN: usize = 64;

/// Runs until the store is gone.
pub(crate) async fn run(store: Weak<Store>, notify: Arc<Notify>) {
    loop {
        notify.notified().await;
        let Some(store) = store.upgrade() else { return };
        sweep(&store).await;
    }
}

async fn sweep(store: &Store) {
    let mut done = 0;
    loop {
        let work = {
            let mut state = store.write();
            let gone = std::mem::take(&mut state.gone);
            let mut work = std::mem::take(&mut state.suspects);
            work.extend(gone.iter().flat_map(|uid| state.dependents(*uid)));
            work
        };
        if work.is_empty() {
            return;
        }
        for (kind, key) in work {
            let mut tries = 0;
            // An object that changes under the collector is looked at again.
            while !examine(store, kind, &key) && tries < 8 {
                tries += 1;
            }
            done += 1;
            if done % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Does what is due for an object; false when it changed meanwhile.
fn examine(store: &Store, kind: Kind, key: &str) -> bool {
    let Some(object) = store.get(kind, key) else {
        return true;
    };
    if !object.deleting {
        return collect(store, &object);
    }
    if kind.role == Role::Namespace {
        return empty(store, &object);
    }
    let value = object.value();
    let list = finalizers(&value);
    if list.contains(&ORPHAN) {
        orphan(store, &object) && let_go(store, &object, ORPHAN)
    } else if list.contains(&FOREGROUND) {
        foreground(store, &object)
    } else {
        true
    }
}

/// Deletes an object all of whose owners are absent; takes absent owners off one that has others. As upstream, it leaves
/// an object alone as long as the presence of one of its owners is unknown.
fn collect(store: &Store, object: &Arc<Object>) -> bool {
    let owners: Vec<Presence> = {
        let state = store.read();
        let owners = object.owners.iter();
        owners.map(|owner| state.presence(object, owner)).collect()
    };
    if owners.contains(&Presence::Unknown) {
        return true;
    }
    let absent: Vec<usize> = (0..owners.len())
        .filter(|i| owners[*i] == Presence::Absent)
        .collect();
    if absent.is_empty() {
        true
    } else if absent.len() == object.owners.len() {
        remove(store, object)
    } else {
        strip(store, object, |i| absent.contains(&i))
    }
}

/// Deletes as the collector does: in the background, and only this very object.
fn remove(store: &Store, object: &Object) -> bool {
    let options = Options {
        uid: format_uid(object.uid),
        ..Options::default()
    };
    if let Err(refusal) = delete::delete(store, &ObjectTarget::of(object), &options) {
        // Gone, or another one of that name by now.
        tracing::debug!(%refusal, name = object.name(), "not collected");
    }
    true
}

/// Takes the owner references off that `which` picks.
fn strip(store: &Store, object: &Arc<Object>, which: impl Fn(usize) -> bool) -> bool {
    let mut value = object.value();
    let list = value
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut);
    if let Some(list) = list {
        let mut i = 0;
        list.retain(|_| {
            i += 1;
            !which(i - 1)
        });
        if list.is_empty()
            && let Some(metadata) = value["metadata"].as_object_mut()
        {
            metadata.remove("ownerReferences");
        }
    }
    store.replace(object, Draft::new(object.kind, &value)).is_some()
}

fn dependents(store: &Store, owner: &Object) -> Vec<Arc<Object>> {
    let state = store.read();
    let ids = state.dependents(owner.uid);
    ids.into_iter()
        .filter_map(|(kind, key)| state.table(kind).objects.get(&key).cloned())
        .collect()
}

/// Lets the dependents live on without their owner.
fn orphan(store: &Store, owner: &Arc<Object>) -> bool {
    dependents(store, owner)
        .iter()
        .all(|dependent| strip(store, dependent, |i| dependent.owners[i].uid == Some(owner.uid)))
}

/// Deletes the dependents; the owner goes when none is left that blocks it.
fn foreground(store: &Store, owner: &Arc<Object>) -> bool {
    for dependent in dependents(store, owner).iter().filter(|d| !d.deleting) {
        remove(store, dependent);
    }
    let blocked = dependents(store, owner)
        .iter()
        .any(|d| d.owners.iter().any(|o| o.uid == Some(owner.uid) && o.blocks));
    blocked || let_go(store, owner, FOREGROUND)
}

/// Takes a finalizer off, and with the last one the object away.
fn let_go(store: &Store, object: &Arc<Object>, finalizer: &str) -> bool {
    let mut value = object.value();
    let mut left = texts(&value, "/metadata/finalizers");
    left.retain(|name| name != finalizer);
    let graceful = number(&value, "/metadata/deletionGracePeriodSeconds") > 0;
    if left.is_empty() && !graceful {
        return delete::take_away(store, object).is_some();
    }
    if left.is_empty() {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
    } else {
        value["metadata"]["finalizers"] = left.into();
    }
    store.replace(object, Draft::new(object.kind, &value)).is_some()
}

/// Deletes what is in a namespace; removes the namespace when nothing is left in it.
fn empty(store: &Store, namespace: &Arc<Object>) -> bool {
    let content = || store.read().all(true, namespace.name());
    for object in content().iter().filter(|o| !o.deleting) {
        remove(store, object);
    }
    if !content().is_empty() {
        // An object that is still there has a finalizer or a grace period; its end brings the namespace back here.
        return true;
    }
    let mut value = namespace.value();
    if finalizers(&value).is_empty() {
        return store.remove(namespace).is_some();
    }
    if value.pointer("/spec/finalizers").is_none() {
        return true;
    }
    if let Some(spec) = value["spec"].as_object_mut() {
        spec.remove("finalizers");
    }
    store
        .replace(namespace, Draft::new(namespace.kind, &value))
        .is_some()
}
