//! What a pod costs in memory: bytes of state by a counting allocator, whether churn leaves any behind, and the
//! resident memory of the program itself. `cargo bench --bench memory [-- state|unchanged|churn|process]`.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;
#[path = "support/process.rs"]
mod process;

use cap::Cap;
use endpointd::core::facts::{HostName, PodFacts, ServiceFacts};
use endpointd::core::ids::Uid;
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{ContainerPort, Protocol, ServicePort, TargetPort};
use endpointd::core::time::Time;
use fixtures::{ENDPOINTS, SLICES, World, node_name, pod, service, suffix};
use goals::Goals;
use mimalloc::MiMalloc;

/// As the program has it, and counting what is asked of it.
#[global_allocator]
static ALLOCATOR: Cap<MiMalloc> = Cap::new(MiMalloc, usize::MAX);

const NODES: u32 = 1000;
/// Pods of one workload.
const WORKLOAD: u32 = 50;

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let runs = |part: &str| filter.as_deref().is_none_or(|filter| part.contains(filter));
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let mut goals = Goals::default();
    if runs("state") {
        state(&mut goals);
    }
    if runs("unchanged") {
        unchanged(&mut goals);
    }
    if runs("churn") {
        churn(&mut goals);
    }
    if runs("process") {
        process::resident(&mut goals);
    }
    goals.print();
}

/// Which third of the workloads have pods with labels of their own, as `StatefulSets` make them.
fn is_stateful(workload: u32) -> bool {
    workload % 3 == 2
}

/// The three Services that select the pods of a workload: for its clients, headless, and for its metrics.
fn services(workload: u32) -> impl Iterator<Item = ServiceFacts> {
    let app = format!("checkout-{workload}");
    ["", "-headless", "-metrics"].into_iter().map(move |kind| {
        let port = if kind == "-metrics" { "metrics" } else { "http" };
        let mut facts = service(
            &format!("{app}{kind}"),
            &[
                ("app.kubernetes.io/name", "checkout"),
                ("app.kubernetes.io/instance", &app),
            ],
        );
        facts.uid = Uid::Uuid(u128::from(workload).to_be_bytes());
        facts.headless = kind == "-headless";
        facts.no_cluster_ip = facts.headless;
        facts.ports = vec![ServicePort {
            name: port.into(),
            protocol: Protocol::Tcp,
            target: TargetPort::Name(port.into()),
            app_protocol: None,
        }];
        facts
    })
}

/// The nth pod of a namespace, in some generation: each has another name, UID and hash.
fn realistic_pod(number: u32, generation: u32) -> PodFacts {
    let workload = number / WORKLOAD;
    let app = format!("checkout-{workload}");
    let (name, own) = if is_stateful(workload) {
        let index = number % WORKLOAD + generation * WORKLOAD;
        let name = format!("{app}-{index}");
        let own = [
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", index.to_string()),
            ("controller-revision-hash", format!("{app}-6f5d9c7b8{generation}")),
        ];
        (name, own.to_vec())
    } else {
        let hash = format!("7c5d8b{generation:04x}");
        let name = format!("{app}-{hash}-{}", suffix(number));
        (name, vec![("pod-template-hash", hash)])
    };
    let shared = [
        ("app.kubernetes.io/name", "checkout"),
        ("app.kubernetes.io/instance", &*app),
        ("app.kubernetes.io/version", "1.24.7"),
        ("app.kubernetes.io/managed-by", "Helm"),
    ];
    let own = own.iter().map(|(key, value)| (*key, value.as_str()));
    let labels: Vec<_> = shared.into_iter().chain(own).collect();
    let port = |name: &str, number| ContainerPort {
        name: name.into(),
        protocol: Protocol::Tcp,
        number,
    };
    let host = is_stateful(workload).then(|| {
        Box::new(HostName {
            hostname: (&*name).into(),
            subdomain: format!("{app}-headless").into(),
        })
    });
    let id = u128::from(number) << 64 | u128::from(generation) << 32 | 0x4000;
    PodFacts {
        host,
        name: name.into(),
        uid: Uid::Uuid(id.to_be_bytes()),
        node: Some(node_name(number * 7919 % NODES)),
        ports: vec![port("http", 8080), port("metrics", 9090)],
        ready_time: Some(Time::from_seconds(1_700_000_000)),
        ..pod(number, &labels, true)
    }
}

