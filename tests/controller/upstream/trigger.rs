//! The trigger time, from which the network programming latency is measured.

use crate::gate::Fate;
use crate::world::{World, ip, outlines, service, text, time, trigger};
use http::Method;
use serde_json::Value;
use std::time::Duration;

const KINDS: [(&str, &str); 2] = [("endpointslices", "EndpointSlice"), ("endpoints", "Endpoints")];

async fn stored(world: &World, kind: &str) -> Value {
    match kind {
        "Endpoints" => world.endpoints().await,
        _ => world.slices().await.remove(0),
    }
}

/// Upstream takes the time when it begins to write, so that a write that fails takes it along. The write
/// that succeeds in the end says when the pod changed that waited longest.
async fn fails(fate: Fate, applied: bool) {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(3).await;
    world.make(service()).await;
    world.start_up().await;

    for (kind, _) in KINDS {
        world.gate.next(Method::PUT, kind, fate);
        // The retry of what was not carried out fails too, another way.
        if !applied {
            world.gate.next(Method::PUT, kind, Fate::Refused(503));
        }
    }
    world.flip("p1", false, 10).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    // Younger ones that come before the older is through.
    world.flip("p2", false, 20).await;
    world.flip("p3", false, 30).await;
    let sent = world.rest_for(Duration::from_secs(120)).await;
    assert_eq!(world.gate.unmet(), 0, "{fate:?}: {:?}", outlines(&sent));
    for (plural, kind) in KINDS {
        let label = format!("{fate:?} {kind}: {:?}", outlines(&sent));
        let puts: Vec<_> = sent
            .iter()
            .filter(|s| s.verb == Method::PUT && s.kind() == plural)
            .collect();
        let through = puts.iter().position(|put| put.status == Some(200)).unwrap();
        assert_eq!(through, if applied { 1 } else { 2 }, "{label}");
        for put in &puts[..=through] {
            assert_eq!(
                trigger(&put.body),
                Some(time(10)),
                "the oldest time that no answer has confirmed: {label}"
            );
        }
        // An answer that came before the youngest change leaves that change a write of its own.
        for put in &puts[through + 1..] {
            assert!(
                [Some(time(20)), Some(time(30))].contains(&trigger(&put.body)),
                "{label}"
            );
        }
        assert_eq!(
            trigger(&stored(&world, kind).await),
            trigger(&puts.last().unwrap().body),
            "{label}"
        );
    }
    let all = [(ip(1), false), (ip(2), false), (ip(3), false)];
    assert_eq!(
        (world.in_slices().await, world.in_endpoints().await),
        (all.to_vec(), all.to_vec())
    );

    // Confirmed: from here on the next one counts.
    world.flip("p2", true, 40).await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"],
        "{fate:?}"
    );
    for (_, kind) in KINDS {
        assert_eq!(
            trigger(&stored(&world, kind).await),
            Some(time(40)),
            "{fate:?} {kind}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_loses_the_trigger_time() {
    fails(Fate::Refused(500), false).await;
    fails(Fate::Refused(409), false).await;
    fails(Fate::Unheard, false).await;
    fails(Fate::Lost(500), true).await;
    fails(Fate::Lost(504), true).await;
    fails(Fate::Unanswered, true).await;
}

/// Upstream loses the first of two changes of one pod between two syncs.
#[tokio::test(start_paused = true)]
async fn the_latest_of_several_changes_that_share_a_write_is_stamped() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    world.gate.hold("pods");
    for (second, pod, ready) in [
        (10, "p1", false),
        (20, "p1", true),
        (30, "p1", false),
        (40, "p2", false),
    ] {
        world.flip(pod, ready, second).await;
    }
    assert_eq!(outlines(&world.rest().await), [""; 0]);
    world.gate.open("pods");
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    for (_, kind) in KINDS {
        assert_eq!(trigger(&stored(&world, kind).await), Some(time(10)), "{kind}");
    }
}

/// After a restart upstream takes every Service for new: what is written first says when the Service was made,
/// perhaps years ago.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_creation_time_is_stamped() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    let made = text(&world.make(service()).await["metadata"]["creationTimestamp"]);
    world.start_up().await;
    for (_, kind) in KINDS {
        assert_eq!(
            trigger(&stored(&world, kind).await),
            Some(made.clone()),
            "a new Service"
        );
    }
    // One change while no controller runs, one afterwards.
    world.stop().await;
    world.gate.take();
    world.flip("p1", false, 10).await;
    assert_eq!(
        outlines(&world.start_up().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    for (_, kind) in KINDS {
        let stamped = trigger(&stored(&world, kind).await);
        assert_ne!(stamped, Some(made.clone()), "{kind}");
        assert_eq!(stamped, None, "when it was first seen is not known: {kind}");
    }
    world.flip("p2", false, 20).await;
    world.rest().await;
    for (_, kind) in KINDS {
        assert_eq!(trigger(&stored(&world, kind).await), Some(time(20)), "{kind}");
    }
}
