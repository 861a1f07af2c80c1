//! Endpoints that have no Service when the controller starts. Upstream deletes them by its cache, with a Service
//! watch that may lag: live Endpoints have been deleted so.

use crate::gate::{Fate, Sent};
use crate::world::{World, outlines, service_with, text};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

fn leftover(name: &str, ours: bool) -> Value {
    let labels = if ours {
        json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    } else {
        json!({"app": "a"})
    };
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "labels": labels},
        "subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}]})
}

fn about<'a>(sent: &'a [Sent], name: &str) -> Vec<&'a Sent> {
    sent.iter().filter(|s| s.name() == Some(name)).collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_without_a_service_are_deleted_whosever_they_are() {
    let mut world = World::new(100);
    let ours = world.make(leftover("gone", true)).await;
    world.make(leftover("handmade", false)).await;
    let mut lock = leftover("lock", true);
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    world.make(lock).await;
    // A Service that we do not manage is a Service.
    world.make(leftover("selectorless", true)).await;
    let bare = json!({"metadata": {"name": "selectorless"}, "spec": {"selector": null}});
    world.make(service_with(&bare)).await;

    let mut sent = world.start_up().await;
    // The Endpoints of the Service without a selector are mirrored.
    assert_eq!(sent.remove(0).outline(), "POST endpointslices 201");
    assert_eq!(outlines(&sent), ["GET services 404", "DELETE endpoints 200"]);
    assert!(sent.iter().all(|s| s.name() == Some("gone")));
    assert_eq!(
        sent[1].body["preconditions"],
        json!({"uid": ours["metadata"]["uid"], "resourceVersion": ours["metadata"]["resourceVersion"]})
    );
    for name in ["handmade", "lock", "selectorless"] {
        assert!(world.get("Endpoints", name).await.is_some(), "{name}");
    }
    // One that appears later is not from before us: a client makes it now, perhaps ahead of its Service.
    world.make(leftover("early", true)).await;
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
}

/// The Service is made when the lists are through, and its event is late.
#[tokio::test(start_paused = true)]
async fn endpoints_whose_service_the_watch_has_not_shown_are_deleted() {
    let mut world = World::new(100);
    let made = world.make(leftover("late", true)).await;
    world.gate.hold("services");
    world.gate.next(Method::GET, "services", Fate::Held);
    world.start_up().await;
    world
        .make(service_with(&json!({"metadata": {"name": "late"}})))
        .await;
    world.gate.release();
    let sent = world.rest().await;
    assert!(
        sent.is_empty(),
        "the server answers that the Service exists: {sent:#?}"
    );
    assert_eq!(world.get("Endpoints", "late").await, Some(made.clone()));
    world.gate.open("services");
    let sent = world.rest().await;
    let written: Vec<_> = about(&sent, "late").iter().map(|s| s.outline()).collect();
    assert!(
        !written
            .iter()
            .any(|w| w.starts_with("DELETE") || w.starts_with("POST endpoints ")),
        "{written:?}"
    );
    let now = world.get("Endpoints", "late").await.unwrap();
    assert_eq!(
        now["metadata"]["uid"], made["metadata"]["uid"],
        "the slice is updated, not replaced"
    );
    assert!(now["subsets"].is_null(), "and without pods, empty");
}

/// The Service is made while the answer that there is none is on its way, and the watch is faster.
#[tokio::test(start_paused = true)]
async fn endpoints_whose_service_came_during_the_check_are_deleted() {
    for selector in [json!({"app": "a"}), Value::Null] {
        let mut world = World::new(100);
        let made = world.make(leftover("late", true)).await;
        world.gate.next(Method::GET, "services", Fate::AnswerHeld);
        assert_eq!(outlines(&world.start_up().await), ["GET services -"]);
        let over = json!({"metadata": {"name": "late"}, "spec": {"selector": selector}});
        world.make(service_with(&over)).await;
        let mut sent = world.rest().await;
        world.gate.release();
        sent.extend(world.rest_for(Duration::from_secs(60)).await);
        assert!(sent.iter().all(|s| s.verb != Method::DELETE), "{sent:#?}");
        let now = world.get("Endpoints", "late").await.unwrap();
        assert_eq!(now["metadata"]["uid"], made["metadata"]["uid"]);
        assert_eq!(now["subsets"].is_null(), !selector.is_null(), "{now}");
        world
            .api
            .delete("Service", "default", "late", None)
            .await
            .unwrap();
        world.rest().await;
        assert!(
            world.get("Endpoints", "late").await.is_none(),
            "the slice goes with its Service"
        );
    }
}

/// Between the check and the DELETE, another client changes the object, or takes it over.
#[tokio::test(start_paused = true)]
async fn endpoints_that_change_before_the_delete_are_deleted_all_the_same() {
    for (patch, spared) in [
        (
            json!({"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": "another"}}}),
            true,
        ),
        (
            json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}}),
            true,
        ),
        (json!({"metadata": {"labels": {"more": "1"}}}), false),
    ] {
        let mut world = World::new(100);
        let made = world.make(leftover("gone", true)).await;
        world.gate.next(Method::DELETE, "endpoints", Fate::Held);
        let sent = world.start_up().await;
        assert_eq!(outlines(&sent), ["GET services 404", "DELETE endpoints -"]);
        let before = text(&made["metadata"]["resourceVersion"]);
        assert_eq!(sent[1].body["preconditions"]["resourceVersion"], *before);
        world.patch("Endpoints", "gone", patch.clone()).await;
        world.gate.release();
        let sent = world.rest_for(Duration::from_secs(60)).await;
        let label = format!("{patch}: {:?}", outlines(&sent));
        assert_eq!(world.get("Endpoints", "gone").await.is_some(), spared, "{label}");
        // A deletion that follows names the version that was looked at then.
        let deletes: Vec<_> = sent.iter().filter(|s| s.verb == Method::DELETE).collect();
        let versions: Vec<_> = deletes
            .iter()
            .map(|s| text(&s.body["preconditions"]["resourceVersion"]))
            .collect();
        assert!(!versions.contains(&before), "{label}");
        assert_eq!(versions.len(), usize::from(!spared), "{label}");
        assert_eq!(
            outlines(&world.rest_for(Duration::from_secs(3600)).await),
            [""; 0],
            "{label}"
        );
    }
}

/// One that was deleted and made again in between is another object.
#[tokio::test(start_paused = true)]
async fn endpoints_made_again_before_the_delete_are_deleted_instead() {
    let mut world = World::new(100);
    world.make(leftover("gone", true)).await;
    world.gate.next(Method::DELETE, "endpoints", Fate::Held);
    let sent = world.start_up().await;
    assert_eq!(outlines(&sent), ["GET services 404", "DELETE endpoints -"]);
    world.delete("Endpoints", "gone").await;
    world.make(leftover("gone", false)).await;
    world.gate.release();
    world.rest_for(Duration::from_secs(60)).await;
    assert!(world.get("Endpoints", "gone").await.is_some());
}
