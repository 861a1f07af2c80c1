//! Patches as they come: which kind it is, and what it is allowed to ask.

use crate::kubectl::STRATEGIC;
use crate::managed;
use crate::query::Query;
use crate::reply::media_type;
use crate::status::{Answer, Refusal};
use crate::write::Change;
use http::request::Parts;
use serde_json::Value;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Reads the patch of a request.
pub(crate) fn read(parts: &Parts, query: &Query, body: &[u8]) -> Answer<Change> {
    let media = media_type(parts, &[JSON, MERGE, STRATEGIC, APPLY])?;
    if media == APPLY {
        if query.text("fieldManager").is_empty() {
            let why = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
            return Err(Box::new(Refusal::new(422, "Invalid", why)));
        }
        return Ok(Change::Apply(managed::configuration(body)?));
    }
    let bad = |error: serde_json::Error| Refusal::bad_request(format!("error decoding patch: {error}"));
    if media == JSON {
        return Ok(Change::Json(serde_json::from_slice(body).map_err(bad)?));
    }
    let patch: Value = serde_json::from_slice(body).map_err(bad)?;
    if !patch.is_object() {
        return Err(Refusal::bad_request(
            "error decoding patch: a merge patch must be an object",
        ));
    }
    Ok(if media == MERGE {
        Change::Merge(patch)
    } else {
        Change::Strategic(patch)
    })
}
