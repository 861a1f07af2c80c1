//! Edits by users and other programs of the objects that the controller has written.

use super::{FollowUp, History};
use crate::chaos::api::{Ask, Resource, list};
use crate::chaos::world::{MANAGED_BY, OURS, SERVICE_NAME};
use fastrand::Rng;
use serde_json::{Value, json};

const OTHER: &str = "people.example.com";

impl History {
    /// An object of one of the namespaces.
    pub(super) async fn pick_output(&mut self, kind: Resource) -> Option<(String, Value)> {
        let namespace = self.world.namespace(&mut self.rng)?;
        let objects = list(&self.api, kind, &namespace).await;
        Some((namespace, self.rng.choice(objects)?))
    }

    async fn replace(&mut self, what: &'static str, kind: Resource, namespace: &str, mut object: Value) {
        // The edit overwrites what is there, so that it is not refused for having been slow.
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let name = name_of(&object);
        self.write(what, Ask::replace(kind, namespace, &name, object))
            .await;
    }

    pub(super) async fn tamper_with_slice(&mut self) {
        let Some((namespace, slice)) = self.pick_output(Resource::Slices).await else {
            return;
        };
        let name = name_of(&slice);
        match self.rng.u32(..15) {
            0..=2 => {
                let ask = Ask::delete(Resource::Slices, &namespace, &name, self.propagation());
                self.write("delete slice", ask).await;
            }
            12 | 13 => self.remake(Resource::Slices, &namespace, slice).await,
            14 => self.relabel_and_back(&namespace, &slice).await,
            3..=5 => self.edit_slice(&namespace, slice).await,
            6 => {
                let labels = match self.rng.u32(..3) {
                    0 => json!({ "people": "were here" }),
                    1 => json!({ "revision": null }),
                    _ => json!({ "service.kubernetes.io/headless": "" }),
                };
                self.patch_slice("label slice", &namespace, &name, labels).await;
            }
            7 => {
                let to = format!("svc{}", self.rng.usize(..6));
                let labels = json!({ SERVICE_NAME: to });
                self.patch_slice("give slice to another service", &namespace, &name, labels)
                    .await;
            }
            8 if self.gives_away => self.change_manager(&namespace, &slice).await,
            8 | 9 => {
                let mut slice = slice;
                if let Some(metadata) = slice["metadata"].as_object_mut() {
                    metadata.remove("ownerReferences");
                }
                self.replace("disown slice", Resource::Slices, &namespace, slice)
                    .await;
            }
            10 => {
                let mut slice = slice;
                slice["metadata"]["annotations"] = json!({
                    "endpoints.kubernetes.io/last-change-trigger-time": "2020-01-01T00:00:00Z",
                    "people": "were here",
                });
                self.replace("annotate slice", Resource::Slices, &namespace, slice)
                    .await;
            }
            _ => {
                let mut slice = slice;
                slice["ports"] = json!([{ "name": "wrong", "port": 1, "protocol": "TCP" }]);
                self.replace("edit slice's ports", Resource::Slices, &namespace, slice)
                    .await;
            }
        }
    }

