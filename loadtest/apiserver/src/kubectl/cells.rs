//! The columns of each kind, and the text of their cells.

use crate::json::{list, number, text};
use crate::kinds::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// A column of a table: its name, its priority (`kubectl get` shows 0, and 1 with `-o wide`), and its cells.
pub(super) type Column = (&'static str, u8, Cell);

/// Where a column's text comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    /// From the first of these places of the object that has one, as JSON pointers.
    At(&'static [&'static str]),
    /// From the time at the first of these places.
    Age(&'static [&'static str]),
    Made(fn(&Value) -> String),
}

use Cell::{Age, At, Made};

/// The columns of a kind's table in the order of the cells.
pub(super) fn columns(kind: Kind) -> &'static [Column] {
    match kind.kind {
        "Pod" => POD,
        "Service" => SERVICE,
        "Endpoints" => ENDPOINTS,
        "EndpointSlice" => SLICE,
        "Node" => NODE,
        "Namespace" => NAMESPACE,
        "Lease" => LEASE,
        "Event" => EVENT,
        _ => &[NAME, AGE],
    }
}

const NAME: Column = ("Name", 0, At(&["/metadata/name"]));
const AGE: Column = ("Age", 0, Age(&["/metadata/creationTimestamp"]));

const POD: &[Column] = &[
    NAME,
    ("Ready", 0, Made(ready_containers)),
    ("Status", 0, Made(pod_status)),
    ("Restarts", 0, Made(restarts)),
    AGE,
    ("IP", 1, At(&["/status/podIPs/0/ip"])),
    ("Node", 1, At(&["/spec/nodeName"])),
    ("Nominated Node", 1, At(&["/status/nominatedNodeName"])),
    ("Readiness Gates", 1, At(&[])),
];

const SERVICE: &[Column] = &[
    NAME,
    ("Type", 0, At(&["/spec/type"])),
    ("Cluster-IP", 0, At(&["/spec/clusterIPs/0"])),
    (
        "External-IP",
        0,
        At(&["/status/loadBalancer/ingress/0/ip", "/spec/externalName"]),
    ),
    ("Port(s)", 0, Made(service_ports)),
    AGE,
    ("Selector", 1, Made(selector)),
];

const ENDPOINTS: &[Column] = &[NAME, ("Endpoints", 0, Made(addresses)), AGE];

const SLICE: &[Column] = &[
    NAME,
    ("AddressType", 0, At(&["/addressType"])),
    ("Ports", 0, Made(slice_ports)),
    ("Endpoints", 0, Made(endpoints)),
    AGE,
];

const NODE: &[Column] = &[
    NAME,
    ("Status", 0, Made(node_status)),
    AGE,
    ("Version", 0, At(&["/status/nodeInfo/kubeletVersion"])),
];

const NAMESPACE: &[Column] = &[NAME, ("Status", 0, At(&["/status/phase"])), AGE];

const LEASE: &[Column] = &[NAME, ("Holder", 0, At(&["/spec/holderIdentity"])), AGE];

const EVENT: &[Column] = &[
    (
        "Last Seen",
        0,
        Age(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime"]),
    ),
    ("Type", 0, At(&["/type"])),
    ("Reason", 0, At(&["/reason"])),
    ("Object", 0, Made(event_object)),
    ("Source", 1, At(&["/source/component", "/reportingComponent"])),
    ("Message", 0, At(&["/message"])),
    ("Count", 1, At(&["/series/count", "/count"])),
    ("Name", 1, At(&["/metadata/name"])),
];

// === impl Cell ===

impl Cell {
    /// The text of the cell for an object.
    pub(super) fn of(&self, object: &Value, now: Timestamp) -> String {
        let first = |places: &[&str]| {
            let mut found = places.iter().filter_map(|place| object.pointer(place));
            match found.find(|value| !value.is_null() && **value != "") {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => "<none>".to_owned(),
            }
        };
        match self {
            At(places) => first(places),
            Age(places) => age(&first(places), now),
            Made(make) => make(object),
        }
    }
}

/// How long ago a time was.
fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    match (now.as_second() - time.as_second()).max(0) {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..10_800 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The first three of many, and how many more there are.
fn shortened(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        1..=3 => all.join(","),
        count => format!("{} + {} more...", all[..3].join(","), count - 3),
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/status/containerStatuses").iter()
}

fn ready_containers(pod: &Value) -> String {
    let ready = containers(pod).filter(|container| container["ready"] == true);
    format!("{}/{}", ready.count(), list(pod, "/spec/containers").len())
}

fn restarts(pod: &Value) -> String {
    let counts = containers(pod).map(|container| number(container, "/restartCount"));
    counts.sum::<i64>().to_string()
}

/// What a pod is doing, in a word.
fn pod_status(pod: &Value) -> String {
    let (phase, reason) = (text(pod, "/status/phase"), text(pod, "/status/reason"));
    let is_over = matches!(phase, "Succeeded" | "Failed");
    match () {
        () if pod.pointer("/metadata/deletionTimestamp").is_some() && !is_over => "Terminating",
        () if !reason.is_empty() => reason,
        () => phase,
    }
    .to_owned()
}

fn service_ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let protocol = text(port, "/protocol");
        match (number(port, "/port"), number(port, "/nodePort")) {
            (port, 0) => format!("{port}/{protocol}"),
            (port, node) => format!("{port}:{node}/{protocol}"),
        }
    });
    listed(ports)
}

fn selector(service: &Value) -> String {
    let pairs = service.pointer("/spec/selector").and_then(Value::as_object);
    let pairs = pairs.into_iter().flatten();
    listed(pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or(""))))
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        "<none>".to_owned()
    } else {
        texts.join(",")
    }
}

/// The ready addresses of an Endpoints, each with each port of its subset.
fn addresses(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(endpoints, "/subsets") {
        for port in list(subset, "/ports") {
            let port = number(port, "/port");
            all.extend(
                list(subset, "/addresses")
                    .iter()
                    .map(|address| match text(address, "/ip") {
                        ip if ip.contains(':') => format!("[{ip}]:{port}"),
                        ip => format!("{ip}:{port}"),
                    }),
            );
        }
    }
    shortened(&all, "<none>")
}

fn slice_ports(slice: &Value) -> String {
    let ports = list(slice, "/ports")
        .iter()
        .map(|port| match number(port, "/port") {
            0 => "*".to_owned(),
            number => number.to_string(),
        });
    shortened(&ports.collect::<Vec<_>>(), "<unset>")
}

fn endpoints(slice: &Value) -> String {
    let endpoints = list(slice, "/endpoints").iter();
    let addresses = endpoints.map(|endpoint| text(endpoint, "/addresses/0").to_owned());
    shortened(&addresses.collect::<Vec<_>>(), "<unset>")
}

fn node_status(node: &Value) -> String {
    let mut conditions = list(node, "/status/conditions").iter();
    let ready = conditions.rfind(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    format!("{status}{}", if cordoned { ",SchedulingDisabled" } else { "" })
}

fn event_object(event: &Value) -> String {
    let of = |field: &str| text(event, field);
    format!(
        "{}/{}",
        of("/involvedObject/kind").to_lowercase(),
        of("/involvedObject/name")
    )
}
