//! The nodes that the pods of a namespace run on, and those of them that do not exist.

use super::{Inputs, Pod, PodChange};
use crate::core::compact::intern::push_tight;
use crate::core::compact::table::{Named, Table};
use crate::core::facts::NodeFacts;
use crate::core::hints::Zone;
use crate::core::ids::{NodeId, PodId};
use crate::core::nodes::{NodeDirectory, NodeView};
use crate::core::work::Work;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Number of nodes that are reported at once. The others follow at the next look.
const NODES: usize = 100;
/// After this many looks at which a node did not exist, it is reported.
const LOOKS: u64 = 8;

/// A node that pods of this namespace run on.
#[derive(Clone, Debug)]
struct LocalNode {
    view: Arc<NodeView>,
    pods: SmallVec<[PodId; 4]>,
}

impl LocalNode {
    fn show_zone(&mut self, zone: Option<Zone>) {
        self.view = Arc::new(NodeView {
            zone,
            ..(*self.view).clone()
        });
    }
}

impl Named for LocalNode {
    fn name(&self) -> &str {
        &self.view.name
    }
}

/// The nodes that pods of a namespace run on.
#[derive(Clone, Debug)]
pub(super) struct LocalNodes {
    namespace: Arc<str>,
    known: Table<NodeId, LocalNode>,
    unknown: UnknownNodes,
    /// False if nothing that is published depends on nodes, so that none is reported as missing.
    counts: bool,
}

/// The nodes that pods of the namespace are on, that do not exist, and that were not reported.
#[derive(Clone, Debug, Default)]
struct UnknownNodes {
    /// The nodes, each with the number of the last look before it was known to be missing.
    missing: BTreeMap<NodeId, u64>,
    /// The same by this number: the nodes that have waited longest are reported first, or others could go before them each
    /// time. Whoever creates pods may name any number of nodes.
    waiting: BTreeSet<(u64, NodeId)>,
    /// Number of looks so far.
    looks: u64,
}

impl UnknownNodes {
    fn insert(&mut self, node: NodeId) {
        let looked = *self.missing.entry(node).or_insert(self.looks);
        self.waiting.insert((looked, node));
    }

    /// Removes a node that exists, or that no pod is on any more.
    fn remove(&mut self, node: NodeId) {
        if let Some(looked) = self.missing.remove(&node) {
            self.waiting.remove(&(looked, node));
        }
    }

    /// Looks once more, and takes out the nodes that may be reported.
    fn look(&mut self) -> VecDeque<NodeId> {
        self.looks += 1;
        let lasting = |(looked, _): &&(u64, NodeId)| self.looks - looked >= LOOKS;
        let lasting = self.waiting.iter().take_while(lasting).take(NODES);
        let nodes: VecDeque<_> = lasting.map(|(_, node)| *node).collect();
        for node in &nodes {
            self.remove(*node);
        }
        nodes
    }
}

impl LocalNodes {
    pub(super) fn new(namespace: Arc<str>, counts: bool) -> Self {
        Self {
            namespace,
            known: Table::default(),
            unknown: UnknownNodes::default(),
            counts,
        }
    }

    /// Adds a pod to the node of a name. Returns the node, and the pod's index among those on it.
    pub(super) fn enter(
        &mut self,
        pod: PodId,
        name: Option<&Arc<str>>,
        nodes: &mut dyn NodeDirectory,
        work: &mut Work,
    ) -> (NodeId, u32) {
        let Some(name) = name else {
            return (NodeId::NONE, 0);
        };
        work.nodes_visited += 1;
        let id = if let Some(id) = self.known.find(name) {
            id
        } else {
            let node = LocalNode {
                view: nodes.look_up(name, &self.namespace),
                pods: SmallVec::new(),
            };
            let id = self.known.insert(node);
            self.note(id);
            id
        };
        let pods = &mut self.known[id].pods;
        push_tight(pods, pod);
        (id, pods.len() as u32 - 1)
    }

    /// Removes the pod at an index of a node. Returns the pod that has this index now, if any.
    pub(super) fn leave(
        &mut self,
        id: NodeId,
        at: u32,
        nodes: &mut dyn NodeDirectory,
        work: &mut Work,
    ) -> Option<PodId> {
        if id.is_none() {
            return None;
        }
        work.nodes_visited += 1;
        let node = &mut self.known[id];
        node.pods.swap_remove(at as usize);
        let moved = node.pods.get(at as usize).copied();
        if node.pods.is_empty() {
            self.unknown.remove(id);
            let node = self.known.remove(id);
            nodes.forget(&node.view.name, &self.namespace);
        }
        moved
    }

