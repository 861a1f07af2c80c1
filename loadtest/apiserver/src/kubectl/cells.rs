//! The columns of each kind, and what stands in them.

use crate::json::{list, number, text};
use crate::kinds::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// A column of a table. `kubectl get` shows those that are not wide, and all with `-o wide`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) wide: bool,
    cell: Cell,
}

/// Where a column's text comes from.
#[derive(Clone, Copy, Debug)]
enum Cell {
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

const fn column(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        wide: false,
        cell,
    }
}

const fn wide(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        wide: true,
        cell,
    }
}

const NAME: Column = column("Name", At(&["/metadata/name"]));
const AGE: Column = column("Age", Age(&["/metadata/creationTimestamp"]));

const POD: &[Column] = &[
    NAME,
    column("Ready", Made(ready_containers)),
    column("Status", Made(pod_status)),
    column("Restarts", Made(restarts)),
    AGE,
    wide("IP", Made(|pod| or(text(pod, "/status/podIPs/0/ip"), "<none>"))),
    wide("Node", Made(|pod| or(text(pod, "/spec/nodeName"), "<none>"))),
    wide("Nominated Node", Made(|_| "<none>".to_owned())),
    wide("Readiness Gates", Made(|_| "<none>".to_owned())),
];

const SERVICE: &[Column] = &[
    NAME,
    column("Type", At(&["/spec/type"])),
    column(
        "Cluster-IP",
        Made(|service| or(text(service, "/spec/clusterIPs/0"), "<none>")),
    ),
    column("External-IP", Made(external)),
    column("Port(s)", Made(service_ports)),
    AGE,
    wide("Selector", Made(selector)),
];

const ENDPOINTS: &[Column] = &[NAME, column("Endpoints", Made(addresses)), AGE];

const SLICE: &[Column] = &[
    NAME,
    column("AddressType", At(&["/addressType"])),
    column("Ports", Made(slice_ports)),
    column("Endpoints", Made(endpoints)),
    AGE,
];

const NODE: &[Column] = &[
    NAME,
    column("Status", Made(node_status)),
    column("Roles", Made(roles)),
    AGE,
    column("Version", At(&["/status/nodeInfo/kubeletVersion"])),
];

const NAMESPACE: &[Column] = &[NAME, column("Status", At(&["/status/phase"])), AGE];

const LEASE: &[Column] = &[NAME, column("Holder", At(&["/spec/holderIdentity"])), AGE];

/// Those of both groups, whose fields have different names.
const EVENT: &[Column] = &[
    column(
        "Last Seen",
        Age(&[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/deprecatedLastTimestamp",
            "/eventTime",
        ]),
    ),
    column("Type", At(&["/type"])),
    column("Reason", At(&["/reason"])),
    column("Object", Made(event_object)),
    wide(
        "Source",
        At(&["/source/component", "/reportingComponent", "/reportingController"]),
    ),
    column("Message", At(&["/message", "/note"])),
    wide("Count", At(&["/series/count", "/count", "/deprecatedCount"])),
    wide("Name", At(&["/metadata/name"])),
];

// === impl Column ===

impl Column {
    /// The text of the column for an object.
    pub(super) fn of(&self, object: &Value, now: Timestamp) -> String {
        let first = |places: &[&str]| {
            let mut found = places.iter().filter_map(|place| object.pointer(place));
            match found.find(|value| !value.is_null()) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            }
        };
        match self.cell {
            At(places) => first(places),
            Age(places) => age(&first(places), now),
            Made(make) => make(object),
        }
    }
}

/// The text, or another where it is empty.
fn or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise } else { text }.to_owned()
}

/// How long ago a time was, the shorter the more exact.
fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let seconds = (now.as_second() - time.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |big: i64, unit: &str, small: i64, part: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{part}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () => two(days, "d", if days < 8 { hours % 24 } else { 0 }, "h"),
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

fn containers(pod: &Value) -> &[Value] {
    list(pod, "/status/containerStatuses")
}

fn ready_containers(pod: &Value) -> String {
    let ready = containers(pod)
        .iter()
        .filter(|container| container["ready"] == true)
        .count();
    format!("{ready}/{}", list(pod, "/spec/containers").len())
}

fn restarts(pod: &Value) -> String {
    let counts = containers(pod)
        .iter()
        .map(|container| number(container, "/restartCount"));
    counts.sum::<i64>().to_string()
}

/// What the containers of a pod are doing, in a word.
fn pod_status(pod: &Value) -> String {
    let (phase, reason) = (text(pod, "/status/phase"), text(pod, "/status/reason"));
    if pod.pointer("/metadata/deletionTimestamp").is_some() && !matches!(phase, "Succeeded" | "Failed") {
        return "Terminating".to_owned();
    }
    let why = |container: &Value| {
        let why = ["/state/waiting/reason", "/state/terminated/reason"]
            .map(|place| text(container, place).to_owned());
        why.into_iter().find(|why| !why.is_empty())
    };
    let why = containers(pod).iter().find_map(why);
    why.unwrap_or_else(|| or(reason, phase))
}

fn texts<'a>(value: &'a Value, place: &str) -> impl Iterator<Item = &'a str> {
    list(value, place).iter().filter_map(Value::as_str)
}

