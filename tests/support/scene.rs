//! A cluster with nodes, pods and a Service `s` that selects them, for tests that count requests.

use crate::cluster::{self, Api};
use crate::objects;
use endpointd::ops::run::Options;
use memory_apiserver::{ApiServer, Config};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub(crate) const NAMESPACE: &str = "default";

/// A cluster in one process, and its controller.
pub(crate) struct Scene {
    pub(crate) server: ApiServer,
    pub(crate) api: Api,
    pub(crate) controller: JoinHandle<()>,
}

impl Scene {
    pub(crate) async fn start(options: Options) -> Self {
        let server = Self::server(Config::default());
        let controller = cluster::controller(&server, options);
        Self::of(server, controller).await
    }

    /// The server of a scene, which has a seed and no garbage collector.
    pub(crate) fn server(config: Config) -> ApiServer {
        let config = config.gc(false).seed(1).request_log(100_000);
        ApiServer::new(config.start_time("2026-01-01T00:00:00Z".parse().unwrap()))
    }

    /// The scene of a server and a controller that runs against it.
    pub(crate) async fn of(server: ApiServer, controller: JoinHandle<()>) -> Self {
        let api = Api(cluster::client(&server));
        let scene = Self {
            server,
            api,
            controller,
        };
        scene.rest().await;
        scene
    }

    /// Lets everything that is due happen.
    pub(crate) async fn rest(&self) {
        sleep(Duration::from_millis(600)).await;
        assert!(!self.controller.is_finished(), "the controller has ended");
    }

    /// Nodes `n0`, `n1`, each in a zone of its own unless it has none.
    pub(crate) async fn node(&self, name: &str, zone: Option<&str>) {
        let node = objects::node(name, zone, Some("4"));
        self.api.create(&node, "").await.unwrap();
    }

    pub(crate) async fn pod(&self, number: u8, node: &str, ready: bool) {
        let (v4, v6) = (format!("10.1.0.{number}"), format!("fd00::{number}"));
        let mut pod = objects::dual_pod(&format!("p{number}"), &v4, &v6, node);
        pod["status"]["conditions"] = json!([objects::ready_condition(ready, 0)]);
        self.api.create(&pod, NAMESPACE).await.unwrap();
    }

    pub(crate) async fn flip(&self, number: u8, ready: bool, seconds: u8) {
        let patch = json!({"status": {"conditions": [objects::ready_condition(ready, seconds.into())]}});
        let name = format!("p{number}");
        self.api
            .patch("Pod", NAMESPACE, &name, Some("status"), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn service(&self, annotations: Value, spec: Value) {
        let over = json!({"metadata": {"annotations": annotations}, "spec": spec});
        let service = objects::service_with(&over);
        self.api.create(&service, NAMESPACE).await.unwrap();
    }

    /// The writes so far whose path holds this.
    pub(crate) fn writes(&self, of: &str) -> usize {
        let requests = self.server.requests().into_iter();
        let writes =
            requests.filter(|r| r.path.contains(of) && matches!(&*r.method, "POST" | "PUT" | "DELETE"));
        writes
            .filter(|r| !r.path.contains("/pods") && !r.path.contains("/services"))
            .count()
    }

    /// How often the controller listed a kind.
    pub(crate) fn reads(&self, of: &str) -> usize {
        let requests = self.server.requests().into_iter();
        requests
            .filter(|r| r.path.contains(of) && &*r.method == "GET" && r.path.contains("sendInitialEvents"))
            .count()
    }

    pub(crate) async fn addresses(&self, field: &str) -> usize {
        let endpoints = self.api.list("Endpoints", NAMESPACE).await.unwrap();
        let subsets = endpoints
            .first()
            .and_then(|endpoints| endpoints["subsets"].as_array());
        let subsets = subsets.cloned().unwrap_or_default();
        subsets
            .iter()
            .map(|subset| subset[field].as_array().map_or(0, Vec::len))
            .sum()
    }

    pub(crate) async fn events(&self) -> Vec<Value> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/events");
        let list = self.api.call(http::Method::GET, &path, None).await.unwrap();
        let mut events = list["items"].as_array().cloned().unwrap_or_default();
        events.sort_by_key(|event| event["metadata"]["name"].to_string());
        events
    }

    pub(crate) async fn service_gone(&self) {
        self.api.delete("Service", NAMESPACE, "s", None).await.unwrap();
    }
}
