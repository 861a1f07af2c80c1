//! The cost of one pod event: applied, planned, and the body of the slice that it touches built. It should not
//! depend on how large the Service is, nor on how many others there are in the namespace.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
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
use std::hint::black_box;
use std::net::Ipv4Addr;

fn service(number: u32) -> ServiceFacts {
    let app = format!("app-{number}");
    ServiceFacts {
        name: app.as_str().into(),
        uid: Uid::from(app.as_str()),
        created: None,
        deleting: false,
        labels: Labels::default(),
        selector: Selector::new([("app", app.as_str()), ("chart", "web")].into_iter().collect()),
        headless: true,
        no_cluster_ip: true,
        families: [true, false],
        endpoints_family: Some(Family::V4),
        ports: vec![ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            target: TargetPort::Number(8080),
            app_protocol: None,
        }],
        publish_not_ready: false,
        tolerate_unready: TolerateUnready::Unset,
        hints: HintMode::None,
    }
}

fn pod(number: u32, ready: bool) -> PodFacts {
    PodFacts {
        name: format!("app-0-7c5d8bd957-{number:05}").into(),
        uid: Uid::from(format!("{number:08x}-0000-4000-8000-000000000000").as_str()),
        labels: [
            ("app", "app-0"),
            ("chart", "web"),
            ("pod-template-hash", "7c5d8bd957"),
        ]
        .into_iter()
        .collect(),
        node: Some("node".into()),
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

/// A namespace with one Service of `pods` pods beside `services` others, everything written.
fn namespace(pods: u32, services: u32) -> (NamespaceState, NodeTable) {
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
    let mut state = NamespaceState::new("ns".into(), settings, Holds::NONE);
    for number in 0..=services {
        state.apply_service(service(number), 0);
    }
    for number in 0..pods {
        state.apply_pod(pod(number, true), &[], 0, &mut nodes);
    }
    write_all(&mut state);
    (state, nodes)
}

/// Builds every request that is due, and has it accepted.
fn write_all(state: &mut NamespaceState) {
    for want in state.plan() {
        black_box(state.grant(&want.object));
        let remote = Remote {
            uid: Uid::none(),
            version: 1,
        };
        state.outcome(&want.object, Outcome::Written(remote), None);
    }
}

fn flips(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pod_event");
    for (pods, services) in [
        (100, 1000),
        (1000, 1000),
        (10_000, 1000),
        (50_000, 1000),
        (100, 20_000),
    ] {
        let (mut state, mut nodes) = namespace(pods, services);
        let mut ready = true;
        let id = BenchmarkId::from_parameter(format!("{pods} pods, {services} other services"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                ready = !ready;
                state.apply_pod(pod(pods / 2, ready), &[], 0, &mut nodes);
                write_all(&mut state);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, flips);
criterion_main!(benches);
