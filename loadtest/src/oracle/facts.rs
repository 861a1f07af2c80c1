//! The facts that Services, Pods and Nodes state, read in the one way that both outputs need them.

use super::annotated::{has_selector, is_external};
use super::{Family, annotated};
use k8s_openapi::api::core::v1::{Container, Node, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// On what belongs to a headless Service.
pub(super) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const NONE: &str = "None";
const TCP: &str = "TCP";

/// A port with which an endpoint is published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) number: Option<i32>,
    pub(super) protocol: String,
    pub(super) app_protocol: Option<String>,
}

/// Whether the controller publishes this Service. Others are left alone, whatever is published of them.
pub(super) fn is_managed(service: &Service) -> bool {
    has_selector(service) && !is_external(service) && service.metadata.deletion_timestamp.is_none()
}

/// The families that the Service lists, most wanted first.
pub(super) fn listed_families(service: &Service) -> Vec<Family> {
    let names = service
        .spec
        .iter()
        .flat_map(|spec| spec.ip_families.iter().flatten());
    names.filter_map(|name| Family::from_name(name)).collect()
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

/// The Service's ports.
pub(super) fn service_ports(service: &Service) -> &[ServicePort] {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default()
}

/// Whether the Service's selector matches the pod's labels.
pub(super) fn is_selected(service: &Service, pod: &Pod) -> bool {
    let selector = service
        .spec
        .iter()
        .filter_map(|spec| spec.selector.as_ref())
        .flatten();
    if let Some(text) = annotated::of(service) {
        return annotated::matches(text, pod);
    }
    let labels = pod.labels();
    selector
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether a pod has endpoints at all: it runs, or may yet run, and has an address.
pub(super) fn is_published(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let has_ip = status.pod_ip.as_deref().is_some_and(|ip| !ip.is_empty())
        || status.pod_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    !finished && has_ip
}

/// Whether the Service publishes pods as ready before they are, and after.
pub(super) fn publishes_not_ready(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.and_then(|spec| spec.publish_not_ready_addresses)
        .unwrap_or_default()
}

/// Whether the pod's Ready condition is true.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the pod was told to end.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// The node that the pod was given to.
pub(super) fn pod_node_name(pod: &Pod) -> Option<&str> {
    pod.spec
        .as_ref()?
        .node_name
        .as_deref()
        .filter(|name| !name.is_empty())
}

/// The zone that a node is in.
pub(super) fn zone(node: &Node) -> Option<&String> {
    node.labels().get(ZONE_LABEL).filter(|zone| !zone.is_empty())
}

/// The pod's addresses of one family, in their canonical form and in the pod's order.
pub(super) fn addresses(pod: &Pod, family: Family) -> impl Iterator<Item = String> {
    pod.status
        .iter()
        .flat_map(|status| status.pod_ips.iter().flatten())
        .filter_map(|ip| parse_ip(&ip.ip))
        .filter(move |ip| Family::of(*ip) == family)
        .map(|ip| ip.to_string())
}

/// The pod's name within the Service's domain: its hostname, if the Service is its subdomain.
pub(super) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.as_ref().filter(|hostname| !hostname.is_empty())?;
    (spec.subdomain == service.metadata.name).then(|| hostname.clone())
}

/// The Service's ports as this pod has them. A port that the pod lacks is skipped.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<Port> {
    let mut ports = Vec::new();
    for port in service_ports(service) {
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
    ports
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

// === impl Port ===

impl Port {
    /// A port that stands in a published object.
    pub(super) fn published(
        name: Option<&String>,
        number: Option<i32>,
        protocol: Option<&String>,
        app_protocol: Option<&String>,
    ) -> Self {
        Self {
            name: name.cloned().unwrap_or_default(),
            number,
            protocol: protocol.cloned().unwrap_or_else(|| TCP.to_owned()),
            app_protocol: app_protocol.cloned(),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.name.is_empty() { "" } else { " " };
        write!(f, "{}{space}", self.name)?;
        match self.number {
            Some(number) => write!(f, "{number}/{}", self.protocol)?,
            None => write!(f, "any/{}", self.protocol)?,
        }
        if let Some(protocol) = &self.app_protocol {
            write!(f, " {protocol}")?;
        }
        Ok(())
    }
}
