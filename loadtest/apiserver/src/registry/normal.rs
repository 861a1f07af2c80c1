//! The form in which objects are kept: that of Go's encoder, after Go's decoder.
//!
//! Unknown fields go, empty ones are left out where Go leaves them out, what is of the wrong type is refused.

use crate::kinds::Kind;
use crate::schema::{Field, Rule, SCHEMA, Schema, Shape, go_name};
use crate::status::{Answer, Refusal};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// A value of the wrong type, and where it is.
struct Fault {
    found: String,
    wanted: String,
    within: &'static str,
    /// From the inside to the outside.
    path: Vec<&'static str>,
    /// A whole message of its own instead.
    message: Option<String>,
}

/// How Go's JSON errors call a value's type.
pub(crate) fn json_type(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

/// Brings an object into the form in which it is kept.
pub(crate) fn object(kind: Kind, value: &mut Value) -> Answer<()> {
    SCHEMA
        .normalise_struct(value, SCHEMA.root(kind))
        .map_err(|fault| {
            let why = fault.message.unwrap_or_else(|| {
                let path: Vec<&str> = fault.path.into_iter().rev().collect();
                format!(
                    "json: cannot unmarshal {} into Go struct field {}.{} of type {}",
                    fault.found,
                    go_name(fault.within),
                    path.join("."),
                    fault.wanted
                )
            });
            Refusal::bad_request(format!(
                "{0} in version \"{1}\" cannot be handled as a {0}: {why}",
                kind.kind,
                kind.version()
            ))
        })
}

/// The paths of what an object has and its kind does not know.
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
            return Err(wrong(value, &format!("v1.{}", go_name(kind.name))));
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
                if fault.within.is_empty() {
                    fault.within = kind.name;
                }
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
            | (Shape::Text | Shape::IntegerOrText, Value::String(_))
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
            (Shape::Quantity, Value::String(text)) => quantity(text),
            _ => Err(wrong(value, &self.go_type(shape))),
        }
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::Text | Shape::Quantity => "string".to_owned(),
            Shape::Integer | Shape::IntegerOrText => "int32".to_owned(),
            Shape::Long => "int64".to_owned(),
            Shape::Boolean => "bool".to_owned(),
            Shape::Time => "v1.Time".to_owned(),
            Shape::MicroTime => "v1.MicroTime".to_owned(),
            Shape::Any => "interface {}".to_owned(),
            Shape::List(item) => format!("[]{}", self.go_type(item)),
            Shape::Map(item) => format!("map[string]{}", self.go_type(item)),
            Shape::Struct(index) => format!("v1.{}", go_name(self.structs[*index].name)),
        }
    }
}

fn wrong(value: &Value, wanted: &str) -> Fault {
    Fault {
        found: json_type(value),
        wanted: wanted.to_owned(),
        within: "",
        path: Vec::new(),
        message: None,
    }
}

fn said(message: String) -> Fault {
    Fault {
        found: String::new(),
        wanted: String::new(),
        within: "-",
        path: Vec::new(),
        message: Some(message),
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
        let form = if micros {
            "2006-01-02T15:04:05.000000Z07:00"
        } else {
            "2006-01-02T15:04:05Z07:00"
        };
        return Err(said(format!(
            "parsing time \"{text}\" as \"{form}\": cannot parse \"{text}\" as \"2006\""
        )));
    };
    let whole = Timestamp::from_second(at.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(at);
    if !micros {
        return Ok(whole.to_string());
    }
    let micro = at.as_microsecond().rem_euclid(1_000_000);
    Ok(format!("{}.{micro:06}Z", whole.to_string().trim_end_matches('Z')))
}

fn quantity(text: &str) -> Result<(), Fault> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &unsigned[..unsigned.len() - digits.len()];
    let exponent = digits
        .strip_prefix(['e', 'E'])
        .is_some_and(|e| e.parse::<i32>().is_ok());
    let suffixes = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    if number.parse::<f64>().is_ok() && (exponent || suffixes.contains(&digits)) {
        return Ok(());
    }
    let form = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
    Err(said(format!(
        "quantities must match the regular expression '{form}'"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::kind;
    use serde_json::json;

    fn normal(kind: Kind, mut value: Value) -> Value {
        object(kind, &mut value).unwrap();
        value
    }

    fn fault(kind: Kind, mut value: Value) -> String {
        object(kind, &mut value).unwrap_err().message
    }

    #[test]
    fn empty_and_unknown_fields() {
        let pod = normal(
            kind("Pod"),
            json!({
                "kind": "Pod",
                "nonsense": 1,
                "metadata": {"labels": {}, "annotations": {"a": "b"}, "name": "p", "generateName": ""},
                "spec": {
                    "hostNetwork": false,
                    "enableServiceLinks": false,
                    "containers": [{"name": "c", "command": [], "more": 1, "env": [{"name": "E", "value": ""}]}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
                "status": null,
            }),
        );
        assert_eq!(
            pod,
            json!({
                "metadata": {"annotations": {"a": "b"}, "name": "p"},
                "spec": {
                    "enableServiceLinks": false,
                    "containers": [{"name": "c", "env": [{"name": "E"}]}],
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
            })
        );
        let endpoint =
            json!({"addresses": ["10.0.0.1"], "nodeName": "", "conditions": {"ready": false, "x": 1}});
        let slice = normal(kind("EndpointSlice"), json!({"endpoints": [endpoint, null]}));
        assert_eq!(
            slice,
            json!({
                "addressType": "",
                "endpoints": [
                    {"addresses": ["10.0.0.1"], "nodeName": "", "conditions": {"ready": false}},
                    {"addresses": null},
                ],
            })
        );
    }

    #[test]
    fn times() {
        let lease = normal(
            kind("Lease"),
            json!({
                "metadata": {"creationTimestamp": "2026-01-01T01:00:00.9+01:00"},
                "spec": {"renewTime": "2026-01-01T00:00:00.1234567Z", "acquireTime": "2026-01-01T00:00:00Z"},
            }),
        );
        assert_eq!(lease["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(lease["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
        assert_eq!(lease["spec"]["acquireTime"], "2026-01-01T00:00:00.000000Z");
        assert!(
            fault(kind("Lease"), json!({"spec": {"renewTime": "soon"}})).contains("parsing time \"soon\"")
        );
    }

    #[test]
    fn wrong_types() {
        assert_eq!(
            fault(kind("Pod"), json!({"spec": {"hostNetwork": "yes"}})),
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field \
             PodSpec.spec.hostNetwork of type bool"
        );
        let ports = json!({"ports": [{"port": 1.5}]});
        assert!(
            fault(kind("EndpointSlice"), ports)
                .contains("number 1.5 into Go struct field EndpointPort.ports.port")
        );
        assert!(
            fault(kind("Service"), json!({"spec": []})).contains("array into Go struct field Service.spec")
        );
        let bad = json!({"status": {"capacity": {"cpu": "much"}}});
        assert!(fault(kind("Node"), bad).contains("quantities must match"));
        normal(
            kind("Node"),
            json!({"status": {"capacity": {"cpu": "100m", "memory": "8Gi", "pods": 110, "x": "1e3"}}}),
        );
    }
}
