//! `audit` and `explain` on mirrored Endpoints.

use super::{endpoints, mirrored, mirroring, service, subsets};
use crate::world::{NS, World, text};
use endpointd::cluster::read::Reader;
use endpointd::core::object::Verb;
use endpointd::core::outputs::Outputs;
use endpointd::ops::audit::{Scope, audit};
use endpointd::ops::explain::look;
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;

fn reader(world: &World) -> Reader {
    Reader::new(Client::new(world.gate.clone(), "default"))
}

/// Returns the findings of an audit of a world: each finding's verb, and its reasons.
async fn found(world: &World) -> Vec<(Verb, Vec<String>)> {
    let scope = Scope {
        labels: None,
        problems: false,
        namespace: None,
        settings: world.options.settings,
        settle: Duration::from_secs(2),
    };
    let report = audit(&reader(world), &scope).await.unwrap();
    let findings = report.findings.iter();
    let reasons = findings.map(|found| {
        let why = found.why.iter().map(|(difference, _)| difference.text.clone());
        (found.verb, why.collect())
    });
    reasons.collect()
}

/// Returns the notes of `explain` on Service `s`.
async fn notes(world: &World) -> Vec<String> {
    let settings = world.options.settings;
    look(&reader(world), NS, "s", settings, false)
        .await
        .unwrap()
        .notes
}

#[tokio::test(start_paused = true)]
async fn an_audit_says_what_was_changed_in_a_mirrored_slice() {
    let mut world = mirroring(Outputs::ALL).await;
    world.stop().await;
    assert_eq!(found(&world).await, []);
    let name = text(&mirrored(&world.api).await[0]["metadata"]["name"]);
    let tampered = json!({
        "metadata": {"labels": {"x": "1"}, "annotations": {"y": "2"}},
        "endpoints": [
            {"addresses": ["10.9.0.1"], "conditions": {"ready": false}, "nodeName": "n9"},
            {"addresses": ["10.9.0.9"], "conditions": {"ready": true}},
        ],
    });
    world.patch("EndpointSlice", &name, tampered).await;
    let reasons = [
        "10.9.0.9 should not be there",
        "10.9.0.1: node n9, should not be set",
        "10.9.0.1: ready false, should be true",
        "annotation y should not be there",
        "label x should not be there",
    ];
    assert_eq!(
        found(&world).await,
        [(Verb::Update, reasons.map(str::to_owned).to_vec())]
    );

    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    world.patch("Endpoints", "s", skip).await;
    let [(Verb::Delete, why)] = &found(&world).await[..] else {
        panic!("{:?}", found(&world).await);
    };
    assert_eq!(
        why[..],
        [
            "the Endpoints have nothing that it would mirror, or are not to be mirrored, so it should not exist"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_audit_says_that_endpoints_are_not_mirrored_yet() {
    let mut world = mirroring(Outputs::ALL).await;
    world.stop().await;
    let name = text(&mirrored(&world.api).await[0]["metadata"]["name"]);
    world.delete("EndpointSlice", &name).await;
    let missing = "Endpoints with 1 IPv4 addresses of these ports are not mirrored".to_owned();
    assert_eq!(found(&world).await, [(Verb::Create, vec![missing])]);
}

#[tokio::test(start_paused = true)]
async fn explain_says_what_is_mirrored_and_why_something_is_not() {
    let mut world = World::new(100);
    world.make(service()).await;
    world.make(endpoints(&["10.9.0.1", "10.9.0.2"])).await;
    let says = async |world: &World, what: &str| {
        let notes = notes(world).await;
        assert!(notes.iter().any(|note| note.contains(what)), "{what}: {notes:?}");
    };
    says(&world, "its Endpoints are mirrored: 2 endpoints in 1 slice").await;
    let change = async |world: &World, metadata: Value| {
        world
            .patch("Endpoints", "s", json!({ "metadata": metadata }))
            .await;
    };
    change(
        &world,
        json!({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}),
    )
    .await;
    says(
        &world,
        "its Endpoints are not mirrored: they have the label endpointslice.kubernetes.io/skip-mirror",
    )
    .await;
    change(
        &world,
        json!({
            "labels": {"endpointslice.kubernetes.io/skip-mirror": null},
            "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"},
        }),
    )
    .await;
    says(
        &world,
        "the annotation control-plane.alpha.kubernetes.io/leader says that they are a lock",
    )
    .await;
    change(
        &world,
        json!({"annotations": {"control-plane.alpha.kubernetes.io/leader": null}}),
    )
    .await;

    let many: Vec<String> = (0..1001)
        .map(|n| format!("10.8.{}.{}", n / 250, n % 250))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    world
        .patch("Endpoints", "s", json!({ "subsets": subsets(&many) }))
        .await;
    says(&world, "its Endpoints are mirrored: 1000 endpoints in 1 slice").await;
    says(
        &world,
        "1 of its addresses are not mirrored: at most 1000 of a subset are",
    )
    .await;
    world.options.settings.max_mirrored = 10;
    says(&world, "its Endpoints are mirrored: 10 endpoints in 1 slice").await;
    says(
        &world,
        "991 of its addresses are not mirrored: at most 10 of a subset are",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_audit_tells_targets_with_one_address_apart() {
    let mut world = mirroring(Outputs::ALL).await;
    let pod = |name: &str| json!({"ip": "10.9.0.1", "targetRef": {"kind": "Pod", "namespace": NS, "name": name, "uid": format!("u-{name}")}});
    let both =
        json!({"subsets": [{"addresses": [pod("a"), pod("b")], "ports": [{"name": "http", "port": 8080}]}]});
    world.patch("Endpoints", "s", both).await;
    world.rest().await;
    world.stop().await;
    assert_eq!(found(&world).await, []);
    let mut slice = mirrored(&world.api).await.remove(0);
    let endpoints = slice["endpoints"].as_array_mut().unwrap();
    assert_eq!(endpoints.len(), 2);
    endpoints.retain(|endpoint| endpoint["targetRef"]["name"] == "a");
    endpoints[0]["conditions"]["ready"] = json!(false);
    let name = text(&slice["metadata"]["name"]);
    let left = json!({"endpoints": slice["endpoints"]});
    world.patch("EndpointSlice", &name, left).await;
    let reasons = [
        "10.9.0.1 (Pod b) is missing",
        "10.9.0.1 (Pod a): ready false, should be true",
    ];
    assert_eq!(
        found(&world).await,
        [(Verb::Update, reasons.map(str::to_owned).to_vec())]
    );
}
