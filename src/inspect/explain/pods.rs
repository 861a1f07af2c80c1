//! Explains one pod of a Service: whether and where it is published, and if not, why.

use super::{Seen, SeenNodes};
use crate::core::address::Family;
use crate::core::facts::observed::ObservedPod;
use crate::core::facts::{AddressFacts, EndpointFacts, EndpointsFacts, PodFacts, ServiceFacts};
use crate::core::ports::{TargetPort, resolve};
use crate::core::subsets::TRUNCATED;
use crate::inspect::differences::hints;
use serde::Serialize;
use std::net::IpAddr;

/// The state in which a pod is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// In no managed slice.
    NotPublished,
    /// Published as not ready.
    NotReady,
    /// Published as terminating.
    Terminating,
    /// Published as ready.
    Ready,
}

/// The explanation of a pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFinding {
    /// Its name.
    pub name: String,
    /// The state in which it is published.
    pub state: State,
    /// Whether it has ended, by success or by failure.
    pub ended: bool,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its node.
    pub node: Option<String>,
    /// The node's zone.
    pub zone: Option<String>,
    /// Its endpoints in managed slices.
    pub published: Vec<Place>,
    /// Whether the Endpoints object has it as ready; none if it is not in there.
    pub endpoints: Option<bool>,
    /// The reasons why it is published as it is, or not at all.
    pub why: Vec<String>,
    /// The ways in which it is not published as it should be.
    pub amiss: Vec<String>,
}

/// A pod's endpoint in a slice.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The slice.
    pub slice: String,
    /// Its `addressType`.
    pub family: &'static str,
    /// The address.
    pub address: String,
    /// `conditions.ready`.
    pub ready: bool,
    /// `conditions.serving`.
    pub serving: bool,
    /// `conditions.terminating`.
    pub terminating: bool,
    /// `zone`.
    pub zone: Option<String>,
    /// `hints`, in readable form.
    pub hints: Option<String>,
}

impl PodFinding {
    /// Returns whether the pod is ready and there is nothing else to report about it.
    pub fn is_plain(&self) -> bool {
        self.state == State::Ready && self.why.is_empty() && self.amiss.is_empty()
    }

    /// Returns the sort key, which puts pods that need attention first.
    pub(super) fn rank(&self) -> u8 {
        match self.state {
            _ if !self.amiss.is_empty() => 0,
            _ if self.is_plain() => 6,
            _ if self.ended => 5,
            State::NotPublished => 1,
            State::NotReady => 2,
            State::Terminating => 3,
            State::Ready => 4,
        }
    }
}

/// The state of a pod's node.
enum Node {
    /// The pod is not bound to a node.
    Unbound,
    /// The node exists.
    There,
    /// The node does not exist.
    Gone,
    /// Unknown, because nodes may not be read.
    Untold,
}

struct Looked<'a> {
    pod: &'a PodFacts,
    service: &'a ServiceFacts,
    node: Node,
    why: Vec<String>,
    amiss: Vec<String>,
}

/// Explains a pod that the selector matches.
pub(super) fn find(pod: &ObservedPod, seen: &Seen) -> PodFinding {
    let facts = &pod.facts;
    let node = match (&facts.node, &seen.nodes) {
        (None, _) => Node::Unbound,
        (Some(_), SeenNodes::Unreadable(_)) => Node::Untold,
        (Some(name), SeenNodes::Known(nodes)) if nodes.contains_key(name) => Node::There,
        (Some(_), SeenNodes::Known(_)) => Node::Gone,
    };
    let mut looked = Looked {
        pod: facts,
        service: &seen.service.facts,
        node,
        why: Vec::new(),
        amiss: Vec::new(),
    };
    looked.explain(pod);
    let published = places(facts, seen);
    looked.check_slices(&published);
    let endpoints = seen
        .endpoints
        .as_ref()
        .and_then(|endpoints| shown(facts, endpoints));
    if let Some(stored) = &seen.endpoints {
        looked.check_endpoints(stored, endpoints);
    }
    let state = if published.is_empty() {
        State::NotPublished
    } else if published.iter().any(|place| place.terminating) {
        State::Terminating
    } else if published.iter().all(|place| place.ready) {
        State::Ready
    } else {
        State::NotReady
    };
    let zone = match (&seen.nodes, &facts.node) {
        (SeenNodes::Known(nodes), Some(node)) => nodes.get(node).cloned().flatten(),
        _ => None,
    };
    PodFinding {
        name: facts.name.to_string(),
        state,
        ended: facts.terminal,
        addresses: Family::ALL
            .into_iter()
            .filter_map(|family| Some(ip(facts, family)?.to_string()))
            .collect(),
        node: facts.node.as_ref().map(ToString::to_string),
        zone: zone.map(|zone| zone.to_string()),
        published,
        endpoints,
        why: looked.why,
        amiss: looked.amiss,
    }
}

