//! The health of a Service, for reports: how many of its pods are published, and what keeps the rest out. It is
//! computed when it is asked for, so the controller pays nothing for it.

use super::members::desired;
use super::{Service, Services};
use crate::core::address::Family;
use crate::core::facts::ServiceFacts;
use crate::core::hash::KeyedSet;
use crate::core::hints::{HintMode, HintState};
use crate::core::ids::PodId;
use crate::core::inputs::{Inputs, Pod};
use crate::core::namespace::context::Context;
use crate::core::ports::{ServicePort, TargetPort, resolve};
use crate::core::subsets::{MAX_ADDRESSES, Members};

/// How the pods of a Service fare.
#[derive(Clone, Debug)]
pub struct ServiceHealth<'a> {
    /// The Service.
    pub facts: &'a ServiceFacts,
    /// The number of its pods: those that it selects, or those that it still follows.
    pub pods: usize,
    /// The families that it is published in, IPv4 first.
    pub families: Vec<FamilyHealth>,
    /// Its pods on nodes that do not exist, with the node, sorted: those that slices leave out or, if the Service publishes
    /// pods whatever their state, all. Empty if nodes do not count.
    pub on_unknown_nodes: Vec<(&'a str, &'a str)>,
    /// Its ports whose target is a name that no container of any of its pods has. Empty if it has no pods.
    pub ports_of_nobody: Vec<&'a ServicePort>,
    /// The number of addresses that its Endpoints should have, if they are more than one object holds.
    pub too_many_addresses: Option<usize>,
}

/// How the pods of a Service fare in one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FamilyHealth {
    /// The family.
    pub family: Family,
    /// Pods that are published as ready.
    pub ready: usize,
    /// Pods that are not ready.
    pub not_ready: usize,
    /// Pods that are terminating.
    pub terminating: usize,
    /// Pods without any address.
    pub without_ip: usize,
    /// Pods with an address, but of another family.
    pub other_family: usize,
    /// Pods on a node that does not exist, which slices leave out.
    pub unknown_node: usize,
    /// Pods that are not bound to a node, which slices leave out.
    pub unbound: usize,
    /// Ready pods that `trafficDistribution` gives no hint, because their node has no zone.
    pub unhinted: usize,
    /// The outcome of the request for hints in proportion to the zones, as of the last evaluation.
    pub hints: HintState,
}

impl FamilyHealth {
    fn new(family: Family, hints: HintState) -> Self {
        Self {
            family,
            ready: 0,
            not_ready: 0,
            terminating: 0,
            without_ip: 0,
            other_family: 0,
            unknown_node: 0,
            unbound: 0,
            unhinted: 0,
            hints,
        }
    }
}

impl Services {
    /// Returns how the pods of a Service fare. `None` if nothing is published for it by this process: it is not managed, or is
    /// being deleted. The work grows with its pods.
    pub(in crate::core::namespace) fn health<'a>(
        &'a self,
        ctx: &Context,
        inputs: &'a Inputs,
        service: &str,
    ) -> Option<ServiceHealth<'a>> {
        let id = self.table.find(service)?;
        let service = &self.table[id];
        let facts = &service.facts;
        if !facts.is_managed() || facts.deleting {
            return None;
        }
        let sliced = ctx.writes_slices(facts);
        let mut families: Vec<_> = Family::ALL
            .into_iter()
            .filter(|family| facts.has(*family))
            .collect();
        if !sliced && let Some(family) = facts.endpoints_family {
            families.retain(|other| *other == family);
        }
        let state = |family: Family| service.families[family.index()].as_ref();
        let mut families: Vec<_> = families
            .into_iter()
            .map(|family| FamilyHealth::new(family, state(family).map_or(HintState::Off, |f| f.hint_state)))
            .collect();
        let ids = self.pods_of(inputs, id);
        let pods = || ids.iter().filter_map(|&id| inputs.get(id));
        let places = |pod: PodId, family| {
            self.memberships[pod]
                .find(id, family)
                .map(|at| self.memberships[pod][at])
        };
        let is_placed = |pod, family| places(pod, family).is_some_and(|member| !member.slice.is_none());
        for (&pod_id, pod) in ids.iter().filter_map(|id| Some((id, inputs.get(*id)?))) {
            for family in &mut families {
                let placed = is_placed(pod_id, family.family);
                count(inputs, pod, service, (sliced, placed), family);
            }
        }
        let lost = |pod: &Pod| sliced && inputs.node_name(pod).is_some() && inputs.node_of(pod).is_none();
        let left_out = |id: PodId| !Family::ALL.into_iter().any(|family| is_placed(id, family));
        let mut on_unknown_nodes: Vec<_> = ids
            .iter()
            .filter_map(|&id| Some((id, inputs.get(id)?)))
            .filter(|(id, pod)| lost(pod) && (facts.publish_not_ready || left_out(*id)))
            .filter_map(|(_, pod)| Some((pod.name(), &**inputs.node_name(pod)?)))
            .collect();
        on_unknown_nodes.sort_unstable();
        let members = service.endpoints.as_ref().map(|endpoints| &endpoints.members);
        let members = members.filter(|members| members.is_over(MAX_ADDRESSES));
        Some(ServiceHealth {
            facts,
            pods: ids.len(),
            families,
            on_unknown_nodes,
            ports_of_nobody: ports_of_nobody(inputs, facts, pods()),
            too_many_addresses: members.map(Members::len),
        })
    }
}

