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

/// Both are published here: the slices stay, and name the other controller.
#[tokio::test(start_paused = true)]
async fn a_selector_in_the_spec_takes_over_without_a_gap() {
    let world = world(EVERYTHING, "app in (web,api)").await;
    let before = slices_by(&world.api, OURS).await;
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    world.gate.take();
    world.patch("Service", "s", selector).await;
    let sent = outlines(&world.rest().await);
    assert!(!sent.iter().any(|sent| sent.contains("DELETE")), "{sent:?}");
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
    assert_eq!(pods_by(&world, BUILTIN).await, ["old", "web"]);
    let after = slices_by(&world.api, BUILTIN).await;
    assert_eq!(after[0]["metadata"]["uid"], before[0]["metadata"]["uid"]);
    let told = told(&world).await;
    let ignored = "The annotation endpointd.io/selector is ignored: the Service has a selector";
    assert_eq!(told[0].0, "OptedOut");
    assert_eq!(told[1..], [("SelectorIgnored".to_owned(), ignored.to_owned())]);
    assert_in_sync(&world).await;
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

async fn give_a_selector(world: &World) {
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    world.patch("Service", "s", selector).await;
}

#[tokio::test(start_paused = true)]
async fn slices_go_half_a_minute_after_another_controller_publishes_for_the_selector() {
    let mirroring = Outputs {
        mirrored: true,
        ..CUSTOM
    };
    for outputs in [CUSTOM, mirroring] {
        let world = world(outputs, "app=web").await;
        give_a_selector(&world).await;
        world.make(builtin("first", 1)).await;
        sleep(Duration::from_secs(28)).await;
        assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
        sleep(Duration::from_secs(4)).await;
        assert_eq!(pods_by(&world, OURS).await, [""; 0]);
        let told: Vec<_> = told(&world).await.into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(told, ["OptedOut", "SelectorIgnored"]);
        assert_in_sync(&world).await;
    }
}

/// A selector with a typing error has a placeholder.
#[tokio::test(start_paused = true)]
async fn slices_stay_for_ten_minutes_while_no_other_holds_endpoints() {
    let world = world(CUSTOM, "app=web").await;
    give_a_selector(&world).await;
    world.make(builtin("placeholder", 0)).await;
    sleep(Duration::from_secs(9 * 60)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    sleep(Duration::from_secs(2 * 60)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn slices_go_when_a_placeholder_is_filled() {
    let world = world(CUSTOM, "app=web").await;
    give_a_selector(&world).await;
    world.make(builtin("placeholder", 0)).await;
    sleep(Duration::from_secs(2 * 60)).await;
    let one = json!({"endpoints": builtin("", 1)["endpoints"]});
    world.patch("EndpointSlice", "placeholder", one).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_gone_leave_slices_that_stay() {
    let world = world(CUSTOM, "app=web").await;
    give_a_selector(&world).await;
    world.delete("Pod", "web").await;
    world.make(labelled("new", 7, json!({"app": "web"}))).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_if_the_slices_are_asked_for_again() {
    let world = world(CUSTOM, "app=web").await;
    give_a_selector(&world).await;
    world.make(builtin("first", 1)).await;
    sleep(Duration::from_secs(20)).await;
    world.gate.take();
    let none = json!({"spec": {"selector": null}});
    world.patch("Service", "s", none).await;
    sleep(Duration::from_secs(20 * 60)).await;
    let sent = outlines(&world.gate.take());
    let writes = sent
        .iter()
        .filter(|sent| sent.contains("endpointslices") && !sent.starts_with("GET"));
    assert_eq!(writes.count(), 0, "{sent:?}");
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_begins_the_time_anew() {
    let mut world = world(CUSTOM, "app=web").await;
    give_a_selector(&world).await;
    world.make(builtin("first", 1)).await;
    sleep(Duration::from_secs(20)).await;
    world.stop().await;
    world.start_up().await;
    sleep(Duration::from_secs(12)).await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
    assert_in_sync(&world).await;
}

#[tokio::test(start_paused = true)]
async fn ports_that_change_while_a_service_is_frozen_lose_no_endpoint() {
    for frozen in [
        json!({"metadata": {"annotations": {"endpointd.io/selector": "a b"}}}),
        json!({"spec": {"selector": {"app": "web"}}}),
    ] {
        for restarts in [false, true] {
            let mut world = world(CUSTOM, "app=web").await;
            let ports = json!({"spec": {"ports": [{"name": "h", "port": 80, "targetPort": 9090}]}});
            if restarts {
                world.patch("Service", "s", frozen.clone()).await;
                world.rest().await;
                world.stop().await;
                world.patch("Service", "s", ports).await;
                world.start_up().await;
            } else {
                world.patch("Service", "s", ports).await;
                world.patch("Service", "s", frozen.clone()).await;
            }
            sleep(Duration::from_secs(5)).await;
            assert_eq!(
                pods_by(&world, OURS).await,
                ["old", "web"],
                "{frozen}, {restarts}"
            );
            for slice in slices_by(&world.api, OURS).await {
                assert_eq!(slice["ports"][0]["port"], 9090, "{frozen}, {restarts}");
            }
        }
    }
}
