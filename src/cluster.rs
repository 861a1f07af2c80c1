//! The API server as a client sees it: decoding, lists and watches, writes.

pub mod client_error;
pub mod connect;
pub mod decode;
pub mod events;
pub mod fence;
mod items;
pub mod kubeconfig;
pub mod lease;
pub mod objects;
mod pages;
pub mod read;
pub mod watch;
mod wire;

pub use wire::Status;

/// What is asked for in a request's `Accept`: whole objects.
const ACCEPT_JSON: &str = "application/json";
/// Their metadata only.
const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// The metadata only of what a list consists of.
const ACCEPT_METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
