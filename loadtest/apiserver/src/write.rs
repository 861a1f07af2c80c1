//! Create, replace and patch.

use crate::accept::Body;
use crate::cause::Faults;
use crate::json::{list, number, text};
use crate::kinds::{Kind, Role};
use crate::managed::{self, Writer};
use crate::object::{Draft, Object, key_of};
use crate::query::Query;
use crate::route::{ObjectTarget, Sub};
use crate::status::{Answer, Refusal};
use crate::store::Store;
use crate::validate::finalizers;
use crate::{delete, kubectl, registry};
use serde_json::{Map, Value};
use std::sync::Arc;

/// How often a generated name that is taken is tried again.
const NAME_TRIES: usize = 8;
/// The part of a prefix that is kept: five characters follow, and a name has 63.
const PREFIX: usize = 58;

/// How an object is to be changed.
pub(crate) enum Change {
    Replace(Value),
    Merge(Value),
    Strategic(Value),
    Json(json_patch::Patch),
    Apply(Value),
}

/// A write on its way: where to, how, and by whom.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) store: &'a Store,
    pub(crate) target: &'a ObjectTarget,
    pub(crate) query: &'a Query,
    pub(crate) manager: &'a str,
}

/// The result of a write: the object, and whether it is new.
pub(crate) type Written = (Arc<Object>, bool);

impl Write<'_> {
    /// Reads the object that is to take the stored one's place.
    pub(crate) fn replacement(self, body: Body<'_>) -> Answer<Change> {
        let value = registry::decode(self.target.kind, body, self.is_strict())?;
        check_identity(self.target, &value)?;
        Ok(Change::Replace(value))
    }

    fn is_strict(&self) -> bool {
        self.query.text("fieldValidation") == "Strict"
    }

    /// Notes in an object that it was written.
    fn note(&self, applies: bool, object: &mut Value) {
        let writer = Writer {
            manager: self.manager,
            kind: self.target.kind,
            sub: self.target.sub,
            applies,
            now: &self.store.clock.time(),
        };
        managed::note(writer, object);
    }
}

pub(crate) fn create(write: Write<'_>, body: Body<'_>) -> Answer<Written> {
    let target = write.target;
    let mut value = registry::decode(target.kind, body, write.is_strict())?;
    adopt_namespace(target.kind, &mut value, &target.namespace)?;
    Ok((create_value(write, &value, false)?, true))
}

/// Puts the URL's namespace into the object, which may not name another.
fn adopt_namespace(kind: Kind, value: &mut Value, namespace: &str) -> Answer<()> {
    let given = text(value, "/metadata/namespace");
    if !given.is_empty() && given != namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if kind.namespaced {
        value["metadata"]["namespace"] = namespace.into();
    }
    Ok(())
}

/// Refuses to create an object in a namespace that is not there or on its way out.
fn check_namespace(store: &Store, kind: Kind, value: &Value) -> Answer<()> {
    if !kind.namespaced {
        return Ok(());
    }
    let name = text(value, "/metadata/namespace");
    let state = store.read();
    match state.namespace(name) {
        None => return Err(Refusal::not_found(state.namespaces(), name)),
        Some(namespace) if !namespace.deleting => return Ok(()),
        Some(_) => {}
    }
    let own = match text(value, "/metadata/name") {
        "" => text(value, "/metadata/generateName"),
        own => own,
    };
    Err(Refusal::terminating(kind, own, name))
}

/// Refuses to create an object beyond a `ResourceQuota` on the number of its kind, such as `count/endpointslices.discovery.k8s.io`.
fn check_quota(store: &Store, kind: Kind, value: &Value) -> Answer<()> {
    let state = store.read();
    let namespace = text(value, "/metadata/namespace");
    let Some(quotas) = state.find_kind("v1", "ResourceQuota") else {
        return Ok(());
    };
    let counted = format!("count/{}", kind.qualified_resource());
    for quota in state.range(quotas, namespace) {
        let limit = quota.value()["spec"]["hard"][&counted]
            .as_str()
            .and_then(|text| text.parse().ok());
        let Some(limit): Option<usize> = limit else {
            continue;
        };
        let used = state.range(kind, namespace).len();
        if used >= limit {
            let why = format!(
                "exceeded quota: {}, requested: {counted}=1, used: {counted}={used}, limited: {counted}={limit}",
                quota.name()
            );
            return Err(Refusal::forbidden(
                kind,
                text(value, "/metadata/name"),
                &why,
                Vec::new(),
            ));
        }
    }
    Ok(())
}

