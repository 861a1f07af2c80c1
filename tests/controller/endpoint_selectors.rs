//! `EndpointSelectors` (KEP-6116, not merged): their slices, which another controller makes under the label of Services'
//! slices, are left alone; and if they exist and no controller serves them, that is told.

use crate::cluster::Api;
use crate::constant::Constant;
use crate::log::Log;
use crate::world::{NS, World, ip, node, service, version};
use endpointd::cluster::encodings::Encodings;
use endpointd::cluster::read::Reader;
use endpointd::core::outputs::Outputs;
use endpointd::inspect::findings::{Reason, Report};
use endpointd::ops::audit::{Scope, audit};
use futures::FutureExt as _;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

const LABEL: &str = "kubernetes.io/endpoint-selector-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MINUTE: Duration = Duration::from_secs(60);

/// The API, as the proposal describes it.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "endpointselectors.discovery.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "discovery.k8s.io", "scope": "Namespaced",
            "names": {"plural": "endpointselectors", "kind": "EndpointSelector"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// An `EndpointSelector`, owned by these.
fn selector(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
    })
}

const SELECTORS: &str = "/apis/discovery.k8s.io/v1alpha1/namespaces/default/endpointselectors";

const JSON: &str = "application/json";

/// Has the API served.
pub(crate) async fn serve(world: &World) {
    serve_by(&world.api).await;
}

/// Has the API served by another server.
pub(crate) async fn serve_by(api: &Api) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = definition();
    let body = Some((JSON, &definition));
    api.call(Method::POST, definitions, body).await.unwrap();
}

async fn make(world: &World, selector: Value) {
    let body = Some((JSON, &selector));
    world.api.call(Method::POST, SELECTORS, body).await.unwrap();
}

/// The controlling owner reference that the projection of a Service has.
fn controlled_by(service: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "Service", "name": service, "uid": "u", "controller": true}])
}

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
    let reader = Reader::new(Client::new(world.gate.clone(), "default"), Encodings::default());
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

/// The lines about `EndpointSelectors` since the last time.
fn told(log: &Log) -> Vec<String> {
    let lines = log.take();
    lines
        .into_iter()
        .filter(|line| line.contains("EndpointSelector"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn endpoint_selectors_that_no_controller_serves_are_told_once_and_found_by_an_audit() {
    let log = Log::record();
    let mut world = world(Outputs::ALL).await;
    world.make(service()).await;
    world.start_up().await;
    assert_eq!(told(&log), [""; 0], "the API is not served");
    serve(&world).await;
    // A selector that stands for a Service needs no slices of its own. There may be as many as Services.
    for number in 0..600 {
        let name = format!("a{number}");
        make(&world, selector(&name, &controlled_by(&name))).await;
    }
    sleep(6 * MINUTE).await;
    assert_eq!(told(&log), [""; 0]);
    assert!(audited(&world).await.is_clean());

    // One that only looks like it, and one that a controller has made.
    make(&world, selector("b", &controlled_by("other"))).await;
    sleep(6 * MINUTE).await;
    let lines = told(&log);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].starts_with("WARN") && lines[0].contains("default/b"),
        "{lines:#?}"
    );
    sleep(60 * MINUTE).await;
    assert_eq!(told(&log), [""; 0], "once");
    let report = audited(&world).await;
    assert!(report.is_in_sync() && !report.is_clean());
    let problems = report.problems.unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].reason, Reason::EndpointSelectorUnserved);
    assert_eq!(
        (&*problems[0].namespace, &*problems[0].service),
        (NS, "endpointselector/b")
    );
    assert_eq!(world.rest().await.len(), 0, "nothing is written for it");

    let path = format!("{SELECTORS}/b");
    world.api.call(Method::DELETE, &path, None).await.unwrap();
    sleep(6 * MINUTE).await;
    assert_eq!(told(&log).len(), 1, "it is over");
    assert!(audited(&world).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn endpoint_selectors_are_not_looked_for_where_upstream_makes_slices() {
    let custom = Outputs {
        endpoints: false,
        slices: false,
        mirrored: false,
        custom: true,
    };
    let log = Log::record();
    let mut world = world(custom).await;
    serve(&world).await;
    make(&world, selector("b", &json!([]))).await;
    world.start_up().await;
    sleep(6 * MINUTE).await;
    assert_eq!(told(&log), [""; 0]);
    assert!(audited(&world).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_look_for_endpoint_selectors_that_fails_changes_nothing_else() {
    for failure in [Constant::Status(403), Constant::Status(500), Constant::Pause(1)] {
        let log = Log::record();
        let mut world = world(Outputs::ALL).await;
        world.make(service()).await;
        serve(&world).await;
        make(&world, selector("b", &json!([]))).await;
        world.gate.stub(Arc::new(move |sent| {
            let sent = (sent.kind() == "endpointselectors").then(|| sent.clone())?;
            Some(async move { failure.answer(&sent).await }.boxed())
        }));
        world.start_up().await;
        sleep(60 * MINUTE).await;
        assert_eq!(world.in_slices().await.len(), 2);
        let lines = told(&log);
        let expected = usize::from(failure == Constant::Status(403));
        assert_eq!(lines.len(), expected, "{failure:?}: {lines:#?}");
        // It works at last.
        world.gate.stub(Arc::new(|_| None));
        sleep(6 * MINUTE).await;
        assert_eq!(told(&log).len(), 1, "{failure:?}");
        world.stop().await;
    }
}
