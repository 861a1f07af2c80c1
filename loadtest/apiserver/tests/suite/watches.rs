//! Watches: where they begin, what they tell, how they end.

use crate::client::{Api, PODS, SLICES, pod, service, slice, version};
use memory_apiserver::Config;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn without_a_version_it_begins_with_the_present() {
    let api = Api::plain().await;
    for name in ["b", "a"] {
        api.create(PODS, pod(name)).await;
    }
    for query in ["watch=1", "watch=true&resourceVersion=0"] {
        let mut watch = api.watch(&format!("{PODS}?{query}")).await;
        assert_eq!(watch.told().await, "ADDED a");
        assert_eq!(watch.told().await, "ADDED b");
        api.label(&format!("{PODS}/a"), json!({"x": query.len().to_string()}))
            .await;
        assert_eq!(watch.told().await, "MODIFIED a");
    }
}

#[tokio::test(start_paused = true)]
async fn from_a_version_it_replays_what_came_after() {
    let api = Api::plain().await;
    let first = api.create(PODS, pod("a")).await;
    api.create(PODS, pod("b")).await;
    // Another kind's change is not told.
    api.create(SLICES, slice("s")).await;
    api.remove(&format!("{PODS}/a")).await;
    let mut watch = api
        .watch(&format!("{PODS}?watch=1&resourceVersion={}", version(&first)))
        .await;
    assert_eq!(watch.told().await, "ADDED b");
    assert_eq!(watch.told().await, "MODIFIED a");
    let gone = watch.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(version(&gone["object"]), api.server.resource_version());
    assert_eq!(gone["object"]["spec"]["nodeName"], "node-1");
}

#[tokio::test(start_paused = true)]
async fn a_version_out_of_the_history_is_too_old() {
    let api = Api::new(Config::default().gc(false).history(3)).await;
    let first = version(&api.create(PODS, pod("a")).await);
    for i in 0..3 {
        api.create(PODS, pod(&format!("b{i}"))).await;
    }
    // The first event is gone: versions from its own on can still be watched.
    let mut watch = api
        .watch(&format!("{PODS}?watch=1&resourceVersion={first}"))
        .await;
    assert_eq!(watch.told().await, "ADDED b0");
    let told = api
        .watch(&format!("{PODS}?watch=1&resourceVersion={}", first - 1))
        .await
        .rest()
        .await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        told[0]["object"]["message"],
        format!("too old resource version: {} ({first})", first - 1)
    );
}

