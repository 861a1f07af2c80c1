//! Pod and node events.

use super::passes::Pass;
use super::{Host, LocalNode, NamespaceState, Pod, PodChange};
use crate::core::address::Family;
use crate::core::compact::intern::push_tight;
use crate::core::facts::{HostName, NodeFacts, PodFacts};
use crate::core::ids::{HostId, NodeId, PodId};
use crate::core::nodes::{NodeDirectory, NodeView};
use crate::core::ports::ContainerPort;
use crate::core::selector_cache::Matching;
use crate::core::time::Time;
use smallvec::SmallVec;
use std::sync::Arc;

impl NamespaceState {
    /// Applies a pod from a list (of the given epoch) or a watch. `earlier` has the Ready times of states in between
    /// that were never shown here, because events were merged on the way.
    ///
    /// A pod in a terminal phase is removed, and only its Ready time counts.
    pub fn apply_pod(&mut self, facts: PodFacts, earlier: &[Time], epoch: u8, nodes: &mut dyn NodeDirectory) {
        match (self.pods.find(&facts.name), facts.terminal) {
            (None, true) => {}
            (None, false) => self.insert_pod(facts, earlier, epoch, nodes),
            (Some(id), true) => {
                self.note_times(id, earlier, facts.ready_time);
                self.drop_pod(id, nodes);
            }
            (Some(id), false) => self.update_pod(id, facts, earlier, epoch, nodes),
        }
    }

    /// Begins to compare a pod's labels with the selectors that they may match, if they are new and that may take
    /// long. The pod is applied when [`Self::step_labels`] is done, and [`Self::finish_labels`] called after that.
    pub fn begin_labels(&mut self, facts: &PodFacts) -> Option<Matching> {
        if facts.terminal {
            return None;
        }
        self.cache.begin_labels(&facts.labels, &mut self.work)
    }

    /// Makes the next comparison. Returns true when all have been made.
    pub fn step_labels(&mut self, matching: &mut Matching) -> bool {
        self.cache.step(matching, &mut self.work)
    }

