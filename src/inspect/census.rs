//! Computes what a controller would write if it started now.

use super::desired::{Desired, Values};
use crate::core::body::Request;
use crate::core::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedSet;
use crate::core::namespace::{Kind, NamespaceState, Outcome, PendingLists, Settings};
use crate::core::nodes::NodeTable;
use crate::core::object::{ObjectName, Verb};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Takes in lists as a starting controller does, one kind after the other, in the order of [`Kind::ALL`], and then
/// computes which requests are due. It keeps no more of an object than the controller does.
#[derive(Debug)]
pub(crate) struct Census {
    settings: Settings,
    namespaces: BTreeMap<Arc<str>, NamespaceState>,
    managed: KeyedSet<(Arc<str>, Arc<str>)>,
    pending_lists: PendingLists,
    /// The number of times that each kind's list was restarted.
    epochs: [u8; Kind::ALL.len()],
}

/// A write that is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The Service that the object is published for, or was.
    pub service: Arc<str>,
    /// The object.
    pub object: ObjectName,
    /// The write.
    pub verb: Verb,
    /// What the object should be; none if it is to be deleted.
    pub desired: Option<Desired>,
}

/// The numbers of Services and namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Managed Services, which are those with a selector.
    pub services: usize,
    /// Namespaces with such a Service.
    pub namespaces: usize,
}

impl Census {
    /// Creates an empty census.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            namespaces: BTreeMap::new(),
            managed: KeyedSet::default(),
            pending_lists: PendingLists::all(settings.outputs),
            epochs: [0; Kind::ALL.len()],
        }
    }

    fn state(&mut self, namespace: &Arc<str>) -> &mut NamespaceState {
        // A namespace that is first seen late waits for the lists that are still pending.
        let (settings, holds) = (self.settings, self.pending_lists);
        self.namespaces
            .entry(namespace.clone())
            .or_insert_with(|| NamespaceState::new(namespace.clone(), settings, holds))
    }

    /// Restarts the list of a kind: objects that it has shown so far count only if they are shown again.
    pub(crate) fn again(&mut self, kind: Kind) {
        self.epochs[kind.index()] += 1;
        if kind == Kind::Service {
            self.managed.clear();
        }
    }

    /// Returns the epoch of a kind's current list.
    pub(crate) fn epoch(&self, kind: Kind) -> u8 {
        self.epochs[kind.index()]
    }

    /// Adds a listed pod. The nodes must be known already.
    pub(crate) fn pod(&mut self, namespace: &Arc<str>, facts: PodFacts, nodes: &mut NodeTable) {
        let epoch = self.epoch(Kind::Pod);
        self.state(namespace).apply_pod(facts, &[], epoch, nodes);
    }

    /// Adds a listed Service.
    pub(crate) fn service(&mut self, namespace: &Arc<str>, facts: ServiceFacts) {
        if facts.selector.is_some() {
            self.managed.insert((namespace.clone(), facts.name.clone()));
        }
        let epoch = self.epoch(Kind::Service);
        self.state(namespace).apply_service(facts, epoch);
    }

    /// Adds a listed slice that is managed by this controller.
    pub(crate) fn slice(&mut self, namespace: &Arc<str>, facts: SliceFacts) {
        let epoch = self.epoch(Kind::Slice);
        self.state(namespace).apply_slice(facts, epoch);
    }

    /// Adds a listed Endpoints object.
    pub(crate) fn endpoints(&mut self, namespace: &Arc<str>, facts: EndpointsFacts) {
        let epoch = self.epoch(Kind::Endpoints);
        self.state(namespace).apply_endpoints(facts, epoch);
    }

    /// Completes the list of a kind.
    pub(crate) fn end(&mut self, kind: Kind, nodes: &mut NodeTable) {
        let epoch = self.epoch(kind);
        if kind == Kind::Node {
            nodes.sweep(epoch);
        }
        for state in self.namespaces.values_mut() {
            if kind == Kind::Service {
                state.watch_zones(nodes);
            }
            // Nothing is written here, so no slice can be newer than the list.
            state.end_list(kind, epoch, u64::MAX, nodes);
        }
        self.pending_lists.clear(kind);
    }

    /// Returns the number of managed Services, and of their namespaces.
    pub(crate) fn counts(&self) -> Counts {
        let namespaces: KeyedSet<_> = self.managed.iter().map(|(namespace, _)| namespace).collect();
        Counts {
            services: self.managed.len(),
            namespaces: namespaces.len(),
        }
    }

    /// Calls `each` with every request that is due, namespace by namespace. Where the controller would first ask the
    /// API server whether an object exists, the answer is taken to be what the lists say.
    pub(crate) fn due(self, mut each: impl FnMut(Due)) {
        for (namespace, mut state) in self.namespaces {
            for want in state.plan() {
                let mut next = Some(want);
                while let Some(want) = next.take() {
                    let Some(granted) = state.grant(&want.object, &mut Values) else {
                        break;
                    };
                    let (verb, desired) = match granted.request {
                        Request::Create(desired) => (Verb::Create, Some(desired)),
                        Request::Update(desired) => (Verb::Update, Some(desired)),
                        Request::Delete(_) => (Verb::Delete, None),
                        Request::Probe => {
                            next = state.outcome(&want.object, Outcome::NotFound, None);
                            continue;
                        }
                        Request::Fetch => break,
                    };
                    each(Due {
                        namespace: namespace.clone(),
                        service: want.service,
                        object: want.object,
                        verb,
                        desired,
                    });
                }
            }
        }
    }
}

/// The listed objects of a namespace, or of one Service in it.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Services.
    pub services: Vec<ServiceFacts>,
    /// Pods, at least those that the Services select.
    pub pods: Vec<PodFacts>,
    /// Slices, managed by this controller or not.
    pub slices: Vec<SliceFacts>,
    /// Endpoints objects.
    pub endpoints: Vec<EndpointsFacts>,
}

impl Objects {
    /// Returns the requests that are due for these objects.
    pub fn due(&self, namespace: &Arc<str>, settings: Settings, nodes: &mut NodeTable) -> Vec<Due> {
        let mut census = Census::new(settings);
        for pod in &self.pods {
            census.pod(namespace, pod.clone(), nodes);
        }
        for service in &self.services {
            census.service(namespace, service.clone());
        }
        for slice in self.slices.iter().filter(|slice| slice.is_ours()) {
            census.slice(namespace, slice.clone());
        }
        for endpoints in &self.endpoints {
            census.endpoints(namespace, endpoints.clone());
        }
        // All lists end at once, so that slices are adopted by age, whatever their order in the list.
        for kind in Kind::needed_for(settings.outputs).filter(|kind| *kind != Kind::Node) {
            census.end(kind, nodes);
        }
        // The node table is complete and belongs to the caller, so it is not swept here.
        for state in census.namespaces.values_mut() {
            state.end_list(Kind::Node, 0, u64::MAX, nodes);
        }
        let mut due = Vec::new();
        census.due(|one| due.push(one));
        due
    }
}
