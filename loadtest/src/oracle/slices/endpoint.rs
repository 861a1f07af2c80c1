//! An endpoint of a slice, in the form in which what should be published is compared with what is.

use crate::oracle::facts::Port;
use k8s_openapi::api::discovery::v1::{Endpoint as ApiEndpoint, EndpointHints, EndpointPort};
use std::fmt;

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

// === impl PortGroup ===

impl PortGroup {
    pub(super) fn new(mut ports: Vec<Port>) -> Self {
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