/// A namespace, everything written.
fn world(pods: u32, outputs: Outputs) -> World {
    let mut world = World::new(outputs, NODES);
    for workload in 0..pods / WORKLOAD {
        for facts in services(workload) {
            world.state.apply_service(facts, 0);
        }
    }
    for number in 0..pods {
        world.apply(realistic_pod(number, 0));
    }
    world.settle();
    world
}

fn state(goals: &mut Goals) {
    const NAMESPACES: u32 = 100;
    for (outputs, name) in [
        (Outputs::ALL, "both outputs"),
        (SLICES, "slices"),
        (ENDPOINTS, "Endpoints"),
    ] {
        for pods in [100_000, 1_000_000] {
            if pods == 1_000_000 && outputs != Outputs::ALL {
                continue;
            }
            let nodes = World::new(outputs, NODES);
            let before = ALLOCATOR.allocated();
            let worlds: Vec<_> = (0..NAMESPACES)
                .map(|_| world(pods / NAMESPACES, outputs))
                .collect();
            let after = ALLOCATOR.allocated();
            drop(worlds);
            drop(nodes);
            let each = (after - before) as f64 / f64::from(pods);
            let what =
                format!("state: {name}, {pods} pods in {NAMESPACES} namespaces, each in three Services");
            if outputs == Outputs::ALL {
                goals.at_most(&what, Some(each), 400.0, " bytes a pod");
            } else {
                goals.note(&what, Some(each), " bytes a pod");
            }
        }
    }
    let before = ALLOCATOR.allocated();
    let one = world(100_000, Outputs::ALL);
    let after = ALLOCATOR.allocated();
    drop(one);
    goals.at_most(
        "state: both outputs, 100000 pods in one namespace, each in three Services",
        Some((after - before) as f64 / 100_000.0),
        400.0,
        " bytes a pod",
    );
}

/// Updates that change nothing of what we publish leave no allocation behind.
fn unchanged(goals: &mut Goals) {
    const PODS: u32 = 10_000;
    let mut world = world(PODS, Outputs::ALL);
    let before = ALLOCATOR.allocated();
    for number in 0..PODS {
        world.apply(realistic_pod(number, 0));
        assert_eq!(world.state.plan(), []);
    }
    let kept = ALLOCATOR.allocated() as f64 - before as f64;
    goals.at_most(
        "unchanged_event: kept of 10,000 events",
        Some(kept.max(0.0)),
        0.0,
        " bytes",
    );
}

/// A million pods are replaced, each by one with another name, UID and template hash: the same 10,000 places are
/// filled a hundred times over.
fn churn(goals: &mut Goals) {
    const PODS: u32 = 10_000;
    const GENERATIONS: u32 = 100;
    let mut world = world(PODS, Outputs::ALL);
    let mut sizes = Vec::new();
    for generation in 1..=GENERATIONS {
        for first in (0..PODS).step_by(100) {
            for number in first..first + 100 {
                world.apply(realistic_pod(number, generation));
            }
            world.settle();
            for number in first..first + 100 {
                let old = realistic_pod(number, generation - 1).name;
                world.state.remove_pod(&old, &mut world.nodes);
            }
            world.settle();
        }
        sizes.push((ALLOCATOR.allocated(), world.state.sizes()));
    }
    let (first, last) = (&sizes[0], &sizes[GENERATIONS as usize - 1]);
    assert_eq!(
        (first.1.pods, first.1.full_sets, first.1.label_sets),
        (last.1.pods, last.1.full_sets, last.1.label_sets),
        "interned things are freed"
    );
    goals.at_most(
        "churn: state after 1,000,000 replacements over state after 10,000",
        Some(last.0 as f64 / first.0 as f64),
        1.02,
        "x",
    );
}
