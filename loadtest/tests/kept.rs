//! endpointd as a process of its own: pods that are published and ready stay published, though their Nodes go, the slice that
//! they move to is refused, or the process is killed before they have moved.
#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that helpers of a test are tests"
)]

use http::{Method, Request};
use kube::Client;
use loadtest::oracle;
use memory_apiserver::{
    ApiServer, Config, Failure, Fault, FaultPlan, Handle, JournalEntry, RequestRecord, Rule, Verb, start,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[path = "support/program.rs"]
mod program;

use program::{Program, until};

const NODES: [&str; 2] = ["n1", "n2"];
/// Long enough for a write that nothing asks for.
const WHILE: Duration = Duration::from_secs(3);

/// A server with Nodes and a process that works on it.
struct Cluster {
    handle: Handle,
    client: Client,
}

fn start_program(cluster: &Cluster) -> Program {
    Program::start(&cluster.handle.url(), &["--leader-elect=false".to_owned()])
}

fn node(name: &str) -> Value {
    let zone = format!("zone-of-{name}");
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
    })
}

/// A ready pod, whose port `http` is 8080, and `web` is as given.
fn pod(app: &str, number: usize, web: u16) -> Value {
    let address = format!("10.1.{}.{number}", app.as_bytes()[0]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("{app}{number}"), "namespace": "default", "labels": { "app": app } },
        "spec": {
            "nodeName": NODES[number % NODES.len()],
            "containers": [{ "name": "main", "image": "main", "ports": [
                { "name": "http", "containerPort": 8080 }, { "name": "web", "containerPort": web },
            ] }],
        },
        "status": {
            "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn service(app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": app, "namespace": "default" },
        "spec": { "selector": { "app": app }, "ports": [{ "port": 80, "targetPort": "http" }] },
    })
}

/// The names of the pods that some slice holds after each change of a slice.
fn published(journal: &[JournalEntry]) -> Vec<BTreeSet<String>> {
    let mut slices: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let changes = journal
        .iter()
        .filter(|entry| entry.resource() == "endpointslices");
    let states = changes.map(|entry| {
        let slice = entry.object();
        let endpoints = slice["endpoints"].as_array().filter(|_| !entry.deleted);
        let names = endpoints.into_iter().flatten();
        let names = names.filter_map(|endpoint| Some(endpoint["targetRef"]["name"].as_str()?.to_owned()));
        slices.insert(slice["metadata"]["name"].to_string(), names.collect());
        slices.values().flatten().cloned().collect()
    });
    states.collect()
}

fn names(pods: &[&str]) -> BTreeSet<String> {
    pods.iter().map(ToString::to_string).collect()
}

/// Checks that each of these was published at every moment since all of them were.
fn assert_none_was_lost(server: &ApiServer, pods: &[&str]) {
    let states = published(&server.journal());
    let all = names(pods);
    let since = states.iter().position(|state| state.is_superset(&all)).unwrap();
    for state in &states[since..] {
        assert!(state.is_superset(&all), "only {state:?}");
    }
}

// === impl Cluster ===

impl Cluster {
    async fn new(objects: &[Value]) -> Self {
        let config = Config::default().seed(4).request_log(100_000).journal(true);
        let handle = start(config).await.unwrap();
        for object in NODES.map(node).iter().chain(objects) {
            handle.server().load(&object.to_string()).unwrap();
        }
        let client = Client::new(handle.server().service_without_faults(), "default");
        Self { handle, client }
    }

    /// A Service of four pods, of which two have another number for the port `web`.
    async fn of_two_kinds() -> Self {
        let pods = [
            pod("a", 1, 8080),
            pod("a", 2, 8080),
            pod("a", 3, 9090),
            pod("a", 4, 9090),
        ];
        Self::new(&[&[service("a")], &pods[..]].concat()).await
    }

    fn server(&self) -> &ApiServer {
        self.handle.server()
    }

    async fn send(&self, method: Method, path: &str, body: &Value) {
        let media = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder().method(method).uri(path);
        let request = request
            .header("content-type", media)
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        self.client.request_text(request).await.unwrap();
    }

    /// Two of the four pods have to move to another slice.
    async fn move_half(&self) {
        let patch = json!({ "spec": { "ports": [{ "port": 80, "targetPort": "web" }] } });
        self.send(Method::PATCH, "/api/v1/namespaces/default/services/a", &patch)
            .await;
    }

