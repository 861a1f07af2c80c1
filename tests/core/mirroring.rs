//! Mirroring of Endpoints: orders of events, and objects that are more than they look.

use crate::model::protobuf;
use endpointd::cluster::codec::Protobuf;
use endpointd::core::body::Request;
use endpointd::core::events::Notice;
use endpointd::core::facts::{EndpointsFacts, ServiceFacts, SliceMeta};
use endpointd::core::mirror::MirroredObject;
use endpointd::core::namespace::ObjectEvent::{Gone, Meta};
use endpointd::core::namespace::{
    Content, Kind, NamespaceState, Outcome, OutputEvent, PendingLists, Settings,
};
use endpointd::core::nodes::NodeTable;
use endpointd::core::object::{ObjectName, Output, Remote};
use endpointd::core::priority::Priority;
use serde_json::{Value, json};

fn facts(uid: &str, version: u64, subsets: &Value) -> EndpointsFacts {
    let body = json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": uid, "resourceVersion": version.to_string()},
        "subsets": subsets,
    });
    protobuf::facts("Endpoints", &body)
}

fn one(address: &str) -> Value {
    json!([{"addresses": [{"ip": address}], "ports": [{"name": "http", "port": 80}]}])
}

/// The state of a namespace whose Service has no selector, with Endpoints that are mirrored already.
fn mirrored() -> NamespaceState {
    let service = json!({
        "metadata": {"name": "s", "namespace": "ns", "uid": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    });
    let service: ServiceFacts = protobuf::facts("Service", &service);
    let mut nodes = NodeTable::default();
    let settings = Settings::default();
    let mut state = NamespaceState::new("ns".into(), settings, PendingLists::all(settings.outputs));
    state.apply_service(service, 0);
    state.apply_output(OutputEvent::endpoints(facts("e1", 10, &one("10.0.0.1")), 0));
    for kind in Kind::ALL {
        state.end_list(kind, 0, 10, &mut nodes);
    }
    let planned = state.plan();
    assert_eq!(planned.len(), 1, "{planned:?}");
    state
}

#[test]
fn endpoints_that_are_made_again_while_they_are_read_are_read_again() {
    let mut state = mirrored();
    state.apply_output(OutputEvent::Endpoints(Meta(facts("e1", 11, &json!([])).meta, 0)));
    let read = state.plan();
    let read = read
        .iter()
        .find(|item| item.object.output == Output::Endpoints)
        .unwrap();
    assert!(read.reads && read.priority == Priority::Remove, "{read:?}");
    let name = read.object.clone();
    let built = state.build_request(&name, &mut Protobuf).unwrap();
    assert_eq!(built.request, Request::Fetch);
    // Deleted, and made again; the server looked in between.
    state.apply_output(OutputEvent::Endpoints(Gone("s".into(), 12)));
    state.apply_output(OutputEvent::Endpoints(Meta(facts("e2", 13, &json!([])).meta, 0)));
    let due = state.apply_outcome(&name, Outcome::NotFound, None);
    assert!(due.is_some() || !state.plan().is_empty());
    let built = state.build_request(&name, &mut Protobuf).unwrap();
    assert_eq!(built.request, Request::Fetch);
    let read = Outcome::fetched(Content::Endpoints(Box::new(facts("e2", 13, &one("10.0.0.2")))));
    state.apply_outcome(&name, read, None);
    let planned = state.plan();
    assert!(
        planned.iter().any(|item| item.object.output == Output::Mirrored),
        "{planned:?}"
    );

    // One that is deleted for good is forgotten with one answer.
    state.apply_output(OutputEvent::Endpoints(Meta(facts("e2", 14, &json!([])).meta, 0)));
    state.plan();
    assert!(state.build_request(&name, &mut Protobuf).is_some());
    state.apply_output(OutputEvent::Endpoints(Gone("s".into(), 15)));
    assert_eq!(state.apply_outcome(&name, Outcome::NotFound, None), None);
    assert!(
        state
            .plan()
            .iter()
            .all(|item| item.object.output == Output::Mirrored)
    );
}

/// An object of a megabyte: ports that stand in every combination of a few subsets.
fn tangled() -> Value {
    let subset = |at: usize| -> Value {
        let addresses: Vec<_> = (0..1000)
            .map(|n| json!({"ip": format!("10.{at}.{}.{}", n / 250, n % 250)}))
            .collect();
        let ports = (1..1 << 13).filter(|ports| ports >> at & 1 == 1);
        let ports: Vec<_> = ports
            .map(|port| json!({"name": format!("p{port}"), "port": port}))
            .collect();
        json!({"addresses": addresses, "ports": ports})
    };
    (0..13).map(subset).collect()
}

#[test]
fn endpoints_that_stand_for_slices_of_gigabytes_are_not_mirrored() {
    let mut state = mirrored();
    let tangled = facts("e1", 11, &tangled());
    assert_eq!(MirroredObject::new("ns", &tangled, 1000), None);
    state.take_notices();
    for version in 12..15 {
        let mut facts = tangled.clone();
        facts.meta.version = version;
        state.apply_output(OutputEvent::endpoints(facts, 0));
        assert!(
            state
                .plan()
                .iter()
                .all(|item| item.object.output != Output::Mirrored)
        );
    }
    let told = state.take_notices();
    assert!(
        matches!(
            &told[..],
            [Notice {
                reason: "TooLargeToMirror",
                ..
            }]
        ),
        "{told:?}"
    );
    // Endpoints as they were before are mirrored again.
    state.apply_output(OutputEvent::endpoints(facts("e1", 20, &one("10.0.0.3")), 0));
    let planned = state.plan();
    assert!(
        planned.iter().any(|item| item.object.output == Output::Mirrored),
        "{planned:?}"
    );
}

#[test]
fn endpoints_that_are_refused_are_read_once_for_each_version() {
    let mut state = mirrored();
    let endpoints = ObjectName::endpoints("s".into());
    let written = Remote {
        uid: "u".into(),
        version: 10,
    };
    let mut reads = 0;
    for version in 11..14 {
        let mut whole = facts("e1", version, &tangled());
        whole.meta.version = version;
        state.apply_output(OutputEvent::Endpoints(Meta(whole.meta.clone(), 0)));
        // Plans, reads, and whatever comes of it, for as long as something is due.
        for _ in 0..20 {
            for item in state.plan() {
                let Some(built) = state.build_request(&item.object, &mut Protobuf) else {
                    continue;
                };
                let outcome = if built.request == Request::Fetch {
                    assert_eq!(item.object, endpoints);
                    reads += 1;
                    Outcome::fetched(Content::Endpoints(Box::new(whole.clone())))
                } else {
                    Outcome::Written(written.clone())
                };
                state.apply_outcome(&item.object, outcome, None);
            }
        }
        assert_eq!(reads, version - 10);
    }
}

#[test]
fn a_slice_that_cannot_be_read_holds_up_no_other() {
    let mut state = mirrored();
    // Another client makes another slice, whose content cannot be had.
    let meta = json!({
        "metadata": {
            "name": "s-other", "namespace": "ns", "uid": "o", "resourceVersion": "30",
            "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            },
        },
    });
    let meta: SliceMeta = protobuf::facts("EndpointSlice", &meta);
    state.apply_output(OutputEvent::Mirrored(Meta(meta, 0)));
    let other = ObjectName::mirrored("s-other".into());
    state.plan();
    let built = state.build_request(&other, &mut Protobuf).unwrap();
    assert_eq!(built.request, Request::Fetch);
    state.apply_output(OutputEvent::endpoints(facts("e1", 40, &one("10.0.0.9")), 0));
    let ours = |state: &mut NamespaceState| -> Option<Request> {
        let planned = state.plan();
        let item = planned
            .iter()
            .find(|item| item.object.output == Output::Mirrored && item.object != other)?;
        Some(state.build_request(&item.object, &mut Protobuf)?.request)
    };
    assert_eq!(ours(&mut state), None, "it may show the same");
    assert!(
        state.apply_outcome(&other, Outcome::Unknown, None).is_some(),
        "it is read again"
    );
    assert!(matches!(ours(&mut state), Some(Request::Create(_))));
}

#[test]
fn endpoints_that_stand_for_thousands_of_small_slices_are_not_mirrored() {
    // Each subset has an address and a port of its own, in 30 bytes of protobuf.
    let subsets = |count: usize| -> Value {
        let subset = |at: usize| json!({"addresses": [{"ip": format!("10.0.{}.{}", at / 250, at % 250)}], "ports": [{"port": at + 1}]});
        (0..count).map(subset).collect()
    };
    for (count, laid_out) in [(60, true), (22_000, false)] {
        let object = MirroredObject::new("ns", &facts("e1", 11, &subsets(count)), 1000);
        assert_eq!(
            object.map(|object| object.groups.len()),
            laid_out.then_some(count)
        );
    }
    // Some large addresses beside them do not make room for all of them.
    let mut mixed = subsets(12_000);
    let many: Vec<_> = (0..1000)
        .map(|n| json!({"ip": format!("10.9.{}.{}", n / 250, n % 250)}))
        .collect();
    let ports: Vec<_> = (0..16)
        .map(|n| json!({"name": "a", "port": 50_000 + n}))
        .collect();
    mixed
        .as_array_mut()
        .unwrap()
        .push(json!({"addresses": many, "ports": ports}));
    assert_eq!(MirroredObject::new("ns", &facts("e1", 11, &mixed), 1000), None);
}
