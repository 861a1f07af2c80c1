//! Documents of the API's types, as kubectl asks for them.

use crate::client::Api;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn documents() {
    let api = Api::plain().await;
    let index = api.get("/openapi/v3").await;
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 6);
    for (path, entry) in paths {
        let document = api.get(entry["serverRelativeURL"].as_str().unwrap()).await;
        assert_eq!(document["openapi"], "3.0.0", "{path}");
    }
    let core = api.get("/openapi/v3/api/v1").await;
    // By this kubectl knows that the server checks fields, and by what keys to merge.
    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "Pod"})
    );
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(
        parameters
            .iter()
            .any(|p| p["name"] == "fieldValidation" && p["in"] == "query")
    );
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let pod = &core["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
    let slices = api.get("/openapi/v3/apis/discovery.k8s.io/v1").await;
    let endpoint = &slices["components"]["schemas"]["io.k8s.api.discovery.v1.Endpoint"]["properties"];
    assert_eq!(endpoint["addresses"]["items"]["type"], "string");
    let two = api.get("/openapi/v2").await;
    assert_eq!(two["swagger"], "2.0");
    assert!(two["definitions"]["io.k8s.api.core.v1.Service"].is_object());
    // Protobuf is not spoken.
    let answer = api
        .raw(
            "GET",
            "/openapi/v2",
            &[(
                "accept",
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            )],
            b"",
        )
        .await;
    assert_eq!(answer.status, 406);
    assert_eq!(
        api.call("GET", "/openapi/v3/api/v2", Value::Null).await.status,
        404
    );
}
