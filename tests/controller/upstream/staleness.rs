//! Watches that lag behind, and what upstream's caches make of it.

use crate::gate::{Fate, Sent};
use crate::world::{World, ip, items, outlines, service, text, version};
use http::Method;
use std::time::Duration;

/// Asserts that every update names the version that the one before it was answered with.
fn assert_chained(sent: &[Sent], kind: &str, mut last: String) {
    let updates = sent.iter().filter(|s| s.kind() == kind && s.verb == Method::PUT);
    for update in updates {
        assert_eq!(text(&update.body["metadata"]["resourceVersion"]), last);
        last = text(&update.answer["metadata"]["resourceVersion"]);
    }
}

/// Upstream compares with a cache that has not seen its own last write: "endpoints are equal, skipping update",
/// and the wrong address stays until the pod changes again.
#[tokio::test(start_paused = true)]
async fn a_fast_flip_leaves_endpoints_wrong_for_ever() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    let (slice, endpoints) = (
        version(&world.slices().await[0]).1,
        version(&world.endpoints().await).1,
    );

    world.gate.hold("endpoints");
    world.gate.hold("endpointslices");
    let mut sent = Vec::new();
    for (second, ready) in [(1, false), (2, true), (3, false), (4, true), (5, false)] {
        world.flip("p1", ready, second).await;
        let now = world.rest_for(Duration::from_millis(10)).await;
        assert_eq!(
            outlines(&now),
            ["PUT endpointslices 200", "PUT endpoints 200"],
            "each flip is written at once, though no watch has shown the write before"
        );
        assert_eq!(world.in_endpoints().await, [(ip(1), ready), (ip(2), true)]);
        assert_eq!(world.in_slices().await, [(ip(1), ready), (ip(2), true)]);
        sent.extend(now);
    }
    assert_chained(&sent, "endpointslices", slice);
    assert_chained(&sent, "endpoints", endpoints);

    for kind in ["endpoints", "endpointslices"] {
        for _ in 0..5 {
            world.gate.step(kind);
            assert_eq!(
                outlines(&world.rest().await),
                [""; 0],
                "old events of our own writes lead to no request"
            );
        }
        world.gate.open(kind);
    }
    assert_eq!(outlines(&world.rest().await), [""; 0]);
}

/// The same while the write is on its way: the flip back comes before the answer.
#[tokio::test(start_paused = true)]
async fn a_flip_back_during_the_write_is_not_lost() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(1).await;
    world.make(service()).await;
    world.start_up().await;

    for kind in ["endpointslices", "endpoints"] {
        world.gate.next(Method::PUT, kind, Fate::AnswerHeld);
    }
    world.flip("p1", false, 1).await;
    let sent = world.rest().await;
    assert_eq!(outlines(&sent), ["PUT endpointslices -", "PUT endpoints -"]);
    assert_eq!(
        world.in_slices().await,
        [(ip(1), false)],
        "the server has the change already"
    );
    // Many more while it flies: one write when it has landed.
    for (second, ready) in [(2, true), (3, false), (4, true)] {
        world.flip("p1", ready, second).await;
        assert_eq!(outlines(&world.rest().await), [""; 0], "one write at a time");
    }
    world.gate.release();
    let mut written = outlines(&world.rest().await);
    written.sort();
    assert_eq!(written, ["PUT endpoints 200", "PUT endpointslices 200"]);
    assert_eq!(world.in_slices().await, [(ip(1), true)]);
    assert_eq!(world.in_endpoints().await, [(ip(1), true)]);
}

/// Upstream's tracker takes the cache for stale for ever once a PUT that changes nothing has kept the
/// resourceVersion: "1000-2000 pods, a `CronJob` deletes the Endpoints every five minutes".
#[tokio::test(start_paused = true)]
async fn endpoints_of_a_large_service_that_are_deleted_again_and_again_come_back() {
    let mut world = World::new(1000);
    world.nodes(1).await;
    world.pods(1500).await;
    world.make(service()).await;
    world.start_up().await;
    assert_eq!(world.in_endpoints().await.len(), 1000);

    for round in 0..4 {
        if round == 2 {
            world.gate.hold("endpoints");
        }
        world.delete("Endpoints", "s").await;
        if round == 2 {
            assert_eq!(outlines(&world.rest().await), [""; 0], "nobody has told us yet");
            world.gate.open("endpoints");
        }
        assert_eq!(outlines(&world.rest().await), ["POST endpoints 201"]);
        assert_eq!(world.in_endpoints().await.len(), 1000);
        // No sync after it is stuck: one flip of a published pod is one write of each object.
        world.flip("p1", round % 2 == 1, round + 1).await;
        assert_eq!(
            outlines(&world.rest().await),
            ["PUT endpointslices 200", "PUT endpoints 200"]
        );
    }
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
}

/// The write was carried out although the answer says otherwise: sent again, it would be such a PUT.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_wedges_nothing() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world.make(service()).await;
    world.start_up().await;
    for kind in ["endpointslices", "endpoints"] {
        world.gate.next(Method::PUT, kind, Fate::Lost(500));
    }
    world.flip("p1", false, 1).await;
    let mut sent = outlines(&world.rest().await);
    // Each is read after a delay of its own.
    sent[2..].sort();
    assert_eq!(
        sent,
        [
            "PUT endpointslices 500",
            "PUT endpoints 500",
            "GET endpoints 200",
            "GET endpointslices 200"
        ],
        "a write that was carried out after all is not sent again"
    );
    world.flip("p1", true, 2).await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
    assert_eq!(world.in_endpoints().await, [(ip(1), true), (ip(2), true)]);
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
}

