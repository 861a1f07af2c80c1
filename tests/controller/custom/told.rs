//! Messages to users about annotations.

use super::*;

/// The Events of a reason, in the order in which they were first written.
async fn told_of(world: &World, reason: &str) -> Vec<String> {
    let told = told(world).await.into_iter();
    told.filter(|(of, _)| of == reason)
        .map(|(_, message)| message)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn annotations_that_come_change_and_go_are_told() {
    let world = world(EVERYTHING, "app in (web, db)").await;
    assert_eq!(told(&world).await, []);
    annotate(&world, json!("app=web")).await;
    world.rest().await;
    annotate(&world, Value::Null).await;
    world.rest().await;
    annotate(&world, json!("app=web")).await;
    world.rest().await;
    let patch = json!({"spec": {"selector": {"app": "web"}}});
    world.patch("Service", "s", patch).await;
    world.rest().await;
    let now = "From now on, EndpointSlices of this controller hold";
    let all = told(&world).await;
    let of = |(reason, message): &(String, String)| {
        let opts = reason.starts_with("Opt");
        opts.then(|| format!("{reason} {message}"))
    };
    let opts: Vec<_> = all.iter().filter_map(of).collect();
    assert_eq!(
        opts,
        [
            format!(
                "OptInChanged {now} the pods that app=web selects; they held the pods that app in (db,web) selects"
            ),
            "OptedOut The annotation that chose the pods of this Service is gone: 1 EndpointSlice of this controller is deleted, which \
             held the pods that app=web selects"
                .to_owned(),
            format!("OptedIn {now} the pods that app=web selects"),
            "OptedOut The annotations of this Service have no effect, because the Service has a selector: 1 EndpointSlice \
             of this controller is handed over, which held the pods that app=web selects"
                .to_owned(),
        ]
    );
    let ignored = "The annotation endpointd.io/selector is ignored: the Service has a selector";
    assert_eq!(told_of(&world, "SelectorIgnored").await, [ignored]);
}

#[tokio::test(start_paused = true)]
async fn a_new_service_that_opts_in_is_told_and_one_that_was_there_at_the_start_is_not() {
    let world = world(CUSTOM, "app=web").await;
    assert_eq!(told_of(&world, "OptedIn").await, [""; 0]);
    let mut late = annotated("app=api");
    late["metadata"]["name"] = json!("late");
    world.make(late).await;
    world.rest().await;
    assert_eq!(
        told_of(&world, "OptedIn").await,
        ["From now on, EndpointSlices of this controller hold the pods that app=api selects"]
    );
}

async fn warnings(world: &World) -> Vec<String> {
    look(&reader(world), NS, "s", world.options.settings, false)
        .await
        .unwrap()
        .warnings
}

/// A typing error in an annotation's name left a Service without endpoints, and nothing said so.
#[tokio::test(start_paused = true)]
async fn an_unknown_annotation_is_told() {
    let mut world = world(CUSTOM, "app=web").await;
    let annotations = json!({ANNOTATION: null, "endpointd.io/selecter": "app=db", "other.io/leader": "db"});
    let patch = json!({"metadata": {"annotations": annotations}});
    world.patch("Service", "s", patch).await;
    world.rest().await;
    let text = "annotation endpointd.io/selecter is not known, and nothing is done about it; the known one is \
                endpointd.io/selector";
    assert_eq!(
        told_of(&world, "UnknownAnnotation").await,
        [format!("The {text}")]
    );
    let many: serde_json::Map<_, _> = (0..5)
        .map(|n| (format!("endpointd.io/x{n}"), json!("")))
        .collect();
    world
        .patch("Service", "s", json!({"metadata": {"annotations": many}}))
        .await;
    world.rest().await;
    assert_eq!(
        told_of(&world, "UnknownAnnotation").await[1],
        "The annotations endpointd.io/selecter, endpointd.io/x0, endpointd.io/x1 and 3 more are not known, and nothing is \
         done about them; the known one is endpointd.io/selector"
    );
    let warnings = warnings(&world).await;
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("endpointd.io/selecter") && text.contains("not known")),
        "{warnings:?}"
    );
    // A controller that begins to write tells it again.
    world.stop().await;
    world.start_up().await;
    assert!(told_of(&world, "UnknownAnnotation").await.len() >= 2);
}

