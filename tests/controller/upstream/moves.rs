//! Endpoints that move from slice to slice, and addresses that move from pod to pod.

use crate::gate::{Fate, Sent};
use crate::world::{World, ip, items, pod, service, text};
use http::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A pod with the named port `m` too.
fn with_metrics(name: &str, ip: &str, number: u16) -> Value {
    let mut pod = pod(name, ip, "n1");
    let port = json!({"name": "m", "containerPort": number, "protocol": "TCP"});
    pod["spec"]["containers"][0]["ports"]
        .as_array_mut()
        .unwrap()
        .push(port);
    pod
}

/// The ports of Service `s`: the second one is named, and moves pods that have it under another number.
fn ports(named: &[&str]) -> Value {
    let ports = named.iter().enumerate().map(|(at, name)| {
        json!({"name": name, "port": 80 + at, "targetPort": if *name == "http" { json!(8080) } else { json!(name) },
            "protocol": "TCP"})
    });
    json!({"spec": {"ports": ports.collect::<Vec<_>>()}})
}

/// The pods of each slice that there is, by the slice's ports.
async fn groups(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    for slice in world.slices().await {
        let ports: Vec<_> = items(&slice["ports"])
            .map(|port| port["port"].to_string())
            .collect();
        let pods = items(&slice["endpoints"]).map(|endpoint| text(&endpoint["targetRef"]["name"]));
        groups.entry(ports.join(",")).or_default().extend(pods);
    }
    for pods in groups.values_mut() {
        pods.sort_unstable();
    }
    groups
}

/// The names of all pods that slices show.
async fn shown(world: &World) -> BTreeSet<String> {
    groups(world).await.into_values().flatten().collect()
}

fn group(ports: &str, pods: &[&str]) -> (String, Vec<String>) {
    (ports.to_owned(), pods.iter().map(ToString::to_string).collect())
}

/// A started controller, and Service `s` with pods of which half have the port `m` too.
async fn half_with_metrics() -> World {
    let mut world = World::new(100);
    world.nodes(1).await;
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        world.make(pod(name, &ip(at), "n1")).await;
    }
    for (at, name) in ["x", "y"].into_iter().enumerate() {
        world.make(with_metrics(name, &ip(10 + at), 9090)).await;
    }
    let mut service = service();
    service["spec"]["ports"] = ports(&["http"])["spec"]["ports"].clone();
    world.make(service).await;
    world.start_up().await;
    assert_eq!(
        groups(&world).await,
        [group("8080", &["a", "b", "x", "y"])].into()
    );
    world
}

/// Upstream ends the sync at a create that is refused, before it updates a slice. What has died leaves all the same.
#[tokio::test(start_paused = true)]
async fn a_refused_create_takes_no_endpoint_along() {
    let world = half_with_metrics().await;
    for _ in 0..8 {
        world
            .gate
            .next(Method::POST, "endpointslices", Fate::Refused(403));
    }
    world.patch("Service", "s", ports(&["http", "m"])).await;
    world.rest().await;
    assert_eq!(
        groups(&world).await,
        [group("8080", &["a", "b", "x", "y"])].into(),
        "they stay where they are published"
    );
    world.flip("x", false, 9).await;
    world.rest().await;
    let slices = world.slices().await;
    let ready: BTreeMap<_, _> = items(&slices[0]["endpoints"])
        .map(|endpoint| {
            (
                text(&endpoint["targetRef"]["name"]),
                endpoint["conditions"]["ready"] == true,
            )
        })
        .collect();
    let expected = [("a", true), ("b", true), ("x", false), ("y", true)];
    assert_eq!(ready, expected.map(|(pod, ready)| (pod.to_owned(), ready)).into());
    world.delete("Pod", "y").await;
    world.rest().await;
    assert_eq!(groups(&world).await, [group("8080", &["a", "b", "x"])].into());

    world.rest_for(Duration::from_secs(300)).await;
    assert_eq!(world.gate.unmet(), 0, "all refusals were met");
    assert_eq!(
        groups(&world).await,
        [group("8080", &["a", "b"]), group("8080,9090", &["x"])].into()
    );
}

