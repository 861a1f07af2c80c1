//! Requests that are refused, and change nothing.

use crate::client::{Api, LEASES, PODS, SLICES, pod, slice};
use memory_apiserver::Config;
use serde_json::{Value, json};

const ENDPOINTS: &str = "/api/v1/namespaces/ns/endpoints";

/// `base` with the value at a pointer set.
fn with(mut base: Value, path: &[&str], value: Value) -> Value {
    let mut at = &mut base;
    for key in path {
        at = match key.parse::<usize>() {
            Ok(i) => &mut at[i],
            Err(_) => &mut at[*key],
        };
    }
    *at = value;
    base
}

async fn check(api: &Api, path: &str, body: Value, field: &str) {
    let refusal = api.refused("POST", path, body.clone()).await;
    assert_eq!(
        (&refusal["code"], &refusal["reason"]),
        (&json!(422), &json!("Invalid")),
        "{body}"
    );
    let causes = refusal["details"]["causes"].as_array().unwrap();
    assert!(
        causes.iter().any(|c| c["field"] == field),
        "{field} is not among {causes:?}"
    );
}

fn ports(count: usize) -> Value {
    (0..count)
        .map(|i| json!({"name": format!("p{i}"), "port": 80}))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn slices() {
    let api = Api::plain().await;
    let addresses: Value = (0..101).map(|i| json!(format!("10.2.0.{i}"))).collect();
    let zones: Value = (0..9).map(|i| json!({"name": format!("z{i}")})).collect();
    let two = json!([{"port": 1}, {"port": 2}]);
    let cases: [(&[&str], Value, &str); 13] = [
        (&["addressType"], Value::Null, "addressType"),
        (&["addressType"], "IP".into(), "addressType"),
        (&["addressType"], "IPv6".into(), "endpoints[0].addresses[0]"),
        (&["ports"], ports(20_001), "ports"),
        (&["ports"], two, "ports[1].name"),
        (&["ports", "0", "name"], "Bad_".into(), "ports[0].name"),
        (&["ports", "0", "protocol"], "X".into(), "ports[0].protocol"),
        (
            &["endpoints", "0", "addresses"],
            json!([]),
            "endpoints[0].addresses",
        ),
        (
            &["endpoints", "0", "addresses"],
            addresses,
            "endpoints[0].addresses",
        ),
        (
            &["endpoints", "0", "addresses"],
            json!(["127.0.0.1"]),
            "endpoints[0].addresses[0]",
        ),
        (
            &["endpoints", "0", "nodeName"],
            "".into(),
            "endpoints[0].nodeName",
        ),
        (
            &["endpoints", "0", "hostname"],
            "A.B".into(),
            "endpoints[0].hostname",
        ),
        (
            &["endpoints", "0", "hints"],
            json!({"forZones": zones}),
            "endpoints[0].hints.forZones",
        ),
    ];
    for (path, value, field) in cases {
        check(&api, SLICES, with(slice("s"), path, value), field).await;
    }
    let wrong = with(
        slice("s"),
        &["endpoints", "0", "conditions"],
        json!({"ready": "yes"}),
    );
    let refusal = api.refused("POST", SLICES, wrong).await;
    assert_eq!(refusal["code"], 400);
    let message = refusal["message"].as_str().unwrap();
    assert!(
        message.contains("EndpointConditions.endpoints.conditions.ready"),
        "{message}"
    );
    // As many as there may be are taken.
    let endpoint = |i| json!({"addresses": [format!("10.3.{}.{}", i / 250, i % 250)]});
    let full = with(slice("s"), &["endpoints"], (0..1000).map(endpoint).collect());
    api.create(SLICES, with(full, &["ports"], ports(100))).await;
}

#[tokio::test(start_paused = true)]
async fn metadata() {
    let api = Api::plain().await;
    for name in ["A", "a_b", "-a", "a..b", &"x".repeat(254)] {
        check(&api, SLICES, slice(name), "metadata.name").await;
    }
    let long = "x".repeat(64);
    let cases: [(&[&str], Value, &str); 7] = [
        (&["metadata"], json!({}), "metadata.name"),
        (
            &["metadata"],
            json!({"generateName": "A-"}),
            "metadata.generateName",
        ),
        (&["metadata", "labels"], json!({"a b": "c"}), "metadata.labels"),
        (&["metadata", "labels"], json!({"a": "b c"}), "metadata.labels"),
        (&["metadata", "labels"], json!({"a": long}), "metadata.labels"),
        (
            &["metadata", "annotations"],
            json!({"/": ""}),
            "metadata.annotations",
        ),
        (
            &["metadata", "finalizers"],
            json!(["plain"]),
            "metadata.finalizers",
        ),
    ];
    for (path, value, field) in cases {
        check(&api, SLICES, with(slice("s"), path, value), field).await;
    }
    for missing in ["apiVersion", "kind", "name", "uid"] {
        let mut owner = json!({"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "u"});
        owner.as_object_mut().unwrap().remove(missing);
        let owned = with(slice("s"), &["metadata", "ownerReferences"], json!([owner]));
        check(
            &api,
            SLICES,
            owned,
            &format!("metadata.ownerReferences[0].{missing}"),
        )
        .await;
    }
    let bad = json!({"metadata": {"name": "a.b"}});
    check(&api, "/api/v1/namespaces", bad, "metadata.name").await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_not_where_they_are_sent() {
    let api = Api::plain().await;
    let path = format!("{SLICES}/s");
    let elsewhere = with(slice("s"), &["metadata", "namespace"], "default".into());
    assert_eq!(api.refused("POST", SLICES, elsewhere.clone()).await["code"], 400);
    let versioned = with(slice("s"), &["metadata", "resourceVersion"], "5".into());
    assert_eq!(api.refused("POST", SLICES, versioned).await["code"], 500);
    let unnamed = with(slice("s"), &["metadata"], json!({}));
    assert_eq!(api.refused("PUT", &path, unnamed).await["code"], 400);
    api.create(SLICES, slice("s")).await;
    assert_eq!(api.refused("PUT", &path, elsewhere).await["code"], 400);
    let deleted = with(
        slice("s"),
        &["metadata", "deletionTimestamp"],
        "2030-01-01T00:00:00Z".into(),
    );
    assert_eq!(api.refused("PUT", &path, deleted).await["code"], 422);
}

#[tokio::test(start_paused = true)]
async fn pods() {
    let api = Api::plain().await;
    let base = || pod("p");
    check(
        &api,
        PODS,
        with(base(), &["spec", "containers"], json!([])),
        "spec.containers",
    )
    .await;
    check(
        &api,
        PODS,
        with(base(), &["spec"], Value::Null),
        "spec.containers",
    )
    .await;
    check(
        &api,
        PODS,
        with(base(), &["spec", "containers", "0", "name"], "".into()),
        "spec.containers[0].name",
    )
    .await;
    let port = json!([{"containerPort": 0}]);
    let at = ["spec", "containers", "0", "ports"];
    check(
        &api,
        PODS,
        with(base(), &at, port),
        "spec.containers[0].ports[0].containerPort",
    )
    .await;
    check(
        &api,
        PODS,
        with(base(), &["spec", "restartPolicy"], "Maybe".into()),
        "spec.restartPolicy",
    )
    .await;
    api.create(PODS, base()).await;
    let path = format!("{PODS}/p");
    let refusal = api
        .refused("PATCH", &path, json!({"spec": {"nodeName": "other"}}))
        .await;
    assert_eq!(refusal["details"]["causes"][0]["reason"], "FieldValueForbidden");
    let same_family = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}});
    assert_eq!(
        api.refused("PATCH", &format!("{path}/status"), same_family).await["code"],
        422
    );
    let no_ip = json!({"status": {"podIPs": [{"ip": "x"}]}});
    assert_eq!(
        api.refused("PATCH", &format!("{path}/status"), no_ip).await["code"],
        422
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_and_leases() {
    let api = Api::plain().await;
    let base = || json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 80}]}]});
    let address = ["subsets", "0", "addresses", "0"];
    check(
        &api,
        ENDPOINTS,
        with(base(), &address, json!({"ip": "x"})),
        "subsets[0].addresses[0].ip",
    )
    .await;
    check(
        &api,
        ENDPOINTS,
        with(base(), &address, json!({"ip": "169.254.0.1"})),
        "subsets[0].addresses[0].ip",
    )
    .await;
    let no_node = json!({"ip": "10.1.0.1", "nodeName": ""});
    check(
        &api,
        ENDPOINTS,
        with(base(), &address, no_node),
        "subsets[0].addresses[0].nodeName",
    )
    .await;
    check(
        &api,
        ENDPOINTS,
        with(base(), &["subsets", "0", "addresses"], json!([])),
        "subsets[0]",
    )
    .await;
    check(
        &api,
        ENDPOINTS,
        with(base(), &["subsets", "0", "ports", "0", "port"], 0.into()),
        "subsets[0].ports[0].port",
    )
    .await;
    let unnamed = json!([{"port": 1}, {"port": 2}]);
    check(
        &api,
        ENDPOINTS,
        with(base(), &["subsets", "0", "ports"], unnamed),
        "subsets[0].ports[0].name",
    )
    .await;
    let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
    let spec = json!({"leaseDurationSeconds": -1});
    check(&api, LEASES, lease(spec), "spec.leaseDurationSeconds").await;
    check(
        &api,
        LEASES,
        lease(json!({"leaseTransitions": -1})),
        "spec.leaseTransitions",
    )
    .await;
    let refusal = api
        .refused("POST", LEASES, lease(json!({"renewTime": "soon"})))
        .await;
    assert_eq!(refusal["code"], 400);
}

