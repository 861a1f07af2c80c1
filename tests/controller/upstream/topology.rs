//! Nodes that are late, change, or say too little.

use crate::log::Log;
use crate::world::{World, ip, items, node, outlines, pod, service, service_with, text, version};
use endpointd::core::hints::{
    HintState, HintedEndpoint, HintedSlice, NodeCapacity, REASON_DISABLED, REASON_ENABLED, Zone,
    ZoneCapacity, assign,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// By address, what a field of each endpoint in the slices says.
async fn by_address(world: &World, pointer: &str) -> BTreeMap<String, String> {
    let slices = world.slices().await;
    let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
    endpoints
        .map(|e| {
            let value = e.pointer(pointer);
            let value = value.map_or(String::new(), |value| {
                value.as_str().map_or(value.to_string(), str::to_owned)
            });
            (text(&e["addresses"][0]), value)
        })
        .collect()
}

const HINT: &str = "/hints/forZones/0/name";

/// Upstream drops the pod, and the Service loops in errors, each with a Warning event, until it is given up;
/// the Node's coming does not wake it.
#[tokio::test(start_paused = true)]
async fn a_pod_whose_node_is_missing_keeps_its_service_in_a_loop_of_errors() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(1).await;
    world.make(pod("p2", &ip(2), "n2")).await;
    world.make(service()).await;
    world.start_up().await;
    assert_eq!(
        world.in_slices().await,
        [(ip(1), true)],
        "the pods on known nodes are published"
    );
    assert_eq!(
        world.in_endpoints().await.len(),
        2,
        "Endpoints do not look at nodes"
    );

    let half_an_hour = Duration::from_secs(1800);
    assert_eq!(
        outlines(&world.rest_for(half_an_hour).await),
        [""; 0],
        "a missing node is not retried"
    );
    let events = world.events().await;
    assert_eq!(events.len(), 1, "it is reported once");
    assert_eq!(
        text(&events[0]["message"]),
        "Pods on node n2, which does not exist, are left out: p2"
    );

    world.make(node("n2", Some("z2"), Some("4"))).await;
    let sent = world.rest_for(Duration::from_millis(10)).await;
    assert_eq!(
        outlines(&sent),
        ["PUT endpointslices 200"],
        "the pods are published at once, in one write"
    );
    assert_eq!(world.in_slices().await, [(ip(1), true), (ip(2), true)]);
    assert_eq!(by_address(&world, "/zone").await[&ip(2)], "z2");

    assert_eq!(outlines(&world.rest_for(half_an_hour).await), [""; 0]);
}

/// What is published of a pod, by address: whether it is ready, its zone, and the zone that it is hinted to.
async fn zones(world: &World) -> BTreeMap<String, [String; 3]> {
    let [ready, zones, hints] = ["/conditions/ready", "/zone", HINT];
    let (ready, zones, mut hints) = (
        by_address(world, ready).await,
        by_address(world, zones).await,
        by_address(world, hints).await,
    );
    let of = |(ip, ready): (String, String)| {
        let hint = hints.remove(&ip).unwrap_or_default();
        (ip.clone(), [ready, zones[&ip].clone(), hint])
    };
    ready.into_iter().map(of).collect()
}

/// Nodes are deleted by mistake, or to be registered anew. Upstream leaves their pods out at the next sync of the Service.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_takes_no_ready_endpoint_out() {
    let mut world = World::new(100);
    world.nodes(2).await;
    world.make(pod("p1", &ip(1), "n1")).await;
    world.make(pod("p2", &ip(2), "n2")).await;
    let spread = json!({"spec": {"trafficDistribution": "PreferClose"}});
    world.make(service_with(&spread)).await;
    world.start_up().await;
    let before = zones(&world).await;
    let both = |value: &str| ["true".to_owned(), value.to_owned(), value.to_owned()];
    assert_eq!(before, [(ip(1), both("z1")), (ip(2), both("z2"))].into());
    for name in ["n1", "n2"] {
        world.delete("Node", name).await;
    }
    assert_eq!(outlines(&world.rest().await), [""; 0]);

    // Another pod of the Service changes: the slice is written, and shows of the others what it showed.
    world.flip("p1", false, 5).await;
    world.rest().await;
    assert_eq!(
        zones(&world).await,
        [(ip(2), both("z2"))].into(),
        "the one that is ready no longer has left"
    );
    world.make(pod("p3", &ip(3), "n2")).await;
    assert_eq!(
        outlines(&world.rest().await),
        ["PUT endpoints 200"],
        "a new one is kept out"
    );

    // A controller that takes over decides the same.
    world.stop().await;
    assert_eq!(outlines(&world.start_up().await), [""; 0]);
    world
        .patch("Service", "s", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    world.rest().await;
    assert_eq!(zones(&world).await, [(ip(2), both("z2"))].into());

    world.make(node("n2", Some("z2"), Some("4"))).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(
        zones(&world).await,
        [(ip(2), both("z2")), (ip(3), both("z2"))].into()
    );
    world.make(node("n1", Some("z1"), Some("4"))).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(by_address(&world, "/conditions/ready").await[&ip(1)], "false");
}

