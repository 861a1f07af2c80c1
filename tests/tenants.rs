//! What the owner of one namespace can write, up to the limits of the API, costs about as much as it is large.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "../benches/support/fixtures.rs"]
#[allow(dead_code)] // Benchmarks use more of it.
mod fixtures;

use endpointd::core::facts::{PodFacts, ServiceFacts};
use endpointd::core::hash::{HashKey, set_key};
use endpointd::core::inbox::{Event, Pending};
use endpointd::core::namespace::{Kind, Want};
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{ContainerPort, Protocol, ServicePort, TargetPort};
use endpointd::core::selector::Selector;
use endpointd::core::subsets::{Subset, is_same};
use endpointd::core::work::{Budget, Work};
use fixtures::{SLICES, World, app_pod, app_service, pod, service};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::process::Command;
use std::time::Duration;

/// How long this thread has run: what others do on a busy machine is no part of it.
struct Processor(Duration);

impl Processor {
    fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self(Duration::new(
            time.tv_sec.unsigned_abs(),
            u32::try_from(time.tv_nsec).unwrap(),
        ))
    }

    fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

/// The shortest of some times that something took: what a busy machine does to it drops out.
fn shortest(mut operation: impl FnMut() -> Duration) -> Duration {
    (0..3).map(|_| operation()).min().unwrap()
}

/// `many` is `times` as large as `few`, and may take four times as long as that.
fn assert_near_linear(what: &str, times: u32, few: impl FnMut() -> Duration, many: impl FnMut() -> Duration) {
    let (few, many) = (shortest(few), shortest(many));
    assert!(
        many <= 4 * times * few,
        "{what}: {times} times as much took {many:?} instead of {few:?}"
    );
}

fn work_of(world: &mut World, event: impl FnOnce(&mut World)) -> Work {
    let before = world.state.work();
    event(world);
    world.state.work() - before
}

// === hashes ===

/// Label keys of 48 bytes that all have one hash in `rustc-hash`, which the tables used before.
///
/// It mixes 48 bytes as `t1 = mix(S1 ^ a, P ^ b)`, `t2 = mix(S2 ^ c, P ^ d)`, and in the end `mix(t1 ^ e, t2 ^ f)`, with
/// constants that everybody knows. So whoever chooses `e = t1 ^ C` and `f = t2 ^ D` has the same end each time. One in
/// some 58,000 of random `a` and `b` leads to an `e` of letters and digits; and each `a, b, e` that does goes with each
/// `c, d, f`.
fn colliding_keys(count: usize) -> Vec<String> {
    const S1: u64 = 0x243f_6a88_85a3_08d3;
    const S2: u64 = 0x1319_8a2e_0370_7344;
    const P: u64 = 0xa409_3822_299f_31d0;
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let each = count.isqrt() + 1;
    let mut random = fastrand::Rng::with_seed(1);
    let mut parts = |seed: u64| {
        let mut parts = Vec::new();
        while parts.len() < each {
            let mut text = [0; 16];
            let mut bits = random.u128(..);
            for letter in &mut text {
                *letter = LETTERS[(bits & 63) as usize];
                bits >>= 6;
            }
            let [a, b] = [0, 8].map(|at| u64::from_le_bytes(text[at..at + 8].try_into().unwrap()));
            let product = u128::from(seed ^ a) * u128::from(P ^ b);
            let last = (product as u64 ^ (product >> 64) as u64 ^ 0x5555_5555_5555_5555).to_le_bytes();
            if last.iter().all(|byte| LETTERS.contains(byte)) {
                parts.push((text, last));
            }
        }
        parts
    };
    let (first, second) = (parts(S1), parts(S2));
    let keys = first.iter().flat_map(|(ab, e)| {
        let of = move |(cd, f): &([u8; 16], [u8; 8])| [&ab[..], cd, e, f].concat();
        second.iter().map(of)
    });
    let keys = keys.map(|key| String::from_utf8(key).unwrap());
    keys.take(count).collect()
}

