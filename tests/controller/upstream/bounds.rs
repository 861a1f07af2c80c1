//! Limits: a thousand addresses, reserved labels, a namespace that ends.

use crate::gate::Fate;
use crate::world::{NS, World, ip, items, outlines, pod, service, service_with, text, version};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const OVER: &str = "endpoints.kubernetes.io/over-capacity";

async fn published(world: &World) -> BTreeSet<String> {
    world.in_endpoints().await.into_iter().map(|(ip, _)| ip).collect()
}

/// Upstream compares the whole of what it wants with the thousand that are stored: every sync is a PUT of a
/// thousand addresses that the server drops as no change.
#[tokio::test(start_paused = true)]
async fn more_than_a_thousand_addresses_are_written_at_every_sync() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(1005).await;
    world.make(service()).await;
    world.start_up().await;
    assert_eq!(
        world.endpoints().await["metadata"]["annotations"][OVER],
        "truncated"
    );
    let first = published(&world).await;
    assert_eq!(first.len(), 1000);
    let beyond: Vec<_> = (1..=1005).filter(|&i| !first.contains(&ip(i))).collect();
    assert_eq!(beyond.len(), 5);

    // Syncs of all sorts that change nothing among the published.
    let stored = version(&world.endpoints().await);
    world
        .patch("Service", "s", json!({"metadata": {"annotations": {"x": "1"}}}))
        .await;
    assert_eq!(outlines(&world.rest().await), [""; 0]);
    for (second, ready) in [(1, false), (2, true)] {
        world.flip(&format!("p{}", beyond[0]), ready, second).await;
        assert_eq!(
            outlines(&world.rest().await),
            ["PUT endpointslices 200"],
            "a pod beyond the limit changes nothing"
        );
    }
    world.delete("Pod", &format!("p{}", beyond[1])).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(version(&world.endpoints().await), stored);

    // One of the published that becomes unready gives its place to one that is ready, and no other moves.
    let inside = (1..=1005).find(|&i| first.contains(&ip(i))).unwrap();
    world.flip(&format!("p{inside}"), false, 3).await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    let second = published(&world).await;
    assert_eq!((second.len(), first.difference(&second).count()), (1000, 1));
    assert!(!second.contains(&ip(inside)), "ready ones first");

    // A restart chooses the same, and goes on without a write for what is not published.
    world.stop().await;
    world.gate.take();
    assert_eq!(outlines(&world.start_up().await), [""; 0]);
    world.flip(&format!("p{inside}"), false, 4).await;
    assert_eq!(outlines(&world.rest().await), [""; 0]);
    world.delete("Pod", &format!("p{inside}")).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(published(&world).await, second);
}

/// Upstream compares label counts and wants labels that it does not write: a PUT at every sync.
#[tokio::test(start_paused = true)]
async fn a_service_with_reserved_labels_is_written_at_every_sync() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(1).await;
    let labels = json!({"metadata": {"labels": {
        "service.kubernetes.io/headless": "", "endpoints.kubernetes.io/managed-by": "me",
        "endpointslice.kubernetes.io/managed-by": "me", "kubernetes.io/service-name": "liar", "mine": "1"}}});
    world.make(service_with(&labels)).await;
    let sent = world.start_up().await;
    assert_eq!(outlines(&sent), ["POST endpointslices 201", "POST endpoints 201"]);
    let right = |slice: &Value, endpoints: &Value| {
        assert_eq!(
            slice["metadata"]["labels"],
            json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "endpoints.kubernetes.io/managed-by": "me", "kubernetes.io/service-name": "s", "mine": "1"})
        );
        assert_eq!(
            endpoints["metadata"]["labels"],
            json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller",
                "endpointslice.kubernetes.io/managed-by": "me", "kubernetes.io/service-name": "liar", "mine": "1"})
        );
    };
    right(&world.slices().await[0], &world.endpoints().await);

    for sync in 0..3 {
        let patch = json!({"metadata": {"annotations": {"sync": sync.to_string()}}});
        world.patch("Service", "s", patch).await;
        assert_eq!(outlines(&world.rest().await), [""; 0], "nothing has changed");
    }
    // The reserved ones alone do not concern slices.
    let patch = json!({"metadata": {"labels": {"kubernetes.io/service-name": "s2"}}});
    world.patch("Service", "s", patch).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpoints 200"]);
    let patch = json!({"metadata": {"labels": {"kubernetes.io/service-name": "liar"}}});
    world.patch("Service", "s", patch).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpoints 200"]);
    world.stop().await;
    world.gate.take();
    assert_eq!(outlines(&world.start_up().await), [""; 0], "nor after a restart");
    world.flip("p1", false, 1).await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    right(&world.slices().await[0], &world.endpoints().await);
}