/// A label that is taken away for a moment is no reason to write every slice of the cluster twice.
#[tokio::test(start_paused = true)]
async fn a_zone_label_that_goes_and_comes_back_causes_no_write() {
    let mut world = World::new(100);
    world.nodes(1).await;
    world.pods(2).await;
    world
        .make(service_with(
            &json!({"spec": {"trafficDistribution": "PreferClose"}}),
        ))
        .await;
    world.start_up().await;
    let label = |zone: Value| json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
    for (zone, writes) in [
        (Value::Null, false),
        (json!("z1"), false),
        (Value::Null, false),
        (json!("z9"), true),
    ] {
        world.patch("Node", "n1", label(zone.clone())).await;
        let sent = outlines(&world.rest().await);
        assert_eq!(sent.is_empty(), !writes, "{zone}: {sent:?}");
        let shown = if writes { "z9" } else { "z1" };
        assert_eq!(by_address(&world, "/zone").await[&ip(1)], shown, "{zone}");
        assert_eq!(by_address(&world, HINT).await[&ip(1)], shown, "{zone}");
    }
    world.patch("Node", "n1", label(Value::Null)).await;
    world.stop().await;
    assert_eq!(outlines(&world.start_up().await), [""; 0], "nor after a restart");
    world.flip("p2", false, 5).await;
    world.rest().await;
    assert_eq!(
        by_address(&world, "/zone").await[&ip(1)],
        "z9",
        "what was shown is written again"
    );
}

/// Hints in proportion to CPU go on to hold while Nodes are missing, unless a zone has too many endpoints.
#[tokio::test(start_paused = true)]
async fn hints_stay_while_nodes_are_missing() {
    let mut world = World::new(100);
    world.nodes(3).await;
    for i in 1..=9 {
        world
            .make(pod(&format!("p{i}"), &ip(i), &format!("n{}", i % 3 + 1)))
            .await;
    }
    let auto = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
    world.make(service_with(&auto)).await;
    world.start_up().await;
    let hinted = by_address(&world, HINT).await;
    assert!(hinted.values().all(|zone| !zone.is_empty()), "{hinted:?}");
    for name in ["n1", "n2", "n3"] {
        world.delete("Node", name).await;
    }
    assert_eq!(outlines(&world.rest().await), [""; 0]);
    world.stop().await;
    assert_eq!(outlines(&world.start_up().await), [""; 0], "nor after a restart");
    assert_eq!(by_address(&world, HINT).await, hinted);
    world.nodes(3).await;
    assert_eq!(outlines(&world.rest().await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_left_out_for_a_node_that_does_not_exist_are_logged() {
    const OWN: &str = "on-unknown-nodes";
    let log = Log::record();
    let mut world = World::new(100);
    world.nodes(1).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}});
    world.api.create(&namespace, "").await.unwrap();
    for object in [pod("p", &ip(1), "n9"), service()] {
        world.api.create(&object, OWN).await.unwrap();
    }
    world.start_up().await;
    world.rest_for(Duration::from_secs(170)).await;
    let lines = log.take();
    let warnings = lines.iter().filter(|line| line.contains(OWN)).collect::<Vec<_>>();
    assert_eq!(
        warnings,
        [
            "WARN Pods on node n9, which does not exist, are left out: p namespace=on-unknown-nodes kind=Service name=s \
             reason=FailedToUpdateEndpointSlices"
        ]
    );
}

/// Upstream takes the Service off its list when it removes the hints, so that better nodes do not bring it back.
#[tokio::test(start_paused = true)]
async fn hints_that_vanish_for_one_bad_node_do_not_come_back() {
    let mut world = World::new(100);
    world.nodes(2).await;
    for i in 1..=4 {
        world
            .make(pod(&format!("p{i}"), &ip(i), &format!("n{}", (i - 1) % 2 + 1)))
            .await;
    }
    let auto = json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Auto"}}});
    world.make(service_with(&auto)).await;
    world.start_up().await;
    let zones = |hints: BTreeMap<String, String>| hints.into_values().collect::<BTreeSet<_>>();
    let both = BTreeSet::from(["z1".to_owned(), "z2".to_owned()]);
    let none = BTreeSet::from([String::new()]);
    assert_eq!(zones(by_address(&world, HINT).await), both);

    // Late labels, and a kubelet that has not reported its CPU yet; then one that leaves for good.
    world.make(node("n3", None, Some("100m"))).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(zones(by_address(&world, HINT).await), none, "as upstream has it");
    let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}});
    world.patch("Node", "n3", zone).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(zones(by_address(&world, HINT).await), both, "and back");

    world.make(node("n4", Some("z2"), None)).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(zones(by_address(&world, HINT).await), none);
    world.delete("Node", "n4").await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(zones(by_address(&world, HINT).await), both);
    assert_eq!(
        outlines(&world.rest_for(Duration::from_secs(3600)).await),
        [""; 0]
    );
}