    /// Notes whether a node exists.
    fn note(&mut self, id: NodeId) {
        if self.known[id].view.facts.is_some() {
            self.unknown.remove(id);
        } else if self.counts {
            self.unknown.insert(id);
        }
    }
}

impl Inputs {
    /// Applies a change of a node. Returns the node and what has changed for the pods on it, if they are to be visited: none
    /// is for a node that is missing from now on, or that has lost its zone. `shown` is true if slices show the zone.
    pub(crate) fn apply_node(
        &mut self,
        view: Arc<NodeView>,
        shown: bool,
        work: &mut Work,
    ) -> Option<(NodeId, PodChange)> {
        work.nodes_visited += 1;
        let nodes = &mut self.nodes;
        let id = nodes.known.find(&view.name)?;
        let node = &mut nodes.known[id];
        if node.view.version >= view.version {
            return None;
        }
        let known = std::mem::replace(&mut node.view, view);
        let (appears, zone) = (
            known.facts.is_none() && node.view.facts.is_some(),
            known.zone.clone(),
        );
        let moves = node.view.knows_zone() && zone != node.view.zone;
        if node.view.zone.is_none() && shown && zone.is_some() {
            node.show_zone(zone);
        }
        nodes.note(id);
        if moves {
            return Some((id, PodChange::CONTENT));
        }
        appears.then_some((id, PodChange::default()))
    }

    /// Notes the zone that a slice shows for a pod, if that of its node is unknown and no slice has shown one.
    pub(crate) fn note_zone(&mut self, pod: PodId, zone: Option<&str>) {
        let node = self.pod(pod).node;
        if let Some(node) = self.nodes.known.get_mut(node)
            && node.view.zone.is_none()
        {
            node.show_zone(zone.map(Zone::from));
        }
    }

    /// Forgets the zones that slices show, where they are not known: the slices are forgotten.
    pub(crate) fn forget_zones(&mut self) {
        for number in 0..self.nodes.known.end() {
            let node = self.nodes.known.get_mut(NodeId::from(number));
            if let Some(node) = node.filter(|node| node.view.zone.is_some() && !node.view.knows_zone()) {
                node.show_zone(None);
            }
        }
    }

    /// Returns whether the zone of a pod's node is known.
    pub(crate) fn knows_zone(&self, pod: &Pod) -> bool {
        self.nodes
            .known
            .get(pod.node)
            .is_some_and(|node| node.view.knows_zone())
    }

    /// Returns the node that a pod is scheduled on, known or not.
    #[inline]
    pub(crate) fn node_name(&self, pod: &Pod) -> Option<&Arc<str>> {
        self.nodes.known.get(pod.node).map(|node| &node.view.name)
    }

    /// Returns the node that a pod runs on, if it exists.
    #[inline]
    pub(crate) fn node_of(&self, pod: &Pod) -> Option<(&Arc<str>, &NodeFacts)> {
        let view = &self.nodes.known.get(pod.node)?.view;
        Some((&view.name, view.facts.as_ref()?))
    }

    /// Returns the name of the node that a pod is scheduled on, and its zone, or the one that slices show.
    #[inline]
    pub(crate) fn node_and_zone(&self, pod: &Pod) -> (Option<&str>, Option<&Arc<str>>) {
        let node = self.nodes.known.get(pod.node);
        let zone = node.and_then(|node| node.view.zone.as_ref());
        (node.map(|node| &*node.view.name), zone)
    }

    /// Returns whether pods are on nodes that do not exist and that have not been reported.
    pub(crate) fn has_unknown_nodes(&self) -> bool {
        !self.nodes.unknown.missing.is_empty()
    }

    /// Looks once more at the nodes that do not exist, and takes out those that may be reported.
    pub(crate) fn look_at_unknown_nodes(&mut self) -> VecDeque<NodeId> {
        self.nodes.unknown.look()
    }

    /// Has a node that does not exist reported later, since there is nothing to report of it yet.
    pub(crate) fn report_node_later(&mut self, node: NodeId) {
        self.nodes.unknown.insert(node);
    }

    /// Returns the name of a node.
    pub(crate) fn name_of_node(&self, node: NodeId) -> &Arc<str> {
        &self.nodes.known[node].view.name
    }

    /// Returns the pod at an index among those on a node. The caller goes through them in steps: there may be a hundred
    /// thousand, and none comes or goes in between.
    pub(crate) fn pod_on(&self, node: NodeId, at: usize) -> Option<PodId> {
        self.nodes.known.get(node)?.pods.get(at).copied()
    }
}
