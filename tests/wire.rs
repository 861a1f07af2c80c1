//! Decoding of what a kube-apiserver 1.36 really sent in protobuf: our cut of each object is compared with what
//! `k8s_openapi`'s whole types say of the same answer in JSON.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/protobuf.rs"]
mod protobuf;

use endpointd::cluster::codec::{
    self, DecodeError, Event, EventKind, ListEnd, ListReader, NamedNode, Namespaced, Undecodable,
};
use endpointd::core::facts::{EndpointsFacts, MANAGED_BY, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use endpointd::core::ids::Uid;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::serde::de::DeserializeOwned;
use k8s_openapi::{List, ListableResource};
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr};

fn capture(name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/loadtest/apiserver/tests/wire/");
    std::fs::read(format!("{dir}{name}")).unwrap()
}

/// A list, decoded as it arrives in frames.
fn list<T: codec::Decode>(list: &[u8]) -> (Vec<T>, Vec<Undecodable>, Result<ListEnd, DecodeError>) {
    let mut reader = ListReader::default();
    for frame in list.chunks(1000) {
        reader.feed(frame);
    }
    let (items, errors) = reader.take();
    (items, errors, reader.finish())
}

/// A list that was recorded in both encodings, and decoded both ways.
fn both<T: codec::Decode, K: DeserializeOwned + ListableResource>(name: &str) -> Vec<(T, K)> {
    let (items, errors, end) = list::<T>(&capture(&format!("{name}.list.pb")));
    let end = end.unwrap();
    assert!(errors.is_empty(), "{errors:?}");
    let whole: List<K> = serde_json::from_slice(&capture(&format!("{name}.list.json"))).unwrap();
    assert!(codec::version(&end.version).unwrap() > 0);
    assert_eq!(
        end.next.is_empty(),
        whole.metadata.continue_.unwrap_or_default().is_empty()
    );
    assert_eq!(items.len(), whole.items.len());
    assert!(!items.is_empty(), "{name} shows something");
    items.into_iter().zip(whole.items).collect()
}

fn check_pod(facts: &PodFacts, pod: &Pod) {
    let (spec, status) = (pod.spec.as_ref().unwrap(), pod.status.as_ref().unwrap());
    assert_eq!(Some(&*facts.name), pod.metadata.name.as_deref());
    assert_eq!(Some(facts.uid.to_string()), pod.metadata.uid);
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    assert_eq!(facts.labels, labels.into_iter().collect());
    assert_eq!(facts.node.as_deref(), spec.node_name.as_deref());
    let ips: Vec<String> = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone()).collect();
    assert_eq!(facts.v4, ips.iter().find_map(|ip| ip.parse::<Ipv4Addr>().ok()));
    assert_eq!(facts.v6, ips.iter().find_map(|ip| ip.parse::<Ipv6Addr>().ok()));
    let ready = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    assert_eq!(
        facts.ready,
        ready.is_some_and(|condition| condition.status == "True")
    );
    let time = ready.and_then(|condition| condition.last_transition_time.clone());
    assert_eq!(
        facts.ready_time.map(|t| t.to_string()),
        time.map(|t| t.0.to_string())
    );
    assert_eq!(facts.terminating, pod.metadata.deletion_timestamp.is_some());
    assert_eq!(
        facts.terminal,
        matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
    );
    let named = spec
        .containers
        .iter()
        .flat_map(|c| c.ports.iter().flatten())
        .filter(|port| port.name.is_some());
    let named: Vec<_> = named
        .map(|port| (port.name.clone().unwrap(), port.container_port))
        .collect();
    let ours: Vec<_> = facts
        .ports
        .iter()
        .map(|p| (p.name.to_string(), i32::from(p.number)))
        .collect();
    assert_eq!(ours, named);
}

#[test]
fn pods() {
    for (ours, pod) in both::<Namespaced<PodFacts>, Pod>("pods") {
        assert_eq!(Some(&*ours.namespace), pod.metadata.namespace.as_deref());
        check_pod(&ours.facts, &pod);
    }
}

#[test]
fn services() {
    for (ours, service) in both::<Namespaced<ServiceFacts>, Service>("services") {
        let (facts, spec) = (ours.facts, service.spec.unwrap());
        assert_eq!(Some(&*facts.name), service.metadata.name.as_deref());
        assert_eq!(Some(facts.uid.to_string()), service.metadata.uid);
        assert_eq!(
            facts.created.unwrap().to_string(),
            service.metadata.creation_timestamp.unwrap().0.to_string()
        );
        assert_eq!(facts.headless, spec.cluster_ip.as_deref() == Some("None"));
        let pairs: Vec<_> = facts
            .selector
            .iter()
            .flat_map(endpointd::core::selector::Selector::pairs)
            .collect();
        let selector = spec.selector.unwrap_or_default();
        assert_eq!(
            pairs,
            selector
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect::<Vec<_>>()
        );
        assert_eq!(facts.ports.len(), spec.ports.iter().flatten().count());
        let families = spec.ip_families.unwrap();
        assert_eq!(
            facts.families,
            ["IPv4", "IPv6"].map(|family| families.iter().any(|f| f == family))
        );
    }
}