/// The addresses of a Service outside of the cluster.
fn external(service: &Value) -> String {
    let ingress = list(service, "/status/loadBalancer/ingress").iter();
    let ingress = ingress.map(|one| {
        text(
            one,
            if one.get("ip").is_some() {
                "/ip"
            } else {
                "/hostname"
            },
        )
    });
    let name = [text(service, "/spec/externalName")]
        .into_iter()
        .filter(|name| !name.is_empty());
    let all: Vec<&str> = ingress
        .chain(texts(service, "/spec/externalIPs"))
        .chain(name)
        .collect();
    or(&all.join(","), "<none>")
}

fn service_ports(service: &Value) -> String {
    let ports = list(service, "/spec/ports").iter().map(|port| {
        let protocol = text(port, "/protocol");
        match (number(port, "/port"), number(port, "/nodePort")) {
            (port, 0) => format!("{port}/{protocol}"),
            (port, node) => format!("{port}:{node}/{protocol}"),
        }
    });
    or(&ports.collect::<Vec<_>>().join(","), "<none>")
}

fn selector(service: &Value) -> String {
    let pairs = service.pointer("/spec/selector").and_then(Value::as_object);
    let pairs = pairs.into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    or(&pairs.join(","), "<none>")
}

/// The ready addresses of an Endpoints, each with each port of its subset.
fn addresses(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(endpoints, "/subsets") {
        let ips = || {
            list(subset, "/addresses")
                .iter()
                .map(|address| text(address, "/ip"))
        };
        let ports = list(subset, "/ports");
        for port in ports {
            let port = number(port, "/port");
            all.extend(ips().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
        if ports.is_empty() {
            all.extend(ips().map(str::to_owned));
        }
    }
    shortened(&all, "<none>")
}

fn slice_ports(slice: &Value) -> String {
    let ports = list(slice, "/ports")
        .iter()
        .map(|port| match number(port, "/port") {
            0 => or(text(port, "/name"), "*"),
            number => number.to_string(),
        });
    shortened(&ports.collect::<Vec<_>>(), "<unset>")
}

fn endpoints(slice: &Value) -> String {
    let endpoints = list(slice, "/endpoints").iter();
    let addresses = endpoints
        .flat_map(|endpoint| texts(endpoint, "/addresses"))
        .map(str::to_owned);
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

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let roles: Vec<&str> = labels
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    or(&roles.join(","), "<none>")
}

fn event_object(event: &Value) -> String {
    let about = event.get("involvedObject").or_else(|| event.get("regarding"));
    let of = |field: &str| about.map_or("", |about| text(about, field));
    format!("{}/{}", of("/kind").to_lowercase(), of("/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ages() {
        let now: Timestamp = "2026-01-20T00:00:00Z".parse().unwrap();
        for (time, want) in [
            ("2026-01-20T00:00:01Z", "0s"),
            ("2026-01-19T23:58:01Z", "119s"),
            ("2026-01-19T23:57:59Z", "2m1s"),
            ("2026-01-19T23:50:00Z", "10m"),
            ("2026-01-19T20:59:00Z", "3h1m"),
            ("2026-01-19T16:00:00Z", "8h"),
            ("2026-01-17T23:00:00Z", "2d1h"),
            ("2026-01-01T00:00:00Z", "19d"),
            ("", "<unknown>"),
        ] {
            assert_eq!(age(time, now), want, "{time}");
        }
    }

    #[test]
    fn the_status_of_a_pod() {
        let waits = json!([{"restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
        for (pod, want) in [
            (json!({"status": {"phase": "Pending"}}), "Pending"),
            (
                json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
                "Evicted",
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": waits}}),
                "CrashLoopBackOff",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}),
                "Terminating",
            ),
        ] {
            assert_eq!(pod_status(&pod), want, "{pod}");
        }
    }
}
