//! The fields that objects of several kinds have, as they are read, by number. Unknown fields are skipped, never stored;
//! texts borrow from the buffer.

use super::message::{Field, Malformed, Message, Raw, Value, bytes, message, read_into};
use crate::core::labels::Labels;
use crate::core::time::Time;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A text that borrows from the input unless it is not UTF-8 there.
pub(super) type Str<'a> = Cow<'a, str>;

/// A map of texts, in the order of the input. Most of its keys are never looked up.
#[derive(Clone, Debug, Default)]
pub(super) struct RawMap<'a>(Vec<(Raw<'a>, Raw<'a>)>);

impl RawMap<'_> {
    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<Cow<'_, str>> {
        self.value(key).map(Raw::text)
    }

    /// Returns whether a key has this value.
    pub(super) fn has(&self, key: &str, value: &str) -> bool {
        self.value(key).is_some_and(|own| own.is(value))
    }

    /// Returns whether a key has a value.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn value(&self, key: &str) -> Option<Raw<'_>> {
        self.0
            .iter()
            .find(|(own, _)| own.is(key))
            .map(|(_, value)| *value)
    }

    /// Returns the keys that begin with a prefix.
    pub(super) fn keys_with(&self, prefix: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let keys = self.0.iter().map(|(key, _)| *key);
        keys.filter(move |key| key.0.starts_with(prefix.as_bytes()))
            .map(Raw::text)
    }

    /// Returns the labels that these are.
    pub(super) fn labels(&self) -> Labels {
        Labels::new(&mut self.iter().collect::<Vec<_>>())
    }

    /// Returns all keys and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.0.iter().map(|(key, value)| (key.text(), value.text()))
    }
}

impl<'a> Field<'a> for RawMap<'a> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        push_entry(&mut self.0, number, value)
    }
}

/// The number of labels that an object usually has at most.
const USUAL: usize = 8;

/// A map of texts, in the order of the input.
#[derive(Clone, Debug, Default)]
pub(super) struct StrMap<'a>(pub(super) Vec<(Str<'a>, Str<'a>)>);

impl<'a> StrMap<'a> {
    /// Returns the labels that these are. Their order here may change.
    pub(super) fn labels(&mut self) -> Labels {
        Labels::new(&mut self.0)
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Str<'a>> {
        self.0.iter().find(|(k, _)| **k == *key).map(|(_, v)| v)
    }
}

impl<'a> Field<'a> for StrMap<'a> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        push_entry(&mut self.0, number, value)
    }
}

/// Adds an entry of a map.
fn push_entry<'a, T: Field<'a>>(
    pairs: &mut Vec<(T, T)>,
    number: u32,
    value: Value<'a>,
) -> Result<(), Malformed> {
    let mut entry = Entry::<T, T>::default();
    read_into(&mut entry, bytes(number, value)?)?;
    if pairs.capacity() == 0 {
        pairs.reserve(USUAL);
    }
    pairs.push((entry.key, entry.value));
    Ok(())
}

/// An entry of a map.
#[derive(Default)]
struct Entry<K, V> {
    key: K,
    value: V,
}

impl<'a, K: Field<'a>, V: Field<'a>> Message<'a> for Entry<K, V> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.key.merge(number, value),
            2 => self.value.merge(number, value),
            _ => Ok(()),
        }
    }
}

/// A map whose values are quantities.
#[derive(Clone, Debug, Default)]
pub(super) struct Quantities<'a>(pub(super) StrMap<'a>);

impl<'a> Field<'a> for Quantities<'a> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        let mut entry = Entry::<Str<'a>, Quantity<'a>>::default();
        read_into(&mut entry, bytes(number, value)?)?;
        self.0.0.push((entry.key, entry.value.text));
        Ok(())
    }
}

/// A quantity: its text, in a message of its own.
#[derive(Default)]
struct Quantity<'a> {
    text: Str<'a>,
}

message!('a, Quantity<'a> { 1 => text });

/// A point in time. Times that are read have whole seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timestamp {
    /// Seconds since 1970; none for Go's zero time.
    seconds: Option<i64>,
}

