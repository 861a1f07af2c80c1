//! Objects and a namespace to hold them, for benchmarks and for the tests that count what a change costs.

use endpointd::cluster::codec::Protobuf;
use endpointd::core::address::Family;
use endpointd::core::body::Request;
use endpointd::core::facts::{AnnotatedSelector, NodeFacts, PodFacts, ServiceFacts, TolerateUnready};
use endpointd::core::hints::HintMode;
use endpointd::core::ids::Uid;
use endpointd::core::labels::Labels;
use endpointd::core::namespace::{NamespaceState, Outcome, PendingLists, Settings, WorkItem};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::{ObjectName, Remote};
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{Protocol, ServicePort, TargetPort};
use endpointd::core::selector::Selector;
use endpointd::core::work::TurnBudget;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// `EndpointSlices` and nothing else.
pub(crate) const SLICES: Outputs = Outputs {
    endpoints: false,
    slices: true,
    mirrored: false,
    custom: false,
};
/// Endpoints and nothing else.
/// Slices of Services whose selector is an annotation.
pub(crate) const CUSTOM: Outputs = Outputs {
    custom: true,
    ..Outputs::NONE
};
pub(crate) const ENDPOINTS: Outputs = Outputs {
    endpoints: true,
    slices: false,
    mirrored: false,
    custom: false,
};

/// A port of a Service whose target has a name.
pub(crate) fn named_port(number: u16) -> ServicePort {
    ServicePort {
        name: format!("port-{number}").into(),
        protocol: Protocol::Tcp,
        target: TargetPort::Name(format!("port-{number}").into()),
        app_protocol: None,
    }
}

/// A headless Service with one port.
pub(crate) fn service(name: &str, selector: &[(&str, &str)]) -> ServiceFacts {
    ServiceFacts {
        external: false,
        annotated: None,
        unknown_annotations: None,
        custom: false,
        selectorless: false,
        name: name.into(),
        uid: Uid::from(name),
        created: None,
        deleting: false,
        foreground: false,
        labels: Labels::default(),
        selector: Selector::new(selector.iter().copied().collect()),
        headless: true,
        no_cluster_ip: true,
        families: [true, false],
        endpoints_family: Some(Family::V4),
        ports: [ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            target: TargetPort::Number(8080),
            app_protocol: None,
        }]
        .into(),
        publish_not_ready: false,
        tolerate_unready: TolerateUnready::Unset,
        hints: HintMode::None,
    }
}

/// The Service of an app. All have one pair in common, as the Services of one chart do.
pub(crate) fn app_service(app: u32) -> ServiceFacts {
    let name = format!("app-{app}");
    service(&name, &[("app", &name), ("chart", "web")])
}

/// The Service of an app whose selector is an annotation with sets and existence.
pub(crate) fn annotated_service(app: u32) -> ServiceFacts {
    let selector = format!("app in (app-{app},old-{app}),chart,tier notin (canary,test),!legacy");
    ServiceFacts {
        selector: None,
        selectorless: true,
        annotated: Some(Box::new(AnnotatedSelector::from(&*selector))),
        ..service(&format!("app-{app}"), &[])
    }
}

/// A pod on the node `node-0`. Its number makes its name, UID and address.
pub(crate) fn pod(number: u32, labels: &[(&str, &str)], ready: bool) -> PodFacts {
    named_pod(format!("pod-{number:06}").into(), number, labels, ready)
}

/// A pod of an app's `ReplicaSet`, on one of some nodes.
pub(crate) fn app_pod(app: u32, number: u32, nodes: u32, ready: bool) -> PodFacts {
    const HASH: &str = "7c5d8bd957";
    let name = format!("app-{app}-{HASH}-{}", suffix(number));
    let app = format!("app-{app}");
    let labels = [("app", &*app), ("chart", "web"), ("pod-template-hash", HASH)];
    PodFacts {
        node: Some(node_name(number % nodes)),
        ..named_pod(name.into(), number, &labels, ready)
    }
}

/// Five letters, as the server puts them at the end of a pod's name.
pub(crate) fn suffix(number: u32) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = number as usize;
    (0..5)
        .map(|_| {
            let letter = LETTERS[rest % LETTERS.len()];
            rest /= LETTERS.len();
            char::from(letter)
        })
        .collect()
}

fn named_pod(name: Box<str>, number: u32, labels: &[(&str, &str)], ready: bool) -> PodFacts {
    PodFacts {
        name,
        uid: Uid::from(format!("{number:08x}-0000-4000-8000-000000000000").as_str()),
        labels: labels.iter().copied().collect(),
        node: Some(node_name(0)),
        v4: Some(Ipv4Addr::from(0x0a00_0000 + number)),
        v6: None,
        primary: Some(Family::V4),
        ports: Vec::new(),
        host: None,
        ready,
        terminating: false,
        terminal: false,
        ready_time: None,
    }
}

