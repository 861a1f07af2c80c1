//! Messages to users: about objects that others have changed, once they are put right, and about nodes that do not
//! exist.

use crate::model::{EndpointsTamper, Fate, Model, PodSpec, ServiceSpec};
use crate::ops::{self, Tamper};
use endpointd::core::body::Request;
use endpointd::core::events::Notice;
use endpointd::core::namespace::Notification;
use endpointd::core::object::{Interference, Output};
use endpointd::core::work::TurnBudget;

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
    assert_eq!(model.state.take_notifications(), []);
    model
}

/// Lets the state put everything right, and returns what it says was done to objects.
fn corrected(model: &mut Model) -> Vec<(Output, Interference)> {
    model.converge();
    assert_eq!(model.published(), model.expected());
    // A deletion is told once it is certain that the Service has not gone with the object.
    while let Some(due) = model.state.next_look() {
        assert!(model.state.look_at_one(due));
    }
    let told = model.state.take_notifications().into_iter();
    told.map(|told| match told {
        Notification::Corrected {
            object,
            service,
            interference,
        } => {
            assert_eq!(&*service, "svc-0");
            (object.output, interference)
        }
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn a_slice_that_was_put_right_is_reported_once() {
    let changed = || Interference::Changed { editor: None };
    for (tamper, interference) in [
        (Tamper::Delete, Interference::Removed),
        (Tamper::Disown, Interference::Removed),
        (Tamper::DropEndpoint, changed()),
        (Tamper::DoubleEndpoint, changed()),
        (Tamper::WrongAddress, changed()),
        (Tamper::ExtraLabel, changed()),
        (Tamper::OtherPorts, changed()),
    ] {
        let mut model = published();
        let name = model.store.keys().next().unwrap().clone();
        ops::tamper_with(&mut model, &name, tamper);
        assert_eq!(
            corrected(&mut model),
            [(Output::Slice, interference)],
            "{tamper:?}"
        );
        // Later changes have nothing to do with it.
        model.pod_gone("pod-1");
        assert_eq!(corrected(&mut model), [], "{tamper:?}");
    }
}

/// An API server deletes Endpoints with their Service, and the watch of Endpoints may show that first: it was logged as
/// a deletion by another client for each Service that came back under its name.
#[test]
fn an_object_that_went_with_its_service_is_not_reported_when_that_comes_back() {
    for comes_back in [true, false] {
        let mut model = published();
        let name = model.store.keys().next().unwrap().clone();
        ops::tamper_with(&mut model, &name, Tamper::Delete);
        model.converge();
        model.service_gone("svc-0");
        if comes_back {
            let again = ServiceSpec {
                generation: 1,
                ..ServiceSpec::plain()
            };
            model.service(again.facts());
        }
        model.converge();
        while let Some(due) = model.state.next_look() {
            assert!(model.state.look_at_one(due));
        }
        assert_eq!(model.state.take_notifications(), [], "{comes_back}");
    }
}

#[test]
fn an_edit_of_a_slice_that_is_no_longer_managed_is_not_reported_later() {
    let mut model = published();
    let name = model.store.keys().next().unwrap().clone();
    ops::tamper_with(&mut model, &name, Tamper::WrongAddress);
    read_all(&mut model);
    let unmanaged = ServiceSpec {
        external: true,
        ..ServiceSpec::plain()
    };
    model.service(unmanaged.facts());
    assert_eq!(corrected(&mut model), []);
    model.pod_gone("pod-1");
    model.service(ServiceSpec::plain().facts());
    model.converge();
    assert_eq!(model.state.take_notifications(), []);
}

#[test]
fn endpoints_that_were_put_right_are_reported_once() {
    let changed = || Interference::Changed { editor: None };
    for (tamper, interference) in [
        (EndpointsTamper::Delete, Some(Interference::Removed)),
        (EndpointsTamper::DropSubset, Some(changed())),
        (EndpointsTamper::WrongAddress, Some(changed())),
        (EndpointsTamper::NotReady, Some(changed())),
        (EndpointsTamper::ExtraLabel, Some(changed())),
        (EndpointsTamper::OverCapacity, Some(changed())),
        (EndpointsTamper::ForeignAnnotation, None),
        (EndpointsTamper::Reorder, None),
    ] {
        let mut model = published();
        let name = model.endpoints.keys().next().unwrap().clone();
        model.tamper_with_endpoints(&name, tamper);
        let told: Vec<_> = interference
            .map(|done| (Output::Endpoints, done))
            .into_iter()
            .collect();
        assert_eq!(corrected(&mut model), told, "{tamper:?}");
        assert_eq!(model.published_endpoints(), model.expected_endpoints());
        model.pod_gone("pod-1");
        assert_eq!(corrected(&mut model), [], "{tamper:?}");
    }
}

/// Shows the state what the watch has, and lets it read what has changed.
fn read_all(model: &mut Model) {
    while !model.watch.is_empty() {
        model.watch_one();
    }
    model.plan();
    while !model.pending.is_empty() {
        assert_eq!(model.grant(0), Some(Request::Fetch));
    }
    for name in model.in_flight.keys().cloned().collect::<Vec<_>>() {
        model.answer(&name, Fate::Carried);
    }
}

#[test]
fn an_edit_that_is_taken_back_before_the_write_is_not_reported() {
    let mut model = published();
    let (name, before) = model.store.first_key_value().unwrap();
    let (name, before) = (name.clone(), before.clone());
    let endpoints = model.endpoints.first_key_value().unwrap();
    let (object, as_it_was) = (endpoints.0.clone(), endpoints.1.clone());
    ops::tamper_with(&mut model, &name, Tamper::WrongAddress);
    model.tamper_with_endpoints(&object, EndpointsTamper::WrongAddress);
    read_all(&mut model);
    model.put_slice(before);
    model.put_endpoints(as_it_was);
    read_all(&mut model);
    assert_eq!(corrected(&mut model), []);
    model.pod_gone("pod-1");
    assert_eq!(corrected(&mut model), []);
}

#[test]
fn an_edit_that_becomes_right_before_the_write_is_not_reported() {
    let mut model = published();
    let name = model.store.keys().next().unwrap().clone();
    ops::tamper_with(&mut model, &name, Tamper::DropEndpoint);
    let left = model.store[&name].endpoints[0].pod.clone().unwrap();
    read_all(&mut model);
    // The pod whose endpoint was taken out goes, and then the write's turn comes.
    let gone = ["pod-0", "pod-1"].into_iter().find(|pod| **pod != *left);
    model.pod_gone(gone.unwrap());
    assert_eq!(corrected(&mut model), []);
    model.pod_gone(&left);
    assert_eq!(corrected(&mut model), []);
}

#[test]
fn objects_that_go_with_their_service_are_no_ones_interference() {
    let mut model = published();
    // The garbage collector may be seen first.
    let name = model.store.keys().next().unwrap().clone();
    model.delete_slice(&name);
    model.delete_endpoints(&"svc-0".into());
    while !model.watch.is_empty() {
        model.watch_one();
    }
    model.service_gone("svc-0");
    assert_eq!(corrected(&mut model), []);
    // And a Service of the same name begins anew.
    model.service(
        ServiceSpec {
            generation: 1,
            ..ServiceSpec::plain()
        }
        .facts(),
    );
    assert_eq!(corrected(&mut model), []);
}

/// The Events and log lines about nodes since the last call.
fn told_of_nodes(model: &mut Model) -> (Vec<String>, Vec<String>) {
    let (mut events, mut lines) = (Vec::new(), Vec::new());
    for told in model.state.take_notifications() {
        match told {
            Notification::Event(Notice {
                involved,
                reason,
                message,
                warning: true,
                ..
            }) => events.push(format!("{} {reason}: {message}", involved.name)),
            Notification::UnknownNode { node, pod } => lines.push(format!("{node} {pod}")),
            other => panic!("{other:?}"),
        }
    }
    (events, lines)
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
        assert_eq!(
            told_of_nodes(&mut model),
            (vec![], vec![]),
            "round {round}: too early"
        );
        look(&mut model, 1);
        let event = "svc-0 FailedToUpdateEndpointSlices: Pods on node node-0, which does not exist, are left out: pod-0, pod-1";
        assert_eq!(
            told_of_nodes(&mut model),
            (vec![event.to_owned()], vec!["node-0 pod-0".to_owned()]),
            "round {round}"
        );
        look(&mut model, LOOKS);
        assert_eq!(told_of_nodes(&mut model), (vec![], vec![]), "said already");
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
    assert_eq!(told_of_nodes(&mut model), (vec![], vec![]));
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
    assert_eq!(told_of_nodes(&mut model), (vec![], vec![]));
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
    assert_eq!(told_of_nodes(&mut model), (vec![], vec![]));
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
    assert_eq!(told_of_nodes(&mut model), (vec![], vec![]));
    model.service(ServiceSpec::plain().facts());
    model.converge();
    look(&mut model, LOOKS);
    let (events, lines) = told_of_nodes(&mut model);
    assert_eq!((events.len(), lines.len()), (1, 1), "{events:?}");
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
    let (events, lines) = told_of_nodes(&mut model);
    assert_eq!((events.len(), lines.len()), (20, 1), "{events:?}");
    assert!(events[0].ends_with(" and others"), "{events:?}");
}
