//! The cost of one pod event, beside that of a controller which recomputes. It should not depend on how large
//! the Service is, nor on how many others there are in the namespace.

#[path = "support/baseline.rs"]
mod baseline;
#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;

use baseline::{Naive, check};
use criterion::Criterion;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::body::{AddressBody, Encode as _, EndpointsBody, Metadata, PodReference, Subject};
use endpointd::core::facts::PodFacts;
use endpointd::core::object::Remote;
use endpointd::core::ports::resolve;
use endpointd::core::subsets::Subset;
use fixtures::{CUSTOM, ENDPOINTS, SLICES, World, app_pod, app_service, node_name, zone};
use goals::{Goals, in_turns, measure, ratio, timed};
use mimalloc::MiMalloc;
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const NODES: u32 = 500;
const OTHERS: u32 = 1000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut goals = Goals::default();
    sync_slices(&mut criterion, &mut goals);
    sync_endpoints(&mut criterion, &mut goals);
    event_fanout(&mut criterion, &mut goals);
    annotated_event(&mut criterion, &mut goals);
    unchanged_event(&mut criterion, &mut goals);
    criterion.final_summary();
    goals.print();
}

/// The nth pod to flip: each time another one, far from the last, so that no cache knows it.
fn pick(turn: u32, pods: u32) -> u32 {
    (u64::from(turn) * 7919 % u64::from(pods)) as u32
}

/// One of `pods` pods flips, again and again. Times what happens before bodies are built, or everything.
fn flips(world: &mut World, pods: u32, turn: &mut u32, runs: u64, bodies: bool) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..runs {
        // Each pod goes, and comes back the next time round.
        let (round, number) = (*turn / pods, pick(*turn, pods));
        let facts = app_pod(0, number, NODES, round % 2 == 1);
        *turn = turn.wrapping_add(1);
        let items = timed(&mut total, || {
            world.apply(facts);
            world.state.plan()
        });
        let written = if bodies {
            timed(&mut total, || world.write_all(&items))
        } else {
            world.write_all(&items)
        };
        assert_eq!(written.0, 1, "a flip is one write");
    }
    total
}

fn naive(pods: u32, others: u32) -> Naive {
    let mut naive = Naive::default();
    for node in 0..NODES {
        naive.zones.insert(node_name(node), zone(node).zone);
    }
    naive.services = (0..=others).map(app_service).collect();
    naive.pods = (0..pods).map(|number| app_pod(0, number, NODES, true)).collect();
    naive.store(0);
    naive
}

fn sync_slices(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = criterion.benchmark_group("sync");
    let mut measured = true;
    for pods in [100, 1000, 10_000, 50_000] {
        let mut world = World::of_one_large(SLICES, pods, OTHERS, NODES);
        let mut turn = 0;
        let plan = measure(&mut group, &format!("slices planned/{pods}"), |runs| {
            flips(&mut world, pods, &mut turn, runs, false)
        });
        let built = measure(&mut group, &format!("slices built/{pods}"), |runs| {
            flips(&mut world, pods, &mut turn, runs, true)
        });
        drop(world);
        let mut naive = naive(pods, OTHERS);
        let mut turn = 0;
        let recompute = measure(&mut group, &format!("slices recomputed/{pods}"), |runs| {
            let mut total = Duration::ZERO;
            for _ in 0..runs {
                let number = pick(turn, pods) as usize;
                turn += 1;
                naive.pods[number].ready = false;
                let touched = timed(&mut total, || {
                    let services = naive.select(number);
                    services
                        .into_iter()
                        .map(|at| naive.sync_slices(at).touched.len())
                        .sum::<usize>()
                });
                assert_eq!(touched, 1, "a flip touches one slice");
                naive.pods[number].ready = true;
            }
            total
        });
        if let Some(recompute) = recompute {
            check(recompute, pods);
        }
        let times = ratio(recompute, plan);
        let what = format!("sync: slices of {pods} pods, how often a flip goes into a recomputation");
        if pods == 10_000 {
            goals.at_least(&what, times, 1000.0, "");
        } else {
            goals.note(&what, times, "");
        }
        if pods == 50_000 {
            goals.at_most(
                "sync: slices of 50,000 pods, a flip before serialisation",
                plan.map(|ns| ns / 1000.0),
                10.0,
                " µs",
            );
        }
        measured &= plan.is_some() && built.is_some();
    }
    if measured {
        slices_in_turns(goals);
    }
}

