//! The cost of changes that concern many pods at once, beside that of recomputing the Service.

#[path = "support/baseline.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod baseline;
#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;

use baseline::{Naive, check};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use endpointd::core::facts::{PodFacts, ServiceFacts};
use endpointd::core::namespace::{Kind, PendingLists};
use endpointd::core::ports::TargetPort;
use endpointd::core::work::TurnBudget;
use fixtures::{SLICES, World, app_pod, app_service, node_name, zone};
use goals::{Goals, measure, ratio, timed};
use mimalloc::MiMalloc;
use std::ops::Range;
use std::time::Duration;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PODS: u32 = 10_000;
const NODES: u32 = 500;
const OTHERS: u32 = 1000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut goals = Goals::default();
    selector_change(&mut criterion, &mut goals);
    service_port_change(&mut criterion, &mut goals);
    node_zone_change(&mut criterion, &mut goals);
    mass_node_failure(&mut criterion, &mut goals);
    rolling_update(&mut criterion, &mut goals);
    initial_sync(&mut criterion, &mut goals);
    criterion.final_summary();
    goals.print();
}

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group
}

fn naive(pods: Vec<PodFacts>) -> Naive {
    let mut naive = Naive::default();
    naive.services = (0..=OTHERS).map(app_service).collect();
    naive.pods = pods;
    for node in 0..NODES {
        naive.zones.insert(node_name(node), zone(node).zone);
    }
    naive.store(0);
    naive
}

/// One recomputation of the Service with what it has.
fn recompute(group: &mut BenchmarkGroup<'_, WallTime>, naive: &Naive) -> Option<f64> {
    let time = measure(group, "recomputed", |runs| {
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            timed(&mut total, || std::hint::black_box(naive.sync_slices(0)));
        }
        total
    });
    if let Some(time) = time {
        check(time, PODS);
    }
    time
}

/// The Service takes turns between two states. Times its event and the plan.
fn alternate(
    group: &mut BenchmarkGroup<'_, WallTime>,
    world: &mut World,
    states: &[ServiceFacts; 2],
    writes: &mut usize,
) -> Option<f64> {
    let mut turn = 0;
    measure(group, "applied and planned", |runs| {
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            turn += 1;
            let facts = states[turn % 2].clone();
            let items = timed(&mut total, || {
                world.state.apply_service(facts, 0);
                world.state.plan()
            });
            *writes = world.write_all(&items).0;
        }
        total
    })
}

fn selector_change(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = group(criterion, "selector_change");
    let mut world = World::of_one_large(SLICES, PODS, 0, NODES);
    for number in 0..PODS {
        world.apply(app_pod(1, PODS + number, NODES, true));
    }
    let other = ServiceFacts {
        selector: app_service(1).selector,
        ..app_service(0)
    };
    let mut writes = 0;
    let change = alternate(&mut group, &mut world, &[app_service(0), other], &mut writes);
    let pods = (0..2 * PODS).map(|number| app_pod(number / PODS, number, NODES, true));
    let baseline = recompute(&mut group, &naive(pods.collect()));
    goals.note(
        "selector_change: 10,000 pods out and 10,000 in, over one recomputation",
        ratio(change, baseline),
        "x",
    );
    goals.note("selector_change: writes", change.map(|_| writes as f64), "");
}

fn service_port_change(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = group(criterion, "service_port_change");
    let mut world = World::of_one_large(SLICES, PODS, OTHERS, NODES);
    let mut other = app_service(0);
    let mut ports = other.ports.to_vec();
    ports[0].target = TargetPort::Number(9090);
    other.ports = ports.into();
    let mut writes = 0;
    let change = alternate(&mut group, &mut world, &[app_service(0), other], &mut writes);
    let pods = (0..PODS).map(|number| app_pod(0, number, NODES, true));
    let baseline = recompute(&mut group, &naive(pods.collect()));
    goals.note(
        "service_port_change: another port for 10,000 pods, over one recomputation",
        ratio(change, baseline),
        "x",
    );
    goals.at_most(
        "service_port_change: writes for 100 slices",
        change.map(|_| writes as f64),
        100.0,
        "",
    );
}