/// A controller that creates in a namespace that takes nothing any more is refused, again and again.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_going_away_is_written_to_in_a_loop() {
    // The namespace is never emptied: it is Terminating for as long as the test lasts.
    let mut world = World::new(1);
    world.nodes(1).await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
    world.make(space.clone()).await;
    let make = async |world: &World, object: Value| {
        world.api.create(&object, "doomed").await.unwrap();
    };
    for i in 1..=3 {
        make(&world, pod(&format!("p{i}"), &ip(i), "n1")).await;
    }
    make(&world, service()).await;
    world.start_up().await;
    let mut slices = world.api.slices_of("doomed", "s").await.unwrap();
    assert_eq!(slices.len(), 3);

    world.api.delete("Namespace", "", "doomed", None).await.unwrap();
    assert_eq!(
        outlines(&world.rest().await),
        [""; 0],
        "existing objects are left alone"
    );
    // For each object that the namespace controller takes first, one create is tried, and no more.
    let last = slices.pop().unwrap();
    for slice in &slices {
        let name = text(&slice["metadata"]["name"]);
        world
            .api
            .delete("EndpointSlice", "doomed", &name, None)
            .await
            .unwrap();
    }
    world.api.delete("Endpoints", "doomed", "s", None).await.unwrap();
    let sent = world.rest().await;
    let refused = |kind: &str| {
        let of_kind = sent.iter().filter(|s| s.kind() == kind && s.status == Some(403));
        of_kind.count()
    };
    assert_eq!(
        (refused("endpointslices"), refused("endpoints")),
        (2, 1),
        "{sent:#?}"
    );
    assert!(sent.iter().all(|s| s.verb != "PUT"), "{sent:#?}");
    // One API server of several may have an old picture of the namespace: each is tried again after a minute, and then every
    // five at most.
    let hour = Duration::from_secs(3600);
    let sent = world.rest_for(hour).await;
    assert!((3 * 12..=3 * 25).contains(&sent.len()), "no loop: {}", sent.len());
    assert!(sent.iter().all(|s| s.verb == "POST"), "{sent:#?}");
    // Pods go one by one: no more than a try for each, and what can be updated still is.
    let kept = text(&items(&last["endpoints"]).next().unwrap()["targetRef"]["name"]);
    for i in 1..=3 {
        let name = format!("p{i}");
        world.api.delete("Pod", "doomed", &name, Some(0)).await.unwrap();
        let sent = world.rest().await;
        let accepted = |s: &&crate::gate::Sent| s.status != Some(403);
        assert!(sent.len() <= 4, "{sent:#?}");
        assert_eq!(
            sent.iter().filter(accepted).count(),
            usize::from(name == kept),
            "{sent:#?}"
        );
    }
    assert!(world.rest_for(hour).await.len() <= 3 * 25);
}

/// An API server refuses creates for a namespace that was made again: its picture is old. Nothing else changes, and the objects
/// are made all the same.
#[tokio::test(start_paused = true)]
async fn what_was_refused_for_an_old_picture_of_the_namespace_is_made_in_the_end() {
    let mut world = World::new(100);
    world.start_up().await;
    world.gate.next(Method::POST, "endpointslices", Fate::Terminating);
    world.make(service()).await;
    world.rest().await;
    assert_eq!(world.slices().await, [Value::Null; 0]);
    assert_eq!(
        world.events().await,
        [Value::Null; 0],
        "an Event would be refused as well"
    );
    world.rest_for(Duration::from_secs(70)).await;
    assert_eq!(world.slices().await.len(), 1, "the placeholder");
}

/// With the namespace controller at work, and the name used again afterwards.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_gone_is_forgotten() {
    let mut world = World::of(true, 1);
    world.nodes(1).await;
    for round in 0..3 {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
        world.make(space).await;
        for i in 1..=3 {
            let object = pod(&format!("p{i}"), &ip(i), "n1");
            world.api.create(&object, "doomed").await.unwrap();
        }
        world.api.create(&service(), "doomed").await.unwrap();
        if round == 0 {
            world.start();
        }
        let sent = world.rest().await;
        assert!(
            sent.iter().all(|s| s.verb == "POST" && s.status == Some(201)),
            "{sent:#?}"
        );
        let slices = world.api.slices_of("doomed", "s").await.unwrap();
        assert_eq!(slices.len(), 3, "round {round}");
        assert_eq!(world.api.list("Endpoints", "doomed").await.unwrap().len(), 1);

        world.api.delete("Namespace", "", "doomed", None).await.unwrap();
        let mut sent = world.rest_for(Duration::from_secs(60)).await;
        for i in 1..=3 {
            // Their kubelet is done with them.
            let name = format!("p{i}");
            world.api.delete("Pod", "doomed", &name, Some(0)).await.unwrap();
            sent.extend(world.rest().await);
        }
        // Three slices and one Endpoints object: each may be looked at, and tried, once.
        assert!(sent.len() <= 8, "{:?}", outlines(&sent));
        assert!(
            sent.iter().all(|s| s.status != Some(201)),
            "{:?}",
            outlines(&sent)
        );
        let gone = world.api.list("Namespace", "").await.unwrap();
        assert!(gone.iter().all(|ns| ns["metadata"]["name"] != "doomed"));
        let hours = Duration::from_secs(4 * 3600);
        assert_eq!(outlines(&world.rest_for(hours).await), [""; 0]);
    }
    assert!(
        world.get("Endpoints", "s").await.is_none(),
        "something was written to {NS}"
    );
}
