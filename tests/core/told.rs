//! Messages to users: about objects that others have changed, once they are put right, and about nodes that do not
//! exist.

use crate::model::{EndpointsTamper, Model, PodSpec, ServiceSpec};
use crate::ops::{self, Tamper};
use endpointd::core::events::Notice;
use endpointd::core::object::Output;
use endpointd::core::work::TurnBudget;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Two pods and a Service, published in a slice and an Endpoints object.
fn published() -> Model {
    let mut model = ops::start(100);
    for name in 0..2 {
        let pod = PodSpec {
            name,
            ..PodSpec::plain()
        };
        model.pod(pod.facts());
    }
    model.service(ServiceSpec::plain().facts());
    model.converge();
    assert_eq!((model.store.len(), model.endpoints.len()), (1, 1));
    assert_eq!(model.state.take_notices(), []);
    model
}

/// Has a change of another client put right, and returns what users are told.
fn put_right(model: &mut Model) -> Vec<Notice> {
    model.converge();
    assert_eq!(model.published(), model.expected());
    assert_eq!(model.published_endpoints(), model.expected_endpoints());
    model.state.take_notices()
}

/// One who edits an object once or twice, by hand, is no second writer. One who goes on is told of once an hour, and counted.
#[test]
fn changes_by_others_are_told_from_the_third_on_and_once_an_hour() {
    #[derive(Clone, Copy, Debug)]
    enum Change {
        Slice(Tamper),
        Endpoints(EndpointsTamper),
    }
    let cases = [
        (Output::Slice, Change::Slice(Tamper::Delete)),
        (Output::Slice, Change::Slice(Tamper::WrongAddress)),
        (Output::Slice, Change::Slice(Tamper::ExtraLabel)),
        (Output::Endpoints, Change::Endpoints(EndpointsTamper::Delete)),
        (
            Output::Endpoints,
            Change::Endpoints(EndpointsTamper::WrongAddress),
        ),
    ];
    let change = |model: &mut Model, change| match change {
        Change::Slice(tamper) => {
            let name = model.store.keys().next().unwrap().clone();
            ops::tamper_with(model, &name, tamper);
        }
        Change::Endpoints(tamper) => model.tamper_with_endpoints(&"svc-0".into(), tamper),
    };
    for (output, kind) in cases {
        let mut model = published();
        for number in 1..=60 {
            model.state.advance(MINUTE * number);
            change(&mut model, kind);
            let told = put_right(&mut model);
            let reasons: Vec<_> = told.iter().map(|notice| notice.reason).collect();
            let expected: &[&str] = if number == 3 {
                &["AnotherControllerWrites"]
            } else {
                &[]
            };
            assert_eq!(reasons, expected, "{output} {number}");
        }
        let mut counted = [0; 3];
        counted[output as usize] = 58;
        assert_eq!(model.state.take_contested(), counted);
        for number in 61..=65 {
            model.state.advance(MINUTE * number);
            change(&mut model, kind);
            assert_eq!(
                put_right(&mut model).len(),
                usize::from(number == 63),
                "{output} {number}"
            );
        }
    }
}

/// Edits with ten quiet minutes in between are no quarrel.
#[test]
fn changes_by_others_are_forgotten_after_ten_quiet_minutes() {
    let mut model = published();
    let name = model.store.keys().next().unwrap().clone();
    for number in 1..=20 {
        model.state.advance(10 * MINUTE * number);
        ops::tamper_with(&mut model, &name, Tamper::WrongAddress);
        assert_eq!(put_right(&mut model), []);
        // Writes of our own are no reason to remember them.
        model.state.advance(10 * MINUTE * number + 5 * MINUTE);
        let mut pod = PodSpec::plain();
        pod.ready = number % 2 == 0;
        model.pod(pod.facts());
        assert_eq!(put_right(&mut model), []);
    }
    assert_eq!(model.state.take_contested(), [0; 3]);
}

/// What the API server and the garbage collector delete with a Service is nobody's interference.
#[test]
fn objects_that_go_with_their_service_are_no_ones_interference() {
    let mut model = published();
    for generation in 1..=10 {
        // The watches of the objects may show it first.
        let name = model.store.keys().next().unwrap().clone();
        model.delete_slice(&name);
        model.delete_endpoints(&"svc-0".into());
        while !model.watch.is_empty() {
            model.watch_one();
        }
        model.service_gone("svc-0");
        let again = ServiceSpec {
            generation,
            ..ServiceSpec::plain()
        };
        model.service(again.facts());
        assert_eq!(put_right(&mut model), []);
    }
    assert_eq!(model.state.take_contested(), [0; 3]);
}

