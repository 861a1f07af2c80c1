//! The objects of one namespace that endpoints are computed from: its pods, the nodes that they run on, and the selectors
//! of its Services.
//!
//! An event goes in and what it changes comes out as a value: the members of Services that must be visited
//! ([`PodUpdate`], the pods of a node). Nothing here knows how endpoints are placed or published.

mod hosts;
mod nodes;
mod pods;
mod selector_cache;

pub(crate) use pods::{Pod, PodChange, PodUpdate};
pub(crate) use selector_cache::Matching;

use self::hosts::Hosts;
use self::nodes::LocalNodes;
use self::selector_cache::SelectorCache;
use super::compact::intern::Interner;
use super::compact::table::Table;
use super::ids::{PodId, ServiceId};
use super::labels::Labels;
use super::ports::ContainerPort;
use super::selector::Selector;
use super::work::Work;
use smallvec::SmallVec;
use std::sync::Arc;

/// The pods of one namespace, and what selects and hosts them.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pods: Table<PodId, Pod>,
    labels: SelectorCache,
    port_sets: Interner<Box<[ContainerPort]>>,
    nodes: LocalNodes,
    hosts: Hosts,
}

impl Inputs {
    /// Creates the inputs of a namespace of which nothing is known yet. `counts_nodes` says that nodes are read, so that one
    /// may be found not to exist.
    pub(crate) fn new(namespace: Arc<str>, counts_nodes: bool) -> Self {
        Self {
            pods: Table::default(),
            labels: SelectorCache::default(),
            port_sets: Interner::default(),
            nodes: LocalNodes::new(namespace, counts_nodes),
            hosts: Hosts::default(),
        }
    }

    // === pods ===

    /// Returns a pod that is there.
    #[inline]
    pub(crate) fn pod(&self, id: PodId) -> &Pod {
        &self.pods[id]
    }

    /// Returns a pod, if it is still there.
    pub(crate) fn get(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(id)
    }

    /// Returns the number of the pod of a name.
    pub(crate) fn find(&self, name: &str) -> Option<PodId> {
        self.pods.find(name)
    }

    /// Returns the numbers of all pods, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = PodId> {
        self.pods.iter().map(|(id, _)| id)
    }

    /// Returns the number of pods.
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Returns whether there are no pods.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the ports of a pod's containers.
    #[inline]
    pub(crate) fn ports_of(&self, pod: &Pod) -> &[ContainerPort] {
        self.port_sets.get(pod.port_set())
    }

    // === labels and selectors ===

    /// Returns the Services whose selectors match a pod's labels, in the order of their numbers.
    pub(crate) fn selecting(&self, pod: PodId) -> SmallVec<[ServiceId; 4]> {
        self.labels.services(self.pods[pod].label_set())
    }

    /// Returns whether a Service's selector matches a pod's labels.
    pub(crate) fn selects(&self, service: ServiceId, pod: &Pod) -> bool {
        self.labels.selects(service, pod.label_set())
    }

    /// Returns the pods that a Service's selector matches.
    pub(crate) fn selected(&self, service: ServiceId) -> Vec<PodId> {
        self.labels.pods(service)
    }

    /// Indexes a Service's selector. Returns the comparisons that [`Self::step_matching`] has to make first if the selector
    /// is new.
    pub(crate) fn begin_selector(
        &mut self,
        service: ServiceId,
        selector: &Selector,
        work: &mut Work,
    ) -> Option<Matching> {
        self.labels.begin_add(service, selector, work)
    }

    /// Makes the next comparison of labels with selectors. Returns true when all have been made.
    pub(crate) fn step_matching(&mut self, matching: &mut Matching, work: &mut Work) -> bool {
        self.labels.step(matching, work)
    }

    /// Finishes a comparison of a pod's labels, once the pod has been applied.
    pub(crate) fn finish_labels(&mut self, matching: &Matching) {
        self.labels.finish(matching);
    }

    /// Removes a Service's selector.
    pub(crate) fn remove_selector(&mut self, service: ServiceId, work: &mut Work) {
        self.labels.remove(service);
        work.pairs_compared += self.labels.take_released();
    }

    /// Returns each distinct set of labels that pods have, with the names of these pods.
    pub(crate) fn label_sets(&self) -> impl Iterator<Item = (Labels, Vec<&str>)> {
        self.labels.full_sets().map(|(mut pairs, pods)| {
            let pods = pods.iter().filter_map(|&id| self.pods.get(id));
            (Labels::new(&mut pairs), pods.map(Pod::name).collect())
        })
    }

    /// Returns the number of distinct sets of labels, whole and projected onto the selectors that match them.
    pub(crate) fn sizes_of_labels(&self) -> (usize, usize) {
        self.labels.sizes()
    }
}
