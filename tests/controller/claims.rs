//! Pods with a Service each that live for a minute: how many requests one costs, and what never waits for that.

use crate::world::{NS, World, node, outlines, pod, ready_condition, service_with, text, trigger};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const MOMENT: Duration = Duration::from_millis(50);
/// The longest time for which the first slice of a Service waits.
const LONGEST: Duration = Duration::from_millis(500);
const MINUTE: Duration = Duration::from_secs(60);

/// A cluster as it is, with its garbage collector, and a controller.
async fn cluster(gc: bool) -> World {
    let mut world = World::of(gc, 100);
    world.make(node("n1", Some("z1"), Some("4"))).await;
    world.start_up().await;
    world
}

fn service(spec: &Value) -> Value {
    service_with(&json!({"spec": spec}))
}

/// A pod that is bound to a node, and no more.
fn bound() -> Value {
    let mut pod = pod("p1", "10.1.0.1", "n1");
    pod["status"] = json!({"phase": "Pending"});
    pod
}

/// Has the pod's containers run: it has an address, and is ready a moment later.
async fn run(world: &World) {
    let status = json!({"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
        "conditions": [ready_condition(false, 1)]});
    world.patch_status("Pod", "p1", status).await;
    sleep(MOMENT).await;
    world.flip("p1", true, 2).await;
}

