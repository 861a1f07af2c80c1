//! What the kinds do of their own to an object on its way in: read, default, prepare, check.

mod endpoints;
mod event;
mod lease;
mod namespace;
mod node;
mod normal;
mod pod;
pub(crate) mod schema;
pub(crate) mod service;
mod slice;

pub(crate) use self::normal::unknown_fields;

use crate::kinds::Kind;
use crate::object::text;
use crate::route::Sub;
use crate::status::{Answer, Refusal};
use crate::validate::{Faults, NameRule, metadata, metadata_update};
use serde_json::{Map, Value};

/// Reads a body that should be an object of `kind`. What is not known is dropped as Go's decoder does.
pub(crate) fn decode(kind: Kind, body: &[u8], strict: bool) -> Answer<Value> {
    let facts = kind.facts();
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        let shown = String::from_utf8_lossy(&body[..body.len().min(512)])
            .trim_end()
            .to_owned();
        let why = match error.classify() {
            serde_json::error::Category::Eof => "unexpected end of JSON input".to_owned(),
            _ => error.to_string(),
        };
        Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
             error: {why} ({shown})",
            facts.kind
        ))
    })?;
    if strict && let Some(why) = strict_fault(kind, &value) {
        return Err(Refusal::bad_request(format!(
            "{0} in version \"v1\" cannot be handled as a {0}: {why}",
            facts.kind
        )));
    }
    decode_value(kind, value)
}

/// What a client that asked for strictness is told of fields the kind does not have.
pub(crate) fn strict_fault(kind: Kind, value: &Value) -> Option<String> {
    let unknown = unknown_fields(kind, value);
    let said: Vec<String> = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    (!said.is_empty()).then(|| format!("strict decoding error: {}", said.join(", ")))
}

/// The same, of a body already parsed.
pub(crate) fn decode_value(kind: Kind, value: Value) -> Answer<Value> {
    let facts = kind.facts();
    if !value.is_object() {
        return Err(Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {} into Go value of type struct",
            facts.kind,
            normal::json_type(&value)
        )));
    }
    let (version, named) = (text(&value, "/apiVersion"), text(&value, "/kind"));
    let wanted = kind.api_version();
    if (!version.is_empty() && version != wanted) || (!named.is_empty() && named != facts.kind) {
        let version = if version.is_empty() { wanted } else { version };
        let named = if named.is_empty() { facts.kind } else { named };
        let go = |version: &str, kind: &str| match version.split_once('/') {
            Some((group, _)) => format!("{}.{kind}", group.split('.').next().unwrap_or(group)),
            None => format!("core.{kind}"),
        };
        return Err(Refusal::bad_request(format!(
            "{named} in version \"{version}\" cannot be handled as a {}: converting ({}.{named}) to ({}): \
             unknown conversion",
            facts.kind,
            version.rsplit('/').next().unwrap_or(version),
            go(wanted, facts.kind)
        )));
    }
    normalise(kind, value)
}

/// The object as the real server would hold it: unknown fields gone, empty ones left out, defaults filled in.
fn normalise(kind: Kind, mut value: Value) -> Answer<Value> {
    normal::object(kind, &mut value)?;
    if !value.get("metadata").is_some_and(Value::is_object) {
        value["metadata"] = Map::new().into();
    }
    apply_defaults(kind, &mut value);
    Ok(value)
}

fn apply_defaults(kind: Kind, value: &mut Value) {
    match kind {
        Kind::Endpoints => endpoints::default(value),
        Kind::Namespace => namespace::default(value),
        Kind::Pod => pod::default(value),
        Kind::Service => service::default(value),
        Kind::EndpointSlice => slice::default(value),
        Kind::Node => node::default(value),
        Kind::Event => event::default(value),
        Kind::NewEvent | Kind::Lease => {}
    }
}

/// What a kind sets or clears on creation, before the checks.
pub(crate) fn prepare_create(kind: Kind, value: &mut Value) {
    match kind {
        Kind::Namespace => namespace::prepare_create(value),
        Kind::Pod => pod::prepare_create(value),
        Kind::Service => service::prepare_create(value),
        Kind::EndpointSlice => slice::prepare_create(value),
        Kind::Node => node::prepare_create(value),
        Kind::Endpoints | Kind::Event | Kind::NewEvent | Kind::Lease => {}
    }
}

