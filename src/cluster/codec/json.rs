//! The API in JSON: `application/json`.

pub(super) mod encode;
pub(super) mod list;