fn node_zone_change(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = group(criterion, "node_zone_change");
    let mut world = World::of_one_large(SLICES, PODS, OTHERS, NODES);
    let (mut turn, mut writes) = (0, 0);
    let change = measure(&mut group, "applied and planned", |runs| {
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            turn += 1;
            let facts = zone(turn % 2);
            let items = timed(&mut total, || {
                let change = world.nodes.apply(&node_name(7), facts, 0);
                if let Some(change) = change {
                    world.state.begin_node(change.view);
                    assert!(world.state.step_passes(&mut TurnBudget::unlimited()));
                }
                world.state.plan()
            });
            writes = world.write_all(&items).0;
        }
        total
    });
    let pods = (0..PODS).map(|number| app_pod(0, number, NODES, true));
    let baseline = recompute(&mut group, &naive(pods.collect()));
    goals.at_least(
        "node_zone_change: one recomputation of 10,000 pods over a node of 20 of them",
        ratio(baseline, change),
        20.0,
        "x",
    );
    goals.at_most(
        "node_zone_change: writes for 20 pods",
        change.map(|_| writes as f64),
        20.0,
        "",
    );
}

/// All pods of 100 nodes turn not ready, and ready again.
fn mass_node_failure(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = group(criterion, "mass_node_failure");
    let mut world = World::of_one_large(SLICES, PODS, OTHERS, NODES);
    let failing: Vec<_> = (0..PODS).filter(|number| number % NODES < 100).collect();
    let (mut ready, mut writes, mut touched) = (true, 0, 0);
    let change = measure(&mut group, "applied and planned", |runs| {
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            ready = !ready;
            let events = failing.iter().map(|number| app_pod(0, *number, NODES, ready));
            let events: Vec<_> = events.collect();
            let before = world.state.work();
            let items = timed(&mut total, || {
                for facts in events {
                    world.apply(facts);
                }
                world.state.plan()
            });
            writes = world.write_all(&items).0;
            touched = (world.state.work() - before).slices_touched;
        }
        total
    });
    let pods = (0..PODS).map(|number| app_pod(0, number, NODES, true));
    let baseline = recompute(&mut group, &naive(pods.collect()));
    let events = failing.len() as f64;
    goals.at_most(
        "mass_node_failure: 2,000 of 10,000 pods, writes per touched slice",
        change.map(|_| writes as f64 / touched as f64),
        1.0,
        "",
    );
    goals.note("mass_node_failure: writes", change.map(|_| writes as f64), "");
    goals.at_least(
        "mass_node_failure: one recomputation over one event of the burst",
        ratio(baseline, change.map(|all| all / events)),
        1000.0,
        "x",
    );
}

/// Every pod is replaced, 100 at a time: new ones come, turn ready, old ones terminate, and are gone.
fn rolling_update(criterion: &mut Criterion, goals: &mut Goals) {
    const STEP: u32 = 100;
    let mut group = group(criterion, "rolling_update");
    let mut world = World::of_one_large(SLICES, PODS, OTHERS, NODES);
    let (mut first, mut writes) = (0, 0);
    let change = measure(&mut group, "applied and planned", |runs| {
        let mut total = Duration::ZERO;
        for _ in 0..runs {
            writes = 0;
            for _ in 0..PODS / STEP {
                let (old, new) = (first..first + STEP, first + PODS..first + PODS + STEP);
                first += STEP;
                writes += replace_pods(&mut world, &mut total, &old, &new);
            }
        }
        total
    });
    let pods = (0..PODS).map(|number| app_pod(0, number, NODES, true));
    let baseline = recompute(&mut group, &naive(pods.collect()));
    let batches = f64::from(4 * PODS / STEP);
    goals.at_least(
        "rolling_update: 400 recomputations over 400 batches of 100 events",
        ratio(baseline.map(|one| one * batches), change),
        10.0,
        "x",
    );
    goals.note(
        "rolling_update: one pod replaced, four events",
        change.map(|all| all / 1000.0 / f64::from(PODS)),
        " µs",
    );
    goals.note(
        "rolling_update: writes for 10,000 pods replaced",
        change.map(|_| writes as f64),
        "",
    );
}

