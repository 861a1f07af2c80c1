//! A Service that follows a Lease on and off: what its owner writes in a moment must not cost a list of megabytes each time.

use super::{EVERYTHING, LEADER, hold, led_world, published, seconds};
use crate::gate::Sent;
use crate::world::World;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Has the Service follow a Lease, or none.
async fn follow(world: &World, lease: Option<&str>) {
    let lease = lease.map_or(Value::Null, Into::into);
    let patch = json!({"metadata": {"annotations": {LEADER: lease}}});
    world.patch("Service", "s", patch).await;
}

/// The numbers of lists and of reads of Leases since this was last asked. A page of one object is no list: it tells the version
/// that a watch has ended at.
fn requests(world: &World) -> (usize, usize) {
    let sent = world.gate.take_all();
    let leases = sent
        .iter()
        .filter(|sent| sent.kind() == "leases" && !sent.watch && !sent.query.ends_with("limit=1"));
    let (lists, reads): (Vec<&Sent>, Vec<_>) = leases.partition(|sent| sent.path.ends_with("/leases"));
    (lists.len(), reads.len())
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_comes_and_goes_costs_no_list_each_time() {
    let world = led_world(EVERYTHING).await;
    world.gate.take_all();
    for round in 0..100 {
        follow(&world, (round % 2 == 1).then_some("db")).await;
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(requests(&world), (0, 0), "its Lease is still followed");
    for round in 0..100 {
        let name = format!("db-{}", round % 5);
        follow(&world, (round % 2 == 1).then_some(&name)).await;
        sleep(Duration::from_millis(20)).await;
    }
    let (lists, reads) = requests(&world);
    assert!(lists == 0 && reads <= 5, "{lists} lists, {reads} reads");
    // It goes on as it was, once its Lease is renewed.
    follow(&world, Some("db")).await;
    seconds(1).await;
    hold(&world, "db-1_x", 2).await;
    assert_eq!(published(&world).await, ["db-1"]);
    assert_eq!(requests(&world), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn leases_that_no_service_follows_are_watched_for_a_minute_and_listed_ever_more_rarely() {
    let world = led_world(EVERYTHING).await;
    follow(&world, None).await;
    seconds(70).await;
    world.gate.take_all();
    hold(&world, "db-1_x", 2).await;
    seconds(700).await;
    let watches = |sent: Vec<Sent>| sent.iter().filter(|sent| sent.kind() == "leases").count();
    assert_eq!(
        watches(world.gate.take_all()),
        0,
        "nothing asks for Leases any more"
    );
    // An owner who waits until the watch has ended each time gets one list in ever longer times.
    for _ in 0..60 {
        follow(&world, Some("db")).await;
        sleep(Duration::from_millis(100)).await;
        follow(&world, None).await;
        seconds(61).await;
    }
    let (lists, reads) = requests(&world);
    assert!(
        (2..=8).contains(&lists),
        "{lists} lists and {reads} reads in an hour"
    );
}

#[tokio::test(start_paused = true)]
async fn services_that_are_deleted_and_made_again_cost_no_list_each_time() {
    let world = led_world(EVERYTHING).await;
    let service = world.get("Service", "s").await.unwrap();
    world.gate.take_all();
    for _ in 0..20 {
        world.delete("Service", "s").await;
        sleep(Duration::from_millis(50)).await;
        let mut again = service.clone();
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            again["metadata"].as_object_mut().unwrap().remove(field);
        }
        world.make(again).await;
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(requests(&world).0, 0);
}
