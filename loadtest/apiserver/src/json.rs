//! Reading and changing what is inside a JSON value.

use serde_json::{Map, Value};

/// Returns what a value has at a place. [`Value::pointer`] makes a text of each part, in case it holds escapes; a
/// pointer without escapes needs none for the fields of objects.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    match pointer.strip_prefix('/') {
        Some(path) if !path.contains('~') => path.split('/').try_fold(value, |value, part| match value {
            Value::Object(fields) => fields.get(part),
            other => other.pointer(&format!("/{part}")),
        }),
        _ => value.pointer(pointer),
    }
}

/// A text inside a value, empty when it is not there.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or("")
}

/// A whole number inside a value, 0 when it is not there.
pub(crate) fn number(value: &Value, pointer: &str) -> i64 {
    at(value, pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A list inside a value, empty when it is not there.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The texts of a list inside a value.
pub(crate) fn texts(value: &Value, pointer: &str) -> Vec<String> {
    let texts = list(value, pointer).iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// The objects of a list inside a value, to be changed.
pub(crate) fn objects_mut<'a>(
    value: &'a mut Value,
    pointer: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let items = value.pointer_mut(pointer).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Gives fields that are not there their defaults.
pub(crate) fn fill(fields: &mut Map<String, Value>, defaults: &[(&str, Value)]) {
    for (name, value) in defaults {
        if !fields.contains_key(*name) {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
}

/// The field of an object, made an object if it is none.
pub(crate) fn object_at<'a>(value: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !value.get(field).is_some_and(Value::is_object) {
        value[field] = Map::new().into();
    }
    value[field]
        .as_object_mut()
        .expect("it was made an object just now")
}

/// Takes the fields out that are null, all the way down: Go's decoder does not tell null from absent.
pub fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_place_is_found_as_serde_json_finds_it() {
        let value = json!({"a": {"b": [{"c": 1}, 2], "x/y": {"~": 3}, "": 4}, "0": 5});
        for pointer in
            ",/,a,/a,/a/b,/a/b/0/c,/a/b/1,/a/b/2,/a/b/x,/a/,/a/x~1y/~0,/0,/a/b/0/c/d,/a/b/+1,/a/b/01"
                .split(',')
        {
            assert_eq!(at(&value, pointer), value.pointer(pointer), "{pointer}");
        }
    }
}
