//! Deletion: at once, gracefully, or held up by finalizers.

use crate::accept::{Body, Media};
use crate::clock::shift;
use crate::json::{list, number, text, texts};
use crate::kinds::{Kind, Role};
use crate::list::{List, collect};
use crate::object::{Draft, Object, format_uid, key_of};
use crate::protobuf;
use crate::query::Query;
use crate::route::ObjectTarget;
use crate::status::{Answer, Refusal};
use crate::store::Store;
use crate::validate::finalizers;
use serde_json::Value;
use std::sync::Arc;

/// Finalizers with which the collector is asked to see to the dependents first.
pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

const KEPT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The options of a client's deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) propagation: String,
}

/// The result of a deletion.
pub(crate) enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Arc<Object>),
    /// The object is on its way out.
    Pending(Arc<Object>),
}

// === impl Options ===

impl Options {
    /// From the body, which may be empty.
    pub(crate) fn parse(body: Body<'_>) -> Answer<Self> {
        let Body { bytes: body, media } = body;
        let given: Value = if body.iter().all(u8::is_ascii_whitespace) {
            Value::Null
        } else if media == Media::Protobuf {
            protobuf::read(body, "DeleteOptions")
                .map_err(|fault| protobuf::unrecognised("DeleteOptions", &fault.to_string()))?
        } else {
            serde_json::from_slice(body).map_err(|error| {
                Refusal::bad_request(format!(
                    "the object provided is unrecognized (must be of type DeleteOptions): {error}"
                ))
            })?
        };
        let kind = text(&given, "/kind");
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(Refusal::bad_request(format!(
                "decoded object cannot be converted to DeleteOptions: {kind}"
            )));
        }
        if given.pointer("/dryRun/0").is_some() {
            return Err(Refusal::bad_request("this server has no dry runs"));
        }
        let mut options = Self {
            grace: given.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: text(&given, "/preconditions/uid").to_owned(),
            version: text(&given, "/preconditions/resourceVersion").to_owned(),
            propagation: text(&given, "/propagationPolicy").to_owned(),
        };
        if let Some(orphan) = given.get("orphanDependents").and_then(Value::as_bool) {
            if orphan { "Orphan" } else { "Background" }.clone_into(&mut options.propagation);
        }
        let policy = options.propagation.as_str();
        if !matches!(policy, "" | "Orphan" | "Background" | "Foreground") {
            let message = format!("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: {policy:?}");
            return Err(Box::new(Refusal::new(422, "Invalid", message)));
        }
        Ok(options)
    }
}

pub(crate) fn delete(store: &Store, target: &ObjectTarget, options: &Options) -> Answer<Deleted> {
    let key = key_of(&target.namespace, &target.name);
    loop {
        let Some(old) = store.get(target.kind, &key) else {
            return Err(Refusal::not_found(target.kind, &target.name));
        };
        check_preconditions(&old, options)?;
        let step = match target.kind.role {
            Role::Namespace => namespace(store, &old)?,
            _ => object(store, &old, options),
        };
        if let Some(deleted) = step {
            return Ok(deleted);
        }
    }
}

/// Deletes all that a list would show.
pub(crate) fn delete_all(
    store: &Store,
    target: &ObjectTarget,
    query: &Query,
    options: &Options,
) -> Answer<List> {
    let list = collect(store, target, query)?;
    for object in &list.items {
        match delete(store, &ObjectTarget::of(object), options) {
            Err(refusal) if refusal.code != 404 => return Err(refusal),
            // Gone meanwhile is as good.
            _ => {}
        }
    }
    Ok(list)
}

fn check_preconditions(old: &Object, options: &Options) -> Answer<()> {
    check_uid(old.kind, old, &options.uid)?;
    if !options.version.is_empty() && options.version != old.rv.to_string() {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {}",
            options.version, old.rv
        );
        return Err(Refusal::conflict(old.kind, old.name(), &why));
    }
    Ok(())
}

/// Refuses another uid than the stored one's.
pub(crate) fn check_uid(kind: Kind, old: &Object, asked: &str) -> Answer<()> {
    let uid = format_uid(old.uid);
    if asked.is_empty() || asked == uid {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}");
    Err(Refusal::conflict(kind, old.name(), &why))
}

/// The finalizers as the wanted propagation has them.
fn with_propagation(value: &Value, propagation: &str) -> Vec<String> {
    let mut list = texts(value, "/metadata/finalizers");
    if !propagation.is_empty() {
        list.retain(|f| f != ORPHAN && f != FOREGROUND);
    }
    match propagation {
        "Orphan" => list.push(ORPHAN.to_owned()),
        "Foreground" => list.push(FOREGROUND.to_owned()),
        _ => {}
    }
    list
}

