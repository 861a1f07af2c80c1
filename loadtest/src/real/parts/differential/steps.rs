//! Random changes of a namespace, from a seed, as operations of scenarios. They do not depend on what a controller
//! does, so the same changes can be made to two clusters.

use super::known::{EDIT, Facts};
use crate::chaos::world::{Pod, Service, World};
use crate::objects::seconds;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use memory_apiserver::without_nulls;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A namespace never has more.
const MOST_PODS: usize = 30;
const MOST_SERVICES: usize = 6;
/// The total of the chances of all changes.
const CHANCES: u32 = 100;

/// Makes up changes.
pub(super) struct Steps {
    namespace: String,
    rng: Rng,
    world: World,
    facts: Facts,
    /// The present of the changes, a second for each.
    now: Timestamp,
    /// When the readiness of each pod changed last.
    since: BTreeMap<String, Timestamp>,
    /// A change that has to come next.
    follows: Option<Value>,
}

// === impl Steps ===

impl Steps {
    /// Begins with a namespace that is still empty, in a cluster with these nodes.
    pub(super) fn new(namespace: &str, seed: u64, nodes: [&str; 5], now: Timestamp) -> Self {
        let mut world = World::new(1);
        world.nodes.extend(nodes.map(str::to_owned));
        Self {
            namespace: namespace.to_owned(),
            rng: Rng::with_seed(seed),
            world,
            facts: Facts::default(),
            now,
            since: BTreeMap::new(),
            follows: None,
        }
    }

    /// Returns the facts about its Services.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the operations with which a namespace begins.
    pub(super) fn populate(&mut self) -> Vec<Value> {
        let mut operations = Vec::new();
        for _ in 0..self.rng.usize(6..14) {
            operations.extend(self.create_pod());
        }
        for _ in 0..self.rng.usize(2..=4) {
            operations.extend(self.create_service());
        }
        operations
    }

    /// The next change.
    pub(super) fn next(&mut self) -> Value {
        if let Some(change) = self.follows.take() {
            return change;
        }
        loop {
            let change = match self.rng.u32(..CHANCES) {
                0..=23 => self.flip(),
                24..=35 => self.create_pod(),
                36..=42 => self.delete_pod(),
                43..=49 => self.finish_pod(),
                50..=56 => self.relabel(),
                57..=61 => self.readdress(),
                62..=64 => self.end_pod(),
                65..=70 => self.create_service(),
                71..=86 => self.edit_service(),
                87..=89 => self.delete_service(),
                90..=93 => self.tamper_with_slices(),
                _ => self.tamper_with_endpoints(),
            };
            if let Some(change) = change {
                return change;
            }
        }
    }

    /// The readiness of a pod changes now.
    fn turn(&mut self, pod: &str) {
        self.now = self
            .now
            .checked_add(SignedDuration::from_secs(1))
            .unwrap_or(Timestamp::MAX);
        self.since.insert(pod.to_owned(), self.now);
    }

    /// A pod's status. One without an address has no readiness: whether upstream has seen the time of its last change depends on
    /// which of two events it evaluates.
    fn status(&self, pod: &Pod) -> Value {
        let since = self.since.get(&pod.name).copied().unwrap_or(self.now);
        let mut status = pod.status(since);
        if pod.address.is_none() {
            status["status"]["conditions"] = json!([]);
        }
        status
    }

    fn pick(&mut self, wanted: impl Fn(&Pod) -> bool) -> Option<usize> {
        let pods = self.world.pods.iter().enumerate();
        let wanted: Vec<usize> = pods.filter(|(_, pod)| wanted(pod)).map(|(at, _)| at).collect();
        self.rng.choice(wanted)
    }

    fn create_pod(&mut self) -> Option<Value> {
        if self.world.pods.len() >= MOST_PODS {
            return None;
        }
        let app = World::app(&mut self.rng);
        let mut pod = self.world.new_pod(&mut self.rng, self.namespace.clone(), app);
        if pod.node.is_none() {
            // kube-controller-manager's Endpoints are refused if a pod has an address and no node.
            pod.address = None;
        }
        self.turn(&pod.name);
        let mut object = pod.body();
        object["status"] = self.status(&pod)["status"].clone();
        without_nulls(&mut object["status"]);
        self.world.pods.push(pod);
        Some(json!({ "create": object }))
    }

    /// The kubelet reports a pod's status.
    fn report(&self, at: usize) -> Value {
        let pod = &self.world.pods[at];
        patch("Pod", &pod.name, Some("status"), &self.status(pod))
    }

    /// The same of one whose readiness has changed.
    fn report_turned(&mut self, at: usize) -> Value {
        let name = self.world.pods[at].name.clone();
        self.turn(&name);
        self.report(at)
    }

