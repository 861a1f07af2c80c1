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
            (
                text(&e["addresses"][0]),
                e.pointer(pointer).map_or(String::new(), text),
            )
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

    // Each time the node goes and comes back, the same happens.
    world.delete("Node", "n2").await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(world.in_slices().await, [(ip(1), true)]);
    world.make(node("n2", Some("z2"), Some("4"))).await;
    assert_eq!(outlines(&world.rest().await), ["PUT endpointslices 200"]);
    assert_eq!(world.in_slices().await.len(), 2);
    assert_eq!(outlines(&world.rest_for(half_an_hour).await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_left_out_for_a_node_that_does_not_exist_are_logged() {
    // Each namespace has a share of the lines of the process, in which other tests run too.
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
            "WARN pods are left out of EndpointSlices, because their node does not exist namespace=on-unknown-nodes node=n9 pod=p"
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
