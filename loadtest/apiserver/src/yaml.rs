//! YAML texts of several documents.

use serde_json::Value;

/// The documents of a text; empty ones are left out.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}

/// The objects as documents of one text.
pub(crate) fn print<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let mut text = String::new();
    for object in objects {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&serde_saphyr::to_string(object).expect("a JSON value is a YAML value"));
    }
    text
}
