//! Decoding: lists, watch events and answers, and what the decoders of all kinds share.

use super::items::ItemSplitter;
use super::wire::{self, BookmarkMeta, Str, StrMap};
use crate::core::address::parse_sloppy;
use crate::core::excerpt::Excerpt;
use crate::core::facts::{Extras, LABEL_MANAGED_BY, MANAGED_BY, NodeFacts, OwnerReference};
use crate::core::hints::NodeCapacity;
use crate::core::ids::Uid;
use crate::core::labels::Labels;
use crate::core::ports::{Protocol, SlicePort};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Annotation of the bookmark after the last object of a list that a watch began with.
const ANNOTATION_LISTED: &str = "k8s.io/initial-events-end";

/// Maximum length of an object's name.
const LONGEST_NAME: usize = 253;

/// Reasons why an object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The object does not match the schema.
    #[error("{}", malformed(.0))]
    Json(#[from] serde_json::Error),
    /// A required field is missing or malformed.
    #[error("{0} is missing or malformed")]
    Field(&'static str),
}

/// Describes malformed JSON. The library's own message quotes the text, which is of any length, and may be a proxy's;
/// only what was expected is taken from it.
fn malformed(error: &serde_json::Error) -> String {
    let place = format!(
        "malformed JSON at line {}, column {}",
        error.line(),
        error.column()
    );
    let text = error.to_string();
    // In the library's message, the text that was found comes first.
    let expected = text.rsplit_once(", expected ").filter(|_| error.is_data());
    let expected = expected.and_then(|(_, rest)| rest.rsplit_once(" at line "));
    match expected {
        Some((expected, _)) => format!("{place}: {} was expected", Excerpt::value(expected)),
        None => place,
    }
}

/// An object that is left out, since it cannot be decoded. Prints as one line.
#[derive(Debug, thiserror::Error)]
#[error("{}/{}: {error}", Excerpt::new(.namespace, LONGEST_NAME), Excerpt::new(.name, LONGEST_NAME))]
pub struct Undecodable {
    /// The object's namespace; empty if it has none, or not even that can be decoded.
    pub namespace: String,
    /// The object's name; empty if not even that can be decoded.
    pub name: String,
    /// The error.
    pub error: DecodeError,
}

impl Undecodable {
    /// Creates the error for an object of any kind.
    pub fn new(json: &[u8], error: DecodeError) -> Self {
        let named = serde_json::from_slice::<wire::IdentityOnly<'_>>(json);
        let (namespace, name) = named.map_or_else(
            |_| Default::default(),
            |object| {
                (
                    (*object.metadata.namespace).to_owned(),
                    (*object.metadata.name).to_owned(),
                )
            },
        );
        Self {
            namespace,
            name,
            error,
        }
    }
}

/// A type that is decoded from the wire.
pub trait Decode: Sized + Send + 'static {
    /// The wire form.
    type Wire<'a>: Deserialize<'a>;

    /// Cuts the wire form to facts. `namespace` is that of the object.
    fn decode(wire: Self::Wire<'_>) -> Result<Self, DecodeError>;

    /// Returns the resourceVersion in the wire form.
    fn version_of<'w>(wire: &'w Self::Wire<'_>) -> &'w str;
}

/// Facts, and the namespace of their object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespaced<T> {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// The facts.
    pub facts: T,
}

/// A node's facts and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedNode {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// The facts that endpoints depend on.
    pub facts: NodeFacts,
    /// The capacity that the node adds to its zone.
    pub capacity: NodeCapacity,
}

/// One object, decoded into two forms, so that the wire forms of facts need no fields for people.
#[derive(Debug)]
pub struct Twice<A, B>(pub(super) A, pub(super) B);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Twice<A, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(deserializer)?.get();
        let first = serde_json::from_str(json).map_err(D::Error::custom)?;
        let second = serde_json::from_str(json).map_err(D::Error::custom)?;
        Ok(Self(first, second))
    }
}

/// Decodes one object.
pub fn object<T: Decode>(json: &[u8]) -> Result<T, DecodeError> {
    T::decode(serde_json::from_slice(json)?)
}

/// Decodes the object that the data begin with. Returns its length too.
fn leading<T: Decode>(data: &[u8]) -> Option<(T, usize)> {
    let mut objects = serde_json::Deserializer::from_slice(data).into_iter::<T::Wire<'_>>();
    let object = T::decode(objects.next()?.ok()?).ok()?;
    Some((object, objects.byte_offset()))
}

/// Decodes a list as it arrives, item by item. An item that cannot be decoded does not affect the others.
#[derive(Debug)]
pub struct ListReader<T> {
    splitter: ItemSplitter,
    /// Decoded items that were not taken yet.
    pub items: Vec<T>,
    /// Items that could not be decoded, and why; not taken yet.
    pub errors: Vec<Undecodable>,
}

