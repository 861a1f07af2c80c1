//! Decoding: single objects, and what the decoders of all kinds share.

use super::envelope::{Envelope, MAGIC};
use super::fields::{self, Str};
use super::message::{Malformed, Message, Value, read, read_into};
use crate::core::address::parse_sloppy;
use crate::core::excerpt::Excerpt;
use crate::core::facts::{Extras, LABEL_MANAGED_BY, NodeFacts, ObjectReference, OwnerReference};
use crate::core::hints::NodeCapacity;
use crate::core::ids::Uid;
use crate::core::object::Editor;
use crate::core::ports::{Protocol, SlicePort};
use std::borrow::Cow;
use std::sync::Arc;

/// This program in `managedFields`: the beginning of its User-Agent.
const OURS: &str = env!("CARGO_PKG_NAME");
/// Maximum length of an object's name.
const LONGEST_NAME: usize = 253;

/// Reasons why an object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The message does not match the schema.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// A required field is missing or malformed.
    #[error("{0} is missing or malformed")]
    Field(&'static str),
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
    pub fn new(object: &[u8], error: DecodeError) -> Self {
        Self::in_list(Envelope::open_damaged(object).raw.0, error)
    }

    /// Creates the error for an item of a list. Its name stands at its beginning, and is found even if it
    /// is malformed later on.
    pub(super) fn in_list(message: &[u8], error: DecodeError) -> Self {
        let mut named = fields::IdentityOnly::default();
        let _ = read_into(&mut named, message);
        Self {
            namespace: named.metadata.namespace.to_string(),
            name: named.metadata.name.to_string(),
            error,
        }
    }
}

/// A type that is decoded from the wire.
pub trait Decode: Sized + Send + 'static {
    /// The wire form: the fields that are read.
    type Wire<'a>: Message<'a>;

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

/// One object, read into two forms, so that the wire forms of facts need no fields that only texts for users take up.
#[derive(Debug, Default)]
pub struct DecodedPair<A, B>(pub(super) A, pub(super) B);

impl<'a, A: Message<'a>, B: Message<'a>> Message<'a> for DecodedPair<A, B> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        self.0.field(number, value)?;
        self.1.field(number, value)
    }
}

/// Reads the fields of an object.
pub(super) fn wire<'a, W: Message<'a>>(object: &'a [u8]) -> Result<W, DecodeError> {
    Ok(read(Envelope::open(object)?.raw.0)?)
}

/// Decodes one object.
pub fn object<T: Decode>(object: &[u8]) -> Result<T, DecodeError> {
    T::decode(wire(object)?)
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

pub(super) fn set<'s>(text: Option<&'s Str<'_>>) -> Option<&'s str> {
    text.map(|text| &**text).filter(|text| !text.is_empty())
}

/// Returns whether the managed-by label of a slice names one of these controllers.
pub fn is_managed_by(object: &[u8], controllers: &[&str]) -> Result<bool, DecodeError> {
    let object: fields::MetaOnly<'_> = wire(object)?;
    Ok(object
        .metadata
        .labels
        .get(LABEL_MANAGED_BY)
        .is_some_and(|by| controllers.contains(&&*by)))
}

pub(super) fn slice_port(port: &fields::SlicePort<'_>) -> SlicePort {
    SlicePort {
        name: port.name.as_deref().map(Into::into),
        protocol: Protocol::from(port.protocol.as_deref().unwrap_or_default()),
        number: port.port.and_then(|number| u16::try_from(number).ok()),
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    }
}

/// Collects the metadata to preserve: `generateName`, finalizers, and all other owners and annotations than those
/// given.
pub(super) fn extras(wire: &fields::Meta<'_>, owner: Option<&str>, without: &[&str]) -> Extras {
    let annotations = wire.annotations.iter();
    let annotations = annotations.filter(|(key, _)| !without.contains(&&**key));
    let others = wire.owner_references.iter().filter(|o| Some(&*o.uid) != owner);
    Extras {
        generate_name: set(wire.generate_name.as_ref()).map(Into::into),
        annotations: annotations
            .map(|(key, value)| (key.into(), value.into()))
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
        finalizers: wire.finalizers.iter().map(|name| (**name).into()).collect(),
    }
}

/// Returns an IP in canonical form, and any other text unchanged.
pub(super) fn canonical(text: &str) -> Box<str> {
    parse_sloppy(text).map_or_else(|| text.into(), |ip| ip.to_string().into())
}

/// Returns a reference if it is a plain one to a pod of the namespace.
pub(super) fn plain_pod<'r, 'a>(
    target: Option<&'r fields::TargetRef<'a>>,
    namespace: &str,
) -> Option<&'r fields::TargetRef<'a>> {
    target.filter(|target| {
        &*target.kind == "Pod"
            && &*target.namespace == namespace
            && set(target.api_version.as_ref()).is_none()
            && set(target.field_path.as_ref()).is_none()
    })
}

/// Returns a reference, if it is not a plain one to a pod of the namespace or has a version: then it takes more than a
/// name and a UID to write it again.
pub(super) fn other_target(
    target: Option<&fields::TargetRef<'_>>,
    is_plain: bool,
) -> Option<Box<ObjectReference>> {
    let target = target.filter(|target| !is_plain || set(target.resource_version.as_ref()).is_some())?;
    let text = |text: &Option<Str<'_>>| set(text.as_ref()).unwrap_or_default().into();
    Some(Box::new(ObjectReference {
        kind: (*target.kind).into(),
        namespace: (*target.namespace).into(),
        name: (*target.name).into(),
        uid: (*target.uid).into(),
        api_version: text(&target.api_version),
        resource_version: text(&target.resource_version),
        field_path: text(&target.field_path),
    }))
}

/// Returns the version that a list shows.
pub fn list_version(list: &[u8]) -> Result<u64, DecodeError> {
    let list: fields::List = wire(list)?;
    version(&list.metadata.resource_version)
}

/// Returns the resourceVersion of an object of any kind.
pub fn object_version(object: &[u8]) -> Result<String, DecodeError> {
    let object: fields::IdentityOnly<'_> = wire(object)?;
    Ok(object.metadata.resource_version.to_string())
}

/// The identity of an object, as the answer to a request shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity<'a> {
    /// `kind`, which is `PartialObjectMetadata` where only that was asked for.
    pub kind: &'a str,
    /// `metadata.namespace`.
    pub namespace: Cow<'a, str>,
    /// `metadata.name`.
    pub name: Cow<'a, str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`, if it is a number.
    pub version: Option<u64>,
}

