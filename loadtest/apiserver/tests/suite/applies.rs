//! Server-side apply, and the managers of objects.

use crate::client::{Api, PODS, SERVICES, pod, version};
use memory_apiserver::Config;
use serde_json::{Value, json};
use std::time::Duration;

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(api: &Api, path: &str, manager: &str, body: &Value) -> (u16, Value) {
    let path = format!("{path}?fieldManager={manager}");
    let answer = api
        .raw(
            "PATCH",
            &path,
            &[("content-type", APPLY)],
            body.to_string().as_bytes(),
        )
        .await;
    (answer.status, answer.body)
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "bodies are made where they are sent"
)]
fn service(ports: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"selector": {"app": "web"}, "ports": ports},
    })
}

/// The managers of an object: name, operation, part, and seconds of the time.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let entry = |entry: Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or("").to_owned();
        format!(
            "{} {} {} {}",
            text("manager"),
            text("operation"),
            text("subresource"),
            &text("time")[17..]
        )
    };
    entries.unwrap_or_default().into_iter().map(entry).collect()
}

#[tokio::test(start_paused = true)]
async fn an_apply_makes_an_object_and_is_merged_into_one() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web");
    let config = service(
        json!([{"port": 80, "name": "a"}, {"port": 53, "name": "b"}, {"port": 53, "name": "c", "protocol": "UDP"}]),
    );
    let (status, made) = apply(&api, &path, "me", &config).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["spec"]["type"], "ClusterIP");
    tokio::time::advance(Duration::from_secs(60)).await;
    let (status, same) = apply(&api, &path, "me", &config).await;
    assert_eq!((status, &same), (200, &made), "the same again is no write");
    let more = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "creationTimestamp": null},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP", "targetPort": 5353}]},
    });
    let (_, got) = apply(&api, &path, "you&force=true", &more).await;
    assert!(version(&got) > version(&made));
    let ports = got["spec"]["ports"].as_array().unwrap();
    let targets: Vec<_> = ports
        .iter()
        .map(|port| (&port["name"], &port["targetPort"]))
        .collect();
    assert_eq!(
        targets,
        [
            (&json!("a"), &json!(8080)),
            (&json!("b"), &json!(53)),
            (&json!("c"), &json!(5353))
        ]
    );
    assert_eq!(got["spec"]["clusterIP"], made["spec"]["clusterIP"]);
}

#[tokio::test(start_paused = true)]
async fn managers_are_told_with_the_time_of_their_last_write() {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let config = Config::default().gc(false).seed(1).start_time(start);
    let api = Api::new(config.clone()).await;
    let made = api.create(SERVICES, service(json!([{"port": 80}]))).await;
    assert_eq!(managers(&made), [""; 0], "no client asked for it");
    let path = format!("{SERVICES}/web");
    let (_, got) = apply(
        &api,
        &path,
        "me",
        &service(json!([{"port": 80, "targetPort": 1}])),
    )
    .await;
    assert_eq!(managers(&got), ["me Apply  00Z"]);

    let api = Api::new(config.managed_fields(true)).await;
    let headers = [
        ("content-type", "application/json"),
        ("user-agent", "creator/v1 (linux)"),
    ];
    let body = pod("p").to_string();
    let made = api.raw("POST", PODS, &headers, body.as_bytes()).await.body;
    assert_eq!(managers(&made), ["creator Update  00Z"]);
    tokio::time::advance(Duration::from_secs(5)).await;
    let path = format!("{PODS}/p");
    let status = json!({"status": {"phase": "Running"}});
    api.patch(&format!("{path}/status?fieldManager=kubelet"), status)
        .await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    api.patch(&format!("{path}?fieldManager=kubectl-label"), label)
        .await;
    tokio::time::advance(Duration::from_secs(5)).await;
    let label = json!({"metadata": {"labels": {"a": "c"}}});
    let got = api.patch(&format!("{path}?fieldManager=creator"), label).await;
    assert_eq!(
        managers(&got),
        [
            "kubelet Update status 05Z",
            "kubectl-label Update  05Z",
            "creator Update  10Z"
        ]
    );
    // They are forgotten if a client says so.
    let clear = json!({"metadata": {"managedFields": [{}]}});
    assert_eq!(managers(&api.patch(&path, clear).await), [""; 0]);
    let label = json!({"metadata": {"labels": {"a": "d"}}});
    assert_eq!(managers(&api.patch(&path, label).await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_applied() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web");
    let headers = [("content-type", APPLY)];
    let config = service(json!([{"port": 80}]));
    let answer = api
        .raw("PATCH", &path, &headers, config.to_string().as_bytes())
        .await;
    assert_eq!(
        (answer.status, &answer.body["message"]),
        (
            422,
            &json!(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
            )
        )
    );
    let mut managed = config.clone();
    managed["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let (status, said) = apply(&api, &path, "me", &managed).await;
    assert_eq!(
        (status, &said["message"]),
        (400, &json!("metadata.managedFields must be nil"))
    );
    let mut unknown = config.clone();
    unknown["spec"]["prots"] = json!([]);
    let (status, said) = apply(&api, &path, "me", &unknown).await;
    assert_eq!(status, 500);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .ends_with(".spec.prots: field not declared in schema")
    );
    assert_eq!(
        apply(&api, &format!("{SERVICES}/other"), "me", &config).await.0,
        400
    );
    assert_eq!(apply(&api, &format!("{path}/status"), "me", &config).await.0, 404);
    let said = api
        .refused("PATCH", &format!("{path}?force=true"), json!({}))
        .await;
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("may not be specified for non-apply patch")
    );
    assert!(api.is_gone(&path).await);
    // It is YAML.
    let yaml = b"apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 80\n";
    let answer = api
        .raw("PATCH", &format!("{path}?fieldManager=me"), &headers, yaml)
        .await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}
