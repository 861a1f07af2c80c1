//! A server whose store is replaced by a fresh one, or restored from a copy, under a running controller: versions go
//! backwards, and everything is right again within a bound, with few requests.

use crate::cluster::{self, Api};
use crate::gate::Gate;
use crate::objects;
use crate::standby::run_elected;
use endpointd::ops::run::run;
use http::Method;
use kube::Client;
use memory_apiserver::ApiServer;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const NS: &str = "default";
const SECOND: Duration = Duration::from_secs(1);
/// How long it may take until everything is right again.
const BOUND: Duration = Duration::from_secs(10);

/// A server with a Service and these pods, whose versions have come far.
async fn server(pods: std::ops::Range<u8>, changes: u32) -> (ApiServer, Api) {
    let server = cluster::server();
    let api = Api(cluster::client(&server));
    let node = objects::node("n0", None, None);
    api.create(&node, "").await.unwrap();
    for number in pods {
        pod(&api, number).await;
    }
    api.create(&objects::service(), NS).await.unwrap();
    for change in 0..changes {
        let patch = json!({"metadata": {"labels": {"change": change.to_string()}}});
        api.patch("Node", "", "n0", None, &patch).await.unwrap();
    }
    (server, api)
}

async fn pod(api: &Api, number: u8) {
    let ip = format!("10.1.0.{number}");
    let pod = objects::pod(&format!("p{number}"), &ip, "n0");
    api.create(&pod, NS).await.unwrap();
}

/// Starts a controller behind a gate. It ends when the returned sender is dropped or used.
fn start(gate: &Gate, elected: bool) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let client = || Client::new(gate.clone(), "default");
    let (clients, lease) = (cluster::clients(client), client());
    let candidacy = cluster::candidacy_since(Instant::now(), "me");
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        if elected {
            run_elected(clients, lease, candidacy, stopped).await;
        } else {
            run(clients, cluster::options(4), stopped).await.unwrap();
        }
    });
    (stop, task)
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    let names = objects.iter().map(|object| &object["metadata"]["name"]);
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// True if slices and Endpoints publish the pods that there are, each once.
async fn is_right(api: &Api) -> bool {
    let pods = api.list("Pod", NS).await.unwrap();
    let slices = api.slices_of(NS, "s").await.unwrap();
    let endpoints: Vec<&Value> = slices
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten())
        .collect();
    let published: BTreeSet<String> = endpoints
        .iter()
        .map(|endpoint| endpoint["targetRef"]["name"].as_str().unwrap().to_owned())
        .collect();
    let uids_match = endpoints.iter().all(|endpoint| {
        pods.iter()
            .any(|pod| pod["metadata"]["uid"] == endpoint["targetRef"]["uid"])
    });
    let object = Api::path("Endpoints", NS, Some("s")).unwrap();
    let Ok(object) = api.call(Method::GET, &object, None).await else {
        return false;
    };
    let addresses = object["subsets"].as_array().into_iter().flatten();
    let addresses = addresses.flat_map(|subset| subset["addresses"].as_array().into_iter().flatten());
    published == names(&pods)
        && endpoints.len() == pods.len()
        && uids_match
        && addresses.count() == pods.len()
}

/// Waits until all is right, but not for longer than the bound; then that nothing more is sent than has to be.
async fn becomes_right(api: &Api, gate: &Gate, case: &str) {
    let start = Instant::now();
    while !is_right(api).await {
        let passed = Instant::now().saturating_duration_since(start);
        assert!(passed < BOUND, "{case}: wrong after {passed:?}");
        sleep(SECOND / 20).await;
    }
    let passed = Instant::now().saturating_duration_since(start);
    sleep(60 * SECOND).await;
    assert!(is_right(api).await, "{case}: and stays so");
    let sent = gate.take_all().len();
    println!("{case}: right after {passed:?}, {sent} requests in the minute after");
    // A renewal each two seconds; five kinds, each with a version, a list and a watch, more than once perhaps.
    assert!(sent < 120, "{case}: {sent} requests");
}

async fn replaced_by_a_fresh_one(elected: bool) {
    let (old, old_api) = server(1..13, 500).await;
    let gate = Gate::new(&old);
    let (_stop, controller) = start(&gate, elected);
    sleep(5 * SECOND).await;
    assert!(is_right(&old_api).await);
    let (new, api) = server(4..9, 0).await;
    gate.take_all();
    gate.switch(&new);
    becomes_right(&api, &gate, "fresh").await;
    // And what happens there is followed.
    pod(&api, 100).await;
    api.delete("Pod", NS, "p4", Some(0)).await.unwrap();
    sleep(SECOND).await;
    assert!(is_right(&api).await);
    assert!(!controller.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_replaced_by_a_fresh_one_is_not_asked_all_the_time() {
    replaced_by_a_fresh_one(true).await;
}

#[tokio::test(start_paused = true)]
async fn without_an_election_a_fresh_server_is_listed_again() {
    replaced_by_a_fresh_one(false).await;
}

async fn restored_from_a_copy(elected: bool) {
    let (old, old_api) = server(1..13, 500).await;
    let gate = Gate::new(&old);
    let (_stop, controller) = start(&gate, elected);
    sleep(5 * SECOND).await;
    assert!(is_right(&old_api).await);
    // The copy has slices and Endpoints of a time when there were other pods; one went and one came since.
    let (new, api) = server(1..8, 0).await;
    let (stop, earlier) = start(&Gate::new(&new), false);
    sleep(5 * SECOND).await;
    drop(stop);
    earlier.await.unwrap();
    assert!(is_right(&api).await);
    api.delete("Pod", NS, "p2", Some(0)).await.unwrap();
    pod(&api, 50).await;
    gate.take_all();
    gate.switch(&new);
    becomes_right(&api, &gate, "restored").await;
    assert!(!controller.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_restored_store_is_followed_from_where_it_is() {
    restored_from_a_copy(true).await;
}

#[tokio::test(start_paused = true)]
async fn without_an_election_a_restored_store_is_listed_again() {
    restored_from_a_copy(false).await;
}
