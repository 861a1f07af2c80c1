//! Services that publish only the holder of a Lease, in a dry run: its looks forget slices, and not who leads.

use crate::dry_run::{DryRun, SURE};
use crate::leader::{CUSTOM, hold, led_world, slices};
use crate::world::{World, text};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Renews the Lease for a while that lets a difference be reported.
async fn renew(world: &World, holder: &str, renewal: &mut u32) {
    let pause = Duration::from_secs(2);
    for _ in 0..=SURE.as_secs() / pause.as_secs() {
        *renewal += 1;
        hold(world, holder, *renewal).await;
        sleep(pause).await;
    }
}

/// The name of the slice, and its content.
async fn slice(world: &World) -> (String, Value) {
    let slice = slices(&world.api).await.remove(0);
    let content = json!({"endpoints": slice["endpoints"], "ports": slice["ports"]});
    (text(&slice["metadata"]["name"]), content)
}

/// Returns the content of a slice that holds no pod.
fn nobody() -> Value {
    json!({"endpoints": [], "ports": []})
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_published_is_in_sync_and_its_successor_too() {
    let world = led_world(CUSTOM).await;
    let dry_run = DryRun::start(&world.server, world.options);
    let mut renewal = 1;
    for holder in ["db-0", "db-1", "db-2", "db-0"] {
        renew(&world, holder, &mut renewal).await;
        assert_eq!(dry_run.out_of_sync(), 0, "{holder}");
    }
    hold(&world, "", 1000).await;
    sleep(SURE).await;
    assert_eq!(dry_run.out_of_sync(), 0, "nobody leads, and nobody is published");
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_pod_than_the_leader_is_reported() {
    let mut world = led_world(CUSTOM).await;
    hold(&world, "db-1", 2).await;
    let (name, other) = slice(&world).await;
    hold(&world, "db-0", 3).await;
    let (_, right) = slice(&world).await;
    world.stop().await;
    let dry_run = DryRun::start(&world.server, world.options);
    let mut renewal = 3;
    renew(&world, "db-0", &mut renewal).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    for wrong in [other, nobody()] {
        world.patch("EndpointSlice", &name, wrong.clone()).await;
        renew(&world, "db-0", &mut renewal).await;
        assert_eq!(dry_run.out_of_sync(), 1, "{wrong}");
        world.patch("EndpointSlice", &name, right.clone()).await;
        renew(&world, "db-0", &mut renewal).await;
        assert_eq!(dry_run.out_of_sync(), 0);
    }
    dry_run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_published_is_a_difference_once_the_lease_is_renewed() {
    let mut world = led_world(CUSTOM).await;
    let (name, right) = slice(&world).await;
    world.stop().await;
    world.patch("EndpointSlice", &name, nobody()).await;
    let dry_run = DryRun::start(&world.server, world.options);
    sleep(SURE).await;
    assert_eq!(
        dry_run.out_of_sync(),
        0,
        "the holder may have stopped to renew long ago"
    );
    let mut renewal = 1;
    renew(&world, "db-0", &mut renewal).await;
    assert_eq!(dry_run.out_of_sync(), 1);
    world.patch("EndpointSlice", &name, right.clone()).await;
    renew(&world, "db-0", &mut renewal).await;
    assert_eq!(dry_run.out_of_sync(), 0);
    dry_run.stop().await;
}
