//! The fields that objects of several kinds have, as serde types. Unknown fields are skipped, never stored; strings borrow
//! from the buffer where they can. The server writes `null` for empty lists, so every list is optional.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A string that borrows from the input unless it holds escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Str<'a>(Cow<'a, str>);

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Str<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

/// A map of strings, in the order of the input.
#[derive(Clone, Debug, Default)]
pub(super) struct StrMap<'a>(pub(super) Vec<(Str<'a>, Str<'a>)>);

impl<'a> StrMap<'a> {
    /// Returns the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Str<'a>> {
        self.0.iter().find(|(k, _)| **k == *key).map(|(_, v)| v)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for StrMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = StrMap<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_unit<E>(self) -> Result<StrMap<'de>, E> {
                Ok(StrMap::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StrMap<'de>, A::Error> {
                let mut out = Vec::new();
                while let Some(key) = map.next_key::<Str<'de>>()? {
                    // A null value counts as an empty string, as in Go.
                    out.push((key, map.next_value::<Option<Str<'de>>>()?.unwrap_or_default()));
                }
                Ok(StrMap(out))
            }
        }
        deserializer.deserialize_any(MapVisitor)
    }
}

/// `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) name: Str<'a>,
    pub(super) namespace: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) resource_version: Str<'a>,
    pub(super) generate_name: Option<Str<'a>>,
    pub(super) creation_timestamp: Option<Str<'a>>,
    pub(super) deletion_timestamp: Option<Str<'a>>,
    pub(super) labels: StrMap<'a>,
    pub(super) annotations: StrMap<'a>,
    pub(super) owner_references: Option<Vec<Owner<'a>>>,
    pub(super) finalizers: Option<Vec<Str<'a>>>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) api_version: Str<'a>,
    pub(super) kind: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) controller: Option<bool>,
    pub(super) block_owner_deletion: Option<bool>,
}

/// An object of which only the metadata is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct MetaOnly<'a> {
    #[serde(borrow)]
    pub(super) metadata: Meta<'a>,
}

/// An object of which only the kind and the metadata are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct KindAndMeta<'a> {
    #[serde(borrow)]
    pub(super) kind: Str<'a>,
    pub(super) metadata: Meta<'a>,
}

/// An object of which only the identifying fields are read, so that no other field can make decoding fail.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IdentityOnly<'a> {
    #[serde(borrow)]
    pub(super) metadata: Identity<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Identity<'a> {
    #[serde(borrow)]
    pub(super) name: Str<'a>,
    pub(super) namespace: Str<'a>,
    pub(super) resource_version: Str<'a>,
}

/// The object of a bookmark event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Bookmark<'a> {
    #[serde(borrow)]
    pub(super) metadata: BookmarkMeta<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BookmarkMeta<'a> {
    #[serde(borrow)]
    pub(super) resource_version: Str<'a>,
    pub(super) annotations: StrMap<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
    pub(super) status: Str<'a>,
    pub(super) last_transition_time: Option<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SlicePort<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    pub(super) protocol: Option<Str<'a>>,
    pub(super) port: Option<i64>,
    pub(super) app_protocol: Option<Str<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TargetRef<'a> {
    #[serde(borrow)]
    pub(super) kind: Str<'a>,
    pub(super) namespace: Str<'a>,
    pub(super) name: Str<'a>,
    pub(super) uid: Str<'a>,
    pub(super) api_version: Option<Str<'a>>,
    pub(super) field_path: Option<Str<'a>>,
}

/// A list, or a page of one, without its items.
#[derive(Debug, Deserialize)]
pub(super) struct List {
    #[serde(default)]
    pub(super) metadata: ListMeta,
}

/// The metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    /// The version that the list shows.
    pub(super) resource_version: String,
    /// The token of the next page; empty on the last one.
    #[serde(rename = "continue")]
    pub(super) next: String,
}

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
    /// The message for people.
    pub message: String,
    /// Machine-readable details.
    pub details: Option<StatusDetails>,
}

impl Status {
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

/// A cause in a [`Status`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The machine-readable reason.
    pub reason: String,
}