/// The name of the nth node.
pub(crate) fn node_name(number: u32) -> Arc<str> {
    format!("node-{number}").into()
}

/// The zone of the nth node: there are three.
pub(crate) fn zone(number: u32) -> NodeFacts {
    NodeFacts {
        zone: Some(format!("zone-{}", number % 3).into()),
    }
}

/// A namespace, the nodes, and a server that accepts every write.
pub(crate) struct World {
    pub(crate) state: NamespaceState,
    pub(crate) nodes: NodeTable,
    version: u64,
}

impl World {
    /// Creates a world of nothing but nodes.
    pub(crate) fn new(outputs: Outputs, nodes: u32) -> Self {
        Self::listing(outputs, nodes, PendingLists::NONE)
    }

    /// Creates a world of nothing but nodes, for which some lists are still to come.
    pub(crate) fn listing(outputs: Outputs, nodes: u32, pending_lists: PendingLists) -> Self {
        let mut table = NodeTable::default();
        for number in 0..nodes {
            table.apply(&node_name(number), zone(number), 0);
        }
        Self::beside("ns", outputs, table, pending_lists)
    }

    /// A namespace, with the nodes that others may know already.
    pub(crate) fn beside(
        namespace: &str,
        outputs: Outputs,
        nodes: NodeTable,
        pending_lists: PendingLists,
    ) -> Self {
        let settings = Settings {
            outputs,
            seed: 1,
            ..Settings::default()
        };
        Self {
            state: NamespaceState::new(namespace.into(), settings, pending_lists),
            nodes,
            version: 0,
        }
    }

    /// One Service of `pods` pods on `nodes` nodes beside `others` others, everything written.
    pub(crate) fn of_one_large(outputs: Outputs, pods: u32, others: u32, nodes: u32) -> Self {
        let mut world = Self::new(outputs, nodes);
        let service = if outputs.custom {
            annotated_service
        } else {
            app_service
        };
        for app in 0..=others {
            world.state.apply_service(service(app), 0);
        }
        for number in 0..pods {
            world.apply(app_pod(0, number, nodes, true));
        }
        world.settle();
        world
    }

    /// A pod's event.
    pub(crate) fn apply(&mut self, pod: PodFacts) {
        self.state.apply_pod(pod, &[], 0, &mut self.nodes);
    }

    /// Has an object's request built and accepted. Returns the body's size, or `None` if nothing was due.
    pub(crate) fn write(&mut self, object: &ObjectName) -> Option<usize> {
        let built = self.state.build_request(object, &mut Protobuf)?;
        let (size, outcome) = match built.request {
            Request::Create(body) | Request::Update(body) => {
                self.version += 1;
                let remote = Remote {
                    uid: Uid::Uuid([7; 16]),
                    version: self.version,
                };
                (body.len(), Outcome::Written(remote))
            }
            Request::Delete(_) => (0, Outcome::Deleted(None)),
            Request::Fetch | Request::Probe => panic!("all that the server has, we wrote"),
        };
        let again = self.state.apply_outcome(object, outcome, None);
        assert_eq!(again, None, "an accepted write leaves nothing due");
        Some(size)
    }

    /// Writes all pending objects. Returns how many requests there were, and the bytes of their bodies.
    pub(crate) fn write_all(&mut self, items: &[WorkItem]) -> (usize, usize) {
        let sizes = items.iter().filter_map(|item| self.write(&item.object));
        sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    }

    /// Removes a Service.
    pub(crate) fn remove_service(&mut self, name: &str) {
        self.state.begin_removal(name);
        assert!(self.state.step_passes(&mut TurnBudget::unlimited()));
    }

    /// Plans and writes until nothing is due any more. Returns how many requests there were.
    pub(crate) fn write_all_planned(&mut self) -> usize {
        let mut writes = 0;
        loop {
            let items = self.state.plan();
            if items.is_empty() {
                return writes;
            }
            writes += self.write_all(&items).0;
        }
    }

    /// Plans and writes until nothing is due any more, not even what waits a moment. Returns how many requests there were.
    pub(crate) fn settle(&mut self) -> usize {
        let mut writes = self.write_all_planned();
        while let Some(at) = self.state.next_look_at_deferral() {
            self.state.look_at_deferral(at);
            writes += self.write_all_planned();
        }
        writes
    }
}
