//! The API server as a client sees it: decoding, lists and watches, writes.

mod cause;
pub(crate) mod client_error;
pub mod codec;
pub mod connect;
pub mod election;
pub mod encodings;

mod event_stream;
pub mod events;
pub mod fence;
pub(crate) mod http;

pub(crate) mod kubeconfig;
pub(crate) mod objects;
pub(crate) mod outage;
mod pages;
pub(crate) mod plugin;
pub(crate) mod plugin_errors;
mod proxy;
pub mod read;
pub(crate) mod scrape;
pub(crate) mod slice_changes;
pub mod transport;
pub(crate) mod watch;

pub use codec::Status;
