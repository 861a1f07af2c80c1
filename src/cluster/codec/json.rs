//! The API in JSON.

pub(super) mod decode;
mod items;
mod wire;

pub use wire::Status;
