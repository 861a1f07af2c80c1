//! The states that kube-controller-manager 1.36 had settled on, put back as they were recorded.

#[path = "scenarios.rs"]
mod files;

#[allow(unused_imports, reason = "some tests take all scenarios, some take one")]
pub(crate) use files::scenario;

use super::cluster::Api;
use super::world::{items, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The scenarios whose names contain a text, but for those in which upstream leaves something to be written: a create that is
/// refused.
pub(crate) fn scenarios(only: &str) -> Vec<Value> {
    let mut scenarios = files::scenarios(only);
    let refuses = |op: &Value| op["create"]["kind"] == "ResourceQuota";
    scenarios.retain(|scenario| !scenario::Scenario(scenario).operations().any(refuses));
    scenarios
}

/// A UID that no object has.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// How many steps were played, and how many objects were put.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) steps: usize,
    pub(crate) slices: usize,
    pub(crate) endpoints: usize,
}

/// The objects of one scenario.
pub(crate) struct Store {
    pub(crate) namespace: String,
    pub(crate) limit: usize,
    /// How many names were made up.
    made: usize,
}

impl Store {
    pub(crate) fn new(scenario: &Value) -> Self {
        Self {
            namespace: format!("g-{}", text(&scenario["name"])),
            limit: scenario::Scenario(scenario).max_endpoints(),
            made: 0,
        }
    }

    /// Makes the namespace.
    pub(crate) async fn begin(&self, api: &Api) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        api.create(&namespace, "").await.unwrap();
    }

    /// Does what users did in a step, and puts upstream's answer to it.
    pub(crate) async fn play(&mut self, api: &Api, step: &Value, totals: &mut Totals) {
        for op in items(&step["do"]) {
            self.operate(api, op).await;
        }
        totals.steps += 1;
        let namespaces = api.list("Namespace", "").await.unwrap();
        if namespaces
            .iter()
            .any(|ns| ns["metadata"]["name"] == *self.namespace && ns["status"]["phase"] == "Terminating")
        {
            assert_eq!(step["then"]["endpointslices"], json!([]), "nothing to put there");
        } else {
            self.put(api, &step["then"], totals).await;
        }
    }

    /// Does what users did, but for what they did to Endpoints and slices: that is in the recorded state.
    async fn operate(&self, api: &Api, op: &Value) {
        let namespace = &*self.namespace;
        let named = match op {
            op if op.get("create").is_some() => &op["create"]["kind"],
            op if op.get("patch").is_some() => &op["patch"]["kind"],
            op if op.get("delete").is_some() => &op["delete"]["kind"],
            // The others are sleeps, and changes of slices.
            op if op.get("delete_namespace").is_some() => &Value::Null,
            _ => return,
        };
        if named != "Endpoints" && named != "EndpointSlice" {
            let done = scenario::carry_out(api, namespace, op).await;
            done.unwrap_or_else(|error| panic!("{op}: {error}"));
        }
    }

    /// Exchanges all Endpoints and slices for the recorded ones.
    async fn put(&mut self, api: &Api, then: &Value, totals: &mut Totals) {
        for kind in ["EndpointSlice", "Endpoints"] {
            for object in api.list(kind, &self.namespace).await.unwrap() {
                let name = text(&object["metadata"]["name"]);
                api.delete(kind, &self.namespace, &name, None).await.unwrap();
            }
        }
        let mut known = BTreeMap::new();
        let mut created = BTreeMap::new();
        for kind in ["Pod", "Service"] {
            for object in api.list(kind, &self.namespace).await.unwrap() {
                let meta = &object["metadata"];
                known.insert(format!("{kind}/{}", text(&meta["name"])), meta["uid"].clone());
                if kind == "Service" {
                    created.insert(text(&meta["name"]), meta["creationTimestamp"].clone());
                }
            }
        }
        for recorded in items(&then["endpoints"]) {
            let name = text(&recorded["name"]);
            let object = json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": recorded["subsets"],
                "metadata": {"name": name, "labels": recorded["labels"], "annotations": recorded["annotations"]}});
            let made = self.create(api, object, &known, created.get(&name)).await;
            known.insert(format!("Endpoints/{name}"), made["metadata"]["uid"].clone());
            totals.endpoints += 1;
        }
        let groups = items(&then["groups"]).flat_map(|group| self.split(group));
        let slices: Vec<Value> = items(&then["endpointslices"]).cloned().chain(groups).collect();
        for recorded in slices {
            let service = text(&recorded["labels"]["kubernetes.io/service-name"]);
            let name = if recorded["name"].is_string() {
                recorded["name"].clone()
            } else {
                self.made += 1;
                json!(format!("{service}-{:05}", self.made))
            };
            let mut meta = json!({"name": name, "labels": recorded["labels"]});
            for field in ["annotations", "ownerReferences", "generateName"] {
                if !recorded[field].is_null() {
                    meta[field] = recorded[field].clone();
                }
            }
            let object = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta,
                "addressType": recorded["addressType"], "ports": recorded["ports"],
                "endpoints": recorded["endpoints"]});
            self.create(api, object, &known, created.get(&service)).await;
            totals.slices += 1;
        }
    }

    /// Where which slice holds what was free, a group was recorded as one: as many slices as there were, the
    /// first ones as large as the largest was.
    fn split(&self, group: &Value) -> Vec<Value> {
        let count = group["slices"].as_u64().unwrap() as usize;
        let largest = group["largest"].as_u64().unwrap() as usize;
        let mirrors = group["labels"]["endpointslice.kubernetes.io/managed-by"]
            == "endpointslicemirroring-controller.k8s.io";
        assert!(mirrors || largest <= self.limit);
        let mut endpoints = group["endpoints"].as_array().unwrap().clone();
        let slices = (0..count).map(|i| {
            let rest = count - i - 1;
            let size = largest.min(endpoints.len().saturating_sub(rest));
            let mut slice = group.clone();
            slice["endpoints"] = endpoints.drain(..size).collect();
            slice
        });
        slices.collect()
    }

    async fn create(
        &self,
        api: &Api,
        mut object: Value,
        known: &BTreeMap<String, Value>,
        created: Option<&Value>,
    ) -> Value {
        self.link(&mut object, known, created);
        api.create(&object, &self.namespace)
            .await
            .unwrap_or_else(|e| panic!("{object}: {e:?}"))
    }

    /// Puts what is there now for what the recording calls by name.
    fn link(&self, value: &mut Value, known: &BTreeMap<String, Value>, created: Option<&Value>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value.as_str() {
                        Some("<service creation>") => {
                            *value = created.unwrap_or(&json!("2024-01-01T00:00:00Z")).clone();
                        }
                        Some("<ns>") => *value = json!(self.namespace),
                        Some(uid) if key == "uid" && !uid.is_empty() => {
                            *value = known.get(uid).unwrap_or(&json!(NOBODY)).clone();
                        }
                        _ => self.link(value, known, created),
                    }
                }
            }
            Value::Array(values) => values
                .iter_mut()
                .for_each(|value| self.link(value, known, created)),
            _ => {}
        }
    }
}
