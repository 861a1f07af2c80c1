//! The API server as a client sees it: decoding, lists and watches, writes.

pub mod connect;
pub mod decode;
pub mod events;
mod items;
pub mod objects;
pub mod watch;
mod wire;

pub use wire::Status;
