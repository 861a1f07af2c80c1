//! The document by which kubectl checks and merges.

use crate::client::Api;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn each_kind_says_that_the_server_checks_fields() {
    let api = Api::plain().await;
    let index = api.get("/openapi/v3").await;
    let mut kinds = Vec::new();
    for (path, entry) in index["paths"].as_object().unwrap() {
        let document = api.get(entry["serverRelativeURL"].as_str().unwrap()).await;
        assert_eq!(document["openapi"], "3.0.0", "{path}");
        for operations in document["paths"].as_object().unwrap().values() {
            let patch = &operations["patch"];
            kinds.push(patch["x-kubernetes-group-version-kind"].clone());
            let mut parameters = patch["parameters"].as_array().unwrap().iter();
            assert!(parameters.any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
        }
    }
    let slice = json!({"group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice"});
    assert!(kinds.contains(&slice), "{kinds:?}");
    for path in ["/openapi/v2", "/openapi/v3/api/v2"] {
        assert_eq!(api.call("GET", path, Value::Null).await.status, 404);
    }
}