/// The metadata of a list, or of a page of one.
#[derive(Debug)]
pub struct ListEnd {
    /// The version that the list shows.
    pub version: String,
    /// The token of the next page; empty on the last one.
    pub next: String,
}

impl<T: Decode> Default for ListReader<T> {
    fn default() -> Self {
        Self {
            splitter: ItemSplitter::default(),
            items: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl<T: Decode> ListReader<T> {
    /// Adds data, and decodes the items that are complete now.
    pub fn feed(&mut self, data: &[u8]) {
        let Self {
            splitter,
            items,
            errors,
        } = self;
        splitter.feed(data);
        // Most items have arrived whole, and are parsed without a search for their end. One that has not, or that
        // cannot be parsed, is cut out first.
        while let Some(json) = splitter.next_item(|data| {
            let (item, length) = leading(data)?;
            items.push(item);
            Some(length)
        }) {
            match object(&json) {
                Ok(item) => items.push(item),
                Err(error) => errors.push(Undecodable::new(&json, error)),
            }
        }
    }

    /// Takes the items decoded, and the errors found, since this was last called.
    pub fn take(&mut self) -> (Vec<T>, Vec<Undecodable>) {
        (std::mem::take(&mut self.items), std::mem::take(&mut self.errors))
    }

    /// Returns the list's metadata, once all of it has been fed. Fails if it was not a list, or cut off.
    pub fn finish(self) -> Result<ListEnd, DecodeError> {
        let list: wire::List = serde_json::from_slice(&self.splitter.into_envelope())?;
        Ok(ListEnd {
            version: list.metadata.resource_version,
            next: list.metadata.next,
        })
    }
}

/// Parses a resourceVersion. Since 1.35 they may be compared as numbers.
pub fn version(text: &str) -> Result<u64, DecodeError> {
    text.parse()
        .map_err(|_| DecodeError::Field("metadata.resourceVersion"))
}

pub(super) fn required(text: &Str<'_>, field: &'static str) -> Result<Box<str>, DecodeError> {
    if text.is_empty() {
        Err(DecodeError::Field(field))
    } else {
        Ok((**text).into())
    }
}

pub(super) fn labels(map: &mut StrMap<'_>) -> Labels {
    Labels::new(&mut map.0)
}

pub(super) fn set<'s>(text: Option<&'s Str<'_>>) -> Option<&'s str> {
    text.map(|text| &**text).filter(|text| !text.is_empty())
}

/// Returns whether a slice is managed by this controller, by its managed-by label.
pub fn is_ours(json: &[u8]) -> Result<bool, DecodeError> {
    let object: wire::MetaOnly<'_> = serde_json::from_slice(json)?;
    Ok(object
        .metadata
        .labels
        .get(LABEL_MANAGED_BY)
        .is_some_and(|by| &**by == MANAGED_BY))
}

pub(super) fn slice_port(port: &wire::SlicePort<'_>) -> SlicePort {
    SlicePort {
        name: port.name.as_deref().map(Into::into),
        protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
        number: port.port.and_then(|number| u16::try_from(number).ok()),
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    }
}

/// Collects the metadata to preserve: `generateName`, finalizers, and all other owners and annotations than those
/// given.
pub(super) fn extras(wire: &wire::Meta<'_>, owner: Option<&str>, without: &[&str]) -> Extras {
    let annotations = wire
        .annotations
        .0
        .iter()
        .filter(|(key, _)| !without.contains(&&**key));
    let others = wire
        .owner_references
        .iter()
        .flatten()
        .filter(|o| Some(&*o.uid) != owner);
    Extras {
        generate_name: set(wire.generate_name.as_ref()).map(Into::into),
        annotations: annotations
            .map(|(key, value)| ((**key).into(), (**value).into()))
            .collect(),
        owners: others
            .map(|owner| OwnerReference {
                api_version: (*owner.api_version).into(),
                kind: (*owner.kind).into(),
                name: (*owner.name).into(),
                uid: (*owner.uid).into(),
                controller: owner.controller,
                block_owner_deletion: owner.block_owner_deletion,
            })
            .collect(),
        finalizers: wire
            .finalizers
            .iter()
            .flatten()
            .map(|name| (**name).into())
            .collect(),
    }
}

/// Returns an IP in canonical form, and any other text unchanged.
pub(super) fn canonical(text: &str) -> Box<str> {
    parse_sloppy(text).map_or_else(|| text.into(), |ip| ip.to_string().into())
}

/// Returns a reference if it is a plain one to a pod of the namespace.
pub(super) fn plain_pod<'r, 'a>(
    target: Option<&'r wire::TargetRef<'a>>,
    namespace: &str,
) -> Option<&'r wire::TargetRef<'a>> {
    target.filter(|target| {
        &*target.kind == "Pod"
            && &*target.namespace == namespace
            && set(target.api_version.as_ref()).is_none()
            && set(target.field_path.as_ref()).is_none()
    })
}

/// An event of a watch, not yet decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'a> {
    /// The event's type.
    pub kind: EventKind,
    /// The object's JSON.
    pub object: &'a [u8],
}

/// Types of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// `ADDED` or `MODIFIED`.
    Applied,
    /// `DELETED`.
    Deleted,
    /// `BOOKMARK`.
    Bookmark,
    /// `ERROR`: the object is a `Status`.
    Error,
}

/// A line of a watch in another spelling than that of API servers.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Splits a line of a watch without parsing the object.
pub fn event(line: &[u8]) -> Result<Event<'_>, DecodeError> {
    // The server writes the type first; then the object needs to be read only once.
    for (head, kind) in [
        (&br#"{"type":"MODIFIED","object":"#[..], EventKind::Applied),
        (br#"{"type":"ADDED","object":"#, EventKind::Applied),
        (br#"{"type":"DELETED","object":"#, EventKind::Deleted),
        (br#"{"type":"BOOKMARK","object":"#, EventKind::Bookmark),
        (br#"{"type":"ERROR","object":"#, EventKind::Error),
    ] {
        if let Some(object) = line.strip_prefix(head).and_then(|rest| rest.strip_suffix(b"}")) {
            return Ok(Event { kind, object });
        }
    }
    let line: Line<'_> = serde_json::from_slice(line)?;
    let kind = match &*line.kind {
        "ADDED" | "MODIFIED" => EventKind::Applied,
        "DELETED" => EventKind::Deleted,
        "BOOKMARK" => EventKind::Bookmark,
        "ERROR" => EventKind::Error,
        _ => return Err(DecodeError::Field("type")),
    };
    Ok(Event {
        kind,
        object: line.object.get().as_bytes(),
    })
}

/// Returns the version of a bookmark, and whether it ends the list that a watch began with.
pub fn bookmark(json: &[u8]) -> Result<(String, bool), DecodeError> {
    let bookmark: wire::Bookmark<'_> = serde_json::from_slice(json)?;
    let BookmarkMeta {
        resource_version,
        annotations,
    } = bookmark.metadata;
    let listed = annotations
        .get(ANNOTATION_LISTED)
        .is_some_and(|value| **value == *"true");
    Ok((resource_version.to_string(), listed))
}

/// Returns the version that a list shows.
pub fn list_version(json: &[u8]) -> Result<u64, DecodeError> {
    let list: wire::List = serde_json::from_slice(json)?;
    version(&list.metadata.resource_version)
}

/// Returns the resourceVersion of an object of any kind.
pub fn object_version(json: &[u8]) -> Result<String, DecodeError> {
    let object: wire::IdentityOnly<'_> = serde_json::from_slice(json)?;
    Ok(object.metadata.resource_version.to_string())
}

/// The identity of an object, as the answer to a request shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// `kind`, which is `PartialObjectMetadata` where only that was asked for.
    pub kind: Box<str>,
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, if it is a number.
    pub version: Option<u64>,
}

/// Returns the identity of an object of any kind.
pub fn identity(json: &[u8]) -> Result<Identity, DecodeError> {
    let object: wire::KindAndMeta<'_> = serde_json::from_slice(json)?;
    let meta = &object.metadata;
    Ok(Identity {
        kind: (*object.kind).into(),
        namespace: (*meta.namespace).into(),
        name: (*meta.name).into(),
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version).ok(),
    })
}

/// Decodes an object and its resourceVersion.
pub fn versioned<T: Decode>(json: &[u8]) -> Result<(T, String), DecodeError> {
    let wire: T::Wire<'_> = serde_json::from_slice(json)?;
    let version = T::version_of(&wire).to_owned();
    Ok((T::decode(wire)?, version))
}

/// Returns the sentence with which an API server refuses a request at an early stage (429 by its limit of requests in
/// flight), if the body is just that.
fn plain_refusal(body: &[u8]) -> Option<&'static str> {
    const BUSY: &str = "Too many requests, please try again later.";
    (body.trim_ascii() == BUSY.as_bytes()).then_some(BUSY)
}

/// Decodes a `Status`, and cuts its texts to a line each. Nothing is kept of any other body: a proxy that answers in
/// the server's place may quote the request with its credentials.
pub fn status(code: u16, body: &[u8]) -> wire::Status {
    let mut status = serde_json::from_slice::<wire::Status>(body)
        .ok()
        .filter(|status| status.kind == "Status")
        .unwrap_or_else(|| wire::Status {
            message: plain_refusal(body)
                .unwrap_or("the answer is not the API server's")
                .to_owned(),
            ..wire::Status::default()
        });
    status.reason = Excerpt::value(&status.reason).to_string();
    status.message = Excerpt::sentence(&status.message).to_string();
    if status.code == 0 {
        status.code = code;
    }
    status
}
