//! Server-side apply: the owners of fields, conflicts, and applying the same again.

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

/// Returns the fields that a manager owns.
fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == manager);
    entry.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

#[tokio::test(start_paused = true)]
async fn applying_makes_changes_and_takes_away() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web");
    let config = service(json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]));
    let (status, made) = apply(&api, &path, "me", &config).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["spec"]["type"], "ClusterIP");
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!(
        (
            &entry["manager"],
            &entry["operation"],
            &entry["apiVersion"],
            &entry["fieldsType"]
        ),
        (&json!("me"), &json!("Apply"), &json!("v1"), &json!("FieldsV1"))
    );
    assert_eq!(
        entry["fieldsV1"],
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:ports": {
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
                    "k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
                },
                "f:selector": {},
            },
        })
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    let (status, same) = apply(&api, &path, "me", &config).await;
    assert_eq!((status, &same), (200, &made), "the same again is no write");

    let less = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "creationTimestamp": null},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 81, "name": "b", "targetPort": 8081}]},
    });
    let (_, got) = apply(&api, &path, "me", &less).await;
    assert!(version(&got) > version(&made));
    assert!(got["metadata"].get("labels").is_none(), "{got}");
    let ports = got["spec"]["ports"].as_array().unwrap();
    assert_eq!((ports.len(), &ports[0]["targetPort"]), (1, &json!(8081)));
    assert_eq!(
        got["spec"]["clusterIP"], made["spec"]["clusterIP"],
        "what the server set stays"
    );
}

#[tokio::test(start_paused = true)]
async fn conflicts() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web");
    let config = service(json!([{"port": 80, "name": "a"}]));
    apply(&api, &path, "me", &config).await;
    // The same value is shared, another is a conflict.
    let label = |value: &str| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"app": value}}});
    let (status, got) = apply(&api, &path, "you", &label("web")).await;
    assert_eq!(status, 200);
    assert_eq!(
        owned(&got, "you"),
        json!({"f:metadata": {"f:labels": {"f:app": {}}}})
    );
    let (status, said) = apply(&api, &path, "you", &label("other")).await;
    assert_eq!((status, &said["reason"]), (409, &json!("Conflict")));
    assert_eq!(
        said["message"],
        "Apply failed with 1 conflict: conflict with \"me\": .metadata.labels.app"
    );
    assert_eq!(
        said["details"],
        json!({"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"me\"", "field": ".metadata.labels.app"}]})
    );
    let (status, got) = apply(&api, &path, "you&force=true", &label("other")).await;
    assert_eq!(
        (status, &got["metadata"]["labels"]["app"]),
        (200, &json!("other"))
    );
    assert!(owned(&got, "me")["f:metadata"].is_null());
    // A field that its last owner gives up goes, fields that others own stay.
    let nothing = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}});
    let (_, got) = apply(&api, &path, "you", &nothing).await;
    assert!(got["metadata"].get("labels").is_none());
    assert!(owned(&got, "you").is_null());
    assert_eq!(got["spec"]["ports"][0]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn other_writes_take_fields_from_appliers() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web");
    let config = service(json!([{"port": 80, "name": "a"}]));
    apply(&api, &path, "me", &config).await;
    let answer = api
        .raw(
            "PATCH",
            &format!("{path}?fieldManager=kubectl-label"),
            &[("content-type", crate::client::MERGE)],
            br#"{"metadata": {"labels": {"app": "x", "b": "y"}}}"#,
        )
        .await;
    assert_eq!(
        owned(&answer.body, "kubectl-label"),
        json!({"f:metadata": {"f:labels": {"f:app": {}, "f:b": {}}}})
    );
    assert!(owned(&answer.body, "me")["f:metadata"].is_null());
    let (status, said) = apply(&api, &path, "me", &config).await;
    assert_eq!(status, 409);
    let time = answer.body["metadata"]["managedFields"][1]["time"]
        .as_str()
        .unwrap();
    assert_eq!(
        said["message"],
        format!(
            "Apply failed with 1 conflict: conflict with \"kubectl-label\" using v1 at {time}: .metadata.labels.app"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_apply_to_what_others_made() {
    let api = Api::plain().await;
    api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let plain = api.get(&path).await;
    assert!(
        plain["metadata"].get("managedFields").is_none(),
        "nobody asked who owns what"
    );
    let config = |image: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": image}]}});
    let (status, said) = apply(&api, &path, "me", &config("example.com/c:9")).await;
    assert_eq!(status, 409);
    let message = said["message"].as_str().unwrap();
    assert!(
        message.contains("conflict with \"before-first-apply\" using v1")
            && message.ends_with(": .spec.containers[name=\"c\"].image"),
        "{message}"
    );
    let image = plain["spec"]["containers"][0]["image"].as_str().unwrap();
    let (status, got) = apply(&api, &path, "me", &config(image)).await;
    assert_eq!((status, &got["spec"]), (200, &plain["spec"]));
    assert_eq!(got["metadata"]["managedFields"].as_array().unwrap().len(), 2);
    // The status has owners of its own.
    let (status, got) = apply(
        &api,
        &format!("{path}/status"),
        "kubelet",
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}}),
    )
    .await;
    assert_eq!((status, &got["status"]["podIP"]), (200, &json!("10.0.0.1")));
    let entries = got["metadata"]["managedFields"].as_array().unwrap();
    let kubelet = entries
        .iter()
        .find(|entry| entry["manager"] == "kubelet")
        .unwrap();
    assert_eq!(kubelet["subresource"], "status");
}

#[tokio::test(start_paused = true)]
async fn owners_of_everything_where_that_is_wanted() {
    let api = Api::new(Config::default().gc(false).managed_fields(true)).await;
    let answer = api
        .raw(
            "POST",
            PODS,
            &[
                ("content-type", "application/json"),
                ("user-agent", "creator/v1 (linux)"),
            ],
            pod("p").to_string().as_bytes(),
        )
        .await;
    let fields = owned(&answer.body, "creator");
    assert_eq!(
        fields["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"]["f:image"],
        json!({})
    );
    assert!(fields["f:metadata"].is_null() || fields["f:metadata"].get("f:name").is_none());
    assert!(fields.get("f:status").is_none());
    let status = json!({"status": {"phase": "Running"}});
    let got = api.patch(&format!("{PODS}/p/status"), status).await;
    let entry = &got["metadata"]["managedFields"][1];
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:phase": {}}}))
    );
    // Fields that kubectl had sent before it applied on the server's side are its own.
    let last = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]}});
    let annotation = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": last.to_string()}}});
    api.patch(&format!("{PODS}/p"), annotation).await;
    let mut config = last;
    config["spec"]["containers"][0]["image"] = "example.com/c:2".into();
    assert_eq!(apply(&api, &format!("{PODS}/p"), "other", &config).await.0, 409);
    let (status, said) = apply(&api, &format!("{PODS}/p"), "kubectl", &config).await;
    assert_eq!(status, 200, "{said}");
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

#[tokio::test(start_paused = true)]
async fn a_json_patch_may_hand_fields_over() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/web");
    let (_, made) = apply(&api, &path, "me", &service(json!([{"port": 80}]))).await;
    let mut fields = made["metadata"]["managedFields"].clone();
    fields[0]["manager"] = "you".into();
    let patch = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": fields},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
    ]);
    let headers = [("content-type", "application/json-patch+json")];
    let answer = api
        .raw("PATCH", &path, &headers, patch.to_string().as_bytes())
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(owned(&answer.body, "you"), owned(&made, "me"));
    assert!(owned(&answer.body, "me").is_null());
}
