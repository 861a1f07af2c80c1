//! The lifecycle of single objects: the state between a cluster and a server, both made up by the test.

use crate::model::{CustomSpec, Fate, Model, PodSpec, ServiceSpec};
use crate::ops;
use endpointd::core::address::Family;
use endpointd::core::body::Request;
use endpointd::core::facts::{PodFacts, SliceFacts};
use endpointd::core::namespace::{Kind, OutputEvent};
use endpointd::core::object::{ObjectName, Output};
use endpointd::core::priority::Priority;

pub(super) fn pod(name: u8, labels: u8) -> PodSpec {
    PodSpec {
        name,
        labels,
        ..PodSpec::plain()
    }
}

/// Pods `0` and on with all labels 0, and one Service that selects them, published.
pub(super) fn published(pods: u8, limit: usize) -> Model {
    let mut model = ops::start(limit);
    for name in 0..pods {
        model.pod(pod(name, 0).facts());
    }
    model.service(ServiceSpec::plain().facts());
    model.converge();
    model
}

/// The first slice on the server, by name.
pub(super) fn first_slice(model: &Model) -> (Box<str>, SliceFacts) {
    let (name, slice) = model.store.first_key_value().unwrap();
    (name.clone(), slice.clone())
}

/// Puts a pod into a slice, in which there is another.
pub(super) fn add(slice: &mut SliceFacts, pod: &PodFacts) {
    let mut endpoint = slice.endpoints[0].clone();
    endpoint.addresses = vec![pod.v4.unwrap().to_string().into()];
    endpoint.pod = Some(pod.name.clone());
    endpoint.pod_uid = Some(pod.uid.clone());
    slice.endpoints.push(endpoint);
}

/// The watch shows all that has happened.
pub(super) fn watch_all(model: &mut Model) {
    while !model.watch.is_empty() {
        model.watch_one();
    }
}

/// Plans, and grants the request of an object.
pub(super) fn send(model: &mut Model, name: &ObjectName) -> Request {
    model.plan();
    let at = model.pending.iter().position(|pending| pending == name).unwrap();
    model.grant(at).unwrap()
}

/// Plans, and grants the request of the slice that is due first.
pub(super) fn send_slice(model: &mut Model) -> ObjectName {
    model.plan();
    let of_slice = |name: &&ObjectName| name.output == Output::Slice;
    let slice = model.pending.iter().find(of_slice).unwrap().clone();
    send(model, &slice);
    slice
}

/// The priority in which Endpoints are due after a change of their Service.
fn priority_after(change: &ServiceSpec) -> Option<Priority> {
    let mut model = published(2, 3);
    // Bit 0 is the label that the plain Service selects by.
    model.pod(pod(2, 1).facts());
    let mut unready = pod(3, 1);
    unready.ready = false;
    model.pod(unready.facts());
    model.converge();
    model.service(change.facts());
    let items = model.plan();
    let mut endpoints = items
        .iter()
        .filter(|item| item.object.output == Output::Endpoints);
    endpoints.next().map(|item| item.priority)
}

/// An address that a change of the Service takes out of its Endpoints must stop receiving traffic as soon as one whose
/// pod has gone.
#[test]
fn endpoints_that_lose_addresses_to_a_change_of_their_service_are_urgent() {
    let plain = ServiceSpec::plain;
    for (what, change, priority) in [
        (
            "another selector",
            ServiceSpec {
                selector: Some(1),
                ..plain()
            },
            Priority::Remove,
        ),
        (
            "other ports",
            ServiceSpec { ports: 1, ..plain() },
            Priority::Remove,
        ),
        (
            "other labels",
            ServiceSpec { labels: 1, ..plain() },
            Priority::Rest,
        ),
        (
            "nothing that Endpoints show",
            ServiceSpec {
                families: [true, true],
                ..plain()
            },
            Priority::Rest,
        ),
    ] {
        assert_eq!(priority_after(&change), Some(priority), "{what}");
    }
    // The slice loses no endpoint, and gains one.
    let mut model = published(1, 3);
    let mut unready = pod(1, 0);
    unready.ready = false;
    model.pod(unready.facts());
    model.converge();
    let change = ServiceSpec {
        publish_not_ready: true,
        ..plain()
    };
    model.service(change.facts());
    let priorities: Vec<_> = model.plan().iter().map(|item| item.priority).collect();
    assert_eq!(priorities, [Priority::Add, Priority::Add]);
}

/// The priorities in which slices and Endpoints are due after a change of a pod.
fn priorities_after(model: &mut Model, changed: PodFacts) -> Vec<Priority> {
    model.pod(changed);
    model.plan().iter().map(|item| item.priority).collect()
}

/// The priorities in which slices that the server has are due.
fn priorities_of_slices(model: &mut Model) -> Vec<Priority> {
    let items = model.plan().into_iter();
    let slices = items.filter(|item| item.object.output == Output::Slice && item.exists);
    slices.map(|item| item.priority).collect()
}

