//! The cost of objects that the owner of one namespace can write, up to the limits of the API, grows about as they do.

use crate::fixtures::{self, SLICES, World, app_pod, app_service, named_port, pod, service};
use crate::processor::Processor;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::facts::{PodFacts, ServiceFacts};
use endpointd::core::hash::{HashKey, set_key};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::Kind;
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{ContainerPort, Protocol};
use endpointd::core::selector::Selector;
use endpointd::core::subsets::{Subset, is_same};
use endpointd::core::work::Work;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::process::Command;
use std::time::Duration;

/// `many` is `times` as large as `few`, and may take four times as long as that. Each is measured until it does, ten times at most: what a
/// busy machine does to a time drops out.
pub(crate) fn assert_near_linear(
    what: &str,
    times: u32,
    mut few: impl FnMut() -> Duration,
    mut many: impl FnMut() -> Duration,
) {
    let (mut short, mut long) = (Duration::MAX, Duration::MAX);
    for round in 1..=10 {
        (short, long) = (short.min(few()), long.min(many()));
        if round >= 3 && long <= 4 * times * short {
            return;
        }
    }
    panic!("{what}: {times} times as much took {long:?} instead of {short:?}");
}

fn work_of(world: &mut World, event: impl FnOnce(&mut World)) -> Work {
    let before = world.state.work();
    event(world);
    world.state.work() - before
}

// === hashes ===

/// Label keys of 48 bytes that all have one hash in `rustc-hash`, which the tables used before.
///
/// That hash mixes 48 bytes as `t1 = mix(S1 ^ a, P ^ b)`, `t2 = mix(S2 ^ c, P ^ d)`, and in the end
/// `mix(t1 ^ e, t2 ^ f)`, with constants that are public. So a tenant who chooses `e = t1 ^ C` and `f = t2 ^ D` has the
/// same end each time. One in some 58,000 of random `a` and `b` leads to an `e` of letters and digits; and each
/// `a, b, e` that does goes with each `c, d, f`.
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
            pending.push(Change::Pod(facts, 0));
        }
        for facts in services {
            pending.push(Change::Service(facts, 0));
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

/// The plans and writes for some pods and Services, in words.
fn history() -> String {
    let mut world = World::new(Outputs::ALL, 7);
    let mut text = String::new();
    for round in 0..3 {
        let mut pending = Pending::default();
        for app in 0..20 {
            pending.push(Change::Service(app_service(app), round));
            for number in 0..30 {
                let ready = (number + u32::from(round)) % 3 > 0;
                pending.push(Change::Pod(
                    app_pod(app, number + 10 * u32::from(round), 7, ready),
                    round,
                ));
            }
        }
        pending.push(Change::End(Kind::Pod, round, u64::from(round)));
        pending.apply(&mut world.state, &mut world.nodes);
        for item in world.state.plan() {
            let built = world.state.build_request(&item.object, &mut Protobuf);
            writeln!(text, "{item:?} {built:?}").unwrap();
            let remote = endpointd::core::object::Remote {
                uid: "u".into(),
                version: u64::from(round) + 1,
            };
            let written = endpointd::core::namespace::Outcome::Written(remote);
            world.state.apply_outcome(&item.object, written, None);
        }
    }
    text
}

const KEY: &str = "ENDPOINTD_TEST_HASH_KEY";

#[test]
fn nothing_that_is_written_depends_on_the_key_of_hashes() {
    if let Ok(key) = std::env::var(KEY) {
        set_key(HashKey::new(key.parse().unwrap())).unwrap();
        print!("{}", history());
        return;
    }
    let histories = ["1", "2"].map(|key| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tenants::nothing_that_is_written_depends_on_the_key_of_hashes",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env(KEY, key)
            .output()
            .unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let history: Vec<_> = text
            .lines()
            .filter(|line| line.contains("WorkItem"))
            .map(str::to_owned)
            .collect();
        assert!(history.len() >= 100, "{}", history.len());
        history
    });
    assert_eq!(histories[0], histories[1]);
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
        let gone = work_of(&mut world, |world| world.remove_service(name));
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
    let gone = work_of(&mut world, |world| world.remove_service("one"));
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
        let ports = [named_port(0)].into();
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
