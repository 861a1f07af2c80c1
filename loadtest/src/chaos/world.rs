//! The knowledge that a history has of its cluster: enough to choose what happens next, and to write the bodies of it.

use crate::objects::{Families, V4, V4_V6, V6, V6_V4, ZONE_LABEL, names, namespaced, pod_status, seconds};
use crate::oracle::Family;
use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The apps that pods belong to and Services select.
const APPS: usize = 3;
const ZONES: [&str; 3] = ["east", "west", "north"];
const NODES: usize = 5;

/// The cluster as it was left by the history.
pub(crate) struct World {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) services: Vec<Service>,
    /// Names of pods never come twice, unless that is meant.
    next_pod: u32,
    next_address: u16,
}

pub(crate) struct Namespace {
    pub(crate) name: String,
    /// Deleted and not yet gone, or gone.
    pub(crate) deleted: bool,
}

#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) app: usize,
    pub(crate) track: bool,
    /// Possibly one that does not exist, or none.
    pub(crate) node: Option<String>,
    pub(crate) address: Option<u16>,
    pub(crate) families: Families,
    pub(crate) ready: bool,
    pub(crate) phase: &'static str,
    pub(crate) deleting: bool,
    pub(crate) ports: u8,
    /// The Service in whose domain it has a name.
    pub(crate) subdomain: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) app: usize,
    /// Selects one track of the app only.
    pub(crate) track: bool,
    pub(crate) selects: bool,
    pub(crate) external: bool,
    pub(crate) headless: bool,
    pub(crate) families: Families,
    pub(crate) ports: u8,
    pub(crate) publish_not_ready: bool,
    pub(crate) hints: u8,
    /// The selector in its annotation: one of [`ANNOTATIONS`].
    pub(crate) annotation: Option<usize>,
    /// Counts edits of its labels.
    pub(crate) revision: u32,
    /// Deleted, but held by a finalizer.
    pub(crate) deleting: bool,
}

/// Selectors for annotations, the last of which cannot be used.
pub(crate) const ANNOTATIONS: [&str; 9] = [
    "app=app0",
    "app in (app0, app1)",
    "app in (app1,app2),track!=canary",
    "app notin (app0),track",
    "!track",
    "app == app1, track = stable",
    "app",
    "",
    "app in app1",
];

/// The label of slices that names their controller, and the one that names their Service.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The value of the former for the built-in controller, which endpointd replaces.
pub(super) const OURS: &str = "endpointslice-controller.k8s.io";

/// The lists of ports that a Service may have.
pub(crate) const PORTS: u8 = 7;

// === impl World ===
impl World {
    pub(crate) fn new(namespaces: usize) -> Self {
        let namespace = |i| Namespace {
            name: format!("ns{i}"),
            deleted: false,
        };
        Self {
            namespaces: (0..namespaces).map(namespace).collect(),
            nodes: BTreeSet::new(),
            pods: Vec::new(),
            services: Vec::new(),
            next_pod: 0,
            next_address: 1,
        }
    }

    /// A namespace that is not deleted.
    pub(crate) fn namespace(&self, rng: &mut Rng) -> Option<String> {
        let alive: Vec<_> = self.namespaces.iter().filter(|n| !n.deleted).collect();
        rng.choice(alive).map(|namespace| namespace.name.clone())
    }

    /// The name of a node that there may be.
    pub(crate) fn node_name(rng: &mut Rng) -> String {
        format!("node{}", rng.usize(..NODES))
    }

    /// An address for a pod: mostly a new one, sometimes one that another pod has or had.
    pub(crate) fn address(&mut self, rng: &mut Rng) -> u16 {
        let used = self.next_address;
        if used > 1 && rng.usize(..12) == 0 {
            return rng.u16(1..used);
        }
        self.next_address += 1;
        used
    }

    /// A pod that is not made yet.
    pub(crate) fn new_pod(&mut self, rng: &mut Rng, namespace: String, app: usize) -> Pod {
        self.next_pod += 1;
        let node = match rng.usize(..25) {
            0 => None,
            // One of those that may come later.
            1 => Some(Self::node_name(rng)),
            _ => {
                let there = rng.choice(&self.nodes).cloned();
                there.or_else(|| Some(Self::node_name(rng)))
            }
        };
        let services = self.services.iter().filter(|s| s.namespace == namespace);
        let subdomain = match rng.usize(..5) {
            0 => rng.choice(services.collect::<Vec<_>>()).map(|s| s.name.clone()),
            _ => None,
        };
        Pod {
            name: format!("pod{}", self.next_pod),
            app,
            track: rng.bool(),
            node,
            address: (rng.usize(..8) > 0).then(|| self.address(rng)),
            families: match rng.usize(..10) {
                0 => V6,
                1..=4 => V4,
                5 => V6_V4,
                _ => V4_V6,
            },
            ready: rng.usize(..4) > 0,
            phase: "Running",
            deleting: false,
            ports: rng.u8(..3),
            subdomain,
            namespace,
        }
    }