    fn flip(&mut self) -> Option<Value> {
        let at = self.pick(|pod| pod.phase == "Running" && pod.address.is_some())?;
        let pod = &mut self.world.pods[at];
        pod.ready = !pod.ready;
        Some(self.report_turned(at))
    }

    /// A pod is told to end. One that runs nowhere, or has ended, is gone at once.
    fn delete_pod(&mut self) -> Option<Value> {
        let at = self.pick(|pod| !pod.deleting)?;
        let pod = &mut self.world.pods[at];
        let operation = json!({ "delete": { "kind": "Pod", "name": pod.name } });
        if pod.node.is_some() && pod.phase == "Running" {
            pod.deleting = true;
        } else {
            self.world.pods.swap_remove(at);
        }
        Some(operation)
    }

    /// A pod that was told to end has ended.
    fn finish_pod(&mut self) -> Option<Value> {
        let at = self.pick(|pod| pod.deleting)?;
        let pod = self.world.pods.swap_remove(at);
        Some(json!({ "delete": { "kind": "Pod", "name": pod.name, "grace": 0 } }))
    }

    fn relabel(&mut self) -> Option<Value> {
        let at = self.pick(|_| true)?;
        let app = World::app(&mut self.rng);
        let pod = &mut self.world.pods[at];
        if self.rng.bool() {
            pod.app = app;
        } else {
            pod.track = !pod.track;
        }
        Some(patch(
            "Pod",
            &pod.name,
            None,
            &json!({ "metadata": { "labels": pod.labels() } }),
        ))
    }

    fn readdress(&mut self) -> Option<Value> {
        let at = self.pick(|pod| pod.phase == "Running" && pod.node.is_some())?;
        let address = (self.rng.usize(..5) > 0).then(|| self.world.address(&mut self.rng));
        let had_none = self.world.pods[at].address.is_none();
        self.world.pods[at].address = address;
        Some(if had_none {
            self.report_turned(at)
        } else {
            self.report(at)
        })
    }

    /// A pod ends by itself. It was ready: of one that was not, upstream may not notice it.
    fn end_pod(&mut self) -> Option<Value> {
        let at = self.pick(|pod| pod.phase == "Running" && pod.ready && pod.address.is_some())?;
        let pod = &mut self.world.pods[at];
        pod.phase = self.rng.choice(["Succeeded", "Failed"]).unwrap_or("Failed");
        pod.ready = false;
        let report = self.report_turned(at);
        self.facts.ends.insert(seconds(self.now));
        Some(report)
    }

    fn create_service(&mut self) -> Option<Value> {
        let name = format!("svc{}", self.rng.usize(..MOST_SERVICES));
        if self.world.services.iter().any(|service| service.name == name) {
            return None;
        }
        let mut service = World::new_service(&mut self.rng, self.namespace.clone(), name);
        // Upstream does not know what it means.
        service.annotation = None;
        service.hints = hints(service.hints);
        let object = service.body();
        self.note(&service);
        self.world.services.push(service);
        Some(json!({ "create": object }))
    }

    /// Keeps what is known of a Service.
    fn note(&mut self, service: &Service) {
        let name = || service.name.clone();
        if service.external {
            self.facts.external.insert(name());
        } else {
            self.facts.external.remove(&service.name);
        }
        if !service.selects {
            self.facts.without_selector.insert(name());
        }
    }

    fn service(&mut self) -> Option<usize> {
        match self.world.services.len() {
            0 => None,
            count => Some(self.rng.usize(..count)),
        }
    }

    fn edit_service(&mut self) -> Option<Value> {
        let at = self.service()?;
        let kind = self.rng.u32(..16);
        let (app, ports, mode) = (World::app(&mut self.rng), self.rng.u8(..6), self.rng.u8(..8));
        let service: &mut Service = &mut self.world.services[at];
        let change = match kind {
            0..=2 if !service.external => {
                service.ports = ports;
                json!({ "spec": { "ports": service.port_list() } })
            }
            3..=5 if service.selects => {
                (service.app, service.track) = (app, kind == 5);
                json!({ "spec": { "selector": service.selector_patch() } })
            }
            6 => {
                service.selects = !service.selects;
                json!({ "spec": { "selector": service.selector_patch() } })
            }
            7 if !service.external => {
                service.toggle_families();
                json!({ "spec": service.families_patch() })
            }
            8 => {
                service.publish_not_ready = !service.publish_not_ready;
                json!({ "spec": { "publishNotReadyAddresses": service.publish_not_ready } })
            }
            9 | 10 => {
                service.revision += 1;
                json!({ "metadata": { "labels": service.labels_patch() } })
            }
            11 | 12 => {
                service.hints = hints(mode);
                service.hint_patch()
            }
            13 => {
                service.external = !service.external;
                json!({ "spec": service.kind_patch() })
            }
            14 => json!({ "metadata": { "annotations": { "note": format!("{app}") } } }),
            _ => return None,
        };
        let service = service.clone();
        self.note(&service);
        Some(patch("Service", &service.name, None, &change))
    }

