//! The form in which states are recorded: names of known objects for their UIDs, no versions, no generated names, no
//! order of endpoints, ports or subsets.

use crate::{TRIGGER, items, sorted};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Normalises the outputs of a namespace. References to the known objects appear by kind and name; `created` has the
/// creation times of Services, by name.
pub(crate) fn normalise(
    known: &[(&str, &Vec<Value>)],
    endpoints: &[Value],
    slices: &[Value],
    created: &BTreeMap<String, BTreeSet<String>>,
) -> Value {
    let named = known.iter().flat_map(|(kind, objects)| {
        objects.iter().map(move |object| {
            let meta = &object["metadata"];
            let name = meta["name"].as_str().unwrap_or_default();
            (meta["uid"].to_string(), format!("{kind}/{name}"))
        })
    });
    let normal = Normal {
        uids: named.collect(),
        created,
    };
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
        let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let mut annotations = map(&meta["annotations"]);
        let times = self.created.get(service);
        if let Some(Value::String(time)) = annotations.get_mut(TRIGGER)
            && times.is_some_and(|times| times.contains(time))
        {
            "<service creation>".clone_into(time);
        }
        let mut out = Map::new();
        out.insert("labels".into(), map(&meta["labels"]).into());
        out.insert("annotations".into(), annotations.into());
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
        let name = endpoints["metadata"]["name"].as_str().unwrap_or_default();
        let mut out = self.meta(endpoints, name);
        out.insert("name".into(), json!(name));
        let subsets = items(&endpoints["subsets"]).map(|subset| {
            let mut out = Map::new();
            for field in ["addresses", "notReadyAddresses"] {
                if items(&subset[field]).next().is_some() {
                    let addresses = items(&subset[field]).map(|a| self.address(a));
                    out.insert(field.into(), sorted(addresses));
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
        let name = meta["name"].as_str().unwrap_or_default();
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
        let endpoints = items(&slice["endpoints"]).map(|e| self.address(e));
        out.insert("endpoints".into(), sorted(endpoints));
        Value::Object(out)
    }
}

/// Merges the slices of each group (those alike in all but their endpoints, name and annotations) into one entry, with
/// the number of slices and the size of the largest. Scenarios with free packing record this.
pub fn merge_groups(state: &Value) -> Value {
    let mut groups: BTreeMap<String, (Value, Vec<&Vec<Value>>)> = BTreeMap::new();
    for slice in items(&state["endpointslices"]) {
        let mut group = slice.clone();
        if let Some(fields) = group.as_object_mut() {
            fields.retain(|field, _| !["endpoints", "name", "annotations"].contains(&&**field));
        }
        let merged = groups.entry(group.to_string()).or_insert((group, Vec::new()));
        merged.1.extend(slice["endpoints"].as_array());
    }
    let groups = groups.into_values().map(|(mut group, slices)| {
        group["slices"] = json!(slices.len());
        group["largest"] = json!(slices.iter().map(|endpoints| endpoints.len()).max());
        group["endpoints"] = sorted(slices.into_iter().flatten().cloned());
        group
    });
    json!({ "endpoints": state["endpoints"], "groups": groups.collect::<Vec<_>>() })
}
