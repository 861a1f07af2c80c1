//! Two controllers that know nothing of each other on one cluster, as with two Leases.

use crate::cluster::{self, Api, options};
use crate::log::Log;
use crate::world::{NS, ip, items, node, pod, text};
use endpointd::ops::run::{Options, run};
use http::header::USER_AGENT;
use http::{HeaderValue, Method, Request};
use kube::Client;
use memory_apiserver::{ApiServer, Config, Fault, FaultPlan, Latency, Rule, Stage, Verb};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::ServiceExt as _;

const SECOND: Duration = Duration::from_secs(1);
const REASON: &str = "AnotherControllerWrites";

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]},
    })
}

fn server() -> ApiServer {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(
        Config::default()
            .gc(false)
            .seed(1)
            .managed_fields(true)
            .start_time(start),
    )
}

/// An endpointd with a seed of its own, under its name, that never stops.
fn endpointd(server: &ApiServer, seed: u64) -> JoinHandle<()> {
    endpointd_until(server, seed, std::future::pending())
}

fn endpointd_until(
    server: &ApiServer,
    seed: u64,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let mut options = options(100);
    options.settings.seed = seed;
    endpointd_with(server, options, stop)
}

/// An endpointd that clears `managedFields`.
fn clearing(server: &ApiServer, seed: u64) -> JoinHandle<()> {
    let mut options = options(100);
    options.settings.seed = seed;
    options.settings.clear_managed_fields = true;
    endpointd_with(server, options, std::future::pending())
}

fn endpointd_with(
    server: &ApiServer,
    options: Options,
    stop: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let clients = cluster::clients(|| {
        let named = server
            .service_as("controller")
            .map_request(|mut request: Request<_>| {
                let name = HeaderValue::from_static("endpointd/test");
                request.headers_mut().insert(USER_AGENT, name);
                request
            });
        Client::new(named, "default")
    });
    tokio::spawn(async move {
        run(clients, options, stop).await.unwrap();
    })
}

async fn make_pods(api: &Api, numbers: std::ops::Range<usize>) {
    for number in numbers {
        api.create(&pod(&format!("p{number}"), &ip(number + 1), "n1"), NS)
            .await
            .unwrap();
    }
}

/// The pods in the slices of the Service, each as often as it stands there.
async fn published(api: &Api) -> Vec<String> {
    let slices = api.slices_of(NS, "s").await.unwrap();
    let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
    let mut pods: Vec<_> = endpoints
        .map(|endpoint| text(&endpoint["targetRef"]["name"]))
        .collect();
    pods.sort();
    pods
}

async fn told(api: &Api) -> Vec<String> {
    let mut events = api.list("Event", NS).await.unwrap();
    events.retain(|event| event["reason"] == REASON);
    events.iter().map(|event| text(&event["message"])).collect()
}

#[tokio::test(start_paused = true)]
async fn two_writers_that_know_nothing_of_each_other_lose_no_endpoints() {
    let server = server();
    let api = Api(Client::new(server.service_without_faults(), NS));
    api.create(&node("n1", None, Some("4")), NS).await.unwrap();
    api.create(&service(), NS).await.unwrap();
    make_pods(&api, 0..3).await;
    let controllers = [1, 2].map(|seed| endpointd(&server, seed));
    sleep(10 * SECOND).await;
    make_pods(&api, 3..150).await;
    sleep(5 * SECOND).await;
    let mut all: Vec<_> = (0..150).map(|number| format!("p{number}")).collect();
    all.sort();
    let version = server.resource_version();
    for _ in 0..60 {
        assert_eq!(published(&api).await, all);
        sleep(SECOND).await;
    }
    assert_eq!(server.resource_version(), version, "both are at rest");
    // And down again.
    for number in 40..150 {
        api.delete("Pod", NS, &format!("p{number}"), Some(0))
            .await
            .unwrap();
    }
    sleep(5 * SECOND).await;
    assert_eq!(published(&api).await.len(), 40);
    assert!(controllers.iter().all(|controller| !controller.is_finished()));
}

