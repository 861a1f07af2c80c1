//! `endpointd audit` and `endpointd explain` on Services that publish only the holder of a Lease.

use super::{CUSTOM, LEADER, SELECTOR, hold, lease, led, led_world, slices};
use crate::gate::Fate;
use crate::world::{NS, World, ip, text};
use endpointd::cluster::encodings::Encodings;
use endpointd::cluster::read::Reader;
use endpointd::core::namespace::Settings;
use endpointd::inspect::explain::{Explanation, PodFinding, State};
use endpointd::inspect::findings::Report;
use endpointd::ops::audit::{Scope, audit};
use endpointd::ops::explain::look;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;

fn reader(world: &World) -> Reader {
    Reader::new(Client::new(world.gate.clone(), "default"), Encodings::default())
}

async fn audited(world: &World) -> Report {
    let scope = Scope {
        labels: None,
        problems: false,
        namespace: None,
        settings: Settings {
            seed: 0,
            ..world.options.settings
        },
        settle: Duration::from_secs(1),
    };
    audit(&reader(world), &scope).await.unwrap()
}

/// The differences that an audit finds.
async fn wrong(world: &World) -> Vec<String> {
    let found = audited(world).await.findings.into_iter();
    let texts = found.flat_map(|found| found.why.into_iter().map(|(why, _)| why.text));
    texts.collect()
}

async fn explained(world: &World) -> Explanation {
    look(&reader(world), NS, "s", world.options.settings)
        .await
        .unwrap()
}

async fn says(world: &World) -> String {
    explained(world).await.leader.unwrap().says
}

/// With `db-0` published by a controller that has stopped.
async fn settled() -> World {
    let mut world = led_world(CUSTOM).await;
    world.stop().await;
    world
}

async fn put(world: &World, endpoints: Value) {
    let name = text(&slices(&world.api).await[0]["metadata"]["name"]);
    // A slice without endpoints has no ports either.
    let ports = if endpoints == json!([]) {
        json!([])
    } else {
        json!([{"name": "sql", "port": 5432, "protocol": "TCP"}])
    };
    let change = json!({"endpoints": endpoints, "ports": ports});
    world.patch("EndpointSlice", &name, change).await;
}

fn other(manager: &str, endpoints: &Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "s-other", "labels": {
            "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": manager,
        }},
        "endpoints": endpoints, "ports": [],
    })
}

#[tokio::test(start_paused = true)]
async fn an_audit_says_what_the_first_sight_of_the_lease_changes() {
    let world = settled().await;
    assert_eq!(wrong(&world).await, [""; 0]);
    let right = slices(&world.api).await.remove(0);

    hold(&world, "db-1", 2).await;
    let gone = [
        format!("{} (pod db-0) should not be there", ip(1)),
        "port sql 5432/TCP should not be there".to_owned(),
    ];
    assert_eq!(wrong(&world).await, gone);
    world.gate.take_all();
    put(&world, json!([])).await;
    assert_eq!(wrong(&world).await, [""; 0], "db-1 waits for a renewal");
    let sent = world.gate.take_all();
    let lists = sent.iter().filter(|sent| sent.kind() == "leases").count();
    assert_eq!(lists, 1, "one list");

    hold(&world, "db-0", 3).await;
    let mut changed = right["endpoints"].clone();
    changed[0]["addresses"] = json!([ip(9)]);
    put(&world, changed).await;
    let found = wrong(&world).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("pod db-0") && found[0].contains(&ip(9)),
        "{found:?}"
    );

    put(&world, right["endpoints"].clone()).await;
    assert_eq!(wrong(&world).await, [""; 0]);
    let mut second = right.clone();
    (second["apiVersion"], second["kind"]) = (json!("discovery.k8s.io/v1"), json!("EndpointSlice"));
    second["metadata"] = json!({
        "name": "s-second", "labels": right["metadata"]["labels"],
        "ownerReferences": right["metadata"]["ownerReferences"],
    });
    world.make(second).await;
    let report = audited(&world).await;
    assert_eq!(report.out_of_sync(), 1, "{report:?}");
    world.delete("EndpointSlice", "s-second").await;

    world.delete("Lease", "db").await;
    assert_eq!(wrong(&world).await, gone);
}

#[tokio::test(start_paused = true)]
async fn an_audit_reads_a_namespace_with_many_suspects_whole() {
    let world = settled().await;
    for number in 0..12 {
        let mut service = led(&json!({SELECTOR: "app=db"}));
        service["metadata"]["name"] = json!(format!("t{number}"));
        world.make(service).await;
    }
    hold(&world, "db-1", 2).await;
    assert_eq!(audited(&world).await.out_of_sync(), 13);
}

