//! Changes of a pod that lead to a write, and those that do not.

use crate::world::{World, dual_pod, ip, items, outlines, pod, ready_condition, service, service_with, text};
use serde_json::{Value, json};
use std::time::Duration;

/// Upstream compares pointers to deletion timestamps: every update of a terminating pod is a sync, and with
/// more than a thousand addresses each of them a PUT.
#[tokio::test(start_paused = true)]
async fn every_update_of_a_terminating_pod_is_a_sync() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    let kept = world.api.delete("Pod", "default", "p2", Some(600)).await.unwrap();
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"],
        "a pod that begins to terminate is a change"
    );
    for i in 0..10 {
        let waiting = json!([{"name": "c", "ready": true, "restartCount": i}]);
        world
            .patch_status("Pod", "p2", json!({"containerStatuses": waiting}))
            .await;
        let patch = json!({"metadata": {"annotations": {"i": i.to_string()}}});
        world.patch("Pod", "p2", patch).await;
        assert_eq!(outlines(&world.rest().await), [""; 0], "update {i}");
    }
    // A change of its published part still counts.
    world.flip("p2", false, 10).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    world.delete("Pod", "p2").await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(world.in_slices().await, [(ip(1), true)]);
}

/// Upstream does not look at the phase: a pod that was not ready before it failed stays published.
#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_while_not_ready_stays_published() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    world.flip("p2", false, 1).await;
    world.rest().await;
    assert_eq!(world.in_endpoints().await, [(ip(1), true), (ip(2), false)]);
    world
        .patch_status(
            "Pod",
            "p2",
            json!({"phase": "Failed", "conditions": [ready_condition(false, 1)]}),
        )
        .await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    assert_eq!(world.in_slices().await, [(ip(1), true)]);
    assert_eq!(world.in_endpoints().await, [(ip(1), true)]);
    // The pod has failed: nothing about it matters any more.
    world
        .patch("Pod", "p2", json!({"metadata": {"labels": {"x": "1"}}}))
        .await;
    world.flip("p2", true, 2).await;
    assert_eq!(outlines(&world.rest().await), [""; 0]);
}

/// The pods behind an address, as slices (all of them) and Endpoints say.
async fn behind(world: &World, ip: &str) -> (Vec<String>, Vec<String>) {
    let slices = world.slices().await;
    let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
    let in_slices = endpoints.filter(|e| e["addresses"][0] == *ip);
    let target = |e: &Value| text(&e["targetRef"]["name"]);
    let mut in_slices: Vec<_> = in_slices.map(target).collect();
    in_slices.sort();
    let subsets = world.endpoints().await;
    let addresses = items(&subsets["subsets"]).flat_map(|s| items(&s["addresses"]));
    let in_endpoints = addresses.filter(|a| a["ip"] == *ip).map(target).collect();
    (in_slices, in_endpoints)
}

/// An address passes from a dead pod to a new one, and from a dying one to a new one that comes too early.
#[tokio::test(start_paused = true)]
async fn an_address_that_is_used_again_still_names_the_old_pod() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(1).await;
    world.make(service()).await;
    world.start_up().await;
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();

    world
        .patch_status("Pod", "p1", json!({"phase": "Succeeded"}))
        .await;
    world.rest().await;
    world.make(pod("p2", &ip(1), "n1")).await;
    world.rest().await;
    assert_eq!(behind(&world, &ip(1)).await, (names(&["p2"]), names(&["p2"])));
    world.delete("Pod", "p1").await;
    assert_eq!(
        outlines(&world.rest().await),
        [""; 0],
        "the address belongs to the live pod, not to the dead one"
    );

    // The old one is still there, and on its way out.
    world.api.delete("Pod", "default", "p2", Some(600)).await.unwrap();
    world.make(pod("p3", &ip(1), "n1")).await;
    world.rest().await;
    assert_eq!(
        behind(&world, &ip(1)).await,
        (names(&["p2", "p3"]), names(&["p3"]))
    );
    world.delete("Pod", "p2").await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(behind(&world, &ip(1)).await, (names(&["p3"]), names(&["p3"])));

    // The same name, the same address, another pod: in one go.
    world.gate.hold("pods");
    world.delete("Pod", "p3").await;
    let uid = world.make(pod("p3", &ip(1), "n1")).await["metadata"]["uid"].clone();
    world.gate.open("pods");
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    assert_eq!(world.slices().await[0]["endpoints"][0]["targetRef"]["uid"], uid);
    assert_eq!(
        world.endpoints().await["subsets"][0]["addresses"][0]["targetRef"]["uid"],
        uid
    );
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
}

/// A change of the second address alone was missed for years.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_ipv6_address_alone_is_missed() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.make(dual_pod("p1", &ip(1), "fd00::1", "n1")).await;
    world
        .make(service_with(&json!({"spec": {
            "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}})))
        .await;
    world.start_up().await;
    world
        .patch_status("Pod", "p1", json!({"podIPs": [{"ip": ip(1)}, {"ip": "fd00::2"}]}))
        .await;
    let sent = world.rest().await;
    assert_eq!(
        outlines(&sent),
        ["PUT endpointslices 200"],
        "only the slice of that family is written"
    );
    assert_eq!(sent[0].body["addressType"], "IPv6");
    assert_eq!(
        world.in_slices().await,
        [(ip(1), true), ("fd00::2".to_owned(), true)]
    );
    // And one that goes away alone.
    world
        .patch_status("Pod", "p1", json!({"podIPs": [{"ip": ip(1)}]}))
        .await;
    let sent = world.rest().await;
    assert_eq!(outlines(&sent), ["PUT endpointslices 200"]);
    assert_eq!(sent[0].body["addressType"], "IPv6");
    assert_eq!(world.in_slices().await, [(ip(1), true)]);
}
