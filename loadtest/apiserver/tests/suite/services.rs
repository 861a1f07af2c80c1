//! Services: defaults, addresses, families, ports.

use crate::client::{Api, SERVICES, service};
use serde_json::{Value, json};

fn spec(extra: &Value) -> Value {
    let mut service = service("s");
    for (name, value) in extra.as_object().unwrap() {
        service["spec"][name] = value.clone();
    }
    service
}

fn fields(service: &Value) -> Value {
    json!([
        service["spec"]["ipFamilyPolicy"],
        service["spec"]["ipFamilies"],
        service["spec"]["clusterIPs"]
    ])
}

async fn create(api: &Api, extra: Value) -> Value {
    let made = api.create(SERVICES, spec(&extra)).await;
    api.delete(&format!("{SERVICES}/s"), json!({})).await;
    made
}

#[tokio::test(start_paused = true)]
async fn defaults() {
    let api = Api::plain().await;
    let made = create(&api, json!({})).await;
    let spec = &made["spec"];
    assert_eq!(
        spec["ports"],
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}])
    );
    assert_eq!(
        (&spec["type"], &spec["sessionAffinity"]),
        (&json!("ClusterIP"), &json!("None"))
    );
    assert_eq!(spec["internalTrafficPolicy"], "Cluster");
    assert_eq!(
        (&spec["ipFamilyPolicy"], &spec["ipFamilies"]),
        (&json!("SingleStack"), &json!(["IPv4"]))
    );
    let ip = spec["clusterIP"].as_str().unwrap();
    assert!(ip.starts_with("10."));
    assert_eq!(spec["clusterIPs"], json!([ip]));
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
}

#[tokio::test(start_paused = true)]
async fn headless() {
    let api = Api::plain().await;
    let none = json!(["None"]);
    let made = create(&api, json!({"clusterIP": "None"})).await;
    assert_eq!(fields(&made), json!(["SingleStack", ["IPv4"], none]));
    let made = create(&api, json!({"clusterIP": "None", "selector": null})).await;
    assert_eq!(fields(&made), json!(["RequireDualStack", ["IPv4", "IPv6"], none]));
    let made = create(
        &api,
        json!({"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack", "ports": []}),
    )
    .await;
    assert_eq!(fields(&made), json!(["PreferDualStack", ["IPv4", "IPv6"], none]));
    let made = create(
        &api,
        json!({"clusterIP": "None", "selector": {}, "ipFamilyPolicy": "SingleStack"}),
    )
    .await;
    assert_eq!(fields(&made), json!(["SingleStack", ["IPv4"], none]));
}