#[tokio::test(start_paused = true)]
async fn requests_that_make_no_sense() {
    let api = Api::new(Config::default().gc(false).max_body(1000)).await;
    let big = with(
        slice("s"),
        &["metadata", "annotations"],
        json!({"a": "x".repeat(2000)}),
    );
    let refusal = api.refused("POST", SLICES, big).await;
    assert_eq!(
        (&refusal["code"], &refusal["reason"]),
        (&json!(413), &json!("RequestEntityTooLarge"))
    );
    for (method, path, code) in [
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api/v1/namespaces/ns/pods/p", 405),
        ("PUT", "/api/v1/namespaces/ns/pods", 405),
        ("PATCH", "/api/v1/nodes", 405),
        ("DELETE", "/api/v1/namespaces/ns/pods/p/status", 405),
        ("POST", "/version", 405),
        ("GET", "/api/v1/namespaces/ns/pods/p/log", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("GET", "/apis/discovery.k8s.io/v1beta1/endpointslices", 404),
    ] {
        assert_eq!(
            api.refused(method, path, json!({})).await["code"],
            code,
            "{method} {path}"
        );
    }
    for body in [
        "[]",
        "1",
        "\"x\"",
        "{\"metadata\":3}",
        "{\"kind\":\"Pod\"}",
        "nonsense",
        "",
    ] {
        let answer = api
            .raw(
                "POST",
                SLICES,
                &[("content-type", "application/json")],
                body.as_bytes(),
            )
            .await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (400, &json!("BadRequest")),
            "{body}"
        );
    }
}
