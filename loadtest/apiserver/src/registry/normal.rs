//! The form in which objects are kept: that of Go's encoder, after Go's decoder.
//!
//! Unknown fields go, empty ones are left out where Go leaves them out, and a value of the wrong type is refused.

use super::unhandled;
use crate::kinds::Kind;
use crate::schema::{Field, Rule, SCHEMA, Schema, Shape};
use crate::status::Answer;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// A value that its field cannot have.
struct Fault {
    why: String,
    /// From the inside to the outside.
    path: Vec<&'static str>,
}

/// Brings an object into the form in which it is kept.
pub(crate) fn object(kind: Kind, value: &mut Value) -> Answer<()> {
    SCHEMA
        .normalise_struct(value, SCHEMA.root(kind))
        .map_err(|fault| {
            let path: Vec<&str> = fault.path.into_iter().rev().collect();
            unhandled(kind, &format!("{}: {}", path.join("."), fault.why))
        })
}

/// The paths of an object's fields that its kind does not have.
pub(crate) fn unknown_fields(kind: Kind, value: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    SCHEMA.find_unknown(value, &Shape::Struct(SCHEMA.root(kind)), "", &mut unknown);
    unknown.retain(|path| path != "apiVersion" && path != "kind");
    unknown
}

impl Schema {
    fn find_unknown(&self, value: &Value, shape: &Shape, path: &str, unknown: &mut Vec<String>) {
        match (shape, value) {
            (Shape::Struct(index), Value::Object(entries)) => {
                for (name, value) in entries {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    match self.structs[*index].field(name) {
                        Some(field) => self.find_unknown(value, &field.shape, &path, unknown),
                        None => unknown.push(path),
                    }
                }
            }
            (Shape::List(item), Value::Array(items)) => {
                for (i, value) in items.iter().enumerate() {
                    self.find_unknown(value, item, &format!("{path}[{i}]"), unknown);
                }
            }
            (Shape::Map(item), Value::Object(entries)) => {
                for (name, value) in entries {
                    self.find_unknown(value, item, &format!("{path}.{name}"), unknown);
                }
            }
            _ => {}
        }
    }

    fn normalise_struct(&self, value: &mut Value, index: usize) -> Result<(), Fault> {
        let kind = &self.structs[index];
        let Some(fields) = value.as_object_mut() else {
            return Err(wrong(value, &Shape::Struct(index)));
        };
        let mut failed = None;
        fields.retain(|name, value| {
            if failed.is_some() {
                return true;
            }
            let Ok(found) = kind.fields.binary_search_by(|f| f.name.cmp(name)) else {
                return false;
            };
            let field = &kind.fields[found];
            if value.is_null() {
                return false;
            }
            if let Err(mut fault) = self.normalise(value, &field.shape) {
                fault.path.push(field.name);
                failed = Some(fault);
                return true;
            }
            !is_empty(value, field)
        });
        if let Some(fault) = failed {
            return Err(fault);
        }
        for field in kind.fields.iter().filter(|f| f.rule == Rule::Always) {
            if !fields.contains_key(field.name) {
                fields.insert(field.name.to_owned(), zero(&field.shape));
            }
        }
        Ok(())
    }

    fn normalise(&self, value: &mut Value, shape: &Shape) -> Result<(), Fault> {
        match (shape, &mut *value) {
            (Shape::Any, _)
            | (Shape::Text | Shape::IntegerOrText | Shape::Quantity, Value::String(_))
            | (Shape::Boolean, Value::Bool(_)) => Ok(()),
            (Shape::Integer | Shape::Long | Shape::IntegerOrText, Value::Number(number))
                if number.is_i64() =>
            {
                Ok(())
            }
            (Shape::List(item), Value::Array(items)) => {
                for value in items {
                    if value.is_null() {
                        *value = zero(item);
                    }
                    if !value.is_null() {
                        self.normalise(value, item)?;
                    }
                }
                Ok(())
            }
            (Shape::Map(item), Value::Object(entries)) => {
                for value in entries.values_mut() {
                    if value.is_null() {
                        *value = zero(item);
                    }
                    self.normalise(value, item)?;
                }
                Ok(())
            }
            (Shape::Struct(index), Value::Object(_)) => self.normalise_struct(value, *index),
            (Shape::Time | Shape::MicroTime, Value::String(text)) => {
                *text = time(text, matches!(shape, Shape::MicroTime))?;
                Ok(())
            }
            (Shape::Quantity, Value::Number(number)) => {
                *value = number.to_string().into();
                Ok(())
            }
            _ => Err(wrong(value, shape)),
        }
    }
}