/// The requests for one of the outputs.
fn of(requests: &[String], kind: &str) -> Vec<String> {
    let of = format!(" {kind} ");
    requests
        .iter()
        .filter(|line| line.contains(&of))
        .cloned()
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_service_of_its_own_costs_two_requests_for_each_output() {
    for spec in [json!({"clusterIP": "None"}), json!({})] {
        for pod_first in [true, false] {
            for (pod_ends_first, server_deletes) in [(false, true), (false, false), (true, true)] {
                let world = cluster(server_deletes).await;
                if pod_first {
                    world.make(bound()).await;
                    sleep(MOMENT).await;
                }
                world.make(service(&spec)).await;
                if !pod_first {
                    sleep(MOMENT).await;
                    world.make(bound()).await;
                }
                sleep(MOMENT).await;
                run(&world).await;
                sleep(MOMENT).await;
                assert_eq!(world.in_slices().await, [("10.1.0.1".to_owned(), true)]);
                assert_eq!(world.in_endpoints().await, [("10.1.0.1".to_owned(), true)]);
                sleep(MINUTE).await;
                if pod_ends_first {
                    // The removal of a pod does not wait for the end of the Service.
                    world.delete("Pod", "p1").await;
                    sleep(Duration::from_millis(5)).await;
                }
                world.delete("Service", "s").await;
                if !pod_ends_first {
                    world.delete("Pod", "p1").await;
                }
                let requests = outlines(&world.rest().await);
                let case = format!("{spec}, pod first: {pod_first}, {pod_ends_first}, {server_deletes}");
                let (slices, endpoints) = (of(&requests, "endpointslices"), of(&requests, "endpoints"));
                assert_eq!(slices.len() + endpoints.len(), requests.len(), "{requests:?}");
                assert_eq!(slices[0], "POST endpointslices 201", "{case}: {requests:?}");
                assert_eq!(endpoints[0], "POST endpoints 201", "{case}: {requests:?}");
                assert!(slices.len() <= 2, "{case}: {requests:?}");
                assert!(endpoints.len() <= 2, "{case}: {requests:?}");
                assert_eq!(world.endpoints().await, Value::Null, "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_slice_of_a_service_waits_no_longer_than_half_a_second_for_its_first_endpoint() {
    let world = cluster(false).await;
    world.make(service(&json!({}))).await;
    sleep(LONGEST.saturating_sub(Duration::from_millis(10))).await;
    assert_eq!(outlines(&world.gate.take()), [""; 0], "it waits");
    sleep(Duration::from_millis(20)).await;
    let slices = world.slices().await;
    assert_eq!(slices.len(), 1);
    assert_eq!(world.in_slices().await, []);
    assert_eq!(world.endpoints().await["subsets"], Value::Null);
    let created = text(&world.get("Service", "s").await.unwrap()["metadata"]["creationTimestamp"]);
    assert_eq!(trigger(&slices[0]), Some(created));
    assert_eq!(
        outlines(&world.rest().await),
        ["POST endpointslices 201", "POST endpoints 201"]
    );
}

/// The same while a pod is not ready: it is in the first slice.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_not_ready_is_published_when_the_time_is_over() {
    let world = cluster(false).await;
    let mut unready = pod("p1", "10.1.0.1", "n1");
    unready["status"]["conditions"] = json!([ready_condition(false, 0)]);
    world.make(unready).await;
    world.make(service(&json!({}))).await;
    sleep(LONGEST + MOMENT).await;
    let unready = [("10.1.0.1".to_owned(), false)];
    assert_eq!(world.in_slices().await, unready);
    assert_eq!(world.in_endpoints().await, unready);
    assert_eq!(world.rest().await.len(), 2);

    // From now on nothing waits.
    world.flip("p1", true, 1).await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(
        outlines(&world.gate.take()),
        ["PUT endpointslices 200", "PUT endpoints 200"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_trigger_time_is_that_of_the_endpoint_that_the_first_slice_has_waited_for() {
    let world = cluster(false).await;
    world.make(service(&json!({}))).await;
    sleep(MOMENT).await;
    world.make(bound()).await;
    run(&world).await;
    let slices = world.rest().await;
    assert_eq!(slices.len(), 2);
    let ready = Some("2026-02-01T00:00:02Z".to_owned());
    assert_eq!(trigger(&world.slices().await[0]), ready);
    assert_eq!(trigger(&world.endpoints().await), ready);
}

#[tokio::test(start_paused = true)]
async fn what_a_new_service_loses_does_not_wait() {
    let world = cluster(false).await;
    world.make(pod("p1", "10.1.0.1", "n1")).await;
    world.make(service(&json!({}))).await;
    sleep(Duration::from_millis(1)).await;
    let created = ["POST endpointslices 201", "POST endpoints 201"];
    assert_eq!(outlines(&world.gate.take()), created, "there is an endpoint");
    world.flip("p1", false, 1).await;
    sleep(Duration::from_millis(1)).await;
    let updated = ["PUT endpointslices 200", "PUT endpoints 200"];
    assert_eq!(outlines(&world.gate.take()), updated);
    world.delete("Pod", "p1").await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(outlines(&world.gate.take()), updated);
}

/// A Service with an endpoint, which something keeps from going once it is deleted.
async fn kept_by(finalizer: &str) -> World {
    let world = cluster(false).await;
    world.make(pod("p1", "10.1.0.1", "n1")).await;
    let kept = json!({"metadata": {"finalizers": [finalizer]}});
    world.make(service_with(&kept)).await;
    assert_eq!(world.rest().await.len(), 2);
    world.delete("Service", "s").await;
    sleep(Duration::from_millis(1)).await;
    assert_eq!(outlines(&world.gate.take()), [""; 0]);
    world.delete("Pod", "p1").await;
    sleep(Duration::from_millis(1)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn slices_that_go_with_their_service_in_the_foreground_are_not_emptied_before() {
    let world = kept_by("foregroundDeletion").await;
    sleep(MOMENT).await;
    assert_eq!(outlines(&world.gate.take()), [""; 0], "it waits");
    // The garbage collector does its work.
    let slice = text(&world.slices().await[0]["metadata"]["name"]);
    world.delete("EndpointSlice", &slice).await;
    let freed = json!({"metadata": {"finalizers": null}});
    world.patch("Service", "s", freed).await;
    let requests = outlines(&world.rest().await);
    assert_eq!(of(&requests, "endpoints"), ["DELETE endpoints 200"]);
    let writes = requests.iter().filter(|line| !line.starts_with("GET"));
    assert_eq!(writes.count(), 1, "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_service_that_stays_in_its_deletion_are_emptied_after_half_a_second() {
    let world = kept_by("foregroundDeletion").await;
    sleep(LONGEST).await;
    let emptied = ["PUT endpointslices 200", "PUT endpoints 200"];
    assert_eq!(outlines(&world.gate.take()), emptied);
    assert_eq!(world.in_slices().await, []);
}

/// A load balancer's, for example: what goes on for as long as that takes is served meanwhile.
#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_that_another_finalizer_keeps_are_removed_at_once() {
    let world = kept_by("service.kubernetes.io/load-balancer-cleanup").await;
    let emptied = ["PUT endpointslices 200", "PUT endpoints 200"];
    assert_eq!(outlines(&world.gate.take()), emptied);
}

#[tokio::test(start_paused = true)]
async fn a_service_made_again_while_its_first_slice_waits_gets_one_of_its_own() {
    let world = cluster(false).await;
    world.make(service(&json!({}))).await;
    sleep(LONGEST.saturating_sub(MOMENT)).await;
    world.delete("Service", "s").await;
    let again = world.make(service(&json!({}))).await;
    sleep(2 * MOMENT).await;
    assert_eq!(
        outlines(&world.gate.take()),
        [""; 0],
        "the time of the second has begun anew"
    );
    sleep(LONGEST).await;
    let slices = world.slices().await;
    assert_eq!(slices.len(), 1);
    let owner = &slices[0]["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, again["metadata"]["uid"]);
    let created = ["POST endpointslices 201", "POST endpoints 201"];
    assert_eq!(outlines(&world.rest().await), created);
}

/// The leader that let the slice wait is gone; the next one does not know for how long it has.
#[tokio::test(start_paused = true)]
async fn a_new_leader_writes_at_once_what_waited() {
    let mut world = cluster(false).await;
    world.make(service(&json!({}))).await;
    sleep(MOMENT).await;
    world.stop().await;
    assert_eq!(outlines(&world.gate.take()), [""; 0]);
    world.start();
    sleep(MOMENT).await;
    let created = ["POST endpointslices 201", "POST endpoints 201"];
    assert_eq!(outlines(&world.gate.take()), created);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_first_create_makes_no_second_slice() {
    use crate::gate::Fate;
    let world = cluster(false).await;
    world.gate.next(Method::POST, "endpointslices", Fate::Lost(504));
    world.make(service(&json!({}))).await;
    sleep(MOMENT).await;
    world.make(pod("p1", "10.1.0.1", "n1")).await;
    sleep(MOMENT).await;
    world.delete("Pod", "p1").await;
    let requests = outlines(&world.rest().await);
    assert_eq!(world.slices().await.len(), 1, "{requests:?}");
    assert_eq!(world.in_slices().await, []);
    assert_eq!(world.api.slices_of(NS, "s").await.unwrap().len(), 1);
}
