//! `EndpointSelectors` (KEP-6116, not merged): their slices, which another controller makes under the label of Services'
//! slices, are left alone.

use crate::world::{World, ip, node, service, version};
use endpointd::cluster::read::Reader;
use endpointd::core::outputs::Outputs;
use endpointd::inspect::findings::Report;
use endpointd::ops::audit::{Scope, audit};
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;

const LABEL: &str = "kubernetes.io/endpoint-selector-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MINUTE: Duration = Duration::from_secs(60);

/// A slice with the labels of upstream's endpointslice controller, for an `EndpointSelector`.
fn slice(name: &str, labels: &Value, owners: &Value) -> Value {
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": name, "ownerReferences": owners,
            "labels": {MANAGED_BY: "endpointslice-controller.k8s.io"},
        },
        "endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}],
        "ports": [],
    });
    for (key, value) in labels.as_object().unwrap() {
        slice["metadata"]["labels"][key] = value.clone();
    }
    slice
}

/// Slices of `EndpointSelectors`: one as the proposal says, and others that could be taken for the Service's.
fn foreign() -> Vec<Value> {
    let owner = json!([{
        "apiVersion": "discovery.k8s.io/v1alpha1", "kind": "EndpointSelector", "name": "s", "uid": "es",
        "controller": true, "blockOwnerDeletion": true,
    }]);
    vec![
        slice("plain", &json!({LABEL: "pool"}), &owner),
        slice(
            "of-the-name",
            &json!({LABEL: "s", "kubernetes.io/service-name": "s"}),
            &owner,
        ),
        slice(
            "of-none",
            &json!({LABEL: "s", "kubernetes.io/service-name": "s"}),
            &json!([]),
        ),
        slice("unlabelled", &json!({"kubernetes.io/service-name": "s"}), &owner),
    ]
}

async fn names_and_versions(world: &World) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for foreign in foreign() {
        let name = foreign["metadata"]["name"].as_str().unwrap();
        let there = world.get("EndpointSlice", name).await;
        found.push(version(&there.unwrap_or_else(|| panic!("{name} is gone"))));
    }
    found
}

async fn world(outputs: Outputs) -> World {
    let mut world = World::new(100);
    world.options.settings.outputs = outputs;
    world.make(node("n1", None, None)).await;
    world.pods(2).await;
    world
}

async fn audited(world: &World) -> Report {
    let scope = Scope {
        namespace: None,
        settings: world.options.settings,
        settle: Duration::from_secs(1),
        problems: true,
        labels: None,
    };
    let reader = Reader::new(Client::new(world.gate.clone(), "default"));
    audit(&reader, &scope).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn slices_of_endpoint_selectors_were_taken_for_leftovers_of_the_service() {
    let custom = Outputs {
        custom: true,
        ..Outputs::ALL
    };
    for outputs in [Outputs::ALL, custom] {
        let mut world = world(outputs).await;
        world.make(service()).await;
        for slice in foreign() {
            world.make(slice).await;
        }
        let before = names_and_versions(&world).await;
        // They are there at the start, and the Service gets a slice of its own.
        world.start_up().await;
        assert_eq!(names_and_versions(&world).await, before);
        let own = world.slices().await;
        let of_pods: Vec<_> = own
            .iter()
            .filter(|slice| slice["metadata"]["ownerReferences"][0]["kind"] == "Service")
            .collect();
        assert_eq!(of_pods.len(), 1, "{own:#?}");
        assert_eq!(of_pods[0]["endpoints"].as_array().unwrap().len(), 2);

        // They change, all is listed again, and the Service goes.
        let change = json!({"metadata": {"labels": {"x": "y"}}});
        world.patch("EndpointSlice", "of-the-name", change).await;
        let before = names_and_versions(&world).await;
        world.rest().await;
        world.gate.bar("endpointslices", 410);
        world.rest().await;
        world.gate.unbar("endpointslices");
        world.rest_for(MINUTE).await;
        assert_eq!(names_and_versions(&world).await, before);
        let report = audited(&world).await;
        assert!(report.is_in_sync(), "{}", report.to_text());
        world.delete("Service", "s").await;
        world.rest().await;
        assert_eq!(names_and_versions(&world).await, before);
        let report = audited(&world).await;
        assert!(report.findings.iter().all(|finding| {
            let name = finding.name.as_deref().unwrap_or_default();
            !before.iter().any(|(foreign, _)| foreign == name)
        }));
        world.stop().await;
    }
}

/// A Service's labels are copied to its slices, so the label alone says nothing.
#[tokio::test(start_paused = true)]
async fn a_service_with_the_label_got_a_new_slice_with_each_change() {
    let mut world = world(Outputs::ALL).await;
    let mut labelled = service();
    labelled["metadata"]["labels"] = json!({LABEL: "other"});
    world.make(labelled).await;
    world.start_up().await;
    world.flip("p1", false, 1).await;
    world.rest().await;
    world.stop().await;
    // The next start adopts it, too.
    world.start_up().await;
    world.flip("p2", false, 2).await;
    world.rest().await;
    let slices = world.slices().await;
    assert_eq!(slices.len(), 1, "{slices:#?}");
    assert_eq!(slices[0]["metadata"]["labels"][LABEL], "other");
    assert_eq!(world.in_slices().await, [(ip(1), false), (ip(2), false)]);
}