#[tokio::test(start_paused = true)]
async fn two_families() {
    let api = Api::plain().await;
    for policy in ["PreferDualStack", "RequireDualStack"] {
        let made = create(&api, json!({"ipFamilyPolicy": policy})).await;
        assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
        let ips = made["spec"]["clusterIPs"].as_array().unwrap();
        assert_eq!((ips.len(), &ips[0]), (2, &made["spec"]["clusterIP"]));
        assert!(ips[1].as_str().unwrap().starts_with("fd00:10::"));
    }
    let made = create(
        &api,
        json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}),
    )
    .await;
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    assert!(
        made["spec"]["clusterIP"]
            .as_str()
            .unwrap()
            .starts_with("fd00:10::")
    );
    let made = create(&api, json!({"ipFamilies": ["IPv6"]})).await;
    assert_eq!(
        (&made["spec"]["ipFamilyPolicy"], &made["spec"]["ipFamilies"]),
        (&json!("SingleStack"), &json!(["IPv6"]))
    );

    api.create(SERVICES, spec(&json!({}))).await;
    let path = format!("{SERVICES}/s");
    let old = api.get(&path).await;
    let both = api
        .patch(&path, json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}}))
        .await;
    assert_eq!(both["spec"]["clusterIPs"][0], old["spec"]["clusterIP"]);
    assert_eq!(both["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    let one = api
        .patch(&path, json!({"spec": {"ipFamilyPolicy": "SingleStack"}}))
        .await;
    assert_eq!(fields(&one), fields(&old));
    for wrong in [
        json!({"spec": {"ipFamilies": ["IPv6"], "clusterIPs": null, "clusterIP": null}}),
        json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}}),
        json!({"spec": {"ipFamilyPolicy": "TripleStack"}}),
        json!({"spec": {"clusterIP": "10.0.9.9", "clusterIPs": ["10.0.9.9"]}}),
    ] {
        assert_eq!(api.refused("PATCH", &path, wrong).await["code"], 422);
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_are_unique_and_given_back() {
    let api = Api::plain().await;
    let wanted = spec(&json!({"clusterIP": "10.0.0.50"}));
    api.create(SERVICES, wanted.clone()).await;
    let mut other = wanted.clone();
    other["metadata"]["name"] = "other".into();
    let refusal = api.refused("POST", SERVICES, other.clone()).await;
    assert_eq!(refusal["details"]["causes"][0]["field"], "spec.clusterIPs");
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .contains("provided IP is already allocated")
    );
    // A refused one takes nothing: the name is taken, the address must stay free.
    let taken = spec(&json!({"clusterIP": "10.0.0.51"}));
    assert_eq!(api.refused("POST", SERVICES, taken).await["code"], 409);
    other["spec"]["clusterIP"] = "10.0.0.51".into();
    api.create(SERVICES, other.clone()).await;
    api.delete(&format!("{SERVICES}/s"), json!({})).await;
    other["metadata"]["name"] = "third".into();
    other["spec"]["clusterIP"] = "10.0.0.50".into();
    api.create(SERVICES, other.clone()).await;
    for (name, ip) in [
        ("x0", "10.0.0.1"),
        ("x1", "11.0.0.1"),
        ("x2", "10.0.0.0"),
        ("x3", "nonsense"),
        ("x4", "fd00:11::1"),
    ] {
        other["metadata"]["name"] = name.into();
        other["spec"]["clusterIP"] = ip.into();
        assert_eq!(
            api.refused("POST", SERVICES, other.clone()).await["code"],
            422,
            "{ip}"
        );
    }
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
    let mut other = spec(&json!({"clusterIP": "10.0.0.50"}));
    other["metadata"]["name"] = "other".into();
    api.create(SERVICES, other).await;
    let back = api
        .patch(
            &path,
            json!({"spec": {"type": "ClusterIP", "externalName": null}}),
        )
        .await;
    assert_eq!(back["spec"]["ipFamilies"], first["spec"]["ipFamilies"]);
    assert!(back["spec"]["clusterIP"].as_str().unwrap() != "10.0.0.50");

    let node_port = api.patch(&path, json!({"spec": {"type": "NodePort"}})).await;
    let port = node_port["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    assert_eq!(node_port["spec"]["externalTrafficPolicy"], "Cluster");
    // A replacement that does not mention it keeps it.
    let mut again = spec(&json!({"type": "NodePort"}));
    again["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(api.put(&path, again).await["spec"]["ports"][0]["nodePort"], port);
    let mut second = spec(&json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]}));
    second["metadata"]["name"] = "second".into();
    assert_eq!(api.refused("POST", SERVICES, second.clone()).await["code"], 422);
    let plain = api.patch(&path, json!({"spec": {"type": "ClusterIP"}})).await;
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    assert!(plain["spec"].get("externalTrafficPolicy").is_none());
    api.create(SERVICES, second).await;
    let balanced = create_balancer(&api).await;
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    assert!(balanced["spec"]["ports"][0]["nodePort"].is_i64());
}

async fn create_balancer(api: &Api) -> Value {
    let mut balancer = spec(&json!({"type": "LoadBalancer"}));
    balancer["metadata"]["name"] = "balancer".into();
    api.create(SERVICES, balancer).await
}

#[tokio::test(start_paused = true)]
async fn what_is_refused() {
    let api = Api::plain().await;
    for (extra, field) in [
        (json!({"ports": []}), "spec.ports"),
        (json!({"ports": [{"port": 0}]}), "spec.ports[0].port"),
        (json!({"ports": [{"port": 70_000}]}), "spec.ports[0].port"),
        (
            json!({"ports": [{"port": 1, "protocol": "QUIC"}]}),
            "spec.ports[0].protocol",
        ),
        (
            json!({"ports": [{"port": 1, "targetPort": "Not A Port"}]}),
            "spec.ports[0].targetPort",
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}),
            "spec.ports[0].name",
        ),
        (
            json!({"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]}),
            "spec.ports[1].name",
        ),
        (
            json!({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]}),
            "spec.ports[1]",
        ),
        (
            json!({"ports": [{"port": 1, "nodePort": 30_000}]}),
            "spec.ports[0].nodePort",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}),
            "spec.ports[0].nodePort",
        ),
        (json!({"type": "Sideways"}), "spec.type"),
        (json!({"type": "ExternalName"}), "spec.externalName"),
        (
            json!({"type": "NodePort", "clusterIP": "None"}),
            "spec.clusterIPs[0]",
        ),
        (json!({"sessionAffinity": "Sticky"}), "spec.sessionAffinity"),
        (json!({"selector": {"a b": "c"}}), "spec.selector"),
        (json!({"ipFamilies": ["IPv4", "IPv4"]}), "spec.ipFamilies[1]"),
        (json!({"ipFamilies": ["IPv4", "IPv6"]}), "spec.ipFamilyPolicy"),
        (
            json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.8"]}),
            "spec.clusterIPs",
        ),
    ] {
        let refusal = api.refused("POST", SERVICES, spec(&extra)).await;
        assert_eq!(refusal["code"], 422, "{extra}");
        let fields: Vec<&str> = refusal["details"]["causes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|c| c["field"].as_str())
            .collect();
        assert!(fields.contains(&field), "{extra}: {fields:?}");
    }
    for name in ["1abc", "a.b", "A", "-a"] {
        let mut named = spec(&json!({}));
        named["metadata"]["name"] = name.into();
        assert_eq!(api.refused("POST", SERVICES, named).await["code"], 422, "{name}");
    }
}
