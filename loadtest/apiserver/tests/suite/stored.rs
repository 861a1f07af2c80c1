//! Kinds that are only kept: `ConfigMap`s, Secrets, Deployments.

use crate::client::Api;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";

fn causes(refused: &Value) -> Vec<&str> {
    let causes = refused["details"]["causes"].as_array().unwrap();
    causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect()
}

async fn row(api: &Api, path: &str) -> Value {
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    api.raw("GET", path, &table, b"").await.body["rows"][0]["cells"].clone()
}

#[tokio::test(start_paused = true)]
async fn configmaps() {
    let api = Api::plain().await;
    let map =
        json!({"metadata": {"name": "m"}, "data": {"a": "1"}, "binaryData": {"b": "AAE="}, "unknown": 1});
    let made = api.create(MAPS, map).await;
    assert_eq!((&made["data"], made.get("unknown")), (&json!({"a": "1"}), None));
    assert!(made["metadata"].get("generation").is_none());
    assert_eq!(
        row(&api, MAPS).await.as_array().unwrap()[..2],
        [json!("m"), json!(2)]
    );
    for (map, field) in [
        (json!({"data": {"a/b": ""}}), "data[a/b]"),
        (
            json!({"data": {"a": ""}, "binaryData": {"a": ""}}),
            "binaryData[a]",
        ),
        (json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}), ""),
    ] {
        let mut map = map;
        map["metadata"] = json!({"name": "bad"});
        let answer = api.call("POST", MAPS, map).await;
        assert_eq!(answer.status, 422);
        assert!(
            field.is_empty() || causes(&answer.body) == [field],
            "{}",
            answer.body
        );
    }
    let path = format!("{MAPS}/m");
    let sealed = api.patch(&path, json!({"immutable": true})).await;
    assert_eq!(sealed["immutable"], true);
    assert_eq!(
        causes(&api.refused("PATCH", &path, json!({"data": {"a": "2"}})).await),
        ["data"]
    );
    assert_eq!(
        causes(&api.refused("PATCH", &path, json!({"immutable": false})).await),
        ["immutable"]
    );
    api.patch(&path, json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    assert_eq!(api.delete(&path, Value::Null).await["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn secrets() {
    let api = Api::plain().await;
    let secret =
        json!({"metadata": {"name": "s"}, "data": {"a": "MQ=="}, "stringData": {"a": "2", "b": "x"}});
    let made = api.create(SECRETS, secret).await;
    assert_eq!(made["type"], "Opaque");
    assert_eq!(made["data"], json!({"a": "Mg==", "b": "eA=="}));
    assert!(made.get("stringData").is_none());
    assert_eq!(
        row(&api, SECRETS).await.as_array().unwrap()[..3],
        [json!("s"), json!("Opaque"), json!(2)]
    );
    let typed = api.get(&format!("{SECRETS}?fieldSelector=type%3DOpaque")).await;
    assert_eq!(typed["items"].as_array().unwrap().len(), 1);
    let other = json!({"type": "example.com/x"});
    assert_eq!(
        causes(&api.refused("PATCH", &format!("{SECRETS}/s"), other).await),
        ["type"]
    );
    let tls = json!({"metadata": {"name": "t"}, "type": "kubernetes.io/tls", "data": {"tls.crt": ""}});
    assert_eq!(
        causes(&api.refused("POST", SECRETS, tls).await),
        ["data[tls.key]"]
    );
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
        "status": {"replicas": 7},
    })
}

#[tokio::test(start_paused = true)]
async fn deployments() {
    let api = Api::plain().await;
    let made = api.create(DEPLOYMENTS, deployment()).await;
    let spec = &made["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["progressDeadlineSeconds"]),
        (&json!(1), &json!(600))
    );
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    let pod = &spec["template"]["spec"];
    assert_eq!(
        (&pod["restartPolicy"], &pod["dnsPolicy"]),
        (&json!("Always"), &json!("ClusterFirst"))
    );
    assert_eq!(pod["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(
        (&made["status"], &made["metadata"]["generation"]),
        (&json!({}), &json!(1))
    );
    let path = format!("{DEPLOYMENTS}/d");
    let generation = async |path: &str, patch: Value| {
        api.patch(path, patch).await["metadata"]["generation"]
            .as_i64()
            .unwrap()
    };
    assert_eq!(generation(&path, json!({"spec": {"replicas": 3}})).await, 2);
    assert_eq!(
        generation(&path, json!({"metadata": {"labels": {"a": "b"}}})).await,
        2
    );
    assert_eq!(
        generation(&path, json!({"metadata": {"annotations": {"a": "b"}}})).await,
        3
    );
    let status = json!({"spec": {"replicas": 9}, "status": {"readyReplicas": 2, "observedGeneration": 3}});
    assert_eq!(generation(&format!("{path}/status"), status).await, 3);
    let seen = api.get(&path).await;
    assert_eq!(
        (&seen["spec"]["replicas"], &seen["status"]["readyReplicas"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(
        row(&api, DEPLOYMENTS).await.as_array().unwrap()[..2],
        [json!("d"), json!("2/3")]
    );
    let other = json!({"spec": {"selector": {"matchLabels": {"app": "b"}}}});
    let refused = api.refused("PATCH", &path, other).await;
    assert_eq!(
        causes(&refused),
        ["spec.template.metadata.labels", "spec.selector"]
    );
    let mut bare = deployment();
    bare["spec"]["template"]["spec"]["containers"] = json!([]);
    assert_eq!(
        causes(&api.refused("POST", DEPLOYMENTS, bare).await),
        ["spec.template.spec.containers"]
    );
    // A strategic merge patch goes by the keys of the template's lists.
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "example.com/c:2"}]}}}});
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let body = patch.to_string().into_bytes();
    let patched = api.raw("PATCH", &path, &strategic, &body).await.body;
    assert_eq!(
        patched["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"],
        "File"
    );
}