#[test]
fn labels_that_collide_in_a_hash_that_everybody_knows_cost_no_more_than_others() {
    const LABELS: usize = 3000;
    let colliding = colliding_keys(LABELS);
    let hash = |key: &String| rustc_hash::FxBuildHasher.hash_one(key);
    assert_eq!(colliding.iter().collect::<BTreeSet<_>>().len(), LABELS);
    assert_eq!(colliding.iter().map(hash).collect::<BTreeSet<_>>().len(), 1);
    let harmless: Vec<_> = (0..LABELS).map(|i| format!("{i:048}")).collect();
    assert!(harmless.iter().map(hash).collect::<BTreeSet<_>>().len() > 1);

    let attach = |keys: &[String]| {
        let labels: Vec<_> = keys.iter().map(|key| (&**key, "x")).collect();
        let mut world = World::new(SLICES, 1);
        let facts = pod(1, &labels, true);
        let selector = Selector::new(labels.iter().copied().collect());
        let start = Processor::now();
        world.apply(facts);
        world.state.apply_service(
            ServiceFacts {
                selector,
                ..service("svc", &[])
            },
            0,
        );
        assert_eq!(world.state.plan().len(), 1);
        start.elapsed()
    };
    assert_near_linear("labels", 1, || attach(&harmless), || attach(&colliding));

    let named = |names: &[String]| {
        let mut world = World::new(SLICES, 1);
        let mut pending = Pending::default();
        let pods: Vec<_> = names.iter().map(|name| named_pod(name)).collect();
        let services: Vec<_> = names.iter().map(|name| service(name, &[("a", "b")])).collect();
        let start = Processor::now();
        for facts in pods {
            pending.push(Event::Pod(facts, 0));
        }
        for facts in services {
            pending.push(Event::Service(facts, 0));
        }
        pending.apply(&mut world.state, &mut world.nodes);
        start.elapsed()
    };
    assert_near_linear("names", 1, || named(&harmless), || named(&colliding));
}

fn named_pod(name: &str) -> PodFacts {
    PodFacts {
        name: name.into(),
        ..pod(1, &[], true)
    }
}

/// What is planned and written for some pods and Services, in words.
fn history() -> String {
    let mut world = World::new(Outputs::ALL, 7);
    let mut told = String::new();
    for round in 0..3 {
        let mut pending = Pending::default();
        for app in 0..20 {
            pending.push(Event::Service(app_service(app), round));
            for number in 0..30 {
                let ready = (number + u32::from(round)) % 3 > 0;
                pending.push(Event::Pod(
                    app_pod(app, number + 10 * u32::from(round), 7, ready),
                    round,
                ));
            }
        }
        pending.push(Event::End(Kind::Pod, round, u64::from(round)));
        pending.apply(&mut world.state, &mut world.nodes);
        for want in world.state.plan() {
            let granted = world.state.grant(&want.object);
            writeln!(told, "{want:?} {granted:?}").unwrap();
            let remote = endpointd::core::object::Remote {
                uid: "u".into(),
                version: u64::from(round) + 1,
            };
            let written = endpointd::core::namespace::Outcome::Written(remote);
            world.state.outcome(&want.object, written, None);
        }
    }
    told
}

const KEY: &str = "ENDPOINTD_TEST_HASH_KEY";

#[test]
fn nothing_that_is_written_depends_on_the_key_of_hashes() {
    if let Ok(key) = std::env::var(KEY) {
        set_key(HashKey::new(key.parse().unwrap())).unwrap();
        print!("{}", history());
        return;
    }
    let told = ["1", "2"].map(|key| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "nothing_that_is_written_depends_on_the_key_of_hashes"])
            .args(["--nocapture", "--test-threads=1"])
            .env(KEY, key)
            .output()
            .unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let history: Vec<_> = text
            .lines()
            .filter(|line| line.contains("Want"))
            .map(str::to_owned)
            .collect();
        assert!(history.len() >= 100, "{}", history.len());
        history
    });
    assert_eq!(told[0], told[1]);
}

// === labels and selectors ===

