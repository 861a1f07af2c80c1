//! Requests that kubectl sends and controllers do not: tables, documents of the `OpenAPI`, and strategic merge patches.
//!
//! The rest of the crate reaches them by the names below alone; without the feature, `without_kubectl.rs` has the same names.

mod openapi;
mod strategic;
mod table;

pub(crate) use self::openapi::document as openapi;
pub(crate) use self::table::Style;

use crate::kinds::Kind;
use crate::status::{Answer, Refusal};
use serde_json::Value;

/// The media type of strategic merge patches.
pub(crate) const STRATEGIC: Option<&str> = Some("application/strategic-merge-patch+json");

/// Merges a strategic merge patch into an object.
pub(crate) fn merge_strategically(kind: Kind, into: &mut Value, patch: Value) -> Answer<()> {
    strategic::patch(kind, into, patch).map_err(|fault| match fault {
        strategic::Fault::NoKey { .. } => Refusal::internal(&fault.to_string()),
        _ => Refusal::bad_request(fault.to_string()),
    })
}
