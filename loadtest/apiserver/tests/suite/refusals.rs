//! Requests that are refused, and change nothing.

use crate::client::{Api, LEASES, PODS, SERVICES, SLICES, pod, service, slice};
use serde_json::{Value, json};

const ENDPOINTS: &str = "/api/v1/namespaces/ns/endpoints";

/// `base` with the value at a pointer set.
fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let mut at = &mut base;
    for key in pointer.split('/').skip(1) {
        at = match key.parse::<usize>() {
            Ok(i) => &mut at[i],
            Err(_) => &mut at[key],
        };
    }
    *at = value;
    base
}

/// Checks that each change of an object makes the server refuse it for the field.
async fn refuses(api: &Api, path: &str, base: &Value, cases: &[(&str, Value, &str)]) {
    for (pointer, value, field) in cases {
        let refusal = api
            .refused("POST", path, with(base.clone(), pointer, value.clone()))
            .await;
        assert_eq!(
            (&refusal["code"], &refusal["reason"]),
            (&json!(422), &json!("Invalid")),
            "{pointer}"
        );
        let causes = refusal["details"]["causes"].as_array().unwrap();
        assert!(
            causes.iter().any(|c| c["field"] == *field),
            "{field} is not among {causes:?}"
        );
    }
}

fn ports(count: usize) -> Value {
    (0..count)
        .map(|i| json!({"name": format!("p{i}"), "port": 80}))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn slices_that_are_not_valid() {
    let api = Api::plain().await;
    let addresses: Value = (0..101).map(|i| json!(format!("10.2.0.{i}"))).collect();
    let zones: Value = (0..9).map(|i| json!({"name": format!("z{i}")})).collect();
    let two = json!([{"port": 1}, {"port": 2}]);
    let cases = [
        ("/addressType", Value::Null, "addressType"),
        ("/addressType", "IP".into(), "addressType"),
        ("/addressType", "IPv6".into(), "endpoints[0].addresses[0]"),
        ("/ports", ports(20_001), "ports"),
        ("/ports", two, "ports[1].name"),
        ("/ports/0/name", "Bad_".into(), "ports[0].name"),
        ("/ports/0/protocol", "X".into(), "ports[0].protocol"),
        ("/endpoints/0/addresses", json!([]), "endpoints[0].addresses"),
        ("/endpoints/0/addresses", addresses, "endpoints[0].addresses"),
        (
            "/endpoints/0/addresses",
            json!(["127.0.0.1"]),
            "endpoints[0].addresses[0]",
        ),
        ("/endpoints/0/nodeName", "".into(), "endpoints[0].nodeName"),
        ("/endpoints/0/hostname", "A.B".into(), "endpoints[0].hostname"),
        (
            "/endpoints/0/hints",
            json!({"forZones": zones}),
            "endpoints[0].hints.forZones",
        ),
        ("/metadata", json!({}), "metadata.name"),
        ("/metadata/name", "a_b".into(), "metadata.name"),
        ("/metadata/name", "x".repeat(254).into(), "metadata.name"),
        (
            "/metadata",
            json!({"generateName": "A-"}),
            "metadata.generateName",
        ),
        ("/metadata/labels", json!({"a b": "c"}), "metadata.labels"),
        ("/metadata/labels", json!({"a": "b c"}), "metadata.labels"),
        ("/metadata/annotations", json!({"/": ""}), "metadata.annotations"),
        ("/metadata/finalizers", json!(["plain"]), "metadata.finalizers"),
        (
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Service", "name": "s"}]),
            "metadata.ownerReferences[0].uid",
        ),
    ];
    refuses(&api, SLICES, &slice("s"), &cases).await;
    // As many as there may be are taken.
    let endpoint = |i| json!({"addresses": [format!("10.3.{}.{}", i / 250, i % 250)]});
    let full = with(slice("s"), "/endpoints", (0..1000).map(endpoint).collect());
    api.create(SLICES, with(full, "/ports", ports(100))).await;
}

#[tokio::test(start_paused = true)]
async fn other_objects_that_are_not_valid() {
    let api = Api::plain().await;
    let cases = [
        ("/spec/containers", json!([]), "spec.containers"),
        ("/spec/containers/0/name", "".into(), "spec.containers[0].name"),
        (
            "/spec/containers/0/ports",
            json!([{"containerPort": 0}]),
            "spec.containers[0].ports[0].containerPort",
        ),
        ("/spec/restartPolicy", "Maybe".into(), "spec.restartPolicy"),
    ];
    refuses(&api, PODS, &pod("p"), &cases).await;
    api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    for (path, patch) in [
        (path.clone(), json!({"spec": {"nodeName": "other"}})),
        (
            format!("{path}/status"),
            json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}}),
        ),
        (
            format!("{path}/status"),
            json!({"status": {"podIPs": [{"ip": "x"}]}}),
        ),
    ] {
        api.refuses(422, "PATCH", &path, patch).await;
    }

    let endpoints = json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 80}]}]});
    let cases = [
        (
            "/subsets/0/addresses/0/ip",
            "x".into(),
            "subsets[0].addresses[0].ip",
        ),
        (
            "/subsets/0/addresses/0/ip",
            "169.254.0.1".into(),
            "subsets[0].addresses[0].ip",
        ),
        (
            "/subsets/0/addresses/0/nodeName",
            "".into(),
            "subsets[0].addresses[0].nodeName",
        ),
        ("/subsets/0/addresses", json!([]), "subsets[0]"),
        ("/subsets/0/ports/0/port", 0.into(), "subsets[0].ports[0].port"),
        (
            "/subsets/0/ports",
            json!([{"port": 1}, {"port": 2}]),
            "subsets[0].ports[0].name",
        ),
    ];
    refuses(&api, ENDPOINTS, &endpoints, &cases).await;
    let lease = json!({"metadata": {"name": "l"}, "spec": {}});
    let cases = [
        (
            "/spec/leaseDurationSeconds",
            (-1).into(),
            "spec.leaseDurationSeconds",
        ),
        ("/spec/leaseTransitions", (-1).into(), "spec.leaseTransitions"),
    ];
    refuses(&api, LEASES, &lease, &cases).await;
    let cases = [("/metadata/name", "a.b".into(), "metadata.name")];
    refuses(&api, "/api/v1/namespaces", &json!({"metadata": {}}), &cases).await;

    let one = |name: &str, port: u32| json!({"port": port, "name": name});
    let cases = [
        ("/spec/ports", json!([]), "spec.ports"),
        ("/spec/ports/0/port", 70_000.into(), "spec.ports[0].port"),
        ("/spec/ports/0/protocol", "QUIC".into(), "spec.ports[0].protocol"),
        (
            "/spec/ports",
            json!([{"port": 1}, one("b", 2)]),
            "spec.ports[0].name",
        ),
        (
            "/spec/ports",
            json!([one("a", 1), one("a", 2)]),
            "spec.ports[1].name",
        ),
        ("/spec/ports", json!([one("a", 1), one("b", 1)]), "spec.ports[1]"),
        ("/spec/ports/0/nodePort", 30_000.into(), "spec.ports[0].nodePort"),
        ("/spec/type", "Sideways".into(), "spec.type"),
        ("/spec/type", "ExternalName".into(), "spec.externalName"),
        ("/spec/selector", json!({"a b": "c"}), "spec.selector"),
        ("/spec/ipFamilies", json!(["IPv4", "IPv4"]), "spec.ipFamilies[1]"),
        ("/spec/ipFamilies", json!(["IPv4", "IPv6"]), "spec.ipFamilyPolicy"),
        ("/metadata/name", "1abc".into(), "metadata.name"),
    ];
    refuses(&api, SERVICES, &service("s"), &cases).await;
    let headless = with(service("s"), "/spec/clusterIP", "None".into());
    let cases = [("/spec/type", "NodePort".into(), "spec.clusterIPs[0]")];
    refuses(&api, SERVICES, &headless, &cases).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_not_where_they_are_sent() {
    let api = Api::plain().await;
    let path = format!("{SLICES}/s");
    let elsewhere = with(slice("s"), "/metadata/namespace", "default".into());
    let versioned = with(slice("s"), "/metadata/resourceVersion", "5".into());
    let unnamed = with(slice("s"), "/metadata", json!({}));
    api.refuses(400, "POST", SLICES, elsewhere.clone()).await;
    api.refuses(500, "POST", SLICES, versioned).await;
    api.refuses(400, "PUT", &path, unnamed).await;
    api.create(SLICES, slice("s")).await;
    api.refuses(400, "PUT", &path, elsewhere).await;
    let deleted = with(
        slice("s"),
        "/metadata/deletionTimestamp",
        "2030-01-01T00:00:00Z".into(),
    );
    api.refuses(422, "PUT", &path, deleted).await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_make_no_sense() {
    let api = Api::plain().await;
    let big = with(
        slice("s"),
        "/metadata/annotations",
        json!({"a": "x".repeat(4_000_000)}),
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
        ("POST", "/api/v1/namespaces/ns/pods?dryRun=All", 400),
    ] {
        api.refuses(code, method, path, json!({})).await;
    }
    let wrong_type = with(slice("s"), "/endpoints/0/conditions", json!({"ready": "yes"})).to_string();
    for body in [
        "[]",
        "1",
        "\"x\"",
        "{\"metadata\":3}",
        "{\"kind\":\"Pod\"}",
        "nonsense",
        "",
        &wrong_type,
    ] {
        let json = [("content-type", "application/json")];
        let answer = api.raw("POST", SLICES, &json, body.as_bytes()).await;
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (400, &json!("BadRequest")),
            "{body}"
        );
    }
    assert_eq!(
        api.raw("POST", SLICES, &[("content-type", "text/plain")], b"x")
            .await
            .status,
        415
    );
}
