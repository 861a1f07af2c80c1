//! What a controller that starts now would send.

use crate::core::body::Request;
use crate::core::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedSet;
use crate::core::namespace::{Kind, NamespaceState, Outcome, PendingLists, Settings};
use crate::core::nodes::NodeTable;
use crate::core::object::ObjectName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Takes in lists as a controller does at its start, one kind after the other, in the order of [`Kind::ALL`];
/// then says which requests are due. It holds no more of an object than the controller does.
#[derive(Debug)]
pub(crate) struct Census {
    settings: Settings,
    namespaces: BTreeMap<Arc<str>, NamespaceState>,
    managed: KeyedSet<(Arc<str>, Arc<str>)>,
    pending_lists: PendingLists,
    /// How often the list of a kind began anew.
    epochs: [u8; Kind::ALL.len()],
}

/// A request that is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The Service that the object is published for, or was.
    pub service: Arc<str>,
    /// The object.
    pub object: ObjectName,
    /// What would be sent.
    pub request: Request,
}

/// How many there are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Services whose objects are kept right: those with a selector.
    pub services: usize,
    /// Namespaces with such a Service.
    pub namespaces: usize,
}

impl Census {
    /// Of a cluster of which nothing is known yet.
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
        // A state that is made late waits for what is still to come.
        let (settings, holds) = (self.settings, self.pending_lists);
        self.namespaces
            .entry(namespace.clone())
            .or_insert_with(|| NamespaceState::new(namespace.clone(), settings, holds))
    }

    /// The list of a kind begins anew: what it showed until now counts only if it is shown again.
    pub(crate) fn again(&mut self, kind: Kind) {
        self.epochs[kind.index()] += 1;
        if kind == Kind::Service {
            self.managed.clear();
        }
    }

    /// The list of a kind that a node is part of, for the node table.
    pub(crate) fn epoch(&self, kind: Kind) -> u8 {
        self.epochs[kind.index()]
    }

    /// A listed pod. The nodes are known already.
    pub(crate) fn pod(&mut self, namespace: &Arc<str>, facts: PodFacts, nodes: &mut NodeTable) {
        let epoch = self.epoch(Kind::Pod);
        self.state(namespace).apply_pod(facts, &[], epoch, nodes);
    }

    /// A listed Service.
    pub(crate) fn service(&mut self, namespace: &Arc<str>, facts: ServiceFacts) {
        if facts.selector.is_some() {
            self.managed.insert((namespace.clone(), facts.name.clone()));
        }
        let epoch = self.epoch(Kind::Service);
        self.state(namespace).apply_service(facts, epoch);
    }

    /// A listed slice of ours.
    pub(crate) fn slice(&mut self, namespace: &Arc<str>, facts: SliceFacts) {
        let epoch = self.epoch(Kind::Slice);
        self.state(namespace).apply_slice(facts, epoch);
    }

    /// A listed Endpoints object.
    pub(crate) fn endpoints(&mut self, namespace: &Arc<str>, facts: EndpointsFacts) {
        let epoch = self.epoch(Kind::Endpoints);
        self.state(namespace).apply_endpoints(facts, epoch);
    }

    /// The list of a kind is whole.
    pub(crate) fn end(&mut self, kind: Kind, nodes: &mut NodeTable) {
        let epoch = self.epoch(kind);
        if kind == Kind::Node {
            nodes.sweep(epoch);
        }
        for state in self.namespaces.values_mut() {
            if kind == Kind::Service {
                state.watch_zones(nodes);
            }
            // Nothing was written after the list that a watch would have shown.
            state.end_list(kind, epoch, u64::MAX, nodes);
        }
        self.pending_lists.clear(kind);
    }

    /// How many Services were listed.
    pub(crate) fn counts(&self) -> Counts {
        let namespaces: KeyedSet<_> = self.managed.iter().map(|(namespace, _)| namespace).collect();
        Counts {
            services: self.managed.len(),
            namespaces: namespaces.len(),
        }
    }

    /// Says what is due, namespace by namespace. What the controller would only ask the server first is taken
    /// for answered as the lists say.
    pub(crate) fn due(self, mut each: impl FnMut(Due)) {
        for (namespace, mut state) in self.namespaces {
            for want in state.plan() {
                let mut next = Some(want);
                while let Some(want) = next.take() {
                    let Some(granted) = state.grant(&want.object) else {
                        break;
                    };
                    if granted.request == Request::Probe {
                        next = state.outcome(&want.object, Outcome::NotFound, None);
                        continue;
                    }
                    each(Due {
                        namespace: namespace.clone(),
                        service: want.service,
                        object: want.object,
                        request: granted.request,
                    });
                }
            }
        }
    }
}

/// All that matters of a namespace, or of one Service in it: facts as they were listed.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Services.
    pub services: Vec<ServiceFacts>,
    /// Pods; those that the Services select at least.
    pub pods: Vec<PodFacts>,
    /// Slices, whoever manages them.
    pub slices: Vec<SliceFacts>,
    /// Endpoints.
    pub endpoints: Vec<EndpointsFacts>,
}

impl Objects {
    /// What is due of these.
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
        // All at once: then slices are taken over in the order of their age, whatever that of the list is.
        for kind in Kind::needed_for(settings.outputs).filter(|kind| *kind != Kind::Node) {
            census.end(kind, nodes);
        }
        // The node table is whole, and not this census's to sweep.
        for state in census.namespaces.values_mut() {
            state.end_list(Kind::Node, 0, u64::MAX, nodes);
        }
        let mut due = Vec::new();
        census.due(|one| due.push(one));
        due
    }
}
