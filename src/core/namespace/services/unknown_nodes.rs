//! Pods on nodes that do not exist. Slices leave them out, as upstream's do; if that lasts, users are told.
//!
//! Upstream's endpointslice controller (1.36) fails its sync for such a pod, records an Event at each of 15 tries, and
//! then gives up. A node that is only seen later than its pods is no reason for an Event here.

use crate::core::events::{Notice, Source};
use crate::core::ids::{NodeId, ServiceId};
use crate::core::namespace::Placement;
use crate::core::namespace::notifications::Notification;
use std::collections::BTreeMap;

/// Number of memberships of pods in Services that are looked at for a node, since users who create pods can make them
/// many. For all nodes together, a look visits twice as many at most.
const MEMBERS: usize = 10_000;
/// Number of Services that get an Event for a node.
const SERVICES: usize = 20;
/// Number of pods that an Event names.
const NAMES: usize = 3;

impl Placement<'_> {
    /// Notifies users of nodes that did not exist at several looks in a row. The time between two is up to the caller.
    pub(in crate::core::namespace) fn look_at_unknown_nodes(&mut self) {
        if self.ctx.may_tell_of_nodes() {
            let mut members = 2 * MEMBERS;
            for node in self.inputs.look_at_unknown_nodes() {
                if !self.report_unknown_node(node, &mut members) {
                    // A Service that selects its pods may come later.
                    self.inputs.report_node_later(node);
                }
            }
        }
    }

    /// Returns false if no Service leaves out pods because of the node, so that there is nothing to report. Looks at no more
    /// memberships than `left`, and takes them off it.
    fn report_unknown_node(&mut self, id: NodeId, left: &mut usize) -> bool {
        let mut affected: BTreeMap<ServiceId, Vec<&str>> = BTreeMap::new();
        let (inputs, memberships) = (&self.inputs, &self.services.memberships);
        let members = inputs.pods_on(id).flat_map(|pod| {
            let members = memberships[pod].iter();
            members.map(move |member| (inputs.pod(pod), member))
        });
        for (pod, member) in members.take(MEMBERS.min(*left)) {
            *left -= 1;
            let facts = &self.services.table[member.service].facts;
            if self.ctx.writes_slices(facts)
                && !facts.publish_not_ready
                && pod.ip(member.family).is_some()
                && (affected.len() < SERVICES || affected.contains_key(&member.service))
            {
                let names = affected.entry(member.service).or_default();
                // A pod is a member once for each family.
                if names.last() != Some(&pod.name()) {
                    names.push(pod.name());
                }
            }
        }
        let Some(names) = affected.values().next() else {
            return false;
        };
        let name = self.inputs.name_of_node(id).clone();
        let mut told = vec![Notification::UnknownNode {
            node: name.clone(),
            pod: names[0].into(),
        }];
        for (service, mut names) in affected {
            names.sort_unstable();
            let more = if names.len() > NAMES { " and others" } else { "" };
            names.truncate(NAMES);
            let facts = &self.services.table[service].facts;
            told.push(Notification::Event(Notice {
                source: if facts.custom {
                    Source::Custom
                } else {
                    Source::Slices
                },
                involved: self.services.involved(&self.ctx.namespace, service),
                warning: true,
                reason: "FailedToUpdateEndpointSlices",
                message: format!(
                    "Pods on node {name}, which does not exist, are left out: {}{more}",
                    names.join(", ")
                ),
            }));
        }
        self.ctx.notifications.extend(told);
        true
    }
}
