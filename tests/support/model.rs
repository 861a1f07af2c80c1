//! A namespace as a test sees it, all synchronous: what exists, a server that stores slices, and the state between them.

use endpointd::cluster::codec::{self, Protobuf};
use endpointd::core::address::Family;
use endpointd::core::body::Request;
use endpointd::core::facts::{
    AnnotatedSelector, EndpointsFacts, EndpointsMeta, HostName, NodeFacts, PodFacts, ServiceFacts,
    SliceFacts, SliceMeta, TolerateUnready,
};
use endpointd::core::hints::{HintMode, NodeCapacity};
use endpointd::core::ids::Uid;
use endpointd::core::namespace::ObjectEvent::{Gone, Meta};
use endpointd::core::namespace::{
    BuiltRequest, Kind, NamespaceState, Outcome, OutputEvent, PendingLists, Settings, WorkItem,
};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::{ObjectName, Output};
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{ContainerPort, Protocol, ServicePort, TargetPort};
use endpointd::core::selector::Selector;
use endpointd::core::time::Time;
use endpointd::core::work::TurnBudget;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[path = "balanced.rs"]
mod balanced;
#[path = "model_endpoints.rs"]
mod endpoints;
#[path = "model_mirrored.rs"]
mod mirrored;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "protobuf.rs"]
pub(crate) mod protobuf;
#[path = "model_restart.rs"]
mod restart;
#[path = "model_server.rs"]
mod server;
#[path = "model_slices.rs"]
mod slices;

#[allow(unused_imports)] // Not all tests tamper.
pub(crate) use endpoints::EndpointsTamper;
#[allow(unused_imports)]
pub(crate) use mirrored::{CustomSpec, MirroredTamper};

pub(crate) const NAMESPACE: &str = "ns";

/// A pod in a few numbers.
#[derive(Clone, Debug)]
pub(crate) struct PodSpec {
    pub(crate) name: u8,
    pub(crate) generation: u8,
    pub(crate) labels: u8,
    pub(crate) node: Option<u8>,
    pub(crate) v4: bool,
    pub(crate) v6: bool,
    pub(crate) ready: bool,
    pub(crate) terminating: bool,
    pub(crate) terminal: bool,
    pub(crate) ports: u8,
    pub(crate) host: Option<u8>,
    pub(crate) time: Option<u8>,
}

/// A Service in a few numbers.
#[derive(Clone, Debug)]
pub(crate) struct ServiceSpec {
    pub(crate) name: u8,
    pub(crate) generation: u8,
    pub(crate) selector: Option<u8>,
    pub(crate) ports: u8,
    pub(crate) families: [bool; 2],
    pub(crate) publish_not_ready: bool,
    pub(crate) labels: u8,
    pub(crate) headless: bool,
    pub(crate) hints: HintMode,
    /// True if its type is `ExternalName`.
    pub(crate) external: bool,
    /// The selector in its annotation: one of [`ANNOTATIONS`].
    pub(crate) annotation: Option<u8>,
}

fn uid(kind: &str, name: u8, generation: u8) -> Uid {
    Uid::from(format!("{kind}-{name}-{generation}").as_str())
}

/// Labels `a`, `b` and `c`, each with the value 0 or 1, as the bits have it.
/// Everything is published.
const OUTPUTS: Outputs = Outputs {
    custom: true,
    ..Outputs::ALL
};

/// Selectors of annotations, over the labels of [`label_pairs`], and some that cannot be used.
const ANNOTATIONS: [&str; 9] = [
    "a=0",
    "a in (0,1),b!=1",
    "!b",
    "a,c notin (0)",
    "b in (1),!d",
    "a=0,c<1",
    "a in 0",
    "",
    "a notin (0)",
];

fn label_pairs(bits: u8) -> Vec<(String, String)> {
    (0..3)
        .map(|i| (["a", "b", "c"][i].to_owned(), (bits >> i & 1).to_string()))
        .collect()
}

impl PodSpec {
    /// A ready one on a known node, with all labels 0.
    pub(crate) fn plain() -> Self {
        Self {
            name: 0,
            generation: 0,
            labels: 0,
            node: Some(0),
            v4: true,
            v6: false,
            ready: true,
            terminating: false,
            terminal: false,
            ports: 0,
            host: None,
            time: None,
        }
    }

