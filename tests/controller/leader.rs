//! Services that publish only the holder of a Lease.

mod everywhere;
mod inspected;
mod takeovers;
mod toggled;
mod told;

use crate::cluster::Api;
use crate::gate::Fate;
use crate::log::Log;
use crate::world::{NS, World, dual_pod, ip, items, outlines, pod, text, version};
use bytes::Bytes;
use endpointd::core::outputs::Outputs;
use futures::FutureExt as _;
use http::{Method, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

pub(crate) const CUSTOM: Outputs = Outputs {
    custom: true,
    ..Outputs::NONE
};
const EVERYTHING: Outputs = Outputs {
    custom: true,
    ..Outputs::ALL
};
pub(crate) const LEADER: &str = "endpointd.io/leader";
pub(crate) const SELECTOR: &str = "endpointd.io/selector";
/// The duration of the Lease in these tests, in seconds.
const DURATION: u64 = 10;

fn led(annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "annotations": annotations},
        "spec": {"ports": [{"name": "sql", "port": 5432, "targetPort": "sql"}], "ipFamilies": ["IPv4"]},
    })
}

fn lease(holder: &str, renewal: u32) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "db"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": DURATION,
            "renewTime": format!("2026-01-01T00:00:00.{renewal:06}Z"),
        },
    })
}

fn db(name: &str, number: usize, port: u16) -> Value {
    let mut made = pod(name, &ip(number), "n1");
    made["metadata"]["labels"] = json!({"app": "db"});
    made["spec"]["containers"] =
        json!([{"name": "db", "image": "db", "ports": [{"name": "sql", "containerPort": port}]}]);
    made
}

/// A controller, three pods `db-0` to `db-2`, of which the last has another port, and a Service that follows Lease `db`.
async fn world(outputs: Outputs, annotations: Value) -> World {
    let mut world = World::new(100);
    world.options.settings.outputs = outputs;
    world.nodes(2).await;
    for number in 0..3 {
        let port = if number == 2 { 6432 } else { 5432 };
        world.make(db(&format!("db-{number}"), number + 1, port)).await;
    }
    world.make(led(&annotations)).await;
    world.start_up().await;
    world
}

/// As [`world`], with `db-0` published as the holder.
pub(crate) async fn led_world(outputs: Outputs) -> World {
    let world = world(outputs, json!({LEADER: "db"})).await;
    hold(&world, "db-0_x", 1).await;
    assert_eq!(published(&world).await, ["db-0"]);
    world
}

/// Writes the Lease, and lets it be followed.
pub(crate) async fn hold(world: &World, holder: &str, renewal: u32) {
    let spec = json!({"spec": lease(holder, renewal)["spec"]});
    if world.get("Lease", "db").await.is_some() {
        world.patch("Lease", "db", spec).await;
    } else {
        world.make(lease(holder, renewal)).await;
    }
    sleep(Duration::from_millis(100)).await;
}

/// The pods in the slices of this controller.
async fn published(world: &World) -> Vec<String> {
    let slices = slices(&world.api).await;
    let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
    endpoints
        .map(|endpoint| text(&endpoint["targetRef"]["name"]))
        .collect()
}

pub(crate) async fn slices(api: &Api) -> Vec<Value> {
    let slices = api.slices_of(NS, "s").await.unwrap().into_iter();
    let ours = |slice: &Value| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] == "endpointd.io"
    };
    slices.filter(ours).collect()
}