    /// A Service that is not made yet.
    pub(crate) fn new_service(rng: &mut Rng, namespace: String, name: String) -> Service {
        Service {
            namespace,
            name,
            app: rng.usize(..APPS),
            track: rng.usize(..4) == 0,
            selects: rng.usize(..12) > 0,
            external: rng.usize(..15) == 0,
            headless: rng.usize(..4) == 0,
            families: match rng.usize(..8) {
                0 => V6,
                1 | 2 => V4_V6,
                3 => V6_V4,
                _ => V4,
            },
            ports: rng.u8(..PORTS),
            publish_not_ready: rng.usize(..6) == 0,
            hints: rng.u8(..8),
            annotation: (rng.u32(..3) == 0).then(|| rng.usize(..ANNOTATIONS.len())),
            revision: rng.u32(..2),
            deleting: false,
        }
    }

    pub(crate) fn app(rng: &mut Rng) -> usize {
        rng.usize(..APPS)
    }
}

/// The labels of a Node.
pub(crate) fn node_labels(rng: &mut Rng) -> Value {
    without_nulls(zone_labels(rng))
}

/// Mostly a zone. Serves as a patch, too.
pub(crate) fn zone_labels(rng: &mut Rng) -> Value {
    let zone = match rng.usize(..12) {
        0 => Value::Null,
        _ => rng.choice(ZONES).into(),
    };
    let mut labels = json!({ ZONE_LABEL: zone });
    if rng.usize(..10) == 0 {
        labels["node-role.kubernetes.io/control-plane"] = if rng.bool() { "".into() } else { Value::Null };
    }
    labels
}

/// Objects that are created have no nulls in them, patches may.
fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}

pub(crate) fn node_status(rng: &mut Rng) -> Value {
    let cpu = rng.choice(["1", "2", "3500m", "8"]);
    let ready = if rng.usize(..6) == 0 { "False" } else { "True" };
    json!({ "status": {
        "allocatable": { "cpu": cpu }, "capacity": { "cpu": cpu },
        "conditions": [{ "type": "Ready", "status": ready }],
    } })
}

// === impl Pod ===

impl Pod {
    pub(crate) fn labels(&self) -> Value {
        json!({
            "app": format!("app{}", self.app),
            "track": if self.track { "stable" } else { "canary" },
            "pod-name": self.name,
        })
    }

    pub(crate) fn body(&self) -> Value {
        let port = |name: &str, number: u16| json!({ "name": name, "containerPort": number });
        let ports = match self.ports {
            0 => json!([port("http", 8080), port("metrics", 9090)]),
            1 => json!([port("http", 8000)]),
            _ => json!([]),
        };
        let mut spec = json!({
            "terminationGracePeriodSeconds": 30,
            "containers": [{ "name": "main", "image": "example.com/app:1", "ports": ports }],
        });
        if let Some(node) = &self.node {
            spec["nodeName"] = json!(node);
        }
        if let Some(subdomain) = &self.subdomain {
            spec["hostname"] = json!(self.name);
            spec["subdomain"] = json!(subdomain);
        }
        namespaced("Pod", &self.namespace, &self.name, self.labels(), spec)
    }

    /// The pod's status as a patch, its Ready condition with the time given.
    pub(crate) fn status(&self, since: Timestamp) -> Value {
        let ips = self.address.map_or_else(Vec::new, |n| {
            self.families.iter().map(|family| address(*family, n)).collect()
        });
        pod_status(self.phase, &ips, self.ready, &seconds(since))
    }
}

fn address(family: Family, n: u16) -> IpAddr {
    let [high, low] = n.to_be_bytes();
    match family {
        Family::V4 => IpAddr::from([10, 100, high, low]),
        Family::V6 => IpAddr::from([0xfd00, 0x100, 0, 0, 0, 0, 0, n]),
    }
}

// === impl Service ===

