//! An object as it is kept: its JSON once, and the few facts that are asked for without reading it.

use crate::json::{number, text};
use crate::kinds::{Facts, Kind, selectable};
use crate::protobuf::{self, Encoder, Type};
use crate::schema::SCHEMA;
use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The order in which Go writes metadata.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// A stored object; immutable, shared by the store, the history and the responses being written.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    /// `namespace/name`, or `name` for what has no namespace: the storage order of the real server.
    pub(crate) key: Arc<str>,
    name_at: usize,
    pub(crate) uid: u128,
    pub(crate) rv: u64,
    /// Sorted by key.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of the kind's selectable fields, in their order.
    pub(crate) fields: Box<[Box<str>]>,
    pub(crate) owners: Box<[Owner]>,
    pub(crate) deleting: bool,
    pub(crate) bytes: Bytes,
    rv_at: usize,
    meta_end: usize,
    message_len: MessageLen,
}

/// The length of an object's message, once it is known; 0 until then.
#[derive(Debug, Default)]
struct MessageLen(AtomicU32);

impl Clone for MessageLen {
    /// A copy is made to be changed.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// An owner reference; the uid only when it is one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    api_version: Box<str>,
    kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Option<u128>,
    pub(crate) blocks: bool,
}

/// An object that has no version yet: all but the version is serialised.
#[derive(Debug)]
pub(crate) struct Draft {
    kind: Kind,
    key: Arc<str>,
    name_at: usize,
    uid: u128,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[Box<str>]>,
    owners: Box<[Owner]>,
    deleting: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The metadata's end, counted in `tail`.
    meta_tail: usize,
}

/// `namespace/name` or `name`.
pub(crate) fn key_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Begins the next generation of an object.
pub(crate) fn next_generation(new: &mut Value, old: &Value) {
    new["metadata"]["generation"] = (number(old, "/metadata/generation") + 1).into();
}

/// A uid as a number; none for what is not in the form this server gives.
pub(crate) fn parse_uid(uid: &str) -> Option<u128> {
    if uid.len() != 36 {
        return None;
    }
    let mut n = 0u128;
    for (i, c) in uid.bytes().enumerate() {
        match (i, c) {
            (8 | 13 | 18 | 23, b'-') => {}
            (8 | 13 | 18 | 23, _) => return None,
            _ => n = n << 4 | u128::from(char::from(c).to_digit(16)?),
        }
    }
    Some(n)
}

pub(crate) fn format_uid(uid: u128) -> String {
    let hex = format!("{uid:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

impl Draft {
    /// Serialises `value`, which must be complete but for its resourceVersion.
    pub(crate) fn new(kind: Kind, value: &Value) -> Self {
        let name = text(value, "/metadata/name");
        let namespace = text(value, "/metadata/namespace");
        let key = key_of(namespace, name);
        let mut head = prefix(kind).into_bytes();
        let mut tail = Vec::with_capacity(1024);
        head.extend_from_slice(b"\"metadata\":");
        let empty = Map::new();
        let metadata = value.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut out = &mut head;
        let mut open = b'{';
        for field in METADATA {
            if field == "resourceVersion" {
                out.push(open);
                out.extend_from_slice(b"\"resourceVersion\":\"");
                open = b',';
                out = &mut tail;
                out.push(b'"');
            } else if let Some(part) = metadata.get(field) {
                out.push(open);
                open = b',';
                write_entry(out, field, part);
            }
        }
        out.push(b'}');
        let meta_tail = out.len();
        for (field, part) in value.as_object().unwrap_or(&empty) {
            if !matches!(field.as_str(), "kind" | "apiVersion" | "metadata") {
                out.push(b',');
                write_entry(out, field, part);
            }
        }
        out.push(b'}');
        Self {
            kind,
            name_at: key.len() - name.len(),
            key: key.into(),
            uid: parse_uid(text(value, "/metadata/uid")).unwrap_or(0),
            labels: labels_of(metadata),
            fields: kind.fields.iter().map(|field| selectable(value, field)).collect(),
            owners: owners_of(metadata),
            deleting: metadata.contains_key("deletionTimestamp"),
            head,
            tail,
            meta_tail,
        }
    }

    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.key[..self.name_at.saturating_sub(1)]
    }

    /// The object at the version it was given.
    pub(crate) fn seal(self, rv: u64) -> Arc<Object> {
        let digits = rv.to_string();
        let mut bytes = BytesMut::with_capacity(self.head.len() + digits.len() + self.tail.len());
        bytes.extend_from_slice(&self.head);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.tail);
        Arc::new(Object {
            kind: self.kind,
            key: self.key,
            name_at: self.name_at,
            uid: self.uid,
            rv,
            labels: self.labels,
            fields: self.fields,
            owners: self.owners,
            deleting: self.deleting,
            bytes: bytes.freeze(),
            rv_at: self.head.len(),
            meta_end: self.head.len() + digits.len() + self.meta_tail,
            message_len: MessageLen::default(),
        })
    }
}

