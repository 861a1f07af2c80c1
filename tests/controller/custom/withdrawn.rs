//! Slices that were published for an annotation which is gone, or which no longer counts beside a selector in the spec.

use super::*;

#[tokio::test(start_paused = true)]
async fn without_the_annotation_slices_are_deleted() {
    for outputs in [CUSTOM, EVERYTHING] {
        let world = world(outputs, "app=web").await;
        assert_eq!(slices_by(&world.api, OURS).await.len(), 1);
        annotate(&world, Value::Null).await;
        world.rest().await;
        assert_eq!(slices_by(&world.api, OURS).await.len(), 0);
        annotate(&world, json!("app=web")).await;
        world.rest().await;
        assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
        let external = json!({"spec": {"type": "ExternalName", "externalName": "example.com"}});
        world.patch("Service", "s", external).await;
        world.rest().await;
        assert_eq!(slices_by(&world.api, OURS).await.len(), 0);
        assert_in_sync(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_an_annotation_that_went_while_nobody_ran_are_deleted() {
    let mut world = world(CUSTOM, "app=web").await;
    world.stop().await;
    annotate(&world, Value::Null).await;
    let sent = world.start_up().await;
    assert_eq!(outlines(&sent), ["DELETE endpointslices 200"]);
    world.rest().await;
    // An Event tells that they went, and why.
    assert_eq!(
        told(&world).await,
        [(
            "OptedOut".to_owned(),
            "The annotation that chose the pods of this Service is gone: 1 EndpointSlice of this controller is deleted; \
             this came about before this process led"
                .to_owned()
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn a_selector_in_the_spec_takes_over_without_a_gap() {
    let world = world(EVERYTHING, "app in (web,api)").await;
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    world.gate.take();
    world.patch("Service", "s", selector).await;
    let sent = world.rest().await;
    let outlines = outlines(&sent);
    let created = outlines
        .iter()
        .position(|sent| sent.starts_with("POST endpointslices"));
    let deleted = outlines
        .iter()
        .position(|sent| sent.starts_with("DELETE endpointslices"));
    assert!(created.is_some() && created < deleted, "{outlines:?}");
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
    assert_eq!(pods_by(&world, BUILTIN).await, ["old", "web"]);
    let told = told(&world).await;
    let ignored = "The annotation endpointd.io/selector is ignored: the Service has a selector";
    assert_eq!(told[0].0, "OptedOut");
    assert_eq!(told[1..], [("SelectorIgnored".to_owned(), ignored.to_owned())]);
    assert_in_sync(&world).await;
}

#[tokio::test(start_paused = true)]
async fn where_nobody_publishes_for_the_selector_the_slices_go_after_ten_seconds() {
    let world = world(CUSTOM, "app=web").await;
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "web"}}}))
        .await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    sleep(Duration::from_secs(7)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}

/// A slice of the built-in controller for Service `s`, with so many endpoints.
fn builtin(name: &str, endpoints: usize) -> Value {
    let endpoint = |number: usize| json!({"addresses": [ip(number + 50)], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [],
        "metadata": {"name": name, "labels": {
            "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": BUILTIN,
        }},
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_pending_write_does_not_delete_a_withdrawn_slice_early() {
    let mut world = World::new(100);
    world.options.settings.outputs = CUSTOM;
    world.options.pacing.slice_batch = Duration::from_secs(1);
    world.nodes(1).await;
    world.make(labelled("web", 1, json!({"app": "web"}))).await;
    world.make(annotated("app=web")).await;
    world.start_up().await;
    sleep(Duration::from_secs(2)).await;
    // A write of the slice waits for its batch when the Service gets a selector.
    world.flip("web", false, 60).await;
    sleep(Duration::from_millis(100)).await;
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "web"}}}))
        .await;
    sleep(Duration::from_millis(9500)).await;
    assert_eq!(pods_by(&world, OURS).await, ["web"]);
    // The delete may wait for a batch as well.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_many_slices_is_no_replacement() {
    let world = world(CUSTOM, "app=web").await;
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "web"}}}))
        .await;
    world.make(builtin("first", 1)).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    // As many as there were.
    world.make(builtin("second", 2)).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_placeholder_is_no_replacement() {
    let world = world(CUSTOM, "app=web").await;
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "wbe"}}}))
        .await;
    world.make(builtin("placeholder", 0)).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    let told: Vec<_> = told(&world).await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(told, ["OptedOut", "SelectorIgnored", "EndpointSlicesKept"]);
    world
        .patch(
            "EndpointSlice",
            "placeholder",
            json!({"endpoints": builtin("", 1)["endpoints"]}),
        )
        .await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}

/// Pods that do not work take the place of none that do, no matter which controller publishes them.
#[tokio::test(start_paused = true)]
async fn endpoints_that_are_not_ready_are_no_replacement() {
    for outputs in [CUSTOM, EVERYTHING] {
        let world = world(outputs, "app=web").await;
        world.flip("api", false, 60).await;
        world.rest().await;
        world
            .patch("Service", "s", json!({"spec": {"selector": {"app": "api"}}}))
            .await;
        if outputs == CUSTOM {
            let mut other = builtin("other", 3);
            for endpoint in other["endpoints"].as_array_mut().unwrap() {
                endpoint["conditions"]["ready"] = json!(false);
            }
            world.make(other).await;
        }
        sleep(Duration::from_secs(60)).await;
        assert_eq!(pods_by(&world, OURS).await, ["old", "web"], "{outputs:?}");
        let told: Vec<_> = told(&world).await.into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(told, ["OptedOut", "SelectorIgnored", "EndpointSlicesKept"]);
        // One that works is enough when the time has passed.
        if outputs == CUSTOM {
            let one = json!({"endpoints": builtin("", 1)["endpoints"]});
            world.patch("EndpointSlice", "other", one).await;
        } else {
            world.flip("api", true, 120).await;
        }
        sleep(Duration::from_secs(2)).await;
        assert_eq!(pods_by(&world, OURS).await, [""; 0], "{outputs:?}");
    }
}

/// A quota or a webhook refuses the slices for the selector.
#[tokio::test(start_paused = true)]
async fn slices_that_stay_because_others_are_refused_are_told_of() {
    use memory_apiserver::{Failure, Fault, FaultPlan, Rule, Stage, Verb};
    let world = world(EVERYTHING, "app=web").await;
    let refused = Fault::Fail(Stage::Before, Failure::Forbidden);
    let rule = Rule::on(Verb::Create, "endpointslices").fault(refused);
    world.server.set_faults(FaultPlan::new(1).rule(rule));
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "web"}}}))
        .await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    let told = told(&world).await;
    let kept: Vec<_> = told
        .iter()
        .filter(|(reason, _)| reason == "EndpointSlicesKept")
        .collect();
    assert_eq!(kept.len(), 1, "{told:?}");
    assert!(kept[0].1.contains("could not be written"), "{told:?}");
    world.server.set_faults(FaultPlan::new(1));
    sleep(Duration::from_secs(120)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
    assert_in_sync(&world).await;
}

/// A slice of names holds endpoints, though they cannot be compared with addresses.
#[tokio::test(start_paused = true)]
async fn a_slice_of_names_is_not_empty() {
    let world = world(CUSTOM, "app=web").await;
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "web"}}}))
        .await;
    let mut names = builtin("names", 1);
    names["addressType"] = json!("FQDN");
    names["endpoints"][0]["addresses"] = json!(["web.example.com"]);
    world.make(names).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    sleep(Duration::from_secs(7)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}