fn ip(pod: &PodFacts, family: Family) -> Option<IpAddr> {
    match family {
        Family::V4 => pod.v4.map(IpAddr::V4),
        Family::V6 => pod.v6.map(IpAddr::V6),
    }
}

/// Returns a pod's endpoints in managed slices.
fn places(pod: &PodFacts, seen: &Seen) -> Vec<Place> {
    let mut places = Vec::new();
    for slice in seen.slices.iter().filter(|slice| slice.is_ours()) {
        let its = |e: &&EndpointFacts| e.pod.as_ref() == Some(&pod.name);
        for endpoint in slice.endpoints.iter().filter(its) {
            let hinted = !endpoint.zone_hints.is_empty() || !endpoint.node_hints.is_empty();
            places.push(Place {
                slice: slice.meta.name.to_string(),
                family: slice.family.map_or("unknown", Family::as_str),
                address: endpoint.addresses.join(" "),
                // An unset `ready` means ready, and an unset `serving` is the same as `ready`.
                ready: endpoint.ready.unwrap_or(true),
                serving: endpoint.serving.or(endpoint.ready).unwrap_or(true),
                terminating: endpoint.terminating.unwrap_or(false),
                zone: endpoint.zone.as_ref().map(ToString::to_string),
                hints: hinted.then(|| hints(endpoint)),
            });
        }
    }
    places
}

/// Returns whether the Endpoints object has a pod as ready, or none if it does not have the pod.
fn shown(pod: &PodFacts, endpoints: &EndpointsFacts) -> Option<bool> {
    let its = |address: &AddressFacts| address.pod.as_ref().is_some_and(|(name, _)| *name == pod.name);
    let mut found = None;
    for subset in &endpoints.subsets {
        if subset.not_ready.iter().any(its) {
            found = Some(false);
        } else if subset.ready.iter().any(its) {
            found = found.or(Some(true));
        }
    }
    found
}