impl Timestamp {
    /// Returns the time, if it is within the range of [`Time`].
    pub(super) fn time(self) -> Option<Time> {
        let nanoseconds = self.seconds?.checked_mul(1_000_000_000)?;
        Some(Time::from_nanoseconds(nanoseconds))
    }
}

message!('a, Timestamp { 1 => seconds });

/// `metadata`.
#[derive(Debug, Default)]
pub(super) struct Meta<'a> {
    pub(super) name: Str<'a>,
    pub(super) namespace: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) resource_version: Str<'a>,
    pub(super) generate_name: Option<Str<'a>>,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) deletion_timestamp: Option<Timestamp>,
    pub(super) labels: RawMap<'a>,
    pub(super) annotations: RawMap<'a>,
    pub(super) owner_references: Vec<Owner<'a>>,
    pub(super) finalizers: Vec<Str<'a>>,
}

message!('a, Meta<'a> {
    1 => name, 2 => generate_name, 3 => namespace, 5 => uid, 6 => resource_version, 8 => creation_timestamp,
    9 => deletion_timestamp, 11 => labels, 12 => annotations, 13 => owner_references, 14 => finalizers,
});

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Default)]
pub(super) struct Owner<'a> {
    pub(super) api_version: Str<'a>,
    pub(super) kind: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) controller: Option<bool>,
    pub(super) block_owner_deletion: Option<bool>,
}

message!('a, Owner<'a> {
    1 => kind, 3 => name, 4 => uid, 5 => api_version, 6 => controller, 7 => block_owner_deletion,
});

/// An object of which only the metadata is read.
#[derive(Debug, Default)]
pub struct MetaOnly<'a> {
    pub(super) metadata: Meta<'a>,
}

message!('a, MetaOnly<'a> { 1 => metadata });

/// An object of which only the identifying fields are read, so that no other field can make decoding fail.
#[derive(Debug, Default)]
pub(super) struct IdentityOnly<'a> {
    pub(super) metadata: Identity<'a>,
}

message!('a, IdentityOnly<'a> { 1 => metadata });

#[derive(Debug, Default)]
pub(super) struct Identity<'a> {
    pub(super) name: Str<'a>,
    pub(super) namespace: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) resource_version: Str<'a>,
}

message!('a, Identity<'a> { 1 => name, 3 => namespace, 5 => uid, 6 => resource_version });

/// An object of which only its editors are read.
#[derive(Debug, Default)]
pub(super) struct Edited<'a> {
    pub(super) metadata: EditedMeta<'a>,
}

message!('a, Edited<'a> { 1 => metadata });

#[derive(Debug, Default)]
pub(super) struct EditedMeta<'a> {
    pub(super) managed_fields: Vec<ManagedFields<'a>>,
}

message!('a, EditedMeta<'a> { 17 => managed_fields });

/// An entry of `metadata.managedFields`.
#[derive(Debug, Default)]
pub(super) struct ManagedFields<'a> {
    pub(super) manager: Str<'a>,
    pub(super) time: Option<Timestamp>,
}

message!('a, ManagedFields<'a> { 1 => manager, 4 => time });

/// The object of a bookmark event.
#[derive(Debug, Default)]
pub(super) struct Bookmark<'a> {
    pub(super) metadata: BookmarkMeta<'a>,
}

message!('a, Bookmark<'a> { 1 => metadata });

#[derive(Debug, Default)]
pub(super) struct BookmarkMeta<'a> {
    pub(super) resource_version: Str<'a>,
    pub(super) annotations: StrMap<'a>,
}

message!('a, BookmarkMeta<'a> { 6 => resource_version, 12 => annotations });

#[derive(Debug, Default)]
pub(super) struct Condition<'a> {
    pub(super) kind: Raw<'a>,
    pub(super) status: Raw<'a>,
    pub(super) last_transition_time: Option<Timestamp>,
}

// Conditions of pods and of nodes.
message!('a, Condition<'a> { 1 => kind, 2 => status, 4 => last_transition_time });

