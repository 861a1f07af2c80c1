//! What a Service's endpoints should be, worked out from Services, Pods and Nodes alone.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use k8s_openapi::{
    api::{
        core::v1::{Container, Node, Pod, Service, ServicePort},
        discovery::v1::{Endpoint as ApiEndpoint, EndpointPort},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use super::Family;

const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const NONE: &str = "None";
const TCP: &str = "TCP";

/// The endpoints of one Service, for each of its families. Every family is there, also one without endpoints.
pub(super) type Expected = BTreeMap<Family, BTreeMap<PortGroup, BTreeMap<EndpointKey, Endpoint>>>;

/// A set of ports: endpoints with equal sets share slices. Sorted, so that order does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortGroup(Vec<Port>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    name: String,
    number: Option<i32>,
    protocol: String,
    app_protocol: Option<String>,
}

/// Tells one endpoint from another: the pod it points to, or its addresses if it points to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndpointKey {
    Target {
        kind: String,
        namespace: String,
        name: String,
    },
    Addresses(Vec<String>),
}

/// The fields of an endpoint that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Sorted: their order says nothing.
    pub(super) addresses: Vec<String>,
    pub(super) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
    pub(super) target_uid: Option<String>,
    pub(super) node: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) hostname: Option<String>,
    /// The hints, as text.
    pub(super) hints: Option<String>,
}

/// Works out the endpoints of `service`; `pods` are those of its namespace.
pub(super) fn of_service(service: &Service, pods: &[&Pod], nodes: &HashMap<String, &Node>) -> Expected {
    let mut expected: Expected = families(service)
        .into_iter()
        .map(|family| (family, BTreeMap::new()))
        .collect();
    for pod in pods
        .iter()
        .filter(|pod| is_selected(service, pod) && is_published(pod))
    {
        let node = pod_node_name(pod).and_then(|name| nodes.get(name));
        if node.is_none() && !publishes_not_ready(service) {
            continue;
        }
        for (family, groups) in &mut expected {
            let endpoint = endpoint(service, pod, node.copied(), *family);
            if endpoint.addresses.is_empty() {
                continue;
            }
            let key = EndpointKey::Target {
                kind: "Pod".to_owned(),
                namespace: pod.namespace().unwrap_or_default(),
                name: pod.name_any(),
            };
            groups
                .entry(ports(service, pod))
                .or_default()
                .insert(key, endpoint);
        }
    }
    expected
}

/// The families for which a Service has slices.
fn families(service: &Service) -> Vec<Family> {
    let Some(spec) = &service.spec else {
        return Vec::new();
    };
    let listed: Vec<Family> = spec
        .ip_families
        .iter()
        .flatten()
        .filter_map(|name| Family::from_name(name))
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    match cluster_ip(service).and_then(parse_ip) {
        Some(IpAddr::V4(_)) => vec![Family::V4],
        Some(IpAddr::V6(_)) => vec![Family::V6],
        None => vec![Family::V4, Family::V6],
    }
}

/// The Service's cluster IP, unless it is headless.
pub(super) fn cluster_ip(service: &Service) -> Option<&str> {
    service
        .spec
        .as_ref()?
        .cluster_ip
        .as_deref()
        .filter(|ip| !ip.is_empty() && *ip != NONE)
}

fn is_selected(service: &Service, pod: &Pod) -> bool {
    let selector = service
        .spec
        .iter()
        .filter_map(|spec| spec.selector.as_ref())
        .flatten();
    let labels = pod.labels();
    selector
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a pod has endpoints at all: it runs, or may yet run, and has an address.
fn is_published(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let has_ip = status.pod_ip.as_deref().is_some_and(|ip| !ip.is_empty())
        || status.pod_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    !finished && has_ip
}

fn publishes_not_ready(service: &Service) -> bool {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.publish_not_ready_addresses)
        .unwrap_or_default()
}

fn pod_node_name(pod: &Pod) -> Option<&str> {
    pod.spec
        .as_ref()?
        .node_name
        .as_deref()
        .filter(|name| !name.is_empty())
}

fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, family: Family) -> Endpoint {
    let serving = is_ready(pod);
    let terminating = pod.metadata.deletion_timestamp.is_some();
    let mut addresses: Vec<String> = pod
        .status
        .iter()
        .flat_map(|status| status.pod_ips.iter().flatten())
        .filter_map(|ip| parse_ip(&ip.ip))
        .filter(|ip| ip.is_ipv4() == (family == Family::V4))
        .map(|ip| ip.to_string())
        .collect();
    addresses.sort();
    let ready = publishes_not_ready(service) || (serving && !terminating);
    let zone = node
        .and_then(|node| node.labels().get(ZONE_LABEL))
        .filter(|zone| !zone.is_empty());
    Endpoint {
        addresses,
        ready: Some(ready),
        serving: Some(serving),
        terminating: Some(terminating),
        target_uid: pod.uid(),
        node: pod_node_name(pod).map(str::to_owned),
        zone: zone.cloned(),
        hostname: hostname(service, pod),
        hints: if ready {
            distribution_hints(service, pod, zone)
        } else {
            None
        },
    }
}