impl Looked<'_> {
    /// Adds the reasons why the pod is published as it is.
    fn explain(&mut self, seen: &ObservedPod) {
        let (pod, service) = (self.pod, self.service);
        let told = seen.told.as_deref();
        if pod.terminal {
            let reason = seen
                .reason
                .as_ref()
                .map_or_else(String::new, |reason| format!(" ({reason})"));
            self.why.push(format!(
                "phase {}{reason}: a pod that has ended is not published",
                seen.phase
            ));
            return;
        }
        if pod.v4.is_none() && pod.v6.is_none() {
            let told = told.map_or_else(String::new, |told| format!(", {told}"));
            self.why
                .push(format!("it has no IP yet (phase {}{told})", seen.phase));
            return;
        }
        for family in Family::ALL.into_iter().filter(|family| service.has(*family)) {
            if ip(pod, family).is_none() {
                self.why.push(format!(
                    "it has no {} address, and the Service is {0}",
                    family.as_str()
                ));
            }
        }
        let node = pod.node.as_deref().unwrap_or_default();
        match self.node {
            Node::Unbound if !service.publish_not_ready => {
                self.why.push("it is not bound to a node: slices leave it out until it is".to_owned());
            }
            Node::Gone if !service.publish_not_ready => self.why.push(format!(
                "its node {node} is unknown: slices leave it out until there is such a Node (Endpoints do not look \
                 at nodes)"
            )),
            Node::Gone => self.why.push(format!("its node {node} is unknown: its endpoint has no zone")),
            Node::Unbound | Node::There | Node::Untold => {}
        }
        let told = told.map_or_else(String::new, |told| format!(": {told}"));
        match (pod.terminating, pod.ready) {
            (true, true) => self.why.push("terminating, and still serving".to_owned()),
            (true, false) => self.why.push("terminating, and not serving any more".to_owned()),
            (false, false) if service.publish_not_ready => {
                self.why.push(format!(
                    "not ready{told}; publishNotReadyAddresses has it published as ready"
                ));
            }
            (false, false) => self.why.push(format!("not ready{told}")),
            (false, true) => {}
        }
        self.explain_ports();
    }

    fn explain_ports(&mut self) {
        for port in &self.service.ports {
            let TargetPort::Name(name) = &port.target else {
                continue;
            };
            let mut found = self.pod.ports.iter().filter(|p| p.name == *name);
            if found.clone().any(|p| p.protocol == port.protocol) {
                continue;
            }
            let wanted = port.protocol.as_str();
            let why = match found.next() {
                Some(other) => format!("its port {name} is {}, not {wanted}", other.protocol.as_str()),
                None => format!("no container of it has a port named {name}"),
            };
            let of = if port.name.is_empty() {
                "without the Service's port".to_owned()
            } else {
                format!("without port {}", port.name)
            };
            self.why.push(format!("{why}: it is published {of}"));
        }
        if !self.serves() {
            self.why.push(
                "it has none of the Service's ports: nothing can reach it, and Endpoints leave it out"
                    .to_owned(),
            );
        }
    }

    /// Returns whether the Endpoints object can include the pod: it has a port of the Service, or needs none.
    fn serves(&self) -> bool {
        let portless = self.service.no_cluster_ip && self.service.ports.is_empty();
        portless || !resolve(&self.service.ports, &self.pod.ports).is_empty()
    }

    /// Compares the pod's endpoints in slices with what they should be.
    fn check_slices(&mut self, places: &[Place]) {
        let (pod, service) = (self.pod, self.service);
        let ready = service.publish_not_ready || (pod.ready && !pod.terminating);
        let node = match self.node {
            Node::There => Some(true),
            Node::Unbound | Node::Gone => Some(service.publish_not_ready),
            Node::Untold => service.publish_not_ready.then_some(true),
        };
        for family in Family::ALL {
            let fit = if pod.terminal || !service.has(family) || ip(pod, family).is_none() {
                Some(false)
            } else {
                node
            };
            let here: Vec<_> = places
                .iter()
                .filter(|place| place.family == family.as_str())
                .collect();
            match (fit, &here[..]) {
                // An existing slice may have room for it, but no slice is created any more.
                (Some(true), []) if service.deleting => {
                    self.why
                        .push("the Service is being deleted, and gets no new slice for it".to_owned());
                }
                (Some(true), []) => {
                    self.amiss.push(format!(
                        "should be in an {} slice, and is in none",
                        family.as_str()
                    ));
                }
                (Some(false), [place, ..]) => {
                    self.amiss.push(format!("should not be in slice {}", place.slice));
                }
                (_, [first, second, ..]) => {
                    self.amiss
                        .push(format!("is in two slices: {} and {}", first.slice, second.slice));
                }
                (_, [place]) => {
                    let address = ip(pod, family).map(|ip| ip.to_string()).unwrap_or_default();
                    if place.address != address {
                        self.amiss.push(format!(
                            "slice {} has the address {} for it",
                            place.slice, place.address
                        ));
                    }
                    // The two are mostly wrong together, and then reported as one.
                    let both = (place.ready, ready) == (place.serving, pod.ready);
                    let both_named = if both { "ready and serving" } else { "ready" };
                    for (what, stored, wanted) in [
                        (both_named, place.ready, ready),
                        ("serving", place.serving, pod.ready),
                        ("terminating", place.terminating, pod.terminating),
                    ] {
                        if stored != wanted && !(both && what == "serving") {
                            self.amiss.push(format!(
                                "slice {} says {what} {stored}, should be {wanted}",
                                place.slice
                            ));
                        }
                    }
                }
                (_, []) => {}
            }
        }
    }

    /// Compares the pod's address in the Endpoints object with what it should be.
    fn check_endpoints(&mut self, stored: &EndpointsFacts, found: Option<bool>) {
        let (pod, service) = (self.pod, self.service);
        let tolerant = service.publish_not_ready;
        let family = service.endpoints_family.or(pod.primary);
        let fit = !pod.terminal
            && family.is_some_and(|family| ip(pod, family).is_some())
            && (tolerant || !pod.terminating)
            && self.serves();
        let ready = tolerant || pod.ready;
        match (fit, found) {
            // A warning about the whole object covers all pods that were truncated.
            (true, None) if stored.over_capacity.as_deref() == Some(TRUNCATED) => {}
            (true, None) => self.amiss.push("should be in Endpoints, and is not".to_owned()),
            (false, Some(_)) => self.amiss.push("should not be in Endpoints".to_owned()),
            (true, Some(is)) if is != ready => {
                let spell = |ready| if ready { "ready" } else { "not ready" };
                self.amiss.push(format!(
                    "Endpoints show it as {}, should be {}",
                    spell(is),
                    spell(ready)
                ));
            }
            _ => {}
        }
    }
}
