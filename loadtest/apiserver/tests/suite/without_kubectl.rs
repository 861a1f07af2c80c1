//! Answers to what only a server with the feature `kubectl` has: those of a real server that lacks it.

use crate::client::{Api, PODS, pod};
use serde_json::{Value, json};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[tokio::test(start_paused = true)]
async fn a_table_is_refused_unless_something_else_is_accepted_too() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let path = format!("{PODS}/p");
    let refused = api.raw("GET", &path, &[("accept", table)], b"").await;
    assert_eq!(
        (refused.status, &refused.body["reason"]),
        (406, &json!("NotAcceptable"))
    );
    let both = format!("{table},application/json");
    let whole = api.raw("GET", &path, &[("accept", &both)], b"").await;
    assert_eq!((whole.status, whole.body), (200, made));
    let list = api.raw("GET", PODS, &[("accept", &both)], b"").await;
    assert_eq!((list.status, &list.body["kind"]), (200, &json!("PodList")));
    let mut watch = api.watch_as(&format!("{PODS}?watch=1"), &both).await;
    assert_eq!(watch.next().await.unwrap()["object"]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn a_strategic_merge_patch_is_of_an_unsupported_type() {
    let api = Api::plain().await;
    let made = api.create(PODS, pod("p")).await;
    for path in [format!("{PODS}/p"), format!("{PODS}/p/status")] {
        let patch = br#"{"metadata":{"labels":{"a":"b"}}}"#;
        let refused = api
            .raw("PATCH", &path, &[("content-type", STRATEGIC)], patch)
            .await;
        assert_eq!(
            (refused.status, &refused.body["reason"]),
            (415, &json!("UnsupportedMediaType"))
        );
    }
    assert_eq!(api.get(&format!("{PODS}/p")).await, made);
}

#[tokio::test(start_paused = true)]
async fn there_is_no_openapi_and_there_is_discovery() {
    let api = Api::plain().await;
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        let answer = api.call("GET", path, Value::Null).await;
        assert_eq!((answer.status, &answer.body["reason"]), (404, &json!("NotFound")));
        // kubectl asks for it in a form of its own.
        let protobuf = [(
            "accept",
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        )];
        assert_eq!(api.raw("GET", path, &protobuf, b"").await.status, 404);
    }
    assert_eq!(api.get("/api/v1").await["kind"], "APIResourceList");
}
