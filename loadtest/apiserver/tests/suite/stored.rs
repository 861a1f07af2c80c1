//! Kinds that are only kept: Deployments.

use crate::client::Api;
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";

fn causes(refused: &Value) -> Vec<&str> {
    let causes = refused["details"]["causes"].as_array().unwrap();
    causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect()
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
