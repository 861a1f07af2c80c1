//! The words of `explain` about pods, Services, and what is published for them.

use super::{explain, of};
use crate::world::{NS, World, dual_pod, node, pod, service_with, text};
use endpointd::inspect::explain::{Explanation, State};
use serde_json::{Value, json};

/// Service `s` with what is laid over it, and these pods, brought up to date by a controller that has stopped.
async fn settled(over: &Value, pods: &[Value]) -> World {
    let mut world = World::new(100);
    world.make(node("n1", Some("z1"), Some("4"))).await;
    for pod in pods {
        world.make(pod.clone()).await;
    }
    world.make(service_with(over)).await;
    world.start_up().await;
    world.stop().await;
    world
}

async fn said(world: &World) -> Explanation {
    explain(world, NS, "s").await.unwrap()
}

fn labelled(name: &str, last: u8, labels: Value) -> Value {
    let mut pod = pod(name, &format!("10.1.0.{last}"), "n1");
    pod["metadata"]["labels"] = labels;
    pod
}

#[tokio::test(start_paused = true)]
async fn the_reason_is_given_for_a_pod_that_is_not_ready() {
    let mut unready = pod("p2", "10.1.0.2", "n1");
    unready["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "ContainersNotReady",
        "message": "containers with unready status: [app]"}]);
    let over = json!({"spec": {"trafficDistribution": "PreferClose"}});
    let world = settled(&over, &[pod("p1", "10.1.0.1", "n1"), unready.clone()]).await;
    let found = said(&world).await;
    let message = "ContainersNotReady: containers with unready status: [app]";
    let p2 = of(&found, "p2");
    assert_eq!(
        (p2.state, p2.endpoints, &*p2.why),
        (
            State::NotReady,
            Some(false),
            &[format!("not ready: {message}")][..]
        )
    );
    let p1 = of(&found, "p1");
    assert!(p1.is_plain());
    assert_eq!(p1.published[0].hints.as_deref(), Some("zone z1"));
    assert_eq!(p1.zone.as_deref(), Some("z1"));

    let over = json!({"spec": {"publishNotReadyAddresses": true}});
    let found = said(&settled(&over, &[unready]).await).await;
    let p2 = of(&found, "p2");
    assert_eq!(p2.state, State::Ready);
    assert_eq!(
        p2.why,
        [format!(
            "not ready: {message}; publishNotReadyAddresses has it published as ready"
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn the_reason_is_given_for_a_pod_that_is_not_scheduled() {
    let mut pending = pod("p1", "10.1.0.1", "n1");
    pending["spec"].as_object_mut().unwrap().remove("nodeName");
    pending["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available"}]});
    let found = said(&settled(&json!({}), &[pending]).await).await;
    assert_eq!(
        of(&found, "p1").why,
        [
            "it has no IP yet (phase Pending, Unschedulable: 0/3 nodes are available)",
            "it is not bound to a node: slices leave it out until it is"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_an_ip_on_a_missing_node_has_both_reasons() {
    let mut pending = pod("p1", "10.1.0.1", "gone");
    pending["status"] = json!({"phase": "Pending"});
    let found = said(&settled(&json!({}), &[pending]).await).await;
    assert_eq!(
        of(&found, "p1").why,
        [
            "it has no IP yet (phase Pending)",
            "its Node gone does not exist, which keeps new endpoints out (Endpoints do not look at nodes)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_gates_and_ready_containers_are_named() {
    let mut gated = pod("p1", "10.1.0.1", "n1");
    gated["spec"]["readinessGates"] =
        json!([{"conditionType": "lb.example.com/a"}, {"conditionType": "lb.example.com/b"}]);
    gated["status"]["conditions"] = json!([{"type": "ContainersReady", "status": "True"},
        {"type": "lb.example.com/b", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]);
    let mut lost = pod("p2", "10.1.0.2", "n1");
    lost["status"]["conditions"] =
        json!([{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]);
    let found = said(&settled(&json!({}), &[gated, lost]).await).await;
    assert_eq!(
        of(&found, "p1").why,
        [
            "not ready: ReadinessGatesNotReady; its containers are ready (ContainersReady is True), and its readiness \
             gate lb.example.com/a is not True"
        ]
    );
    assert_eq!(
        of(&found, "p2").why,
        [
            "not ready; its containers are ready (ContainersReady is True): Ready alone turns False when its Node stops \
             reporting"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn terminating_pods_and_wrong_protocols() {
    let mut leaving = pod("p1", "10.1.0.1", "n1");
    leaving["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let over =
        json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "UDP"}]}});
    let mut world = settled(&over, &[leaving, pod("p2", "10.1.0.2", "n1")]).await;
    world.api.delete("Pod", NS, "p1", Some(30)).await.unwrap();
    world.start_up().await;
    world.stop().await;
    let found = said(&world).await;
    let p1 = of(&found, "p1");
    assert_eq!((p1.state, p1.endpoints), (State::Terminating, None));
    assert_eq!(p1.why[0], "terminating, and still serving");
    assert_eq!(
        of(&found, "p2").why[0],
        "its port http is TCP, not UDP: it is published without port http"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slip_in_the_selector() {
    let pods: Vec<_> = (1..=3)
        .map(|i| labelled(&format!("web-{i}"), i, json!({"app": "web"})))
        .collect();
    let world = settled(&json!({"spec": {"selector": {"app": "wbe"}}}), &pods).await;
    let found = said(&world).await;
    assert!(found.pods.is_empty());
    assert_eq!(found.warnings, ["no pod in the namespace has app=wbe"]);
    assert_eq!((found.nearly.len(), found.nearly_total), (3, 3));
    let text = anstream::adapter::strip_str(&found.to_text(false)).to_string();
    assert!(text.contains("0 pods match\n"), "{text}");
    assert!(
        text.contains("app=web where the selector has app=wbe: web-1, web-2, web-3"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_nearly_match() {
    let mut pods = vec![
        labelled("right", 1, json!({"app": "web", "tier": "front"})),
        labelled("slip", 2, json!({"app": "web", "tier": "Front"})),
        labelled("other", 3, json!({"app": "web", "tier": "back"})),
        labelled("lacks", 4, json!({"app": "web"})),
        labelled("moved", 5, json!({"k8s-app": "web", "tier": "front"})),
        labelled("nothing", 6, json!({"x": "y"})),
        labelled("far", 7, json!({"app": "db", "tier": "back"})),
    ];
    let over = json!({"spec": {"selector": {"app": "web", "tier": "front"}}});
    let found = said(&settled(&over, &pods).await).await;
    let near: Vec<_> = found
        .nearly
        .iter()
        .map(|near| (&*near.pod, near.difference()))
        .collect();
    assert_eq!(
        near,
        [
            ("slip", "tier=Front where the selector has tier=front".to_owned()),
            ("moved", "k8s-app=web where the selector has app=web".to_owned()),
            ("other", "tier=back where the selector has tier=front".to_owned()),
            (
                "lacks",
                "no label tier where the selector has tier=front".to_owned()
            ),
        ]
    );
    for i in 0..300 {
        pods.push(labelled(
            &format!("more-{i:03}"),
            (i % 250) as u8,
            json!({"app": "web", "tier": "back"}),
        ));
    }
    let found = said(&settled(&over, &pods).await).await;
    assert_eq!((found.nearly.len(), found.nearly_total), (20, 304));
    assert_eq!(found.nearly[0].pod, "slip", "the likeliest are kept");
}

#[tokio::test(start_paused = true)]
async fn labels_that_no_pod_has_together() {
    let pods = [
        labelled("a", 1, json!({"app": "web", "tier": "back"})),
        labelled("b", 2, json!({"app": "db", "tier": "front"})),
    ];
    let over = json!({"spec": {"selector": {"app": "web", "tier": "front"}}});
    let found = said(&settled(&over, &pods).await).await;
    assert_eq!(found.warnings, ["no pod meets all of the selector"]);
    let found = said(&settled(&over, &[]).await).await;
    assert_eq!(found.warnings, ["there is no running pod in the namespace"]);
    let world = settled(&over, &pods).await;
    world
        .patch(
            "Service",
            "s",
            json!({"spec": {"selector": {"app": null, "tier": null, "role": "x"}}}),
        )
        .await;
    let found = said(&world).await;
    assert_eq!(found.warnings, ["no pod in the namespace has role=x"]);
}

#[tokio::test(start_paused = true)]
async fn services_that_are_left_alone() {
    let world = settled(
        &json!({"spec": {"type": "ExternalName", "externalName": "db.example.com", "ports": null}}),
        &[],
    )
    .await;
    let found = said(&world).await;
    assert!(!found.managed);
    assert!(
        found.notes[0].starts_with("type ExternalName: DNS answers with the name db.example.com"),
        "{found:?}"
    );
    assert_eq!(found.warnings[0], "its selector has no effect");

    let world = settled(
        &json!({"spec": {"selector": null}}),
        &[pod("p1", "10.1.0.1", "n1")],
    )
    .await;
    let found = said(&world).await;
    assert!(
        found.notes[0].starts_with("it has no selector: nobody publishes pods for it"),
        "{found:?}"
    );
    assert!(found.pods.is_empty());
}

#[tokio::test(start_paused = true)]
async fn differences_are_named_for_the_pod_and_for_the_service() {
    let pods = [
        pod("p1", "10.1.0.1", "n1"),
        pod("p2", "10.1.0.2", "n1"),
        pod("p3", "10.1.0.3", "n1"),
    ];
    let world = settled(&json!({}), &pods).await;
    world.make(pod("new", "10.1.0.4", "n1")).await;
    world.delete("Pod", "p2").await;
    world.flip("p1", false, 9).await;
    let found = said(&world).await;
    assert_eq!(found.in_sync, Some(false));
    assert_eq!(
        of(&found, "new").amiss,
        [
            "should be in an IPv4 slice, and is in none",
            "should be in Endpoints, and is not"
        ]
    );
    let slice = &found.slices[0].name;
    assert_eq!(
        of(&found, "p1").amiss,
        [
            format!("slice {slice} says ready and serving true, should be false"),
            "Endpoints show it as ready, should be not ready".to_owned(),
        ]
    );
    assert_eq!(
        found.strays,
        [
            format!("10.1.0.2 in slice {slice}: pod p2 is gone or does not match any more"),
            "10.1.0.2 in Endpoints: pod p2 is gone or does not match any more".to_owned(),
        ]
    );
    assert!(of(&found, "p3").is_plain());
    let text = anstream::adapter::strip_str(&found.to_text(false)).to_string();
    assert!(text.contains("OUT OF SYNC"), "{text}");
    assert!(text.contains("10.1.0.4 (pod new) is missing"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_a_tenant_writes_into_a_slice_forges_no_line() {
    let world = settled(&json!({}), &[pod("p1", "10.1.0.1", "n1")]).await;
    let slice = text(&world.slices().await[0]["metadata"]["name"]);
    let endpoint = json!({"addresses": ["10.9.9.9"], "conditions": {"ready": true},
        "targetRef": {"kind": "Pod", "namespace": NS, "name": "x\n  in sync\u{1b}[8m", "uid": "u"}});
    let endpoints = json!({"endpoints": [endpoint]});
    world.patch("EndpointSlice", &slice, endpoints).await;
    let shown = said(&world).await.to_text(true);
    assert!(shown.contains(r"10.9.9.9 in slice s-"), "it is a stray: {shown}");
    assert!(shown.contains(r"pod x\n  in sync\u{1b}[8m is gone"), "{shown}");
    assert!(!shown.contains("\u{1b}[8m"), "{shown:?}");
    assert!(!shown.lines().any(|line| line == "  in sync"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_dual_stack_service_has_each_pod_twice() {
    let over = json!({"spec": {"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}});
    let pods = [
        dual_pod("p1", "10.1.0.1", "fd00::1", "n1"),
        pod("p2", "10.1.0.2", "n1"),
    ];
    let found = said(&settled(&over, &pods).await).await;
    assert_eq!(found.families, ["IPv4", "IPv6"]);
    assert_eq!(of(&found, "p1").published.len(), 2);
    assert!(of(&found, "p1").is_plain());
    assert_eq!(
        of(&found, "p2").why,
        ["it has no IPv6 address, so it is in no IPv6 slice"]
    );
    assert!(found.notes[0].starts_with("headless"), "{:?}", found.notes);
}