#[test]
fn nodes() {
    for (ours, node) in both::<NamedNode, Node>("nodes") {
        assert_eq!(Some(&*ours.name), node.metadata.name.as_deref());
        let labels = node.metadata.labels.unwrap_or_default();
        assert_eq!(
            ours.facts.zone.as_deref(),
            labels.get("topology.kubernetes.io/zone").map(String::as_str)
        );
    }
}

#[test]
fn slices() {
    for (ours, slice) in both::<Namespaced<SliceFacts>, EndpointSlice>("endpointslices") {
        let facts = ours.facts;
        assert_eq!(
            Some(facts.meta.version.to_string()),
            slice.metadata.resource_version
        );
        let owner = slice.metadata.owner_references.unwrap().remove(0);
        assert!(facts.meta.owner.includes(&Uid::from(&*owner.uid)));
        assert!(facts.extras.owners.is_empty(), "the Service is no other owner");
        assert_eq!(&*facts.meta.service, owner.name);
        assert_eq!(facts.family.unwrap().as_str(), slice.address_type);
        assert_eq!(facts.ports.len(), slice.ports.iter().flatten().count());
        let endpoints: Vec<_> = slice.endpoints.into_iter().flatten().collect();
        assert_eq!(facts.endpoints.len(), endpoints.len());
        for (ours, endpoint) in facts.endpoints.iter().zip(endpoints) {
            assert_eq!(
                ours.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
                endpoint.addresses
            );
            let conditions = endpoint.conditions.unwrap();
            assert_eq!(
                (ours.ready, ours.serving, ours.terminating),
                (conditions.ready, conditions.serving, conditions.terminating)
            );
            assert_eq!(ours.node.as_deref(), endpoint.node_name.as_deref());
            assert_eq!(ours.zone.as_deref(), endpoint.zone.as_deref());
            let target = endpoint.target_ref.unwrap();
            assert_eq!(ours.pod.as_deref(), target.name.as_deref());
            assert_eq!(ours.pod_uid.as_ref().map(ToString::to_string), target.uid);
            assert!(!ours.has_foreign_fields);
        }
    }
}

#[test]
fn watches() {
    let mut kinds = Vec::new();
    let lines = capture("pods.watch.jsonl");
    let events = capture("pods.watch.pb");
    let mut lines = lines.split(|byte| *byte == b'\n');
    for event in codec::events(&events) {
        let event = event.unwrap();
        kinds.push(event.kind);
        let line: serde_json::Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
        if matches!(event.kind, EventKind::Applied | EventKind::Deleted) {
            let ours = codec::object::<Namespaced<PodFacts>>(event.object).unwrap();
            check_pod(
                &ours.facts,
                &serde_json::from_value(line["object"].clone()).unwrap(),
            );
        }
    }
    assert!(kinds.contains(&EventKind::Applied) && kinds.contains(&EventKind::Deleted));
}