/// A flip in a large Service costs what it does in a small one.
fn slices_in_turns(goals: &mut Goals) {
    let (small, large) = (100, 50_000);
    let mut few = World::of_one_large(SLICES, small, OTHERS, NODES);
    let mut many = World::of_one_large(SLICES, large, OTHERS, NODES);
    let [mut turn_few, mut turn_many] = [0; 2];
    for (what, bodies) in [("bodies built", true), ("before serialisation", false)] {
        let [few, many] = in_turns(
            200,
            [
                Box::new(|runs| flips(&mut few, small, &mut turn_few, runs, bodies)),
                Box::new(|runs| flips(&mut many, large, &mut turn_many, runs, bodies)),
            ],
        );
        let what = format!("sync: slices of 50,000 pods over 100 pods, {what}, in turns");
        let times = ratio(Some(many), Some(few));
        if bodies {
            goals.at_most(&what, times, 1.5, "x");
        } else {
            goals.note(&what, times, "x");
        }
    }
}

/// Endpoints show a thousand pods at most, so only flips among the first of them are written.
fn sync_endpoints(criterion: &mut Criterion, goals: &mut Goals) {
    const SHOWN: u32 = 100;
    let mut group = criterion.benchmark_group("sync");
    for pods in [100, 1000, 10_000, 50_000] {
        let mut world = World::of_one_large(ENDPOINTS, pods, OTHERS, NODES);
        let mut turn = 0;
        let flip = measure(&mut group, &format!("endpoints built/{pods}"), |runs| {
            flips(&mut world, SHOWN, &mut turn, runs, true)
        });
        let body = measure(&mut group, &format!("endpoints body alone/{pods}"), |runs| {
            body_alone(pods.min(1000), runs)
        });
        if flip.is_some() && body.is_some() {
            let [flip, body] = in_turns(
                20,
                [
                    Box::new(|runs| flips(&mut world, SHOWN, &mut turn, runs, true)),
                    Box::new(|runs| body_alone(pods.min(1000), runs)),
                ],
            );
            goals.at_most(
                &format!("sync: Endpoints of {pods} pods, a flip over the body alone, in turns"),
                ratio(Some(flip), Some(body)),
                1.5,
                "x",
            );
        }
        drop(world);
        let mut naive = naive(pods, OTHERS);
        let recompute = measure(&mut group, &format!("endpoints recomputed/{pods}"), |runs| {
            let mut total = Duration::ZERO;
            for turn in 0..runs {
                let number = (turn % u64::from(SHOWN)) as usize;
                naive.pods[number].ready = false;
                let changed = timed(&mut total, || {
                    let services = naive.select(number);
                    services.into_iter().all(|at| naive.sync_endpoints(at))
                });
                assert!(changed, "a flip of a shown pod is another list");
                naive.pods[number].ready = true;
            }
            total
        });
        if let Some(recompute) = recompute {
            check(recompute, pods);
        }
        goals.note(
            &format!("sync: Endpoints of {pods} pods, a recomputation without the body over a flip with it"),
            ratio(recompute, flip),
            "x",
        );
    }
}

fn address(pod: &PodFacts) -> AddressBody<'_> {
    AddressBody {
        ip: IpAddr::V4(pod.v4.expect("fixtures have an address")),
        hostname: None,
        node: pod.node.as_deref(),
        target: PodReference {
            name: &pod.name,
            uid: &pod.uid,
        },
    }
}

/// The time of writing an Endpoints object with so many addresses, and of nothing else.
fn body_alone(addresses: u32, runs: u64) -> Duration {
    let service = app_service(0);
    let pods: Vec<_> = (0..addresses)
        .map(|number| app_pod(0, number, NODES, true))
        .collect();
    let remote = Remote {
        uid: pods[0].uid.clone(),
        version: 1,
    };
    let mut total = Duration::ZERO;
    for _ in 0..runs {
        timed(&mut total, || {
            let subsets = [Subset {
                ports: resolve(&service.ports, &[]).to_vec(),
                ready: pods.iter().map(address).collect(),
                not_ready: Vec::new(),
            }];
            let body = EndpointsBody {
                metadata: Metadata {
                    namespace: "ns",
                    name: &service.name,
                    subject: Subject::EndpointsOf(&service),
                    remote: Some(&remote),
                    extras: None,
                    trigger: None,
                    clear_managed_fields: false,
                    truncated: false,
                },
                subsets: &subsets,
            };
            black_box(Protobuf.endpoints(body))
        });
    }
    total
}

