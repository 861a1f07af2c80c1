//! Bringing recorded and observed states into one form, and telling them apart.

use super::cluster::Api;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";

/// Which parts of a state are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    /// Endpoints.
    pub(crate) endpoints: bool,
    /// Slices.
    pub(crate) slices: bool,
    /// Slices of the mirroring controller.
    pub(crate) mirrored: bool,
}

fn sorted(values: impl IntoIterator<Item = Value>) -> Value {
    let mut values: Vec<Value> = values.into_iter().collect();
    values.sort_by_cached_key(Value::to_string);
    Value::Array(values)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What is kept of a state: names of known objects for their UIDs, no versions, no generated names, no order.
pub(crate) async fn normal(
    api: &Api,
    namespace: &str,
    endpoints: &[Value],
    slices: &[Value],
    created: &mut BTreeMap<String, BTreeSet<String>>,
) -> Value {
    let mut uids = BTreeMap::new();
    for kind in ["Pod", "Service", "Endpoints"] {
        for object in api.list(kind, namespace).await {
            let meta = &object["metadata"];
            uids.insert(
                meta["uid"].to_string(),
                format!("{kind}/{}", meta["name"].as_str().unwrap()),
            );
            if kind == "Service" {
                let times = created
                    .entry(meta["name"].as_str().unwrap().to_owned())
                    .or_default();
                times.insert(meta["creationTimestamp"].as_str().unwrap().to_owned());
            }
        }
    }
    let normal = Normal { uids, created };
    json!({
        "endpoints": sorted(endpoints.iter().map(|e| normal.endpoints(e))),
        "endpointslices": sorted(slices.iter().map(|s| normal.slice(s))),
    })
}

struct Normal<'a> {
    uids: BTreeMap<String, String>,
    created: &'a BTreeMap<String, BTreeSet<String>>,
}

impl Normal<'_> {
    fn uid(&self, uid: &Value) -> Value {
        match self.uids.get(&uid.to_string()) {
            Some(name) => json!(name),
            None if uid == "" => json!(""),
            None => json!("<gone>"),
        }
    }

    fn meta(&self, object: &Value, service: &str) -> Map<String, Value> {
        let meta = &object["metadata"];
        let or_empty = |value: &Value| if value.is_null() { json!({}) } else { value.clone() };
        let mut annotations = or_empty(&meta["annotations"]);
        if let Some(time) = annotations[TRIGGER].as_str()
            && self
                .created
                .get(service)
                .is_some_and(|times| times.contains(time))
        {
            annotations[TRIGGER] = json!("<service creation>");
        } else if annotations[TRIGGER].is_null() {
            // Indexing a missing key to write would have made it.
            annotations.as_object_mut().unwrap().remove(TRIGGER);
        }
        let mut out = Map::new();
        out.insert("labels".into(), or_empty(&meta["labels"]));
        out.insert("annotations".into(), annotations);
        let owners: Vec<Value> = items(&meta["ownerReferences"])
            .map(|owner| {
                let mut owner = owner.clone();
                owner["uid"] = self.uid(&owner["uid"]);
                owner
            })
            .collect();
        if !owners.is_empty() {
            out.insert("ownerReferences".into(), owners.into());
        }
        out
    }

    fn address(&self, address: &Value) -> Value {
        let mut address = address.clone();
        if let Some(target) = address.get_mut("targetRef").and_then(Value::as_object_mut) {
            target.remove("resourceVersion");
            if let Some(uid) = target.get_mut("uid") {
                *uid = self.uid(uid);
            }
            if let Some(namespace) = target.get_mut("namespace") {
                *namespace = json!("<ns>");
            }
        }
        address
    }

    fn endpoints(&self, endpoints: &Value) -> Value {
        let name = endpoints["metadata"]["name"].as_str().unwrap();
        let mut out = self.meta(endpoints, name);
        out.insert("name".into(), json!(name));
        let subsets = items(&endpoints["subsets"]).map(|subset| {
            let mut out = Map::new();
            for field in ["addresses", "notReadyAddresses"] {
                if items(&subset[field]).next().is_some() {
                    out.insert(
                        field.into(),
                        sorted(items(&subset[field]).map(|a| self.address(a))),
                    );
                }
            }
            if items(&subset["ports"]).next().is_some() {
                out.insert("ports".into(), sorted(items(&subset["ports"]).cloned()));
            }
            Value::Object(out)
        });
        out.insert("subsets".into(), sorted(subsets));
        Value::Object(out)
    }

    fn slice(&self, slice: &Value) -> Value {
        let meta = &slice["metadata"];
        let service = meta["labels"]["kubernetes.io/service-name"]
            .as_str()
            .unwrap_or_default();
        let name = meta["name"].as_str().unwrap();
        let mut out = self.meta(slice, service);
        let suffix = name.strip_prefix(service).and_then(|rest| rest.strip_prefix('-'));
        let generated = suffix.is_some_and(|s| s.len() == 5 && s.bytes().all(|b| b.is_ascii_alphanumeric()));
        if meta["generateName"].is_string() {
            out.insert("generateName".into(), meta["generateName"].clone());
        } else if !service.is_empty() && generated {
            out.insert("generateName".into(), json!(format!("{service}-")));
        } else {
            out.insert("name".into(), json!(name));
        }
        out.insert("addressType".into(), slice["addressType"].clone());
        out.insert("ports".into(), sorted(items(&slice["ports"]).cloned()));
        out.insert(
            "endpoints".into(),
            sorted(items(&slice["endpoints"]).map(|e| self.address(e))),
        );
        Value::Object(out)
    }
}

