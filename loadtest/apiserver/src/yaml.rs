//! YAML texts of several documents.

use serde_json::Value;

/// The documents of a text; empty ones are left out.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}