/// Returns the identity of an object of any kind.
pub fn identity(object: &[u8]) -> Result<Identity<'_>, DecodeError> {
    let envelope = Envelope::open(object)?;
    let fields::IdentityOnly { metadata: meta } = read(envelope.raw.0)?;
    Ok(Identity {
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version).ok(),
        kind: envelope.kind.kind,
        namespace: meta.namespace,
        name: meta.name,
    })
}

/// Returns the client that set fields of an object last, as its `managedFields` say. A client that has only removed fields is
/// not named there. Its name prints as a word.
pub fn last_editor(object: &[u8]) -> Editor {
    let Ok::<fields::Edited<'_>, _>(object) = wire(object) else {
        return Editor::Unknown;
    };
    let fields = object.metadata.managed_fields;
    let time = |by: &fields::ManagedFields<'_>| by.time.and_then(fields::Timestamp::time);
    let is_ours = |by: &&fields::ManagedFields<'_>| &*by.manager == OURS;
    // The times are whole seconds, so a write of ours in the same second may have come before or after. It was before:
    // the editor is not asked for if our own write was the last.
    let other = fields.iter().filter(|by| !is_ours(by)).max_by_key(|by| time(by));
    match (other, fields.iter().filter(is_ours).map(time).max()) {
        (None, None) => Editor::Unknown,
        (None, Some(_)) => Editor::Endpointd,
        (Some(other), Some(ours)) if time(other) < ours => Editor::Endpointd,
        (Some(other), _) if other.manager.is_empty() => Editor::Unknown,
        (Some(other), _) => Editor::Other(Excerpt::value(&other.manager).to_string().into()),
    }
}

/// Decodes an object and its resourceVersion.
pub fn versioned<T: Decode>(object: &[u8]) -> Result<(T, String), DecodeError> {
    let wire: T::Wire<'_> = wire(object)?;
    let version = T::version_of(&wire).to_owned();
    Ok((T::decode(wire)?, version))
}

/// Returns the sentence with which an API server refuses a request at an early stage (429 by its limit of requests in
/// flight), if the body is just that.
fn plain_refusal(body: &[u8]) -> Option<&'static str> {
    const BUSY: &str = "Too many requests, please try again later.";
    (body.trim_ascii() == BUSY.as_bytes()).then_some(BUSY)
}

/// Decodes a `Status`, which may be in JSON, and cuts its texts to a line each. Nothing is kept of any other body: a proxy that answers in
/// the server's place may quote the request with its credentials.
pub fn status(code: u16, body: &[u8]) -> fields::Status {
    let mut status = any_status(body)
        .filter(|status| status.kind == "Status")
        .unwrap_or_else(|| fields::Status {
            message: plain_refusal(body)
                .unwrap_or("the answer is not the API server's")
                .to_owned(),
            ..fields::Status::default()
        });
    status.reason = Excerpt::value(&status.reason).to_string();
    status.message = Excerpt::sentence(&status.message).to_string();
    if status.code == 0 {
        status.code = code;
    }
    status
}

fn any_status(body: &[u8]) -> Option<fields::Status> {
    if !body.starts_with(MAGIC) {
        return serde_json::from_slice(body).ok();
    }
    let envelope = Envelope::open(body).ok()?;
    Some(fields::Status {
        kind: envelope.kind.kind.to_owned(),
        ..read(envelope.raw.0).ok()?
    })
}
