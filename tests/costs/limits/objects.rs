//! Objects at the API's limits: of each field that repeats, as many as an object has room for, with the shortest and with
//! the longest texts that the API server accepts.

use crate::protobuf;
use endpointd::core::object::ObjectName;
use serde_json::{Value, json};

/// The most bytes of an object that etcd takes by default.
const OBJECT: usize = 1_500_000;
/// The most bytes of annotations.
const ANNOTATIONS: usize = 256 << 10;
/// The longest name of an object; the longest label key without a prefix, and the longest label value.
const NAME: usize = 253;
const LABEL: usize = 63;

/// A kind of object that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Pod,
    Service,
    /// Endpoints of a Service without a selector.
    Endpoints,
    /// Endpoints of a Service with a selector.
    OwnEndpoints,
    /// A slice of ours.
    Slice,
    /// A slice of a Service whose selector is an annotation.
    Custom,
    /// A slice that mirrors Endpoints.
    Mirrored,
    Node,
}

impl Kind {
    /// The name of the object.
    pub(super) fn object(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Service => "svc",
            Self::Endpoints => "mirror",
            Self::OwnEndpoints => "app",
            Self::Slice | Self::Custom | Self::Mirrored => "slice",
            Self::Node => "node-0",
        }
    }

    /// The name of the published object that a request for it names, if it is one.
    pub(super) fn published(self) -> Option<ObjectName> {
        let name = self.object().into();
        match self {
            Self::Endpoints | Self::OwnEndpoints => Some(ObjectName::endpoints(name)),
            Self::Slice | Self::Custom => Some(ObjectName::slice(name)),
            Self::Mirrored => Some(ObjectName::mirrored(name)),
            Self::Pod | Self::Service | Self::Node => None,
        }
    }
}

/// A field that repeats.
pub(super) struct Field {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    /// The JSON pointer of the list, map or text.
    pointer: &'static str,
    /// The most items, and the most bytes of all of them.
    most: (usize, usize),
    /// The nth item: with short texts, or with the longest.
    item: fn(usize, bool) -> Item,
}

enum Item {
    /// An element of a list.
    Element(Value),
    /// A pair of a map.
    Pair(String, String),
    /// A value of a selector.
    Value(String),
    /// A part of a text, after a comma.
    Part(String),
}

/// A text that begins with this, as long as the API allows if `long`.
fn text(start: String, long: bool, longest: usize) -> String {
    let rest = if long { longest - start.len() } else { 0 };
    start + &"x".repeat(rest)
}

fn label(n: usize, long: bool) -> Item {
    Item::Pair(
        text(format!("k{n}"), long, LABEL),
        text(String::new(), long, LABEL),
    )
}

fn ip(n: usize) -> String {
    format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, n & 255)
}

fn reference(n: usize) -> Value {
    json!({
        "kind": "Pod", "namespace": "ns", "name": text(format!("p{n}"), true, NAME),
        "uid": format!("{n:08x}-0000-4000-8000-000000000000"),
    })
}

fn address(n: usize, long: bool) -> Item {
    let mut address = json!({"ip": ip(n)});
    if long {
        address["hostname"] = text(format!("h{n}"), true, LABEL).into();
        address["nodeName"] = text(format!("n{n}"), true, NAME).into();
        address["targetRef"] = reference(n);
    }
    Item::Element(address)
}

/// A port with a name of its own.
fn port(n: usize, long: bool) -> Item {
    Item::Element(
        json!({"name": text(format!("p{n}"), long, LABEL), "port": 1 + n % 65_535, "protocol": "TCP"}),
    )
}

/// A port that shares its name with all others.
fn port_alike(n: usize, long: bool) -> Item {
    Item::Element(json!({"name": text("p".into(), long, LABEL), "port": 1 + n, "protocol": "TCP"}))
}

fn subset(n: usize, long: bool) -> Item {
    let (Item::Element(address), Item::Element(port)) = (address(n, long), port(n, long)) else {
        unreachable!("both are elements of lists")
    };
    Item::Element(json!({"addresses": [address], "ports": [port]}))
}

/// A subset that is as small as one with a slice of its own can be.
fn subset_of_a_port(n: usize, long: bool) -> Item {
    let mut address = json!({"ip": ip(n)});
    if long {
        // As many slices as the Endpoints may stand for.
        address["nodeName"] = text(format!("n{n}"), true, NAME).into();
        address["hostname"] = text(format!("h{n}"), true, LABEL).into();
    }
    Item::Element(json!({"addresses": [address], "ports": [{"port": 1 + n % 65_535}]}))
}