/// The grace a deletion has in the end; none for what knows no grace.
fn grace_of(value: &Value, kind: Kind, options: &Options) -> Option<i64> {
    if kind.role != Role::Pod {
        return None;
    }
    let own = number(value, "/spec/terminationGracePeriodSeconds");
    let unscheduled = text(value, "/spec/nodeName").is_empty();
    let finished = matches!(text(value, "/status/phase"), "Succeeded" | "Failed");
    let grace = if unscheduled || finished {
        0
    } else {
        options.grace.unwrap_or(own)
    };
    Some(if grace < 0 { 1 } else { grace })
}

/// One try; none when the object changed meanwhile.
fn object(store: &Store, old: &Arc<Object>, options: &Options) -> Option<Deleted> {
    let mut value = old.value();
    let list = with_propagation(&value, &options.propagation);
    let held_up = !list.is_empty();
    let deleting = old.deleting;
    let pending_grace = number(&value, "/metadata/deletionGracePeriodSeconds");
    let mut changed = finalizers(&value) != list;
    if changed {
        value["metadata"]["finalizers"] = list.into();
    }
    let grace = if deleting && pending_grace == 0 {
        None
    } else {
        grace_of(&value, old.kind, options)
    };
    let mut now = !held_up;
    match grace {
        Some(_) if deleting => {
            let Some(wanted) = options.grace.filter(|g| *g < pending_grace) else {
                // Already under way, and it does not take longer for being asked again.
                return Some(Deleted::Pending(Arc::clone(old)));
            };
            let wanted = if wanted < 0 { 1 } else { wanted };
            let end = shift(
                text(&value, "/metadata/deletionTimestamp"),
                wanted - pending_grace,
            );
            value["metadata"]["deletionTimestamp"] = end.into();
            value["metadata"]["deletionGracePeriodSeconds"] = wanted.into();
            changed = true;
            now &= wanted == 0;
        }
        Some(grace) => {
            mark(&mut value, &store.clock.time_in(grace), grace);
            changed = true;
            now &= grace == 0;
        }
        None if held_up && !deleting => {
            mark(&mut value, &store.clock.time(), 0);
            changed = true;
        }
        None => {}
    }
    let mut current = Arc::clone(old);
    // A deletion with a grace of nothing is still told as two steps.
    if changed && (grace.is_some() || held_up) {
        current = store.replace(old, Draft::new(old.kind, &value))?;
    }
    if !now {
        return Some(Deleted::Pending(current));
    }
    take_away(store, &current).map(Deleted::Gone)
}

/// Removes exactly this object; none when the stored one is another by now. With a Service go the Endpoints of its
/// name, no matter which client made them, since the real server deletes these itself. Its slices are left to the
/// collector.
pub(crate) fn take_away(store: &Store, old: &Arc<Object>) -> Option<Arc<Object>> {
    let gone = store.remove(old)?;
    let takes_endpoints = old.kind.role == Role::Service && store.config.service_endpoints;
    let endpoints = takes_endpoints.then(|| store.read().find("", "v1", "endpoints"));
    if let Some(kind) = endpoints.flatten() {
        let target = ObjectTarget {
            kind,
            ..ObjectTarget::of(old)
        };
        // There may be none.
        let _ = delete(store, &target, &Options::default());
    }
    Some(gone)
}

fn mark(value: &mut Value, end: &str, grace: i64) {
    let metadata = &mut value["metadata"];
    metadata["deletionTimestamp"] = end.into();
    metadata["deletionGracePeriodSeconds"] = grace.into();
    if let generation @ 1.. = number(metadata, "/generation") {
        metadata["generation"] = (generation + 1).into();
    }
}

fn namespace(store: &Store, old: &Arc<Object>) -> Answer<Option<Deleted>> {
    if KEPT_NAMESPACES.contains(&old.name()) {
        let why = "this namespace may not be deleted";
        return Err(Refusal::forbidden(old.kind, old.name(), why, Vec::new()));
    }
    let mut value = old.value();
    let held_up = !finalizers(&value).is_empty() || !list(&value, "/spec/finalizers").is_empty();
    let mut current = Arc::clone(old);
    if !old.deleting {
        value["metadata"]["deletionTimestamp"] = store.clock.time().into();
        value["status"]["phase"] = "Terminating".into();
        let Some(replaced) = store.replace(old, Draft::new(old.kind, &value)) else {
            return Ok(None);
        };
        current = replaced;
    }
    if held_up {
        return Ok(Some(Deleted::Pending(current)));
    }
    Ok(store.remove(&current).map(Deleted::Gone))
}

/// The Status that says an object is gone.
pub(crate) fn success(object: &Object) -> Value {
    let mut details = serde_json::json!({
        "name": object.name(), "kind": object.kind.resource, "uid": format_uid(object.uid),
    });
    if !object.kind.group().is_empty() {
        details["group"] = object.kind.group().into();
    }
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}