/// For scenarios in which it is free which slice holds what: the slices of a group become one, with how many
/// there were and the size of the largest.
pub(crate) fn pack(state: &Value) -> Value {
    let mut groups: BTreeMap<String, Value> = BTreeMap::new();
    for slice in items(&state["endpointslices"]) {
        let mut group = slice.clone();
        for field in ["endpoints", "name", "annotations"] {
            group.as_object_mut().unwrap().remove(field);
        }
        let merged = groups.entry(group.to_string()).or_insert_with(|| {
            let mut merged = group.clone();
            merged["endpoints"] = json!([]);
            (merged["slices"], merged["largest"]) = (json!(0), json!(0));
            merged
        });
        let endpoints = slice["endpoints"].as_array().unwrap();
        merged["slices"] = json!(merged["slices"].as_u64().unwrap() + 1);
        merged["largest"] = json!(merged["largest"].as_u64().unwrap().max(endpoints.len() as u64));
        merged["endpoints"]
            .as_array_mut()
            .unwrap()
            .extend(endpoints.iter().cloned());
    }
    for group in groups.values_mut() {
        group["endpoints"] = sorted(group["endpoints"].as_array().unwrap().clone());
    }
    json!({ "endpoints": state["endpoints"], "groups": groups.into_values().collect::<Vec<_>>() })
}

/// Leaves out what is not compared.
pub(crate) fn cut(state: &Value, compared: Compared, timed: bool) -> Value {
    let mut out = Map::new();
    for field in ["endpointslices", "groups"] {
        if compared.slices && state.get(field).is_some() {
            let managed_by = |s: &Value| s["labels"][MANAGED_BY_LABEL].clone();
            let slices = items(&state[field]).filter(|s| compared.mirrored || managed_by(s) != MIRRORED_BY);
            let slices: Vec<_> = slices
                .map(|s| if timed { s.clone() } else { untimed(s) })
                .collect();
            // Sorted anew, since recorded keys were sorted with what is left out here.
            out.insert(field.into(), sorted(slices));
        }
    }
    if compared.endpoints {
        let endpoints = items(&state["endpoints"]).map(|e| if timed { e.clone() } else { untimed(e) });
        out.insert("endpoints".into(), sorted(endpoints));
    }
    Value::Object(out)
}

/// Leaves out trigger times.
pub(crate) fn untimed(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != TRIGGER)
            .map(|(key, value)| (key.clone(), untimed(value)))
            .collect(),
        Value::Array(values) => values.iter().map(untimed).collect(),
        other => other.clone(),
    }
}

/// Whether a slice is this controller's.
pub(crate) fn is_managed(slice: &Value) -> bool {
    slice["labels"][MANAGED_BY_LABEL] == MANAGED_BY
}

/// The trigger time of an object.
pub(crate) fn trigger(object: &Value) -> Option<&str> {
    object["annotations"][TRIGGER].as_str()
}

/// Leaves out UIDs.
pub(crate) fn anonymous(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != "uid")
            .map(|(key, value)| (key.clone(), anonymous(value)))
            .collect(),
        Value::Array(values) => values.iter().map(anonymous).collect(),
        other => other.clone(),
    }
}

/// Every difference, as text. Where packing is free, fewer slices are fine, and any size up to the limit.
pub(crate) fn differ(want: &Value, got: &Value, path: &str, limit: u64, out: &mut Vec<String>) {
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
