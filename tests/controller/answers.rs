//! Answers that prove nothing about the object of the request: pages of whatever stands between the controller and
//! the API server, and answers about something else. The controller looks again, and neither makes a second object
//! nor forgets one.

mod table;

use crate::gate::Fate;
use crate::world::{self, NS, World, node, pod, ready_condition, service};
use http::Method;
use memory_apiserver::{Failure, Fault, FaultPlan, Rule, Verb};
use serde_json::json;
use std::time::Duration;

/// Two ready pods of Service `s`, published.
async fn published() -> World {
    let mut world = World::new(100);
    world.make(node("n0", None, None)).await;
    for i in 0..2 {
        world.make(pod(&format!("p{i}"), &world::ip(i), "n0")).await;
    }
    world.make(service()).await;
    world.start_up().await;
    assert_eq!(world.in_slices().await.len(), 2);
    world
}

/// Asserts that each of Service `s`'s objects is there once, with these addresses.
async fn shows(world: &World, addresses: &[usize]) {
    let mut expected: Vec<_> = addresses.iter().map(|&i| (world::ip(i), true)).collect();
    expected.sort();
    assert_eq!(world.slices().await.len(), 1);
    assert_eq!(world.in_slices().await, expected);
    assert_eq!(world.in_endpoints().await, expected);
}

/// Answers of whatever stands before the API server, and of an API server that does not know the path.
const STRANGE: [Fate; 3] = [Fate::Page(200), Fate::Page(404), Fate::UnknownPath];