#[test]
fn a_selector_of_ten_thousand_keys_is_compared_once_with_the_pods_that_have_them() {
    const KEYS: u32 = 10_000;
    const PODS: u32 = 10;
    let keys: Vec<_> = (0..KEYS).map(|i| format!("key-{i}")).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (&**key, "x")).collect();
    let mut world = World::new(SLICES, 1);
    for number in 0..PODS {
        let own = format!("pod-{number}");
        let mut labels = pairs.clone();
        labels.push(("own", &own));
        world.apply(pod(number, &labels, true));
    }
    let labels = u64::from(KEYS * (PODS + 1));
    let added = work_of(&mut world, |world| {
        world.state.apply_service(service("svc", &pairs), 0);
    });
    assert!(added.selector_evaluations <= u64::from(PODS), "{added:?}");
    assert!(added.pairs_compared <= 2 * labels, "{added:?}");
    assert_eq!(added.endpoints_visited, u64::from(PODS));
    // The same again, by other Services and for other pods.
    let again = work_of(&mut world, |world| {
        world.state.apply_service(service("other", &pairs), 0);
    });
    assert!(again.pairs_compared <= 2 * u64::from(KEYS), "{again:?}");
    let pod_added = work_of(&mut world, |world| world.apply(pod(PODS, &pairs, true)));
    assert!(pod_added.pairs_compared <= 4 * u64::from(KEYS), "{pod_added:?}");
    assert_eq!(pod_added.endpoints_visited, 2);
    for name in ["svc", "other"] {
        let gone = work_of(&mut world, |world| world.state.remove_service(name));
        assert!(gone.pairs_compared <= 2 * labels, "{gone:?}");
    }
}

#[test]
fn a_selector_is_not_compared_with_pods_that_lack_one_of_its_pairs() {
    let mut world = World::new(SLICES, 1);
    for number in 0..20_000 {
        world.apply(pod(number, &[("app", "a"), ("own", &number.to_string())], true));
    }
    let lacking = work_of(&mut world, |world| {
        world
            .state
            .apply_service(service("none", &[("app", "a"), ("no", "pod")]), 0);
        world
            .state
            .apply_service(service("one", &[("app", "a"), ("own", "7")]), 0);
    });
    assert_eq!(
        (lacking.selector_evaluations, lacking.endpoints_visited),
        (1, 1),
        "{lacking:?}"
    );
    let gone = work_of(&mut world, |world| world.state.remove_service("one"));
    assert_eq!(gone.selector_evaluations, 0, "{gone:?}");
    assert_eq!(world.state.sizes().label_sets, 0);
}

#[test]
fn services_with_one_selector_are_matched_once() {
    let mut world = World::new(SLICES, 1);
    for number in 0..10_000 {
        world
            .state
            .apply_service(service(&format!("svc-{number}"), &[("a", "1"), ("b", "1")]), 0);
    }
    let near = work_of(&mut world, |world| {
        world.apply(pod(1, &[("a", "1"), ("b", "2")], true));
    });
    assert!(near.selector_evaluations <= 1, "{near:?}");
    assert_eq!(near.endpoints_visited, 0);
}

#[test]
fn a_pod_in_thousands_of_services_costs_each_of_them_as_much_as_one_in_hundreds() {
    let life = |services: u32| {
        let mut world = World::new(SLICES, 1);
        for number in 0..services {
            world
                .state
                .apply_service(service(&format!("svc-{number}"), &[("app", "a")]), 0);
        }
        world.settle();
        world.apply(pod(1, &[("app", "a")], true));
        world.settle();
        let start = Processor::now();
        world.apply(pod(1, &[("app", "a")], false));
        world.apply(pod(1, &[("app", "a"), ("x", "y")], true));
        world.state.remove_pod(&pod(1, &[], true).name, &mut world.nodes);
        start.elapsed()
    };
    assert_near_linear("Services of a pod", 16, || life(500), || life(8000));
}

// === ports ===

fn container_port(number: u16) -> ContainerPort {
    ContainerPort {
        name: format!("port-{number}").into(),
        protocol: Protocol::Tcp,
        number,
    }
}

fn named_port(number: u16) -> ServicePort {
    ServicePort {
        name: format!("port-{number}").into(),
        protocol: Protocol::Tcp,
        target: TargetPort::Name(format!("port-{number}").into()),
        app_protocol: None,
    }
}

