//! Endpoints that stand in two slices, or seem to.

use crate::lifecycle::{add, pod, published};
use crate::model::{Fate, Model};
use crate::ops;
use endpointd::core::labels::Labels;
use endpointd::core::object::{ObjectName, Output};

const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";

/// Two slices of one endpoint each, of which the second is being created.
fn creating() -> (Model, Box<str>, ObjectName) {
    let mut model = published(1, 1);
    let first = model.store.keys().next().unwrap().clone();
    model.pod(pod(1, 0).facts());
    model.plan();
    let of_slice = |name: &ObjectName| name.output == Output::Slice;
    let at = model.pending.iter().position(of_slice).unwrap();
    let created = model.pending[at].clone();
    assert!(model.grant(at).is_some());
    (model, first, created)
}

/// The create of a slice fails, and meanwhile somebody has put its endpoint into another slice. While it was not known
/// whether the slice exists, each read of one led to a read of the other.
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
        while !model.watch.is_empty() {
            model.watch_one();
        }
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

/// Somebody gives a slice to another controller, while a write of it that is due is on its way: as kube-controller-manager
/// does, the Service gets another slice at once. Where nothing was due, it gets one when something changes.
#[test]
fn a_slice_that_is_given_away_while_a_write_of_it_is_due_is_replaced() {
    for due in [true, false] {
        let mut model = published(1, 3);
        let given = model.store.keys().next().unwrap().clone();
        let mut slice = model.store[&given].clone();
        let labels = slice.labels.iter();
        let labels = labels.map(|(key, value)| (key, if key == MANAGER { "people" } else { value }));
        slice.labels = labels.collect::<Labels>();
        if due {
            model.pod(pod(1, 0).facts());
            model.plan();
            let name = ObjectName::slice((*given).into());
            let at = model.pending.iter().position(|pending| *pending == name).unwrap();
            assert!(model.grant(at).is_some());
            model.put_slice(slice);
            model.answer(&name, Fate::Carried);
        } else {
            model.put_slice(slice);
        }
        model.converge();
        assert_eq!(model.store.len(), if due { 2 } else { 1 });
        if !due {
            model.pod(pod(1, 0).facts());
            model.converge();
        }
        assert_eq!(model.published(), model.expected());
    }
}
