//! Pods on nodes that do not exist. Slices leave them out, as upstream's do; if that lasts, people are told.
//!
//! Upstream's endpointslice controller (1.36) fails its sync for such a pod, records an Event at each of 15 tries, and
//! then gives up. A node that is only seen later than its pods is no reason for an Event here.

use super::kind::Kind;
use super::notifications::Notification;
use super::{NamespaceState, NodeId};
use crate::core::events::{Notice, Source};
use crate::core::ids::ServiceId;
use std::collections::BTreeMap;

/// Number of nodes that are reported at once. The others follow at the next look.
const NODES: usize = 100;
/// Number of memberships of pods in Services that are looked at for a node: whoever creates pods can make them many.
/// Of all nodes together, twice as many at a look.
const MEMBERS: usize = 10_000;
/// Number of Services that get an Event for a node.
const SERVICES: usize = 20;
/// Number of pods that an Event names.
const NAMES: usize = 3;

/// After this many looks at which a node did not exist, it is reported.
const LOOKS: u64 = 8;

/// The nodes that pods of the namespace are on, that do not exist, and of which no Service's owner was told.
#[derive(Clone, Debug, Default)]
pub(super) struct UnknownNodes {
    /// The nodes, each with the number of the last look before it was known to be missing.
    missing: BTreeMap<NodeId, u64>,
    /// Number of looks so far.
    looks: u64,
}

impl UnknownNodes {
    /// Adds a node that does not exist.
    pub(super) fn insert(&mut self, node: NodeId) {
        self.missing.entry(node).or_insert(self.looks);
    }

    /// Removes a node that exists, or that no pod is on any more.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.missing.remove(&node);
    }

    /// Looks once more, and takes out the nodes that may be reported.
    fn look(&mut self) -> Vec<NodeId> {
        self.looks += 1;
        let lasting = |looked: u64| self.looks - looked >= LOOKS;
        let lasting = self.missing.iter().filter(|(_, looked)| lasting(**looked));
        // Those that have waited longest: others may be looked at again and again, and never be reported.
        let mut nodes: Vec<_> = lasting.map(|(node, looked)| (*looked, *node)).collect();
        nodes.sort_unstable();
        nodes.truncate(NODES);
        let nodes: Vec<_> = nodes.into_iter().map(|(_, node)| node).collect();
        for node in &nodes {
            self.missing.remove(node);
        }
        nodes
    }
}

impl NamespaceState {
    /// Returns whether [`Self::look_at_unknown_nodes`] should be called after a while.
    pub fn has_unknown_nodes(&self) -> bool {
        self.may_tell_of_nodes() && !self.unknown_nodes.missing.is_empty()
    }

    /// Returns whether it can be said which nodes do not exist: not while lists are pending, or while nobody writes.
    fn may_tell_of_nodes(&self) -> bool {
        !self.starting && !self.pending_lists.any()
    }

    /// Notifies people of nodes that did not exist at the last `LOOKS` looks. The time between two is up to the caller.
    pub fn look_at_unknown_nodes(&mut self) {
        if self.may_tell_of_nodes() {
            let mut members = 2 * MEMBERS;
            for node in self.unknown_nodes.look() {
                if !self.report_unknown_node(node, &mut members) {
                    // A Service that selects its pods may come later.
                    self.unknown_nodes.insert(node);
                }
            }
        }
    }

    /// Notes whether a node exists. Without slices, nodes are not read, and do not count.
    pub(super) fn note_node(&mut self, id: NodeId) {
        if self.nodes[id].view.facts.is_some() {
            self.unknown_nodes.remove(id);
        } else if Kind::Node.is_needed(self.settings.outputs) {
            self.unknown_nodes.insert(id);
        }
    }

    /// Returns false if no Service leaves out pods because of the node, so that there is nothing to report. Looks at no more
    /// memberships than `left`, and takes them off it.
    fn report_unknown_node(&mut self, id: NodeId, left: &mut usize) -> bool {
        let node = &self.nodes[id];
        let mut affected: BTreeMap<ServiceId, Vec<&str>> = BTreeMap::new();
        let pods = node.pods.iter().map(|pod| &self.pods[*pod]);
        let members = pods.flat_map(|pod| pod.members.iter().map(move |member| (pod, member)));
        for (pod, member) in members.take(MEMBERS.min(*left)) {
            *left -= 1;
            let facts = &self.services[member.service].facts;
            if self.writes_slices(facts)
                && !facts.publish_not_ready
                && pod.ip(member.family).is_some()
                && (affected.len() < SERVICES || affected.contains_key(&member.service))
            {
                let names = affected.entry(member.service).or_default();
                // A pod is a member once for each family.
                if names.last() != Some(&&*pod.name) {
                    names.push(&pod.name);
                }
            }
        }
        let Some(names) = affected.values().next() else {
            return false;
        };
        let name = node.view.name.clone();
        let mut told = vec![Notification::UnknownNode {
            node: name.clone(),
            pod: names[0].into(),
        }];
        for (service, mut names) in affected {
            names.sort_unstable();
            let more = if names.len() > NAMES { " and others" } else { "" };
            names.truncate(NAMES);
            let facts = &self.services[service].facts;
            told.push(Notification::Event(Notice {
                source: if facts.custom {
                    Source::Custom
                } else {
                    Source::Slices
                },
                involved: self.involved(service),
                warning: true,
                reason: "FailedToUpdateEndpointSlices",
                message: format!(
                    "Pods on node {name}, which does not exist, are left out: {}{more}",
                    names.join(", ")
                ),
            }));
        }
        self.notifications.extend(told);
        true
    }
}
