//! The cost of a change, counted instead of timed.

use crate::fixtures::{self, ENDPOINTS, SLICES, World, node_name, pod, service};
use endpointd::cluster::codec::Protobuf;
use endpointd::core::facts::PodFacts;
use endpointd::core::ids::Uid;
use endpointd::core::labels::Labels;
use endpointd::core::namespace::Outcome;
use endpointd::core::object::Remote;
use endpointd::core::outputs::Outputs;
use endpointd::core::subsets::MAX_ADDRESSES;
use endpointd::core::work::{TurnBudget, Work};
use std::ops::Range;

/// The cost of an event and of the writes that it leads to.
fn cost(world: &mut World, pod: PodFacts) -> Work {
    cost_of(world, |world| world.apply(pod))
}

fn cost_of(world: &mut World, event: impl FnOnce(&mut World)) -> Work {
    let before = world.state.work();
    event(world);
    world.settle();
    // The work on bodies is their size, which is left out here.
    Work {
        bytes_built: 0,
        ..world.state.work() - before
    }
}

const APP: [(&str, &str); 1] = [("app", "a")];

/// The cost of a change of one endpoint in one slice.
fn one_endpoint() -> Work {
    Work {
        selector_evaluations: 0,
        endpoints_visited: 1,
        addresses_visited: 0,
        slices_touched: 1,
        evaluations: 1,
        ..Work::default()
    }
}

/// A Service with the ready pods of these numbers, not published yet.
fn filled(outputs: Outputs, pods: Range<u32>) -> World {
    let mut world = World::new(outputs, 1);
    world.state.apply_service(service("svc", &APP), 0);
    for number in pods {
        world.apply(pod(number, &APP, true));
    }
    world
}

