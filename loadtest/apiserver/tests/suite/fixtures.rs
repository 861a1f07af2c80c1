//! A test's own hand on the objects: loading, waiting, printing, and a client.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use memory_apiserver::{ApiServer, Config, LoadError, WaitError};
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
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "1"}}
- {apiVersion: v1, kind: Node, metadata: {name: node-1}}
"#;
const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn objects_are_loaded_from_yaml_with_their_status() {
    let server = ApiServer::new(Config::default());
    server.load(OBJECTS).unwrap();
    let pod = Api::<Pod>::namespaced(server.client(), "shop")
        .get("web")
        .await
        .unwrap();
    let status = pod.status.unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.pod_ip.as_deref()),
        (Some("Running"), Some("10.1.2.3"))
    );
    assert_ne!(
        pod.metadata.uid.as_deref(),
        Some("11111111-1111-4111-8111-111111111111")
    );
    let map = Api::<ConfigMap>::default_namespaced(server.client())
        .get("settings")
        .await
        .unwrap();
    assert_eq!(map.data.unwrap()["a"], "1");
    // What is there is changed.
    server
        .load("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {b: '2'}}")
        .unwrap();
    let map = Api::<ConfigMap>::default_namespaced(server.client())
        .get("settings")
        .await
        .unwrap();
    assert_eq!(map.data.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_loaded_is_named() {
    let server = ApiServer::new(Config::default());
    let error = server.load("a: [").unwrap_err();
    assert!(matches!(error, LoadError::Yaml(_)), "{error}");
    for (text, what, why) in [
        (
            "{apiVersion: v1, kind: Nonsense, metadata: {name: x}}",
            "Nonsense \"x\"",
            "no such kind",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: UP}}",
            "ConfigMap \"UP\"",
            "metadata.name",
        ),
    ] {
        let error = server.load(text).unwrap_err().to_string();
        assert!(error.starts_with(what) && error.contains(why), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dump_is_yaml_that_can_be_loaded() {
    let server = ApiServer::new(Config::default());
    server.load(OBJECTS).unwrap();
    let text = server.dump();
    assert!(
        text.contains("phase: Running") && !text.contains("managedFields"),
        "{text}"
    );
    let other = ApiServer::new(Config::default());
    other.load(&text).unwrap();
    let names = |text: &str| -> Vec<String> {
        let names = text.lines().filter(|line| line.trim_start().starts_with("name:"));
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(&other.dump()), names(&text));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_condition_or_with_the_time() {
    let server = ApiServer::new(Config::default());
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let work = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
        maps.patch("m", &PatchParams::apply("test"), &Patch::Apply(map))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        maps.delete("m", &kube::api::DeleteParams::default())
            .await
            .unwrap();
    });
    let found = server
        .wait_for("configmaps", "default/m", WITHIN, |map| map["data"]["a"] == "1")
        .await;
    assert_eq!(found.unwrap()["metadata"]["name"], "m");
    let end = server
        .wait_for("configmaps", "default/m", WITHIN, Value::is_null)
        .await;
    assert!(end.unwrap().is_null());
    work.await.unwrap();
    let error = server
        .wait_for("configmaps", "default/m", WITHIN, |map| !map.is_null())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "configmaps default/m did not reach the condition within 5s; there is no such object"
    );
    server.load(OBJECTS).unwrap();
    let error = server
        .wait_for("pods", "shop/web", WITHIN, |pod| {
            pod["status"]["phase"] == "Failed"
        })
        .await;
    assert!(error.unwrap_err().to_string().contains("\n  phase: Running"));
    let error = server
        .wait_for("widgets.example.com", "x", WITHIN, |_| true)
        .await
        .unwrap_err();
    assert!(matches!(error, WaitError::NoSuchResource(_)), "{error}");
}
