//! The parts of a state that are compared, and what differs in them.

use crate::{TRIGGER, items, sorted};
use serde_json::{Map, Value};

const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";

/// The parts of a state that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Endpoints.
    pub endpoints: bool,
    /// Slices.
    pub slices: bool,
    /// Slices of the mirroring controller among them.
    pub mirrored: bool,
    /// The annotation with the trigger time.
    pub trigger_times: bool,
}

impl Compared {
    /// Keeps these parts of a recorded state.
    pub(crate) fn select(self, state: &Value) -> Value {
        let timed = |object: &Value| {
            if self.trigger_times {
                object.clone()
            } else {
                without_trigger_times(object)
            }
        };
        // Sorted anew, since the recorded order came from fields that are left out here.
        let mut out = Map::new();
        for field in ["endpointslices", "groups"] {
            if self.slices && state.get(field).is_some() {
                let slices = items(&state[field])
                    .filter(|slice| self.mirrored || slice["labels"][MANAGED_BY_LABEL] != MIRRORED_BY);
                out.insert(field.into(), sorted(slices.map(timed)));
            }
        }
        if self.endpoints {
            let endpoints = items(&state["endpoints"]).map(timed);
            out.insert("endpoints".into(), sorted(endpoints));
        }
        Value::Object(out)
    }
}

/// A copy without trigger times.
pub fn without_trigger_times(value: &Value) -> Value {
    without(value, TRIGGER)
}

/// A copy without UIDs.
pub fn without_uids(value: &Value) -> Value {
    without(value, "uid")
}

fn without(value: &Value, field: &str) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != field)
            .map(|(key, value)| (key.clone(), without(value, field)))
            .collect(),
        Value::Array(values) => values.iter().map(|value| without(value, field)).collect(),
        other => other.clone(),
    }
}

/// Whether a normalised slice is managed by the endpointslice controller.
pub fn is_managed(slice: &Value) -> bool {
    slice["labels"][MANAGED_BY_LABEL] == MANAGED_BY
}

/// Every difference between a recorded and an observed state, a line each. Where packing is free, fewer slices than
/// recorded are no difference, and neither is a largest slice within the limit.
pub fn differences(want: &Value, got: &Value, max_endpoints: usize) -> Vec<String> {
    let mut out = Vec::new();
    differ(want, got, "", max_endpoints as u64, &mut out);
    out
}

fn differ(want: &Value, got: &Value, path: &str, limit: u64, out: &mut Vec<String>) {
    let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
    match (want, got) {
        (Value::Number(w), Value::Number(g)) if path.ends_with(".slices") && g.as_u64() <= w.as_u64() => {}
        (Value::Number(_), Value::Number(g)) if path.ends_with(".largest") && g.as_u64() <= Some(limit) => {}
        (Value::Object(w), Value::Object(g)) => {
            for key in w.keys().chain(g.keys().filter(|key| !w.contains_key(*key))) {
                match (w.get(key), g.get(key)) {
                    (Some(w), Some(g)) => differ(w, g, &format!("{path}.{key}"), limit, out),
                    (Some(w), None) => out.push(format!("{path}.{key}: missing {}", short(w))),
                    (None, Some(g)) => out.push(format!("{path}.{key}: unexpected {}", short(g))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(w), Value::Array(g)) if w.len() == g.len() => {
            for (i, (w, g)) in w.iter().zip(g).enumerate() {
                differ(w, g, &format!("{path}[{i}]"), limit, out);
            }
        }
        (Value::Array(w), Value::Array(g)) => out.push(format!(
            "{path}: want {} items, got {}: want {} got {}",
            w.len(),
            g.len(),
            short(want),
            short(got)
        )),
        _ if want == got => {}
        _ => out.push(format!("{path}: want {} got {}", short(want), short(got))),
    }
}
