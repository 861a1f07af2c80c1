//! Encoding: what objects of all kinds share.
//!
//! A slice has up to 1,000 endpoints and is written whole, so this is the most expensive part of a change. Serde's
//! writer looks up each byte of a text in a table to escape it, which takes two thirds of the instructions of a body.
//! Here a text is scanned in one go, and only one that needs escaping takes that path.

use crate::cluster::codec::text::IpText;
use crate::core::body::{Metadata, PodReference};
use crate::core::facts::OwnerReference;
use crate::core::ids::Uid;
use crate::core::ports::SlicePort;
use serde::Serialize;
use std::io::Write as _;
use std::net::IpAddr;

pub(in crate::cluster::codec) fn push_metadata(out: &mut Vec<u8>, metadata: &Metadata<'_>) {
    push_field(out, br#"{"name":"#, Some(metadata.name));
    push_field(out, br#","generateName":"#, metadata.generate_name().as_deref());
    push_field(out, br#","namespace":"#, Some(metadata.namespace));
    if let Some(remote) = metadata.remote {
        out.extend_from_slice(br#","uid":"#);
        push_uid(out, &remote.uid);
        push_value(out, format_args!(r#","resourceVersion":"{}""#, remote.version));
    }
    push_map(out, br#","labels":{"#, metadata.labels());
    push_map(out, br#","annotations":{"#, metadata.annotations());
    let mut owners = metadata.owners().peekable();
    if owners.peek().is_some() {
        out.extend_from_slice(br#","ownerReferences":"#);
        push_all(out, owners, |out, owner| {
            push_serialized::<OwnerReference>(out, &owner);
        });
    }
    if !metadata.finalizers().is_empty() {
        out.extend_from_slice(br#","finalizers":"#);
        push_all(out, metadata.finalizers(), |out, text| push_text(out, text));
    }
    if metadata.clears_managed_fields() {
        out.extend_from_slice(br#","managedFields":[{}]"#);
    }
    out.push(b'}');
}

/// Appends a map, unless it is empty.
fn push_map<V: AsRef<str>>(
    out: &mut Vec<u8>,
    open: &[u8],
    pairs: impl Iterator<Item = (impl AsRef<str>, V)>,
) {
    let mut before = open;
    for (key, value) in pairs {
        push_field(out, before, Some(key.as_ref()));
        push_field(out, b":", Some(value.as_ref()));
        before = b",";
    }
    if before != open {
        out.push(b'}');
    }
}

pub(in crate::cluster::codec) fn push_port(out: &mut Vec<u8>, port: &SlicePort) {
    push_serialized(out, port);
}

/// Appends a list.
pub(in crate::cluster::codec) fn push_all<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    push: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push(out, item);
    }
    out.push(b']');
}

pub(in crate::cluster::codec) fn push_serialized<T: Serialize>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("strings and numbers can always be written to memory");
}

fn push_value(out: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    out.write_fmt(value).expect("memory takes all that is written");
}

/// Returns what all references to pods begin with.
pub(in crate::cluster::codec) fn target_head(namespace: &str) -> Vec<u8> {
    let mut head = Vec::new();
    push_field(
        &mut head,
        br#","targetRef":{"kind":"Pod","namespace":"#,
        Some(namespace),
    );
    head.extend_from_slice(br#","name":"#);
    head
}

pub(in crate::cluster::codec) fn push_target(out: &mut Vec<u8>, head: &[u8], target: PodReference<'_>) {
    out.extend_from_slice(head);
    push_text(out, target.name);
    out.extend_from_slice(br#","uid":"#);
    push_uid(out, target.uid);
    out.push(b'}');
}

fn push_uid(out: &mut Vec<u8>, uid: &Uid) {
    match uid {
        Uid::Text(text) => push_text(out, text),
        Uid::Uuid(bytes) => {
            out.push(b'"');
            out.extend_from_slice(&Uid::spelled(bytes));
            out.push(b'"');
        }
    }
}

pub(in crate::cluster::codec) fn push_field(out: &mut Vec<u8>, key: &[u8], text: Option<&str>) {
    if let Some(text) = text {
        out.extend_from_slice(key);
        push_text(out, text);
    }
}

pub(in crate::cluster::codec) fn push_bool(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(in crate::cluster::codec) fn push_text(out: &mut Vec<u8>, text: &str) {
    // There is no early exit, so that many bytes are examined in one step.
    let escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        push_serialized(out, &text);
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

pub(in crate::cluster::codec) fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    out.push(b'"');
    IpText::new(ip).push_to(out);
    out.push(b'"');
}
