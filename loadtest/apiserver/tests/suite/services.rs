//! Services: defaults, addresses, families, ports.

use crate::client::{Api, SERVICES, service};
use serde_json::{Value, json};

fn named(name: &str, extra: &Value) -> Value {
    let mut service = service(name);
    for (name, value) in extra.as_object().unwrap() {
        service["spec"][name] = value.clone();
    }
    service
}

fn spec(extra: &Value) -> Value {
    named("s", extra)
}

#[tokio::test(start_paused = true)]
async fn defaults_and_families() {
    let api = Api::plain().await;
    let made = api.create(SERVICES, spec(&json!({}))).await;
    let spec_of = &made["spec"];
    assert_eq!(
        spec_of["ports"],
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}])
    );
    assert_eq!(
        json!([spec_of["type"], spec_of["internalTrafficPolicy"]]),
        json!(["ClusterIP", "Cluster"])
    );
    assert_eq!(spec_of["clusterIPs"], json!([spec_of["clusterIP"]]));
    api.delete(&format!("{SERVICES}/s"), json!({})).await;
    let (v4, v6, both) = (json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"]));
    let (four, six) = ("10.", "fd00:10::");
    for (extra, policy, families, ips) in [
        (json!({}), "SingleStack", &v4, &[four][..]),
        (json!({"ipFamilies": ["IPv6"]}), "SingleStack", &v6, &[six]),
        (
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack",
            &both,
            &[four, six],
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "RequireDualStack",
            &both,
            &[four, six],
        ),
        (
            json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}),
            "PreferDualStack",
            &json!(["IPv6", "IPv4"]),
            &[six, four],
        ),
        (json!({"clusterIP": "None"}), "SingleStack", &v4, &["None"]),
        (
            json!({"clusterIP": "None", "selector": null}),
            "RequireDualStack",
            &both,
            &["None"],
        ),
        (
            json!({"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack", "ports": []}),
            "PreferDualStack",
            &both,
            &["None"],
        ),
        (
            json!({"clusterIP": "None", "selector": {}, "ipFamilyPolicy": "SingleStack"}),
            "SingleStack",
            &v4,
            &["None"],
        ),
    ] {
        let made = api.create(SERVICES, spec(&extra)).await["spec"].take();
        assert_eq!(
            (&made["ipFamilyPolicy"], &made["ipFamilies"]),
            (&json!(policy), families),
            "{extra}"
        );
        let given = made["clusterIPs"].as_array().unwrap();
        assert_eq!(
            (given.len(), &given[0]),
            (ips.len(), &made["clusterIP"]),
            "{extra}"
        );
        assert!(
            given
                .iter()
                .zip(ips)
                .all(|(ip, start)| ip.as_str().unwrap().starts_with(start))
        );
        api.delete(&format!("{SERVICES}/s"), json!({})).await;
    }
    api.create(SERVICES, spec(&json!({}))).await;
    let path = format!("{SERVICES}/s");
    let old = api.get(&path).await;
    let two = api
        .patch(&path, json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}))
        .await;
    assert_eq!(two["spec"]["clusterIPs"][0], old["spec"]["clusterIP"]);
    assert_eq!(two["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    let one = api
        .patch(&path, json!({"spec": {"ipFamilyPolicy": "SingleStack"}}))
        .await;
    assert_eq!(one["spec"], old["spec"]);
    for wrong in [
        json!({"spec": {"ipFamilies": ["IPv6"], "clusterIPs": null, "clusterIP": null}}),
        json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}}),
        json!({"spec": {"ipFamilyPolicy": "TripleStack"}}),
        json!({"spec": {"clusterIP": "10.0.9.9", "clusterIPs": ["10.0.9.9"]}}),
    ] {
        api.refuses(422, "PATCH", &path, wrong).await;
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_are_unique_and_given_back() {
    let api = Api::plain().await;
    let at = |name: &str, ip: &str| named(name, &json!({"clusterIP": ip}));
    api.create(SERVICES, at("s", "10.0.0.50")).await;
    // A refused Service takes nothing: the name is taken, the address must stay free.
    api.refuses(409, "POST", SERVICES, at("s", "10.0.0.51")).await;
    api.create(SERVICES, at("other", "10.0.0.51")).await;
    for ip in [
        "10.0.0.50",
        "10.0.0.1",
        "11.0.0.1",
        "10.0.0.0",
        "nonsense",
        "fd00:11::1",
    ] {
        let refusal = api.refused("POST", SERVICES, at("x", ip)).await;
        assert_eq!(
            refusal["details"]["causes"][0]["field"], "spec.clusterIPs",
            "{ip}"
        );
    }
    api.delete(&format!("{SERVICES}/s"), json!({})).await;
    api.create(SERVICES, at("third", "10.0.0.50")).await;
}

#[tokio::test(start_paused = true)]
async fn types_change() {
    let api = Api::plain().await;
    let path = format!("{SERVICES}/s");
    let first = api
        .create(SERVICES, spec(&json!({"clusterIP": "10.0.0.50"})))
        .await;
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
    let changed = api.patch(&path, external).await;
    for field in [
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
    ] {
        assert!(changed["spec"].get(field).is_none(), "{field}");
    }
    // Its address is free again.
    api.create(SERVICES, named("other", &json!({"clusterIP": "10.0.0.50"})))
        .await;
    let back = api.patch(&path, json!({"spec": {"type": "ClusterIP"}})).await;
    assert!(back["spec"].get("externalName").is_none());
    assert_eq!(back["spec"]["ipFamilies"], first["spec"]["ipFamilies"]);
    assert_ne!(back["spec"]["clusterIP"], "10.0.0.50");

    let node_port = api.patch(&path, json!({"spec": {"type": "NodePort"}})).await;
    let port = node_port["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    // A replacement that does not mention it keeps it.
    let again = api.put(&path, spec(&json!({"type": "NodePort"}))).await;
    assert_eq!(again["spec"]["ports"][0]["nodePort"], port);
    let second = named(
        "second",
        &json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]}),
    );
    api.refuses(422, "POST", SERVICES, second.clone()).await;
    let plain = api.patch(&path, json!({"spec": {"type": "ClusterIP"}})).await;
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    assert!(plain["spec"].get("externalTrafficPolicy").is_none());
    api.create(SERVICES, second).await;
    let balanced = api
        .create(SERVICES, named("lb", &json!({"type": "LoadBalancer"})))
        .await;
    assert!(balanced["spec"]["ports"][0]["nodePort"].is_i64());
}