fn create_value(write: Write<'_>, value: &Value, applies: bool) -> Answer<Arc<Object>> {
    let (store, kind) = (write.store, write.target.kind);
    check_namespace(store, kind, value)?;
    check_quota(store, kind, value)?;
    if !text(value, "/metadata/resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Box::new(Refusal::new(500, "", message)));
    }
    let prefix = text(value, "/metadata/generateName").to_owned();
    let generates = text(value, "/metadata/name").is_empty() && !prefix.is_empty();
    let mut tries = 0;
    loop {
        let mut value = value.clone();
        if generates {
            let kept: String = prefix.chars().take(PREFIX).collect();
            value["metadata"]["name"] = format!("{kept}{}", store.suffix()).into();
        }
        let made = create_once(write, value, applies);
        tries += 1;
        match made {
            Err(refusal) if generates && refusal.reason == "AlreadyExists" && tries < NAME_TRIES => {}
            made => return made,
        }
    }
}

fn create_once(write: Write<'_>, mut value: Value, applies: bool) -> Answer<Arc<Object>> {
    let (store, kind) = (write.store, write.target.kind);
    if let Some(metadata) = value["metadata"].as_object_mut() {
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "generation",
        ] {
            metadata.remove(field);
        }
        metadata.insert("uid".into(), store.uid().into());
        metadata.insert("creationTimestamp".into(), store.clock.time().into());
    }
    (kind.create)(&mut value);
    registry::check_create(kind, &value)?;
    let claims = match kind.role {
        Role::Service => Some(registry::service::allocate(store, kind, &mut value, None)?),
        _ => None,
    };
    if applies || store.config.managed_fields {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        write.note(applies, &mut value);
    }
    let object = store.insert(Draft::new(kind, &value))?;
    if let Some(claims) = claims {
        claims.keep();
    }
    Ok(object)
}

/// RFC 7386.
fn merge(into: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = Map::new().into();
    }
    let Some(fields) = into.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

fn check_identity(target: &ObjectTarget, value: &Value) -> Answer<()> {
    let name = text(value, "/metadata/name");
    if name.is_empty() {
        let message = "the name of the object (based on URL) was undeterminable: name must be provided";
        return Err(Refusal::bad_request(message));
    }
    if name != target.name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let namespace = text(value, "/metadata/namespace");
    if !namespace.is_empty() && namespace != target.namespace {
        return Err(Refusal::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            target.namespace
        )));
    }
    Ok(())
}

pub(crate) fn update(write: Write<'_>, change: &Change) -> Answer<Written> {
    let (store, target) = (write.store, write.target);
    let key = key_of(&target.namespace, &target.name);
    loop {
        let Some(old) = store.get(target.kind, &key) else {
            match create_by_update(write, change) {
                // Another client was faster: the configuration is applied to the object that it made.
                Err(refusal) if refusal.reason == "AlreadyExists" && matches!(change, Change::Apply(_)) => {
                    continue;
                }
                made => return made,
            }
        };
        if let Some(object) = update_once(write, &old, change)? {
            return Ok((object, false));
        }
        // Another client was faster: read it again.
    }
}

fn create_by_update(write: Write<'_>, change: &Change) -> Answer<Written> {
    let target = write.target;
    let kind = target.kind;
    match change {
        Change::Apply(config) if target.sub == Sub::Main => {
            check_known(kind, config)?;
            let mut value = registry::decode_value(kind, config.clone())?;
            check_identity(target, &value)?;
            adopt_namespace(kind, &mut value, &target.namespace)?;
            Ok((create_value(write, &value, true)?, true))
        }
        Change::Replace(replacement) if kind.create_on_update && target.sub == Sub::Main => {
            let mut value = replacement.clone();
            if kind.namespaced {
                value["metadata"]["namespace"] = target.namespace.as_str().into();
            }
            if !text(&value, "/metadata/resourceVersion").is_empty()
                || !text(&value, "/metadata/uid").is_empty()
            {
                return Err(Refusal::not_found(kind, &target.name));
            }
            Ok((create_value(write, &value, false)?, true))
        }
        _ => Err(Refusal::not_found(kind, &target.name)),
    }
}

/// Refuses a patched object with fields that its kind does not have.
fn check_known(kind: Kind, value: &Value) -> Answer<()> {
    match registry::strict_fault(kind, value) {
        Some(why) => Err(Refusal::invalid_patch(&why)),
        None => Ok(()),
    }
}

