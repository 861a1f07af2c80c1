//! What a dry run knows does not grow with what happens.

use crate::world::{ip, pod, service, time};
use endpointd::cluster::codec::{self, Namespaced};
use endpointd::core::facts::{EndpointsFacts, NodeFacts, PodFacts, ServiceFacts, SliceFacts};
use endpointd::core::hints::NodeCapacity;
use endpointd::core::namespace::{Kind, NamespaceState, PendingLists, Settings, Sizes};
use endpointd::core::nodes::NodeTable;
use serde_json::{Value, json};

fn facts<T>(object: &Value) -> T
where
    Namespaced<T>: codec::Decode,
{
    let bytes = serde_json::to_vec(object).unwrap();
    codec::object::<Namespaced<T>>(&bytes).unwrap().facts
}

fn meta(object: &mut Value, round: u64) {
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["resourceVersion"] = json!((round + 1).to_string());
    object["metadata"]["uid"] = json!(format!(
        "{}-{round}",
        object["metadata"]["name"].as_str().unwrap()
    ));
}

/// A round in which the Service, its pods, and what is published of them are all new.
fn round(state: &mut NamespaceState, nodes: &mut NodeTable, round: u64) -> usize {
    let mut service = service();
    service["metadata"]["creationTimestamp"] = json!(time(0));
    service["spec"]["clusterIP"] = json!("10.0.0.1");
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    meta(&mut service, round);
    state.apply_service(facts::<ServiceFacts>(&service), 1);
    let mut endpoints = Vec::new();
    for number in 0..30 {
        let address = ip((round as usize * 7 + number) % 2000);
        let mut pod = pod(&format!("p{number}-{}", round % 3), &address, "n1");
        meta(&mut pod, round);
        endpoints.push(json!({
            "addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false}, "nodeName": "n1",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"]},
        }));
        state.apply_pod(facts::<PodFacts>(&pod), &[], 1, nodes);
        if round > 0 {
            state.remove_pod(&format!("p{number}-{}", (round - 1) % 3), nodes);
        }
    }
    let mut slice = json!({
        "metadata": {"name": format!("s-{}", round % 5), "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }, "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": service["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}], "endpoints": endpoints,
    });
    meta(&mut slice, round);
    state.apply_slice(facts::<SliceFacts>(&slice), 1);
    if round % 4 == 3 {
        // Slices are listed again: what the last look took over is of the list before.
        let epoch = (round % 200) as u8 + 2;
        state.begin_list(Kind::Slice);
        state.apply_slice(facts::<SliceFacts>(&slice), epoch);
        state.end_list(Kind::Slice, epoch, round + 1, nodes);
    }
    if round > 0 {
        state.slice_gone(&format!("s-{}", (round - 1) % 5), round + 1);
    }
    let mut object = json!({"metadata": {"name": "s"}});
    meta(&mut object, round);
    state.apply_endpoints(facts::<EndpointsFacts>(&object), 1);
    let marked = state.take_marked();
    let found = marked.iter().flat_map(|name| state.compare(name));
    found.count()
}

#[test]
fn what_is_known_does_not_grow_and_is_forgotten_in_the_end() {
    let mut nodes = NodeTable::default();
    let node = "n1".into();
    nodes.apply_capacity(&node, &NodeCapacity::default());
    nodes.apply(&node, NodeFacts::default(), 1);
    let settings = Settings {
        max_endpoints: 100,
        ..Settings::default()
    };
    let mut state = NamespaceState::comparing("default".into(), settings, PendingLists::NONE);
    let mut sizes: Option<Sizes> = None;
    for number in 0..300 {
        let found = round(&mut state, &mut nodes, number);
        assert_eq!(
            found, 31,
            "the Endpoints have no address and no label, the slice is right"
        );
        let now = state.sizes();
        if number >= 5 {
            assert_eq!(*sizes.get_or_insert(now), now, "after {number} rounds");
        }
    }
    let sizes = sizes.unwrap();
    assert_eq!(
        (sizes.pods, sizes.services, sizes.slices),
        (30, 1, 1),
        "{sizes:?}"
    );
    assert_eq!(state.plan(), []);

    state.remove_service("s");
    state.slice_gone("s-4", 1000);
    state.endpoints_gone("s", 1000);
    for number in 0..30 {
        state.remove_pod(&format!("p{number}-2"), &mut nodes);
    }
    assert!(!state.is_empty(), "the Service is still to be looked at");
    assert_eq!(state.take_marked(), [std::sync::Arc::from("s")]);
    assert_eq!(state.compare(&"s".into()), []);
    assert!(state.is_empty());
}