/// Another subset with a port of the name that ports of a thousand addresses have.
fn subset_of_a_name(n: usize, long: bool) -> Item {
    let Item::Element(mut subset) = subset_of_a_port(n, long) else {
        unreachable!("an element of a list")
    };
    subset["ports"] = json!([{"name": "a", "port": 1000 + n % 60_000}]);
    Item::Element(subset)
}

/// A subset of ports of its own, and one that stands in every subset.
fn subset_overlapping(n: usize, long: bool) -> Item {
    let Item::Element(mut subset) = subset(n, long) else {
        unreachable!("an element of a list")
    };
    let shared = json!({"name": "shared", "port": 1, "protocol": "TCP"});
    subset["ports"].as_array_mut().unwrap().push(shared);
    Item::Element(subset)
}

fn container(n: usize, long: bool) -> Item {
    let ports = json!([{"name": text("a".into(), long, 15), "containerPort": 1 + n % 65_535}]);
    Item::Element(json!({"name": text(format!("c{n}"), long, LABEL), "ports": ports}))
}

/// A container whose ports count as those of the others do.
fn sidecar(n: usize, long: bool) -> Item {
    let Item::Element(mut element) = container(n, long) else {
        unreachable!("an element of a list")
    };
    element["restartPolicy"] = "Always".into();
    Item::Element(element)
}

fn container_port(n: usize, long: bool) -> Item {
    Item::Element(json!({"name": text(format!("a{n}"), long, 15), "containerPort": 1 + n % 65_535}))
}

fn condition(n: usize, long: bool) -> Item {
    Item::Element(json!({"type": text(format!("t{n}"), long, LABEL), "status": "True"}))
}

fn quantity(n: usize, long: bool) -> Item {
    Item::Pair(text(format!("example.com/q{n}"), long, LABEL), "1".into())
}

fn service_port(n: usize, long: bool) -> Item {
    let target = text(format!("a{n}"), long, 15);
    Item::Element(
        json!({"name": text(format!("p{n}"), long, LABEL), "port": 1 + n % 65_535, "targetPort": target}),
    )
}

fn endpoint(n: usize, long: bool) -> Item {
    let mut endpoint = json!({"addresses": [ip(n)], "conditions": {"ready": true}});
    if long {
        endpoint["hostname"] = text(format!("h{n}"), true, LABEL).into();
        endpoint["nodeName"] = text(format!("n{n}"), true, NAME).into();
        endpoint["zone"] = text(format!("z{n}"), true, LABEL).into();
        endpoint["targetRef"] = reference(n);
        let zones = (0..8).map(|at| json!({"name": text(format!("z{at}"), true, LABEL)}));
        endpoint["hints"] = json!({"forZones": zones.collect::<Vec<_>>()});
    }
    Item::Element(endpoint)
}

/// As many addresses as an endpoint may have.
fn endpoint_of_addresses(n: usize, long: bool) -> Item {
    let Item::Element(mut element) = endpoint(n, long) else {
        unreachable!("an element of a list")
    };
    element["addresses"] = (0..100).map(|at| ip(100 * n + at)).collect();
    Item::Element(element)
}

fn endpoint_with_topology(n: usize, long: bool) -> Item {
    let Item::Element(mut element) = endpoint(n, false) else {
        unreachable!("an element of a list")
    };
    let pair = |at: usize| {
        (
            text(format!("k{at}"), long, LABEL),
            text(format!("v{n}"), long, LABEL).into(),
        )
    };
    element["deprecatedTopology"] = Value::Object((0..16).map(pair).collect());
    Item::Element(element)
}

fn value(n: usize, long: bool) -> Item {
    Item::Value(text(format!("v{n}"), long, LABEL))
}

fn key(n: usize, long: bool) -> Item {
    Item::Part(format!("!{}", text(format!("k{n}"), long, LABEL)))
}

/// An annotation of this project that means nothing.
fn unknown(n: usize, long: bool) -> Item {
    const PREFIX: &str = "endpointd.io/";
    Item::Pair(
        text(format!("{PREFIX}k{n}"), long, PREFIX.len() + LABEL),
        text(String::new(), long, LABEL),
    )
}

fn owner(n: usize, long: bool) -> Item {
    Item::Element(json!({
        "apiVersion": "v1", "kind": "Service", "name": text(format!("o{n}"), long, NAME), "uid": format!("o{n}"),
    }))
}

fn finalizer(n: usize, long: bool) -> Item {
    Item::Element(text(format!("example.com/f{n}"), long, 70).into())
}

const ALL: usize = usize::MAX;

