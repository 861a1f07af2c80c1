//! A small cluster with a gate before its controller, and the objects that tests put into it.

use super::cluster::{self, Api};
use super::gate::{Gate, Sent};
#[allow(unused_imports, reason = "shared with tests that use other parts of it")]
pub(crate) use super::objects::{dual_pod, ip, node, pod, ready_condition, service, service_with, time};
use endpointd::ops::run::{Options, run};
use kube::Client;
use memory_apiserver::{ApiServer, Config};
#[allow(unused_imports, reason = "shared with tests that use other parts of it")]
pub(crate) use scenario::TRIGGER;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The namespace in which tests play unless they say otherwise. Every server has it.
pub(crate) const NS: &str = "default";

/// A server, a gate before it, and a controller that is started and stopped by the test.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) gate: Gate,
    pub(crate) api: Api,
    pub(crate) options: Options,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl World {
    /// With slices of up to so many endpoints, and without garbage collection.
    pub(crate) fn new(max_endpoints: usize) -> Self {
        Self::of(false, max_endpoints)
    }

    /// With or without the garbage collector and the namespace controller, and the deletion of Endpoints with their Service.
    pub(crate) fn of(gc: bool, max_endpoints: usize) -> Self {
        let server = ApiServer::new(
            Config::default()
                .gc(gc)
                .service_endpoints(gc)
                .seed(1)
                .start_time("2026-01-01T00:00:00Z".parse().unwrap()),
        );
        Self {
            gate: Gate::new(&server),
            api: Api(cluster::client(&server)),
            options: cluster::options(max_endpoints),
            running: None,
            server,
        }
    }

    /// Starts a controller.
    pub(crate) fn start(&mut self) {
        assert!(self.running.is_none(), "one controller at a time");
        let clients = cluster::clients(|| Client::new(self.gate.clone(), "default"));
        let (stop, stopped) = oneshot::channel::<()>();
        let options = self.options;
        let task = tokio::spawn(async move {
            let stopped = async {
                // A test that ends drops the sender.
                let _ = stopped.await;
            };
            run(clients, options, stopped).await.unwrap();
        });
        self.running = Some((stop, task));
    }

    /// Stops the controller, and waits until it has ended.
    pub(crate) async fn stop(&mut self) {
        let (stop, task) = self.running.take().unwrap();
        stop.send(()).unwrap();
        task.await.unwrap();
    }

    /// Lets everything that is due happen, and returns what the controller has sent since the last time, lists
    /// and watches left out.
    pub(crate) async fn rest(&self) -> Vec<Sent> {
        self.rest_for(Duration::from_secs(5)).await
    }

    /// As [`World::rest`], for longer.
    pub(crate) async fn rest_for(&self, time: Duration) -> Vec<Sent> {
        sleep(time).await;
        if let Some((_, task)) = &self.running {
            assert!(!task.is_finished(), "the controller has ended");
        }
        self.gate.take()
    }

    /// Starts a controller and lets it bring everything up to date.
    pub(crate) async fn start_up(&mut self) -> Vec<Sent> {
        self.start();
        self.rest().await
    }

    pub(crate) async fn make(&self, object: Value) -> Value {
        let made = self.api.create(&object, NS).await;
        made.unwrap_or_else(|e| panic!("{object}: {e:?}"))
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) -> Value {
        let done = self.api.patch(kind, NS, name, None, &patch).await;
        done.unwrap_or_else(|e| panic!("{kind}/{name}: {e:?}"))
    }

    pub(crate) async fn patch_status(&self, kind: &str, name: &str, patch: Value) {
        let patch = json!({ "status": patch });
        let done = self.api.patch(kind, NS, name, Some("status"), &patch).await;
        done.unwrap_or_else(|e| panic!("{kind}/{name}: {e:?}"));
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api.delete(kind, NS, name, Some(0)).await.unwrap();
    }

    /// Sets a pod's Ready condition, as of a second of 2026.
    pub(crate) async fn flip(&self, pod: &str, ready: bool, second: u32) {
        self.patch_status(
            "Pod",
            pod,
            json!({"conditions": [ready_condition(ready, second)]}),
        )
        .await;
    }

    /// Nodes `n1` and on, each in the zone of its number.
    pub(crate) async fn nodes(&self, count: usize) {
        for i in 1..=count {
            self.make(node(&format!("n{i}"), Some(&format!("z{i}")), Some("4")))
                .await;
        }
    }

    /// Pods `p1` and on, on node `n1`.
    pub(crate) async fn pods(&self, count: usize) {
        for i in 1..=count {
            self.make(pod(&format!("p{i}"), &ip(i), "n1")).await;
        }
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.api.get(kind, NS, name).await.unwrap()
    }

    /// The Events of all namespaces.
    pub(crate) async fn events(&self) -> Vec<Value> {
        let list = self
            .api
            .call(http::Method::GET, "/api/v1/events", None)
            .await
            .unwrap();
        items(&list["items"]).cloned().collect()
    }

    pub(crate) async fn slices(&self) -> Vec<Value> {
        self.api.slices_of(NS, "s").await.unwrap()
    }

    pub(crate) async fn endpoints(&self) -> Value {
        self.get("Endpoints", "s").await.unwrap_or_default()
    }

    /// The addresses in the slices of Service `s`, with whether they are ready, sorted.
    pub(crate) async fn in_slices(&self) -> Vec<(String, bool)> {
        let slices = self.slices().await;
        let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
        let mut shown: Vec<_> = endpoints
            .map(|e| (text(&e["addresses"][0]), e["conditions"]["ready"] == true))
            .collect();
        shown.sort();
        shown
    }

    /// As [`World::in_slices`], in its Endpoints.
    pub(crate) async fn in_endpoints(&self) -> Vec<(String, bool)> {
        let mut shown = Vec::new();
        for subset in items(&self.endpoints().await["subsets"]) {
            shown.extend(items(&subset["addresses"]).map(|a| (text(&a["ip"]), true)));
            shown.extend(items(&subset["notReadyAddresses"]).map(|a| (text(&a["ip"]), false)));
        }
        shown.sort();
        shown
    }
}

pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Requests without their objects: `PUT endpoints 200`.
pub(crate) fn outlines(sent: &[Sent]) -> Vec<String> {
    sent.iter().map(Sent::outline).collect()
}

/// The object's name and version, to tell whether it was written.
pub(crate) fn version(object: &Value) -> (String, String) {
    let meta = &object["metadata"];
    (text(&meta["name"]), text(&meta["resourceVersion"]))
}

/// The trigger time on an object.
pub(crate) fn trigger(object: &Value) -> Option<String> {
    object["metadata"]["annotations"].get(TRIGGER).map(text)
}
