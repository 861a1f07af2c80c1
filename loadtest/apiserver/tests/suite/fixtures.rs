//! Objects that a test puts there itself.

use crate::client::Api;
use memory_apiserver::{Config, LoadError};
use serde_json::json;

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
async fn what_cannot_be_stored_is_named() {
    let server = api().await.server;
    let error = server.load("a: [").unwrap_err();
    assert!(matches!(error, LoadError::Yaml(_)), "{error}");
    for (text, why) in [
        (
            "{apiVersion: v1, kind: Nonsense, metadata: {name: x}}",
            "Nonsense \"x\": the server serves no such kind",
        ),
        (
            "{apiVersion: v1, kind: Endpoints, metadata: {name: UP}}",
            "Endpoints \"UP\": ",
        ),
    ] {
        let error = server.load(text).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
    // What is restored is stored as it is.
    let object = |kind, namespace| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": namespace}});
    server.restore(object("Endpoints", "default")).unwrap();
    for (object, expected) in [
        (object("Endpoints", "default"), "already exists"),
        (object("Endpoints", "absent"), "not found"),
        (object("Service", "default"), "does more"),
    ] {
        let error = server.restore(object).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
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
    api.remove(&path).await;
    assert!(api.is_gone(&path).await);
}
