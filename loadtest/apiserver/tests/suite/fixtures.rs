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
    // An object that is there is changed.
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
async fn what_is_loaded_keeps_its_owners() {
    let server = ApiServer::new(Config::default().object(&crate::custom::widgets()));
    let dump = {
        let uid = |n: u8| format!("{n}{n}{n}{n}{n}{n}{n}{n}-1111-4111-8111-111111111111");
        let (map, widget, service, foreign) = (uid(1), uid(2), uid(3), uid(4));
        format!(
            r"
{{apiVersion: v1, kind: ConfigMap, metadata: {{name: map, uid: {map}, ownerReferences: [
  {{apiVersion: example.com/v1, kind: Widget, name: w, uid: {widget}, controller: true}}]}}}}
---
{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: slice, ownerReferences: [
  {{apiVersion: v1, kind: Service, name: s, uid: {service}}}]}}, addressType: IPv4,
  endpoints: [{{addresses: [10.1.1.1], targetRef: {{kind: ConfigMap, name: map, uid: {map}}}}}]}}
---
{{apiVersion: v1, kind: Service, metadata: {{name: s, uid: {service}}}, spec: {{ports: [{{port: 80}}]}}}}
---
{{apiVersion: example.com/v1, kind: Widget, metadata: {{name: w, uid: {widget}, ownerReferences: [
  {{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: {foreign}}}]}}}}
---
{{apiVersion: v1, kind: ConfigMap, metadata: {{name: orphan, ownerReferences: [
  {{apiVersion: v1, kind: Service, name: gone, uid: {foreign}}}]}}}}
"
        )
    };
    server.load(&dump).unwrap();
    // The collector has deleted what has no owner in the text, and nothing else.
    let gone = server.wait_for("configmaps", "default/orphan", WITHIN, Value::is_null);
    gone.await.unwrap();
    tokio::time::sleep(WITHIN).await;
    let find = async |resource: &str, name: &str| {
        let key = format!("default/{name}");
        let found = server.wait_for(resource, &key, WITHIN, |it| !it.is_null());
        found.await.unwrap()["metadata"].clone()
    };
    let (map, widget) = (find("configmaps", "map").await, find("widgets", "w").await);
    let (slice, service) = (find("endpointslices", "slice").await, find("services", "s").await);
    assert_eq!(map["ownerReferences"][0]["uid"], widget["uid"]);
    assert_eq!(slice["ownerReferences"][0]["uid"], service["uid"]);
    assert_eq!(widget["ownerReferences"][0]["kind"], "ReplicaSet");
    // Targets are found by their UIDs, too.
    let target = |slice: &Value| slice["endpoints"][0]["targetRef"]["uid"] == map["uid"];
    server
        .wait_for("endpointslices", "default/slice", WITHIN, target)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dump_of_definitions_and_their_objects_can_be_loaded() {
    let server = ApiServer::new(Config::default());
    // `alphas` are printed before `customresourcedefinitions`.
    let mut crd = crate::custom::widgets();
    crd["metadata"]["name"] = "alphas.example.com".into();
    crd["spec"]["scope"] = "Cluster".into();
    crd["spec"]["names"] = json!({"plural": "alphas", "kind": "Alpha"});
    server.load(&crd.to_string()).unwrap();
    server
        .load("{apiVersion: example.com/v1beta1, kind: Alpha, metadata: {name: a}, spec: {size: 1}}")
        .unwrap();
    // The version in which it was written is served no more.
    crd["spec"]["versions"][0]["served"] = false.into();
    server.load(&crd.to_string()).unwrap();
    let other = ApiServer::new(Config::default());
    other.load(&server.dump()).unwrap();
    let loaded = other.wait_for("alphas", "a", WITHIN, |alpha| alpha["spec"]["size"] == 1);
    loaded.await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn a_restored_copy_is_as_if_it_had_been_created() {
    let server = ApiServer::new(Config::default());
    server.load(OBJECTS).unwrap();
    let pods = Api::<Pod>::namespaced(server.client(), "shop");
    let mut original = serde_json::to_value(pods.get("web").await.unwrap()).unwrap();
    let mut copy = original.clone();
    copy["metadata"]["name"] = json!("copy");
    server.restore(copy).unwrap();
    let mut restored = serde_json::to_value(pods.get("copy").await.unwrap()).unwrap();
    let mut uids = Vec::new();
    for pod in [&mut original, &mut restored] {
        for field in ["name", "resourceVersion", "uid"] {
            uids.push(pod["metadata"][field].take());
        }
    }
    assert_eq!(original, restored);
    assert_ne!(uids[2], uids[5]);
    // It is an object like others: watched, changed, deleted.
    let patch = json!({ "status": { "phase": "Failed" } });
    pods.patch_status("copy", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    pods.delete("copy", &kube::api::DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("copy").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_as_it_is_is_not_restored() {
    let server = ApiServer::new(Config::default());
    let map = |namespace| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": namespace } });
    server.restore(map("default")).unwrap();
    for (object, expected) in [
        (map("default"), "already exists"),
        (map("absent"), "not found"),
        (
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a", "namespace": "default" } }),
            "does more",
        ),
        (json!({ "kind": "Unknown" }), "does more"),
    ] {
        let error = server.restore(object).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
