//! The API in JSON.

pub(super) mod decode;
pub(super) mod encode;
mod items;
mod wire;

pub use wire::Status;