fn event_fanout(criterion: &mut Criterion, goals: &mut Goals) {
    const SERVICES: [u32; 5] = [10, 100, 1000, 5000, 20_000];
    let mut group = criterion.benchmark_group("event_fanout");
    let mut worlds = SERVICES.map(|services| World::of_one_large(SLICES, 100, services - 1, NODES));
    let mut turns = [0; SERVICES.len()];
    let mut measured = true;
    for (at, services) in SERVICES.into_iter().enumerate() {
        let plan = measure(&mut group, &format!("planned/{services}"), |runs| {
            flips(&mut worlds[at], 100, &mut turns[at], runs, false)
        });
        let naive = naive(100, services - 1);
        let scan = measure(&mut group, &format!("services scanned/{services}"), |runs| {
            let mut total = Duration::ZERO;
            for turn in 0..runs {
                let number = (turn % 100) as usize;
                let selecting = timed(&mut total, || naive.select(number));
                assert_eq!(selecting, [0]);
            }
            total
        });
        measured &= plan.is_some();
        goals.note(
            &format!("event_fanout: {services} services, a scan of all selectors over a whole event"),
            ratio(scan, plan),
            "x",
        );
    }
    if measured {
        let mut both = worlds.iter_mut().zip(&mut turns);
        let times = in_turns(
            200,
            SERVICES.map(|_| {
                let (world, turn) = both.next().expect("there is a world for each size");
                Box::new(|runs| flips(world, 100, turn, runs, false)) as _
            }),
        );
        for (services, time) in SERVICES.into_iter().zip(times) {
            goals.note(
                &format!("event_fanout: {services} services, in turns"),
                Some(time),
                " ns",
            );
        }
        goals.at_most(
            "event_fanout: the slowest number of services over the fastest, in turns",
            ratio(
                times.into_iter().max_by(f64::total_cmp),
                times.into_iter().min_by(f64::total_cmp),
            ),
            1.5,
            "x",
        );
    }
}

/// One pod's event among 20,000 Services whose selectors are annotations with sets, beside as many with pairs.
fn annotated_event(criterion: &mut Criterion, goals: &mut Goals) {
    const SERVICES: u32 = 20_000;
    let mut worlds = [SLICES, CUSTOM].map(|outputs| World::of_one_large(outputs, 100, SERVICES - 1, NODES));
    let mut turns = [0; 2];
    let mut group = criterion.benchmark_group("annotated_event");
    let mut measured = true;
    for (at, name) in ["pairs", "sets"].into_iter().enumerate() {
        let flip = measure(&mut group, &format!("planned/{name}"), |runs| {
            flips(&mut worlds[at], 100, &mut turns[at], runs, false)
        });
        measured &= flip.is_some();
    }
    if measured {
        let mut both = worlds.iter_mut().zip(&mut turns);
        let [pairs, sets] = in_turns(
            200,
            ["pairs", "sets"].map(|_| {
                let (world, turn) = both.next().expect("there is a world for each");
                Box::new(|runs| flips(world, 100, turn, runs, false)) as _
            }),
        );
        goals.at_most(
            "annotated_event: selectors with sets over selectors with pairs, in turns",
            ratio(Some(sets), Some(pairs)),
            1.5,
            "x",
        );
    }
}

/// A status update that changes nothing of what we publish, as kubelets send them all day.
fn unchanged_event(criterion: &mut Criterion, goals: &mut Goals) {
    // One read of a watch holds no more pods: it has 256 KiB, and a pod 4 KiB or more.
    const BATCH: u64 = 64;
    const PODS: u32 = 10_000;
    let mut world = World::of_one_large(endpointd::core::outputs::Outputs::ALL, PODS, OTHERS, NODES);
    let mut turn = 0;
    let mut group = criterion.benchmark_group("unchanged_event");
    let event = measure(&mut group, "applied and planned", |runs| {
        let mut total = Duration::ZERO;
        let mut left = runs;
        while left > 0 {
            // Made before the clock runs: that is the decoder's work.
            let events = (0..left.min(BATCH)).map(|at| app_pod(0, pick(turn + at as u32, PODS), NODES, true));
            let events: Vec<_> = events.collect();
            turn += BATCH as u32;
            left -= events.len() as u64;
            timed(&mut total, || {
                for facts in events {
                    world.apply(facts);
                    assert_eq!(world.state.plan(), []);
                }
            });
        }
        total
    });
    let naive = naive(PODS, OTHERS);
    let recompute = measure(&mut group, "recomputed", |runs| {
        let mut total = Duration::ZERO;
        for turn in 0..runs {
            let number = pick(turn as u32, PODS) as usize;
            let touched = timed(&mut total, || {
                let services = naive.select(number);
                services
                    .into_iter()
                    .map(|at| naive.sync_slices(at).touched.len())
                    .sum::<usize>()
            });
            assert_eq!(touched, 0);
        }
        total
    });
    if let Some(recompute) = recompute {
        check(recompute, PODS);
    }
    goals.at_most("unchanged_event: applied and planned", event, 500.0, " ns");
    goals.note(
        "unchanged_event: a recomputation over it",
        ratio(recompute, event),
        "x",
    );
}