#[test]
fn ten_thousand_named_ports_are_looked_up_once_for_all_pods_of_a_template() {
    const PORTS: u16 = 10_000;
    const SERVICES: u64 = 4;
    for outputs in [SLICES, fixtures::ENDPOINTS, Outputs::ALL] {
        let mut world = World::new(outputs, 1);
        for number in 0..SERVICES {
            let ports = (0..PORTS).map(named_port).collect();
            let facts = service(&format!("svc-{number}"), &[("app", "a")]);
            world.state.apply_service(ServiceFacts { ports, ..facts }, 0);
        }
        world.state.plan();
        let many: Vec<_> = (0..PORTS).map(container_port).collect();
        let apply = |world: &mut World, number| {
            let facts = pod(number, &[("app", "a")], true);
            work_of(world, |world| {
                world.apply(PodFacts {
                    ports: many.clone(),
                    ..facts
                });
                world.state.plan();
            })
        };
        let first = apply(&mut world, 0);
        assert_eq!(first.ports_read, SERVICES * 2 * u64::from(PORTS), "{first:?}");
        for number in 1..20 {
            let next = apply(&mut world, number);
            assert_eq!(next.ports_read, 0, "{next:?}");
        }
        let edited = work_of(&mut world, |world| {
            let ports = (0..PORTS - 1).map(named_port).collect();
            let facts = service("svc-0", &[("app", "a")]);
            world.state.apply_service(ServiceFacts { ports, ..facts }, 0);
            world.state.plan();
        });
        assert_eq!(edited.ports_read, 2 * u64::from(PORTS) - 1, "{edited:?}");
    }
}

#[test]
fn pods_with_ports_of_their_own_cost_no_more_the_more_there_are() {
    let replace = |pods: u16| {
        let mut world = World::new(SLICES, 1);
        let facts = service("svc", &[("app", "a")]);
        let ports = vec![named_port(0)];
        world.state.apply_service(ServiceFacts { ports, ..facts }, 0);
        // Each has a group of its own: half of the groups lose their pod, the others get one more.
        let pods = |from: u32| {
            (1..=pods).map(move |number| PodFacts {
                ports: vec![ContainerPort {
                    number,
                    ..container_port(0)
                }],
                ..pod(from + u32::from(number), &[("app", "a")], true)
            })
        };
        for facts in pods(0) {
            world.apply(facts);
        }
        world.settle();
        let (old, new): (Vec<_>, Vec<_>) = (pods(0).collect(), pods(100_000).collect());
        let start = Processor::now();
        for facts in old.iter().step_by(2) {
            world.state.remove_pod(&facts.name, &mut world.nodes);
        }
        for facts in new {
            world.apply(facts);
        }
        let slices = world.state.plan().len();
        assert!(slices >= old.len());
        start.elapsed()
    };
    assert_near_linear("port groups", 16, || replace(500), || replace(8000));
}

#[test]
fn subsets_of_many_ports_and_many_addresses_are_compared_without_their_product() {
    let compare = |size: u16| {
        let subset = |ports: Vec<u16>| Subset {
            ports,
            ready: (0..size).collect(),
            not_ready: Vec::new(),
        };
        let one = [subset((0..size).collect())];
        let two = [
            subset((0..size / 2).collect()),
            subset((size / 2..size).collect()),
        ];
        let start = Processor::now();
        assert!(is_same(&one, &two));
        start.elapsed()
    };
    assert_near_linear("ports and addresses", 8, || compare(500), || compare(4000));
}

// === turns ===

/// A namespace in which much happens at once, and then a Service changes in every way.
fn much(events: &mut dyn FnMut(Vec<Event>)) {
    let pods = (0..700).map(|number| Event::Pod(app_pod(0, number, 7, number % 5 > 0), 0));
    let others = (1..40).flat_map(|app| {
        let pods = (0..3).map(move |number| Event::Pod(app_pod(app, number, 7, true), 0));
        pods.chain([Event::Service(app_service(app), 0)])
    });
    events(
        pods.chain(others)
            .chain([Event::Service(app_service(0), 0)])
            .collect(),
    );
    let changed = ServiceFacts {
        families: [true, true],
        ports: vec![named_port(1)],
        publish_not_ready: true,
        ..app_service(0)
    };
    events(vec![Event::Service(changed.clone(), 0)]);
    let reselected = ServiceFacts {
        selector: app_service(3).selector,
        families: [false, true],
        ..changed.clone()
    };
    events(vec![Event::Service(reselected, 0)]);
    events(vec![Event::Service(app_service(0), 0)]);
    let unmanaged = ServiceFacts {
        selector: None,
        ..changed.clone()
    };
    events(vec![Event::Service(unmanaged, 0)]);
    events(vec![
        Event::Service(changed, 0),
        Event::ServiceGone("app-7".into()),
    ]);
    let anew = ServiceFacts {
        uid: "another".into(),
        ..app_service(0)
    };
    events(vec![
        Event::Service(anew, 0),
        Event::PodGone(app_pod(0, 3, 7, true).name),
    ]);
    let listed = (0..100).map(|number| Event::Pod(app_pod(0, number, 7, true), 1));
    events(listed.chain([Event::End(Kind::Pod, 1, 9)]).collect());
}