/// A Service that is deleted and made again before the watches have caught up, its watches told in one order.
/// Upstream waits for slices of the old UID for ever: "informer cache is out of date".
async fn made_again(gc: bool, order: [&str; 3], one_by_one: bool) {
    let label = format!("gc {gc}, {order:?}, one by one {one_by_one}");
    let mut world = World::of(gc, 100);
    world.nodes(1).await;
    world.pods(3).await;
    world.make(service()).await;
    world.start_up().await;
    for _ in 0..2 {
        for kind in order {
            world.gate.hold(kind);
        }
        world.delete("Service", "s").await;
        let uid = world.make(service()).await["metadata"]["uid"].clone();
        let mut sent = world.rest().await;
        for kind in order {
            if one_by_one {
                for _ in 0..4 {
                    world.gate.step(kind);
                    sent.extend(world.rest().await);
                }
            }
            world.gate.open(kind);
            sent.extend(world.rest().await);
        }
        let slices = world.slices().await;
        assert_eq!(slices.len(), 1, "{label}: {sent:#?}");
        assert_eq!(slices[0]["metadata"]["ownerReferences"][0]["uid"], uid, "{label}");
        let all = [(ip(1), true), (ip(2), true), (ip(3), true)];
        assert_eq!(world.in_slices().await, all, "{label}");
        assert_eq!(world.in_endpoints().await, all, "{label}");
        let count = |verb| sent.iter().filter(|s| s.verb == verb).count();
        assert_eq!(count(Method::PUT), 0, "{label}: {:?}", outlines(&sent));
        // While the Service is the old one to us, the collector takes what we give it.
        let heard_before = |kind| {
            let at = |kind| order.iter().position(|k| *k == kind);
            at(kind) < at("services")
        };
        let collected = gc && heard_before("endpointslices");
        // The server deletes the Endpoints with the Service, and we make them once more for that one.
        let more = if collected { 16 } else { 0 } + usize::from(gc && heard_before("endpoints"));
        assert!(
            count(Method::POST) <= 2 + more && count(Method::DELETE) <= 2 && count(Method::GET) <= 3 + more,
            "{label}: {:?}",
            outlines(&sent)
        );
        let late = world.rest_for(Duration::from_secs(3600)).await;
        assert_eq!(outlines(&late), [""; 0], "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_made_again_at_once_has_no_slices_for_ever() {
    let [s, l, e] = ["services", "endpointslices", "endpoints"];
    for order in [[s, l, e], [s, e, l], [l, s, e], [l, e, s], [e, s, l], [e, l, s]] {
        for gc in [false, true] {
            for one_by_one in [false, true] {
                made_again(gc, order, one_by_one).await;
            }
        }
    }
}

/// The collector has seen that the Service is gone before we have: it deletes what we create, as fast as we do.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_gone_and_a_collector_that_is_faster_make_a_hot_loop() {
    let mut world = World::of(true, 100);
    world.nodes(1).await;
    world.pods(1).await;
    world.make(service()).await;
    world.start_up().await;
    world.gate.hold("services");
    world.delete("Service", "s").await;
    let sent = world.rest_for(Duration::from_secs(600)).await;
    let creates = sent.iter().filter(|s| s.verb == Method::POST).count();
    assert!((2..200).contains(&creates), "{creates} in ten minutes");
    world.gate.open("services");
    world.rest().await;
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
    assert!(world.slices().await.is_empty());
}

/// Upstream's tracker is filled by its own writes only: what was there before it started is not missed.
#[tokio::test(start_paused = true)]
async fn a_slice_deleted_after_a_restart_stays_away() {
    let mut world = World::new(2);
    world.nodes(1).await;
    world.pods(4).await;
    world.make(service()).await;
    world.start_up().await;
    world.stop().await;
    world.gate.take();
    assert_eq!(outlines(&world.start_up().await), [""; 0]);

    let slices = world.slices().await;
    let gone = text(&slices[0]["metadata"]["name"]);
    let lost: Vec<_> = items(&slices[0]["endpoints"])
        .map(|e| text(&e["addresses"][0]))
        .collect();
    world.delete("EndpointSlice", &gone).await;
    let sent = world.rest_for(Duration::from_millis(10)).await;
    assert_eq!(
        outlines(&sent),
        ["GET endpointslices 404", "POST endpointslices 201"],
        "the change is published at once, without any other event"
    );
    let back: Vec<_> = items(&sent[1].body["endpoints"])
        .map(|e| text(&e["addresses"][0]))
        .collect();
    assert_eq!(back.len(), lost.len());
    assert!(lost.iter().all(|ip| back.contains(ip)));
    assert_eq!(world.in_slices().await.len(), 4);

    // The same for one that is edited.
    let slices = world.slices().await;
    let name = text(&slices[0]["metadata"]["name"]);
    world
        .patch("EndpointSlice", &name, serde_json::json!({"endpoints": []}))
        .await;
    let sent = world.rest_for(Duration::from_millis(10)).await;
    assert_eq!(
        outlines(&sent),
        ["GET endpointslices 200", "PUT endpointslices 200"]
    );
    assert_eq!(sent[1].name(), Some(&*name));
    assert_eq!(world.in_slices().await.len(), 4);
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
}