async fn told(world: &World) -> Vec<(String, String)> {
    let events = world.events().await;
    let of = |event: &&Value| event["source"]["component"] == "custom-selector-controller";
    let told = events.iter().filter(of);
    told.map(|event| (text(&event["reason"]), text(&event["message"])))
        .collect()
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

/// A slice of the Service from when it had a selector was listed with endpoints, and has been emptied since.
#[tokio::test(start_paused = true)]
async fn a_slice_that_this_controller_has_emptied_keeps_no_leader_out() {
    let mut world = world(EVERYTHING, json!({LEADER: "db"})).await;
    let select = async |world: &World, selector: Value| {
        world
            .patch("Service", "s", json!({"spec": {"selector": selector}}))
            .await;
        world.rest().await;
    };
    select(&world, json!({"app": "db"})).await;
    world.stop().await;
    world.start_up().await;
    assert_eq!(world.in_slices().await.len(), 3);
    select(&world, json!({"app": "none"})).await;
    select(&world, Value::Null).await;
    hold(&world, "db-0", 1).await;
    world.rest().await;
    assert_eq!(published(&world).await, ["db-0"]);
}

/// A user writes Endpoints of the Service by hand, which are mirrored: clients would use those beside the leader.
#[tokio::test(start_paused = true)]
async fn mirrored_endpoints_take_the_leader_out() {
    let world = led_world(EVERYTHING).await;
    let by_hand = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"},
        "subsets": [{"addresses": [{"ip": "203.0.113.1"}], "ports": [{"name": "sql", "port": 5432}]}],
    });
    world.make(by_hand).await;
    world.rest().await;
    assert_eq!(published(&world).await, [""; 0]);
    assert!(
        told(&world)
            .await
            .iter()
            .any(|(reason, _)| reason == "OtherEndpointSlices")
    );
}

