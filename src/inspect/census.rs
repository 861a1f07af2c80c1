//! Finds the Services for which a controller would write something if it started now.

use super::examine::due;
use super::findings::{Counts, Problem};
use super::problems::{annotation_problems, problems, sort_problems};
use crate::core::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedSet;
use crate::core::namespace::{Kind, NamespaceState, OutputEvent, PendingLists, Settings};
use crate::core::nodes::NodeTable;
use crate::core::selector::Selector;
use crate::core::work::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Takes in lists as a starting controller does, one kind after the other, in the order of [`Kind::ALL`], and then
/// computes what is due. It keeps no more of an object than the controller does.
#[derive(Debug)]
pub(crate) struct Census {
    settings: Settings,
    /// The labels of the Services that are asked for; all are, if unset.
    labels: Option<Selector>,
    /// The Services with these labels, if some are given.
    labelled: KeyedSet<(Arc<str>, Arc<str>)>,
    namespaces: BTreeMap<Arc<str>, NamespaceState>,
    managed: KeyedSet<(Arc<str>, Arc<str>)>,
    /// The problems of the annotations of Services.
    annotations: Vec<Problem>,
    /// Services that their annotations would decide, if that had been asked for.
    left_out: KeyedSet<(Arc<str>, Arc<str>)>,
    /// Slices of other managers that name managed Services, by namespace.
    foreign: BTreeMap<Arc<str>, Vec<SliceFacts>>,
    pending_lists: PendingLists,
    /// The number of times that each kind's list was restarted.
    epochs: [u8; Kind::ALL.len()],
}

/// Returns whether a Service's annotation decides what is published for it, where it is cared for.
pub(crate) fn opts_in(service: &ServiceFacts, namespace: &str) -> bool {
    service.selectorless && !service.is_api(namespace) && service.annotated.is_some()
}

impl Census {
    /// Creates an empty census of the Services that have certain labels, or of all.
    pub(crate) fn new(settings: Settings, labels: Option<Selector>) -> Self {
        Self {
            settings,
            labels,
            labelled: KeyedSet::default(),
            namespaces: BTreeMap::new(),
            managed: KeyedSet::default(),
            annotations: Vec::new(),
            left_out: KeyedSet::default(),
            foreign: BTreeMap::new(),
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
            self.labelled.clear();
            self.managed.clear();
            self.annotations.clear();
            self.left_out.clear();
        }
    }

    /// Returns the number of Services whose annotations would decide what is published for them, if that had been asked
    /// for.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Returns whether this Service is one of those.
    pub(crate) fn is_left_out(&self, namespace: &Arc<str>, service: &str) -> bool {
        self.left_out.contains(&(namespace.clone(), Arc::from(service)))
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

    /// Returns whether a Service is one of those that are asked for. If labels are given, one that is gone is not.
    pub(crate) fn picks(&self, namespace: &Arc<str>, service: &str) -> bool {
        self.labels.is_none() || self.labelled.contains(&(namespace.clone(), Arc::from(service)))
    }

    /// Adds a listed Service.
    pub(crate) fn service(&mut self, namespace: &Arc<str>, facts: ServiceFacts) {
        let key = (namespace.clone(), facts.name.clone());
        let labels = self.labels.as_ref();
        let is_asked_for =
            labels.is_none_or(|selector| selector.matches(&facts.labels, &mut Work::default()));
        if is_asked_for {
            if self.labels.is_some() {
                self.labelled.insert(key.clone());
            }
            if opts_in(&facts, namespace) && !self.settings.outputs.custom {
                self.left_out.insert(key.clone());
            }
            let problems = annotation_problems(namespace, &facts, self.settings.outputs);
            self.annotations.extend(problems);
        }
        let facts = facts.resolve(namespace, self.settings.outputs);
        if is_asked_for && facts.is_managed() {
            self.managed.insert(key);
        }
        let epoch = self.epoch(Kind::Service);
        self.state(namespace).apply_service(facts, epoch);
    }

    /// Adds a listed slice that is managed by this controller.
    pub(crate) fn slice(&mut self, namespace: &Arc<str>, facts: SliceFacts) {
        let epoch = self.epoch(Kind::Slice);
        let event = OutputEvent::slice(facts, epoch);
        self.state(namespace).apply_output(event);
    }

    /// Adds a slice of another manager, which counts if it names a managed Service. Services must have been listed.
    pub(crate) fn foreign(&mut self, namespace: Arc<str>, facts: SliceFacts) {
        let service = (namespace, facts.meta.service.clone());
        if self.managed.contains(&service) {
            self.foreign.entry(service.0).or_default().push(facts);
        }
    }

    /// Adds a listed slice that mirrors Endpoints.
    pub(crate) fn mirrored(&mut self, namespace: &Arc<str>, facts: SliceFacts) {
        let epoch = self.epoch(Kind::Mirrored);
        let event = OutputEvent::mirrored(facts, epoch);
        self.state(namespace).apply_output(event);
    }

    /// Adds a listed Endpoints object.
    pub(crate) fn endpoints(&mut self, namespace: &Arc<str>, facts: EndpointsFacts) {
        let epoch = self.epoch(Kind::Endpoints);
        let event = OutputEvent::endpoints(facts, epoch);
        self.state(namespace).apply_output(event);
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
            // An inspection writes nothing, so no slice can be newer than the list.
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

    /// Calls `each` with every Service, and its namespace, for which the controller would write something. Returns the
    /// problems of Services, if they are asked for.
    pub(crate) fn suspects(mut self, asked: bool, mut each: impl FnMut(&Arc<str>, Arc<str>)) -> Vec<Problem> {
        let mut services: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        if asked {
            for (namespace, service) in self.managed {
                services.entry(namespace).or_default().insert(service);
            }
        }
        let mut found = if asked { self.annotations } else { Vec::new() };
        for (namespace, mut state) in self.namespaces {
            let labelled = self.labels.is_some().then_some(&self.labelled);
            let picks = |service: &Arc<str>| {
                labelled.is_none_or(|all| all.contains(&(namespace.clone(), service.clone())))
            };
            due(&mut state, picks, |_, due| each(&namespace, due.service));
            let services = services.remove(&namespace).unwrap_or_default();
            let foreign = self.foreign.remove(&namespace).unwrap_or_default();
            found.extend(problems(&state, services.into_iter(), &foreign));
        }
        sort_problems(&mut found);
        found
    }
}