const EVERY: [Kind; 8] = [
    Kind::Pod,
    Kind::Service,
    Kind::Endpoints,
    Kind::OwnEndpoints,
    Kind::Slice,
    Kind::Custom,
    Kind::Mirrored,
    Kind::Node,
];
const ENDPOINTS: [Kind; 2] = [Kind::Endpoints, Kind::OwnEndpoints];
const SLICES: [Kind; 3] = [Kind::Slice, Kind::Custom, Kind::Mirrored];
/// As many as an object has room for.
const ROOM: (usize, usize) = (ALL, OBJECT);
const SELECTOR: &str = "/metadata/annotations/endpointd.io~1selector";

/// The fields that repeat: of which kinds, the name, the JSON pointer, the most, and the item.
type Row = (
    &'static [Kind],
    &'static str,
    &'static str,
    (usize, usize),
    fn(usize, bool) -> Item,
);

#[rustfmt::skip] // A table.
const TABLE: [Row; 30] = [
    (&EVERY, "labels", "/metadata/labels", ROOM, label),
    (&EVERY, "annotations", "/metadata/annotations", (ALL, ANNOTATIONS), label),
    (&EVERY, "owners", "/metadata/ownerReferences", ROOM, owner),
    (&EVERY, "finalizers", "/metadata/finalizers", ROOM, finalizer),
    (&[Kind::Pod], "containers", "/spec/containers", ROOM, container),
    (&[Kind::Pod], "ports", "/spec/containers/0/ports", ROOM, container_port),
    (&[Kind::Pod], "sidecars", "/spec/initContainers", ROOM, sidecar),
    (&[Kind::Pod], "ports of a sidecar", "/spec/initContainers/0/ports", ROOM, container_port),
    (&[Kind::Pod], "conditions", "/status/conditions", ROOM, condition),
    (&[Kind::Service], "selector", "/spec/selector", ROOM, label),
    (&[Kind::Service], "ports", "/spec/ports", ROOM, service_port),
    (&[Kind::Service], "selected values", SELECTOR, (ALL, ANNOTATIONS), value),
    (&[Kind::Service], "selected keys", SELECTOR, (ALL, ANNOTATIONS), key),
    (&[Kind::Service], "unknown annotations", "/metadata/annotations", (ALL, ANNOTATIONS), unknown),
    (&ENDPOINTS, "addresses", "/subsets/0/addresses", ROOM, address),
    (&[Kind::Endpoints], "addresses that are not ready", "/subsets/0/notReadyAddresses", ROOM, address),
    (&[Kind::Endpoints], "ports", "/subsets/0/ports", ROOM, port),
    (&[Kind::Endpoints], "ports of one name", "/subsets/0/ports", (65_535, OBJECT), port_alike),
    (&[Kind::Endpoints], "ports of a thousand addresses", "/subsets/1/ports", (65_535, OBJECT / 2), port_alike),
    (&[Kind::Endpoints], "few ports of a thousand addresses", "/subsets/1/ports", (110, OBJECT), port_alike),
    (&[Kind::Endpoints], "subsets", "/subsets", ROOM, subset),
    (&[Kind::Endpoints], "subsets with a port in common", "/subsets", ROOM, subset_overlapping),
    (&[Kind::Endpoints], "subsets of an address and a port", "/subsets", ROOM, subset_of_a_port),
    (&[Kind::Endpoints], "subsets beside a thousand addresses", "/subsets", (12_000, OBJECT), subset_of_a_name),
    (&SLICES, "endpoints", "/endpoints", (1000, OBJECT), endpoint),
    (&SLICES, "endpoints of a hundred addresses", "/endpoints", (1000, OBJECT), endpoint_of_addresses),
    (&SLICES, "endpoints with topology", "/endpoints", (1000, OBJECT), endpoint_with_topology),
    (&SLICES, "ports", "/ports", (20_000, OBJECT), port),
    (&[Kind::Node], "conditions", "/status/conditions", ROOM, condition),
    (&[Kind::Node], "quantities", "/status/allocatable", ROOM, quantity),
];

/// Returns all fields of a kind that repeat.
pub(super) fn fields(kind: Kind) -> Vec<Field> {
    let rows = TABLE.iter().filter(|(kinds, ..)| kinds.contains(&kind));
    let fields = rows.map(|&(_, name, pointer, most, item)| Field {
        kind,
        name,
        pointer,
        most,
        item,
    });
    fields.collect()
}

impl Field {
    /// Returns how many items there is room for.
    pub(super) fn most(&self, long: bool) -> usize {
        let size = |n| match (self.item)(n, long) {
            Item::Element(value) => value.to_string().len() + 1,
            Item::Pair(key, value) => key.len() + value.len() + 6,
            Item::Value(text) | Item::Part(text) => text.len() + 1,
        };
        // Numbers have at most six digits.
        let each = size(100_000).max(size(1));
        self.most.0.min(self.most.1 / each)
    }