    pub(crate) fn facts(&self) -> PodFacts {
        let number = |n: u8| u16::from(n) + 8000;
        // Ports "http" and "dns", here and there under another number.
        let port = |name: &str, number| ContainerPort {
            name: name.into(),
            protocol: Protocol::Tcp,
            number,
        };
        let ports = match self.ports % 4 {
            0 => vec![],
            1 => vec![port("http", number(1))],
            2 => vec![port("http", number(2)), port("dns", number(3))],
            _ => vec![port("dns", number(3))],
        };
        PodFacts {
            name: format!("pod-{}", self.name).into(),
            uid: uid("pod", self.name, self.generation),
            labels: label_pairs(self.labels).into_iter().collect(),
            node: self.node.map(|node| format!("node-{node}").into()),
            v4: self.v4.then(|| [10, 0, self.generation, self.name].into()),
            v6: self.v6.then(|| {
                [
                    0xfd00,
                    0,
                    0,
                    0,
                    0,
                    0,
                    u16::from(self.generation),
                    u16::from(self.name),
                ]
                .into()
            }),
            primary: self.v4.then_some(Family::V4).or(self.v6.then_some(Family::V6)),
            ports,
            host: self.host.map(|service| {
                Box::new(HostName {
                    hostname: "h".into(),
                    subdomain: format!("svc-{service}").into(),
                })
            }),
            ready: self.ready,
            terminating: self.terminating,
            terminal: self.terminal,
            ready_time: self.time.map(|time| Time::from_seconds(i64::from(time))),
        }
    }
}

impl ServiceSpec {
    /// One that selects the plain pod.
    pub(crate) fn plain() -> Self {
        Self {
            name: 0,
            generation: 0,
            selector: Some(0),
            ports: 0,
            families: [true, false],
            publish_not_ready: false,
            labels: 0,
            headless: false,
            hints: HintMode::None,
            external: false,
            annotation: None,
        }
    }

    pub(crate) fn facts(&self) -> ServiceFacts {
        let port = |name: &str, target| ServicePort {
            name: name.into(),
            protocol: Protocol::Tcp,
            target,
            app_protocol: None,
        };
        let named = |name: &str| TargetPort::Name(name.into());
        let ports = match self.ports % 4 {
            0 => vec![port("", TargetPort::Number(80))],
            1 => vec![port("http", named("http"))],
            2 => vec![port("http", named("http")), port("dns", named("dns"))],
            _ => vec![],
        };
        let labels: Vec<_> = label_pairs(self.labels);
        ServiceFacts {
            name: format!("svc-{}", self.name).into(),
            uid: uid("svc", self.name, self.generation),
            created: Some(Time::from_seconds(1000)),
            deleting: false,
            foreground: false,
            labels: labels.into_iter().collect(),
            // One pair, or two, of the label values that pods carry.
            external: self.external,
            annotated: self.annotation.map(|choice| {
                let text = ANNOTATIONS[usize::from(choice) % ANNOTATIONS.len()];
                Box::new(AnnotatedSelector::from(text))
            }),
            unknown_annotations: None,
            custom: false,
            selectorless: self.selector.is_none() && !self.external,
            selector: self.selector.filter(|_| !self.external).and_then(|bits| {
                let pairs = label_pairs(bits).into_iter().skip(usize::from(bits >> 3 & 1));
                Selector::new(pairs.take(1 + usize::from(bits >> 4 & 1)).collect())
            }),
            headless: self.headless,
            no_cluster_ip: self.headless,
            families: if self.families == [false; 2] {
                [true, false]
            } else {
                self.families
            },
            // A Service without the field, from the time before it: each pod's own first family.
            endpoints_family: match self.families {
                [false, false] => None,
                [true, _] => Some(Family::V4),
                [false, true] => Some(Family::V6),
            },
            ports: ports.into(),
            publish_not_ready: self.publish_not_ready,
            tolerate_unready: TolerateUnready::Unset,
            hints: self.hints,
        }
    }
}