    /// Deleted and made again under its name at once, as `kubectl replace --force` and restored backups do.
    async fn remake(&mut self, kind: Resource, namespace: &str, mut object: Value) {
        let name = name_of(&object);
        let ask = Ask::delete(kind, namespace, &name, Value::Null);
        self.write("delete an object to make it again", ask).await;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["creationTimestamp", "generation", "resourceVersion", "uid"] {
                metadata.remove(field);
            }
        }
        self.write("make an object again", Ask::create(kind, namespace, object))
            .await;
    }

    /// A slice loses a label that makes it ours, and gets it back at once.
    async fn relabel_and_back(&mut self, namespace: &str, slice: &Value) {
        let name = name_of(slice);
        let key = if self.rng.bool() { MANAGED_BY } else { SERVICE_NAME };
        let other = if self.rng.bool() {
            json!(OTHER)
        } else {
            Value::Null
        };
        self.patch_slice("take slice's label", namespace, &name, json!({ key: other }))
            .await;
        let label = slice["metadata"]["labels"][key].clone();
        self.patch_slice("give slice's label back", namespace, &name, json!({ key: label }))
            .await;
    }

    async fn patch_slice(&mut self, what: &'static str, namespace: &str, name: &str, labels: Value) {
        let patch = json!({ "metadata": { "labels": labels } });
        self.write(what, Ask::patch(Resource::Slices, namespace, name, patch))
            .await;
    }

    /// A slice is given to another manager, or taken from one.
    async fn change_manager(&mut self, namespace: &str, slice: &Value) {
        let is_ours = slice["metadata"]["labels"][MANAGED_BY] == OURS;
        let labels = json!({ MANAGED_BY: if is_ours { OTHER } else { OURS } });
        let name = name_of(slice);
        self.patch_slice("change slice's manager", namespace, &name, labels)
            .await;
        if let Some(service) = slice["metadata"]["labels"][SERVICE_NAME].as_str() {
            let (namespace, name) = (namespace.to_owned(), service.to_owned());
            self.given_away.insert((namespace.clone(), name.clone()));
            self.follow_up(3_000, FollowUp::TouchService { namespace, name });
        }
    }

    async fn edit_slice(&mut self, namespace: &str, mut slice: Value) {
        let v6 = slice["addressType"] == "IPv6";
        let mut endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let at = match endpoints.len() {
            0 => 0,
            n => self.rng.usize(..n),
        };
        match self.rng.u32(..5) {
            0 if !endpoints.is_empty() => drop(endpoints.remove(at)),
            1 => endpoints.clear(),
            2 if !endpoints.is_empty() => endpoints[at]["conditions"]["ready"] = json!(self.rng.bool()),
            3 if !endpoints.is_empty() => endpoints[at]["addresses"] = json!([alien(v6)]),
            _ => endpoints.push(json!({ "addresses": [alien(v6)], "conditions": { "ready": true } })),
        }
        slice["endpoints"] = json!(endpoints);
        self.replace("edit slice", Resource::Slices, namespace, slice)
            .await;
    }

    /// A slice that the controller has not made: another manager's, or one that pretends to be ours.
    pub(super) async fn foreign_slice(&mut self) {
        let Some((namespace, slice)) = self.pick_output(Resource::Slices).await else {
            return;
        };
        let mut copy = slice.clone();
        copy["metadata"] = json!({
            "generateName": "foreign-",
            "labels": slice["metadata"]["labels"],
        });
        let v6 = slice["addressType"] == "IPv6";
        let what = match self.rng.u32(..5) {
            0 | 1 => {
                copy["metadata"]["labels"][MANAGED_BY] = json!(OTHER);
                copy["endpoints"] = json!([{ "addresses": [alien(v6)] }]);
                "create slice of another manager"
            }
            2 => "create slice without owner",
            3 => {
                copy["metadata"]["ownerReferences"] = slice["metadata"]["ownerReferences"].clone();
                copy["endpoints"] = json!([]);
                "create empty slice beside others"
            }
            _ => {
                copy["metadata"]["ownerReferences"] = slice["metadata"]["ownerReferences"].clone();
                "create second slice of the same endpoints"
            }
        };
        self.write(what, Ask::create(Resource::Slices, &namespace, copy))
            .await;
    }

    pub(super) async fn tamper_with_endpoints(&mut self) {
        let Some(namespace) = self.world.namespace(&mut self.rng) else {
            return;
        };
        if self.rng.u32(..6) == 0 {
            self.create_endpoints(&namespace).await;
            return;
        }
        let objects = list(&self.api, Resource::Endpoints, &namespace).await;
        let Some(mut object) = self.rng.choice(objects) else {
            return;
        };
        let name = name_of(&object);
        match self.rng.u32(..7) {
            0 | 1 => {
                let ask = Ask::delete(Resource::Endpoints, &namespace, &name, Value::Null);
                self.write("delete endpoints", ask).await;
            }
            2 => {
                let labels = match self.rng.u32(..5) {
                    0 => json!({ "people": "were here" }),
                    1 => json!({ "revision": null }),
                    2 => json!({ "endpointslice.kubernetes.io/skip-mirror": "true" }),
                    3 => json!({ "endpointslice.kubernetes.io/skip-mirror": null }),
                    _ => json!({ "endpoints.kubernetes.io/managed-by": null }),
                };
                let patch = json!({ "metadata": { "labels": labels } });
                let ask = Ask::patch(Resource::Endpoints, &namespace, &name, patch);
                self.write("label endpoints", ask).await;
                // Without the label no controller owns it, and it stays when its Service goes.
            }
            3 => {
                let annotations = json!({ "endpoints.kubernetes.io/over-capacity": "truncated" });
                let patch = json!({ "metadata": { "annotations": annotations } });
                let ask = Ask::patch(Resource::Endpoints, &namespace, &name, patch);
                self.write("annotate endpoints", ask).await;
            }
            6 => {
                self.remade.insert((namespace.clone(), name));
                self.remake(Resource::Endpoints, &namespace, object).await;
            }
            4 => {
                object["subsets"] = json!([]);
                self.replace("empty endpoints", Resource::Endpoints, &namespace, object)
                    .await;
            }
            _ => {
                object["subsets"] = subsets(&mut self.rng);
                self.replace("edit endpoints", Resource::Endpoints, &namespace, object)
                    .await;
            }
        }
    }

    /// Endpoints made by hand, for a Service that there is or not; or a lock.
    async fn create_endpoints(&mut self, namespace: &str) {
        let name = format!("svc{}", self.rng.usize(..8));
        let mut object = json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": name }, "subsets": subsets(&mut self.rng),
        });
        if self.rng.u32(..4) == 0 {
            object["metadata"]["annotations"] = json!({ "control-plane.alpha.kubernetes.io/leader": "{}" });
        }
        let ask = Ask::create(Resource::Endpoints, namespace, object);
        self.write("create endpoints by hand", ask).await;
    }
}

pub(super) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn alien(v6: bool) -> &'static str {
    if v6 { "2001:db8::bad" } else { "203.0.113.66" }
}

/// Returns subsets with addresses of no pod, of one family or of both, in one subset or in two.
fn subsets(rng: &mut Rng) -> Value {
    let port = json!({ "name": "wrong", "port": 1 });
    let first = json!({ "addresses": [{ "ip": alien(false) }], "ports": [port] });
    let second = match rng.u32(..5) {
        0 => json!({ "addresses": [{ "ip": alien(true) }], "ports": [port] }),
        1 => json!({ "notReadyAddresses": [{ "ip": "203.0.113.9" }], "ports": [port] }),
        2 => json!({ "addresses": [{ "ip": alien(false) }], "ports": [{ "name": "other", "port": 2 }] }),
        3 => json!({ "addresses": [{ "ip": "203.0.113.9" }], "ports": [{ "name": "other", "port": 2 }] }),
        _ => return json!([first]),
    };
    json!([first, second])
}