/// The value of the counter of contested slices.
fn counted(metrics: &str) -> u64 {
    let name = "endpointd_contested_changes_total{output=\"endpointslice\"} ";
    let values = metrics.lines().filter_map(|line| line.strip_prefix(name));
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

#[tokio::test(start_paused = true)]
async fn another_endpointd_is_told_of() {
    let (log, recorder) = (Log::record(), PrometheusBuilder::new().build_recorder());
    let metrics = recorder.handle();
    let _recorded = metrics::set_default_local_recorder(&recorder);
    let server = server();
    let api = Api(Client::new(server.service_without_faults(), NS));
    api.create(&node("n1", None, Some("4")), NS).await.unwrap();
    api.create(&service(), NS).await.unwrap();
    let _controllers = [1, 2].map(|seed| endpointd(&server, seed));
    for second in 0..20 {
        make_pods(&api, second..second + 1).await;
        sleep(SECOND).await;
    }
    let told = told(&api).await;
    assert!(!told.is_empty(), "{:#?}", log.take());
    assert!(
        told.iter().all(|told| told.starts_with("Another endpointd")),
        "{told:?}"
    );
    let lines = log.take().into_iter().filter(|line| line.contains(REASON));
    // A slice and an Endpoints object, of two processes.
    assert!((1..=4).contains(&lines.count()));
    assert!(counted(&metrics.render()) >= 1, "{}", metrics.render());
}

/// The first updates have the server forget who writes.
#[tokio::test(start_paused = true)]
async fn another_endpointd_is_told_of_where_managed_fields_are_cleared() {
    let server = server();
    let api = Api(Client::new(server.service_without_faults(), NS));
    api.create(&node("n1", None, Some("4")), NS).await.unwrap();
    api.create(&service(), NS).await.unwrap();
    let _controllers = [1, 2].map(|seed| clearing(&server, seed));
    sleep(10 * SECOND).await;
    make_pods(&api, 0..2).await;
    sleep(110 * SECOND).await;
    for slice in api.slices_of(NS, "s").await.unwrap() {
        assert!(slice["metadata"]["managedFields"].is_null(), "{slice}");
    }
    for round in 2..22 {
        make_pods(&api, round..round + 1).await;
        sleep(SECOND).await;
    }
    let told = told(&api).await;
    assert!(!told.is_empty());
    let unnamed = |told: &String| told.starts_with("A client that managedFields do not name");
    assert!(told.iter().all(unnamed), "{told:?}");
}

/// The built-in controller uses the same label.
#[tokio::test(start_paused = true)]
async fn a_client_that_keeps_writing_is_named() {
    for manager in ["kube-controller-manager", "endpointd", "kubectl-edit"] {
        let server = server();
        let api = Api(Client::new(server.service_without_faults(), NS));
        api.create(&node("n1", None, Some("4")), NS).await.unwrap();
        api.create(&service(), NS).await.unwrap();
        let _controller = endpointd(&server, 1);
        sleep(10 * SECOND).await;
        for round in 0..5 {
            let slice = api.slices_of(NS, "s").await.unwrap().remove(0);
            let path = format!(
                "/apis/discovery.k8s.io/v1/namespaces/{NS}/endpointslices/{}?fieldManager={manager}",
                text(&slice["metadata"]["name"])
            );
            let other = json!({"endpoints": [{"addresses": [ip(round + 7)], "conditions": {"ready": true}}]});
            let kind = "application/merge-patch+json";
            api.call(Method::PATCH, &path, Some((kind, &other)))
                .await
                .unwrap();
            sleep(10 * SECOND).await;
        }
        let told = told(&api).await;
        assert!(
            matches!(&told[..], [text] if text.contains(manager)),
            "{manager}: {told:?}"
        );
    }
}

/// One replica after the other leads, and each finds what the last has written.
#[tokio::test(start_paused = true)]
async fn a_hand_over_is_no_other_writer() {
    let server = server();
    let api = Api(Client::new(server.service_without_faults(), NS));
    api.create(&node("n1", None, Some("4")), NS).await.unwrap();
    api.create(&service(), NS).await.unwrap();
    for round in 0..10 {
        let slow = Fault::Delay(Stage::Before, Latency::Constant(SECOND));
        let rule = Rule::on(Verb::Update, "endpointslices").fault(slow);
        server.set_faults(FaultPlan::new(1).rule(rule));
        let (stop, stopped) = oneshot::channel::<()>();
        let controller = endpointd_until(&server, round as u64, async {
            let _ = stopped.await;
        });
        for number in 0..3 {
            sleep(40 * SECOND).await;
            make_pods(&api, 4 * round + number..4 * round + number + 1).await;
        }
        sleep(40 * SECOND).await;
        make_pods(&api, 4 * round + 3..4 * round + 4).await;
        sleep(SECOND / 10).await;
        stop.send(()).unwrap();
        controller.await.unwrap();
    }
    assert_eq!(told(&api).await, [""; 0]);
}
