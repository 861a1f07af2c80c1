//! What a change costs, counted instead of timed.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

use endpointd::core::address::Family;
use endpointd::core::facts::TolerateUnready;
use endpointd::core::facts::{NodeFacts, PodFacts, ServiceFacts};
use endpointd::core::hints::HintMode;
use endpointd::core::ids::Uid;
use endpointd::core::labels::Labels;
use endpointd::core::namespace::{Holds, NamespaceState, Outcome, Settings};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::Remote;
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{Protocol, ServicePort, TargetPort};
use endpointd::core::selector::Selector;
use endpointd::core::work::Work;

fn service(name: &str, selector: &[(&str, &str)]) -> ServiceFacts {
    ServiceFacts {
        name: name.into(),
        uid: Uid::from(name),
        created: None,
        deleting: false,
        labels: Labels::default(),
        selector: Selector::new(selector.iter().copied().collect()),
        headless: true,
        no_cluster_ip: true,
        families: [true, false],
        endpoints_family: Some(Family::V4),
        ports: vec![ServicePort {
            name: "".into(),
            protocol: Protocol::Tcp,
            target: TargetPort::Number(80),
            app_protocol: None,
        }],
        publish_not_ready: false,
        tolerate_unready: TolerateUnready::Unset,
        hints: HintMode::None,
    }
}

