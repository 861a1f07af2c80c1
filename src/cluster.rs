//! The API server as a client sees it: decoding, lists and watches, writes.

mod cause;
pub(crate) mod client_error;
pub mod connect;
pub mod decode;
pub mod events;
pub mod fence;
pub(crate) mod http;
mod items;
pub(crate) mod kubeconfig;
pub mod lease;
mod lines;
pub(crate) mod objects;
mod pages;
pub mod read;
pub(crate) mod watch;
mod wire;

pub use wire::Status;