/// A ready pod is deleted and made again under its name, and is ready again by the time that this is seen: both events were
/// merged, or a watch was cut. Clients send traffic to the address that is gone until the new one is written.
#[test]
fn an_address_that_another_replaces_is_as_urgent_as_one_that_is_removed() {
    let reborn = PodSpec {
        generation: 1,
        ..pod(0, 0)
    };
    let mut model = published(2, 3);
    let priorities = priorities_after(&mut model, reborn.facts());
    assert_eq!(priorities, [Priority::Remove, Priority::Remove]);
    let mut next = model.restarted(0);
    assert_eq!(
        priorities_of_slices(&mut next),
        [Priority::Remove],
        "another process takes over"
    );
    // One that is not ready is sent traffic while no other is.
    let mut model = published(1, 3);
    let leaving = |generation| PodSpec {
        generation,
        terminating: true,
        ..pod(0, 0)
    };
    model.pod(leaving(0).facts());
    model.converge();
    assert_eq!(
        priorities_after(&mut model, leaving(1).facts()),
        [Priority::Remove]
    );
}

#[test]
fn an_address_that_another_replaces_under_other_ports_leaves_its_slice_at_once() {
    let with_ports = |generation, ports| {
        let spec = PodSpec {
            generation,
            ports,
            ..pod(0, 0)
        };
        spec.facts()
    };
    for (generation, priority) in [(0, Priority::Add), (1, Priority::Remove)] {
        let mut model = ops::start(3);
        model.pod(with_ports(0, 1));
        model.service(
            ServiceSpec {
                ports: 1,
                ..ServiceSpec::plain()
            }
            .facts(),
        );
        model.converge();
        model.pod(with_ports(generation, 2));
        assert_eq!(priorities_of_slices(&mut model), [priority]);
    }
}

#[test]
fn a_pod_that_keeps_its_address_or_gets_no_traffic_is_not_urgent() {
    let mut other_uid = pod(0, 0).facts();
    other_uid.uid = "another".into();
    let other_node = PodSpec {
        node: Some(1),
        ..pod(0, 0)
    };
    let hostname = PodSpec {
        host: Some(0),
        ..pod(0, 0)
    };
    for changed in [other_uid, other_node.facts(), hostname.facts()] {
        let priorities = priorities_after(&mut published(2, 3), changed.clone());
        assert_eq!(priorities, [Priority::Rest, Priority::Rest], "{changed:?}");
    }
    let mut model = published(2, 3);
    let unready = |generation| PodSpec {
        generation,
        ready: false,
        ..pod(0, 0)
    };
    model.pod(unready(0).facts());
    model.converge();
    let priorities = priorities_after(&mut model, unready(1).facts());
    assert_eq!(priorities, [Priority::Rest, Priority::Rest]);
}

/// Others fill one of our slices with pods that have no place yet, while the slices are listed again: those beyond the
/// limit get a place elsewhere.
#[test]
fn endpoints_that_others_add_do_not_fill_a_slice_above_its_limit() {
    let mut model = published(2, 2);
    let (name, mut slice) = first_slice(&model);
    model.epoch += 1;
    model.state.begin_list(Kind::Slice);
    for number in 2..5 {
        let facts = pod(number, 0).facts();
        add(&mut slice, &facts);
        model.pod(facts);
    }
    model.put_slice(slice);
    model.watch.clear();
    model
        .state
        .apply_output(OutputEvent::slice(model.store[&name].clone(), model.epoch));
    model
        .state
        .end_list(Kind::Slice, model.epoch, model.version, &mut model.nodes);
    model.converge();
    // This checks the limit, too.
    assert_eq!(model.published(), model.expected());
    assert_eq!(model.store.len(), 3);
}

/// A slice that an older limit or an older controller allowed is adopted as it is.
#[test]
fn a_slice_above_the_limit_is_taken_over_as_it_is() {
    let mut model = published(5, 5);
    model.limit = 2;
    let mut fresh = model.restarted(0);
    assert_eq!(fresh.plan(), []);
    fresh.pod_gone("pod-0");
    fresh.converge();
    let sizes: Vec<_> = fresh.store.values().map(|slice| slice.endpoints.len()).collect();
    assert_eq!(sizes, [4]);
}

/// Upstream takes a slice for a Service's own if any of its owners is that Service.
#[test]
fn a_slice_whose_second_owner_is_its_service_is_kept_with_both() {
    let mut model = published(2, 3);
    let name = model.store.keys().next().unwrap().clone();
    ops::tamper_with(&mut model, &name, ops::Tamper::SecondOwner);
    let owners = model.store[&name].extras.owners.clone();
    assert_eq!(owners.len(), 2);
    for mut model in [model.restarted(0), model] {
        model.pod(pod(2, 0).facts());
        model.converge();
        assert_eq!(model.store.keys().collect::<Vec<_>>(), [&name]);
        assert_eq!(model.published(), model.expected());
        assert_eq!(
            model.store[&name].extras.owners, owners,
            "the owner references stay as others wrote them, which name a controller"
        );
    }
}