/// Answers these requests for a kind so, and asserts that a pod that goes is taken out of the objects that were there.
async fn update_survives(kind: &'static str, answer: Fate, methods: &[Method]) {
    let world = published().await;
    let before = world.slices().await;
    for method in methods {
        world.gate.next(method.clone(), kind, answer);
    }
    world.api.delete("Pod", NS, "p0", Some(0)).await.unwrap();
    world.rest().await;
    assert_eq!(world.gate.unmet(), 0);
    shows(&world, &[1]).await;
    let after = world.slices().await;
    assert_eq!(before[0]["metadata"]["uid"], after[0]["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_answers_an_update_makes_no_second_slice() {
    for kind in ["endpointslices", "endpoints"] {
        for answer in STRANGE {
            update_survives(kind, answer, &[Method::PUT]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_answers_a_create_leaves_no_service_without_its_objects() {
    for kind in ["endpointslices", "endpoints"] {
        for answer in STRANGE {
            let mut world = World::new(100);
            world.make(node("n0", None, None)).await;
            world.make(pod("p0", &world::ip(0), "n0")).await;
            world.start_up().await;
            world.gate.next(Method::POST, kind, answer);
            world.make(service()).await;
            world.rest().await;
            assert_eq!(world.gate.unmet(), 0);
            shows(&world, &[0]).await;
        }
    }
}

/// A proxy that answers in the server's place answers the GET that follows, too.
#[tokio::test(start_paused = true)]
async fn pages_that_go_on_for_a_while_are_waited_out() {
    for kind in ["endpointslices", "endpoints"] {
        let methods = [Method::PUT, Method::GET, Method::GET, Method::GET];
        update_survives(kind, Fate::Page(404), &methods).await;
        update_survives(kind, Fate::UnknownPath, &methods).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_answers_a_delete_leaves_nothing_behind() {
    for answer in STRANGE {
        let world = published().await;
        world.gate.next(Method::DELETE, "endpointslices", answer);
        world.gate.next(Method::DELETE, "endpoints", answer);
        let stray = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
            "metadata": {"name": "stray", "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }},
        });
        world.make(stray).await;
        world.rest().await;
        assert!(world.get("EndpointSlice", "stray").await.is_none(), "{answer:?}");
        shows(&world, &[0, 1]).await;
        world.api.delete("Service", NS, "s", None).await.unwrap();
        world.rest().await;
        assert!(world.get("Endpoints", "s").await.is_none(), "{answer:?}");
        assert_eq!(world.gate.unmet(), 0);
    }
}

/// Endpoints of a deleted Service are deleted only when the server itself says that the Service is not there.
#[tokio::test(start_paused = true)]
async fn a_page_in_place_of_a_service_deletes_no_endpoints() {
    let mut world = World::new(100);
    let leftover = json!({
        "apiVersion": "v1", "kind": "Endpoints", "subsets": [],
        "metadata": {"name": "late", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
    });
    world.make(leftover).await;
    for answer in [Fate::Page(404), Fate::UnknownPath, Fate::Page(404)] {
        world.gate.next(Method::GET, "services", answer);
    }
    world.gate.next(Method::GET, "services", Fate::Held);
    world.start_up().await;
    assert_eq!(world.gate.unmet(), 0, "it asks again");
    world.gate.hold("services");
    world
        .make(world::service_with(&json!({"metadata": {"name": "late"}})))
        .await;
    world.gate.release();
    let sent = world.rest().await;
    assert!(sent.iter().all(|sent| sent.verb == Method::GET), "{sent:#?}");
    assert!(world.get("Endpoints", "late").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_about_something_else_is_tried_again() {
    let world = published().await;
    world.gate.next(Method::PUT, "endpointslices", Fate::Refused(404));
    let patch = json!({"status": {"conditions": [ready_condition(false, 1)]}});
    world
        .api
        .patch("Pod", NS, "p0", Some("status"), &patch)
        .await
        .unwrap();
    world.rest_for(Duration::from_secs(5)).await;
    assert_eq!(world.gate.unmet(), 0);
    assert_eq!(world.slices().await.len(), 1);
    assert_eq!(
        world.in_slices().await,
        [(world::ip(0), false), (world::ip(1), true)]
    );
}

/// The create fails, the look that follows shows that there is nothing, and that is no reason to begin anew.
#[tokio::test(start_paused = true)]
async fn a_create_that_keeps_failing_is_retried_slowly() {
    for kind in ["endpointslices", "endpoints"] {
        let mut world = World::new(100);
        world.start_up().await;
        let fails = Rule::on(Verb::Create, kind).fault(Fault::before(Failure::Internal));
        world.server.set_faults(FaultPlan::new(1).rule(fails));
        world.make(service()).await;
        let sent = world.rest_for(Duration::from_secs(40)).await;
        let posts = sent
            .iter()
            .filter(|s| s.verb == Method::POST && s.kind() == kind)
            .count();
        assert!(
            (5..=12).contains(&posts),
            "{posts} creates of {kind} in 40 seconds"
        );
        world.server.clear_faults();
        world.rest_for(Duration::from_secs(60)).await;
        assert_eq!(world.slices().await.len(), 1);
        assert!(world.endpoints().await.is_object());
    }
}

/// Only the owner of the Service can help, so they hear of it once, with the size, and the server is left alone.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_reported_once_and_retried_slowly() {
    for (kind, reason, source) in [
        ("endpoints", "FailedToUpdateEndpoint", "endpoint-controller"),
        (
            "endpointslices",
            "FailedToUpdateEndpointSlices",
            "endpoint-slice-controller",
        ),
    ] {
        let mut world = published().await;
        for _ in 0..40 {
            world.gate.next(Method::PUT, kind, Fate::Refused(413));
        }
        world.flip("p0", false, 1).await;
        let sent = world.rest_for(Duration::from_secs(120)).await;
        let puts: Vec<_> = sent
            .iter()
            .filter(|s| s.verb == Method::PUT && s.kind() == kind)
            .collect();
        assert!((4..=12).contains(&puts.len()), "{} updates of {kind}", puts.len());
        let bytes = puts[0].size;
        let events: Vec<_> = world.events().await;
        assert_eq!(events.len(), 1, "{events:#?}");
        assert_eq!(
            (
                &events[0]["reason"],
                &events[0]["source"]["component"],
                &events[0]["count"]
            ),
            (&json!(reason), &json!(source), &json!(1))
        );
        let message = events[0]["message"].as_str().unwrap();
        assert!(message.contains(&format!(" {bytes} bytes")), "{bytes}: {message}");
        // A pod less may be what helps: it is not tried at once, but soon.
        world.delete("Pod", "p0").await;
        let sent = world.rest_for(Duration::from_secs(6)).await;
        assert!(sent.iter().any(|s| s.verb == Method::PUT && s.kind() == kind));
        // All this time the other objects were written at once.
        world.flip("p1", false, 2).await;
        world.rest_for(Duration::from_secs(1)).await;
        let other = if kind == "endpoints" {
            world.in_slices().await
        } else {
            world.in_endpoints().await
        };
        assert_eq!(other, [(world::ip(1), false)]);
        world.stop().await;
    }
}