/// The hints that `trafficDistribution` gives a ready endpoint.
fn distribution_hints(service: &Service, pod: &Pod, zone: Option<&String>) -> Option<String> {
    let distribution = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    let zones: Vec<&str> = zone.into_iter().map(String::as_str).collect();
    match distribution {
        "PreferClose" | "PreferSameZone" => show_hints(&zones, &[]),
        "PreferSameNode" => show_hints(&zones, &pod_node_name(pod).into_iter().collect::<Vec<_>>()),
        _ => None,
    }
}

fn show_hints(zones: &[&str], nodes: &[&str]) -> Option<String> {
    let any = !zones.is_empty() || !nodes.is_empty();
    any.then(|| format!("zones {zones:?}, nodes {nodes:?}"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.as_ref().filter(|hostname| !hostname.is_empty())?;
    (spec.subdomain == service.metadata.name).then(|| hostname.clone())
}

/// The Service's ports as this pod has them. A port that the pod lacks is skipped.
fn ports(service: &Service, pod: &Pod) -> PortGroup {
    let mut ports = Vec::new();
    for port in service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()) {
        let protocol = port.protocol.as_deref().unwrap_or(TCP);
        if let Some(number) = target_port(port, protocol, pod) {
            ports.push(Port {
                name: port.name.clone().unwrap_or_default(),
                number: Some(number),
                protocol: protocol.to_owned(),
                app_protocol: port.app_protocol.clone(),
            });
        }
    }
    PortGroup::new(ports)
}

fn target_port(port: &ServicePort, protocol: &str, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => named_port(name, protocol, pod),
    }
}

fn named_port(name: &str, protocol: &str, pod: &Pod) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    let restartable = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let init = spec.init_containers.iter().flatten().filter(restartable);
    let ports = spec
        .containers
        .iter()
        .chain(init)
        .flat_map(|container| container.ports.iter().flatten());
    ports
        .into_iter()
        .find(|port| {
            port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or(TCP) == protocol
        })
        .map(|port| port.container_port)
}

/// Reads an address as Go's sloppy parser does: leading zeros in IPv4 are allowed, and an IPv4 address
/// written as IPv6 is an IPv4 address.
pub(super) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let octets: Vec<u8> = text.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

// === impl PortGroup ===

impl PortGroup {
    fn new(mut ports: Vec<Port>) -> Self {
        ports.sort();
        Self(ports)
    }

    /// The port group of a slice.
    pub(super) fn of_slice(ports: &[EndpointPort]) -> Self {
        let port = |port: &EndpointPort| Port {
            name: port.name.clone().unwrap_or_default(),
            number: port.port,
            protocol: port.protocol.clone().unwrap_or_else(|| TCP.to_owned()),
            app_protocol: port.app_protocol.clone(),
        };
        Self::new(ports.iter().map(port).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for PortGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no ports");
        }
        for (position, port) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            let space = if port.name.is_empty() { "" } else { " " };
            write!(f, "{comma}{}{space}", port.name)?;
            match port.number {
                Some(number) => write!(f, "{number}/{}", port.protocol)?,
                None => write!(f, "any/{}", port.protocol)?,
            }
            if let Some(protocol) = &port.app_protocol {
                write!(f, " {protocol}")?;
            }
        }
        Ok(())
    }
}

// === impl EndpointKey ===

impl EndpointKey {
    /// The key of an endpoint that stands in a slice.
    pub(super) fn of_slice(endpoint: &ApiEndpoint) -> Self {
        match &endpoint.target_ref {
            Some(target) => Self::Target {
                kind: target.kind.clone().unwrap_or_default(),
                namespace: target.namespace.clone().unwrap_or_default(),
                name: target.name.clone().unwrap_or_default(),
            },
            None => Self::Addresses(endpoint.addresses.clone()),
        }
    }
}

impl fmt::Display for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target {
                kind,
                namespace,
                name,
            } => write!(f, "endpoint {kind} {namespace}/{name}"),
            Self::Addresses(_) => f.write_str("endpoint without a target"),
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// The endpoint as it stands in a slice. Addresses are taken as written: a form that is not canonical
    /// is a difference.
    pub(super) fn of_slice(endpoint: &ApiEndpoint) -> Self {
        let mut addresses = endpoint.addresses.clone();
        addresses.sort();
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        Self {
            addresses,
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
            target_uid: endpoint.target_ref.as_ref().and_then(|target| target.uid.clone()),
            node: endpoint.node_name.clone(),
            zone: endpoint.zone.clone(),
            hostname: endpoint.hostname.clone(),
            hints: endpoint.hints.as_ref().map(|hints| {
                let zones: Vec<_> = hints
                    .for_zones
                    .iter()
                    .flatten()
                    .map(|zone| zone.name.as_str())
                    .collect();
                let nodes: Vec<_> = hints
                    .for_nodes
                    .iter()
                    .flatten()
                    .map(|node| node.name.as_str())
                    .collect();
                show_hints(&zones, &nodes).unwrap_or_else(|| "empty".to_owned())
            }),
        }
    }
}