#[derive(Debug, Default)]
pub(super) struct SlicePort<'a> {
    pub(super) name: Option<Str<'a>>,
    pub(super) protocol: Option<Str<'a>>,
    pub(super) port: Option<i64>,
    pub(super) app_protocol: Option<Str<'a>>,
}

message!('a, SlicePort<'a> { 1 => name, 2 => protocol, 3 => port, 4 => app_protocol });

#[derive(Debug, Default)]
pub(super) struct TargetRef<'a> {
    pub(super) kind: Str<'a>,
    pub(super) namespace: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) api_version: Option<Str<'a>>,
    pub(super) resource_version: Option<Str<'a>>,
    pub(super) field_path: Option<Str<'a>>,
}

message!('a, TargetRef<'a> {
    1 => kind, 2 => namespace, 3 => name, 4 => uid, 5 => api_version, 6 => resource_version, 7 => field_path,
});

/// A list, or a page of one, without its items.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) metadata: ListMeta,
}

message!('a, List { 1 => metadata });

/// The metadata of a list.
#[derive(Debug, Default)]
pub(super) struct ListMeta {
    /// The version that the list shows.
    pub(super) resource_version: String,
    /// The token of the next page; empty on the last one.
    pub(super) next: String,
}

message!('a, ListMeta { 2 => resource_version, 3 => next });

/// A `Status`, as in error answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Status`, unless something other than an API server wrote it.
    pub kind: String,
    /// `Success` or `Failure`.
    pub status: String,
    /// HTTP status.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: String,
    /// The human-readable message.
    pub message: String,
    /// Machine-readable details.
    pub details: Option<StatusDetails>,
    /// Its metadata.
    pub metadata: Option<StatusMeta>,
}

message!('a, Status { 1 => metadata, 2 => status, 3 => message, 4 => reason, 5 => details, 6 => code });

/// The metadata of a [`Status`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusMeta {
    /// In the answer to a delete, from Kubernetes 1.38 on: a version of the store at which the object is gone.
    pub resource_version: String,
}

message!('a, StatusMeta { 2 => resource_version });

impl Status {
    /// Returns the details, if they are about an object of this name.
    pub fn about(&self, name: &str) -> Option<&StatusDetails> {
        self.details.as_ref().filter(|details| details.name == name)
    }

    /// Returns the name of the object that is said not to exist.
    pub fn missing(&self) -> Option<&str> {
        let details = self
            .details
            .as_ref()
            .filter(|_| self.kind == "Status" && self.reason == "NotFound")?;
        Some(&*details.name).filter(|name| !name.is_empty())
    }

    /// Returns the pause that it asks for.
    pub fn pause(&self) -> Option<Duration> {
        // Protobuf writes a zero where JSON writes nothing.
        let seconds = self
            .details
            .as_ref()?
            .retry_after_seconds
            .filter(|seconds| *seconds > 0);
        seconds.map(Duration::from_secs)
    }

    /// Returns the version of the store at which a deleted object is gone, if the answer has one.
    pub fn version(&self) -> Option<u64> {
        self.metadata.as_ref()?.resource_version.parse().ok()
    }

    /// Returns whether the namespace is being deleted, and takes no new objects.
    pub fn is_of_terminating_namespace(&self) -> bool {
        let details = self.details.iter();
        let mut causes = details.flat_map(|details| details.causes.iter().flatten());
        causes.any(|cause| cause.reason == "NamespaceTerminating")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

/// The details of a [`Status`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The name of the object that the status is about.
    pub name: String,
    /// The API group of that object; empty for the core group, and where it is left out.
    pub group: String,
    /// The resource of that object in the plural; in some answers, its kind.
    pub kind: String,
    /// The exact causes.
    pub causes: Option<Vec<StatusCause>>,
    /// The number of seconds to wait before the next try.
    pub retry_after_seconds: Option<u64>,
}

message!('a, StatusDetails { 1 => name, 2 => group, 3 => kind, 4 => causes, 5 => retry_after_seconds });

/// A cause in a [`Status`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The machine-readable reason.
    pub reason: String,
}

message!('a, StatusCause { 1 => reason });
