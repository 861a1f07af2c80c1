//! Pods, reduced to what their endpoints depend on.

use super::{Inputs, Matching};
use crate::core::address::Family;
use crate::core::compact::table::Named;
use crate::core::facts::PodFacts;
use crate::core::ids::{FullSetId, HostId, NodeId, PodId, ServiceId, Uid};
use crate::core::nodes::NodeDirectory;
use crate::core::ports::ContainerPort;
use crate::core::slices::Conditions;
use crate::core::time::Time;
use crate::core::work::Work;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A pod, reduced to what its endpoints depend on.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    name: Box<str>,
    uid: Uid,
    v4: Option<Ipv4Addr>,
    /// Boxed, since most pods have none.
    v6: Option<Box<Ipv6Addr>>,
    /// The family of its first address.
    primary: Option<Family>,
    /// Its label set, and its index among the pods that have it.
    labels: (FullSetId, u32),
    pub(super) node: NodeId,
    /// Its index among the node's pods.
    pub(super) node_at: u32,
    ports: u32,
    pub(super) host: HostId,
    /// The conditions of its endpoints before any Service setting applies: `serving` says that the pod is ready.
    conditions: Conditions,
    epoch: u8,
    ready_time: Option<Time>,
}

impl Named for Pod {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Pod {
    /// `metadata.name`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `metadata.uid`.
    pub(crate) fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns its address of a family.
    #[inline]
    pub(crate) fn ip(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.v4.map(IpAddr::V4),
            Family::V6 => self.v6.as_deref().copied().map(IpAddr::V6),
        }
    }

    /// Returns the family of its first address.
    #[inline]
    pub(crate) fn primary(&self) -> Option<Family> {
        self.primary
    }

    /// Returns the conditions of its endpoints before any Service setting applies: `serving` says that the pod is ready.
    #[inline]
    pub(crate) fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// Returns the time of the Ready condition's last transition.
    pub(crate) fn ready_time(&self) -> Option<Time> {
        self.ready_time
    }

    /// Returns the number of its list of ports, which all pods of one template share.
    #[inline]
    pub(crate) fn port_set(&self) -> u32 {
        self.ports
    }

    pub(super) fn label_set(&self) -> FullSetId {
        self.labels.0
    }

    fn conditions_of(facts: &PodFacts) -> Conditions {
        Conditions::new(facts.ready, facts.ready, facts.terminating)
    }
}

/// The changes an event made to a pod, as far as they concern one of its endpoints.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct PodChange {
    /// It may belong to another port group.
    pub(crate) ports: bool,
    /// By family: slices show something differently, other than its conditions.
    pub(crate) content: [bool; 2],
    /// By family: it has another address.
    pub(crate) address: [bool; 2],
    /// The Endpoints object shows something differently, other than its address and readiness.
    pub(crate) endpoints: bool,
    /// Another pod has its name now.
    pub(crate) reborn: bool,
}

impl PodChange {
    /// A change of something that all families publish, other than the conditions.
    pub(crate) const CONTENT: Self = Self {
        ports: false,
        content: [true; 2],
        address: [false; 2],
        endpoints: false,
        reborn: false,
    };
}

/// The changes that an event has made to a pod that was there before.
#[derive(Clone)]
pub(crate) struct PodUpdate {
    /// The change of what its endpoints show, if there is one.
    pub(crate) change: Option<PodChange>,
    /// If other selectors may match it now: the Services that selected it before.
    pub(crate) relabelled: Option<SmallVec<[ServiceId; 4]>>,
    /// True if another pod has its name now.
    pub(crate) reborn: bool,
    /// The earliest of its Ready times that is later than the one before.
    pub(crate) ready: Option<Time>,
    /// The number of a list of ports that no pod has any more, and that may be given to another list.
    pub(crate) unused_ports: Option<u32>,
}

impl Inputs {
    /// Begins to compare a pod's labels with the selectors that they may match, if they are new and that may take
    /// long. The pod is applied when [`Self::step_matching`] is done, and [`Self::finish_labels`] called after that.
    pub(crate) fn begin_labels(&mut self, facts: &PodFacts, work: &mut Work) -> Option<Matching> {
        if facts.terminal {
            return None;
        }
        self.labels.begin_labels(&facts.labels, work)
    }

    /// Returns the names of the pods that the list of an epoch did not show.
    pub(crate) fn unlisted(&self, epoch: u8) -> Vec<Box<str>> {
        let gone = self.pods.iter().filter(|(_, pod)| pod.epoch != epoch);
        gone.map(|(_, pod)| pod.name.clone()).collect()
    }

    /// Returns the earliest of a pod's Ready times that is later than the last one that is known. `earlier` has those of
    /// states that were never shown here.
    pub(crate) fn ready_since(&self, id: PodId, earlier: &[Time], time: Option<Time>) -> Option<Time> {
        let known = self.pods[id].ready_time;
        // `None` is before any time.
        let forward = |t: &Time| Some(*t) > known;
        earlier.iter().copied().chain(time).filter(forward).min()
    }

