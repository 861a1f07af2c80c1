//! The API server as a client sees it: decoding, lists and watches, writes.

pub(crate) mod client_error;
pub mod connect;
pub mod decode;
pub mod events;
pub mod fence;
mod http;
mod items;
pub(crate) mod kubeconfig;
pub mod lease;
pub(crate) mod objects;
mod pages;
pub mod read;
pub(crate) mod watch;
mod wire;

pub use wire::Status;