/// New pods come and become ready, and old ones end and go. Returns how many writes that took.
fn replace_pods(world: &mut World, total: &mut Duration, old: &Range<u32>, new: &Range<u32>) -> usize {
    let facts = |numbers: &Range<u32>, ready, terminating| {
        let pods = numbers.clone().map(|number| PodFacts {
            terminating,
            ..app_pod(0, number, NODES, ready)
        });
        pods.collect::<Vec<_>>()
    };
    let steps = [
        facts(new, false, false),
        facts(new, true, false),
        facts(old, false, true),
    ];
    let mut writes = 0;
    for events in steps {
        let wants = timed(total, || {
            for facts in events {
                world.apply(facts);
            }
            world.state.plan()
        });
        writes += world.write_all(&wants).0;
    }
    let names: Vec<_> = facts(old, false, true).into_iter().map(|pod| pod.name).collect();
    let wants = timed(total, || {
        for name in &names {
            world.state.remove_pod(name, &mut world.nodes);
        }
        world.state.plan()
    });
    writes + world.write_all(&wants).0
}

/// 100,000 pods, 50 for each Service, in some namespaces, to a server that has no slices yet.
fn initial_sync(criterion: &mut Criterion, goals: &mut Goals) {
    const ALL: u32 = 100_000;
    let mut group = group(criterion, "initial_sync");
    let mut times = Vec::new();
    for namespaces in [100, 1] {
        let pods = ALL / namespaces;
        let time = measure(&mut group, &format!("100,000 pods in {namespaces}"), |runs| {
            let mut total = Duration::ZERO;
            for _ in 0..runs {
                for _ in 0..namespaces {
                    total += sync_one(pods);
                }
            }
            total
        });
        times.push(time);
        if time.is_some() {
            // Once: in one namespace each of 2,000 Services looks at 100,000 pods.
            let mut naive = naive((0..pods).map(|n| app_pod(n / 50, n, NODES, true)).collect());
            naive.services = (0..pods / 50).map(app_service).collect();
            let mut once = Duration::ZERO;
            let missing = timed(&mut once, || {
                let syncs = (0..naive.services.len()).map(|at| naive.sync_slices(at));
                syncs.map(|sync| sync.missing).sum::<usize>()
            });
            let once = once.as_nanos() as f64 * f64::from(namespaces);
            assert_eq!(
                missing,
                pods as usize - 50,
                "all but the Service that has its slices"
            );
            goals.note(
                &format!("initial_sync: in {namespaces}, a recomputation of all without bodies over all with bodies"),
                ratio(Some(once), time),
                "x",
            );
        }
        goals.note(
            &format!("initial_sync: in {namespaces}, one pod listed, placed and written"),
            time.map(|all| all / 1000.0 / f64::from(ALL)),
            " µs",
        );
    }
    goals.at_most(
        "initial_sync: one namespace over 100",
        ratio(times[1], times[0]),
        1.5,
        "x",
    );
}

fn sync_one(pods: u32) -> Duration {
    let mut world = World::listing(SLICES, NODES, PendingLists::all(SLICES));
    let services: Vec<_> = (0..pods / 50).map(app_service).collect();
    let facts: Vec<_> = (0..pods).map(|n| app_pod(n / 50, n, NODES, true)).collect();
    let mut total = Duration::ZERO;
    let written = timed(&mut total, || {
        for facts in services {
            world.state.apply_service(facts, 0);
        }
        for facts in facts {
            world.apply(facts);
        }
        for kind in Kind::needed_for(SLICES) {
            world.state.end_list(kind, 0, 1, &mut world.nodes);
        }
        let items = world.state.plan();
        world.write_all(&items)
    });
    assert_eq!(written.0, pods as usize / 50, "a slice for each Service");
    total
}
