//! The contents that the slices of a Service should have, worked out from Services, Pods and Nodes; and from the slices
//! where the Node of a pod is missing.

use super::endpoint::{Endpoint, EndpointKey, Hints, PortGroup};
use super::hints::Mode;
use super::is_held;
use crate::oracle::{Family, facts};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use std::collections::{BTreeMap, HashMap};

/// The endpoints of one Service, for each of its families. Every family is there, also one without endpoints.
pub(in crate::oracle) type Expected = BTreeMap<Family, BTreeMap<PortGroup, BTreeMap<EndpointKey, Endpoint>>>;

/// Works out the endpoints of `service`; `pods` are those of its namespace, `slices` those that name it.
///
/// A missing Node keeps an endpoint out, and takes none out. So a pod without its Node is expected where a slice holds it,
/// whether it left as it lost its readiness, or had lost it before. An endpoint whose Node does not tell a zone has none
/// here: any zone is right.
///
/// Hints are there if each endpoint's follow from the endpoint alone; see [`super::hints`] for the others.
pub(in crate::oracle) fn of_service(
    service: &Service,
    pods: &[&Pod],
    nodes: &HashMap<&str, &Node>,
    slices: &[&EndpointSlice],
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
        let is_admitted = node.is_some() || facts::publishes_not_ready(service);
        for (family, groups) in &mut expected {
            let endpoint = endpoint(service, pod, node.copied(), *family);
            let is_kept = || is_held(service, slices, pod, *family);
            if endpoint.addresses.is_empty() || !(is_admitted || is_kept()) {
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
pub(in crate::oracle) fn families(service: &Service) -> Vec<Family> {
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
