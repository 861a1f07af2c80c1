//! Kubernetes' protobuf: the form in which client-go reads and writes the kinds that every server has.
//!
//! Objects are stored as JSON. Their messages are made from it, and read into it, by the same table that says what JSON
//! they have (`schema.txt`): it holds the number of each field, and which fields Go writes though they are empty.
//! The bytes are those of Kubernetes' generated Go code, so that an answer is the real server's byte for byte.

mod decode;
mod encode;
mod envelope;
mod spoil;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod wire;

pub(crate) use self::decode::decode;
pub(crate) use self::encode::{Encoder, encode};
pub(crate) use self::envelope::{Type, event_object, event_type, frame_len, open, write_event, write_object};
pub(crate) use self::spoil::{malformed, wrong_type};
pub(crate) use self::wire::{Fault, field_len, metadata_of, put_field, put_field_head};

use crate::json::text;
use crate::schema::SCHEMA;
use crate::status::Refusal;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

/// The media type of requests and answers.
pub(crate) const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub(crate) const WATCH_MEDIA: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The types that have a message and are not stored.
const MADE: [&str; 4] = [
    "Status",
    "TokenReview",
    "SubjectAccessReview",
    "SelfSubjectAccessReview",
];

/// The message of something that is not stored; none when it has no message.
pub(crate) fn made(value: &Value) -> Option<Bytes> {
    let kind = text(value, "/kind");
    MADE.contains(&kind)
        .then(|| encode(SCHEMA.named(kind), value.to_string().as_bytes()))
}

/// The type that an object says it is of.
pub(crate) fn type_of(value: &Value) -> Type<'_> {
    Type {
        api_version: text(value, "/apiVersion"),
        kind: text(value, "/kind"),
    }
}

/// A frame that tells of a refusal.
pub(crate) fn error_event(status: &Value) -> Bytes {
    let mut out = BytesMut::new();
    write_event(&mut out, "ERROR", Type::STATUS, &made(status).unwrap_or_default());
    out.freeze()
}

/// The object that a body holds, in JSON or in protobuf; none if it is neither. For tests that look at what a client
/// sends, and at what it is answered.
pub fn object_of(body: &[u8]) -> Option<Value> {
    let Ok(opened) = open(body) else {
        return serde_json::from_slice(body).ok();
    };
    let index = SCHEMA.find(&opened.kind)?;
    let mut value = decode(index, opened.raw).ok()?;
    value["apiVersion"] = opened.api_version.into();
    value["kind"] = opened.kind.into();
    Some(value)
}

/// Splits a piece of a watch into its events, each whole: lines of JSON, or frames of protobuf behind their lengths. If
/// the last event is not whole, its beginning is the last item.
pub fn split_events(mut piece: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    while let Some(&first) = piece.first() {
        let end = if first == 0 {
            frame_len(piece)
        } else {
            piece.iter().position(|&byte| byte == b'\n').map(|end| end + 1)
        };
        let (event, rest) = piece.split_at(end.unwrap_or(piece.len()));
        events.push(event);
        piece = rest;
    }
    events
}

/// The type and the object of a watch's event, in JSON or in protobuf; none if it is neither. For tests that look at
/// what a client is shown.
pub fn event_of(event: &[u8]) -> Option<(String, Value)> {
    if event.first() == Some(&0) {
        let change = String::from_utf8(event_type(event).to_vec()).ok()?;
        return Some((change, object_of(event_object(event)?)?));
    }
    let mut value: Value = serde_json::from_slice(event).ok()?;
    let change = value["type"].as_str()?.to_owned();
    Some((change, value["object"].take()))
}

/// Decodes a request's body, with the kind and version that its envelope names; the message must be of this type.
pub(crate) fn read(bytes: &[u8], name: &str) -> Result<Value, Fault> {
    let opened = open(bytes)?;
    let mut value = decode(SCHEMA.named(name), opened.raw)?;
    value["apiVersion"] = opened.api_version.into();
    value["kind"] = opened.kind.into();
    Ok(value)
}

/// A body that is nothing of this kind.
pub(crate) fn unrecognised(kind: &str, why: &str) -> Box<Refusal> {
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why}"
    ))
}
