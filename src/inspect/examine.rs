//! The one engine of inspections: what would a controller write that started now, and why?

use super::desired::{Due, Values};
use super::findings::{Finding, Problem};
use super::published::{Around, Published};
use crate::core::body::Request;
use crate::core::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::inbox::Change;
use crate::core::namespace::{NamespaceState, Outcome, OutputEvent, PendingLists, Settings, WorkItem};
use crate::core::nodes::NodeTable;
use crate::core::object::Verb;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans, and calls `each` with every write that is due for certain Services. None is carried out. Where the controller
/// would first ask the API server whether an object's Service exists, the answer is taken to be what is known here.
pub(super) fn due(
    core: &mut NamespaceState,
    concerns: impl Fn(&Arc<str>) -> bool,
    mut each: impl FnMut(&NamespaceState, Due),
) {
    for want in core.plan() {
        let mut next = Some(want).filter(|want| concerns(&want.service));
        while let Some(WorkItem { object, service, .. }) = next.take() {
            let Some(built) = core.build_request(&object, &mut Values) else {
                break;
            };
            if matches!(built.request, Request::Probe) {
                next = core.apply_outcome(&object, Outcome::NotFound, None);
                continue;
            }
            core.apply_outcome(&object, Outcome::Throttled, None);
            let (verb, desired) = match built.request {
                Request::Create(desired) => (Verb::Create, Some(desired)),
                Request::Update(desired) => (Verb::Update, Some(desired)),
                Request::Delete(_) => (Verb::Delete, None),
                Request::Fetch | Request::Probe => continue,
            };
            let due = Due {
                service,
                object,
                verb,
                desired,
            };
            each(core, due);
        }
    }
}

/// Takes up what is published for some Services, as a controller that starts does, and returns what it would write for
/// them, by Service. Any layout that it would leave alone is right.
pub(super) fn examine(
    core: &mut NamespaceState,
    published: &mut Published,
    services: &BTreeSet<Arc<str>>,
) -> BTreeMap<Arc<str>, Vec<Finding>> {
    // An object may have gone from one Service to another.
    for name in services {
        core.forget_slices_of(name);
    }
    for name in services {
        let orphaned = published.is_orphaned(name, core.service(name).is_some());
        let slices = published.slices_of(name).filter(|slice| slice.is_written());
        let endpoints = published.endpoints_of(name);
        core.adopt_objects_of(name, slices.cloned().collect(), endpoints.cloned(), orphaned);
        let mirrored = published.slices_of(name).filter(|slice| slice.is_mirrored());
        core.adopt_mirror(name, mirrored.cloned().collect(), endpoints.cloned());
    }
    let mut around: KeyedMap<Arc<str>, Around<'_>> = KeyedMap::default();
    let mut findings: BTreeMap<Arc<str>, Vec<Finding>> = BTreeMap::new();
    let concerns = |service: &Arc<str>| services.contains(service);
    due(core, concerns, |core, due| {
        let around = around.entry(due.service.clone());
        let around = around.or_insert_with(|| Around::new(published, &due.service));
        let found = findings.entry(due.service.clone()).or_default();
        found.push(Finding::of(&due, core, around));
    });
    for found in findings.values_mut() {
        found.sort_by(|a, b| (a.output, &a.name).cmp(&(b.output, &b.name)));
    }
    findings
}

/// The listed objects of a namespace, or of one Service in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    /// Services.
    pub services: Vec<ServiceFacts>,
    /// Pods, at least those that the Services select.
    pub pods: Vec<PodFacts>,
    /// Slices, managed by this controller or not.
    pub slices: Vec<SliceFacts>,
    /// Endpoints objects.
    pub endpoints: Vec<EndpointsFacts>,
    /// The problems of the annotations of the Services.
    pub annotations: Vec<Problem>,
}

impl Objects {
    /// Returns the state of a controller that starts now, and what it would write, by Service.
    pub(crate) fn take_up(
        &self,
        namespace: &Arc<str>,
        settings: Settings,
        nodes: &mut NodeTable,
    ) -> (NamespaceState, BTreeMap<Arc<str>, Vec<Finding>>) {
        let mut core = NamespaceState::new(namespace.clone(), settings, PendingLists::NONE);
        let mut published = Published::default();
        for pod in &self.pods {
            core.apply_pod(pod.clone(), &[], 0, nodes);
        }
        for service in &self.services {
            published.mark(service.name.clone(), false);
            core.apply_service(service.clone(), 0);
        }
        core.watch_zones(nodes);
        for slice in &self.slices {
            published.apply(Change::Output(OutputEvent::slice(slice.clone(), 0)), |_| false);
        }
        for endpoints in &self.endpoints {
            published.apply(
                Change::Output(OutputEvent::endpoints(endpoints.clone(), 0)),
                |_| false,
            );
        }
        let services = published.take_changed();
        let findings = examine(&mut core, &mut published, &services);
        (core, findings)
    }
}
