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

pub(crate) use self::normal::unknown_fields;

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

/// Reads a body that should be an object of `kind`. Unknown fields are dropped as Go's decoder does.
pub(crate) fn decode(kind: Kind, body: Body<'_>, strict: bool) -> Answer<Value> {
    let body = match body.media {
        Media::Json => body.bytes,
        Media::Protobuf => return decode_message(kind, body.bytes),
    };
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
            kind.kind
        ))
    })?;
    if strict && let Some(why) = strict_fault(kind, &value) {
        return Err(Refusal::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
            kind.kind,
            kind.version()
        )));
    }
    decode_value(kind, value)
}

/// Reads a body in protobuf. Strictness is for text alone.
fn decode_message(kind: Kind, body: &[u8]) -> Answer<Value> {
    let opened =
        protobuf::open(body).map_err(|fault| protobuf::unrecognised(kind.kind, &fault.to_string(), body))?;
    check_type(kind, &opened.api_version, &opened.kind)?;
    let value = protobuf::decode(SCHEMA.root(kind), opened.raw);
    let value = value.map_err(|fault| {
        Refusal::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: {fault}",
            kind.kind,
            kind.version()
        ))
    })?;
    normalise(kind, value)
}

/// Returns the message about fields that the kind does not have, for a client that asked for strictness.
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
    if !value.is_object() {
        return Err(Refusal::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {} into Go value of type struct",
            kind.kind,
            normal::json_type(&value)
        )));
    }
    check_type(kind, text(&value, "/apiVersion"), text(&value, "/kind"))?;
    normalise(kind, value)
}

/// Refuses an object that says it is of another kind or version.
fn check_type(kind: Kind, version: &str, named: &str) -> Answer<()> {
    let wanted = kind.api_version;
    if (!version.is_empty() && version != wanted) || (!named.is_empty() && named != kind.kind) {
        let version = if version.is_empty() { wanted } else { version };
        let named = if named.is_empty() { kind.kind } else { named };
        let go = |version: &str, kind: &str| match version.split_once('/') {
            Some((group, _)) => format!("{}.{kind}", group.split('.').next().unwrap_or(group)),
            None => format!("core.{kind}"),
        };
        return Err(Refusal::bad_request(format!(
            "{named} in version \"{version}\" cannot be handled as a {}: converting ({}.{named}) to ({}): \
             unknown conversion",
            kind.kind,
            version.rsplit('/').next().unwrap_or(version),
            go(wanted, kind.kind)
        )));
    }
    Ok(())
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
        Sub::Status => {
            keep(new, old, "spec");
            (kind.update_status)(new, old);
        }
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
        Sub::Main => (kind.check)(&mut faults, new, Some(old)),
        Sub::Status => (kind.check_status)(&mut faults, new),
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