    /// Returns the object with so many items, of a version, and its size in JSON, by which the limits are counted here.
    pub(super) fn object(&self, items: usize, long: bool, version: u64) -> (Vec<u8>, usize) {
        let mut object = plain(self.kind);
        object["metadata"]["resourceVersion"] = version.to_string().into();
        // What matters of a node changes with each version.
        if self.kind == Kind::Node {
            object["metadata"]["labels"]["topology.kubernetes.io/zone"] = format!("zone-{version}").into();
        }
        if self.name.ends_with("ports of a thousand addresses") {
            // Addresses and ports share the room.
            let addresses = (0..1000).filter_map(|n| match address(n, long) {
                Item::Element(value) => Some(value),
                _ => None,
            });
            let subset = json!({"addresses": addresses.collect::<Vec<_>>(), "ports": []});
            object["subsets"].as_array_mut().unwrap().push(subset);
        }
        if self.name == "subsets beside a thousand addresses" {
            let addresses: Vec<_> = (100_000..101_000).map(|n| json!({"ip": ip(n)})).collect();
            let ports: Vec<_> = (1..17).map(|port| json!({"name": "a", "port": port})).collect();
            let subset = json!({"addresses": addresses, "ports": ports});
            object["subsets"].as_array_mut().unwrap().push(subset);
        }
        let place = object.pointer_mut(self.pointer).expect("the field is there");
        let (mut values, mut parts) = (Vec::new(), Vec::new());
        for n in 0..items {
            match ((self.item)(n, long), &mut *place) {
                (Item::Element(value), Value::Array(list)) => list.push(value),
                (Item::Pair(key, value), Value::Object(map)) => drop(map.insert(key, value.into())),
                (Item::Value(text), Value::String(_)) => values.push(text),
                (Item::Part(text), Value::String(_)) => parts.push(text),
                (_, place) => panic!("{} is {place}", self.name),
            }
        }
        if !parts.is_empty() {
            *place = parts.join(",").into();
        }
        if !values.is_empty() {
            *place = format!("app in ({})", values.join(",")).into();
        }
        let kind = match self.kind {
            Kind::Pod => "Pod",
            Kind::Service => "Service",
            Kind::Endpoints | Kind::OwnEndpoints => "Endpoints",
            Kind::Slice | Kind::Custom | Kind::Mirrored => "EndpointSlice",
            Kind::Node => "Node",
        };
        (protobuf::object(kind, &object), object.to_string().len())
    }
}

/// An object with nothing that repeats but what makes it count.
fn plain(kind: Kind) -> Value {
    let metadata = |name: &str, labels: Value| {
        json!({
            "name": name, "namespace": "ns", "uid": name, "labels": labels, "annotations": {}, "ownerReferences": [],
            "finalizers": [],
        })
    };
    let slice = |name: &str, manager: &str| {
        let labels =
            json!({"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": manager});
        let mut metadata = metadata("slice", labels);
        metadata["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Service", "name": name, "uid": name, "controller": true}]);
        json!({"metadata": metadata, "addressType": "IPv4", "endpoints": [], "ports": []})
    };
    match kind {
        Kind::Pod => json!({
            "metadata": metadata("pod", json!({"app": "a"})),
            "spec": {
                "nodeName": "node-0", "containers": [{"name": "c", "ports": []}],
                "initContainers": [{"name": "i", "restartPolicy": "Always", "ports": []}],
            },
            "status": {
                "podIP": "10.255.0.1", "podIPs": [{"ip": "10.255.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }),
        Kind::Service => {
            let mut service = json!({
                "metadata": metadata("svc", json!({})),
                "spec": {"selector": {}, "clusterIP": "None", "ports": []},
            });
            service["metadata"]["annotations"]["endpointd.io/selector"] = "".into();
            service
        }
        Kind::Endpoints => json!({
            "metadata": metadata("mirror", json!({})),
            "subsets": [{
                "addresses": [{"ip": "10.255.0.1"}], "notReadyAddresses": [],
                "ports": [{"name": "first", "port": 1, "protocol": "TCP"}],
            }],
        }),
        Kind::OwnEndpoints => {
            let mut endpoints = plain(Kind::Endpoints);
            endpoints["metadata"] = metadata(
                "app",
                json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}),
            );
            endpoints
        }
        Kind::Custom => slice("custom", "endpointd.io"),
        Kind::Slice => slice("app", "endpointslice-controller.k8s.io"),
        Kind::Mirrored => slice("mirror", "endpointslicemirroring-controller.k8s.io"),
        Kind::Node => json!({
            "metadata": {"name": "node-0", "uid": "n", "labels": {}, "annotations": {}, "ownerReferences": [], "finalizers": []},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}},
        }),
    }
}