fn pod(number: u32, labels: &[(&str, &str)], ready: bool) -> PodFacts {
    PodFacts {
        name: format!("pod-{number}").into(),
        uid: Uid::from(format!("uid-{number}").as_str()),
        labels: labels.iter().copied().collect(),
        node: Some("node".into()),
        v4: Some(std::net::Ipv4Addr::from(0x0a00_0000 + number)),
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

struct Bench {
    state: NamespaceState,
    nodes: NodeTable,
}

impl Bench {
    fn new() -> Self {
        let mut nodes = NodeTable::default();
        nodes.apply(
            &"node".into(),
            NodeFacts {
                zone: Some("z".into()),
            },
            0,
        );
        let settings = Settings {
            outputs: Outputs {
                endpoints: false,
                slices: true,
            },
            seed: 1,
            ..Settings::default()
        };
        Self {
            state: NamespaceState::new("ns".into(), settings, Holds::NONE),
            nodes,
        }
    }

    fn apply(&mut self, pod: PodFacts) {
        self.state.apply_pod(pod, &[], 0, &mut self.nodes);
    }

    /// Grants everything that is wanted, and answers each with a version.
    fn settle(&mut self) -> usize {
        let mut writes = 0;
        loop {
            let wants = self.state.plan();
            if wants.is_empty() {
                return writes;
            }
            for want in wants {
                if self.state.grant(&want.object).is_some() {
                    writes += 1;
                    let remote = Remote {
                        uid: Uid::from(&*want.object.name),
                        version: 1,
                    };
                    let outcome = Outcome::Written(remote);
                    assert_eq!(self.state.outcome(&want.object, outcome, None), None);
                }
            }
        }
    }

    /// What an event and the plan after it cost.
    fn cost(&mut self, pod: PodFacts) -> Work {
        let before = self.state.work();
        self.apply(pod);
        self.settle();
        let after = self.state.work();
        Work {
            selector_evaluations: after.selector_evaluations - before.selector_evaluations,
            endpoints_visited: after.endpoints_visited - before.endpoints_visited,
            slices_touched: after.slices_touched - before.slices_touched,
            evaluations: after.evaluations - before.evaluations,
        }
    }
}

#[test]
fn a_pod_event_reaches_only_the_services_it_matches() {
    const SERVICES: u32 = 5000;
    let mut bench = Bench::new();
    let mut selectors = Vec::new();
    for i in 0..SERVICES {
        // All share one pair, as the Services of one chart do, so only the other one tells them apart.
        let facts = service(
            &format!("svc-{i}"),
            &[("chart", "web"), ("shard", &i.to_string())],
        );
        selectors.push(facts.selector.clone().unwrap());
        bench.state.apply_service(facts, 0);
    }
    bench.settle();
    let labels = [("chart", "web"), ("shard", "7"), ("pod-template-hash", "abc")];

    let new = bench.cost(pod(1, &labels, true));
    assert!(
        new.selector_evaluations <= 2,
        "a label set not seen before: {new:?}"
    );
    assert_eq!((new.endpoints_visited, new.evaluations), (1, 1), "{new:?}");
    let known = bench.cost(pod(2, &labels, true));
    assert_eq!(
        known.selector_evaluations, 0,
        "a label set that is known: {known:?}"
    );
    let flip = bench.cost(pod(2, &labels, false));
    assert_eq!(
        flip,
        Work {
            selector_evaluations: 0,
            endpoints_visited: 1,
            slices_touched: 1,
            evaluations: 1
        }
    );
    let gone = bench.cost(PodFacts {
        terminal: true,
        ..pod(2, &labels, false)
    });
    assert_eq!((gone.selector_evaluations, gone.evaluations), (0, 1), "{gone:?}");

    // The counter counts: what upstream does for each pod event.
    let mut naive = Work::default();
    let labels: Labels = labels.iter().copied().collect();
    let matched = selectors
        .iter()
        .filter(|selector| selector.matches(&labels, &mut naive))
        .count();
    assert_eq!(matched, 1);
    assert!(naive.selector_evaluations >= u64::from(SERVICES));
}

#[test]
fn the_cost_of_a_flip_does_not_depend_on_the_size_of_the_service() {
    let mut costs = Vec::new();
    for pods in [100, 1000, 20_000] {
        let mut bench = Bench::new();
        bench.state.apply_service(service("svc", &[("app", "a")]), 0);
        for i in 0..pods {
            bench.apply(pod(i, &[("app", "a")], true));
        }
        assert_eq!(
            bench.settle(),
            usize::try_from(pods).unwrap() / 100,
            "slices of 100 pods each"
        );
        costs.push(bench.cost(pod(pods / 2, &[("app", "a")], false)));
    }
    assert_eq!(
        costs[0],
        Work {
            selector_evaluations: 0,
            endpoints_visited: 1,
            slices_touched: 1,
            evaluations: 1
        }
    );
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

#[test]
fn an_unchanged_pod_costs_nothing() {
    let mut bench = Bench::new();
    bench.state.apply_service(service("svc", &[("app", "a")]), 0);
    bench.apply(pod(1, &[("app", "a")], true));
    bench.settle();
    assert_eq!(bench.cost(pod(1, &[("app", "a")], true)), Work::default());
}

#[test]
fn flips_while_a_write_is_in_flight_are_one_more_write() {
    let mut bench = Bench::new();
    bench.state.apply_service(service("svc", &[("app", "a")]), 0);
    bench.apply(pod(1, &[("app", "a")], true));
    bench.settle();
    bench.apply(pod(1, &[("app", "a")], false));
    let [want] = &bench.state.plan()[..] else {
        panic!("one slice is due")
    };
    assert_eq!(bench.state.grant(&want.object).unwrap().changes, 1);
    for i in 0..1001 {
        bench.apply(pod(1, &[("app", "a")], i % 2 == 0));
        assert_eq!(bench.state.plan(), [], "nothing more is asked for while it flies");
    }
    let remote = Remote {
        uid: Uid::from("s"),
        version: 2,
    };
    let again = bench
        .state
        .outcome(&want.object, Outcome::Written(remote), None)
        .unwrap();
    assert_eq!(
        bench.state.grant(&again.object).unwrap().changes,
        501,
        "each flip away from what is published counts"
    );
    let remote = Remote {
        uid: Uid::from("s"),
        version: 3,
    };
    assert_eq!(
        bench.state.outcome(&again.object, Outcome::Written(remote), None),
        None
    );
    assert_eq!(bench.settle(), 0);
}