#[test]
fn what_is_no_event_ends_the_watch() {
    for (bad, why) in [
        (
            &br#"{"type": "ADDED", "object": {}}"#[..],
            "the server answered in JSON, and was asked for protobuf",
        ),
        (b"<html>", "malformed protobuf: it does not begin like an object"),
        // An object where a frame should be.
        (
            b"k8s\0\x0a\x00",
            "malformed protobuf: it does not begin like an object",
        ),
        (&[0, 0, 0, 1, 8], "malformed protobuf: it is cut off"),
    ] {
        let error = codec::events(bad).next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    let news = protobuf::event("NEWS", &protobuf::object("Pod", &json!({})));
    codec::events(&news).next().unwrap().unwrap_err();
}

/// A proxy may answer in JSON, whatever is asked for.
#[test]
fn an_answer_in_json_is_called_so() {
    let json = capture("pods.list.json");
    let (items, errors, end) = list::<Namespaced<PodFacts>>(&json);
    assert!(items.is_empty() && errors.is_empty());
    let told = "the server answered in JSON, and was asked for protobuf";
    assert_eq!(end.unwrap_err().to_string(), told);
    assert_eq!(codec::list_version(&json).unwrap_err().to_string(), told);
    assert_eq!(
        codec::whole_events(&capture("pods.watch.jsonl"))
            .unwrap_err()
            .to_string(),
        told
    );
}

/// Compares the facts in a list with those of the same list in JSON.
fn same<T: codec::Decode + PartialEq + std::fmt::Debug>(kind: &str, name: &str) {
    let json = serde_json::from_slice(&capture(&format!("{name}.json"))).unwrap();
    let json = protobuf::object(kind, &json);
    let [sent, json] = [capture(&format!("{name}.pb")), json].map(|data| {
        let (items, errors, end) = list::<T>(&data);
        assert!(errors.is_empty() && !items.is_empty(), "{name}: {errors:?}");
        assert!(codec::version(&end.unwrap().version).unwrap() > 0);
        items
    });
    assert_eq!(sent, json);
}

#[test]
fn lists_say_what_they_say_in_json() {
    same::<Namespaced<PodFacts>>("PodList", "pods.list");
    same::<Namespaced<PodFacts>>("PodList", "list.drop");
    same::<Namespaced<ServiceFacts>>("ServiceList", "services.list");
    same::<NamedNode>("NodeList", "nodes.list");
    same::<Namespaced<SliceFacts>>("EndpointSliceList", "endpointslices.list");
    same::<Namespaced<EndpointsFacts>>("EndpointsList", "endpoints.list");
    same::<Namespaced<SliceMeta>>("PartialObjectMetadataList", "endpointslices.metadata");
    let metadata = capture("endpointslices.metadata.pb");
    assert!(codec::list_version(&metadata).unwrap() > 0);
}

/// The content of an event: a pod, or the version of a bookmark, and whether it ends a list.
type Content = Result<PodFacts, (String, bool)>;

/// The events of a watch, as they arrive in pieces of a size.
fn watched(name: &str, size: usize) -> Vec<(EventKind, Content)> {
    let (data, mut buffer, mut found) = (capture(name), Vec::new(), Vec::new());
    for piece in data.chunks(size) {
        buffer.extend_from_slice(piece);
        let rest = buffer.split_off(codec::whole_events(&buffer).unwrap());
        for event in codec::events(&std::mem::replace(&mut buffer, rest)) {
            let Event { kind, object } = event.unwrap();
            let content = match kind {
                EventKind::Applied | EventKind::Deleted => {
                    Ok(codec::object::<Namespaced<PodFacts>>(object).unwrap().facts)
                }
                EventKind::Bookmark => Err(codec::bookmark(object).unwrap()),
                EventKind::Error => panic!("{name} shows no error"),
            };
            found.push((kind, content));
        }
    }
    assert!(buffer.is_empty(), "{name} ends with a whole event");
    found
}

#[test]
fn a_watch_shows_the_same_events_however_it_is_cut() {
    let whole = watched("pods.watch.pb", usize::MAX);
    assert!(whole.len() > 3, "the capture shows something");
    for size in [1, 7, 4096] {
        assert_eq!(watched("pods.watch.pb", size), whole, "in pieces of {size}");
        let list = watched("pods.streaming-list.pb", size);
        assert_eq!(list.len(), 30, "in pieces of {size}");
    }
    let (_, listed) = watched("pods.streaming-list.pb", 4096).pop().unwrap();
    assert!(listed.unwrap_err().1, "the last bookmark ends the list");

    let metadata = capture("watch.metadata.pb");
    let events: Vec<_> = codec::events(&metadata).map(Result::unwrap).collect();
    let (bookmark, slices) = events.split_last().unwrap();
    assert!(codec::bookmark(bookmark.object).unwrap().1);
    for event in slices {
        let slice = codec::object::<Namespaced<SliceMeta>>(event.object).unwrap();
        assert_eq!(
            codec::object_version(event.object).unwrap(),
            slice.facts.version.to_string()
        );
        assert_eq!(
            codec::identity(event.object).unwrap().kind,
            "PartialObjectMetadata"
        );
    }
}

#[test]
fn answers() {
    let bodies = ["get.slice.pb", "put.slice.pb", "put.slice.metadata.pb"].map(capture);
    let [got, put, metadata] = [0, 1, 2].map(|at| codec::identity(&bodies[at]).unwrap());
    assert_eq!((got.kind, put.kind), ("EndpointSlice", "EndpointSlice"));
    assert_eq!(metadata.kind, "PartialObjectMetadata");
    assert_eq!((&got.name, &got.uid), (&put.name, &put.uid));
    assert_eq!((&got.name, &got.uid), (&metadata.name, &metadata.uid));
    assert!(codec::is_managed_by(&capture("get.slice.pb"), &[MANAGED_BY]).unwrap());
    let json = serde_json::from_slice::<serde_json::Value>(&capture("put.slice.json-answer.json")).unwrap();
    assert_eq!(json["metadata"]["name"], *put.name);

    let status = codec::status(0, &capture("get.not-found.pb"));
    assert_eq!((status.code, &*status.reason), (404, "NotFound"));
    let details = status.details.unwrap();
    assert_eq!(
        (&*details.kind, &*details.group),
        ("endpointslices", "discovery.k8s.io")
    );
    // A request for protobuf may be refused in JSON.
    assert_eq!(codec::status(0, &capture("put.conflict.from-pb.json")).code, 409);
}

#[test]
fn a_list_that_is_cut_off_is_none() {
    let whole = capture("pods.list.pb");
    for end in (0..whole.len()).step_by(97) {
        let (.., end) = list::<Namespaced<PodFacts>>(&whole[..end]);
        assert!(end.is_err());
    }
    // Another object than a list.
    let (items, errors, end) = list::<Namespaced<PodFacts>>(&capture("get.not-found.pb"));
    assert!(items.is_empty() && errors.is_empty() && end.is_err());
}

#[test]
fn a_frame_that_is_too_long_ends_the_watch() {
    codec::whole_events(&[1, 0, 0, 1]).unwrap_err();
    assert_eq!(codec::whole_events(&[1, 0, 0, 0, 0]).unwrap(), 0);
}

#[test]
fn refusals() {
    let status = codec::status(403, &capture("post.namespace-terminating.json"));
    assert_eq!(status.reason, "Forbidden");
    assert_eq!(
        status.details.unwrap().causes.unwrap()[0].reason,
        "NamespaceTerminating"
    );
    assert_eq!(
        codec::status(409, &capture("put.conflict.json")).reason,
        "Conflict"
    );
    let plain = codec::status(429, b"Too many requests, please try again later.\n");
    assert_eq!(
        (plain.code, &*plain.message),
        (429, "Too many requests, please try again later.")
    );
}

#[test]
fn a_bad_object_does_not_spoil_the_page() {
    let pods = json!({"metadata": {"resourceVersion": "9"}, "items": [
        {"metadata": {"name": "good", "namespace": "a"}},
        {"metadata": {"name": "bad", "namespace": "a"}, "spec": {"containers": "none"}},
        {"metadata": {"namespace": "a"}},
    ]});
    let (items, errors, end) = list::<Namespaced<PodFacts>>(&protobuf::object("PodList", &pods));
    assert_eq!(
        items.iter().map(|pod| &*pod.facts.name).collect::<Vec<_>>(),
        ["good"]
    );
    assert_eq!(errors.len(), 2);
    assert!(errors[0].to_string().contains("a/bad"), "{errors:?}");
    assert_eq!(end.unwrap().version, "9");
    let empty = protobuf::object("PodList", &json!({"metadata": {"resourceVersion": "9"}}));
    let (items, errors, end) = list::<Namespaced<PodFacts>>(&empty);
    assert!(items.is_empty() && errors.is_empty());
    assert_eq!(end.unwrap().version, "9");
}

#[test]
fn a_bookmark_says_whether_the_list_is_whole() {
    let bookmark = |metadata| {
        let bookmark = protobuf::object("Pod", &json!({ "metadata": metadata }));
        codec::bookmark(&bookmark).unwrap()
    };
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    assert_eq!(
        bookmark(json!({"resourceVersion": "12", "annotations": annotations})),
        ("12".to_owned(), true)
    );
    assert_eq!(
        bookmark(json!({"resourceVersion": "13"})),
        ("13".to_owned(), false)
    );
}

/// The reference to the Service is written anew each time only where that changes nothing of the others.
#[test]
fn owners_that_stand_beside_the_service_are_kept_as_they_are() {
    let service = |uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "Service", "name": "s", "uid": uid, "controller": controller});
    let pod = |controller: bool| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": controller});
    for (owners, services, kept) in [
        (vec![], vec![], 0),
        (vec![service("a", true)], vec!["a"], 0),
        (vec![service("a", false), pod(false)], vec!["a"], 1),
        (vec![pod(true), service("a", false)], vec!["a"], 2),
        (vec![service("a", true), service("b", false)], vec!["a", "b"], 2),
        (vec![pod(true)], vec![], 1),
    ] {
        let slice = json!({"metadata": {"name": "s-1", "namespace": "a", "resourceVersion": "1",
            "ownerReferences": owners}, "addressType": "IPv4"});
        let slice: SliceFacts = protobuf::facts("EndpointSlice", &slice);
        assert_eq!(slice.extras.owners.len(), kept, "{owners:?}");
        for uid in ["a", "b"] {
            assert_eq!(
                slice.meta.owner.includes(&Uid::from(uid)),
                services.contains(&uid)
            );
        }
        assert_eq!(slice.meta.owner.is_none(), services.is_empty());
    }
}