fn write_entry(out: &mut Vec<u8>, field: &str, part: &Value) {
    out.push(b'"');
    out.extend_from_slice(field.as_bytes());
    out.extend_from_slice(b"\":");
    serde_json::to_writer(out, part).expect("a JSON value always serialises");
}

fn prefix(kind: Kind) -> String {
    format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
        kind.kind, kind.api_version
    )
}

fn prefix_len(kind: Kind) -> usize {
    kind.kind.len() + kind.api_version.len() + r#"{"kind":"","apiVersion":"","#.len()
}

fn labels_of(metadata: &Map<String, Value>) -> Box<[(Box<str>, Box<str>)]> {
    let Some(labels) = metadata.get("labels").and_then(Value::as_object) else {
        return Box::default();
    };
    let mut pairs: Vec<(Box<str>, Box<str>)> = labels
        .iter()
        .map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or("").into()))
        .collect();
    pairs.sort_unstable();
    pairs.into()
}

fn owners_of(metadata: &Map<String, Value>) -> Box<[Owner]> {
    let references = metadata.get("ownerReferences").and_then(Value::as_array);
    let owner = |reference: &Value| Owner {
        api_version: text(reference, "/apiVersion").into(),
        kind: text(reference, "/kind").into(),
        name: text(reference, "/name").into(),
        uid: parse_uid(text(reference, "/uid")),
        blocks: reference
            .get("blockOwnerDeletion")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    };
    references
        .map(|r| r.iter().map(owner).collect())
        .unwrap_or_default()
}

impl Owner {
    /// Whether the reference is to an object of this kind.
    pub(crate) fn is_of(&self, kind: Kind) -> bool {
        *self.kind == *kind.kind && *self.api_version == *kind.api_version
    }
}

impl Object {
    pub(crate) fn name(&self) -> &str {
        &self.key[self.name_at..]
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.key[..self.name_at.saturating_sub(1)]
    }

    /// The object as a value, to be changed.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes).expect("stored bytes are JSON this server wrote")
    }

    /// The object as a value, in the form that requests are brought into: without kind and version.
    pub(crate) fn content(&self) -> Value {
        let mut value = self.value();
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| name != "kind" && name != "apiVersion");
        }
        value
    }

    /// The same state at another version: how a deletion is told.
    pub(crate) fn at_version(&self, rv: u64) -> Arc<Self> {
        let old = self.rv.to_string().len();
        let digits = rv.to_string();
        let mut bytes = BytesMut::with_capacity(self.bytes.len() + digits.len());
        bytes.extend_from_slice(&self.bytes[..self.rv_at]);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.bytes[self.rv_at + old..]);
        Arc::new(Self {
            rv,
            bytes: bytes.freeze(),
            meta_end: self.meta_end + digits.len() - old,
            ..self.clone()
        })
    }

    /// The type that the object's envelope names.
    pub(crate) fn message_type(&self) -> Type<'static> {
        let Facts {
            api_version, kind, ..
        } = *self.kind;
        Type { api_version, kind }
    }

    /// The object in protobuf, without its envelope. It is made anew each time.
    pub(crate) fn message(&self) -> Bytes {
        protobuf::encode(SCHEMA.root(self.kind), &self.bytes)
    }

    /// The same, in an encoder's buffer.
    pub(crate) fn message_in<'e>(&self, encoder: &'e mut Encoder) -> &'e [u8] {
        let message = encoder.encode(SCHEMA.root(self.kind), &self.bytes);
        self.message_len.0.store(message.len() as u32, Ordering::Relaxed);
        message
    }

    /// The length of the object in protobuf, which is remembered.
    pub(crate) fn message_len(&self, encoder: &mut Encoder) -> usize {
        match self.message_len.0.load(Ordering::Relaxed) {
            0 => self.message_in(encoder).len(),
            len => len as usize,
        }
    }

    /// The object's `PartialObjectMetadata` in protobuf, without its envelope.
    pub(crate) fn metadata_message(&self) -> Bytes {
        let metadata = protobuf::encode(SCHEMA.named("ObjectMeta"), self.metadata());
        let mut out = BytesMut::with_capacity(metadata.len() + 8);
        protobuf::put_field(&mut out, 1, &metadata);
        out.freeze()
    }

    /// The metadata in JSON.
    fn metadata(&self) -> &[u8] {
        &self.bytes[prefix_len(self.kind) + r#""metadata":"#.len()..self.meta_end]
    }

    /// Writes the whole object.
    pub(crate) fn write(&self, out: &mut BytesMut, metadata_only: bool) {
        if metadata_only {
            out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#);
            out.extend_from_slice(&self.bytes[prefix_len(self.kind)..self.meta_end]);
            out.extend_from_slice(b"}");
        } else {
            out.extend_from_slice(&self.bytes);
        }
    }

    /// Writes the object as an item of a list, where the real server leaves kind and version out.
    pub(crate) fn write_item(&self, out: &mut BytesMut, metadata_only: bool) {
        if metadata_only {
            self.write(out, metadata_only);
        } else {
            out.extend_from_slice(b"{");
            out.extend_from_slice(&self.bytes[prefix_len(self.kind)..]);
        }
    }
}
