//! The state that kube-controller-manager 1.36 had settled on, put back as it was recorded.

use crate::cluster::Api;
use crate::gate::Sent;
use crate::shadow::{SURE, Shadow};
use crate::world::{World, items, outlines, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::sleep;

/// Steps after which a new controller must write, upstream's own included, and why.
const WRITES: [(&str, usize, &str); 1] = [(
    "slice-disowned",
    1,
    "upstream leaves the Service with a slice that is another manager's, but only until it looks again",
)];

/// A UID that nobody has.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

#[test]
fn what_upstream_left_is_adopted_without_a_write() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.to_string_lossy().contains(&only) && path.extension().is_some_and(|e| e == "json")
        })
        .collect();
    files.sort();
    let (mut failed, mut adopted) = (Vec::new(), Totals::default());
    for file in &files {
        let scenario: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        failed.extend(runtime.block_on(play(&scenario, &mut adopted)));
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    if only.is_empty() {
        assert!(
            adopted.steps >= 200 && adopted.slices >= 700 && adopted.endpoints >= 500,
            "nothing was left out: {adopted:?}"
        );
    }
}

#[derive(Debug, Default)]
struct Totals {
    steps: usize,
    slices: usize,
    endpoints: usize,
}

/// Plays what people did, puts upstream's answer to it, and starts a controller on that, twice, step by step.
async fn play(scenario: &Value, totals: &mut Totals) -> Vec<String> {
    let limit = if scenario["config"] == "max4" { 4 } else { 100 };
    let mut world = World::new(limit);
    let name = text(&scenario["name"]);
    let mut store = Store {
        namespace: format!("g-{name}"),
        limit,
        made: 0,
    };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": store.namespace}});
    world.api.create(&namespace, "").await.unwrap();
    // A dry run beside it finds the same.
    let shadow = Shadow::start(&world.server, world.options);
    let mut failed = Vec::new();
    for (i, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        for op in items(&step["do"]) {
            store.operate(&world.api, op).await;
        }
        if world
            .api
            .list("Namespace", "")
            .await
            .iter()
            .any(|ns| ns["metadata"]["name"] == *store.namespace && ns["status"]["phase"] == "Terminating")
        {
            assert_eq!(
                step["then"]["endpointslices"],
                json!([]),
                "{name}: nothing to put there"
            );
        } else {
            store.put(&world.api, &step["then"], totals).await;
        }
        totals.steps += 1;
        let reason = WRITES
            .iter()
            .find(|(scenario, at, _)| (*scenario, *at) == (&*name, i));
        sleep(SURE).await;
        let differing = shadow.out_of_sync();
        if differing != usize::from(reason.is_some()) {
            failed.push(format!(
                "{name} step {i}: {differing} Services are out of sync to a dry run"
            ));
        }
        for run in ["first", "second"] {
            world.gate.take();
            let sent = world.start_up().await;
            world.stop().await;
            let writes: Vec<&Sent> = sent.iter().filter(|s| s.verb != "GET").collect();
            match reason {
                Some((_, _, why)) if run == "first" => {
                    assert!(
                        !writes.is_empty(),
                        "{name} step {i} is listed without need: {why}"
                    );
                }
                _ if writes.is_empty() => {}
                _ => failed.push(format!(
                    "{name} step {i}, {run} start: {:?} {}",
                    outlines(&sent),
                    writes[0].body
                )),
            }
        }
    }
    shadow.stop().await;
    failed
}

/// The objects of one scenario.
struct Store {
    namespace: String,
    limit: usize,
    /// How many names were made up.
    made: usize,
}

impl Store {
    /// What people did. What they did to Endpoints and slices is in the recorded state.
    async fn operate(&self, api: &Api, op: &Value) {
        let namespace = &*self.namespace;
        let ours = |kind: &Value| kind == "Endpoints" || kind == "EndpointSlice";
        if let Some(object) = op.get("create").filter(|object| !ours(&object["kind"])) {
            api.create(object, namespace)
                .await
                .unwrap_or_else(|e| panic!("{op}: {e:?}"));
        } else if let Some(p) = op.get("patch").filter(|p| !ours(&p["kind"])) {
            let sub = p["sub"].as_str();
            let done = api
                .patch(&text(&p["kind"]), namespace, &text(&p["name"]), sub, &p["patch"])
                .await;
            done.unwrap_or_else(|e| panic!("{op}: {e:?}"));
        } else if let Some(d) = op.get("delete").filter(|d| !ours(&d["kind"])) {
            let grace = d["grace"].as_u64();
            let done = api
                .delete(&text(&d["kind"]), namespace, &text(&d["name"]), grace)
                .await;
            done.unwrap_or_else(|e| panic!("{op}: {e:?}"));
        } else if op.get("delete_namespace").is_some() {
            api.delete("Namespace", "", namespace, None).await.unwrap();
        }
    }

    /// Exchanges all Endpoints and slices for the recorded ones.
    async fn put(&mut self, api: &Api, then: &Value, totals: &mut Totals) {
        for kind in ["EndpointSlice", "Endpoints"] {
            for object in api.list(kind, &self.namespace).await {
                let name = text(&object["metadata"]["name"]);
                api.delete(kind, &self.namespace, &name, None).await.unwrap();
            }
        }
        let mut known = BTreeMap::new();
        let mut created = BTreeMap::new();
        for kind in ["Pod", "Service"] {
            for object in api.list(kind, &self.namespace).await {
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
        assert!(largest <= self.limit);
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
