//! Objects that a test puts there itself.

use crate::client::Api;
use memory_apiserver::{Config, LoadError};
use serde_json::{Value, json};
use std::time::Duration;

const OBJECTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: 11111111-1111-4111-8111-111111111111, resourceVersion: "7"}
spec:
  containers: [{name: c, image: "example.com/c:1"}]
status: {phase: Running, podIP: 10.1.2.3}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {a: "1"}}}
"#;
const WEB: &str = "/api/v1/namespaces/shop/pods/web";

async fn api() -> Api {
    Api::new(Config::default().seed(1)).await
}

#[tokio::test(start_paused = true)]
async fn objects_are_loaded_from_yaml_with_their_status() {
    let api = api().await;
    api.server.load(OBJECTS).unwrap();
    let pod = api.get(WEB).await;
    let status = &pod["status"];
    assert_eq!(
        (&status["phase"], &status["podIP"]),
        (&json!("Running"), &json!("10.1.2.3"))
    );
    assert_ne!(pod["metadata"]["uid"], "11111111-1111-4111-8111-111111111111");
    // An object that is there is changed.
    let node = "{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {b: '2'}}}";
    api.server.load(node).unwrap();
    let labels = api.get("/api/v1/nodes/node-1").await["metadata"]["labels"].take();
    assert_eq!(labels, json!({"a": "1", "b": "2"}));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_loaded_is_named() {
    let server = api().await.server;
    let error = server.load("a: [").unwrap_err();
    assert!(matches!(error, LoadError::Yaml(_)), "{error}");
    for (text, what, why) in [
        (
            "{apiVersion: v1, kind: Nonsense, metadata: {name: x}}",
            "Nonsense \"x\"",
            "no such kind",
        ),
        (
            "{apiVersion: v1, kind: Endpoints, metadata: {name: UP}}",
            "Endpoints \"UP\"",
            "metadata.name",
        ),
    ] {
        let error = server.load(text).unwrap_err().to_string();
        assert!(error.starts_with(what) && error.contains(why), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_loaded_keeps_its_owners() {
    let api = api().await;
    let uid = |n: u8| format!("{n}{n}{n}{n}{n}{n}{n}{n}-1111-4111-8111-111111111111");
    let (endpoints, service, foreign) = (uid(1), uid(3), uid(4));
    let text = format!(
        r"
{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: slice, ownerReferences: [
  {{apiVersion: v1, kind: Service, name: s, uid: {service}}}]}}, addressType: IPv4,
  endpoints: [{{addresses: [10.1.1.1], targetRef: {{kind: Endpoints, name: e, uid: {endpoints}}}}}]}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: s, uid: {service}}}, spec: {{ports: [{{port: 80}}]}}}}
---
{{apiVersion: v1, kind: Endpoints, metadata: {{name: e, uid: {endpoints}, ownerReferences: [
  {{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: {foreign}}}]}}}}
---
{{apiVersion: v1, kind: Endpoints, metadata: {{name: orphan, ownerReferences: [
  {{apiVersion: v1, kind: Service, name: gone, uid: {foreign}}}]}}}}
"
    );
    api.server.load(&text).unwrap();
    // The collector deletes what has no owner in the text, and nothing else.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let core = "/api/v1/namespaces/default";
    assert!(api.is_gone(&format!("{core}/endpoints/orphan")).await);
    let endpoints = api.get(&format!("{core}/endpoints/e")).await;
    let service = api.get(&format!("{core}/services/s")).await;
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/slice";
    let slice = api.get(slice).await;
    let owner = |object: &Value| object["metadata"]["ownerReferences"][0].clone();
    assert_eq!(owner(&slice)["uid"], service["metadata"]["uid"]);
    assert_eq!(owner(&endpoints)["kind"], "ReplicaSet");
    // Targets are found by their UIDs, too.
    assert_eq!(
        slice["endpoints"][0]["targetRef"]["uid"],
        endpoints["metadata"]["uid"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_restored_copy_is_as_if_it_had_been_created() {
    let api = api().await;
    api.server.load(OBJECTS).unwrap();
    let mut original = api.get(WEB).await;
    let mut copy = original.clone();
    copy["metadata"]["name"] = json!("copy");
    api.server.restore(copy).unwrap();
    let path = WEB.replace("web", "copy");
    let mut restored = api.get(&path).await;
    let mut uids = Vec::new();
    for pod in [&mut original, &mut restored] {
        for field in ["name", "resourceVersion", "uid"] {
            uids.push(pod["metadata"][field].take());
        }
    }
    assert_eq!(original, restored);
    assert_ne!(uids[2], uids[5]);
    // It is an object like others: changed, deleted.
    let status = json!({"status": {"phase": "Failed"}});
    api.patch(&format!("{path}/status"), status).await;
    api.delete(&path, json!({"gracePeriodSeconds": 0})).await;
    assert!(api.is_gone(&path).await);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_as_it_is_is_not_restored() {
    let server = api().await.server;
    let object = |kind, namespace| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": namespace}});
    server.restore(object("Endpoints", "default")).unwrap();
    for (object, expected) in [
        (object("Endpoints", "default"), "already exists"),
        (object("Endpoints", "absent"), "not found"),
        (object("Service", "default"), "does more"),
        (json!({"kind": "Unknown"}), "does more"),
    ] {
        let error = server.restore(object).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn endpoint_selectors_are_served_when_a_test_wants_them() {
    let api = Api::plain().await;
    let path = "/apis/discovery.k8s.io/v1alpha1/namespaces/ns/endpointselectors";
    assert!(api.is_gone(path).await);
    api.server.serve_endpoint_selectors();
    api.create(path, json!({"metadata": {"name": "pool"}})).await;
    assert_eq!(api.get(path).await["kind"], "EndpointSelectorList");
}