    /// Waits until everything is as it should be.
    async fn settle(&self) {
        let options = oracle::Options::default();
        until("all is right", async || {
            oracle::check(&self.client, &options).await.unwrap().is_correct()
        })
        .await;
    }

    /// The pods that are published.
    fn published(&self) -> BTreeSet<String> {
        published(&self.server().journal()).pop().unwrap_or_default()
    }

    /// The writes of slices and Endpoints from a place in the log on.
    fn writes(&self, from: usize) -> Vec<RequestRecord> {
        let requests = self.server().requests();
        let is_write =
            |request: &&RequestRecord| request.method != "GET" && request.path.contains("/endpoint");
        requests[from..].iter().filter(is_write).cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_may_go_and_come_back_without_a_write() {
    let mut objects = Vec::new();
    for app in ["a", "b", "c"] {
        objects.push(service(app));
        objects.extend((1..=4).map(|number| pod(app, number, 8080)));
    }
    let cluster = Cluster::new(&objects).await;
    let mut process = start_program(&cluster);
    cluster.settle().await;
    assert_eq!(cluster.published().len(), 12);
    sleep(Duration::from_secs(1)).await;

    let before = cluster.server().requests().len();
    for name in NODES {
        let path = format!("/api/v1/nodes/{name}");
        cluster.send(Method::DELETE, &path, &json!({})).await;
    }
    sleep(WHILE).await;
    assert_eq!(cluster.writes(before), [], "when the Nodes had gone");
    for name in NODES {
        cluster.server().load(&node(name).to_string()).unwrap();
    }
    sleep(WHILE).await;
    assert_eq!(cluster.writes(before), [], "when the Nodes had come back");

    // It was at work all the time.
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    let path = "/api/v1/namespaces/default/pods/a1/status";
    cluster.send(Method::PATCH, path, &unready).await;
    until("the pod is shown as not ready", async || {
        !cluster.writes(before).is_empty()
    })
    .await;
    cluster.settle().await;
    assert!(process.runs(), "the process ended by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_stay_in_their_slice_while_the_one_that_they_move_to_is_refused() {
    let cluster = Cluster::of_two_kinds().await;
    let server = cluster.server();
    let mut process = start_program(&cluster);
    cluster.settle().await;

    let refusal = Rule::on(Verb::Create, "endpointslices").fault(Fault::before(Failure::Forbidden));
    server.set_faults(FaultPlan::new(4).rule(refusal));
    cluster.move_half().await;
    until("a slice is refused", async || {
        !server.faults_injected().is_empty()
    })
    .await;
    sleep(WHILE).await;
    assert_eq!(cluster.published(), names(&["a1", "a2", "a3", "a4"]));

    let now = Instant::now();
    let path = "/api/v1/namespaces/default/pods/a3";
    cluster
        .send(Method::DELETE, path, &json!({ "gracePeriodSeconds": 0 }))
        .await;
    until("the dead pod has left", async || {
        !cluster.published().contains("a3")
    })
    .await;
    let took = Instant::now().saturating_duration_since(now);
    assert!(took < WHILE, "it took {took:?}");
    assert_eq!(cluster.published(), names(&["a1", "a2", "a4"]));

    server.clear_faults();
    cluster.settle().await;
    assert_none_was_lost(server, &["a1", "a2", "a4"]);
    assert!(process.runs(), "the process ended by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_the_two_writes_of_a_move_loses_nothing() {
    let cluster = Cluster::of_two_kinds().await;
    let server = cluster.server();
    let process = start_program(&cluster);
    cluster.settle().await;

    // The new slice can be created, the old one not rewritten.
    let writes = [Verb::Update, Verb::Patch, Verb::Delete];
    let hang = Rule::on(writes, "endpointslices").fault(Fault::before(Failure::Hang));
    server.set_faults(FaultPlan::new(4).rule(hang));
    let before = published(&server.journal()).len();
    cluster.move_half().await;
    until("the new slice is there", async || {
        published(&server.journal()).len() > before
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        published(&server.journal()).len(),
        before + 1,
        "the old one is as it was"
    );
    drop(process);
    // Requests that hang end with their connections.
    sleep(Duration::from_secs(1)).await;
    server.clear_faults();

    let mut next = start_program(&cluster);
    cluster.settle().await;
    assert!(published(&server.journal()).len() > before + 1);
    assert_none_was_lost(server, &["a1", "a2", "a3", "a4"]);
    assert!(next.runs(), "the process ended by itself");
}
