//! Differences, and the moments at which a dry run reports them.

use crate::dry_run::{DryRun, PATIENCE, SURE};
use crate::world::{World, ip, pod, service, service_with};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// Ten ready pods of Service `s` in slices of four, brought up to date by a controller that still runs.
async fn converged() -> (World, DryRun) {
    let mut world = World::new(4);
    world.nodes(2).await;
    world.pods(10).await;
    world.make(service()).await;
    world.start_up().await;
    let dry_run = DryRun::start(&world.server, world.options);
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    (world, dry_run)
}

async fn some_slice(world: &World) -> String {
    let slices = world.slices().await;
    slices[0]["metadata"]["name"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn beside_a_writer_nothing_is_written_and_nothing_is_fetched_for_what_it_writes() {
    let (world, dry_run) = converged().await;
    world.gate.take();
    for second in 1..=60 {
        let number = second as usize % 10 + 1;
        world
            .flip(&format!("p{number}"), second / 10 % 2 == 1, second)
            .await;
        sleep(SECOND / 2).await;
    }
    sleep(SURE).await;
    let written = world.gate.take().len();
    assert!(
        written >= 100,
        "slices and Endpoints were written all the time: {written}"
    );
    assert_eq!(dry_run.out_of_sync(), 0);
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_tampered_slice_is_reported_after_a_while_and_its_repair_too() {
    let (mut world, dry_run) = converged().await;
    world.stop().await;
    let name = some_slice(&world).await;
    let before = world.get("EndpointSlice", &name).await.unwrap()["endpoints"].clone();
    world
        .patch("EndpointSlice", &name, json!({"endpoints": []}))
        .await;
    sleep(4 * SECOND).await;
    assert_eq!(dry_run.out_of_sync(), 0, "whoever writes needs time for it");
    sleep(4 * SECOND).await;
    assert_eq!(dry_run.out_of_sync(), 1);
    world
        .patch("EndpointSlice", &name, json!({ "endpoints": before }))
        .await;
    sleep(2 * SECOND).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    dry_run.stop().await;
}

/// Changes of what is published that no controller repairs: each is reported.
#[tokio::test(start_paused = true)]
async fn every_difference_is_reported_and_nothing_that_does_not_matter() {
    let (mut world, dry_run) = converged().await;
    world.stop().await;
    let slice = some_slice(&world).await;
    let old = world.get("EndpointSlice", &slice).await.unwrap();
    let mut reversed = old["endpoints"].as_array().unwrap().clone();
    reversed.reverse();
    let moved = json!([{"name": "http", "port": 1, "protocol": "TCP"}]);
    let label = |value: Value| json!({"metadata": {"labels": {"a": value}}});
    for (kind, name, change, back, count) in [
        (
            "EndpointSlice",
            &*slice,
            json!({ "endpoints": reversed }),
            json!({}),
            0,
        ),
        (
            "EndpointSlice",
            &slice,
            json!({"metadata": {"annotations": {"b": "c"}}}),
            json!({}),
            0,
        ),
        ("EndpointSlice", &slice, label(json!("b")), label(Value::Null), 1),
        (
            "EndpointSlice",
            &slice,
            json!({ "ports": moved }),
            json!({ "ports": old["ports"] }),
            1,
        ),
        ("Endpoints", "s", label(json!("b")), label(Value::Null), 1),
        (
            "Endpoints",
            "s",
            json!({"metadata": {"annotations": {"b": "c"}}}),
            json!({}),
            0,
        ),
        (
            "Endpoints",
            "s",
            json!({"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}}}),
            json!({"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": null}}}),
            1,
        ),
    ] {
        world.patch(kind, name, change.clone()).await;
        sleep(SURE).await;
        assert_eq!(dry_run.out_of_sync(), count, "{kind} {name} {change}");
        world.patch(kind, name, back).await;
        sleep(SURE).await;
        assert_eq!(dry_run.out_of_sync(), 0, "{kind} {name}, put back after {change}");
    }
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn while_nobody_writes_services_get_out_of_sync_and_when_somebody_does_again_they_get_in_sync() {
    let (mut world, dry_run) = converged().await;
    world
        .make(service_with(
            &json!({"metadata": {"name": "quiet"}, "spec": {"selector": {"app": "z"}}}),
        ))
        .await;
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    world.stop().await;
    world.make(pod("late", &ip(40), "n1")).await;
    world
        .make(service_with(&json!({"metadata": {"name": "new"}})))
        .await;
    world.delete("Service", "quiet").await;
    sleep(SURE).await;
    assert_eq!(
        dry_run.out_of_sync(),
        3,
        "an endpoint is missing, a Service has nothing, and one has left its Endpoints"
    );
    sleep(100 * SECOND).await;
    assert_eq!(dry_run.out_of_sync(), 3);
    world.start();
    sleep(2 * SECOND).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_service_whose_writer_is_always_behind_is_in_sync_and_an_endpoint_that_stays_wrong_is_not() {
    let mut world = World::new(100);
    world.options.pacing.slice_batch = 2 * SECOND;
    world.options.pacing.endpoints_batch = 2 * SECOND;
    world.nodes(1).await;
    world.pods(60).await;
    world.make(service()).await;
    world.start_up().await;
    let dry_run = DryRun::start(&world.server, world.options);
    sleep(SURE).await;
    // Each pod changes once in a while, and the one slice differs at nearly every moment.
    let busy = async |seconds: u32, from: u32| {
        for step in 0..seconds * 4 {
            let number = step as usize % 59 + 1;
            world
                .flip(&format!("p{number}"), step / 59 % 2 == 1, from + step / 4)
                .await;
            sleep(SECOND / 4).await;
            assert_eq!(dry_run.out_of_sync(), 0, "after {step} steps");
        }
    };
    busy(60, 1).await;
    // The controller does not hear of one pod any more: the others hide it from a look at whole objects.
    world.gate.hold("pods");
    world.flip("p60", false, 100).await;
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 1);
    world.gate.open("pods");
    sleep(2 * PATIENCE).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_without_a_service_are_reported_if_they_are_ours() {
    let world = World::new(4);
    let endpoints = |name: &str, labels: Value, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": name, "labels": labels, "annotations": annotations}})
    };
    let ours = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    world.make(endpoints("theirs", json!({}), json!({}))).await;
    let lock = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    world.make(endpoints("lock", ours.clone(), lock)).await;
    let dry_run = DryRun::start(&world.server, world.options);
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    world.make(endpoints("left", ours, json!({}))).await;
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 1);
    world.delete("Endpoints", "left").await;
    sleep(2 * SECOND).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    // Hand-made, but of a Service's name: with the Service it goes too.
    world
        .make(service_with(
            &json!({"metadata": {"name": "theirs"}, "spec": {"selector": null}}),
        ))
        .await;
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    world.delete("Service", "theirs").await;
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 1);
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_or_cannot_go_on_is_no_difference() {
    let (world, dry_run) = converged().await;
    for kind in ["endpointslices", "endpoints", "pods"] {
        dry_run
            .gate
            .next(Method::GET, kind, crate::gate::Fate::Refused(500));
    }
    world.server.compact();
    world.delete("Pod", "p3").await;
    sleep(SURE).await;
    assert_eq!(dry_run.drift.out_of_sync(), 0);
    dry_run.stop().await;
}