#[test]
fn a_pod_event_reaches_only_the_services_it_matches() {
    const SERVICES: u32 = 5000;
    let mut world = World::new(SLICES, 1);
    let mut selectors = Vec::new();
    for i in 0..SERVICES {
        // All share one pair, as the Services of one chart do, so only the other one tells them apart.
        let facts = service(
            &format!("svc-{i}"),
            &[("chart", "web"), ("shard", &i.to_string())],
        );
        selectors.push(facts.selector.clone().unwrap());
        world.state.apply_service(facts, 0);
    }
    world.settle();
    let labels = [("chart", "web"), ("shard", "7"), ("pod-template-hash", "abc")];

    let new = cost(&mut world, pod(1, &labels, true));
    assert!(new.selector_evaluations <= 2, "a label set that is new: {new:?}");
    assert_eq!((new.endpoints_visited, new.evaluations), (1, 1), "{new:?}");
    let known = cost(&mut world, pod(2, &labels, true));
    assert_eq!(
        known.selector_evaluations, 0,
        "a label set that is known: {known:?}"
    );
    let flip = cost(&mut world, pod(2, &labels, false));
    assert_eq!(flip, one_endpoint());
    let gone = cost(
        &mut world,
        PodFacts {
            terminal: true,
            ..pod(2, &labels, false)
        },
    );
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

/// Selectors of annotations, with sets, existence and exclusion.
#[test]
fn a_pod_event_reaches_only_the_annotated_services_that_it_matches() {
    const SERVICES: u32 = 20_000;
    let mut world = World::new(fixtures::CUSTOM, 1);
    for app in 0..SERVICES {
        world.state.apply_service(fixtures::annotated_service(app), 0);
    }
    world.settle();
    let labels = [("app", "old-7"), ("chart", "web"), ("pod-template-hash", "abc")];
    let new = cost(&mut world, pod(1, &labels, true));
    assert_eq!(new.selector_evaluations, 1, "a label set that is new: {new:?}");
    assert_eq!((new.endpoints_visited, new.evaluations), (1, 1), "{new:?}");
    let known = cost(&mut world, pod(2, &labels, true));
    assert_eq!(
        known.selector_evaluations, 0,
        "a label set that is known: {known:?}"
    );
    assert_eq!(cost(&mut world, pod(2, &labels, false)), one_endpoint());

    // Selectors that only exclude labels are compared with each set of labels once, whatever happens to its pods.
    for app in 0..10 {
        let mut facts = fixtures::annotated_service(SERVICES + app);
        facts.annotated = Some(Box::new((&*format!("app!=app-{app}")).into()));
        world.state.apply_service(facts, 0);
    }
    world.settle();
    let labels = [("app", "app-3"), ("chart", "web")];
    let new = cost(&mut world, pod(3, &labels, true));
    assert_eq!(new.selector_evaluations, 11, "{new:?}");
    assert_eq!(cost(&mut world, pod(4, &labels, true)).selector_evaluations, 0);
    let flip = cost(&mut world, pod(4, &labels, false));
    assert_eq!((flip.selector_evaluations, flip.evaluations), (0, 10), "{flip:?}");
}

#[test]
fn the_cost_of_a_flip_does_not_depend_on_the_size_of_the_service() {
    let mut costs = Vec::new();
    for pods in [100, 1000, 20_000] {
        let mut world = filled(SLICES, 0..pods);
        assert_eq!(
            world.settle(),
            usize::try_from(pods).unwrap() / 100,
            "slices of 100 pods each"
        );
        costs.push(cost(&mut world, pod(pods / 2, &APP, false)));
    }
    assert_eq!(costs[0], one_endpoint());
    assert!(costs.iter().all(|cost| *cost == costs[0]), "{costs:?}");
}

#[test]
fn an_unchanged_pod_costs_nothing() {
    let mut world = filled(SLICES, 1..2);
    world.settle();
    assert_eq!(cost(&mut world, pod(1, &APP, true)), Work::default());
}

#[test]
fn flips_while_a_write_is_in_flight_are_one_more_write() {
    let mut world = filled(SLICES, 1..2);
    world.settle();
    world.apply(pod(1, &APP, false));
    let [item] = &world.state.plan()[..] else {
        panic!("one slice is due")
    };
    assert_eq!(
        world
            .state
            .build_request(&item.object, &mut Protobuf)
            .unwrap()
            .changes,
        1
    );
    for i in 0..1001 {
        world.apply(pod(1, &APP, i % 2 == 0));
        assert_eq!(world.state.plan(), [], "nothing more is asked for while it flies");
    }
    let remote = Remote {
        uid: Uid::from("s"),
        version: 2,
    };
    let again = world
        .state
        .apply_outcome(&item.object, Outcome::Written(remote), None)
        .unwrap();
    assert_eq!(
        world
            .state
            .build_request(&again.object, &mut Protobuf)
            .unwrap()
            .changes,
        501,
        "each flip away from what is published counts"
    );
    let remote = Remote {
        uid: Uid::from("s"),
        version: 3,
    };
    assert_eq!(
        world
            .state
            .apply_outcome(&again.object, Outcome::Written(remote), None),
        None
    );
    assert_eq!(world.settle(), 0);
}

#[test]
fn a_flip_costs_endpoints_what_is_written_and_no_more() {
    let mut costs = Vec::new();
    for pods in [100, 1000, 20_000] {
        let mut world = filled(ENDPOINTS, 0..pods);
        assert_eq!(world.settle(), 1, "one object");
        let flip = cost(&mut world, pod(0, &APP, false));
        assert_eq!((flip.selector_evaluations, flip.evaluations), (0, 1), "{flip:?}");
        costs.push(flip.addresses_visited);
    }
    let limit = MAX_ADDRESSES as u64;
    // The pod itself, and each address that is written.
    assert_eq!(costs, [1 + 100, 1 + limit, 1 + limit]);
}

#[test]
fn endpoints_are_built_when_their_turn_comes_and_not_for_each_event() {
    let mut world = filled(ENDPOINTS, 0..500);
    world.settle();
    let burst = cost_of(&mut world, |world| {
        let mut items = Vec::new();
        for number in 0..100 {
            world.apply(pod(number, &APP, false));
            items.extend(world.state.plan());
        }
        assert_eq!((items.len(), world.write_all(&items).0), (100, 1));
    });
    assert_eq!(burst.addresses_visited, 100 + 500, "{burst:?}");
}

#[test]
fn an_unchanged_pod_costs_endpoints_nothing() {
    let mut world = filled(Outputs::ALL, 1..2);
    world.settle();
    assert_eq!(cost(&mut world, pod(1, &APP, true)), Work::default());
}

#[test]
fn a_node_that_changes_costs_its_own_pods() {
    let mut world = World::new(SLICES, 2);
    world.state.apply_service(service("svc", &APP), 0);
    for number in 0..5000 {
        let facts = pod(number, &APP, true);
        let node = u32::from(number < 30);
        world.apply(PodFacts {
            node: Some(node_name(node)),
            ..facts
        });
    }
    world.settle();
    let moved = cost_of(&mut world, |world| {
        let zone = fixtures::zone(2);
        let change = world.nodes.apply(&node_name(1), zone, 0).unwrap();
        world.state.begin_node(change.view);
        assert!(world.state.step_passes(&mut TurnBudget::unlimited()));
    });
    assert_eq!(
        (moved.endpoints_visited, moved.slices_touched),
        (30, 1),
        "{moved:?}"
    );
}

#[test]
fn pods_that_come_and_go_cost_themselves_and_the_slices_they_touch() {
    let mut costs = Vec::new();
    for pods in [1000, 20_000] {
        let mut world = filled(SLICES, 0..pods);
        world.settle();
        costs.push(cost_of(&mut world, |world| {
            for number in 0..10 {
                let name = pod(number * 90, &[], true).name;
                world.state.remove_pod(&name, &mut world.nodes);
            }
            for number in 0..10 {
                world.apply(pod(pods + number, &APP, true));
            }
        }));
    }
    assert_eq!((costs[0].endpoints_visited, costs[0].evaluations), (10, 1));
    assert!(costs[0].slices_touched <= 10, "{costs:?}");
    assert_eq!(costs[0], costs[1]);
}