#[test]
fn what_is_done_in_steps_ends_as_if_it_were_done_at_once() {
    // In which order objects are named may differ, and so may how urgent they are said to be before a plan is whole.
    let names = |wants: &[Want]| -> BTreeSet<String> {
        let names = wants
            .iter()
            .map(|want| format!("{} {}", want.object.output, want.object.name));
        names.collect()
    };
    for units in [1, 7, 100, 1000] {
        let (mut whole, mut cut) = (World::new(Outputs::ALL, 7), World::new(Outputs::ALL, 7));
        let mut steps = 0;
        much(&mut |events| {
            let (mut pending, mut same) = (Pending::default(), Pending::default());
            for event in events {
                pending.push(event.clone());
                same.push(event);
            }
            same.apply(&mut whole.state, &mut whole.nodes);
            let mut applying = pending.begin();
            while !applying.step(&mut cut.state, &mut cut.nodes, &mut Budget::new(units)) {
                steps += 1;
            }
            let wants = whole.state.plan();
            let mut cut_wants = Vec::new();
            while !cut.state.step_plan(&mut cut_wants, &mut Budget::new(units)) {
                steps += 1;
            }
            assert_eq!(names(&wants), names(&cut_wants));
            for want in &wants {
                let (one, other) = (whole.state.grant(&want.object), cut.state.grant(&want.object));
                assert_eq!(one, other, "{want:?}");
                if one.is_some() {
                    let outcome = || {
                        let remote = endpointd::core::object::Remote {
                            uid: "u".into(),
                            version: steps + 1,
                        };
                        match &one.as_ref().unwrap().request {
                            endpointd::core::body::Request::Delete(_) => {
                                endpointd::core::namespace::Outcome::Deleted
                            }
                            _ => endpointd::core::namespace::Outcome::Written(remote),
                        }
                    };
                    let again = whole.state.outcome(&want.object, outcome(), None);
                    assert_eq!(again, cut.state.outcome(&want.object, outcome(), None));
                }
            }
        });
        assert_eq!(whole.state.sizes(), cut.state.sizes());
        assert_eq!(whole.state.totals(), cut.state.totals());
        assert!(steps > 1500 / units, "{units}: {steps} steps");
    }
}

#[test]
fn a_step_does_no_more_than_its_budget_and_one_piece() {
    const UNITS: u64 = 500;
    let mut world = World::new(SLICES, 1);
    let mut pending = Pending::default();
    for number in 0..20_000 {
        pending.push(Event::Pod(pod(number, &[("app", "a")], true), 0));
    }
    for number in 0..200 {
        let selector = if number == 0 { ("app", "a") } else { ("app", "b") };
        pending.push(Event::Service(service(&format!("svc-{number}"), &[selector]), 0));
    }
    let mut applying = pending.begin();
    let mut most = 0;
    loop {
        let before = world.state.work().total();
        let done = applying.step(&mut world.state, &mut world.nodes, &mut Budget::new(UNITS));
        most = most.max(world.state.work().total() - before);
        if done {
            break;
        }
    }
    assert!(most <= 2 * UNITS, "{most} units in one step");
    let mut wants = Vec::new();
    let mut steps = 0;
    while !world.state.step_plan(&mut wants, &mut Budget::new(UNITS)) {
        steps += 1;
    }
    assert_eq!(
        wants.len(),
        200 + 199,
        "200 slices of one Service, and one of each other"
    );
    assert!(
        steps >= 1,
        "the large Service is one piece, the others come after it"
    );
}

/// Lets a namespace take events in and plan, turn by turn. Returns how many turns that took, and how much of the
/// processor's time the longest took of the whole.
fn turns(world: &mut World, events: Vec<Event>) -> (usize, f64) {
    const TURN: u64 = 10_000;
    let mut pending = Pending::default();
    for event in events {
        pending.push(event);
    }
    let (mut turns, mut longest, mut all) = (0, Duration::ZERO, Duration::ZERO);
    let mut turn = |step: &mut dyn FnMut() -> bool| {
        let start = Processor::now();
        let done = step();
        let took = start.elapsed();
        (turns, longest, all) = (turns + 1, longest.max(took), all + took);
        done
    };
    let mut applying = pending.begin();
    while !turn(&mut || applying.step(&mut world.state, &mut world.nodes, &mut Budget::new(TURN))) {}
    let mut wants = Vec::new();
    while !turn(&mut || world.state.step_plan(&mut wants, &mut Budget::new(TURN))) {}
    world.write_all(&wants);
    (turns, longest.as_secs_f64() / all.as_secs_f64())
}