    /// Adds a pod that is not known.
    pub(crate) fn insert(
        &mut self,
        facts: PodFacts,
        epoch: u8,
        nodes: &mut dyn NodeDirectory,
        work: &mut Work,
    ) -> PodId {
        let conditions = Pod::conditions_of(&facts);
        let id = self.pods.next_id();
        let host = self.hosts.enter(&facts.name, facts.host.as_deref());
        let labels = self.labels.attach(id, &facts.labels, work);
        let ports = self.port_sets.acquire(facts.ports.into_boxed_slice());
        let (node, node_at) = self.nodes.enter(id, facts.node.as_ref(), nodes, work);
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
        });
        id
    }

    /// Applies another state of a pod that is known. The caller then visits the members that it changes.
    pub(crate) fn update(
        &mut self,
        id: PodId,
        facts: PodFacts,
        earlier: &[Time],
        epoch: u8,
        nodes: &mut dyn NodeDirectory,
        work: &mut Work,
    ) -> PodUpdate {
        let ready = self.ready_since(id, earlier, facts.ready_time);
        let rehosted = !self.hosts.has(&self.pods[id], facts.host.as_deref());
        let pod = &mut self.pods[id];
        (pod.epoch, pod.ready_time) = (epoch, facts.ready_time);
        let conditions = Pod::conditions_of(&facts);
        let changed = pod.primary != facts.primary || pod.conditions != conditions;
        let address = [pod.v4 != facts.v4, pod.v6.as_deref() != facts.v6.as_ref()];
        let mut change = PodChange {
            content: address,
            address,
            ..PodChange::default()
        };
        (pod.v4, pod.primary, pod.conditions) = (facts.v4, facts.primary, conditions);
        if address[Family::V6.index()] {
            pod.v6 = facts.v6.map(Box::new);
        }
        let reborn = pod.uid != facts.uid;
        change.reborn = reborn;
        if reborn || rehosted {
            pod.uid = facts.uid;
            change.content = [true; 2];
            change.endpoints = true;
        }
        let unused_ports = self.update_ports(id, facts.ports, &mut change);
        if rehosted {
            let host = self.hosts.enter(&facts.name, facts.host.as_deref());
            let old = std::mem::replace(&mut self.pods[id].host, host);
            self.hosts.leave(old);
        }
        self.update_node(id, facts.node.as_ref(), nodes, &mut change, work);
        let is_relabelled = !self.labels.is(self.pods[id].labels.0, &facts.labels);
        let relabelled = is_relabelled.then(|| self.selecting(id));
        if is_relabelled {
            let old = self.pods[id].labels;
            // Attach before detaching, so that a label set that both share stays.
            let new = self.labels.attach(id, &facts.labels, work);
            self.detach_labels(old, work);
            self.pods[id].labels = new;
        }
        PodUpdate {
            change: (changed || change != PodChange::default()).then_some(change),
            relabelled,
            reborn,
            ready,
            unused_ports,
        }
    }

    /// Removes a pod that no Service has any more. Returns the number of its list of ports if no other pod has that.
    pub(crate) fn remove(
        &mut self,
        id: PodId,
        nodes: &mut dyn NodeDirectory,
        work: &mut Work,
    ) -> Option<u32> {
        self.leave_node(id, nodes, work);
        self.detach_labels(self.pods[id].labels, work);
        let pod = self.pods.remove(id);
        self.hosts.leave(pod.host);
        self.port_sets.release(pod.ports).then_some(pod.ports)
    }

    fn update_ports(&mut self, id: PodId, ports: Vec<ContainerPort>, change: &mut PodChange) -> Option<u32> {
        let old = self.pods[id].ports;
        if **self.port_sets.get(old) == *ports {
            return None;
        }
        self.pods[id].ports = self.port_sets.acquire(ports.into_boxed_slice());
        change.ports = true;
        self.port_sets.release(old).then_some(old)
    }

    fn update_node(
        &mut self,
        id: PodId,
        node: Option<&Arc<str>>,
        nodes: &mut dyn NodeDirectory,
        change: &mut PodChange,
        work: &mut Work,
    ) {
        if self.node_name(&self.pods[id]) != node {
            self.leave_node(id, nodes, work);
            let (node, node_at) = self.nodes.enter(id, node, nodes, work);
            let pod = &mut self.pods[id];
            (pod.node, pod.node_at) = (node, node_at);
            change.content = [true; 2];
            change.endpoints = true;
        }
    }

    fn leave_node(&mut self, id: PodId, nodes: &mut dyn NodeDirectory, work: &mut Work) {
        let (node, at) = (self.pods[id].node, self.pods[id].node_at);
        if let Some(moved) = self.nodes.leave(node, at, nodes, work) {
            self.pods[moved].node_at = at;
        }
    }

    fn detach_labels(&mut self, (set, at): (FullSetId, u32), work: &mut Work) {
        if let Some(moved) = self.labels.detach(set, at) {
            self.pods[moved].labels.1 = at;
        }
        work.pairs_compared += self.labels.take_released();
    }
}