#[derive(Clone)]
/// The state under test, the cluster around it, and what is on its way between them.
pub(crate) struct Model {
    pub(crate) state: NamespaceState,
    pub(crate) nodes: NodeTable,
    pub(crate) limit: usize,
    pub(crate) pods: BTreeMap<Box<str>, PodFacts>,
    pub(crate) services: BTreeMap<Arc<str>, ServiceFacts>,
    pub(crate) zones: BTreeMap<Arc<str>, NodeFacts>,
    pub(crate) store: BTreeMap<Box<str>, SliceFacts>,
    pub(crate) endpoints: BTreeMap<Arc<str>, EndpointsFacts>,
    /// Slices that mirror Endpoints.
    pub(crate) mirrored: BTreeMap<Box<str>, SliceFacts>,
    /// The UIDs of Endpoints that users have made.
    pub(crate) custom: BTreeSet<String>,
    /// The UIDs of Endpoints that a request of an earlier term may have made when their Service had gone.
    pub(crate) orphans: BTreeSet<String>,
    pub(crate) version: u64,
    /// How many UIDs have been given out.
    uids: u64,
    /// The server's backup: slices, Endpoints, mirrored slices, and their version.
    backup: Option<Backup>,
    /// The server has gone back to its backup, and the state does not know it yet.
    pub(crate) restored: bool,
    /// Events that the watch of slices has yet to show.
    pub(crate) watch: VecDeque<WatchEvent>,
    pub(crate) pending: Vec<ObjectName>,
    pub(crate) in_flight: BTreeMap<ObjectName, Request>,
    /// For each request in flight, the endpoints that were publishable when it was built, and that no other slice showed.
    kept: BTreeMap<ObjectName, BTreeSet<slices::Shown>>,
    /// Endpoints that were to be removed at some time since a write last showed them: the removal may be under way.
    lapsed: BTreeSet<slices::Shown>,
    /// Requests that were in flight when the state began to stand by.
    pub(crate) late: BTreeMap<ObjectName, Request>,
    pub(crate) stands_by: bool,
    /// The state has stood by at some time.
    pub(crate) stood_by: bool,
    pub(crate) writes: u64,
    /// Requests granted: every other one is encoded in protobuf.
    pub(crate) grants: u64,
    pub(crate) epoch: u8,
}

type Backup = (
    BTreeMap<Box<str>, SliceFacts>,
    BTreeMap<Arc<str>, EndpointsFacts>,
    BTreeMap<Box<str>, SliceFacts>,
    u64,
);

#[derive(Clone, Debug)]
pub(crate) enum WatchEvent {
    Seen(SliceMeta),
    Gone(Box<str>, u64),
    Endpoints(EndpointsMeta),
    EndpointsGone(Arc<str>, u64),
    Mirrored(SliceMeta),
    MirroredGone(Box<str>, u64),
}

impl WatchEvent {
    /// The event as the state gets it, after the list of each kind that `epoch` returns.
    pub(crate) fn in_list(self, epoch: impl Fn(Kind) -> u8) -> OutputEvent {
        match self {
            Self::Seen(meta) => OutputEvent::Slice(Meta(meta, epoch(Kind::Slice))),
            Self::Gone(name, version) => OutputEvent::Slice(Gone(name, version)),
            Self::Endpoints(meta) => OutputEvent::Endpoints(Meta(meta, epoch(Kind::Endpoints))),
            Self::EndpointsGone(name, version) => OutputEvent::Endpoints(Gone((*name).into(), version)),
            Self::Mirrored(meta) => OutputEvent::Mirrored(Meta(meta, epoch(Kind::Mirrored))),
            Self::MirroredGone(name, version) => OutputEvent::Mirrored(Gone(name, version)),
        }
    }
}

/// The kinds that are written.
pub(crate) const WRITTEN: [Kind; 3] = [Kind::Slice, Kind::Endpoints, Kind::Mirrored];

/// How the server treats a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Carried,
    /// Carried out, but the answer is lost.
    CarriedUnanswered,
    /// Not carried out, and no answer.
    Lost,
    /// Not carried out: too many requests.
    Throttled,
    /// Not carried out: the server takes no such object.
    Rejected,
    /// Not carried out: the server takes none as large.
    TooLarge,
    /// Not carried out, and said to be in conflict with what there is.
    Disputed,
    /// Carried out, and said to be in conflict with what there is.
    CarriedDisputed,
}

impl Model {
    /// Creates a model in which nothing exists, and everything has been listed.
    pub(crate) fn new(limit: usize) -> Self {
        Self::with_holds(limit, PendingLists::NONE)
    }

    pub(crate) fn with_holds(limit: usize, pending_lists: PendingLists) -> Self {
        let settings = Settings {
            max_endpoints: limit,
            seed: 7,
            outputs: OUTPUTS,
            ..Settings::default()
        };
        Self {
            state: NamespaceState::new(NAMESPACE.into(), settings, pending_lists),
            nodes: NodeTable::default(),
            limit,
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            zones: BTreeMap::new(),
            store: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            mirrored: BTreeMap::new(),
            custom: BTreeSet::new(),
            orphans: BTreeSet::new(),
            version: 100,
            uids: 0,
            backup: None,
            restored: false,
            watch: VecDeque::new(),
            pending: Vec::new(),
            in_flight: BTreeMap::new(),
            kept: BTreeMap::new(),
            lapsed: BTreeSet::new(),
            late: BTreeMap::new(),
            stands_by: false,
            stood_by: false,
            writes: 0,
            grants: 0,
            epoch: 0,
        }
    }