/// Counts a pod in a family. `placed` is true if it has a place in a slice.
fn count(
    inputs: &Inputs,
    pod: &Pod,
    service: &Service,
    (sliced, placed): (bool, bool),
    of: &mut FamilyHealth,
) {
    // Without slices, Endpoints alone count, which do not look at nodes.
    let needs_node = sliced && !placed && !service.facts.publish_not_ready;
    let fit = pod.ip(of.family).is_some() && (!needs_node || inputs.node_of(pod).is_some());
    let conditions = desired(pod, service);
    let counter = if fit && conditions.ready() {
        let (node, zone) = inputs.node_and_zone(pod);
        let mode = service.facts.hints;
        let asks = matches!(mode, HintMode::SameZone | HintMode::SameNode);
        let hint = mode.hint(true, zone.map(|zone| &**zone), node);
        of.unhinted += usize::from(sliced && asks && hint.is_none());
        &mut of.ready
    } else if Family::ALL.into_iter().all(|family| pod.ip(family).is_none()) {
        &mut of.without_ip
    } else if pod.ip(of.family).is_none() {
        &mut of.other_family
    } else if conditions.terminating() {
        &mut of.terminating
    } else if fit || !conditions.serving() {
        &mut of.not_ready
    } else if inputs.node_name(pod).is_some() {
        &mut of.unknown_node
    } else {
        &mut of.unbound
    };
    *counter += 1;
}

/// Returns the ports whose target is a name that none of these pods has, if there are any pods.
fn ports_of_nobody<'a>(
    inputs: &Inputs,
    service: &'a ServiceFacts,
    pods: impl Iterator<Item = &'a Pod>,
) -> Vec<&'a ServicePort> {
    let named = |port: &&ServicePort| matches!(port.target, TargetPort::Name(_));
    let mut lacking: Vec<_> = service.ports.iter().filter(named).collect();
    let mut seen: KeyedSet<u32> = KeyedSet::default();
    for pod in pods {
        if lacking.is_empty() {
            return lacking;
        }
        // Pods of one template share their ports.
        if seen.insert(pod.port_set()) {
            let ports = inputs.ports_of(pod);
            // All that are left are looked up at once: one by one, each would search all ports of the pod.
            let wanted: Vec<ServicePort> = lacking.iter().map(|port| (*port).clone()).collect();
            let found = resolve(&wanted, ports);
            let found: KeyedSet<_> = found
                .iter()
                .map(|port| (port.name.as_deref().unwrap_or_default(), &port.protocol))
                .collect();
            lacking.retain(|port| !found.contains(&(&*port.name, &port.protocol)));
        }
    }
    if seen.is_empty() { Vec::new() } else { lacking }
}
