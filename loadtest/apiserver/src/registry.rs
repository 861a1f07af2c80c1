//! An object on its way in: read, defaulted, prepared, checked; each with what its kind does of its own.

pub(crate) mod deployment;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod lease;
pub(crate) mod namespace;
pub(crate) mod node;
mod normal;
pub(crate) mod pod;
pub(crate) mod service;
pub(crate) mod slice;

use crate::accept::{Body, Media};
use crate::cause::Faults;
use crate::json::{object_at, text};
use crate::kinds::Kind;
use crate::protobuf;
use crate::route::Sub;
use crate::schema::SCHEMA;
use crate::status::{Answer, Refusal};
use crate::validate::{metadata, metadata_update};
use serde_json::Value;

/// Reads a body that should be an object of `kind`. Unknown fields are dropped as Go's decoder does; strictness is for JSON.
pub(crate) fn decode(kind: Kind, body: Body<'_>, strict: bool) -> Answer<Value> {
    if body.media == Media::Protobuf {
        let opened = protobuf::open(body.bytes);
        let opened = opened.map_err(|fault| protobuf::unrecognised(kind.kind, &fault.to_string()))?;
        check_type(kind, &opened.api_version, &opened.kind)?;
        let value = protobuf::decode(SCHEMA.root(kind), opened.raw);
        return normalise(kind, value.map_err(|fault| unhandled(kind, &fault.to_string()))?);
    }
    let value: Value = serde_json::from_slice(body.bytes)
        .map_err(|error| protobuf::unrecognised(kind.kind, &format!("json parse error: {error}")))?;
    match strict_fault(kind, &value).filter(|_| strict) {
        Some(why) => Err(unhandled(kind, &why)),
        None => decode_value(kind, value),
    }
}

/// An object that cannot be read as one of its kind.
pub(crate) fn unhandled(kind: Kind, why: &str) -> Box<Refusal> {
    Refusal::bad_request(format!(
        "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
        kind.kind,
        kind.version()
    ))
}

/// Returns the message about fields that the kind does not have, for a client that asked for strictness.
pub(crate) fn strict_fault(kind: Kind, value: &Value) -> Option<String> {
    let unknown = normal::unknown_fields(kind, value);
    let said: Vec<String> = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    (!said.is_empty()).then(|| format!("strict decoding error: {}", said.join(", ")))
}

/// The same, of a body already parsed.
pub(crate) fn decode_value(kind: Kind, value: Value) -> Answer<Value> {
    check_type(kind, text(&value, "/apiVersion"), text(&value, "/kind"))?;
    normalise(kind, value)
}

/// Refuses an object that says it is of another kind or version.
fn check_type(kind: Kind, version: &str, named: &str) -> Answer<()> {
    if ["", kind.api_version].contains(&version) && ["", kind.kind].contains(&named) {
        return Ok(());
    }
    Err(unhandled(
        kind,
        &format!("it is a {named:?} in version {version:?}"),
    ))
}

/// The object as the real server would hold it: unknown fields gone, empty ones left out, defaults filled in.
fn normalise(kind: Kind, mut value: Value) -> Answer<Value> {
    normal::object(kind, &mut value)?;
    object_at(&mut value, "metadata");
    (kind.default)(&mut value);
    Ok(value)
}

/// Keeps what a kind does from the stored object on an update, before the checks.
pub(crate) fn prepare_update(kind: Kind, sub: Sub, new: &mut Value, old: &Value) {
    match sub {
        Sub::Main => {
            if kind.has_status() {
                keep(new, old, "status");
            }
            (kind.update)(new, old);
        }
        Sub::Status => keep(new, old, "spec"),
        Sub::Finalize => keep(new, old, "status"),
        Sub::Binding | Sub::Scale => {}
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

/// Checks an object about to be created.
pub(crate) fn check_create(kind: Kind, value: &Value) -> Answer<()> {
    let mut faults = Faults::default();
    metadata(&mut faults, value, kind.name_rule);
    (kind.check)(&mut faults, value, None);
    refuse(kind, value, faults)
}

/// Checks an object about to replace another.
pub(crate) fn check_update(kind: Kind, sub: Sub, new: &Value, old: &Value) -> Answer<()> {
    let mut faults = Faults::default();
    metadata_update(&mut faults, new, old);
    match sub {
        Sub::Main | Sub::Status => (kind.check)(&mut faults, new, Some(old)),
        Sub::Finalize | Sub::Binding | Sub::Scale => {}
    }
    refuse(kind, new, faults)
}

fn refuse(kind: Kind, value: &Value, faults: Faults) -> Answer<()> {
    if faults.0.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid(kind, text(value, "/metadata/name"), faults.0))
    }
}
