//! Endpoints that stand in two slices, or seem to.

use crate::lifecycle::{add, first_slice, pod, published, send, send_slice, watch_all};
use crate::model::{CustomSpec, Fate, MirroredTamper, Model, ServiceSpec};
use crate::ops;
use endpointd::core::body::Request;
use endpointd::core::facts::SliceFacts;
use endpointd::core::labels::Labels;
use endpointd::core::object::ObjectName;

const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";

/// Two slices of one endpoint each, of which the second is being created.
fn creating() -> (Model, Box<str>, ObjectName) {
    let mut model = published(1, 1);
    let first = model.store.keys().next().unwrap().clone();
    model.pod(pod(1, 0).facts());
    let created = send_slice(&mut model);
    (model, first, created)
}

/// The create of a slice fails, and meanwhile another client has put its endpoint into another slice. While it was not
/// known whether the slice exists, each read of one led to a read of the other.
#[test]
fn a_slice_that_was_not_created_holds_no_endpoint() {
    for fate in [
        Fate::Lost,
        Fate::Disputed,
        Fate::Throttled,
        Fate::Rejected,
        Fate::TooLarge,
        Fate::CarriedUnanswered,
    ] {
        let (mut model, first, created) = creating();
        let mut slice = model.store[&first].clone();
        add(&mut slice, &pod(1, 0).facts());
        model.put_slice(slice);
        watch_all(&mut model);
        model.answer(&created, fate);
        model.converge();
        assert_eq!(model.published(), model.expected(), "{fate:?}");
    }
}

/// A copy is in a list before the slice that has the endpoint: that is to be read first, and the list itself shows it.
#[test]
fn a_list_that_shows_a_slice_decides_about_its_copies() {
    let mut model = published(2, 3);
    let first = model.store.keys().next().unwrap().clone();
    ops::tamper_with(&mut model, &first, ops::Tamper::Copy);
    assert!(
        model.store.keys().next().unwrap().starts_with("copy"),
        "lists are in the order of names"
    );
    ops::relist_slices(&mut model);
    model.converge();
    assert_eq!(model.published(), model.expected());
    assert_eq!(model.store.keys().collect::<Vec<_>>(), [&first]);
}

/// Another endpointd has made a slice for a pod for which ours is about to create one. It is read first, since it may hold the
/// endpoint; ours would put it into a second slice.
#[test]
fn no_slice_is_created_before_another_that_appeared_was_read() {
    let mut model = published(1, 1);
    let (first, slice) = first_slice(&model);
    model.pod(pod(1, 0).facts());
    model.plan();

    let mut theirs = slice.clone();
    theirs.meta.name = "theirs".into();
    theirs.meta.uid = "theirs".into();
    add(&mut theirs, &pod(1, 0).facts());
    theirs.endpoints.remove(0);
    model.put_slice(theirs);
    watch_all(&mut model);
    model.plan();
    let grants = model.pending.len();
    let requests: Vec<Request> = (0..grants).filter_map(|_| model.grant(0)).collect();
    assert!(requests.contains(&Request::Fetch), "{requests:?}");
    let creates = |request: &Request| matches!(request, Request::Create(_));
    assert!(!requests.iter().any(creates), "{requests:?}");
    let flying: Vec<ObjectName> = model.in_flight.keys().cloned().collect();
    for name in flying {
        model.answer(&name, Fate::Carried);
    }
    model.converge();
    assert_eq!(model.published(), model.expected());
    let names: Vec<&str> = model.store.keys().map(|name| &**name).collect();
    assert_eq!(names, [&*first, "theirs"]);
}

/// A user gives a slice to another controller, perhaps while a write of it is on its way: the Service gets another one at once.
#[test]
fn a_slice_that_is_given_away_is_replaced() {
    for due in [true, false] {
        let mut model = published(1, 3);
        let given = model.store.keys().next().unwrap().clone();
        let mut slice = model.store[&given].clone();
        give_away(&mut slice);
        if due {
            model.pod(pod(1, 0).facts());
            let name = ObjectName::slice((*given).into());
            assert!(matches!(send(&mut model, &name), Request::Update(_)));
            model.put_slice(slice);
            model.answer(&name, Fate::Carried);
        } else {
            model.put_slice(slice);
        }
        model.converge();
        assert_eq!(model.store.len(), 2);
        assert_eq!(model.published(), model.expected());
    }
}