fn wrong(value: &Value, wanted: &Shape) -> Fault {
    let wanted = match wanted {
        Shape::Struct(index) => SCHEMA.structs[*index].name,
        Shape::List(_) => "list",
        Shape::Map(_) => "map",
        Shape::Boolean => "bool",
        Shape::Integer | Shape::Long => "integer",
        _ => "string",
    };
    let why = format!("cannot unmarshal {value} into a {wanted}");
    Fault {
        why: why.chars().take(500).collect(),
        path: Vec::new(),
    }
}

/// Whether a field is left out although it is given.
fn is_empty(value: &Value, field: &Field) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty() && matches!(field.shape, Shape::Map(_)),
        _ if field.rule != Rule::UnlessEmpty => false,
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
    }
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Text => "".into(),
        Shape::Integer | Shape::Long | Shape::IntegerOrText => 0.into(),
        Shape::Boolean => false.into(),
        Shape::Quantity => "0".into(),
        Shape::Struct(_) => Map::new().into(),
        Shape::Time | Shape::MicroTime | Shape::Any | Shape::List(_) | Shape::Map(_) => Value::Null,
    }
}

/// A time as Go writes it: in UTC, in whole seconds or with six digits.
fn time(text: &str, micros: bool) -> Result<String, Fault> {
    let Ok(at) = text.parse::<Timestamp>() else {
        return Err(Fault {
            why: format!("parsing time {text:?} failed"),
            path: Vec::new(),
        });
    };
    let whole = Timestamp::from_second(at.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(at);
    if !micros {
        return Ok(whole.to_string());
    }
    let micro = at.as_microsecond().rem_euclid(1_000_000);
    Ok(format!("{}.{micro:06}Z", whole.to_string().trim_end_matches('Z')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::kind;
    use serde_json::json;

    #[test]
    fn empty_and_unknown_fields_go_and_times_are_gos() {
        let endpoint =
            json!({"addresses": ["10.0.0.1"], "nodeName": "", "conditions": {"ready": false, "x": 1}});
        for (name, mut given, kept) in [
            (
                "Pod",
                json!({
                    "kind": "Pod", "nonsense": 1, "status": null,
                    "metadata": {"labels": {}, "annotations": {"a": "b"}, "name": "p", "generateName": ""},
                    "spec": {
                        "hostNetwork": false, "enableServiceLinks": false,
                        "containers": [{"name": "c", "command": [], "more": 1, "env": [{"name": "E", "value": ""}]}],
                        "volumes": [{"name": "v", "emptyDir": {}}],
                    },
                }),
                json!({
                    "metadata": {"annotations": {"a": "b"}, "name": "p"},
                    "spec": {
                        "enableServiceLinks": false, "containers": [{"name": "c", "env": [{"name": "E"}]}],
                        "volumes": [{"name": "v", "emptyDir": {}}],
                    },
                }),
            ),
            (
                "EndpointSlice",
                json!({"endpoints": [endpoint, null]}),
                json!({"addressType": "", "endpoints": [
                    {"addresses": ["10.0.0.1"], "nodeName": "", "conditions": {"ready": false}}, {"addresses": null},
                ]}),
            ),
            (
                "Lease",
                json!({
                    "metadata": {"creationTimestamp": "2026-01-01T01:00:00.9+01:00"},
                    "spec": {"renewTime": "2026-01-01T00:00:00.1234567Z", "acquireTime": "2026-01-01T00:00:00Z"},
                }),
                json!({
                    "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
                    "spec": {"renewTime": "2026-01-01T00:00:00.123456Z", "acquireTime": "2026-01-01T00:00:00.000000Z"},
                }),
            ),
        ] {
            object(kind(name), &mut given).unwrap();
            assert_eq!(given, kept, "{name}");
        }
    }

    #[test]
    fn wrong_types_are_refused_with_their_place() {
        for (name, mut given, place) in [
            (
                "Pod",
                json!({"spec": {"hostNetwork": "yes"}}),
                "spec.hostNetwork: ",
            ),
            ("EndpointSlice", json!({"ports": [{"port": 1.5}]}), "ports.port: "),
            ("Service", json!({"spec": []}), "spec: "),
            (
                "Lease",
                json!({"spec": {"renewTime": "soon"}}),
                "spec.renewTime: parsing time \"soon\"",
            ),
            ("Node", json!([]), ": cannot unmarshal []"),
        ] {
            let refusal = object(kind(name), &mut given).unwrap_err();
            assert!(refusal.message.contains(place), "{}", refusal.message);
        }
    }
}
