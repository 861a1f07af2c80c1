//! The reasons that an audit gives.

use super::{plain, report};
use crate::world::{NS, World, items, node, pod, service, service_with, text};
use serde_json::{Value, json};
use std::time::Duration;

/// Service `s` with three pods, brought up to date by a controller that has stopped since.
async fn settled(over: &Value) -> World {
    let mut world = World::new(100);
    world.nodes(2).await;
    for i in 1..=3 {
        world
            .make(pod(&format!("p{i}"), &format!("10.1.0.{i}"), "n1"))
            .await;
    }
    world.make(service_with(over)).await;
    world.start_up().await;
    world.stop().await;
    assert!(report(&world).await.is_in_sync());
    world
}

/// Why, of all findings.
async fn why(world: &World) -> Vec<String> {
    let report = report(world).await;
    let reasons = report.findings.iter().flat_map(|found| &found.why);
    reasons.map(|(difference, _)| difference.text.clone()).collect()
}

async fn slice(world: &World) -> Value {
    world.slices().await.remove(0)
}

async fn patch_slice(world: &World, patch: Value) {
    let name = text(&slice(world).await["metadata"]["name"]);
    world.patch("EndpointSlice", &name, patch).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_tenant_writes_into_a_slice_forges_no_row() {
    const FORGED: &str = "x\nn/other  endpointslice other  delete\u{1b}[2J";
    let world = settled(&json!({})).await;
    let endpoint = json!({"addresses": ["10.9.9.9"], "conditions": {"ready": true}, "zone": FORGED,
        "targetRef": {"kind": "Pod", "namespace": NS, "name": FORGED, "uid": "u"}});
    patch_slice(&world, json!({"endpoints": [endpoint]})).await;
    let report = report(&world).await;
    let text = report.to_text();
    assert!(
        text.contains(r"10.9.9.9 (pod x\nn/other  endpointslice other  delete\u{1b}[2J) should not be there"),
        "{text}"
    );
    assert!(!text.contains("\u{1b}[2J"), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("n/other")), "{text}");
    // A program reads what is stored.
    assert!(
        serde_json::to_string(&report)
            .unwrap()
            .contains(r"(pod x\nn/other")
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_compared_one_by_one() {
    let world = settled(&json!({"metadata": {"labels": {"team": "a"}}})).await;
    let mut endpoints: Vec<Value> = items(&slice(&world).await["endpoints"]).cloned().collect();
    endpoints.sort_by_key(|e| text(&e["addresses"][0]));
    endpoints[0]["conditions"]["ready"] = json!(false);
    endpoints[1]["zone"] = json!("z9");
    endpoints[2] = json!({"addresses": ["10.9.9.9"], "conditions": {"ready": true}});
    patch_slice(
        &world,
        json!({"endpoints": endpoints, "metadata": {"labels": {"team": "b", "x": "1"}},
            "ports": [{"name": "http", "port": 81, "protocol": "TCP"}]}),
    )
    .await;
    assert_eq!(
        why(&world).await,
        [
            "10.9.9.9 should not be there",
            "10.1.0.3 (pod p3) is missing",
            "10.1.0.1 (pod p1): ready false, should be true",
            "10.1.0.2 (pod p2): zone z9, should be z1",
            "port http 81/TCP should be http 8080/TCP",
            "label team differs: b, should be a",
            "label x should not be there",
        ]
    );
    let text = plain(&report(&world).await);
    assert!(text.contains("and 4 more"), "{text}");
    assert!(
        text.ends_with("1 Service in 1 namespace checked: 1 out of sync\n"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_objects_are_compared_address_by_address() {
    let world = settled(&json!({})).await;
    let mut subsets = world.endpoints().await["subsets"].clone();
    let moved = subsets[0]["addresses"].as_array_mut().unwrap().remove(0);
    subsets[0]["notReadyAddresses"] = json!([moved]);
    subsets[0]["addresses"][0]["ip"] = json!("10.9.9.9");
    subsets[0]["ports"] = json!([{"name": "other", "port": 1, "protocol": "TCP"}]);
    let patch = json!({"subsets": subsets, "metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}}});
    world.patch("Endpoints", "s", patch).await;
    assert_eq!(
        why(&world).await,
        [
            "10.9.9.9 (pod p2) should not be there",
            "10.1.0.2 (pod p2) is missing",
            "10.1.0.1 (pod p1): ready false, should be true",
            "port http 8080/TCP is missing",
            "port other 1/TCP should not be there",
            "marked as truncated, and is not",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn hints_that_differ_are_named() {
    let world = settled(&json!({"spec": {"trafficDistribution": "PreferClose"}})).await;
    let mut endpoints = slice(&world).await["endpoints"].clone();
    endpoints[0]["hints"] = json!({"forZones": [{"name": "z2"}]});
    let address = text(&endpoints[0]["addresses"][0]);
    let of = text(&endpoints[0]["targetRef"]["name"]);
    patch_slice(&world, json!({"endpoints": endpoints})).await;
    assert_eq!(
        why(&world).await,
        [format!(
            "{address} (pod {of}): hints differ: zone z2, should be zone z1"
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_slice_is_a_duplicate_or_what_is_left_of_another_service() {
    let world = settled(&json!({})).await;
    let mut copy = slice(&world).await;
    let name = text(&copy["metadata"]["name"]);
    copy["apiVersion"] = json!("discovery.k8s.io/v1");
    copy["kind"] = json!("EndpointSlice");
    copy["metadata"] = json!({"name": "s-zzzzz", "labels": copy["metadata"]["labels"],
        "ownerReferences": copy["metadata"]["ownerReferences"]});
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.make(copy.clone()).await;
    assert_eq!(
        why(&world).await,
        [format!("slice is a duplicate: {name} has its endpoints")]
    );
    world.delete("EndpointSlice", "s-zzzzz").await;

    copy["metadata"]["ownerReferences"][0]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    world.make(copy.clone()).await;
    assert_eq!(
        why(&world).await,
        ["it belongs to an earlier Service of that name"]
    );
    world.delete("EndpointSlice", "s-zzzzz").await;

    copy["addressType"] = json!("IPv6");
    copy["endpoints"] = json!([]);
    copy["metadata"]["ownerReferences"] = slice(&world).await["metadata"]["ownerReferences"].clone();
    world.make(copy).await;
    assert_eq!(why(&world).await, ["the Service is not IPv6"]);
}

#[tokio::test(start_paused = true)]
async fn leftovers_are_named_and_others_objects_are_not() {
    let world = settled(&json!({})).await;
    let subsets = json!([{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 1}]}]);
    let made = |name: &str, labels: Value, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets,
            "metadata": {"name": name, "labels": labels, "annotations": annotations}})
    };
    let ours = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    world.make(made("left", ours.clone(), json!({}))).await;
    world.make(made("by-hand", json!({}), json!({}))).await;
    world
        .make(made(
            "leader",
            ours,
            json!({"control-plane.alpha.kubernetes.io/leader": "{}"}),
        ))
        .await;
    world.make(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.9.9"]}], "metadata": {"name": "foreign",
            "labels": {"kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": "somebody"}}}))
        .await;
    let report = report(&world).await;
    assert_eq!(
        plain(&report),
        "SERVICE       OBJECT     WOULD   WHY\n\
         default/left  endpoints  delete  left over: no such Service; a controller deletes it when it starts\n\n\
         1 Service in 1 namespace checked: 0 out of sync; 1 object left over\n"
    );
    // A user who may create Endpoints could keep an alert firing, while the controller that runs leaves them alone.
    assert!(report.is_clean());
    assert_eq!(report.verdict(), Some(true));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["inSync"], &json["leftOver"]), (&json!(true), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_nobody_has_published_is_missing_all() {
    let world = World::new(100);
    world.make(node("n1", Some("z1"), None)).await;
    world.make(pod("p1", "10.1.0.1", "n1")).await;
    world.make(service()).await;
    let mut other = service();
    other["metadata"]["name"] = json!("t");
    other["spec"]["selector"] = json!({"app": "nothing"});
    world.make(other).await;
    let report = report(&world).await;
    assert_eq!(
        plain(&report),
        "SERVICE    OBJECT             WOULD   WHY\n\
         default/s  new endpointslice  create  10.1.0.1 (pod p1) is missing\n\
         \u{20}          endpoints          create  there is no such object\n\
         \u{20}                                     10.1.0.1 (pod p1) is missing\n\
         default/t  new endpointslice  create  the empty IPv4 slice of a Service without endpoints is missing\n\
         \u{20}          endpoints          create  there is no such object\n\n\
         2 Services in 1 namespace checked: 2 out of sync\n"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        json["findings"][0],
        json!({"namespace": NS, "service": "s", "kind": "EndpointSlice", "name": null, "would": "create",
            "why": ["10.1.0.1 (pod p1) is missing"]})
    );
    assert_eq!(
        (&json["inSync"], &json["outOfSync"], &json["services"]),
        (&json!(false), &json!(2), &json!(2))
    );
}
