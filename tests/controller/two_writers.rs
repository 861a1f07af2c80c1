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

/// Makes Services whose Endpoints can be edited.
async fn make_edited(api: &Api, count: usize) {
    for number in 0..count {
        let mut made = service();
        made["metadata"]["name"] = format!("edited-{number}").into();
        made["spec"]["selector"] = json!({"app": "none"});
        api.create(&made, NS).await.unwrap();
    }
}

/// Edits the Endpoints of such Services as users do. They are put right, and there is a line about each as long as the
/// namespace has a share of the log.
async fn edit(api: &Api, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let path = format!("/api/v1/namespaces/{NS}/endpoints/edited-{number}?fieldManager=kubectl-edit");
        let edit = json!({"subsets": [{"addresses": [{"ip": ip(number + 1)}], "ports": [{"port": 1}]}]});
        let kind = "application/merge-patch+json";
        api.call(Method::PATCH, &path, Some((kind, &edit))).await.unwrap();
    }
}

/// The value of the counter of other controllers' writes.
fn counted(metrics: &str, controller: &str) -> u64 {
    let name = format!("endpointd_other_controller_writes_total{{controller=\"{controller}\"}} ");
    let values = metrics.lines().filter_map(|line| line.strip_prefix(&name));
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
    make_edited(&api, 100).await;
    let _controllers = [1, 2].map(|seed| endpointd(&server, seed));
    // What is written in the first minute is not held against the other one.
    sleep(50 * SECOND).await;
    let corrected = |line: &&String| line.contains("another client had changed the object");
    edit(&api, 0..20).await;
    sleep(SECOND).await;
    let before = log.take();
    let lines = before.iter().filter(corrected).count();
    assert!(lines < 20, "the namespace has used up its share: {before:#?}");
    for second in 0..26 {
        assert!(second > 6 || told(&api).await.is_empty());
        edit(&api, 20 + 3 * second..23 + 3 * second).await;
        if second > 6 {
            make_pods(&api, second..second + 1).await;
        }
        sleep(SECOND).await;
    }
    let logged = log.take();
    let lines = logged.iter().filter(corrected).count();
    assert!(lines < 20, "a share of the log is left: {logged:#?}");
    let rival = |line: &&String| line.contains("another controller also writes");
    let lines = logged.iter().filter(rival).count();
    assert!((1..=2).contains(&lines), "once by each at most: {logged:#?}");
    let counted = counted(&metrics.render(), "endpointd");
    assert!(counted >= 3, "users are told after three: {}", metrics.render());
    let told = told(&api).await;
    assert!(
        !told.is_empty() && told.len() <= 2,
        "once by each at most: {told:?}"
    );
    assert!(told[0].starts_with("Another endpointd"), "{told:?}");
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
    assert!(
        !told.is_empty() && told.len() <= 2,
        "once by each at most: {told:?}"
    );
    assert!(told[0].starts_with("Another controller"), "{told:?}");
}

/// An edit makes an object other than it should be, no matter which client makes it.
#[tokio::test(start_paused = true)]
async fn edits_are_no_other_controller_where_managed_fields_are_cleared() {
    let server = server();
    let api = Api(Client::new(server.service_without_faults(), NS));
    api.create(&node("n1", None, Some("4")), NS).await.unwrap();
    api.create(&service(), NS).await.unwrap();
    let _controller = clearing(&server, 1);
    sleep(10 * SECOND).await;
    make_pods(&api, 0..2).await;
    sleep(110 * SECOND).await;
    for round in 2..12 {
        let slice = api.slices_of(NS, "s").await.unwrap().remove(0);
        let name = text(&slice["metadata"]["name"]);
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{NS}/endpointslices/{name}?fieldManager=kubectl-edit"
        );
        // One that is taken back, one that is kept, and changes at the same time.
        let edit = match round % 2 {
            0 => json!({"endpoints": [{"addresses": [ip(99)], "conditions": {"ready": true}}]}),
            _ => json!({"metadata": {"annotations": {"note": round.to_string()}}}),
        };
        make_pods(&api, round..round + 1).await;
        api.call(
            Method::PATCH,
            &path,
            Some(("application/merge-patch+json", &edit)),
        )
        .await
        .unwrap();
        sleep(10 * SECOND).await;
    }
    assert_eq!(told(&api).await, [""; 0]);
}

/// The built-in controller uses the same label. Writes of the first minute may be those of a replica that led before.
#[tokio::test(start_paused = true)]
async fn other_controllers_are_told_of_and_people_and_earlier_replicas_are_not() {
    let cases = [
        ("kube-controller-manager", 120, 1),
        ("endpointd", 120, 1),
        ("endpointd", 1, 0),
        ("kubectl-edit", 120, 0),
    ];
    for (manager, seconds, count) in cases {
        let server = server();
        let api = Api(Client::new(server.service_without_faults(), NS));
        api.create(&node("n1", None, Some("4")), NS).await.unwrap();
        api.create(&service(), NS).await.unwrap();
        let _controller = endpointd(&server, 1);
        sleep(seconds * SECOND).await;
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
        assert_eq!(told.len(), count, "{manager}: {told:?}");
        assert!(told.iter().all(|text| text.contains(manager)), "{told:?}");
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