    pub(crate) fn pod(&mut self, facts: PodFacts) {
        if facts.terminal {
            // Terminal pods are not kept; a list would leave them out.
            self.pods.remove(&facts.name);
        } else {
            self.pods.insert(facts.name.clone(), facts.clone());
        }
        self.state.apply_pod(facts, &[], self.epoch, &mut self.nodes);
        self.note_lapsed();
    }

    fn note_lapsed(&mut self) {
        let publishable = self.publishable();
        let shown = self.shown(None).into_iter();
        self.lapsed
            .extend(shown.filter(|endpoint| !publishable.contains(endpoint)));
    }

    pub(crate) fn pod_gone(&mut self, name: &str) {
        self.pods.remove(name);
        self.state.remove_pod(name, &mut self.nodes);
        self.note_lapsed();
    }

    pub(crate) fn service(&mut self, facts: ServiceFacts) {
        let resolved = facts.clone().resolve(NAMESPACE, OUTPUTS);
        self.services.insert(facts.name.clone(), resolved);
        self.state.apply_service(facts, self.epoch);
        self.note_lapsed();
    }

    pub(crate) fn service_gone(&mut self, name: &str) {
        self.services.remove(name);
        self.state.begin_removal(name);
        self.finish_passes();
    }

    fn finish_passes(&mut self) {
        assert!(self.state.step_passes(&mut TurnBudget::unlimited()));
    }

    pub(crate) fn node(&mut self, name: u8, zone: Option<u8>) {
        let (name, facts): (Arc<str>, _) = (
            format!("node-{name}").into(),
            NodeFacts {
                zone: zone.map(|zone| format!("z{zone}").into()),
            },
        );
        self.node_facts(&name, facts);
    }

    fn node_facts(&mut self, name: &Arc<str>, facts: NodeFacts) {
        self.zones.insert(name.clone(), facts.clone());
        let capacity = NodeCapacity {
            ready: true,
            excluded: false,
            zone: facts.zone.clone(),
            // The last node has twice the CPUs of the others.
            cpu: Some(if name.ends_with('2') { 8000 } else { 4000 }),
        };
        self.nodes.apply_capacity(name, &capacity);
        if let Some(change) = self.nodes.apply(name, facts, self.epoch) {
            self.state.begin_node(change.view);
            self.finish_passes();
        }
        self.zones_changed();
    }

    pub(crate) fn node_gone(&mut self, name: u8) {
        let name = format!("node-{name}");
        self.zones.remove(name.as_str());
        if let Some(change) = self.nodes.remove(&name) {
            self.state.begin_node(change.view);
            self.finish_passes();
        }
        self.zones_changed();
    }

    fn zones_changed(&mut self) {
        if let Some((view, namespaces)) = self.nodes.take_zone_change()
            && !namespaces.is_empty()
        {
            self.state.begin_zones(view);
            self.finish_passes();
        }
    }

    /// Plans, and adds the planned objects to the pending ones. Returns the plan.
    pub(crate) fn plan(&mut self) -> Vec<WorkItem> {
        self.state.watch_zones(&mut self.nodes);
        let items = self.state.plan();
        for item in &items {
            self.enqueue(item.object.clone());
        }
        items
    }

    pub(crate) fn enqueue(&mut self, name: ObjectName) {
        if !self.pending.contains(&name) {
            self.pending.push(name);
        }
    }

    /// Makes the state stand by from now on. Requests in flight are answered some time.
    pub(crate) fn stand_by(&mut self) {
        (self.stands_by, self.stood_by) = (true, true);
        self.pending.clear();
        self.late.append(&mut self.in_flight);
        self.kept.clear();
        for kind in WRITTEN {
            self.state.forget(kind);
        }
        assert_eq!(self.plan(), [], "who stands by plans nothing");
    }

    /// Grants the pending object at a place.
    pub(crate) fn grant(&mut self, at: usize) -> Option<Request> {
        let name = self.pending.remove(at);
        if self.late.contains_key(&name) {
            // As the writer has it: what is on its way is answered first.
            self.pending.push(name);
            return None;
        }
        let built = self.state.build_request(&name, &mut Protobuf);
        if self.in_flight.contains_key(&name) {
            assert_eq!(built, None, "{name:?}: a second request while one is in flight");
        }
        let BuiltRequest { request, .. } = built?;
        let elsewhere = self.shown(Some(&name.name));
        let kept = self
            .publishable()
            .into_iter()
            .filter(|endpoint| !elsewhere.contains(endpoint) && !self.lapsed.contains(endpoint));
        self.kept.insert(name.clone(), kept.collect());
        self.in_flight.insert(name, request.clone());
        Some(request)
    }

