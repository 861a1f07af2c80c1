//! The wire: objects of the API, and the values of the core that are read from them. Nobody else knows an encoding.

mod json;

pub use json::decode::{
    Decode, DecodeError, Event, EventKind, Identity, ListEnd, ListReader, NamedNode, Namespaced, Undecodable,
    bookmark, event, identity, is_ours, list_version, object, object_version, status, version, versioned,
};
pub use json::{Json, Status};
