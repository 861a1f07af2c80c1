//! A namespace does its work in turns, whatever a single pod or Service of it costs: others are not to wait for
//! all of it.

use crate::fixtures::{self, SLICES, World, app_pod, app_service, named_port, pod, service};
use crate::processor::Processor;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::facts::ServiceFacts;
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::{Kind, WorkItem};
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::{ContainerPort, Protocol};
use endpointd::core::work::TurnBudget;
use std::collections::BTreeSet;
use std::time::Duration;

/// A namespace in which much happens at once, and then a Service changes in every way.
fn much(events: &mut dyn FnMut(Vec<Change>)) {
    let pods = (0..700).map(|number| Change::Pod(app_pod(0, number, 7, number % 5 > 0), 0));
    let others = (1..40).flat_map(|app| {
        let pods = (0..3).map(move |number| Change::Pod(app_pod(app, number, 7, true), 0));
        pods.chain([Change::Service(app_service(app), 0)])
    });
    events(
        pods.chain(others)
            .chain([Change::Service(app_service(0), 0)])
            .collect(),
    );
    let changed = ServiceFacts {
        families: [true, true],
        ports: [named_port(1)].into(),
        publish_not_ready: true,
        ..app_service(0)
    };
    events(vec![Change::Service(changed.clone(), 0)]);
    let reselected = ServiceFacts {
        selector: app_service(3).selector,
        families: [false, true],
        ..changed.clone()
    };
    events(vec![Change::Service(reselected, 0)]);
    events(vec![Change::Service(app_service(0), 0)]);
    let unmanaged = ServiceFacts {
        selector: None,
        ..changed.clone()
    };
    events(vec![Change::Service(unmanaged, 0)]);
    events(vec![
        Change::Service(changed, 0),
        Change::ServiceGone("app-7".into()),
    ]);
    let anew = ServiceFacts {
        uid: "another".into(),
        ..app_service(0)
    };
    events(vec![
        Change::Service(anew, 0),
        Change::PodGone(app_pod(0, 3, 7, true).name),
    ]);
    let listed = (0..100).map(|number| Change::Pod(app_pod(0, number, 7, true), 1));
    events(listed.chain([Change::End(Kind::Pod, 1, 9)]).collect());
    // Another process may have written, and everything has gone when it is listed again.
    let outputs = [Kind::Slice, Kind::Endpoints];
    events(outputs.map(Change::Forget).to_vec());
    events(vec![Change::Pod(app_pod(0, 5, 7, false), 1)]);
    events(outputs.map(|kind| Change::End(kind, 1, 10)).to_vec());
}

#[test]
fn work_in_steps_ends_as_work_at_once_does() {
    // In which order objects are named may differ, and so may how urgent they are said to be before a plan is whole.
    let names = |items: &[WorkItem]| -> BTreeSet<String> {
        let names = items
            .iter()
            .map(|item| format!("{} {}", item.object.output, item.object.name));
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
            while !applying.step(&mut cut.state, &mut cut.nodes, &mut TurnBudget::new(units)) {
                steps += 1;
            }
            let items = whole.state.plan();
            let mut cut_items = Vec::new();
            while !cut.state.step_plan(&mut cut_items, &mut TurnBudget::new(units)) {
                steps += 1;
            }
            assert_eq!(names(&items), names(&cut_items));
            for item in &items {
                let (one, other) = (
                    whole.state.build_request(&item.object, &mut Protobuf),
                    cut.state.build_request(&item.object, &mut Protobuf),
                );
                assert_eq!(one, other, "{item:?}");
                if one.is_some() {
                    let outcome = || {
                        let remote = endpointd::core::object::Remote {
                            uid: "u".into(),
                            version: steps + 1,
                        };
                        match &one.as_ref().unwrap().request {
                            endpointd::core::body::Request::Delete(_) => {
                                endpointd::core::namespace::Outcome::Deleted(None)
                            }
                            _ => endpointd::core::namespace::Outcome::Written(remote),
                        }
                    };
                    let again = whole.state.apply_outcome(&item.object, outcome(), None);
                    assert_eq!(again, cut.state.apply_outcome(&item.object, outcome(), None));
                }
            }
        });
        assert_eq!(whole.state.sizes(), cut.state.sizes());
        assert_eq!(whole.state.totals(), cut.state.totals());
        assert!(steps > 1500 / units, "{units}: {steps} steps");
    }
}

/// An endpoint that moves is in its new slice before it leaves the old one, so what adds goes first.
#[test]
fn what_is_released_in_turns_adds_before_it_removes() {
    let mut world = World::of_one_large(SLICES, 100, 0, 1);
    world.apply(app_pod(0, 100, 1, true));
    let mut granted = world.state.plan();
    let gone = app_pod(0, 5, 1, true).name;
    world.state.remove_pod(&gone, &mut world.nodes);
    granted.extend(world.state.plan());
    let names: Vec<_> = granted.iter().map(|item| item.object.name.clone()).collect();
    assert_eq!(names.len(), 2, "a new slice, and the first one");
    world.state.begin_list(Kind::Pod);
    for item in &granted {
        let built = world.state.build_request(&item.object, &mut Protobuf);
        assert!(built.is_none(), "a list is awaited");
    }
    world.state.end_list(Kind::Pod, 0, 9, &mut world.nodes);
    let mut items = Vec::new();
    while !world.state.step_plan(&mut items, &mut TurnBudget::new(1)) {}
    let released: Vec<_> = items.iter().map(|item| item.object.name.clone()).collect();
    assert_eq!(released, names, "the new slice first");
}