#[tokio::test(start_paused = true)]
async fn the_holder_alone_is_published_in_one_slice_that_is_rewritten() {
    let world = led_world(EVERYTHING).await;
    let first = slices(&world.api).await.remove(0);
    world.gate.take();
    for (renewal, holder, port) in [(2, "db-1", 5432), (3, "db-2_uuid", 6432), (4, "db-0", 5432)] {
        hold(&world, holder, renewal).await;
        let name = holder.split('_').next().unwrap();
        assert_eq!(published(&world).await, [name]);
        let slices = slices(&world.api).await;
        let [slice] = &slices[..] else {
            panic!("{slices:?}")
        };
        assert_eq!(version(slice).0, version(&first).0);
        assert_eq!(slice["ports"][0]["port"], port);
    }
    let sent = world.gate.take();
    assert_eq!(outlines(&sent), ["PUT endpointslices 200"; 3]);
    assert_eq!(world.get("Endpoints", "s").await, None);
    // Renewals cost nothing.
    for renewal in 5..50 {
        hold(&world, "db-0", renewal).await;
    }
    assert_eq!(outlines(&world.gate.take()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_first_sight_of_a_lease_is_no_renewal() {
    let mut world = World::new(100);
    world.options.settings.outputs = CUSTOM;
    world.nodes(1).await;
    world.make(db("db-0", 1, 5432)).await;
    world.make(lease("db-0", 1)).await;
    world.make(led(&json!({LEADER: "db"}))).await;
    world.start_up().await;
    assert_eq!(published(&world).await, [""; 0]);
    hold(&world, "db-0", 2).await;
    assert_eq!(published(&world).await, ["db-0"]);
    // A pod of the same name is another pod, until that renews the Lease.
    world.delete("Pod", "db-0").await;
    world.make(db("db-0", 1, 5432)).await;
    seconds(1).await;
    assert_eq!(published(&world).await, [""; 0]);
    hold(&world, "db-0", 3).await;
    assert_eq!(published(&world).await, ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_renew_stays_for_the_duration_and_no_longer() {
    let world = led_world(CUSTOM).await;
    seconds(DURATION - 1).await;
    assert_eq!(published(&world).await, ["db-0"]);
    world.gate.take();
    seconds(2).await;
    assert_eq!(published(&world).await, [""; 0]);
    let sent = world.gate.take();
    assert_eq!(
        outlines(&sent),
        ["GET leases 200", "PUT endpointslices 200"],
        "the Lease is read first"
    );
    let (reason, message) = told(&world).await.pop().unwrap();
    assert_eq!(reason, "LeaseExpired");
    assert_eq!(
        message,
        "Nobody is published for the Lease db: its holder has not renewed it for its duration"
    );
    hold(&world, "db-0", 2).await;
    assert_eq!(published(&world).await, ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_removes_nobody_who_renews() {
    let world = led_world(CUSTOM).await;
    world.gate.hold("leases");
    for renewal in 2..20 {
        hold(&world, "db-0", renewal).await;
        seconds(2).await;
        assert_eq!(published(&world).await, ["db-0"], "{renewal}");
    }
    // Another has taken over meanwhile: the read shows it.
    for renewal in 20..26 {
        hold(&world, "db-1", renewal).await;
        seconds(2).await;
    }
    assert_eq!(published(&world).await, ["db-1"]);
    world.gate.open("leases");
    seconds(1).await;
    assert_eq!(published(&world).await, ["db-1"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_or_a_holder_nobody_is_published_at_once() {
    let world = led_world(CUSTOM).await;
    hold(&world, "", 2).await;
    assert_eq!(published(&world).await, [""; 0]);
    hold(&world, "db-1", 3).await;
    assert_eq!(published(&world).await, ["db-1"]);
    world.delete("Lease", "db").await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(published(&world).await, [""; 0]);
    let events = world.events().await;
    let no_lease = events.iter().find(|event| event["reason"] == "NoLease").unwrap();
    assert_eq!(no_lease["count"], 2, "at the start, and now");
    hold(&world, "db-1", 4).await;
    assert_eq!(published(&world).await, ["db-1"], "it was seen to be made");
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_holder_for_one_duration_unless_it_renews() {
    for renews in [true, false] {
        let mut world = led_world(CUSTOM).await;
        world.stop().await;
        world.gate.take();
        let sent = world.start_up().await;
        assert_eq!(outlines(&sent), [""; 0], "{sent:?}");
        assert_eq!(published(&world).await, ["db-0"]);
        if renews {
            hold(&world, "db-0", 2).await;
        }
        seconds(DURATION - 2).await;
        assert_eq!(!published(&world).await.is_empty(), renews);
    }
    // Another took over while no controller ran: the old one goes at once, the new one comes once it renews.
    let mut world = led_world(CUSTOM).await;
    world.stop().await;
    hold(&world, "db-1", 2).await;
    world.start_up().await;
    assert_eq!(published(&world).await, [""; 0]);
    hold(&world, "db-1", 3).await;
    assert_eq!(published(&world).await, ["db-1"]);
}

#[tokio::test(start_paused = true)]
async fn an_identity_stands_for_a_pod_a_hostname_or_a_node() {
    let world = led_world(CUSTOM).await;
    let mut named = db("other", 11, 5432);
    named["spec"]["hostname"] = json!("custom-host");
    world.make(named).await;
    let mut on_host = db("agent", 12, 5432);
    on_host["spec"]["hostNetwork"] = json!(true);
    on_host["spec"]["nodeName"] = json!("n2");
    on_host["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(5432);
    world.make(on_host).await;
    let long = format!("{}-{}", "a".repeat(62), "b".repeat(20));
    world.make(db(&long, 13, 5432)).await;
    let cut = "a".repeat(62);
    for (renewal, (holder, pod)) in [
        ("custom-host", "other"),
        ("n2", "agent"),
        (&*cut, &*long),
        ("custom-host_3c2e", "other"),
        ("n2_3c2e", "agent"),
        (&*format!("{cut}_3c2e"), &*long),
        (&*long, &*long),
    ]
    .into_iter()
    .enumerate()
    {
        hold(&world, holder, 10 + renewal as u32).await;
        assert_eq!(published(&world).await, [pod], "{holder}");
    }
    hold(&world, "n1", 30).await;
    assert_eq!(
        published(&world).await,
        [""; 0],
        "these pods have hostnames of their own"
    );
    assert_eq!(
        told(&world).await.pop().unwrap().1,
        "Nobody is published for the Lease db: no pod that may be published has the name of its holder, whose identity \
         is n1"
    );
    let mut twin = db("twin", 14, 5432);
    twin["spec"]["hostname"] = json!("custom-host");
    world.make(twin).await;
    hold(&world, "custom-host", 31).await;
    assert_eq!(published(&world).await, [""; 0]);
    assert_eq!(
        told(&world).await.pop().unwrap().1,
        "Nobody is published for the Lease db: several pods have the name of its holder, whose identity is custom-host"
    );
    world.delete("Pod", "twin").await;
    hold(&world, "custom-host", 32).await;
    assert_eq!(published(&world).await, ["other"]);
    // One that comes later takes the name from it at once.
    let mut twin = db("twin", 14, 5432);
    twin["spec"]["hostname"] = json!("custom-host");
    world.make(twin).await;
    seconds(1).await;
    assert_eq!(published(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn readiness_counts_whatever_the_service_says() {
    let mut world = World::new(100);
    world.options.settings.outputs = CUSTOM;
    world.nodes(1).await;
    world.make(db("db-0", 1, 5432)).await;
    let mut service = led(&json!({LEADER: "db"}));
    service["spec"]["publishNotReadyAddresses"] = json!(true);
    world.make(service).await;
    world.start_up().await;
    hold(&world, "db-0", 1).await;
    assert_eq!(world.in_slices().await, [(ip(1), true)]);
    world.flip("db-0", false, 5).await;
    hold(&world, "db-0", 2).await;
    assert_eq!(world.in_slices().await, [(ip(1), false)]);
    let reasons: Vec<_> = told(&world).await.into_iter().map(|(reason, _)| reason).collect();
    assert!(
        reasons.contains(&"PublishNotReadyIgnored".to_owned()),
        "{reasons:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_selector_restricts_who_may_lead() {
    let world = world(CUSTOM, json!({LEADER: "db", SELECTOR: "app=db,tier!=witness"})).await;
    hold(&world, "db-0", 1).await;
    assert_eq!(published(&world).await, ["db-0"]);
    let witness = json!({"metadata": {"labels": {"tier": "witness"}}});
    world.patch("Pod", "db-0", witness).await;
    seconds(1).await;
    assert_eq!(published(&world).await, [""; 0]);
    hold(&world, "db-0", 2).await;
    assert_eq!(published(&world).await, [""; 0]);
    let voter = json!({"metadata": {"labels": {"tier": "voter"}}});
    world.patch("Pod", "db-0", voter).await;
    hold(&world, "db-0", 3).await;
    assert_eq!(published(&world).await, ["db-0"]);
    // One that cannot be used adds no pod, and the leader stays while it leads and is ready.
    let broken = json!({"metadata": {"annotations": {SELECTOR: "app in db"}}});
    world.patch("Service", "s", broken).await;
    hold(&world, "db-0", 4).await;
    assert_eq!(published(&world).await, ["db-0"]);
    hold(&world, "db-1", 5).await;
    assert_eq!(published(&world).await, [""; 0]);
    let mended = json!({"metadata": {"annotations": {SELECTOR: "app=db"}}});
    world.patch("Service", "s", mended).await;
    hold(&world, "db-1", 6).await;
    assert_eq!(published(&world).await, ["db-1"]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_published_beside_endpoints_of_others() {
    let world = led_world(CUSTOM).await;
    let other = |endpoints: Value| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "s-other", "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }},
            "endpoints": endpoints, "ports": [],
        })
    };
    let one = json!([{"addresses": [ip(9)], "conditions": {"ready": true}}]);
    world.make(other(one.clone())).await;
    hold(&world, "db-0", 2).await;
    assert_eq!(published(&world).await, [""; 0]);
    let (reason, message) = told(&world).await.pop().unwrap();
    assert_eq!(reason, "OtherEndpointSlices");
    assert!(
        message.starts_with("Nobody is published for the Lease db"),
        "{message}"
    );
    // An empty one does no harm.
    world
        .patch("EndpointSlice", "s-other", json!({"endpoints": []}))
        .await;
    seconds(1).await;
    hold(&world, "db-0", 3).await;
    assert_eq!(published(&world).await, ["db-0"]);
    world
        .patch("EndpointSlice", "s-other", json!({"endpoints": one}))
        .await;
    seconds(1).await;
    assert_eq!(published(&world).await, [""; 0]);
    world.delete("EndpointSlice", "s-other").await;
    hold(&world, "db-0", 4).await;
    assert_eq!(published(&world).await, ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_slice_of_others_takes_no_leader_out() {
    let world = led_world(CUSTOM).await;
    world.gate.take();
    world
        .make(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "s-other", "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            }},
            "endpoints": [], "ports": [],
        }))
        .await;
    seconds(5).await;
    assert_eq!(published(&world).await, ["db-0"]);
    let writes = outlines(&world.gate.take());
    assert!(
        writes.iter().all(|request| !request.starts_with("PUT")),
        "{writes:?}"
    );
    // Nor when its metadata changes, so that it is read again.
    for label in ["a", "b"] {
        let patch = json!({"metadata": {"labels": {"x": label}}});
        world.patch("EndpointSlice", "s-other", patch).await;
        // And a pod that takes over at that moment is added as soon as the slice has been read.
        hold(&world, if label == "a" { "db-1" } else { "db-0" }, 2).await;
        let name = if label == "a" { "db-1" } else { "db-0" };
        assert_eq!(published(&world).await, [name]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_with_many_endpoints_comes_down_to_its_leader() {
    let mut world = World::new(2);
    world.options.settings.outputs = CUSTOM;
    world.nodes(1).await;
    for number in 0..7 {
        let v6 = format!("fd00::{number}");
        let mut made = dual_pod(&format!("db-{number}"), &ip(number + 1), &v6, "n1");
        made["metadata"]["labels"] = json!({"app": "db"});
        world.make(made).await;
    }
    let mut service = led(&json!({SELECTOR: "app=db"}));
    service["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    service["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    service["spec"]["ports"] = json!([{"port": 80}]);
    world.make(service).await;
    world.start_up().await;
    assert_eq!(slices(&world.api).await.len(), 8);
    world.make(lease("db-3", 1)).await;
    let follow = json!({"metadata": {"annotations": {LEADER: "db"}}});
    world.patch("Service", "s", follow).await;
    seconds(1).await;
    assert_eq!(
        published(&world).await,
        ["db-3", "db-3"],
        "it was published already"
    );
    assert_eq!(slices(&world.api).await.len(), 2);
    hold(&world, "db-5", 2).await;
    assert_eq!(published(&world).await, ["db-5", "db-5"]);
    // And back.
    let all = json!({"metadata": {"annotations": {LEADER: null}}});
    world.patch("Service", "s", all).await;
    seconds(1).await;
    assert_eq!(published(&world).await.len(), 14);
    let none = json!({"metadata": {"annotations": {SELECTOR: null}}});
    world.patch("Service", "s", none).await;
    seconds(1).await;
    assert_eq!(slices(&world.api).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn leases_are_watched_only_where_a_service_follows_one() {
    let world = world(EVERYTHING, json!({SELECTOR: "app=db"})).await;
    let of_leases = |world: &World| {
        let sent = world.gate.take_all();
        sent.iter().filter(|sent| sent.kind() == "leases").count()
    };
    assert_eq!(of_leases(&world), 0);
    let follow = |lease: Value| json!({"metadata": {"annotations": {LEADER: lease}}});
    world.patch("Service", "s", follow(json!("db"))).await;
    seconds(1).await;
    assert_eq!(of_leases(&world), 2, "a list and a watch");
    world
        .patch("Service", "s", follow(json!("../../secrets/db")))
        .await;
    seconds(60).await;
    assert_eq!(of_leases(&world), 0, "no Lease can have this name");
    assert_eq!(published(&world).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn without_permission_the_holder_goes_after_a_while_and_it_is_told() {
    let mut world = led_world(CUSTOM).await;
    world.stop().await;
    world.gate.bar("leases", 403);
    world.gate.next(Method::GET, "leases", Fate::Refused(403));
    world.start_up().await;
    assert_eq!(published(&world).await, ["db-0"]);
    seconds(12).await;
    assert_eq!(published(&world).await, [""; 0]);
    assert_eq!(told(&world).await.pop().unwrap().0, "LeaseNotReadable");
    world.gate.unbar("leases");
    seconds(60).await;
    hold(&world, "db-0", 2).await;
    assert_eq!(published(&world).await, ["db-0"]);
}

/// The watch was cut without notice, so the Lease is read when the holder's time runs out.
#[tokio::test(start_paused = true)]
async fn a_page_of_403_to_the_read_of_a_lease_took_its_holder_out() {
    let world = led_world(CUSTOM).await;
    world.gate.hold("leases");
    seconds(DURATION - 2).await;
    hold(&world, "db-0_x", 2).await;
    world.gate.next(Method::GET, "leases", Fate::Page(403));
    world.gate.take_all();
    for _ in 0..50 {
        sleep(Duration::from_millis(100)).await;
        assert_eq!(published(&world).await, ["db-0"]);
    }
    let reads = world.gate.take_all().into_iter();
    let reads: Vec<_> = reads
        .filter(|sent| sent.kind() == "leases" && sent.name() == Some("db"))
        .map(|sent| sent.status)
        .collect();
    assert_eq!(reads, [Some(403), Some(200)], "it is read again");
}

#[tokio::test(start_paused = true)]
async fn leases_that_cannot_be_decoded_vanished_without_a_word() {
    let log = Log::record();
    let mut world = led_world(CUSTOM).await;
    world.stop().await;
    let whole = world.get("Lease", "db").await.unwrap();
    let broken = |name: &str| {
        // A namespace's lines of the log are limited, in all tests together.
        let metadata = json!({"name": name, "namespace": "of-broken-leases", "resourceVersion": "7"});
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": "x"})
    };
    let list = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
        "metadata": {"resourceVersion": whole["metadata"]["resourceVersion"]},
        "items": [whole, broken("listed")],
    });
    let event = json!({"type": "MODIFIED", "object": broken("watched")});
    world.gate.stub(Arc::new(move |sent| {
        let text = match sent {
            _ if sent.kind() != "leases" || sent.name().is_some() => return None,
            _ if sent.watch => format!("{event}\n"),
            _ => list.to_string(),
        };
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
        let answer = Response::new(body.boxed_unsync());
        Some(async move { answer }.boxed())
    }));
    log.take();
    world.start_up().await;
    assert_eq!(published(&world).await, ["db-0"], "the other Lease is known");
    let lines = log.take();
    for name in ["listed", "watched"] {
        let told = lines.iter().find(|line| {
            line.starts_with("ERROR an object could not be decoded")
                && line.contains("leases")
                && line.contains(name)
        });
        assert!(told.is_some(), "{name}: {lines:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_annotation_on_a_service_with_a_selector_is_ignored() {
    let mut world = World::new(100);
    world.options.settings.outputs = EVERYTHING;
    world.nodes(1).await;
    world.make(db("db-0", 1, 5432)).await;
    let mut service = led(&json!({LEADER: "db"}));
    service["spec"]["selector"] = json!({"app": "db"});
    world.make(service).await;
    world.start_up().await;
    assert_eq!(slices(&world.api).await.len(), 0);
    let message = "The annotation endpointd.io/leader is ignored: the Service has a selector";
    assert_eq!(
        told(&world).await,
        [("LeaderIgnored".to_owned(), message.to_owned())]
    );
}
