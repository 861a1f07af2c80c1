//! Services of very many slices or pods that start, stop and change: each slice and pod is visited, so they are visited in
//! steps, and charged for.

use super::Cost;
use super::many::{MANY, change, world};
use crate::fixtures::{SLICES, World, pod, service};
use crate::protobuf;
use endpointd::core::facts::{PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::inbox::Change;
use endpointd::core::labels::Labels;
use endpointd::core::namespace::{NamespaceState, OutputEvent, PendingLists, Settings};
use endpointd::core::time::Time;
use serde_json::json;

/// The number of slices with an endpoint each.
const SLICES_OF_ONE: u32 = 5_000;

/// A Service of another controller, or of none.
fn stopped(service: &ServiceFacts) -> ServiceFacts {
    ServiceFacts {
        selector: None,
        selectorless: true,
        ..service.clone()
    }
}

fn slice(number: u32) -> SliceFacts {
    let slice = json!({
        "metadata": {
            "name": format!("s-{number}"), "namespace": "ns", "uid": format!("uid-{number}"), "resourceVersion": "5",
            "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "s", "controller": true}],
        },
        "addressType": "IPv4", "ports": [], "endpoints": [],
    });
    protobuf::facts("EndpointSlice", &slice)
}

#[test]
fn slices_of_a_service_that_starts_and_stops_are_visited_in_steps() {
    let mut world = world();
    let started = service("s", &[("app", "a")]);
    world.state.apply_service(stopped(&started), 0);
    for number in 0..MANY {
        world.state.apply_output(OutputEvent::slice(slice(number), 0));
    }
    world.state.plan();
    for _ in 0..2 {
        let mut start = Cost::default();
        start.apply(&mut world, change(vec![Change::Service(started.clone(), 0)]));
        start.hold("slices of a Service that starts");
        assert!(start.units >= u64::from(MANY), "{start:?}");
        let wanted = world.state.plan().len();
        assert!(wanted >= MANY as usize, "each is read: {wanted}");
        let mut stop = Cost::default();
        stop.apply(&mut world, change(vec![Change::Service(stopped(&started), 0)]));
        stop.hold("slices of a Service that stops");
        assert!(stop.units >= u64::from(MANY), "{stop:?}");
        assert!(
            world.state.plan().is_empty(),
            "what another controller has is left alone"
        );
    }
}

#[test]
fn pods_of_a_service_that_stops_and_starts_are_visited_in_steps() {
    let mut world = World::new(SLICES, 1);
    let started = service("s", &[("app", "a")]);
    world.state.apply_service(started.clone(), 0);
    for number in 0..MANY {
        let pod = PodFacts {
            ready_time: Some(Time::from_seconds(100 + i64::from(number))),
            ..pod(number, &[("app", "a")], true)
        };
        world.apply(pod);
    }
    world.settle();
    for (what, service) in [("stops", stopped(&started)), ("starts", started)] {
        let mut cost = Cost::default();
        cost.apply(&mut world, change(vec![Change::Service(service, 0)]));
        cost.hold(&format!("pods of a Service that {what}"));
        // The visits are charged for to the budget alone.
        assert!(cost.units >= u64::from(MANY) / 64, "{what}: {cost:?}");
    }
}

#[test]
fn slices_of_a_service_that_changes_are_visited_in_steps() {
    let mut world = World::new(SLICES, 1);
    let settings = Settings {
        max_endpoints: 1,
        outputs: SLICES,
        ..Settings::default()
    };
    world.state = NamespaceState::new("ns".into(), settings, PendingLists::NONE);
    let made = ServiceFacts {
        families: [true, true],
        ..service("s", &[("app", "a")])
    };
    world.state.apply_service(made.clone(), 0);
    for number in 0..SLICES_OF_ONE {
        world.apply(pod(number, &[("app", "a")], true));
    }
    world.settle();
    let labelled = ServiceFacts {
        labels: [("tier", "web")].into_iter().collect::<Labels>(),
        ..made.clone()
    };
    let mut cost = Cost::default();
    cost.apply(&mut world, change(vec![Change::Service(labelled.clone(), 0)]));
    cost.hold("slices that get other labels");
    assert!(cost.units >= u64::from(SLICES_OF_ONE), "{cost:?}");
    assert_eq!(
        world.settle(),
        SLICES_OF_ONE as usize + 1,
        "one slice is for no pod"
    );
    let single = ServiceFacts {
        families: [false, true],
        ..labelled
    };
    let mut cost = Cost::default();
    cost.apply(&mut world, change(vec![Change::Service(single, 0)]));
    cost.hold("slices of a family that goes");
    assert!(cost.units >= u64::from(SLICES_OF_ONE), "{cost:?}");
    assert_eq!(world.settle(), SLICES_OF_ONE as usize);
}
