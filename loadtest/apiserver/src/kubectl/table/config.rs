//! Rows of configuration and of Deployments.

use super::cells::or;
use crate::json::{list, number, text};
use jiff::Timestamp;
use serde_json::Value;

/// How many entries the maps of an object have together.
fn entries(object: &Value, fields: &[&str]) -> Value {
    let maps = fields.iter().filter_map(|field| object.get(field)?.as_object());
    maps.map(serde_json::Map::len).sum::<usize>().into()
}

pub(super) fn configmap(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![entries(object, &["data", "binaryData"])]
}

pub(super) fn secret(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![entries(object, &["data"])]
}

pub(super) fn deployment(object: &Value, _now: Timestamp) -> Vec<Value> {
    let of_containers = |field: &str| -> Value {
        let containers = list(object, "/spec/template/spec/containers").iter();
        let all: Vec<&str> = containers.map(|container| text(container, field)).collect();
        all.join(",").into()
    };
    let ready = number(object, "/status/readyReplicas");
    vec![
        format!("{ready}/{}", number(object, "/spec/replicas")).into(),
        number(object, "/status/updatedReplicas").into(),
        number(object, "/status/availableReplicas").into(),
        of_containers("/name"),
        of_containers("/image"),
        or(&selector(&object["spec"]["selector"]), "<none>").into(),
    ]
}

/// Returns the text form of a label selector.
fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
    let expressions = list(selector, "/matchExpressions").iter().map(|expression| {
        let key = text(expression, "/key");
        let values: Vec<&str> = list(expression, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}
