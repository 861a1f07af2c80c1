//! Messages to users about annotations, and about the pods that lead.

use super::{CUSTOM, EVERYTHING, LEADER, SELECTOR, hold, led, led_world, published, seconds, told, world};
use crate::gate::Fate;
use crate::world::{NS, World};
use endpointd::cluster::encodings::Encodings;
use endpointd::cluster::read::Reader;
use endpointd::ops::explain::look;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

async fn annotate(world: &World, annotations: Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    world.patch("Service", "s", patch).await;
    world.rest().await;
}

/// The Events of a reason, in the order in which they were first written.
async fn told_of(world: &World, reason: &str) -> Vec<String> {
    let told = told(world).await.into_iter();
    told.filter(|(of, _)| of == reason)
        .map(|(_, message)| message)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_takeover_is_told_with_both_pods_the_identity_and_the_lease() {
    let world = led_world(CUSTOM).await;
    hold(&world, "db-1_3c2e", 2).await;
    assert_eq!(
        told_of(&world, "LeaderPublished").await,
        [
            "Pod db-0 is published as the holder db-0_x of the Lease db",
            "Pod db-1 is published as the holder db-1_3c2e of the Lease db, after pod db-0",
        ]
    );
    // The pod that led is remembered after it has gone, and one that comes back is told as such.
    world.delete("Pod", "db-1").await;
    seconds(1).await;
    hold(&world, "db-2", 3).await;
    seconds(30).await;
    hold(&world, "db-2", 4).await;
    let told = told_of(&world, "LeaderPublished").await;
    assert_eq!(
        told[2..],
        [
            "Pod db-2 is published as the holder of the Lease db, after pod db-1",
            "Pod db-2 is published as the holder of the Lease db, as before",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_takeover_while_no_controller_ran_names_the_pod_that_was_published() {
    let mut world = led_world(CUSTOM).await;
    world.stop().await;
    hold(&world, "db-1", 2).await;
    world.start_up().await;
    hold(&world, "db-1", 3).await;
    assert_eq!(
        told_of(&world, "LeaderPublished").await.pop().unwrap(),
        "Pod db-1 is published as the holder of the Lease db, after pod db-0"
    );
}

#[tokio::test(start_paused = true)]
async fn each_holder_that_is_no_pod_is_named() {
    let world = led_world(CUSTOM).await;
    for (renewal, holder) in [(2, "laptop_1\nforged"), (3, "other")] {
        hold(&world, holder, renewal).await;
    }
    assert_eq!(
        told_of(&world, "LeaderNotFound").await,
        [
            "Nobody is published for the Lease db: no pod that may be published has the name of its holder, whose \
             identity is laptop_1\\nforged",
            "Nobody is published for the Lease db: no pod that may be published has the name of its holder, whose \
             identity is other",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_that_come_change_and_go_are_told() {
    let world = world(EVERYTHING, json!({})).await;
    assert_eq!(told(&world).await, []);
    annotate(&world, json!({SELECTOR: "app in (db, web)"})).await;
    annotate(&world, json!({SELECTOR: "app=db"})).await;
    annotate(&world, json!({LEADER: "db"})).await;
    annotate(&world, json!({LEADER: "db", SELECTOR: null})).await;
    annotate(&world, json!({LEADER: null})).await;
    annotate(&world, json!({SELECTOR: "app=db"})).await;
    let patch = json!({"spec": {"selector": {"app": "db"}}});
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
            format!("OptedIn {now} the pods that app in (db,web) selects"),
            format!(
                "OptInChanged {now} the pods that app=db selects; they held the pods that app in (db,web) selects"
            ),
            format!(
                "OptInChanged {now} the holder of the Lease db among the pods that app=db selects; they held the pods \
                 that app=db selects"
            ),
            format!(
                "OptInChanged {now} the holder of the Lease db; they held the holder of the Lease db among the pods that \
                 app=db selects"
            ),
            "OptedOut The annotation that chose the pods of this Service is gone: 1 EndpointSlice of this controller is deleted, which \
             held the holder of the Lease db"
                .to_owned(),
            format!("OptedIn {now} the pods that app=db selects"),
            "OptedOut The annotations of this Service have no effect, because the Service has a selector: 2 \
             EndpointSlices of this controller give way to those for the Service's selector, which held the pods that \
             app=db selects"
                .to_owned(),
        ]
    );
    let ignored = "The annotation endpointd.io/selector is ignored: the Service has a selector";
    assert_eq!(told_of(&world, "SelectorIgnored").await, [ignored]);
}

#[tokio::test(start_paused = true)]
async fn a_new_service_that_opts_in_is_told_and_one_that_was_there_at_the_start_is_not() {
    let world = led_world(CUSTOM).await;
    assert_eq!(told_of(&world, "OptedIn").await, [""; 0]);
    let mut late = led(&json!({SELECTOR: "app=db"}));
    late["metadata"]["name"] = json!("late");
    world.make(late).await;
    world.rest().await;
    assert_eq!(
        told_of(&world, "OptedIn").await,
        ["From now on, EndpointSlices of this controller hold the pods that app=db selects"]
    );
}

/// A typing error in an annotation's name left a Service without endpoints, and nothing said so.
#[tokio::test(start_paused = true)]
async fn an_unknown_annotation_is_told() {
    let mut world = world(
        CUSTOM,
        json!({"endpointd.io/selecter": "app=db", "other.io/leader": "db"}),
    )
    .await;
    let text = "annotation endpointd.io/selecter is not known, and nothing is done about it; the known ones are \
                endpointd.io/selector and endpointd.io/leader";
    assert_eq!(
        told_of(&world, "UnknownAnnotation").await,
        [format!("The {text}")]
    );
    let many: serde_json::Map<_, _> = (0..5)
        .map(|n| (format!("endpointd.io/x{n}"), json!("")))
        .collect();
    annotate(&world, Value::Object(many)).await;
    assert_eq!(
        told_of(&world, "UnknownAnnotation").await[1],
        "The annotations endpointd.io/selecter, endpointd.io/x0, endpointd.io/x1 and 3 more are not known, and nothing is \
         done about them; the known ones are endpointd.io/selector and endpointd.io/leader"
    );
    let reader = Reader::new(Client::new(world.gate.clone(), "default"), Encodings::default());
    let warnings = look(&reader, NS, "s", world.options.settings)
        .await
        .unwrap()
        .warnings;
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

/// A Lease that its holder released emptied the slice without a word, and so did a start after another had taken over. The log has
/// the same in lines, of which a namespace has a share in each process, and so in all tests together.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_published_no_more_is_told() {
    let mut world = led_world(CUSTOM).await;
    world.rest().await;
    hold(&world, "", 2).await;
    world.rest().await;
    hold(&world, "db-0_x", 3).await;
    world.rest().await;
    assert_eq!(
        told_of(&world, "LeaderPublished").await,
        [
            "Pod db-0 is published as the holder db-0_x of the Lease db",
            "Pod db-0 is published as the holder db-0_x of the Lease db, as before",
        ]
    );
    world.stop().await;
    hold(&world, "db-1_y", 4).await;
    world.start_up().await;
    assert_eq!(
        told_of(&world, "LeaderWithdrawn").await,
        [
            "Pod db-0 is no longer published as the holder of the Lease db: the Lease has no holder",
            "Pod db-0 is no longer published as the holder of the Lease db: its holder is db-1_y, which is published once \
             it is seen to renew the Lease",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_exist_is_told_in_the_same_words_everywhere() {
    let world = led_world(CUSTOM).await;
    annotate(&world, json!({LEADER: "../db"})).await;
    let said = "the annotation endpointd.io/leader is not the name of a Lease";
    assert_eq!(
        told_of(&world, "NoLease").await.pop().unwrap(),
        format!("Nobody is published: {said}")
    );
    let reader = Reader::new(Client::new(world.gate.clone(), "default"), Encodings::default());
    let found = look(&reader, NS, "s", world.options.settings).await.unwrap();
    assert_eq!(
        found.leader.unwrap().says,
        format!("{said}, so nobody is published")
    );
}

/// Where the new holder only waited for slices of others to be read, users were told to wait for a renewal.
#[tokio::test(start_paused = true)]
async fn a_leader_that_waits_for_slices_of_others_to_be_read_is_told_as_such() {
    let world = led_world(CUSTOM).await;
    world.gate.next(Method::GET, "endpointslices", Fate::Held);
    let other = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "s-other", "labels": {
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }},
        "endpoints": [], "ports": [],
    });
    world.make(other).await;
    seconds(1).await;
    hold(&world, "db-1", 2).await;
    assert_eq!(
        told_of(&world, "LeaderWithdrawn").await,
        [
            "Pod db-0 is no longer published as the holder of the Lease db: its holder is db-1, which is published once \
             EndpointSlices of other controllers have been read and hold no endpoints of this Service"
        ]
    );
    world.gate.release();
    world.rest().await;
    assert_eq!(published(&world).await, ["db-1"]);
}

/// A change of a Service's annotation while no controller ran is told with what becomes of its slices.
#[tokio::test(start_paused = true)]
async fn slices_that_give_way_since_before_the_start_are_told() {
    let mut world = world(EVERYTHING, json!({SELECTOR: "app=db"})).await;
    world.stop().await;
    annotate(&world, json!({SELECTOR: null})).await;
    let patch = json!({"spec": {"selector": {"app": "db"}}});
    world.patch("Service", "s", patch).await;
    world.start_up().await;
    assert_eq!(
        told_of(&world, "OptedOut").await,
        [
            "The annotation that chose the pods of this Service is gone: 2 EndpointSlices of this controller give way to \
             those for the Service's selector; this came about before this process led"
        ]
    );
}

/// A slice that goes for another reason says nothing of the annotation, which still counts.
#[tokio::test(start_paused = true)]
async fn a_slice_of_a_family_that_the_service_does_not_have_is_not_told_as_opted_out() {
    let mut world = world(CUSTOM, json!({SELECTOR: "app=db"})).await;
    world.stop().await;
    let service = world.get("Service", "s").await.unwrap();
    let other = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv6",
        "metadata": {"name": "s-ipv6s", "labels": {
            "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": "endpointd.io",
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