/// The annotation of earlier versions decides nothing, and takes nothing from the selector beside it.
#[tokio::test(start_paused = true)]
async fn the_leader_annotation_is_not_served_and_its_users_are_told_what_is() {
    let mut world = world(CUSTOM, "app=web").await;
    let leader = json!({"metadata": {"annotations": {"endpointd.io/leader": "db"}}});
    world.patch("Service", "s", leader).await;
    world.rest().await;
    assert_eq!(pods_by(&world, OURS).await, ["old", "web"]);
    let text = "annotation endpointd.io/leader is not served any more, and nothing is done about it: let the pod that leads \
                label itself, and select that label with endpointd.io/selector";
    assert_eq!(
        told(&world).await,
        [("UnknownAnnotation".to_owned(), format!("The {text}"))]
    );
    assert_eq!(warnings(&world).await, [format!("the {text}")]);
    let beside = json!({"metadata": {"annotations": {"endpointd.io/leeder": "db"}}});
    world.patch("Service", "s", beside).await;
    world.rest().await;
    let unknown = "The annotation endpointd.io/leeder is not known, and nothing is done about it; the known one is \
                   endpointd.io/selector";
    assert_eq!(
        told_of(&world, "UnknownAnnotation").await[1..],
        [format!("{unknown}; the {text}")]
    );
    // Alone it publishes nothing, and a controller that begins to write tells of it.
    world.stop().await;
    let alone = json!({"metadata": {"annotations": {ANNOTATION: null, "endpointd.io/leeder": null}}});
    world.patch("Service", "s", alone).await;
    world.start_up().await;
    world.rest().await;
    assert_eq!(pods_by(&world, OURS).await, [""; 0]);
    assert_eq!(slices_by(&world.api, OURS).await.len(), 0);
    assert_in_sync(&world).await;
    let again = world.events().await.into_iter();
    let again = again.filter(|event| event["message"] == format!("The {text}"));
    assert_eq!(again.filter_map(|event| event["count"].as_u64()).sum::<u64>(), 2);
}

/// A change of a Service's annotation while no controller ran is told with what becomes of its slices.
#[tokio::test(start_paused = true)]
async fn slices_that_are_handed_over_since_before_the_start_are_told() {
    let mut world = world(CUSTOM, "app=web").await;
    world.stop().await;
    annotate(&world, Value::Null).await;
    let patch = json!({"spec": {"selector": {"app": "web"}}});
    world.patch("Service", "s", patch).await;
    world.start_up().await;
    assert_eq!(
        told_of(&world, "OptedOut").await,
        [
            "The annotation that chose the pods of this Service is gone: 1 EndpointSlice of this controller is handed over; \
             this came about before this process led"
        ]
    );
}

/// A slice that goes for another reason says nothing of the annotation, which still counts.
#[tokio::test(start_paused = true)]
async fn a_slice_of_a_family_that_the_service_does_not_have_is_not_told_as_opted_out() {
    let mut world = world(CUSTOM, "app=web").await;
    world.stop().await;
    let service = world.get("Service", "s").await.unwrap();
    let other = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv6",
        "metadata": {"name": "s-ipv6s", "labels": {
            "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": OURS,
        }, "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": service["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}]},
        "endpoints": [], "ports": [],
    });
    world.make(other).await;
    world.start_up().await;
    world.rest().await;
    assert_eq!(world.get("EndpointSlice", "s-ipv6s").await, None);
    assert_eq!(told_of(&world, "OptedOut").await, [""; 0]);
}
