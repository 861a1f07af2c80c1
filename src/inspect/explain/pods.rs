//! Explains one pod of a Service: whether and where it is published, and if not, why.

use super::{Seen, SeenNodes};
use crate::core::address::Family;
use crate::core::facts::observed::ObservedPod;
use crate::core::facts::{AddressFacts, EndpointFacts, EndpointsFacts, PodFacts, ServiceFacts};
use crate::core::object::Output;
use crate::core::ports::{TargetPort, resolve};
use crate::inspect::differences::{Difference, Rank, hints};
use crate::inspect::findings::Finding;
use crate::inspect::text::listed;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The number of readiness gates that are named.
const GATES: usize = 5;

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
    /// All reasons why it is not published; or why it is published as it is, and what is left out of that. Empty if it is
    /// simply ready, or if `amiss` is the reason.
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
    /// Returns whether the pod is ready, and there is nothing else to report about it.
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
    amiss: Vec<String>,
}

/// Explains a pod that the selector matches, given the differences that are about it.
pub(super) fn find(pod: &ObservedPod, seen: &Seen, differences: &[(&Finding, &Difference)]) -> PodFinding {
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
        amiss: Vec::new(),
    };
    let published = places(facts, seen);
    looked.compare(&published, differences);
    let why = looked.why(pod, &published);
    let endpoints = seen
        .endpoints
        .as_ref()
        .and_then(|endpoints| shown(facts, endpoints));
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
        why,
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
    let service = &seen.service.facts;
    for slice in seen.slices.iter().filter(|slice| slice.is_for(service)) {
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

/// Returns what the message about a pod that is not ready does not say: that its containers are, and which of its readiness
/// gates are not.
fn containers_and_gates(seen: &ObservedPod) -> String {
    let gates: Vec<&str> = seen.unmet_gates.iter().map(|gate| &**gate).collect();
    let unmet = match &gates[..] {
        [] => String::new(),
        [gate] => format!("its readiness gate {gate} is not True"),
        gates => format!("its readiness gates {} are not True", listed(gates, GATES)),
    };
    match (seen.containers_ready, unmet.is_empty()) {
        (false, true) => unmet,
        (false, false) => format!("; {unmet}"),
        (true, false) => format!("; its containers are ready (ContainersReady is True), and {unmet}"),
        (true, true) => "; its containers are ready (ContainersReady is True): Ready alone turns False when its Node stops \
                         reporting"
            .to_owned(),
    }
}

impl Looked<'_> {
    /// Returns the reasons why the pod is not published; or why it is published as it is, and what is left out of that.
    fn why(&self, seen: &ObservedPod, published: &[Place]) -> Vec<String> {
        let mut why = self.why_left_out(seen, !published.is_empty());
        if published.is_empty() {
            self.add_why_not_placed(&mut why);
        } else if why.is_empty() {
            why.extend(self.why_not_ready(seen));
            why.extend(self.why_incomplete(published));
        }
        why
    }

    /// Returns the reasons why slices must not have the pod, whether they do or not; but a missing Node takes out none
    /// that they have.
    fn why_left_out(&self, seen: &ObservedPod, published: bool) -> Vec<String> {
        let (pod, service) = (self.pod, self.service);
        if pod.terminal {
            let reason = seen.reason.as_ref();
            let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
            return vec![format!(
                "phase {}{reason}: it has ended, so slices leave it out",
                seen.phase
            )];
        }
        let mut why = Vec::new();
        if pod.v4.is_none() && pod.v6.is_none() {
            let told = seen.told.as_ref();
            let told = told.map_or_else(String::new, |told| format!(", {told}"));
            why.push(format!("it has no IP yet (phase {}{told})", seen.phase));
        } else if let [lacking, ..] = self.lacking()[..]
            && !self.has_address()
        {
            why.push(format!(
                "it has no {} address, and the Service is {0}",
                lacking.as_str()
            ));
        }
        if service.publish_not_ready {
            return why;
        }
        match (&self.node, &pod.node) {
            (Node::Unbound, _) => {
                why.push("it is not bound to a node: slices leave it out until it is".to_owned());
            }
            (Node::Gone, Some(node)) if !published => why.push(format!(
                "its Node {node} does not exist, which keeps new endpoints out (Endpoints do not look at nodes)"
            )),
            _ => {}
        }
        why
    }

    /// Adds the reasons why a pod is in no slice that slices may have, or will have as soon as nothing else keeps it out.
    fn add_why_not_placed(&self, why: &mut Vec<String>) {
        // If something is amiss, that is the reason; and a pod that has ended will not come back.
        if !self.amiss.is_empty() || self.pod.terminal {
            return;
        }
        if why.is_empty() && matches!(self.node, Node::Untold) && !self.service.publish_not_ready {
            why.push("nodes could not be read, so it is not known whether slices should have it".to_owned());
        }
        // An existing slice may have room for it, but no slice is created any more.
        if self.service.deleting {
            why.push("the Service is being deleted, and gets no new slice for it".to_owned());
        }
    }

    /// Returns the reason why the pod is published as anything but ready, or as ready although it is not.
    fn why_not_ready(&self, seen: &ObservedPod) -> Option<String> {
        let told = seen.told.as_ref();
        let told = told.map_or_else(String::new, |told| format!(": {told}"));
        let but = containers_and_gates(seen);
        let text = match (self.pod.terminating, self.pod.ready) {
            (true, true) => "terminating, and still serving".to_owned(),
            (true, false) => "terminating, and not serving any more".to_owned(),
            (false, false) if self.service.publish_not_ready => {
                format!("not ready{told}{but}; publishNotReadyAddresses has it published as ready")
            }
            (false, false) => format!("not ready{told}{but}"),
            (false, true) => return None,
        };
        Some(text)
    }

    /// Returns what is left out of the endpoints of a published pod, and why.
    fn why_incomplete(&self, published: &[Place]) -> Vec<String> {
        let mut why = Vec::new();
        for family in self.lacking() {
            let family = family.as_str();
            why.push(format!(
                "it has no {family} address, so it is in no {family} slice"
            ));
        }
        if let (Node::Gone, Some(node)) = (&self.node, &self.pod.node) {
            let zoneless = published.iter().any(|place| place.zone.is_none());
            let zoneless = if zoneless {
                ": its endpoint has no zone"
            } else {
                ""
            };
            why.push(format!("its Node {node} does not exist{zoneless}"));
        }
        for port in &*self.service.ports {
            let TargetPort::Name(name) = &port.target else {
                continue;
            };
            let mut found = self.pod.ports.iter().filter(|p| p.name == *name);
            if found.clone().any(|p| p.protocol == port.protocol) {
                continue;
            }
            let wanted = port.protocol.as_str();
            let lacks = match found.next() {
                Some(other) => format!("its port {name} is {}, not {wanted}", other.protocol.as_str()),
                None => format!("no container of it has a port named {name}"),
            };
            let of = if port.name.is_empty() {
                "without the Service's port".to_owned()
            } else {
                format!("without port {}", port.name)
            };
            why.push(format!("{lacks}: it is published {of}"));
        }
        if !self.serves() {
            why.push(
                "no port of the Service is left: nothing can reach it, and Endpoints leave it out".to_owned(),
            );
        }
        why
    }

    /// Returns the families of the Service in which the pod has no address.
    fn lacking(&self) -> Vec<Family> {
        let families = Family::ALL.into_iter().filter(|family| self.service.has(*family));
        families
            .filter(|family| ip(self.pod, *family).is_none())
            .collect()
    }

    /// Returns whether the pod has an address in a family of the Service.
    fn has_address(&self) -> bool {
        let mut families = Family::ALL.into_iter().filter(|family| self.service.has(*family));
        families.any(|family| ip(self.pod, family).is_some())
    }

    /// Returns whether the Endpoints object can include the pod: it has a port of the Service, or needs none.
    fn serves(&self) -> bool {
        let portless = self.service.no_cluster_ip && self.service.ports.is_empty();
        portless || !resolve(&self.service.ports, &self.pod.ports).is_empty()
    }

    /// Adds the ways in which the pod is not published as it should be, of what the controller would put right.
    fn compare(&mut self, places: &[Place], differences: &[(&Finding, &Difference)]) {
        let (pod, service) = (self.pod, self.service);
        let amiss = &mut self.amiss;
        for (finding, difference) in differences {
            let says = difference.field.map(|at| &difference.text[at..]);
            let object = finding.name.as_deref().unwrap_or_default();
            match (finding.output, difference.rank, says) {
                (Output::Slice, Rank::Missing, _) => {
                    let lacking = Family::ALL.into_iter().filter(|&family| {
                        let mut here = places.iter().map(|place| place.family);
                        service.has(family)
                            && ip(pod, family).is_some()
                            && here.all(|other| other != family.as_str())
                    });
                    let lacking: Vec<_> = lacking.map(Family::as_str).collect();
                    if lacking.is_empty() {
                        amiss.push("should be in another slice".to_owned());
                    }
                    let none = |family| format!("should be in an {family} slice, and is in none");
                    amiss.extend(lacking.into_iter().map(none));
                }
                (Output::Slice, _, Some(says)) => amiss.push(format!("slice {object} says {says}")),
                (Output::Slice, Rank::Extra, None) => amiss.push(format!("should not be in slice {object}")),
                (Output::Slice, _, None) => amiss.push(format!("slice {object}: {}", difference.text)),
                // A warning about the whole object covers all pods that were truncated.
                (Output::Endpoints, Rank::Missing | Rank::Extra, _) if finding.as_whole => {}
                (Output::Endpoints, Rank::Missing, _) => {
                    amiss.push("should be in Endpoints, and is not".to_owned());
                }
                (Output::Endpoints, Rank::Extra, _) => amiss.push("should not be in Endpoints".to_owned()),
                (Output::Endpoints, _, Some("ready true, should be false")) => {
                    amiss.push("Endpoints show it as ready, should be not ready".to_owned());
                }
                (Output::Endpoints, _, Some("ready false, should be true")) => {
                    amiss.push("Endpoints show it as not ready, should be ready".to_owned());
                }
                (Output::Endpoints, _, Some(says)) => amiss.push(format!("Endpoints say {says}")),
                (Output::Endpoints, _, None) => amiss.push(format!("Endpoints: {}", difference.text)),
                // Mirrored slices show what others wrote, and not pods.
                (Output::Mirrored, ..) => {}
            }
        }
        // A pod of two families is mostly wrong twice.
        let mut said = BTreeSet::new();
        amiss.retain(|text| said.insert(text.clone()));
    }
}

#[cfg(test)]
mod tests;
