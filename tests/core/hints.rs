//! Zone hints of whole Services, while nodes, pods and writes of others come in between.

use crate::lifecycle::first_slice;
use crate::model::{self, Model, PodSpec, ServiceSpec};
use crate::ops::{Op, happen, start};
use crate::properties::plain_service;
use endpointd::core::facts::SliceFacts;
use endpointd::core::hints::HintMode;

#[test]
fn zones_that_change_while_no_service_depends_on_them_are_not_missed() {
    let mut model = start(2);
    for (name, node) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        model.pod(
            PodSpec {
                name,
                node: Some(node),
                ..PodSpec::plain()
            }
            .facts(),
        );
    }
    let auto = ServiceSpec {
        hints: HintMode::Auto,
        ..ServiceSpec::plain()
    };
    model.service(auto.facts());
    model.converge();
    let hinted = |model: &Model| {
        model
            .store
            .values()
            .flat_map(|s| &s.endpoints)
            .filter(|e| !e.zone_hints.is_empty())
            .count()
    };
    assert_eq!(hinted(&model), 4);
    // The Service stops to depend on zones; before the state has noticed, a node makes the zones unclear.
    model.service(
        ServiceSpec {
            selector: None,
            ..auto.clone()
        }
        .facts(),
    );
    model.node(2, None);
    model.service(auto.facts());
    model.converge();
    assert_eq!(hinted(&model), 0);
    model.check_balanced_hints().unwrap();
    // And they come back when the node is gone, without any event of the Service or its pods.
    model.node_gone(2);
    model.converge();
    assert_eq!(hinted(&model), 4);
}

/// A pod goes while a request is on its way, and the next request leaves before the Service is looked at again: it
/// has the hints of before, which must not stay.
#[test]
fn hints_that_left_too_early_are_put_right() {
    let pod = |name| PodSpec {
        name,
        labels: 4,
        v4: false,
        v6: true,
        ..PodSpec::plain()
    };
    let service = ServiceSpec {
        selector: Some(8),
        ports: 1,
        families: [false, true],
        hints: HintMode::Auto,
        ..plain_service(0)
    };
    let mut model = start(2);
    for op in [
        Op::Pod(pod(5)),
        Op::Service(service),
        Op::Plan,
        Op::Pod(pod(0)),
        Op::NodeGone(2),
        Op::Grant(0),
        Op::Plan,
        Op::PodGone(0),
        Op::Answer(0, model::Fate::Carried),
        Op::Grant(0),
        Op::Grant(0),
    ] {
        happen(&mut model, &op);
    }
    model.converge();
    assert_eq!(hints(&model), [0], "one endpoint cannot serve two zones");
    assert_eq!(model.restarted(1).plan(), []);
}

/// A Service with hints by zone, two ready pods in two zones, and one that is not ready, published.
fn two_zones() -> (Model, impl Fn(u8, bool) -> PodSpec) {
    let pod = |name, ready| PodSpec {
        name,
        node: Some(name % 2),
        ready,
        ..PodSpec::plain()
    };
    let service = ServiceSpec {
        hints: HintMode::Auto,
        ..plain_service(0)
    };
    let mut model = start(10);
    for (name, ready) in [(0, true), (1, true), (2, false)] {
        model.pod(pod(name, ready).facts());
    }
    model.service(service.facts());
    model.converge();
    (model, pod)
}

/// The number of hints in each slice.
fn hints(model: &Model) -> Vec<usize> {
    let of_slice = |slice: &SliceFacts| slice.endpoints.iter().map(|e| e.zone_hints.len()).sum();
    model.store.values().map(of_slice).collect()
}

/// A pod becomes ready, and three endpoints cannot be shared out to two zones. It is not ready again before that was written.
#[test]
fn hints_that_left_for_a_change_that_came_back_come_back_too() {
    let (mut model, pod) = two_zones();
    assert_eq!(hints(&model), [2]);
    model.pod(pod(2, true).facts());
    model.plan();
    model.pod(pod(2, false).facts());
    model.converge();
    assert_eq!(hints(&model), [2], "two endpoints for two zones");
}

/// Another client puts an endpoint into a slice, which then need not be written for it: hints are looked at all the same.
#[test]
fn hints_leave_with_an_endpoint_that_another_client_has_put_there() {
    let (mut model, pod) = two_zones();
    assert_eq!(hints(&model), [2]);
    let new = pod(4, true).facts();
    let (_, mut slice) = first_slice(&model);
    let mut endpoint = slice.endpoints[0].clone();
    endpoint.addresses = vec![new.v4.unwrap().to_string().into()];
    (endpoint.pod, endpoint.pod_uid) = (Some(new.name.clone()), Some(new.uid.clone()));
    endpoint.zone_hints.clear();
    slice.endpoints.push(endpoint);
    model.pod(new);
    model.put_slice(slice);
    happen(&mut model, &Op::Relist);
    model.converge();
    assert_eq!(
        hints(&model),
        [0],
        "three endpoints cannot be shared out to two zones"
    );
}