#[test]
fn a_step_does_no_more_than_its_budget_and_one_piece() {
    const UNITS: u64 = 500;
    let mut world = World::new(SLICES, 1);
    let mut pending = Pending::default();
    for number in 0..20_000 {
        pending.push(Change::Pod(pod(number, &[("app", "a")], true), 0));
    }
    for number in 0..200 {
        let selector = if number == 0 { ("app", "a") } else { ("app", "b") };
        pending.push(Change::Service(service(&format!("svc-{number}"), &[selector]), 0));
    }
    let mut applying = pending.begin();
    let mut most = 0;
    loop {
        let before = world.state.work().total();
        let done = applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::new(UNITS));
        most = most.max(world.state.work().total() - before);
        if done {
            break;
        }
    }
    assert!(most <= 2 * UNITS, "{most} units in one step");
    // The Services without a pod wait a moment.
    while let Some(at) = world.state.next_look_at_deferral() {
        world.state.look_at_deferral(at);
    }
    let mut items = Vec::new();
    let mut steps = 0;
    while !world.state.step_plan(&mut items, &mut TurnBudget::new(UNITS)) {
        steps += 1;
    }
    assert_eq!(
        items.len(),
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
fn turns(world: &mut World, events: Vec<Change>) -> (usize, f64) {
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
    while !turn(&mut || applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::for_a_turn())) {}
    let mut items = Vec::new();
    while !turn(&mut || world.state.step_plan(&mut items, &mut TurnBudget::for_a_turn())) {}
    world.write_all(&items);
    (turns, longest.as_secs_f64() / all.as_secs_f64())
}

/// A world that took these events in more than `turns_at_least` turns, none of which took `share` of the whole or more. A
/// busy machine makes a turn longer, and never shorter: so it may be tried three times, each from the beginning.
fn in_turns(
    (turns_at_least, share): (usize, f64),
    what: &str,
    prepare: impl Fn() -> World,
    events: impl Fn() -> Vec<Change>,
) -> World {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let mut world = prepare();
        let (count, longest) = turns(&mut world, events());
        assert!(count > turns_at_least, "{what}: {count} turns");
        if longest < share {
            return world;
        }
        least = least.min(longest);
    }
    panic!("{what}: the longest turn is {least:.2} of all");
}

/// Pods that each of the Services selects.
fn shared_by_all(pods: u32, services: u32, edit: impl Fn(ServiceFacts) -> ServiceFacts) -> World {
    let mut world = World::new(SLICES, 1);
    let pods = (0..pods).map(|number| Change::Pod(pod(number, &[("app", "a")], true), 0));
    let services = (0..services).map(|number| {
        let facts = service(&format!("svc-{number}"), &[("app", "a")]);
        Change::Service(edit(facts), 0)
    });
    turns(&mut world, pods.chain(services).collect());
    world
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
        Change::Pod(pod(number, &labels, true), 0)
    };
    let selecting = |number: usize| {
        let selector: Vec<_> = common().chain([(&*own[number], "x")]).collect();
        Change::Service(service(&format!("svc-{number}"), &selector), 0)
    };
    let of_services = || {
        let mut world = World::new(Outputs::ALL, 1);
        turns(&mut world, (0..SERVICES).map(selecting).collect());
        world
    };
    let of_a_pod = || in_turns((10, 0.25), "a pod", of_services, || vec![labelled(1, "a")]);
    in_turns((10, 0.25), "the same pod", of_a_pod, || vec![labelled(1, "b")]);
    // And the other way about: a selector that is new, and many pods.
    let of_pods = || {
        let mut world = World::new(Outputs::ALL, 1);
        let pods = (0..100).map(|number| labelled(number, &number.to_string()));
        turns(&mut world, pods.collect());
        world
    };
    let world = in_turns((10, 0.25), "a Service", of_pods, || vec![selecting(0)]);
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
        Change::Pod(facts, 0)
    };
    let served = |last: u16| ServiceFacts {
        ports: (0..PORTS).chain([last]).map(named_port).collect(),
        ..service("svc", &[("app", "a")])
    };
    for outputs in [SLICES, fixtures::ENDPOINTS] {
        let of_pods = || {
            let mut world = World::new(outputs, 1);
            turns(&mut world, (0..200).map(with_ports).collect());
            world
        };
        let what = format!("{outputs:?}");
        let serve = |last: u16| vec![Change::Service(served(last), 0)];
        let of_a_service = || in_turns((5, 0.4), &what, of_pods, || serve(PORTS));
        in_turns((5, 0.4), &what, of_a_service, || serve(PORTS + 1));
    }
}

#[test]
fn hints_that_look_at_all_endpoints_are_given_in_turns() {
    let hinted = |facts| ServiceFacts {
        hints: endpointd::core::hints::HintMode::Auto,
        ..facts
    };
    let flip = || vec![Change::Pod(pod(3, &[("app", "a")], false), 0)];
    in_turns((10, 0.25), "a flip", || shared_by_all(1000, 200, hinted), flip);
}

#[test]
fn slices_with_hundreds_of_thousands_of_places_are_forgotten_in_turns() {
    let forget = || vec![Change::Forget(Kind::Slice)];
    in_turns(
        (10, 0.4),
        "a term",
        || shared_by_all(2000, 100, |facts| facts),
        forget,
    );
}
