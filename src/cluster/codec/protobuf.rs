//! The API in protobuf: `application/vnd.kubernetes.protobuf`.
//!
//! An object is an envelope (`runtime.Unknown`) behind four bytes that no JSON begins with. The envelope names the kind
//! and holds the object's message. Events of a watch are frames: a length and a message whose object is such an
//! envelope again. Field numbers are those of Kubernetes 1.36's `generated.proto` files; they never change.

pub(super) mod encode;
pub(super) mod envelope;
pub(super) mod list;
pub(super) mod message;