    /// Finishes the comparison, once the pod has been applied.
    pub fn finish_labels(&mut self, matching: &Matching) {
        self.cache.finish(matching);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, name: &str, nodes: &mut dyn NodeDirectory) {
        if let Some(id) = self.pods.find(name) {
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
        let Some(id) = self.nodes.find(&view.name) else {
            return;
        };
        let node = &mut self.nodes[id];
        if node.view.version >= view.version {
            return;
        }
        let known = std::mem::replace(&mut node.view, view);
        if known.facts == node.view.facts {
            return;
        }
        self.note_node(id);
        let pods = self.nodes[id].pods.iter().copied().collect();
        self.passes.push_back(Pass::Node(pods));
    }

    fn insert_pod(&mut self, facts: PodFacts, earlier: &[Time], epoch: u8, nodes: &mut dyn NodeDirectory) {
        let conditions = Pod::conditions_of(&facts);
        let id = self.pods.next_id();
        let host = self.enter_host(&facts.name, facts.host.as_deref());
        let labels = self.cache.attach(id, &facts.labels, &mut self.work);
        let ports = self.port_sets.acquire(facts.ports.into_boxed_slice());
        let (node, node_at) = self.enter_node(id, facts.node.as_ref(), nodes);
        self.pods.insert(Pod {
            name: facts.name,
            uid: facts.uid,
            v4: facts.v4,
            v6: facts.v6.map(Box::new),
            primary: facts.primary,
            labels,
            node,
            node_at,
            ports,
            host,
            conditions,
            epoch,
            ready_time: facts.ready_time,
            members: SmallVec::new(),
        });
        self.set_on_host(id, facts.host_network);
        self.enter_host_names(id);
        let services = self.cache.services(labels.0);
        let time = earlier.iter().copied().chain(facts.ready_time).min();
        for service in services {
            if self.services[service].facts.is_led() {
                continue;
            }
            self.services[service].note(time);
            self.join(id, service);
        }
        self.judge_named(id);
    }

    fn update_pod(
        &mut self,
        id: PodId,
        facts: PodFacts,
        earlier: &[Time],
        epoch: u8,
        nodes: &mut dyn NodeDirectory,
    ) {
        let conditions = Pod::conditions_of(&facts);
        let rehosted = !self.is_hosted(&self.pods[id], facts.host.as_deref());
        let on_host = facts.host_network && self.settings.outputs.custom;
        let renamed = rehosted
            || self.is_on_host(id) != on_host
            || (on_host && self.node_name(&self.pods[id]) != facts.node.as_ref());
        if renamed {
            self.leave_host_names(id);
        }
        let pod = &mut self.pods[id];
        pod.epoch = epoch;
        let mut change = PodChange::default();
        let mut changed = false;
        change.content = [pod.v4 != facts.v4, pod.v6.as_deref() != facts.v6.as_ref()];
        changed |= pod.primary != facts.primary;
        (pod.v4, pod.primary) = (facts.v4, facts.primary);
        if change.content[Family::V6.index()] {
            pod.v6 = facts.v6.map(Box::new);
        }
        let reborn = pod.uid != facts.uid;
        if reborn || rehosted {
            pod.uid = facts.uid;
            change.content = [true; 2];
            change.endpoints = true;
        }
        if pod.conditions != conditions {
            pod.conditions = conditions;
            changed = true;
        }
        self.update_ports(id, facts.ports, &mut change);
        if rehosted {
            let host = self.enter_host(&facts.name, facts.host.as_deref());
            let old = std::mem::replace(&mut self.pods[id].host, host);
            self.leave_host(old);
        }
        self.update_node(id, facts.node.as_ref(), nodes, &mut change);
        if renamed {
            self.set_on_host(id, on_host);
            self.enter_host_names(id);
        }
        let moved = !self.cache.is(self.pods[id].labels.0, &facts.labels);
        if moved {
            let old = self.pods[id].labels;
            // Attach before detaching, so that a label set that both share stays.
            let new = self.cache.attach(id, &facts.labels, &mut self.work);
            self.detach_labels(old);
            self.pods[id].labels = new;
            self.leave_unmatched(id);
        }
        self.note_times(id, earlier, facts.ready_time);
        self.pods[id].ready_time = facts.ready_time;
        if changed || change != PodChange::default() {
            self.revisit(id, change);
            self.leave_followed(id, reborn);
        }
        if moved {
            self.join_matched(id);
        }
        if moved || renamed || reborn {
            self.judge_named(id);
        }
    }

    fn update_ports(&mut self, id: PodId, ports: Vec<ContainerPort>, change: &mut PodChange) {
        let old = self.pods[id].ports;
        if **self.port_sets.get(old) != *ports {
            self.pods[id].ports = self.port_sets.acquire(ports.into_boxed_slice());
            self.leave_ports(old);
            change.ports = true;
        }
    }

    fn update_node(
        &mut self,
        id: PodId,
        node: Option<&Arc<str>>,
        nodes: &mut dyn NodeDirectory,
        change: &mut PodChange,
    ) {
        if self.node_name(&self.pods[id]) != node {
            self.leave_node(id, nodes);
            let (node, node_at) = self.enter_node(id, node, nodes);
            let pod = &mut self.pods[id];
            (pod.node, pod.node_at) = (node, node_at);
            change.content = [true; 2];
            change.endpoints = true;
        }
    }

    /// Returns the node that a pod is scheduled on, known or not.
    pub(super) fn node_name(&self, pod: &Pod) -> Option<&Arc<str>> {
        self.nodes.get(pod.node).map(|node| &node.view.name)
    }

    /// Notes a Ready time that moved forward, for the Services that select the pod.
    fn note_times(&mut self, id: PodId, earlier: &[Time], time: Option<Time>) {
        let pod = &self.pods[id];
        // `None` is before any time.
        let forward = |t: &Time| Some(*t) > pod.ready_time;
        let time = earlier.iter().copied().chain(time).filter(forward).min();
        if time.is_none() {
            return;
        }
        for member in &pod.members {
            self.services[member.service].note(time);
        }
    }

    fn drop_pod(&mut self, id: PodId, nodes: &mut dyn NodeDirectory) {
        while let Some(member) = self.pods[id].members.last() {
            self.part(id, member.service);
        }
        self.leave_host_names(id);
        self.set_on_host(id, false);
        self.leave_node(id, nodes);
        self.detach_labels(self.pods[id].labels);
        let pod = self.pods.remove(id);
        self.leave_ports(pod.ports);
        self.leave_host(pod.host);
    }

    fn detach_labels(&mut self, (set, at): (crate::core::ids::FullSetId, u32)) {
        if let Some(moved) = self.cache.detach(set, at) {
            self.pods[moved].labels.1 = at;
        }
        self.work.pairs_compared += self.cache.take_released();
    }

    fn leave_ports(&mut self, id: u32) {
        if self.port_sets.release(id) {
            self.resolved.forget(id);
        }
    }

    fn enter_host(&mut self, pod: &str, host: Option<&HostName>) -> HostId {
        host.map_or(HostId::NONE, |host| {
            HostId(self.hosts.acquire(Host {
                hostname: (*host.hostname != *pod).then(|| host.hostname.clone()),
                subdomain: host.subdomain.clone(),
            }))
        })
    }

    fn leave_host(&mut self, id: HostId) {
        if !id.is_none() {
            self.hosts.release(id.0);
        }
    }

    /// Returns whether a pod has this hostname and subdomain.
    fn is_hosted(&self, pod: &Pod, host: Option<&HostName>) -> bool {
        match host {
            None => pod.host.is_none(),
            Some(host) => self.hostname(pod, &host.subdomain) == Some(&*host.hostname),
        }
    }

    /// Returns a pod's hostname in a subdomain, if it has one there.
    #[inline]
    pub(super) fn hostname<'a>(&'a self, pod: &'a Pod, subdomain: &str) -> Option<&'a str> {
        if pod.host.is_none() {
            return None;
        }
        let host = self.hosts.get(pod.host.0);
        (*host.subdomain == *subdomain).then(|| host.hostname.as_deref().unwrap_or(&pod.name))
    }

    fn enter_node(
        &mut self,
        pod: PodId,
        name: Option<&Arc<str>>,
        nodes: &mut dyn NodeDirectory,
    ) -> (NodeId, u32) {
        let Some(name) = name else {
            return (NodeId::NONE, 0);
        };
        let id = if let Some(id) = self.nodes.find(name) {
            id
        } else {
            let node = LocalNode {
                view: nodes.look_up(name, &self.namespace),
                pods: SmallVec::new(),
            };
            let id = self.nodes.insert(node);
            self.note_node(id);
            id
        };
        let pods = &mut self.nodes[id].pods;
        push_tight(pods, pod);
        (id, pods.len() as u32 - 1)
    }

    fn leave_node(&mut self, pod: PodId, nodes: &mut dyn NodeDirectory) {
        let (id, at) = (self.pods[pod].node, self.pods[pod].node_at);
        if id.is_none() {
            return;
        }
        let node = &mut self.nodes[id];
        node.pods.swap_remove(at as usize);
        if let Some(moved) = node.pods.get(at as usize) {
            self.pods[*moved].node_at = at;
        }
        if node.pods.is_empty() {
            self.unknown_nodes.remove(id);
            let node = self.nodes.remove(id);
            nodes.forget(&node.view.name, &self.namespace);
        }
    }

    /// Returns the node that a pod runs on, if it is known.
    pub(super) fn node_of(&self, pod: &Pod) -> Option<(&Arc<str>, &NodeFacts)> {
        let view = &self.nodes.get(pod.node)?.view;
        Some((&view.name, view.facts.as_ref()?))
    }
}