    fn delete_service(&mut self) -> Option<Value> {
        let at = self.service()?;
        let service = self.world.services.swap_remove(at);
        Some(json!({ "delete": { "kind": "Service", "name": service.name } }))
    }

    /// Edits or deletes all slices of a Service, as another client would.
    fn tamper_with_slices(&mut self) -> Option<Value> {
        let at = self.service()?;
        let service = self.world.services[at].name.clone();
        let change = match self.rng.u32(..4) {
            0 => return Some(json!({ "delete_slices": { "service": service } })),
            1 => json!({ "endpoints": [] }),
            2 => json!({ "metadata": { "labels": { EDIT: "were-here" } } }),
            _ => json!({ "ports": [{ "name": "wrong", "port": 1, "protocol": "TCP" }] }),
        };
        Some(json!({ "patch_slices": { "service": service, "patch": change } }))
    }

    /// Edits or deletes the Endpoints of a Service with a selector, as another client would.
    fn tamper_with_endpoints(&mut self) -> Option<Value> {
        let services = self.world.services.iter();
        let names = services.filter(|service| service.selects && !service.external);
        let names: Vec<String> = names.map(|service| service.name.clone()).collect();
        let name = self.rng.choice(names)?;
        Some(if self.rng.bool() {
            json!({ "delete": { "kind": "Endpoints", "name": name } })
        } else {
            self.facts.edited.insert(name.clone());
            // Upstream does not notice edits, and would put them right with the trigger time of a later change, which may not
            // change anything for endpointd. So it is made to look before there is one: the note is another one each time, also
            // within a second, or nothing would have changed.
            let note = format!("{:016x}", self.rng.u64(..));
            let note = json!({ "metadata": { "annotations": { "note": note } } });
            self.follows = Some(patch("Service", &name, None, &note));
            let labels = json!({ "metadata": { "labels": { EDIT: "were-here" } } });
            patch("Endpoints", &name, None, &labels)
        })
    }
}

/// Which endpoint serves which zone is free where hints are shared out over zones, so other hints take the place of these.
fn hints(hints: u8) -> u8 {
    match hints {
        0 | 1 => hints + 2,
        other => other,
    }
}

fn patch(kind: &str, name: &str, subresource: Option<&str>, patch: &Value) -> Value {
    json!({ "patch": { "kind": kind, "name": name, "sub": subresource, "patch": patch } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scenario::Scenario;
    use std::collections::BTreeSet;

    fn steps(seed: u64) -> Steps {
        let nodes = ["node0", "node1", "node2", "node3", "node4"];
        Steps::new("ns", seed, nodes, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_seed_makes_the_same_changes_again_and_another_seed_makes_others() {
        let changes = |seed| {
            let mut steps = steps(seed);
            let first = steps.populate();
            (first, (0..200).map(|_| steps.next()).collect::<Vec<_>>())
        };
        assert_eq!(changes(1), changes(1));
        assert_ne!(changes(1), changes(2));
    }

    #[test]
    fn changes_are_of_every_sort_and_make_a_scenario_that_can_be_played() {
        let mut sorts = BTreeSet::new();
        for seed in 0..20 {
            let mut steps = steps(seed);
            let first = steps.populate();
            let mut all = vec![json!({ "do": first })];
            for _ in 0..200 {
                let change = steps.next();
                let (verb, of) = change.as_object().unwrap().iter().next().unwrap();
                let kind = of["kind"].as_str().unwrap_or_default();
                sorts.insert(format!(
                    "{verb} {kind} {}",
                    of["sub"].as_str().unwrap_or_default()
                ));
                all.push(json!({ "do": [change] }));
            }
            Scenario(&json!({ "name": "x", "steps": all })).check().unwrap();
        }
        for sort in [
            "create Pod ",
            "create Service ",
            "delete Endpoints ",
            "delete Pod ",
            "delete Service ",
            "delete_slices  ",
            "patch Endpoints ",
            "patch Pod ",
            "patch Pod status",
            "patch Service ",
            "patch_slices  ",
        ] {
            assert!(sorts.contains(sort), "{sort}: {sorts:#?}");
        }
    }

    #[test]
    fn hints_that_leave_a_choice_to_controllers_are_not_asked_for() {
        assert_eq!((0..8).map(hints).collect::<Vec<_>>(), [2, 3, 2, 3, 4, 5, 6, 7]);
    }
}
