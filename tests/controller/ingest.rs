//! Lists and watches against a server that forgets: the controller, in one process with memory-apiserver on
//! tokio's paused clock.

use crate::cluster::{self, Api};
use crate::objects;
use memory_apiserver::{ApiServer, Config, Fault, FaultPlan, Latency, Rule, Stage, Verb};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

fn pod(name: &str, number: u32) -> Value {
    objects::pod(name, &format!("10.1.{}.{}", number >> 8, number & 255), "n1")
}

async fn cluster() -> (ApiServer, Api) {
    let server = ApiServer::new(
        Config::default()
            .seed(3)
            .start_time("2026-01-01T00:00:00Z".parse().unwrap())
            .request_log(100_000),
    );
    let api = Api(cluster::client(&server));
    let node = objects::node("n1", None, None);
    api.create(&node, "").await.unwrap();
    api.create(&objects::service(), "default").await.unwrap();
    (server, api)
}

async fn published(api: &Api) -> BTreeSet<String> {
    let slices = api.slices_of("default", "s").await.unwrap();
    let endpoints = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    endpoints
        .map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn existing(api: &Api) -> BTreeSet<String> {
    let pods = api.list("Pod", "default").await.unwrap();
    pods.iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// How often a collection was listed from its beginning, and how often it was watched.
fn lists_and_watches(server: &ApiServer, collection: &str) -> (usize, usize) {
    let requests = server.requests();
    let of = requests
        .iter()
        // A version is read before a watch is resumed: a list of one object.
        .filter(|r| r.method == "GET" && r.path.starts_with(collection) && !r.path.ends_with("limit=1"));
    let (watches, lists): (Vec<_>, Vec<_>) = of.partition(|r| r.path.contains("resourceVersion="));
    let lists = lists.iter().filter(|r| !r.path.contains("continue="));
    (lists.count(), watches.len())
}

/// Two answers: were lists of a collection streamed, and were they asked for in pages?
fn ways(server: &ApiServer, collection: &str) -> (bool, bool) {
    let requests = server.requests();
    let asked = |what: &str| {
        requests
            .iter()
            .any(|r| r.path.starts_with(collection) && r.path.contains(what))
    };
    (asked("sendInitialEvents=true"), asked("limit=500"))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_forgotten_is_listed_again_and_nothing_is_missed() {
    let (server, api) = cluster().await;
    let controller = cluster::controller(&server, cluster::options(10));
    // Watches last five to ten minutes. History is forgotten all the time, so that some end when it is gone.
    for i in 0..800u32 {
        let (made, deleted) = (format!("p{i}"), format!("p{}", i.saturating_sub(40)));
        api.create(&pod(&made, i), "default").await.unwrap();
        if i >= 40 {
            api.delete("Pod", "default", &deleted, Some(0)).await.unwrap();
        }
        server.compact();
        sleep(Duration::from_millis(if i % 7 == 0 { 0 } else { 1500 })).await;
    }
    sleep(Duration::from_secs(60)).await;
    let (lists, watches) = lists_and_watches(&server, "/api/v1/pods");
    assert!(
        lists > 1,
        "pods were listed again: {lists} lists, {watches} watches"
    );
    assert_eq!(published(&api).await, existing(&api).await);
    assert!(!controller.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_resumed_without_a_list() {
    let (server, api) = cluster().await;
    let _controller = cluster::controller(&server, cluster::options(100));
    for i in 0..30 {
        api.create(&pod(&format!("p{i}"), i), "default").await.unwrap();
        sleep(Duration::from_secs(120)).await;
    }
    assert_eq!(published(&api).await.len(), 30);
    let (lists, watches) = lists_and_watches(&server, "/api/v1/pods");
    assert_eq!(lists, 1, "the list at the start");
    assert!(
        watches >= 6,
        "an hour of watches of at most ten minutes: {watches}"
    );
}

#[tokio::test(start_paused = true)]
async fn terminal_pods_are_not_listed_and_are_forgotten_when_they_end() {
    let (server, api) = cluster().await;
    api.create(&pod("p1", 1), "default").await.unwrap();
    let mut done = pod("p2", 2);
    done["status"]["phase"] = "Succeeded".into();
    api.create(&done, "default").await.unwrap();
    let _controller = cluster::controller(&server, cluster::options(100));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(published(&api).await, ["p1".to_owned()].into());
    let patch = json!({"status": {"phase": "Failed"}});
    api.patch("Pod", "default", "p1", Some("status"), &patch)
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(published(&api).await, BTreeSet::new());
    let listed = server
        .requests()
        .into_iter()
        .find(|r| r.path.starts_with("/api/v1/pods?"));
    assert!(
        listed.unwrap().path.contains("status.phase"),
        "the list leaves terminal pods out"
    );
}

const COLLECTIONS: [&str; 5] = [
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/services",
    "/api/v1/endpoints",
    "/apis/discovery.k8s.io/v1/endpointslices",
];

#[tokio::test(start_paused = true)]
async fn lists_are_streamed() {
    let (server, api) = cluster().await;
    for i in 0..700 {
        api.create(&pod(&format!("p{i}"), i), "default").await.unwrap();
    }
    let _controller = cluster::controller(&server, cluster::options(1000));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(published(&api).await, existing(&api).await);
    for collection in COLLECTIONS {
        let services = collection.ends_with("/services");
        assert_eq!(ways(&server, collection), (!services, services), "{collection}");
        // Slices, and slices that mirror Endpoints.
        let selections = if collection.ends_with("endpointslices") {
            2
        } else {
            1
        };
        assert_eq!(
            lists_and_watches(&server, collection),
            (selections, selections),
            "{collection}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_lists_is_asked_for_pages() {
    let (server, api) = cluster().await;
    for i in 0..700 {
        api.create(&pod(&format!("p{i}"), i), "default").await.unwrap();
    }
    server.set_faults(FaultPlan::new(1).rule(Rule::on(Verb::Watch, "*").fault(Fault::NoStreamingLists)));
    let _controller = cluster::controller(&server, cluster::options(1000));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(published(&api).await, existing(&api).await);
    for collection in COLLECTIONS {
        let services = collection.ends_with("/services");
        assert_eq!(ways(&server, collection), (!services, true), "{collection}");
    }
    let pages = server.requests();
    let pages = pages
        .iter()
        .filter(|r| r.path.contains("/pods") && r.path.contains("limit=500"));
    assert_eq!(pages.count(), 2, "of 700 pods");
}

/// The outputs are listed after all that they are made of: they can be compared at once, and need not be kept.
#[tokio::test(start_paused = true)]
async fn our_own_objects_are_listed_last() {
    let (server, api) = cluster().await;
    api.create(&pod("p1", 1), "default").await.unwrap();
    let slow = Fault::Delay(Stage::Before, Latency::Constant(Duration::from_secs(5)));
    server.set_faults(FaultPlan::new(1).rule(Rule::on(Verb::List, "services").fault(slow)));
    let _controller = cluster::controller(&server, cluster::options(100));
    sleep(Duration::from_secs(4)).await;
    let asked = |collection: &str| server.requests().iter().any(|r| r.path.starts_with(collection));
    assert!(asked(COLLECTIONS[1]) && !asked(COLLECTIONS[3]) && !asked(COLLECTIONS[4]));
    sleep(Duration::from_secs(4)).await;
    assert!(asked(COLLECTIONS[3]) && asked(COLLECTIONS[4]));
    assert_eq!(published(&api).await, existing(&api).await);
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_not_fetched_back() {
    let (server, api) = cluster().await;
    let _controller = cluster::controller(&server, cluster::options(100));
    for i in 0..20 {
        api.create(&pod(&format!("p{i}"), i), "default").await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    let slice = published(&api).await;
    assert_eq!(slice.len(), 20);
    let requests = server.requests();
    let single = |path: &str| path.contains("/endpointslices/");
    assert_eq!(
        requests
            .iter()
            .filter(|r| r.method == "GET" && single(&r.path))
            .count(),
        0
    );
    assert_eq!(
        requests
            .iter()
            .filter(|r| r.method == "PUT" && single(&r.path))
            .count(),
        20
    );

    // A slice that another client has written is read, once.
    let name = api.slices_of("default", "s").await.unwrap()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let patch = json!({"metadata": {"annotations": {"mine": "1"}}});
    api.patch("EndpointSlice", "default", &name, None, &patch)
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    api.create(&pod("p20", 20), "default").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let requests = server.requests();
    assert_eq!(
        requests
            .iter()
            .filter(|r| r.method == "GET" && single(&r.path))
            .count(),
        1
    );
    let slice = &api.slices_of("default", "s").await.unwrap()[0];
    assert_eq!(
        slice["metadata"]["annotations"]["mine"], "1",
        "labels and annotations of others are kept"
    );
    assert_eq!(slice["endpoints"].as_array().unwrap().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_slice_marked_for_deletion_is_replaced_and_left_to_its_finalizer() {
    let (server, api) = cluster().await;
    api.create(&pod("p1", 1), "default").await.unwrap();
    let _controller = cluster::controller(&server, cluster::options(100));
    sleep(Duration::from_secs(1)).await;
    let name = api.slices_of("default", "s").await.unwrap()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let patch = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    api.patch("EndpointSlice", "default", &name, None, &patch)
        .await
        .unwrap();
    api.delete("EndpointSlice", "default", &name, None).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let slices = api.slices_of("default", "s").await.unwrap();
    let living: Vec<_> = slices
        .iter()
        .filter(|s| s["metadata"]["deletionTimestamp"].is_null())
        .collect();
    assert_eq!((slices.len(), living.len()), (2, 1));
    assert_eq!(living[0]["endpoints"].as_array().unwrap().len(), 1);
}
