//! The same seed on a paused clock gives the same bytes.

use crate::client::{Api, PODS, SERVICES, SLICES, pod, service, slice};
use memory_apiserver::{Config, JournalEntry, RequestRecord};
use serde_json::{Value, json};
use std::time::Duration;

async fn run(seed: u64) -> (Vec<RequestRecord>, Vec<Value>, Vec<Value>) {
    let config = Config::default()
        .seed(seed)
        .start_time("2030-01-01T00:00:00Z".parse().unwrap())
        .request_log(1000);
    let api = Api::new(config).await;
    let watch = api
        .watch("/apis/discovery.k8s.io/v1/endpointslices?watch=1&timeoutSeconds=100")
        .await;
    for i in 0..20 {
        let owner = api.create(SERVICES, service(&format!("s{i}"))).await;
        let mut owned = slice("");
        owned["metadata"] = json!({"generateName": "x-", "ownerReferences": [{
            "apiVersion": "v1", "kind": "Service", "name": format!("s{i}"), "uid": owner["metadata"]["uid"],
        }]});
        api.create(SLICES, owned).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        api.create(PODS, pod(&format!("p{i}"))).await;
        if i % 3 == 0 {
            api.delete(&format!("{SERVICES}/s{i}"), json!({})).await;
        }
    }
    api.delete("/api/v1/namespaces/ns", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let all = api.everything().await;
    (api.server.requests(), all, watch.rest().await)
}

#[tokio::test(start_paused = true)]
async fn same_seed_same_bytes() {
    let (first, again, other) = (run(7).await, run(7).await, run(8).await);
    assert_eq!(first, again);
    assert_eq!(first.0.len(), again.0.len());
    assert_ne!(first.2, other.2, "another seed gives other names");
    assert_eq!(first.2.len(), other.2.len());
}

#[tokio::test(start_paused = true)]
async fn the_journal_has_every_change_that_was_made_and_no_refused_one() {
    let api = Api::new(Config::default().journal(true)).await;
    let before = api.server.journal().len();
    let owner = api.create(SERVICES, service("s")).await;
    let mut owned = slice("x");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Service", "name": "s", "uid": owner["metadata"]["uid"],
    }]);
    api.create(SLICES, owned.clone()).await;
    api.call("POST", SLICES, owned).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    api.server.compact();
    api.delete(&format!("{SERVICES}/s"), json!({})).await;
    // The collector takes the slice.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let journal = &api.server.journal()[before..];
    let told: Vec<_> = journal
        .iter()
        .map(|entry| (entry.resource(), entry.deleted))
        .collect();
    let made = [("services", false), ("endpointslices", false)];
    assert_eq!(told[..2], made);
    assert_eq!(told[2..], made.map(|(resource, _)| (resource, true)));
    assert_eq!(journal[3].object()["metadata"]["name"], "x");
    assert_eq!(journal[2].at, journal[1].at + Duration::from_secs(1));
    let versions: Vec<u64> = journal.iter().map(JournalEntry::version).collect();
    assert!(versions.is_sorted() && versions[3] == api.server.resource_version());
    let silent = Api::new(Config::default()).await;
    assert!(silent.server.journal().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_log_is_bounded_and_in_order() {
    let api = Api::new(Config::default().gc(false).request_log(3)).await;
    for name in ["a", "b", "c"] {
        api.create(PODS, pod(name)).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    api.call("GET", &format!("{PODS}/none?resourceVersion=0"), Value::Null)
        .await;
    let log = api.server.requests();
    let told: Vec<(&str, u16)> = log.iter().map(|r| (r.method.as_str(), r.status)).collect();
    assert_eq!(told, [("POST", 201), ("POST", 201), ("GET", 404)]);
    assert_eq!(log[2].path, format!("{PODS}/none?resourceVersion=0"));
    assert_eq!(log[2].at, log[0].at + Duration::from_secs(2));
    assert_eq!(log[0].resource_version + 1, log[1].resource_version);
    assert_eq!(log[2].resource_version, api.server.resource_version());
}