/// Has a request carried out, and its answer arrive after something else has happened and the watch has shown that.
fn answer_late(model: &mut Model, name: &ObjectName, between: impl FnOnce(&mut Model)) {
    let request = model.in_flight.remove(name).unwrap();
    let outcome = model.carry_out(name, &request);
    between(model);
    watch_all(model);
    if let Some(item) = model.state.apply_outcome(name, outcome, None) {
        model.enqueue(item.object);
    }
}

fn give_away(slice: &mut SliceFacts) {
    let labels = slice.labels.iter();
    let labels = labels.map(|(key, value)| (key, if key == MANAGER { "people" } else { value }));
    slice.labels = labels.collect::<Labels>();
}

/// A slice is deleted, or given to another controller, and is there again before the answer to the read of it arrives.
#[test]
fn a_slice_that_is_there_again_before_the_answer_is_known() {
    for deleted in [true, false] {
        let mut model = published(1, 3);
        let (name, slice) = first_slice(&model);
        if deleted {
            model.delete_slice(&name);
        } else {
            let mut given = slice.clone();
            give_away(&mut given);
            model.put_slice(given);
        }
        watch_all(&mut model);
        let object = ObjectName::slice((*name).into());
        assert!(matches!(send(&mut model, &object), Request::Fetch));
        answer_late(&mut model, &object, |model| {
            let mut again = slice.clone();
            if deleted {
                again.meta.uid = "another".into();
            }
            model.put_slice(again);
        });
        model.pod_gone("pod-0");
        model.converge();
        assert_eq!(model.published(), model.expected(), "{deleted}");
    }
}

/// The same of a slice that is deleted because its Service does not own it. The Service owns the one that is made again
/// in its place.
#[test]
fn a_slice_that_is_made_again_before_the_answer_to_its_delete_is_known() {
    let mut model = published(1, 3);
    let (name, slice) = first_slice(&model);
    ops::tamper_with(&mut model, &name, ops::Tamper::Copy);
    let copy = model.store.keys().find(|key| **key != name).unwrap().clone();
    ops::tamper_with(&mut model, &copy, ops::Tamper::Disown);
    watch_all(&mut model);
    let object = ObjectName::slice((*copy).into());
    while !matches!(send(&mut model, &object), Request::Delete(_)) {
        model.answer(&object, Fate::Carried);
    }
    answer_late(&mut model, &object, |model| {
        // If two events arrive together, the second is the one that is seen.
        model.watch.clear();
        let mut again = slice.clone();
        (again.meta.name, again.meta.uid) = (copy.clone(), "another".into());
        model.put_slice(again);
    });
    model.pod_gone("pod-0");
    model.converge();
    assert_eq!(model.published(), model.expected());
}

/// A copy of a slice is read while it is not known whether the slice is still there, or holds what was sent: the copy is
/// not emptied before that is known.
#[test]
fn a_copy_keeps_its_endpoints_until_the_other_slice_is_known_to_hold_them() {
    for refused in [false, true] {
        // The age of a slice is known from a list.
        let mut model = published(1, 3).restarted(0);
        let name = model.store.keys().next().unwrap().clone();
        model.converge();
        let object = ObjectName::slice((*name).into());
        if refused {
            model.pod(pod(1, 0).facts());
            assert!(matches!(send(&mut model, &object), Request::Update(_)));
            model.answer(&object, Fate::Rejected);
        }
        ops::tamper_with(&mut model, &name, ops::Tamper::Copy);
        let copy = model.store.keys().find(|key| **key != name).unwrap().clone();
        if refused {
            let mut slice = model.store[&copy].clone();
            add(&mut slice, &pod(1, 0).facts());
            slice.endpoints.remove(0);
            model.put_slice(slice);
        } else {
            model.delete_slice(&name);
        }
        watch_all(&mut model);
        let copied = ObjectName::slice((*copy).into());
        assert!(matches!(send(&mut model, &copied), Request::Fetch));
        model.answer(&copied, Fate::Carried);
        model.plan();
        while let Some(at) = model.pending.iter().position(|pending| *pending == copied) {
            let request = model.grant(at);
            assert!(
                matches!(request, None | Some(Request::Fetch)),
                "{refused}: {request:?}"
            );
            if request.is_some() {
                model.answer(&copied, Fate::Carried);
            }
        }
        model.converge();
        assert_eq!(model.published(), model.expected(), "{refused}");
    }
}

