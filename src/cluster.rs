//! The API server as a client sees it: decoding, lists and watches, writes.

pub mod client_error;
pub mod connect;
pub mod decode;
pub mod events;
pub mod fence;
mod http;
mod items;
pub mod kubeconfig;
pub mod lease;
pub mod objects;
mod pages;
pub mod read;
pub mod watch;
mod wire;

pub use wire::Status;
