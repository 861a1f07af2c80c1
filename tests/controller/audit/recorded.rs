//! The states that upstream had settled on are in sync; tampered with, they are not, and what is found is just
//! what a controller that starts then writes.

use super::{outline, report};
use crate::gate::Sent;
use crate::store::{Store, Totals, scenarios};
use crate::world::{World, items, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Steps after which a controller must write, upstream's own included; see the tests of adoption.
const WRITES: [(&str, usize); 1] = [("slice-disowned", 1)];

fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

#[test]
fn objects_that_upstream_left_are_in_sync() {
    let mut totals = Totals::default();
    for scenario in scenarios("") {
        in_virtual_time(async {
            let mut store = Store::new(&scenario);
            let world = World::new(store.limit);
            store.begin(&world.api).await;
            let name = scenario["name"].as_str().unwrap();
            for (i, step) in items(&scenario["steps"]).enumerate() {
                store.play(&world.api, step, &mut totals).await;
                let report = report(&world).await;
                if WRITES.contains(&(name, i)) {
                    assert_eq!(report.out_of_sync(), 1, "{name} step {i}");
                    assert_eq!(&*report.findings[0].service, "s");
                    assert!(report.to_text().contains("is managed by"), "{}", report.to_text());
                } else {
                    assert!(report.is_in_sync(), "{name} step {i}: {}", report.to_text());
                }
            }
            let sent = world.gate.take_all();
            assert!(
                sent.iter().all(|sent| sent.verb == "GET" && !sent.watch),
                "an audit sends only reads"
            );
        });
    }
    assert!(
        totals.steps >= 200 && totals.slices >= 700 && totals.endpoints >= 500,
        "{totals:?}"
    );
}

/// A change that a user makes to what is published.
type Tamper = fn(&Value) -> Option<Tampered>;

/// A change of a slice or of Endpoints: a merge patch, or the object in its place.
enum Tampered {
    Patch(Value),
    Delete,
    Add(Value),
}

const SLICES: [(&str, Tamper); 9] = [
    ("address", |slice| {
        let mut endpoints = slice["endpoints"].clone();
        let ip = if slice["addressType"] == "IPv6" {
            "fd00::dead"
        } else {
            "10.99.99.99"
        };
        endpoints[0]["addresses"] = json!([ip]);
        Some(Tampered::Patch(json!({"endpoints": endpoints})))
    }),
    ("endpoint gone", |slice| {
        let mut endpoints = slice["endpoints"].as_array()?.clone();
        endpoints.remove(0);
        Some(Tampered::Patch(json!({"endpoints": endpoints})))
    }),
    ("ready", |slice| {
        let mut endpoints = slice["endpoints"].clone();
        let ready = endpoints[0]["conditions"]["ready"] == true;
        endpoints[0]["conditions"]["ready"] = json!(!ready);
        Some(Tampered::Patch(json!({"endpoints": endpoints})))
    }),
    ("ports", |_| {
        let port = json!({"name": "x", "port": 99, "protocol": "TCP"});
        Some(Tampered::Patch(json!({"ports": [port]})))
    }),
    ("label", |_| {
        Some(Tampered::Patch(
            json!({"metadata": {"labels": {"tampered": "1"}}}),
        ))
    }),
    ("manager", |_| {
        Some(Tampered::Patch(
            json!({"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": null}}}),
        ))
    }),
    ("service", |_| {
        Some(Tampered::Patch(
            json!({"metadata": {"labels": {"kubernetes.io/service-name": null}}}),
        ))
    }),
    ("deleted", |_| Some(Tampered::Delete)),
    ("copied", |slice| {
        let mut copy = slice.clone();
        copy["apiVersion"] = json!("discovery.k8s.io/v1");
        copy["kind"] = json!("EndpointSlice");
        let name = format!("{}z", text(&slice["metadata"]["name"]));
        copy["metadata"] = json!({"name": name, "labels": slice["metadata"]["labels"],
            "ownerReferences": slice["metadata"]["ownerReferences"]});
        Some(Tampered::Add(copy))
    }),
];

const ENDPOINTS: [(&str, Tamper); 5] = [
    ("address", |endpoints| {
        let mut subsets = endpoints["subsets"].clone();
        subsets[0].get("addresses")?;
        subsets[0]["addresses"][0]["ip"] = json!("10.99.99.99");
        Some(Tampered::Patch(json!({"subsets": subsets})))
    }),
    ("emptied", |endpoints| {
        endpoints["subsets"].get(0)?;
        Some(Tampered::Patch(json!({"subsets": []})))
    }),
    ("label", |_| {
        Some(Tampered::Patch(
            json!({"metadata": {"labels": {"tampered": "1"}}}),
        ))
    }),
    ("deleted", |_| Some(Tampered::Delete)),
    ("left over", |endpoints| {
        let labels = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
        Some(Tampered::Add(
            json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": endpoints["subsets"],
            "metadata": {"name": "left-over", "labels": labels}}),
        ))
    }),
];