fn ready(zone: &Zone, count: usize) -> [HintedSlice<'_>; 1] {
    let endpoint = HintedEndpoint {
        ready: true,
        zone: Some(zone),
        hint: None,
    };
    [HintedSlice {
        touched: true,
        endpoints: vec![endpoint; count],
    }]
}

/// Upstream keeps one state for both families: a Service with enough endpoints in one and too few in the other
/// goes from Enabled to Disabled and back with every sync, and says so each time.
#[test]
fn a_dual_stack_service_repeats_that_hints_are_disabled() {
    let mut capacity = ZoneCapacity::default();
    for i in 1..=2 {
        let node = NodeCapacity {
            ready: true,
            zone: Some(format!("z{i}").into()),
            cpu: Some(4000),
            ..NodeCapacity::default()
        };
        capacity.apply(&Arc::from(format!("n{i}")), Some(&node));
    }
    let ratios = capacity.ratios().unwrap();
    let zone: Zone = "z1".into();
    let mut states = [HintState::Off; 2];
    let mut events = Vec::new();
    let mut evaluate = |v4: usize, v6: usize| {
        for (state, (count, family)) in states.iter_mut().zip([(v4, "IPv4"), (v6, "IPv6")]) {
            let next = HintState::after(&assign(ratios, &ready(&zone, count)));
            events.extend(
                state
                    .event(next, family)
                    .map(|event| (event.reason, event.message)),
            );
            *state = next;
        }
        std::mem::take(&mut events)
    };
    let first = evaluate(4, 1);
    let reasons: Vec<_> = first.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, [REASON_ENABLED, REASON_DISABLED], "{first:?}");
    assert!(
        first[0].1.contains("IPv4") && first[1].1.contains("IPv6"),
        "{first:?}"
    );
    for _ in 0..100 {
        assert_eq!(evaluate(4, 1), [], "nothing has changed");
    }
    assert_eq!(evaluate(6, 0), [], "other numbers are no news");
    let back = evaluate(6, 4);
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!(back[0].0, REASON_ENABLED);
    assert_eq!(states[1], HintState::On);
}

/// Upstream requeues no Service when a node's zone changes: `PreferSameZone` routes on the old one.
#[tokio::test(start_paused = true)]
async fn a_zone_that_changes_or_comes_late_stays_as_it_was() {
    let mut world = World::new(2);
    world.nodes(1).await;
    world.make(node("n2", None, Some("4"))).await;
    for i in 1..=8 {
        let on = if i % 4 == 0 { "n2" } else { "n1" };
        world.make(pod(&format!("p{i}"), &ip(i), on)).await;
    }
    world
        .make(service_with(
            &json!({"spec": {"trafficDistribution": "PreferSameZone"}}),
        ))
        .await;
    world.start_up().await;
    assert_eq!(world.slices().await.len(), 4);
    assert_eq!(by_address(&world, HINT).await[&ip(4)], "", "no zone, no hint");

    for zone in ["z2", "z7"] {
        let before = world.slices().await;
        let on_node = |slice: &&Value| items(&slice["endpoints"]).any(|e| e["nodeName"] == "n2");
        let touched: BTreeSet<_> = before.iter().filter(on_node).map(|s| version(s).0).collect();
        assert!(!touched.is_empty() && touched.len() < 4);
        let patch = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}});
        world.patch("Node", "n2", patch).await;

        let sent = world.rest_for(Duration::from_millis(10)).await;
        assert!(
            sent.iter().all(|s| s.outline() == "PUT endpointslices 200"),
            "{sent:#?}"
        );
        let written: Vec<_> = sent.iter().map(|s| s.name().unwrap().to_owned()).collect();
        assert_eq!(written.len(), touched.len(), "each once");
        assert_eq!(
            written.into_iter().collect::<BTreeSet<_>>(),
            touched,
            "only one slice is written"
        );
        for i in 1..=8 {
            let want = if i % 4 == 0 { zone } else { "z1" };
            assert_eq!(by_address(&world, "/zone").await[&ip(i)], want);
            assert_eq!(by_address(&world, HINT).await[&ip(i)], want);
        }
        assert_eq!(outlines(&world.rest().await), [""; 0]);
    }
}
