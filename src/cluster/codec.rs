//! The wire: objects of the API in protobuf (`application/vnd.kubernetes.protobuf`), and the values of the core that are
//! read from them and written as them. No other module knows the encoding.
//!
//! An object is an envelope (`runtime.Unknown`) behind four bytes. The envelope names the kind and holds the object's
//! message. Events of a watch are frames: a length and a message whose object is such an envelope again. Field numbers are
//! those of Kubernetes 1.36's `generated.proto` files; they never change.

mod decode;
mod encode;
mod endpoints;
mod envelope;
mod events;
mod fields;
mod lists;
mod message;
mod mirrored;
mod nodes;
mod pods;
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
pub use message::Malformed;

use crate::core::body::{Encode, EndpointBody, EndpointsBody, SliceBody};
use crate::core::mirror::MirroredEndpoints;

/// Writes objects in protobuf.
#[derive(Clone, Copy, Debug)]
pub struct Protobuf;

impl Encode for Protobuf {
    type Body = Vec<u8>;

    fn slice<'a>(&mut self, slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Vec<u8> {
        slices::encode(slice)
    }

    fn mirrored(&mut self, slice: SliceBody<'_, MirroredEndpoints<'_>>) -> Vec<u8> {
        mirrored::encode(slice)
    }

    fn endpoints(&mut self, endpoints: EndpointsBody<'_>) -> Vec<u8> {
        endpoints::encode(&endpoints)
    }

    fn size(body: &Vec<u8>) -> usize {
        body.len()
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "../../tests/support/protobuf.rs"]
pub(super) mod protobuf;
#[cfg(test)]
mod tests;