/// Scenarios that differ in kind; the others would only take time.
const TAMPERED: [&str; 14] = [
    "basic",
    "clusterip",
    "dual",
    "hints-balanced",
    "hostname",
    "ipv6",
    "multi-port-named-mixed",
    "named-port-missing",
    "node-missing",
    "pack-10-of-4",
    "prefer-same-node",
    "publish-not-ready",
    "terminating",
    "two-services-one-pod",
];

#[test]
fn tampering_is_found_just_as_the_controller_finds_it() {
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    for scenario in scenarios("")
        .iter()
        .filter(|s| TAMPERED.contains(&s["name"].as_str().unwrap()))
    {
        for (kind, tampers) in [("EndpointSlice", &SLICES[..]), ("Endpoints", &ENDPOINTS[..])] {
            for (what, tamper) in tampers {
                if in_virtual_time(tampered(scenario, kind, what, *tamper)) {
                    *done.entry(format!("{kind} {what}")).or_default() += 1;
                }
            }
        }
    }
    assert_eq!(
        done.len(),
        SLICES.len() + ENDPOINTS.len(),
        "a kind of tampering was never possible: {done:?}"
    );
    assert!(done.values().sum::<usize>() > 150, "{done:?}");
}

/// Tampers with an object of the scenario, and returns false if there was none to tamper with.
async fn tampered(scenario: &Value, kind: &str, what: &str, tamper: Tamper) -> bool {
    let name = text(&scenario["name"]);
    let mut store = Store::new(scenario);
    let mut world = World::new(store.limit);
    store.begin(&world.api).await;
    for step in items(&scenario["steps"]) {
        store.play(&world.api, step, &mut Totals::default()).await;
    }
    let objects = world.api.list(kind, &store.namespace).await.unwrap();
    let full = |o: &&Value| {
        o["endpoints"].get(0).is_some() || (kind == "Endpoints" && o["subsets"].get(0).is_some())
    };
    let Some(object) = objects.iter().find(full) else {
        return false;
    };
    let at = text(&object["metadata"]["name"]);
    let mut service = match kind {
        "Endpoints" => at.clone(),
        _ => text(&object["metadata"]["labels"]["kubernetes.io/service-name"]),
    };
    match tamper(object) {
        None => return false,
        Some(Tampered::Patch(patch)) => {
            world
                .api
                .patch(kind, &store.namespace, &at, None, &patch)
                .await
                .unwrap();
        }
        Some(Tampered::Delete) => {
            world.api.delete(kind, &store.namespace, &at, None).await.unwrap();
        }
        Some(Tampered::Add(object)) => {
            if kind == "Endpoints" {
                service = text(&object["metadata"]["name"]);
            }
            world.api.create(&object, &store.namespace).await.unwrap();
        }
    }
    let report = report(&world).await;
    let all = report.to_text();
    assert_eq!(
        report.out_of_sync() + report.left_over(),
        1,
        "{name}, {kind} {what}: {all}"
    );
    assert!(
        report
            .findings
            .iter()
            .all(|found| *found.service == *service && *found.namespace == *store.namespace),
        "{name}, {kind} {what}, Service {service}: {all}"
    );
    assert!(
        !all.contains("written anew"),
        "the finding does not name the reason: {name}, {kind} {what}: {all}"
    );
    let mut found: Vec<_> = report.findings.iter().map(outline).collect();
    found.sort();

    world.gate.take();
    let sent = world.start_up().await;
    world.stop().await;
    assert_eq!(found, writes(&sent), "{name}, {kind} {what}: {all}");
    assert!(
        super::report(&world).await.is_in_sync(),
        "{name}, {kind} {what}: it has been put right"
    );
    true
}

/// The controller's writes, as the audit's findings are spelled.
fn writes(sent: &[Sent]) -> Vec<String> {
    let written = |sent: &&Sent| sent.verb != "GET" && sent.kind().starts_with("endpoint");
    let mut writes: Vec<_> = sent
        .iter()
        .filter(written)
        .map(|sent| {
            let verb = match sent.verb.as_str() {
                "POST" => "create",
                "PUT" => "update",
                _ => "delete",
            };
            let kind = if sent.kind() == "endpoints" {
                "endpoints"
            } else {
                "endpointslice"
            };
            let made_up = (verb, kind) == ("create", "endpointslice");
            format!(
                "{verb} {kind} {}",
                if made_up { "*" } else { sent.name().unwrap() }
            )
        })
        .collect();
    writes.sort();
    writes
}