#[tokio::test(start_paused = true)]
async fn leases_that_may_not_be_read_leave_these_services_out_and_no_others() {
    let world = settled().await;
    put(&world, json!([])).await;
    let mut plain = led(&json!({SELECTOR: "app=db"}));
    plain["metadata"]["name"] = json!("plain");
    world.make(plain).await;
    world.gate.bar("leases", 403);
    let report = audited(&world).await;
    let services: Vec<_> = report.findings.iter().map(|found| &*found.service).collect();
    assert!(services.iter().all(|service| *service == "plain"), "{services:?}");
    assert!(!services.is_empty());
    let [note] = &report.notes[..] else {
        panic!("{report:?}")
    };
    assert!(
        note.starts_with(
            "1 Service in 1 namespace follows a Lease that may not be read, so it could not be judged: cannot list \
             leases in namespace default: forbidden"
        ),
        "{note}"
    );
    assert!(report.to_text().contains(note));
    world.gate.next(Method::GET, "leases", Fate::Refused(403));
    let found = explained(&world).await;
    assert_eq!(found.in_sync, None);
    let text = anstream::adapter::strip_str(&found.to_text(false)).to_string();
    assert!(
        text.contains("  leader  Lease db could not be read, so "),
        "{text}"
    );
    let said = found.leader.unwrap().says;
    assert!(said.starts_with("Lease db could not be read"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn an_explanation_names_the_lease_its_holder_and_the_pod() {
    let world = settled().await;
    let found = explained(&world).await;
    let leader = found.leader.clone().unwrap();
    assert_eq!(leader.says, "holder db-0_x is pod db-0, ready");
    assert_eq!(
        (
            &*leader.lease,
            leader.holder.as_deref(),
            leader.pod.as_deref(),
            leader.ready
        ),
        ("db", Some("db-0_x"), Some("db-0"), Some(true))
    );
    assert!(leader.ran_out_seconds.is_some(), "it was last renewed long ago");
    let text = found.to_text(true);
    let text = anstream::adapter::strip_str(&text).to_string();
    assert!(
        text.contains("  leader  Lease db: holder db-0_x is pod db-0, ready\n"),
        "{text}"
    );
    assert!(text.contains(" ago, by this machine's clock\n"), "{text}");
    assert!(text.contains("published as the leader\n"), "{text}");
    assert!(text.contains("in sync: "), "{text}");
    assert_eq!(found.strays, [""; 0]);
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["leader"]["pod"], json!("db-0"));
    assert_eq!(json["pods"][0]["leads"], json!(true));

    // Another one leads, and the old one is still published.
    hold(&world, "db-1", 2).await;
    let found = explained(&world).await;
    let waits = "holder db-1 is pod db-1, ready; it is published once the Lease is seen to be renewed";
    assert_eq!(found.leader.unwrap().says, waits);
    assert_eq!(found.in_sync, Some(false));
    let pods: Vec<_> = found
        .pods
        .iter()
        .map(|pod| (&*pod.name, pod.state, pod.leads))
        .collect();
    assert_eq!(
        pods,
        [
            ("db-0", State::Ready, Some(false)),
            ("db-1", State::NotPublished, Some(true))
        ]
    );
    assert_eq!(found.pods[0].amiss.len(), 1, "{:?}", found.pods[0]);
}

#[tokio::test(start_paused = true)]
async fn an_explanation_says_why_nobody_is_published() {
    let world = settled().await;
    put(&world, json!([])).await;
    hold(&world, "", 2).await;
    assert_eq!(
        says(&world).await,
        "Lease db has no holder, so nobody is published"
    );
    hold(&world, "db-7_x", 3).await;
    assert_eq!(
        says(&world).await,
        "no pod has the name db-7, with which the holder db-7_x begins, so nobody is published"
    );
    for (name, number) in [("twin-a", 11), ("twin-b", 12)] {
        let mut pod = super::db(name, number, 5432);
        pod["spec"]["hostname"] = json!("db-7");
        world.make(pod).await;
    }
    assert_eq!(
        says(&world).await,
        "several pods have the name db-7, with which the holder db-7_x begins, so nobody is published: twin-a, twin-b"
    );
    world.delete("Lease", "db").await;
    assert_eq!(says(&world).await, "there is no Lease db, so nobody is published");

    world.make(lease("db-0", 4)).await;
    let annotate = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    world
        .patch("Service", "s", annotate(json!({SELECTOR: "app=none"})))
        .await;
    let found = explained(&world).await;
    assert_eq!(
        found.leader.unwrap().says,
        "holder db-0 is pod db-0, which the selector does not match, so nobody is published"
    );
    world
        .patch("Service", "s", annotate(json!({SELECTOR: "app in"})))
        .await;
    assert_eq!(
        says(&world).await,
        "holder db-0 is pod db-0, which is not added while the selector cannot be used, so nobody is published"
    );
    world
        .patch("Service", "s", annotate(json!({SELECTOR: "app=db"})))
        .await;
    let found = explained(&world).await;
    assert_eq!(found.in_sync, Some(true), "it waits for a renewal");
    let leads: Vec<_> = found.pods.iter().filter(|pod| pod.leads == Some(true)).collect();
    assert_eq!((leads.len(), &*leads[0].name), (1, "db-0"));
    assert!(found.pods.len() > 2 && found.pods[1..].iter().all(PodFinding::is_plain));

    let one = json!([{"addresses": [ip(9)], "conditions": {"ready": true}}]);
    world.make(other("endpointslice-controller.k8s.io", &one)).await;
    assert_eq!(
        says(&world).await,
        "holder db-0 is pod db-0, ready; nobody is published, because slices of other controllers hold endpoints of \
         the Service"
    );
    world.delete("EndpointSlice", "s-other").await;
    world.make(other("somebody.example", &one)).await;
    let warnings = explained(&world).await.warnings;
    let told = "1 slice of somebody.example names this Service too";
    assert!(warnings.iter().any(|text| text.starts_with(told)), "{warnings:?}");

    world
        .patch("Service", "s", annotate(json!({LEADER: "../db"})))
        .await;
    assert_eq!(
        says(&world).await,
        "the annotation endpointd.io/leader is not the name of a Lease, so nobody is published"
    );
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "db"}}}))
        .await;
    let found = explained(&world).await;
    assert!(found.leader.is_none());
    let ignored = "the annotation endpointd.io/leader is ignored: the Service has a selector";
    assert!(
        found.warnings.iter().any(|text| text == ignored),
        "{:?}",
        found.warnings
    );
}