/// Its Service goes, and with it its Endpoints: the server deletes them, and refuses the request that would. The Service
/// comes again with the same pods before the next try.
#[test]
fn endpoints_that_went_while_their_deletion_was_on_its_way_are_made_again_with_their_service() {
    for fate in [
        Fate::Throttled,
        Fate::Rejected,
        Fate::Lost,
        Fate::CarriedUnanswered,
    ] {
        let mut model = published(2, 3);
        let service = ServiceSpec::plain();
        let name = service.facts().name;
        let object = ObjectName::endpoints(name.clone());
        model.service_gone(&name);
        model.let_wait_end();
        assert!(
            matches!(send(&mut model, &object), Request::Delete(_)),
            "{fate:?}"
        );
        if fate == Fate::CarriedUnanswered {
            model.answer(&object, fate);
            watch_all(&mut model);
        } else {
            model.delete_endpoints(&name);
            watch_all(&mut model);
            model.answer(&object, fate);
        }
        model.service(service.facts());
        model.converge();
        assert_eq!(
            model.published_endpoints(),
            model.expected_endpoints(),
            "{fate:?}"
        );
    }
}

/// A Service without a selector and its Endpoints, which users keep by hand, are both replaced while the watch of
/// Services is broken: its next list shows another Service of that name.
#[test]
fn endpoints_that_people_keep_are_not_deleted_when_their_service_is_replaced() {
    let mut model = published(1, 3);
    let by_hand = ServiceSpec {
        name: 1,
        selector: None,
        ..ServiceSpec::plain()
    };
    let name = by_hand.facts().name;
    model.service(by_hand.facts());
    model.converge();
    let mut facts = model.endpoints.values().next().unwrap().clone();
    facts.meta.name = name.clone();
    facts.meta.ours = false;
    model.put_endpoints(facts.clone());
    model.converge();
    assert!(model.endpoints.contains_key(&name));
    model.delete_endpoints(&name);
    model.put_endpoints(facts);
    watch_all(&mut model);
    let mut other = by_hand.facts();
    other.uid = "another".into();
    model.service(other);
    model.converge();
    assert!(model.endpoints.contains_key(&name), "it belongs to people");
}

/// API servers fill in the families of a headless Service from before dual-stack in lists, and not in events of a watch.
#[test]
fn a_service_whose_events_leave_out_its_families_keeps_those_of_the_list() {
    let mut model = published(2, 3);
    let mut listed = ServiceSpec::plain().facts();
    (listed.headless, listed.no_cluster_ip) = (true, true);
    model.service(listed.clone());
    model.converge();
    let slices = model.store.len();
    assert!(model.store.values().all(|slice| slice.family == Some(Family::V4)));

    let mut event = listed.clone();
    event.families = [false; 2];
    event.endpoints_family = None;
    model.service(event.clone());
    assert_eq!(model.plan(), [], "nothing has changed");
    event.labels = [("event", "another")].into_iter().collect();
    model.service(event.clone());
    model.converge();
    assert_eq!(
        model.store.len(),
        slices,
        "and no family has come with another change"
    );
    assert!(model.store.values().all(|slice| slice.family == Some(Family::V4)));

    // Another Service of that name is not that one: as for kube-controller-manager, it is in both.
    event.uid = ServiceSpec {
        generation: 7,
        ..ServiceSpec::plain()
    }
    .facts()
    .uid;
    model.service(event);
    model.converge();
    let has = |family| model.store.values().any(|slice| slice.family == Some(family));
    assert!(has(Family::V4) && has(Family::V6));
}

/// The selector of a Service becomes unusable while another replica writes. Its pods are followed by the next leader too.
#[test]
fn a_selector_that_became_unusable_on_standby_empties_nothing() {
    // The second of the annotations of the model can be used, the eighth cannot.
    let selector = |annotation| ServiceSpec {
        selector: None,
        annotation: Some(annotation),
        ..ServiceSpec::plain()
    };
    let mut model = ops::start(3);
    model.pod(pod(0, 1).facts());
    model.service(selector(1).facts());
    model.converge();
    let slices = model.store.clone();
    assert!(slices.values().any(|slice| slice.endpoints.len() == 1));
    model.stand_by();
    model.service(selector(7).facts());
    model.plan();
    ops::take_over(&mut model);
    model.converge();
    assert_eq!(model.store, slices);
}

/// A user makes Endpoints while ours of the same name are on their way, and those are refused for another reason. Then
/// the Service loses its selector: its Endpoints are mirrored.
#[test]
fn endpoints_that_somebody_makes_while_ours_are_refused_are_known() {
    let mut model = ops::start(3);
    model.service(ServiceSpec::plain().facts());
    model.plan();
    model.let_wait_end();
    let service = ServiceSpec::plain().facts().name;
    let object = ObjectName::endpoints(service.clone());
    assert!(matches!(send(&mut model, &object), Request::Create(_)));
    model.custom_endpoints(&service, &CustomSpec::plain(1));
    watch_all(&mut model);
    model.answer(&object, Fate::Throttled);
    let unselected = ServiceSpec {
        selector: None,
        ..ServiceSpec::plain()
    };
    model.service(unselected.facts());
    model.converge();
    assert_eq!(model.published_mirrored(), model.expected_mirrored());
    assert_eq!(model.mirrored.len(), 1);
}
