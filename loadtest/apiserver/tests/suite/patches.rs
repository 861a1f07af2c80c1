//! Patches of all kinds, and strictness.

use crate::client::{Api, PODS, SERVICES, SLICES, pod, slice, version};
use serde_json::{Value, json};

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[allow(
    clippy::needless_pass_by_value,
    reason = "bodies are made where they are sent"
)]
async fn patch(api: &Api, media: &str, path: &str, body: Value) -> (u16, Value) {
    let body = body.to_string();
    let answer = api
        .raw("PATCH", path, &[("content-type", media)], body.as_bytes())
        .await;
    (answer.status, answer.body)
}

#[tokio::test(start_paused = true)]
async fn strategic_merge_patches() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let image = json!({"spec": {"containers": [{"name": "c", "image": "example.com/c:2"}]}});
    let (status, got) = patch(&api, STRATEGIC, &path, image.clone()).await;
    assert_eq!(status, 200);
    let mut want = made.clone();
    want["spec"]["containers"][0]["image"] = "example.com/c:2".into();
    assert_eq!(got["spec"], want["spec"]);
    assert_eq!(
        patch(&api, STRATEGIC, &path, image).await.1,
        got,
        "the same again changes nothing"
    );
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let other = json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}});
    for body in [ready("False"), other, ready("True")] {
        assert_eq!(
            patch(&api, STRATEGIC, &format!("{path}/status"), body).await.0,
            200
        );
    }
    let conditions = api.get(&path).await["status"]["conditions"].clone();
    let kinds: Vec<&str> = conditions
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        (kinds, &conditions[0]["status"]),
        (vec!["Ready", "Initialized"], &json!("True"))
    );
    let nameless = json!({"spec": {"containers": [{"image": "x"}]}});
    let (status, said) = patch(&api, STRATEGIC, &path, nameless).await;
    assert_eq!(status, 500);
    assert_eq!(
        said["message"],
        r#"Internal error occurred: map: {"image":"x"} does not contain declared merge key: name"#
    );
    let web = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}});
    api.create(SERVICES, web).await;
    let body = json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}], "$setElementOrder/ports": [{"port": 80}, {"port": 81}]}});
    let (_, got) = patch(&api, STRATEGIC, &format!("{SERVICES}/web"), body).await;
    assert_eq!(got["spec"]["ports"][0]["targetPort"], 8080);
    assert_eq!(
        (
            &got["spec"]["ports"][0]["name"],
            got["spec"]["ports"].as_array().unwrap().len()
        ),
        (&json!("a"), 2)
    );
    // The endpoints of a slice are one.
    api.create(SLICES, slice("s")).await;
    let body = json!({"endpoints": [{"addresses": ["10.9.9.9"]}]});
    let (_, got) = patch(&api, STRATEGIC, &format!("{SLICES}/s"), body).await;
    assert_eq!(got["endpoints"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn json_patches() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let steps = json!([
        {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]},
        {"op": "add", "path": "/metadata/labels", "value": {"a~b": "1", "c": "2"}},
        {"op": "remove", "path": "/metadata/labels/a~0b"},
        {"op": "copy", "from": "/metadata/labels/c", "path": "/metadata/labels/d"},
    ]);
    let (status, got) = patch(&api, JSON, &path, steps).await;
    assert_eq!(
        (status, &got["metadata"]["labels"]),
        (200, &json!({"c": "2", "d": "2"}))
    );
    for steps in [
        json!([{"op": "test", "path": "/metadata/uid", "value": "x"}]),
        json!([{"op": "remove", "path": "/metadata/nothing"}]),
    ] {
        let (status, said) = patch(&api, JSON, &path, steps).await;
        assert_eq!((status, &said["reason"]), (422, &json!("Invalid")));
        assert_eq!(
            said["message"],
            "the server rejected our request due to an error in our request"
        );
    }
    assert_eq!(patch(&api, JSON, &path, json!([{"op": "explode"}])).await.0, 400);
    assert_eq!(patch(&api, JSON, &path, json!({"op": "add"})).await.0, 400);
    assert_eq!(
        api.get(&path).await,
        got,
        "a patch that fails leaves all as it was"
    );
    // A version in the patch is a condition.
    let stale = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}]);
    assert_eq!(patch(&api, JSON, &path, stale).await.0, 409);
    assert!(version(&got) > version(&made));
}

#[tokio::test(start_paused = true)]
async fn strict_clients_are_told_of_unknown_fields() {
    let api = Api::plain().await;
    let mut given = pod("p");
    given["spec"]["containers"][0]["imagePullPolice"] = "Always".into();
    given["spec"]["nodname"] = "n".into();
    let strict = format!("{PODS}?fieldValidation=Strict");
    let said = api.refused("POST", &strict, given.clone()).await;
    assert_eq!(said["code"], 400);
    assert_eq!(
        said["message"],
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \
         \"spec.containers[0].imagePullPolice\", unknown field \"spec.nodname\""
    );
    api.create(&format!("{PODS}?fieldValidation=Ignore"), given.clone())
        .await;
    let one = format!("{PODS}/p?fieldValidation=Strict");
    assert_eq!(api.refused("PUT", &one, given).await["code"], 400);
    let body = json!({"spec": {"nodname": "n"}});
    let said = api.refused("PATCH", &one, body).await;
    assert_eq!(
        (&said["code"], &said["message"]),
        (
            &json!(422),
            &json!(
                " \"\" is invalid: patch: Invalid value: strict decoding error: unknown field \"spec.nodname\""
            )
        )
    );
}
