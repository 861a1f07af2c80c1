//! Pod and node events: the inputs say what they change, and the members of Services that this concerns are visited.

use super::NamespaceState;
use super::passes::Pass;
use crate::core::facts::PodFacts;
use crate::core::ids::PodId;
use crate::core::inputs::{Matching, PodUpdate};
use crate::core::nodes::{NodeDirectory, NodeView};
use crate::core::time::Time;
use std::sync::Arc;

impl NamespaceState {
    /// Applies a pod from a list (of the given epoch) or a watch. `earlier` has the Ready times of states in between
    /// that were never shown here, because events were merged on the way.
    ///
    /// A pod in a terminal phase is removed, and only its Ready time counts.
    pub fn apply_pod(&mut self, facts: PodFacts, earlier: &[Time], epoch: u8, nodes: &mut dyn NodeDirectory) {
        match (self.inputs.find(&facts.name), facts.terminal) {
            (None, true) => {}
            (None, false) => {
                let ready = earlier.iter().copied().chain(facts.ready_time).min();
                let id = self.inputs.insert(facts, epoch, nodes, &mut self.work);
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
                    .update(id, facts, earlier, epoch, nodes, &mut self.work);
                self.visit_updated(id, update);
            }
        }
    }

    /// Begins to compare a pod's labels with the selectors that they may match, if they are new and that may take
    /// long. The pod is applied when [`Self::step_labels`] is done, and [`Self::finish_labels`] called after that.
    pub fn begin_labels(&mut self, facts: &PodFacts) -> Option<Matching> {
        self.inputs.begin_labels(facts, &mut self.work)
    }

    /// Makes the next comparison. Returns true when all have been made.
    pub fn step_labels(&mut self, matching: &mut Matching) -> bool {
        self.inputs.step_matching(matching, &mut self.work)
    }

    /// Finishes the comparison, once the pod has been applied.
    pub fn finish_labels(&mut self, matching: &Matching) {
        self.inputs.finish_labels(matching);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, name: &str, nodes: &mut dyn NodeDirectory) {
        if let Some(id) = self.inputs.find(name) {
            self.drop_pod(id, nodes);
        }
    }

    /// Applies a change of a node that pods of this namespace run on: only their endpoints are visited.
    pub fn apply_node(&mut self, view: Arc<NodeView>) {
        self.begin_node(view);
        self.finish_passes();
    }

    /// Does what [`Self::apply_node`] does, but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_node(&mut self, view: Arc<NodeView>) {
        let pods = self.inputs.apply_node(view);
        self.passes.extend(pods.map(Pass::Node));
    }

    /// Adds a new pod to the Services that select it. `ready` is its Ready time.
    fn visit_new(&mut self, id: PodId, ready: Option<Time>) {
        self.memberships.enter(id);
        for service in self.inputs.selecting(id) {
            if self.services[service].facts.is_led() {
                continue;
            }
            self.services[service].note(ready);
            self.join(id, service);
        }
        self.judge_named(id);
    }

    /// Visits the endpoints of a pod that has changed, and adds it to other Services, or removes it from some.
    fn visit_updated(&mut self, id: PodId, update: PodUpdate) {
        if let Some(unused) = update.unused_ports {
            self.resolved.forget(unused);
        }
        if update.relabelled {
            self.leave_unmatched(id);
        }
        self.note_ready(id, update.ready);
        if let Some(change) = update.change {
            self.revisit(id, change);
            self.leave_followed(id, update.reborn);
        }
        if update.relabelled {
            self.join_matched(id);
        }
        if update.relabelled || update.renamed || update.reborn {
            self.judge_named(id);
        }
    }

    /// Notes a Ready time that moved forward, for the Services that select the pod.
    fn note_ready(&mut self, id: PodId, time: Option<Time>) {
        if time.is_none() {
            return;
        }
        for member in self.memberships[id].iter() {
            self.services[member.service].note(time);
        }
    }

    fn drop_pod(&mut self, id: PodId, nodes: &mut dyn NodeDirectory) {
        while let Some(member) = self.memberships[id].last() {
            self.part(id, member.service);
        }
        self.memberships.leave(id);
        if let Some(unused) = self.inputs.remove(id, nodes, &mut self.work) {
            self.resolved.forget(unused);
        }
    }
}
