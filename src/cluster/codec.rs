//! The wire: objects of the API, and the values of the core that are read from them and written as them. No other
//! module knows an encoding.
//!
//! Objects are read from JSON or protobuf: their first bytes tell which, whatever was asked for and whatever a proxy's
//! headers say. They are written in the [`Encoding`] that the writer chooses.

mod decode;
mod endpoints;
mod events;
mod fields;
mod json;
mod lists;
mod mirrored;
mod nodes;
mod pods;
mod protobuf;
mod services;
mod slices;
mod text;

pub use decode::{
    Decode, DecodeError, Identity, NamedNode, Namespaced, Undecodable, identity, is_managed_by, last_editor,
    list_version, object, object_version, status, version, versioned,
};
pub use events::{Event, EventKind, Events, bookmark, events, whole_events};
pub use fields::Status;
pub use lists::{ListEnd, ListReader};
pub use protobuf::envelope::TooLong;

use crate::core::body::{Encode, EndpointBody, EndpointsBody, SliceBody};
use crate::core::mirror::MirroredEndpoints;

/// The encodings of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    #[default]
    Protobuf,
}

impl Encoding {
    /// Returns the media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the encoding of an object, by its first bytes.
    pub fn of(object: &[u8]) -> Self {
        if object.starts_with(protobuf::envelope::MAGIC) {
            Self::Protobuf
        } else {
            Self::Json
        }
    }
}

impl Encode for Encoding {
    type Body = Vec<u8>;

    fn slice<'a>(&mut self, slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Vec<u8> {
        match self {
            Self::Json => slices::encode_json(slice),
            Self::Protobuf => slices::encode_protobuf(slice),
        }
    }

    fn mirrored(&mut self, slice: SliceBody<'_, MirroredEndpoints<'_>>) -> Vec<u8> {
        match self {
            Self::Json => mirrored::encode_json(slice),
            Self::Protobuf => mirrored::encode_protobuf(slice),
        }
    }

    fn endpoints(&mut self, endpoints: EndpointsBody<'_>) -> Vec<u8> {
        match self {
            Self::Json => endpoints::encode_json(&endpoints),
            Self::Protobuf => endpoints::encode_protobuf(&endpoints),
        }
    }

    fn size(body: &Vec<u8>) -> usize {
        body.len()
    }
}

#[cfg(test)]
mod tests;