#[tokio::test(start_paused = true)]
async fn selections_are_entered_and_left() {
    let api = Api::plain().await;
    let mut labelled = api
        .watch(&format!(
            "{PODS}?watch=1&labelSelector=app%3Dweb,tier%20in%20(a,b)"
        ))
        .await;
    let mut running = api
        .watch("/api/v1/pods?watch=1&fieldSelector=status.phase%3DRunning")
        .await;
    api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    api.label(&path, json!({"tier": "a"})).await;
    assert_eq!(labelled.told().await, "ADDED p");
    api.label(&path, json!({"tier": "b"})).await;
    assert_eq!(labelled.told().await, "MODIFIED p");
    let left = version(&api.label(&path, json!({"tier": "c"})).await);
    let event = labelled.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(
        event["object"]["metadata"]["labels"]["tier"], "b",
        "the state before it left"
    );
    assert_eq!(version(&event["object"]), left, "the version at which it left");

    api.patch(&format!("{path}/status"), json!({"status": {"phase": "Running"}}))
        .await;
    assert_eq!(running.told().await, "ADDED p");
    api.patch(&format!("{path}/status"), json!({"status": {"phase": "Failed"}}))
        .await;
    let event = running.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["status"]["phase"]),
        (&json!("DELETED"), &json!("Running"))
    );
    // Changes outside of the selection are not told.
    api.remove(&path).await;
    api.create(PODS, pod("q")).await;
    api.label(&format!("{PODS}/q"), json!({"tier": "a"})).await;
    assert_eq!(labelled.told().await, "ADDED q");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let api = Api::plain().await;
    let from = api.server.resource_version();
    let begin = Instant::now();
    let query = format!("watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds=150");
    let mut watch = api.watch(&format!("{PODS}?{query}")).await;
    // A change of another kind moves the bookmark on.
    let later = version(&api.create(SLICES, slice("s")).await);
    for seconds in [60, 120, 148] {
        let event = watch.next().await.unwrap();
        assert_eq!(event["type"], "BOOKMARK");
        assert_eq!(version(&event["object"]), later);
        assert_eq!(Instant::now().saturating_duration_since(begin).as_secs(), seconds);
    }
    assert_eq!(watch.next().await, None);
    assert_eq!(Instant::now().saturating_duration_since(begin).as_secs(), 150);

    // Not asked for, none come.
    let watch = api
        .watch(&format!(
            "{PODS}?watch=1&resourceVersion={from}&timeoutSeconds=150"
        ))
        .await;
    assert_eq!(watch.rest().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_server_ends_watches_itself() {
    let api = Api::plain().await;
    let begin = Instant::now();
    assert_eq!(api.watch(&format!("{PODS}?watch=1")).await.rest().await.len(), 0);
    let lasted = Instant::now().saturating_duration_since(begin);
    assert!(
        (Duration::from_secs(1800)..=Duration::from_secs(3600)).contains(&lasted),
        "{lasted:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn initial_events_need_what_they_need() {
    let api = Api::plain().await;
    api.create(SLICES, slice("s")).await;
    let asked = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    // Without bookmarks their end is not marked.
    let watch = api.watch(&format!("{SLICES}?{asked}&timeoutSeconds=1")).await;
    assert_eq!(watch.rest().await.len(), 1);
    let mut watch = api
        .watch(&format!("{SLICES}?{asked}&allowWatchBookmarks=true"))
        .await;
    assert_eq!(watch.told().await, "ADDED s");
    let mark = watch.next().await.unwrap();
    assert_eq!(
        mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert_eq!(mark["object"]["endpoints"], json!(null));
    api.create(SLICES, slice("t")).await;
    assert_eq!(watch.told().await, "ADDED t");
    for query in [
        "watch=1&resourceVersionMatch=NotOlderThan",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
    ] {
        let refusal = api
            .refused("GET", &format!("{SLICES}?{query}"), json!(null))
            .await;
        assert_eq!(refusal["code"], 422, "{query}");
    }
    let late = format!("{SLICES}?{asked}&resourceVersion=99999");
    api.refuses(504, "GET", &late, json!(null)).await;
    // Explicitly none of them: from now on.
    let query = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = api.watch(&format!("{SLICES}?{query}")).await;
    api.create(SLICES, slice("u")).await;
    assert_eq!(watch.told().await, "ADDED u");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_lags_is_cut_off() {
    for config in [Config::default().watch_buffer(5), Config::default().history(5)] {
        let api = Api::new(config.gc(false)).await;
        let mut slow = api.watch(&format!("{PODS}?watch=1")).await;
        let mut other = api.watch(&format!("{SLICES}?watch=1")).await;
        for i in 0..5 {
            api.create(PODS, pod(&format!("p{i}"))).await;
        }
        assert_eq!(slow.told().await, "ADDED p0", "five behind is not too far");
        for i in 1..5 {
            assert_eq!(slow.told().await, format!("ADDED p{i}"));
        }
        for i in 5..11 {
            api.create(PODS, pod(&format!("p{i}"))).await;
        }
        assert_eq!(slow.next().await, None);
        // The others go on.
        api.create(SLICES, slice("s")).await;
        assert_eq!(other.told().await, "ADDED s");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_twice_or_left_out() {
    let api = Api::plain().await;
    let services = "/api/v1/namespaces/ns/services";
    let mut watch = api.watch(&format!("{services}?watch=1")).await;
    for round in 0..700 {
        api.create(services, service(&format!("s{round}"))).await;
    }
    for round in 0..700 {
        assert_eq!(watch.told().await, format!("ADDED s{round}"));
    }
}
