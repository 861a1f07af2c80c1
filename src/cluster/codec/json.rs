//! The API in JSON.

pub(super) mod decode;
pub(super) mod encode;
mod endpoints;
mod items;
mod nodes;
mod pods;
mod services;
mod slices;
mod wire;

pub use wire::Status;