/// A slice of a Service whose selector cannot be used is being made anew when the Service is edited.
#[test]
fn an_edit_of_a_service_whose_selector_cannot_be_used_empties_nothing() {
    let selector = |annotation, publish_not_ready| ServiceSpec {
        selector: None,
        annotation: Some(annotation),
        publish_not_ready,
        ..ServiceSpec::plain()
    };
    let mut model = ops::start(3);
    model.pod(pod(0, 1).facts());
    model.service(selector(1, false).facts());
    model.converge();
    model.service(selector(7, false).facts());
    model.converge();
    let endpoints = |model: &Model| {
        model
            .store
            .values()
            .map(|slice| slice.endpoints.len())
            .sum::<usize>()
    };
    assert_eq!(endpoints(&model), 1);
    let name = model.store.keys().next().unwrap().clone();
    model.delete_slice(&name);
    watch_all(&mut model);
    let object = ObjectName::slice((*name).into());
    assert!(matches!(send(&mut model, &object), Request::Fetch));
    model.answer(&object, Fate::Carried);
    model.service(selector(7, true).facts());
    model.converge();
    assert_eq!(endpoints(&model), 1);
}

/// A slice is read as being deleted, or mirrored slices as another Service's, and the watch has shown that this was taken
/// back before the answer arrives.
#[test]
fn a_slice_that_is_read_as_gone_and_there_again_is_known() {
    let mut model = published(1, 3);
    let (name, slice) = first_slice(&model);
    ops::tamper_with(&mut model, &name, ops::Tamper::DropEndpoint);
    watch_all(&mut model);
    let object = ObjectName::slice((*name).into());
    assert!(matches!(send(&mut model, &object), Request::Fetch));
    let mut going = model.store[&name].clone();
    going.meta.deleting = true;
    model.put_slice(going);
    model.watch.clear();
    answer_late(&mut model, &object, |model| {
        let mut again = slice.clone();
        again.meta.uid = "another".into();
        model.put_slice(again);
    });
    model.pod_gone("pod-0");
    model.converge();
    assert_eq!(model.published(), model.expected());
}

/// The Service of a mirrored slice is taken from its label, and given back before the answer to the read of it arrives.
#[test]
fn a_mirrored_slice_that_is_read_as_of_no_service_and_given_back_is_known() {
    let service = ServiceSpec {
        selector: None,
        ..ServiceSpec::plain()
    };
    let mut model = ops::start(3);
    model.service(service.facts());
    let endpoints = "svc-0".into();
    model.custom_endpoints(&endpoints, &CustomSpec::plain(2));
    model.converge();
    let name = model.mirrored.keys().next().unwrap().clone();
    let slice = model.mirrored[&name].clone();
    model.tamper_with_mirrored(&name, MirroredTamper::ExtraLabel);
    watch_all(&mut model);
    let object = ObjectName::mirrored((*name).into());
    assert!(matches!(send(&mut model, &object), Request::Fetch));
    let mut taken = slice.clone();
    taken.meta.service = "".into();
    model.put_mirrored(taken);
    model.watch.clear();
    answer_late(&mut model, &object, |model| {
        model.put_mirrored(slice.clone());
    });
    model.custom_endpoints(&endpoints, &CustomSpec::plain(1));
    model.converge();
    assert_eq!(model.published_mirrored(), model.expected_mirrored());
}