impl Service {
    pub(crate) fn body(&self) -> Value {
        let mut spec = json!({ "selector": self.selector(), "ports": self.port_list() });
        for part in [self.kind_patch(), self.hint_patch()["spec"].clone()] {
            merge(&mut spec, &part);
        }
        if self.publish_not_ready {
            spec["publishNotReadyAddresses"] = json!(true);
        }
        let spec = without_nulls(spec);
        let mut body = namespaced("Service", &self.namespace, &self.name, self.labels(), spec);
        let mut annotations = self.hint_patch()["metadata"]["annotations"].clone();
        merge(
            &mut annotations,
            &self.annotation_patch()["metadata"]["annotations"],
        );
        body["metadata"]["annotations"] = without_nulls(annotations);
        body
    }

    /// The annotation that says what is published, as a patch.
    pub(crate) fn annotation_patch(&self) -> Value {
        let text = self.annotation.map(|at| ANNOTATIONS[at]);
        json!({ "metadata": { "annotations": { "endpointd.io/selector": text } } })
    }

    pub(crate) fn labels(&self) -> Value {
        let mut labels = json!({ "revision": self.revision.to_string() });
        // A label that comes and goes.
        labels["team"] = if self.revision.is_multiple_of(3) {
            json!("chaos")
        } else {
            Value::Null
        };
        without_nulls(labels)
    }

    /// Labels that go are named, too.
    pub(crate) fn labels_patch(&self) -> Value {
        let mut labels = json!({ "team": null });
        merge(&mut labels, &self.labels());
        labels
    }

    /// The selector as a patch: what is not selected by is taken away.
    pub(crate) fn selector(&self) -> Value {
        if !self.selects {
            return Value::Null;
        }
        let mut selector = json!({ "app": format!("app{}", self.app) });
        if self.track {
            selector["track"] = json!("stable");
        }
        selector
    }

    pub(crate) fn selector_patch(&self) -> Value {
        match self.selector() {
            Value::Null => Value::Null,
            selector => {
                let mut patch = json!({ "track": null });
                merge(&mut patch, &selector);
                patch
            }
        }
    }

    /// The type with all that hangs on it, as a patch of the spec.
    pub(crate) fn kind_patch(&self) -> Value {
        if self.external {
            return json!({
                "type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null,
                "ipFamilies": null, "ipFamilyPolicy": null,
            });
        }
        let mut patch = self.families_patch();
        patch["type"] = json!("ClusterIP");
        patch["externalName"] = Value::Null;
        patch["clusterIP"] = if self.headless { json!("None") } else { Value::Null };
        patch
    }

    /// The families alone, as a patch of the spec.
    pub(crate) fn families_patch(&self) -> Value {
        let is_single = self.families.len() == 1;
        json!({
            "ipFamilies": names(self.families),
            "ipFamilyPolicy": if is_single { "SingleStack" } else { "RequireDualStack" },
        })
    }

    /// The same first family comes with the other one, or loses it.
    pub(crate) fn toggle_families(&mut self) {
        self.families = match self.families {
            [Family::V4] => V4_V6,
            [Family::V6] => V6_V4,
            [Family::V4, ..] => V4,
            _ => V6,
        };
    }

    /// Returns the fields that decide hints, as a patch.
    pub(crate) fn hint_patch(&self) -> Value {
        let (mode, old_mode, distribution) = match self.hints {
            0 => (json!("Auto"), Value::Null, Value::Null),
            1 => (Value::Null, json!("auto"), Value::Null),
            2 => (Value::Null, Value::Null, json!("PreferClose")),
            3 => (Value::Null, Value::Null, json!("PreferSameZone")),
            4 => (json!("Disabled"), Value::Null, json!("PreferSameNode")),
            _ => (Value::Null, Value::Null, Value::Null),
        };
        json!({
            "metadata": { "annotations": {
                "service.kubernetes.io/topology-mode": mode,
                "service.kubernetes.io/topology-aware-hints": old_mode,
            } },
            "spec": { "trafficDistribution": distribution },
        })
    }

    pub(crate) fn port_list(&self) -> Value {
        let port = |name: &str, number: u16, target: Value| json!({ "name": name, "port": number, "targetPort": target });
        match self.ports {
            0 => json!([port("http", 80, json!(8080))]),
            1 => json!([
                port("http", 80, json!("http")),
                port("metrics", 90, json!("metrics"))
            ]),
            2 => json!([port("metrics", 90, json!("metrics"))]),
            3 => json!([port("http", 80, json!("http"))]),
            4 => json!([{ "port": 80, "protocol": "UDP" }]),
            5 => json!([port("http", 80, json!(8000))]),
            _ => {
                let mut web = port("web", 443, json!(8443));
                web["appProtocol"] = json!("https");
                json!([web, port("http", 80, json!("http"))])
            }
        }
    }
}

/// A merge patch, but with nulls kept.
fn merge(into: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}