/// The notices about nodes since the last call.
fn told_of_nodes(model: &mut Model) -> Vec<String> {
    let told = model.state.take_notices().into_iter();
    told.map(
        |Notice {
             involved,
             reason,
             message,
             warning,
             ..
         }| {
            assert!(warning);
            format!("{} {reason}: {message}", involved.name)
        },
    )
    .collect()
}

/// The looks after which a node is reported.
const LOOKS: usize = 8;

fn look(model: &mut Model, times: usize) {
    for _ in 0..times {
        model.state.begin_look_at_unknown_nodes();
        assert!(model.state.step_passes(&mut TurnBudget::unlimited()));
    }
}

/// The node of both pods goes, and others with their names take their place: they are left out.
fn leave_out(model: &mut Model, generation: u8) {
    model.node_gone(0);
    for name in 0..2 {
        model.pod_gone(&format!("pod-{name}"));
        let pod = PodSpec {
            name,
            generation,
            ..PodSpec::plain()
        };
        model.pod(pod.facts());
    }
    model.converge();
}

#[test]
fn a_node_that_is_missing_at_eight_looks_is_reported_once_until_it_has_been_there() {
    let mut model = published();
    for round in 0..2 {
        leave_out(&mut model, round + 1);
        assert!(model.state.has_unknown_nodes());
        look(&mut model, LOOKS - 1);
        assert_eq!(told_of_nodes(&mut model), [""; 0], "round {round}: too early");
        look(&mut model, 1);
        let event = "svc-0 FailedToUpdateEndpointSlices: Pods on node node-0, which does not exist, are left out: pod-0, pod-1";
        assert_eq!(told_of_nodes(&mut model), [event], "round {round}");
        look(&mut model, LOOKS);
        assert_eq!(told_of_nodes(&mut model), [""; 0], "said already");
        assert!(!model.state.has_unknown_nodes());
        model.node(0, Some(0));
        model.converge();
    }
}

#[test]
fn a_node_that_goes_while_its_pods_are_published_is_not_reported() {
    let mut model = published();
    let writes = model.writes;
    model.node_gone(0);
    model.converge();
    look(&mut model, LOOKS);
    assert_eq!(told_of_nodes(&mut model), [""; 0]);
    assert_eq!(model.writes, writes, "and nothing is written");
}

#[test]
fn a_node_that_comes_late_or_whose_pods_go_is_not_reported() {
    let mut model = published();
    leave_out(&mut model, 1);
    look(&mut model, LOOKS - 1);
    model.node(0, Some(0));
    look(&mut model, 1);
    assert!(!model.state.has_unknown_nodes());
    leave_out(&mut model, 2);
    // The looks while the node was missing before do not count.
    look(&mut model, LOOKS - 1);
    model.pod_gone("pod-0");
    model.pod_gone("pod-1");
    assert!(!model.state.has_unknown_nodes());
    look(&mut model, LOOKS);
    model.converge();
    assert_eq!(told_of_nodes(&mut model), [""; 0]);
}

#[test]
fn nodes_matter_to_services_that_leave_their_pods_out() {
    let mut model = published();
    let all = ServiceSpec {
        publish_not_ready: true,
        ..ServiceSpec::plain()
    };
    model.service(all.facts());
    model.node_gone(0);
    look(&mut model, LOOKS + 1);
    model.converge();
    assert_eq!(told_of_nodes(&mut model), [""; 0]);
}

#[test]
fn a_service_that_comes_after_its_pods_were_looked_at_is_told_of_their_node() {
    let mut model = ops::start(100);
    let pod = PodSpec {
        name: 0,
        node: Some(9),
        ..PodSpec::plain()
    };
    model.pod(pod.facts());
    model.converge();
    look(&mut model, 3 * LOOKS);
    assert_eq!(told_of_nodes(&mut model), [""; 0]);
    model.service(ServiceSpec::plain().facts());
    model.converge();
    look(&mut model, LOOKS);
    let events = told_of_nodes(&mut model);
    assert_eq!(events.len(), 1, "{events:?}");
}

#[test]
fn an_owner_of_many_services_and_pods_causes_few_events_for_a_node() {
    let mut model = ops::start(100);
    for name in 0..60 {
        let service = ServiceSpec {
            name,
            ..ServiceSpec::plain()
        };
        model.service(service.facts());
    }
    for name in 0..100 {
        let pod = PodSpec {
            name,
            node: Some(9),
            ..PodSpec::plain()
        };
        model.pod(pod.facts());
    }
    model.converge();
    look(&mut model, LOOKS);
    let events = told_of_nodes(&mut model);
    assert_eq!(events.len(), 20, "{events:?}");
    assert!(events[0].ends_with(" and others"), "{events:?}");
}