/// The object as a change wants it.
fn changed(write: Write<'_>, old: &Arc<Object>, old_value: &Value, change: &Change) -> Answer<Value> {
    let kind = write.target.kind;
    let is_apply = matches!(change, Change::Apply(_));
    let value = match change {
        Change::Replace(replacement) => return Ok(replacement.clone()),
        Change::Merge(patch) => {
            let mut value = old_value.clone();
            merge(&mut value, patch.clone());
            value
        }
        Change::Strategic(patch) | Change::Apply(patch) => {
            let mut value = old_value.clone();
            kubectl::merge_strategically(kind, &mut value, patch.clone())?;
            value
        }
        Change::Json(patch) => {
            // It may look at kind and version too.
            let mut value = old.value();
            json_patch::patch(&mut value, patch).map_err(|_| Refusal::unprocessable(kind, old.name()))?;
            value
        }
    };
    if write.is_strict() || is_apply {
        check_known(kind, &value)?;
    }
    let value = registry::decode_value(kind, value)?;
    check_identity(write.target, &value)?;
    Ok(value)
}

/// None when the stored object changed meanwhile.
fn update_once(write: Write<'_>, old: &Arc<Object>, change: &Change) -> Answer<Option<Arc<Object>>> {
    let Write { store, target, .. } = write;
    let kind = target.kind;
    let old_value = old.content();
    let mut new = changed(write, old, &old_value, change)?;
    let asked = text(&new, "/metadata/resourceVersion").to_owned();
    check_version(kind, old, &asked)?;
    delete::check_uid(kind, old, text(&new, "/metadata/uid"))?;
    let clears = managed::asks_to_clear(&new);
    let is_tracked = !clears && managed::is_tracked(&old_value, store.config.managed_fields);
    keep_system_fields(&mut new, &old_value);
    if clears && let Some(metadata) = new["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    registry::prepare_update(kind, target.sub, &mut new, &old_value);
    registry::check_update(kind, target.sub, &new, &old_value)?;
    let claims = match (kind.role, target.sub) {
        (Role::Service, Sub::Main) => Some(registry::service::allocate(
            store,
            kind,
            &mut new,
            Some(&old_value),
        )?),
        _ => None,
    };
    new["metadata"]["resourceVersion"] = old.rv.to_string().into();
    if new == old_value {
        return Ok(Some(Arc::clone(old)));
    }
    let applies = matches!(change, Change::Apply(_));
    if applies || is_tracked {
        write.note(applies, &mut new);
    }
    let draft = Draft::new(kind, &new);
    if ends_deletion(kind, &new) {
        // The deletion is no longer held up. The answer is the object as it was to be.
        return Ok(delete::take_away(store, old).map(|removed| draft.seal(removed.rv)));
    }
    let object = store.replace(old, draft);
    if object.is_some()
        && let Some(claims) = claims
    {
        claims.keep();
    }
    if object.is_none() && !asked.is_empty() && matches!(change, Change::Replace(_)) {
        return Err(Refusal::stale(kind, &target.name));
    }
    Ok(object)
}

fn check_version(kind: Kind, old: &Object, asked: &str) -> Answer<()> {
    match asked {
        "" | "0" if kind.unconditional_update => Ok(()),
        "" | "0" => {
            let mut faults = Faults::default();
            let why = "must be specified for an update";
            faults.invalid("metadata.resourceVersion", &0.into(), why);
            Err(Refusal::invalid(kind, old.name(), faults.0))
        }
        asked if asked == old.rv.to_string() => Ok(()),
        _ => Err(Refusal::stale(kind, old.name())),
    }
}

/// Restores the metadata that no client sets on an update.
fn keep_system_fields(new: &mut Value, old: &Value) {
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    let old = &old["metadata"];
    metadata.remove("selfLink");
    for field in [
        "uid",
        "namespace",
        "creationTimestamp",
        "generation",
        "managedFields",
    ] {
        match old.get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        if let Some(value) = old.get(field) {
            metadata.insert(field.into(), value.clone());
        }
    }
}

/// Whether an update removed the last that held up a deletion.
fn ends_deletion(kind: Kind, new: &Value) -> bool {
    let metadata = &new["metadata"];
    metadata.get("deletionTimestamp").is_some()
        && finalizers(new).is_empty()
        && number(metadata, "/deletionGracePeriodSeconds") == 0
        && (kind.role != Role::Namespace || list(new, "/spec/finalizers").is_empty())
}
