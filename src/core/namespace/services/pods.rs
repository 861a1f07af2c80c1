//! Pod and node events: the inputs say what they change, and the members of Services that this concerns are visited.

use super::passes::Pass;
use crate::core::facts::PodFacts;
use crate::core::ids::PodId;
use crate::core::inputs::PodUpdate;
use crate::core::namespace::Placement;
use crate::core::nodes::{NodeDirectory, NodeView};
use crate::core::time::Time;
use std::sync::Arc;

impl Placement<'_> {
    /// Applies a pod from a list (of the given epoch) or a watch, as [`NamespaceState::apply_pod`] describes.
    ///
    /// [`NamespaceState::apply_pod`]: crate::core::namespace::NamespaceState::apply_pod
    pub(in crate::core::namespace) fn apply_pod(
        &mut self,
        facts: PodFacts,
        earlier: &[Time],
        epoch: u8,
        nodes: &mut dyn NodeDirectory,
    ) {
        match (self.inputs.find(&facts.name), facts.terminal) {
            (None, true) => {}
            (None, false) => {
                let ready = earlier.iter().copied().chain(facts.ready_time).min();
                let id = self.inputs.insert(facts, epoch, nodes, &mut self.ctx.work);
                self.visit_new(id, ready);
            }
            (Some(id), true) => {
                let ready = self.inputs.ready_since(id, earlier, facts.ready_time);
                self.note_ready(id, ready);
                self.drop_pod(id, nodes);
            }
            (Some(id), false) => {
                let update = self
                    .inputs
                    .update(id, facts, earlier, epoch, nodes, &mut self.ctx.work);
                self.visit_updated(id, &update);
            }
        }
    }

    /// Removes a pod.
    pub(in crate::core::namespace) fn remove_pod(&mut self, name: &str, nodes: &mut dyn NodeDirectory) {
        if let Some(id) = self.inputs.find(name) {
            self.drop_pod(id, nodes);
        }
    }

    /// Applies a change of a node that pods of this namespace run on, but leaves the visits to its pods to the passes.
    pub(in crate::core::namespace) fn begin_node(&mut self, view: Arc<NodeView>) {
        let shown = !self.slices.is_empty();
        if let Some((node, change)) = self.inputs.apply_node(view, shown, &mut self.ctx.work) {
            self.services.queue(Pass::Node(node, 0, change));
        }
    }

    /// Adds a new pod to the Services that select it. `ready` is its Ready time.
    fn visit_new(&mut self, id: PodId, ready: Option<Time>) {
        self.services.memberships.enter(id);
        for service in self.inputs.selecting(id) {
            self.services.table[service].note(ready);
            self.join(id, service);
        }
    }

    /// Visits the endpoints of a pod that has changed, and adds it to other Services, or removes it from some.
    fn visit_updated(&mut self, id: PodId, update: &PodUpdate) {
        if let Some(unused) = update.unused_ports {
            self.services.resolved.forget(unused);
        }
        if update.relabelled.is_some() {
            self.leave_unmatched(id);
        }
        self.note_ready(id, update.ready);
        if let Some(change) = update.change {
            if change.address != [false; 2] {
                self.readdress(id);
            }
            self.revisit(id, change);
            if update.reborn {
                self.leave_followed(id);
            }
        }
        if let Some(before) = &update.relabelled {
            self.join_matched(id, before);
        }
    }

    /// Notes a Ready time that moved forward, for the Services that select the pod.
    fn note_ready(&mut self, id: PodId, time: Option<Time>) {
        if time.is_none() {
            return;
        }
        for member in self.services.memberships[id].iter() {
            self.services.table[member.service].note(time);
        }
        // A pod without an address is no member, and its time counts all the same.
        for service in self.inputs.selecting(id) {
            if !self.services.memberships[id].has(service) {
                self.services.table[service].note(time);
                self.services.mark(service);
            }
        }
    }

    fn drop_pod(&mut self, id: PodId, nodes: &mut dyn NodeDirectory) {
        while let Some(member) = self.services.memberships[id].last() {
            self.remove_member(id, member.service);
        }
        self.services.memberships.leave(id);
        if let Some(unused) = self.inputs.remove(id, nodes, &mut self.ctx.work) {
            self.services.resolved.forget(unused);
        }
    }
}
