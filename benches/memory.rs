//! The memory of a pod: bytes of state by a counting allocator, whether churn leaves any behind, and the
//! resident memory of the program itself. `cargo bench --bench memory [-- state|unchanged|churn|process]`.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;
#[path = "support/process.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod process;

use cap::Cap;
use endpointd::core::facts::{HostName, PodFacts, ServiceFacts};
use endpointd::core::ids::Uid;
use endpointd::core::namespace::PendingLists;
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{ContainerPort, Protocol, ServicePort, TargetPort};
use endpointd::core::time::Time;
use fixtures::{ENDPOINTS, SLICES, World, node_name, pod, service, suffix};
use goals::Goals;
use memory_apiserver::{Config, start};
use process::{Cluster, Process, settled};
use std::alloc::System;
use std::process::Command;
use std::time::Duration;
use tokio::time::sleep;

/// As the program has it, and counting what is asked of it.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const NODES: u32 = 1000;
/// Pods of one workload: three of them have some 50.
const WORKLOAD: u32 = 17;
/// The cluster that the process is run on.
const CLUSTER: Cluster = Cluster {
    pods: 100_000,
    namespaces: 40,
    services: &[("", "http"), ("-headless", "http"), ("-metrics", "metrics")],
};

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
        resident(&mut goals);
    }
    goals.print();
}

/// Which third of the workloads have pods with labels of their own, as `StatefulSets` make them.
fn is_stateful(workload: u32) -> bool {
    workload % 3 == 2
}

/// The Services that select the pods of a workload: for its clients, headless, and for its metrics.
fn services(workload: u32, count: u32) -> impl Iterator<Item = ServiceFacts> {
    let app = format!("checkout-{workload}");
    let kinds = ["", "-headless", "-metrics"].into_iter().take(count as usize);
    kinds.map(move |kind| {
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
        facts.ports = [ServicePort {
            name: port.into(),
            protocol: Protocol::Tcp,
            target: TargetPort::Name(port.into()),
            app_protocol: None,
        }]
        .into();
        facts
    })
}