/// What a kind keeps from the stored object on an update, before the checks.
pub(crate) fn prepare_update(kind: Kind, sub: Sub, new: &mut Value, old: &Value) {
    match sub {
        Sub::Main => {
            if matches!(kind, Kind::Pod | Kind::Node | Kind::Service | Kind::Namespace) {
                keep(new, old, "status");
            }
            match kind {
                Kind::Namespace => keep_in(new, old, "/spec", "finalizers"),
                Kind::Pod => pod::prepare_update(new, old),
                Kind::EndpointSlice => slice::prepare_update(new, old),
                Kind::Service => service::prepare_update(new, old),
                _ => {}
            }
        }
        Sub::Status => {
            keep(new, old, "spec");
            if kind == Kind::Pod {
                pod::prepare_status(new, old);
                keep_in(new, old, "/metadata", "ownerReferences");
            }
        }
        Sub::Finalize => keep(new, old, "status"),
    }
}

/// Takes a field over from the stored object.
fn keep(new: &mut Value, old: &Value, field: &str) {
    if let Some(new) = new.as_object_mut() {
        match old.get(field) {
            Some(value) => new.insert(field.to_owned(), value.clone()),
            None => new.remove(field),
        };
    }
}

fn keep_in(new: &mut Value, old: &Value, parent: &str, field: &str) {
    let old = old.pointer(parent).and_then(|p| p.get(field));
    match (new.pointer_mut(parent).and_then(Value::as_object_mut), old) {
        (Some(new), Some(value)) => {
            new.insert(field.to_owned(), value.clone());
        }
        (Some(new), None) => {
            new.remove(field);
        }
        (None, _) => {}
    }
}

fn name_rule(kind: Kind) -> NameRule {
    match kind {
        Kind::Namespace => NameRule::Label,
        Kind::Service => NameRule::Label1035,
        Kind::Event | Kind::NewEvent => NameRule::Path,
        Kind::Endpoints | Kind::Node | Kind::Pod | Kind::Lease | Kind::EndpointSlice => NameRule::Subdomain,
    }
}

/// Checks an object about to be created.
pub(crate) fn check_create(kind: Kind, value: &Value) -> Answer<()> {
    let mut faults = Faults::default();
    metadata(&mut faults, value, name_rule(kind));
    check_own(&mut faults, kind, value);
    refuse(kind, value, faults)
}

/// Checks an object about to replace another.
pub(crate) fn check_update(kind: Kind, sub: Sub, new: &Value, old: &Value) -> Answer<()> {
    let mut faults = Faults::default();
    metadata_update(&mut faults, new, old);
    match (kind, sub) {
        (Kind::Pod, Sub::Status) => pod::check_status(&mut faults, new),
        (_, Sub::Status | Sub::Finalize) => {}
        (Kind::Pod, Sub::Main) => {
            check_own(&mut faults, kind, new);
            pod::check_update(&mut faults, new, old);
        }
        (Kind::Service, Sub::Main) => {
            check_own(&mut faults, kind, new);
            service::check_update(&mut faults, new, old);
        }
        (Kind::EndpointSlice, Sub::Main) => slice::check_update(&mut faults, new, old),
        (_, Sub::Main) => check_own(&mut faults, kind, new),
    }
    refuse(kind, new, faults)
}

fn check_own(faults: &mut Faults, kind: Kind, value: &Value) {
    match kind {
        Kind::Endpoints => endpoints::check(faults, value),
        Kind::Event | Kind::NewEvent => event::check(faults, kind, value),
        Kind::Pod => pod::check(faults, value),
        Kind::Service => service::check(faults, value),
        Kind::Lease => lease::check(faults, value),
        Kind::EndpointSlice => slice::check(faults, value),
        Kind::Namespace | Kind::Node => {}
    }
}

fn refuse(kind: Kind, value: &Value, faults: Faults) -> Answer<()> {
    if faults.0.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid(kind, text(value, "/metadata/name"), faults.0))
    }
}
