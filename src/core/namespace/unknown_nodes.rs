//! Pods on nodes that do not exist. Slices leave them out, as upstream's do; if that lasts, people are told.
//!
//! Upstream's endpointslice controller (1.36) fails its sync for such a pod, records an Event at each of 15 tries, and
//! then gives up. A node that is only seen later than its pods is no reason for an Event here.

use super::kind::Kind;
use super::notifications::Notification;
use super::{NamespaceState, NodeId};
use crate::core::events::{Notice, Source};
use crate::core::ids::ServiceId;
use std::collections::{BTreeMap, BTreeSet};

/// Number of nodes that are reported at once. The others follow at the next look.
const NODES: usize = 100;
/// Number of memberships of pods in Services that are looked at for a node: whoever creates pods can make them many.
const MEMBERS: usize = 1000;
/// Number of Services that get an Event for a node.
const SERVICES: usize = 20;
/// Number of pods that an Event names.
const NAMES: usize = 3;

/// The nodes that pods of the namespace are on, that do not exist, and that nobody was told of.
#[derive(Clone, Debug, Default)]
pub(super) struct UnknownNodes {
    /// Nodes that were not there at the last look.
    recent: BTreeSet<NodeId>,
    /// Nodes that were there at the last look already.
    lasting: BTreeSet<NodeId>,
}

impl UnknownNodes {
    /// Adds a node that does not exist.
    pub(super) fn insert(&mut self, node: NodeId) {
        self.recent.insert(node);
    }

    /// Removes a node that exists, or that no pod is on any more.
    pub(super) fn remove(&mut self, node: NodeId) {
        self.recent.remove(&node);
        self.lasting.remove(&node);
    }

    fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.lasting.is_empty()
    }
}

impl NamespaceState {
    /// Returns whether [`Self::look_at_unknown_nodes`] should be called after a while.
    pub fn has_unknown_nodes(&self) -> bool {
        !self.unknown_nodes.is_empty()
    }

    /// Notifies people of nodes that do not exist and did not at the last look either. While lists are pending, or
    /// nobody writes, it is too early to say.
    pub fn look_at_unknown_nodes(&mut self) {
        if self.starting || self.pending_lists.any() {
            return;
        }
        for _ in 0..NODES {
            let Some(node) = self.unknown_nodes.lasting.pop_first() else {
                break;
            };
            self.report_unknown_node(node);
        }
        if self.unknown_nodes.lasting.is_empty() {
            self.unknown_nodes.lasting = std::mem::take(&mut self.unknown_nodes.recent);
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

    fn report_unknown_node(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        let mut affected: BTreeMap<ServiceId, Vec<&str>> = BTreeMap::new();
        let pods = node.pods.iter().map(|pod| &self.pods[*pod]);
        let members = pods.flat_map(|pod| pod.members.iter().map(move |member| (pod, member)));
        for (pod, member) in members.take(MEMBERS) {
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
            return;
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
    }
}