#[test]
fn labels_and_selectors_of_thousands_of_pairs_are_compared_in_turns() {
    const PAIRS: usize = 5000;
    const SERVICES: usize = 100;
    let keys: Vec<_> = (0..PAIRS).map(|key| format!("key-{key}")).collect();
    let own: Vec<_> = (0..SERVICES).map(|key| format!("own-{key}")).collect();
    let common = || keys.iter().map(|key| -> (&str, &str) { (key, "x") });
    let labelled = |number: u32, value: &str| {
        let own = own.iter().map(|key| (&**key, "x"));
        let mut labels: Vec<(&str, &str)> = common().chain(own).collect();
        labels.push(("changes", value));
        Event::Pod(pod(number, &labels, true), 0)
    };
    let selecting = |number: usize| {
        let selector: Vec<_> = common().chain([(&*own[number], "x")]).collect();
        Event::Service(service(&format!("svc-{number}"), &selector), 0)
    };
    let mut world = World::new(Outputs::ALL, 1);
    turns(&mut world, (0..SERVICES).map(selecting).collect());
    let (count, longest) = turns(&mut world, vec![labelled(1, "a")]);
    assert!(
        count > 10 && longest < 0.25,
        "a pod: {count} turns, the longest {longest:.2} of all"
    );
    let (count, longest) = turns(&mut world, vec![labelled(1, "b")]);
    assert!(
        count > 10 && longest < 0.25,
        "the same pod: {count} turns, the longest {longest:.2} of all"
    );
    // And the other way about: a selector that is new, and many pods.
    let mut world = World::new(Outputs::ALL, 1);
    let pods = (0..100).map(|number| labelled(number, &number.to_string()));
    turns(&mut world, pods.collect());
    let (count, longest) = turns(&mut world, vec![selecting(0)]);
    assert!(
        count > 10 && longest < 0.25,
        "a Service: {count} turns, the longest {longest:.2} of all"
    );
    let sizes = world.state.sizes();
    assert_eq!((sizes.full_sets, sizes.label_sets), (100, 1));
}

#[test]
fn ports_that_differ_from_pod_to_pod_are_resolved_in_turns() {
    const PORTS: u16 = 1000;
    let with_ports = |number: u32| {
        let mut facts = pod(number, &[("app", "a")], true);
        facts.ports = (0..PORTS)
            .map(|port| ContainerPort {
                name: format!("port-{port}").into(),
                protocol: Protocol::Tcp,
                number: if port == 0 { 10_000 + number as u16 } else { port },
            })
            .collect();
        Event::Pod(facts, 0)
    };
    let served = |last: u16| ServiceFacts {
        ports: (0..PORTS).chain([last]).map(named_port).collect(),
        ..service("svc", &[("app", "a")])
    };
    for outputs in [SLICES, fixtures::ENDPOINTS] {
        let mut world = World::new(outputs, 1);
        turns(&mut world, (0..200).map(with_ports).collect());
        for last in [PORTS, PORTS + 1] {
            let (count, longest) = turns(&mut world, vec![Event::Service(served(last), 0)]);
            assert!(
                count > 5 && longest < 0.4,
                "{outputs:?}: {count} turns, the longest {longest:.2} of all"
            );
        }
    }
}

#[test]
fn hints_that_look_at_all_endpoints_are_given_in_turns() {
    let mut world = World::new(SLICES, 1);
    let pods = (0..1000).map(|number| Event::Pod(pod(number, &[("app", "a")], true), 0));
    let services = (0..200).map(|number| {
        let facts = ServiceFacts {
            hints: endpointd::core::hints::HintMode::Auto,
            ..service(&format!("svc-{number}"), &[("app", "a")])
        };
        Event::Service(facts, 0)
    });
    turns(&mut world, pods.chain(services).collect());
    let (count, longest) = turns(&mut world, vec![Event::Pod(pod(3, &[("app", "a")], false), 0)]);
    assert!(
        count > 10 && longest < 0.25,
        "{count} turns, the longest {longest:.2} of all"
    );
}
