//! Pods on nodes that do not exist. Slices leave them out, as upstream's do; if that lasts, users are told.
//!
//! Upstream's endpointslice controller (1.36) fails its sync for such a pod, records an Event at each of 15 tries, and
//! then gives up. A node that is only seen later than its pods is no reason for an Event here.

use crate::core::events::{Notice, Source};
use crate::core::ids::{NodeId, PodId, ServiceId};
use crate::core::inputs::Inputs;
use crate::core::namespace::Placement;
use crate::core::namespace::rounds::STRIDE;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Number of pods, and of memberships of pods in Services, that are visited for a node, since users who create pods can make
/// them many. For all nodes together, a look visits twice as many at most.
const VISITS: usize = 10_000;
/// Number of Services that get an Event for a node.
const SERVICES: usize = 20;
/// Number of pods that an Event names.
const NAMES: usize = 3;

/// A look at nodes that do not exist, and how far it has come.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct NodeLook {
    /// The nodes that are left.
    nodes: VecDeque<NodeId>,
    /// Number of visits that are left for all of them.
    left: usize,
    first: AtNode,
}

/// How far a look at one node has come.
#[derive(Clone, Default, Debug)]
struct AtNode {
    visits: usize,
    /// The index of the next pod among those on the node, and of its next membership.
    next: (usize, usize),
    /// The Services that leave out pods because of the node.
    affected: BTreeMap<ServiceId, LeftOut>,
}

/// The pods that a Service leaves out: the first ones by name, and one more if there are others.
#[derive(Clone, Default, Debug)]
struct LeftOut(SmallVec<[PodId; NAMES + 1]>);

impl LeftOut {
    /// Adds a pod. It is a member once for each family.
    fn add(&mut self, inputs: &Inputs, pod: PodId) {
        let name = |pod: PodId| inputs.pod(pod).name();
        if let Err(at) = self.0.binary_search_by(|known| name(*known).cmp(name(pod)))
            && at <= NAMES
        {
            self.0.truncate(NAMES);
            self.0.insert(at, pod);
        }
    }

    /// Returns their names, for an Event.
    fn names(&self, inputs: &Inputs) -> String {
        let named = self.0.iter().take(NAMES);
        let names: Vec<_> = named.map(|pod| inputs.pod(*pod).name()).collect();
        let more = if self.0.len() > NAMES { " and others" } else { "" };
        names.join(", ") + more
    }
}

impl Placement<'_> {
    /// Begins a look for nodes that did not exist at several looks in a row, if these can be told now.
    pub(super) fn begin_unknown_nodes(&mut self) -> Option<Box<NodeLook>> {
        if !self.ctx.may_tell_of_nodes() {
            return None;
        }
        let nodes = self.inputs.look_at_unknown_nodes();
        self.ctx.work.nodes_visited += nodes.len() as u64;
        Some(Box::new(NodeLook {
            nodes,
            left: 2 * VISITS,
            first: AtNode::default(),
        }))
    }

    /// Continues a look. Returns what is left.
    pub(super) fn step_unknown_nodes(&mut self, mut look: Box<NodeLook>) -> Option<Box<NodeLook>> {
        let node = *look.nodes.front()?;
        for _ in 0..STRIDE {
            if look.first.visits < VISITS && look.left > 0 && self.visit_left_out(node, &mut look.first) {
                look.left -= 1;
                continue;
            }
            look.nodes.pop_front();
            let affected = std::mem::take(&mut look.first).affected;
            if !self.report_unknown_node(node, &affected) {
                // A Service that selects its pods may come later.
                self.inputs.report_node_later(node);
            }
            break;
        }
        Some(look)
    }

    /// Visits the next pod on a node, or its next membership. Returns false if there is none.
    fn visit_left_out(&mut self, node: NodeId, at: &mut AtNode) -> bool {
        let (pod_at, member_at) = &mut at.next;
        let Some(id) = self.inputs.pod_on(node, *pod_at) else {
            return false;
        };
        at.visits += 1;
        self.ctx.work.endpoints_visited += 1;
        let Some(member) = self.services.memberships[id].get(*member_at) else {
            at.next = (*pod_at + 1, 0);
            return true;
        };
        *member_at += 1;
        let facts = &self.services.table[member.service].facts;
        if self.ctx.writes_slices(facts)
            && !facts.publish_not_ready
            && member.slice.is_none()
            && self.inputs.pod(id).ip(member.family).is_some()
            && (at.affected.len() < SERVICES || at.affected.contains_key(&member.service))
        {
            at.affected
                .entry(member.service)
                .or_default()
                .add(self.inputs, id);
        }
        true
    }

    /// Returns false if no Service leaves out pods because of the node, so that there is nothing to report.
    fn report_unknown_node(&mut self, id: NodeId, affected: &BTreeMap<ServiceId, LeftOut>) -> bool {
        let name = self.inputs.name_of_node(id).clone();
        for (&service, left_out) in affected {
            let facts = &self.services.table[service].facts;
            let pods = left_out.names(self.inputs);
            let notice = Notice {
                source: if facts.custom {
                    Source::Custom
                } else {
                    Source::Slices
                },
                involved: self.services.involved(&self.ctx.namespace, service),
                warning: true,
                reason: "FailedToUpdateEndpointSlices",
                message: format!("Pods on node {name}, which does not exist, are left out: {pods}"),
            };
            self.ctx.notify(notice);
        }
        !affected.is_empty()
    }
}
