//! What the slices of a Service should hold, worked out from Services, Pods and Nodes alone.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use k8s_openapi::api::{
    core::v1::{Node, Pod, Service},
    discovery::v1::{Endpoint as ApiEndpoint, EndpointHints, EndpointPort},
};
use kube::ResourceExt;

use super::hints::Mode;
use crate::oracle::{
    Family,
    facts::{self, Port},
};

/// The endpoints of one Service, for each of its families. Every family is there, also one without endpoints.
pub(in crate::oracle) type Expected = BTreeMap<Family, BTreeMap<PortGroup, BTreeMap<EndpointKey, Endpoint>>>;

/// A set of ports: endpoints with equal sets share slices. Sorted, so that order does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::oracle) struct PortGroup(Vec<Port>);

/// Tells one endpoint from another: the pod it points to, or its addresses if it points to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::oracle) enum EndpointKey {
    Target {
        kind: String,
        namespace: String,
        name: String,
    },
    Addresses(Vec<String>),
}

/// The fields of an endpoint that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::oracle) struct Endpoint {
    /// Sorted: their order says nothing.
    pub(in crate::oracle) addresses: Vec<String>,
    pub(in crate::oracle) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
    pub(super) target_uid: Option<String>,
    pub(super) node: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) hostname: Option<String>,
    pub(super) hints: Option<Hints>,
}

/// The zones and nodes that an endpoint is hinted to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    pub(super) zones: Vec<String>,
    pub(super) nodes: Vec<String>,
}

/// Works out the endpoints of `service`; `pods` are those of its namespace.
///
/// Hints are there if each endpoint's follow from the endpoint alone; see [`super::hints`] for the others.
pub(in crate::oracle) fn of_service(
    service: &Service,
    pods: &[&Pod],
    nodes: &HashMap<&str, &Node>,
) -> Expected {
    let mut expected: Expected = families(service)
        .into_iter()
        .map(|family| (family, BTreeMap::new()))
        .collect();
    for pod in pods
        .iter()
        .filter(|pod| facts::is_selected(service, pod) && facts::is_published(pod))
    {
        let node = facts::pod_node_name(pod).and_then(|name| nodes.get(name));
        if node.is_none() && !facts::publishes_not_ready(service) {
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
                .entry(PortGroup::new(facts::ports(service, pod)))
                .or_default()
                .insert(key, endpoint);
        }
    }
    expected
}

/// The families for which a Service has slices.
fn families(service: &Service) -> Vec<Family> {
    let listed = facts::listed_families(service);
    if !listed.is_empty() {
        return listed;
    }
    match facts::cluster_ip(service).and_then(facts::parse_ip) {
        Some(ip) => vec![Family::of(ip)],
        None => vec![Family::V4, Family::V6],
    }
}

fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, family: Family) -> Endpoint {
    let serving = facts::is_ready(pod);
    let terminating = facts::is_terminating(pod);
    let mut addresses: Vec<String> = facts::addresses(pod, family).collect();
    addresses.sort();
    let ready = facts::publishes_not_ready(service) || (serving && !terminating);
    let node_name = facts::pod_node_name(pod).map(str::to_owned);
    let zone = node.and_then(facts::zone).cloned();
    Endpoint {
        hints: if ready {
            distribution_hints(service, zone.as_ref(), node_name.as_ref())
        } else {
            None
        },
        addresses,
        ready: Some(ready),
        serving: Some(serving),
        terminating: Some(terminating),
        target_uid: pod.uid(),
        node: node_name,
        zone,
        hostname: facts::hostname(service, pod),
    }
}

/// The hints that `trafficDistribution` gives a ready endpoint.
fn distribution_hints(service: &Service, zone: Option<&String>, node: Option<&String>) -> Option<Hints> {
    let hints = Hints {
        zones: zone.into_iter().cloned().collect(),
        nodes: match Mode::of(service) {
            Mode::SameZone => Vec::new(),
            Mode::SameNode => node.into_iter().cloned().collect(),
            Mode::None | Mode::Balanced => return None,
        },
    };
    (hints != Hints::default()).then_some(hints)
}

// === impl PortGroup ===

impl PortGroup {
    fn new(mut ports: Vec<Port>) -> Self {
        ports.sort();
        Self(ports)
    }

    /// The port group of a slice.
    pub(super) fn of_slice(ports: &[EndpointPort]) -> Self {
        let port = |port: &EndpointPort| {
            Port::published(
                port.name.as_ref(),
                port.port,
                port.protocol.as_ref(),
                port.app_protocol.as_ref(),
            )
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
            write!(f, "{comma}{port}")?;
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
            hints: endpoint.hints.as_ref().map(Hints::published),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready == Some(true)
    }
}

// === impl Hints ===

impl Hints {
    fn published(hints: &EndpointHints) -> Self {
        let zones = hints.for_zones.iter().flatten().map(|zone| zone.name.clone());
        let nodes = hints.for_nodes.iter().flatten().map(|node| node.name.clone());
        Self {
            zones: zones.collect(),
            nodes: nodes.collect(),
        }
    }
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("empty");
        }
        write!(f, "zones {:?}, nodes {:?}", self.zones, self.nodes)
    }
}