/// Applies a patch, and checks in each millisecond in which something is written that all pods are shown.
async fn assert_never_lost(world: &World, pods: &[&str], patch: Value) -> Vec<Sent> {
    let pods: BTreeSet<String> = pods.iter().map(ToString::to_string).collect();
    world.patch("Service", "s", patch).await;
    let before = world.server.resource_version();
    let mut seen = before;
    for _ in 0..5000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = world.server.resource_version();
        if now != seen {
            seen = now;
            assert_eq!(shown(world).await, pods, "after a write");
        }
    }
    assert_ne!(seen, before, "something was written");
    world.rest().await
}

/// Pods of two port groups change places: no slice takes over the endpoints of the other before these are shown there.
#[tokio::test(start_paused = true)]
async fn two_port_groups_that_swap_their_pods_lose_none() {
    let mut world = World::new(100);
    world.nodes(1).await;
    for (name, at, numbers) in [
        ("a", 1, (7001, 7002)),
        ("b", 2, (7001, 7002)),
        ("x", 3, (7002, 7001)),
    ] {
        let mut pod = with_metrics(name, &ip(at), numbers.0);
        let port = json!({"name": "n", "containerPort": numbers.1, "protocol": "TCP"});
        pod["spec"]["containers"][0]["ports"]
            .as_array_mut()
            .unwrap()
            .push(port);
        world.make(pod).await;
    }
    let mut service = service();
    let target = |name: &str| json!([{"name": "p", "port": 80, "targetPort": name, "protocol": "TCP"}]);
    service["spec"]["ports"] = target("m");
    world.make(service).await;
    world.start_up().await;
    assert_eq!(
        groups(&world).await,
        [group("7001", &["a", "b"]), group("7002", &["x"])].into()
    );
    for (name, expected) in [
        ("n", [group("7001", &["x"]), group("7002", &["a", "b"])]),
        ("m", [group("7001", &["a", "b"]), group("7002", &["x"])]),
    ] {
        let patch = json!({"spec": {"ports": target(name)}});
        let sent = assert_never_lost(&world, &["a", "b", "x"], patch).await;
        assert_eq!(groups(&world).await, expected.into(), "{sent:#?}");
    }
}

/// A process ends between the two writes of a move: the next one finishes it.
#[tokio::test(start_paused = true)]
async fn a_restart_between_the_two_writes_of_a_move_loses_nothing() {
    let mut world = half_with_metrics().await;
    world.gate.next(Method::PUT, "endpointslices", Fate::Unheard);
    world.patch("Service", "s", ports(&["http", "m"])).await;
    world.rest_for(Duration::from_millis(500)).await;
    assert_eq!(
        groups(&world).await,
        [
            group("8080", &["a", "b", "x", "y"]),
            group("8080,9090", &["x", "y"])
        ]
        .into()
    );
    world.stop().await;
    world.start_up().await;
    assert_eq!(
        groups(&world).await,
        [group("8080", &["a", "b"]), group("8080,9090", &["x", "y"])].into()
    );
}

/// The opposite: the new slice was not made when the process ended, and the create goes on to be refused.
#[tokio::test(start_paused = true)]
async fn a_restart_while_a_create_is_refused_loses_nothing() {
    let mut world = half_with_metrics().await;
    for _ in 0..4 {
        world
            .gate
            .next(Method::POST, "endpointslices", Fate::Refused(403));
    }
    world.patch("Service", "s", ports(&["http", "m"])).await;
    world.rest_for(Duration::from_millis(500)).await;
    world.stop().await;
    world.start_up().await;
    assert_eq!(
        groups(&world).await,
        [group("8080", &["a", "b", "x", "y"])].into()
    );
    world.rest_for(Duration::from_secs(120)).await;
    assert_eq!(
        groups(&world).await,
        [group("8080", &["a", "b"]), group("8080,9090", &["x", "y"])].into()
    );
}
