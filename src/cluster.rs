//! The API server as a client sees it. [`connect`] creates clients. `watch` lists and watches, and [`read`] reads once.
//! `objects`, [`events`] and [`election`] send writes and judge their answers, behind the [`fence`]; [`codec`] encodes and
//! decodes. `scrape` is the exception: it reads from another endpointd.

mod cause;
pub mod codec;
pub mod connect;
pub mod election;
pub mod events;
pub mod fence;
pub(crate) mod http;
pub(crate) mod objects;
pub(crate) mod outage;
mod pages;
pub mod read;
pub(crate) mod scrape;
mod silence;
pub(crate) mod watch;

pub use codec::Status;