/// The nth pod of a namespace, in some generation: each has another name, UID and hash.
fn realistic_pod(number: u32, generation: u32, size: u32) -> PodFacts {
    let workload = number / size;
    let app = format!("checkout-{workload}");
    let (name, own) = if is_stateful(workload) {
        // As many digits in each generation, so that texts do not grow with time.
        let index = 1000 + number % size + generation * size;
        let name = format!("{app}-{index}");
        let own = [
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", index.to_string()),
            ("controller-revision-hash", format!("{app}-6f5d9c{generation:04}")),
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

/// Fills a namespace, everything written. Of 50 pods, either all are in each of three Services, or each is in one of
/// three Services.
fn fill(mut world: World, pods: u32, services_of_each: u32) -> World {
    let size = workload_size(services_of_each);
    for workload in 0..pods.div_ceil(size) {
        for facts in services(workload, services_of_each) {
            world.state.apply_service(facts, 0);
        }
    }
    for number in 0..pods {
        world.apply(realistic_pod(number, 0, size));
    }
    world.settle();
    world
}

fn workload_size(services_of_each: u32) -> u32 {
    if services_of_each == 1 { WORKLOAD } else { 50 }
}

fn world(pods: u32) -> World {
    fill(World::new(Outputs::ALL, NODES), pods, 1)
}

/// Some namespaces on the same nodes: what they cost, in bytes a pod.
fn bytes_a_pod(pods: u32, namespaces: u32, services: u32, outputs: Outputs) -> f64 {
    let mut nodes = World::new(outputs, NODES).nodes;
    let before = ALLOCATOR.allocated();
    let mut worlds = Vec::new();
    for namespace in 0..namespaces {
        let beside = World::beside(&format!("shop-{namespace}"), outputs, nodes, PendingLists::NONE);
        let mut world = fill(beside, pods / namespaces, services);
        nodes = std::mem::take(&mut world.nodes);
        worlds.push(world);
    }
    let after = ALLOCATOR.allocated();
    drop(worlds);
    (after - before) as f64 / f64::from(pods)
}

fn state(goals: &mut Goals) {
    for (pods, namespaces) in [(100_000, 1), (100_000, 100), (1_000_000, 100)] {
        let bytes = bytes_a_pod(pods, namespaces, 1, Outputs::ALL);
        let what = format!("state: {pods} pods in {namespaces} namespaces, three Services for 50 pods");
        goals.at_most(&what, Some(bytes), 400.0, " bytes a pod");
    }
    for (outputs, name) in [(SLICES, "slices"), (ENDPOINTS, "Endpoints")] {
        let bytes = bytes_a_pod(100_000, 1, 1, outputs);
        goals.note(
            &format!("state: 100000 pods in 1 namespace, {name} alone"),
            Some(bytes),
            " bytes a pod",
        );
    }
    let bytes = bytes_a_pod(100_000, 1, 3, Outputs::ALL);
    let what = "state: 100000 pods in 1 namespace, each of them in three Services of 50";
    goals.note(what, Some(bytes), " bytes a pod");
}

/// Updates that change nothing of what we publish leave no allocation behind.
fn unchanged(goals: &mut Goals) {
    const PODS: u32 = 10_000;
    let mut world = world(PODS);
    let before = ALLOCATOR.allocated();
    for number in 0..PODS {
        world.apply(realistic_pod(number, 0, WORKLOAD));
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
    /// A hash table more than half full of live entries doubles once when the places of dead ones have used up the
    /// rest, and from then on cleans up in place. Two do so here, by 82,816 bytes each.
    const GROWN: usize = 20;
    let mut world = world(PODS);
    let mut sizes = Vec::new();
    for generation in 1..=GENERATIONS {
        for first in (0..PODS).step_by(100) {
            for number in first..first + 100 {
                world.apply(realistic_pod(number, generation, WORKLOAD));
            }
            world.settle();
            for number in first..first + 100 {
                let old = realistic_pod(number, generation - 1, WORKLOAD).name;
                world.state.remove_pod(&old, &mut world.nodes);
            }
            world.settle();
        }
        sizes.push((ALLOCATOR.allocated(), world.state.sizes()));
    }
    // All of it is shown: a leak grows with each line, a hash table that doubles once makes one step.
    for (generation, (bytes, sizes)) in (1..).zip(&sizes) {
        if generation == 1 || generation % 10 == 0 {
            println!("churn: {bytes} bytes after {generation} times {PODS} replacements, {sizes:?}");
        }
    }
    let (first, grown, last) = (&sizes[0], &sizes[GROWN - 1], &sizes[GENERATIONS as usize - 1]);
    assert_eq!(
        (first.1.pods, first.1.full_sets, first.1.label_sets),
        (last.1.pods, last.1.full_sets, last.1.label_sets),
        "interned things are freed"
    );
    let over = |before: &(usize, _)| Some(last.0 as f64 / before.0 as f64);
    goals.note(
        "churn: state after 1,000,000 replacements over state after 10,000",
        over(first),
        "x",
    );
    goals.at_most(
        "churn: state after 1,000,000 replacements over state after 200,000",
        over(grown),
        1.02,
        "x",
    );
}

const DRY_RUN: &str = "as a dry run";
/// Makes every process a standby.
const HELD_LEASE: &str = "{apiVersion: coordination.k8s.io/v1, kind: Lease, \
    metadata: {name: endpointd, namespace: kube-system}, \
    spec: {holderIdentity: another, leaseDurationSeconds: 3600}}";

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_endpointd"))
}

/// The resident memory of the program after a start on 100,000 pods whose slices and Endpoints it must make.
fn resident(goals: &mut Goals) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    runtime.block_on(async {
        let empty = start(Config::default()).await.expect("a port is free");
        let idle = Process::start(program(), &empty.url(), &[]);
        sleep(Duration::from_secs(2)).await;
        let floor = idle.status("VmRSS");
        drop(idle);

        let full = start(Config::default()).await.expect("a port is free");
        println!("process: making {} pods", CLUSTER.pods);
        process::fill(full.server(), &CLUSTER).await;
        let before = full.server().resource_version();
        let made = Process::start(program(), &full.url(), &[]);
        settled(
            full.server(),
            before,
            u64::from(2 * 3 * CLUSTER.pods / process::WORKLOAD),
        )
        .await;
        report_resident(goals, "writing everything", &made, floor);
        drop(made);
        let adopted = Process::start(program(), &full.url(), &[]);
        sleep(Duration::from_secs(15)).await;
        report_resident(goals, "adopting everything", &adopted, floor);
        drop(adopted);
        let dry = Process::start(program(), &full.url(), &["--dry-run"]);
        sleep(Duration::from_secs(15)).await;
        report_resident(goals, DRY_RUN, &dry, floor);
        drop(dry);
        full.server().load(HELD_LEASE).expect("it is a Lease");
        let standby = Process::start(program(), &full.url(), &["--leader-elect=true"]);
        sleep(Duration::from_secs(15)).await;
        report_resident(goals, "as a standby", &standby, floor);
        drop(standby);
    });
}

fn report_resident(goals: &mut Goals, start: &str, process: &Process, floor: f64) {
    let each = |bytes: f64| Some(bytes / f64::from(CLUSTER.pods));
    let (now, peak) = (process.status("VmRSS"), process.status("VmHWM"));
    let name = format!(
        "process: {} pods, a start {start}, peak of resident memory",
        CLUSTER.pods
    );
    if start == DRY_RUN {
        // It keeps what others have written as well.
        goals.note(&name, each(peak), " bytes a pod");
    } else {
        goals.at_most(&name, each(peak), 1024.0, " bytes a pod");
    }
    goals.note(
        &format!("process: a start {start}, peak above that of an empty cluster"),
        each(peak - floor),
        " bytes a pod",
    );
    goals.note(
        &format!("process: a start {start}, resident memory after it"),
        each(now),
        " bytes a pod",
    );
}