    /// The server gets one of the requests in flight, and perhaps answers.
    pub(crate) fn answer(&mut self, name: &ObjectName, fate: Fate) {
        let late = self.late.contains_key(name);
        let request = self.in_flight.remove(name).or_else(|| self.late.remove(name));
        let request = request.expect("only what is in flight is answered");
        let outcome = match fate {
            Fate::Carried => self.carry_out(name, &request),
            Fate::CarriedUnanswered => {
                self.carry_out(name, &request);
                Outcome::Unknown
            }
            Fate::Lost => Outcome::Unknown,
            Fate::Throttled => Outcome::Throttled,
            Fate::Rejected => Outcome::Rejected,
            Fate::TooLarge => Outcome::TooLarge { bytes: 5000 },
            Fate::Disputed => Outcome::Conflict,
            Fate::CarriedDisputed => {
                self.carry_out(name, &request);
                Outcome::Conflict
            }
        };
        if late
            && !self.services.contains_key(&name.name)
            && let Some(made) = self.endpoints.get(&name.name)
        {
            self.orphans.insert(made.meta.uid.to_string());
        }
        if let Some(item) = self.state.apply_outcome(name, outcome, None) {
            self.enqueue(item.object);
        }
    }

    pub(crate) fn carry_out(&mut self, object: &ObjectName, request: &Request) -> Outcome {
        match object.output {
            Output::Slice => {
                let before = self.shown(None);
                let outcome = self.carry_out_slice(&object.name, request);
                self.assert_kept(object, &before);
                if matches!(outcome, Outcome::Written(_)) {
                    let (shown, elsewhere) = (self.shown(None), self.shown(Some(&object.name)));
                    let publishable = self.publishable();
                    self.lapsed.retain(|endpoint| {
                        elsewhere.contains(endpoint)
                            || (shown.contains(endpoint) && !publishable.contains(endpoint))
                    });
                }
                outcome
            }
            Output::Endpoints => self.carry_out_endpoints(&object.name, request),
            Output::Mirrored => self.carry_out_mirrored(&object.name, request),
        }
    }

    /// Checks that a write of a slice has unpublished no endpoint that was publishable when it was built, and is now.
    fn assert_kept(&self, object: &ObjectName, before: &BTreeSet<slices::Shown>) {
        let (after, now) = (self.shown(None), self.publishable());
        let kept = self.kept.get(object).into_iter().flatten();
        let mut lost = kept.filter(|endpoint| before.contains(endpoint) && !after.contains(endpoint));
        let lost = lost.find(|endpoint| now.contains(endpoint));
        assert_eq!(lost, None, "{object:?} unpublishes an endpoint that stays");
    }

    /// The watches of slices and Endpoints have noticed, by their lists, that versions have gone back.
    pub(crate) fn forget(&mut self) {
        self.stood_by = true;
        self.late.append(&mut self.in_flight);
        self.kept.clear();
        for kind in WRITTEN {
            self.state.forget(kind);
        }
    }

    /// The watch shows its next event.
    pub(crate) fn watch_one(&mut self) {
        if let Some(event) = self.watch.pop_front() {
            self.state.apply_output(event.in_list(|_| self.epoch));
        }
    }

    /// The time comes for writes that have waited a moment, of one Service.
    pub(crate) fn let_wait_end(&mut self) {
        if let Some(at) = self.state.next_look_at_deferral() {
            self.state.look_at_deferral(at);
        }
    }

    /// Lets everything that is due happen, until nothing is.
    pub(crate) fn converge(&mut self) {
        for _ in 0..10_000 {
            while !self.watch.is_empty() {
                self.watch_one();
            }
            self.plan();
            let mut out = self.in_flight.keys().chain(self.late.keys());
            if let Some(name) = out.next().cloned() {
                self.answer(&name, Fate::Carried);
            } else if !self.pending.is_empty() {
                self.grant(0);
            } else if let Some(at) = self.state.next_look_at_handover() {
                self.state.look_at_handover(at);
                self.state.step_passes(&mut TurnBudget::unlimited());
            } else if self.state.next_look_at_deferral().is_some() {
                self.let_wait_end();
            } else if self.watch.is_empty() {
                return;
            }
        }
        panic!("it never comes to rest");
    }
}

/// True if a slice bears our managed-by label.
pub(crate) fn is_ours(slice: &SliceFacts) -> bool {
    slice.is_written()
}
