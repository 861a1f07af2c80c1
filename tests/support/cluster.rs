//! A cluster in one process: memory-apiserver, the controller as a client of it, and a client for the test.

use endpointd::actors::writer::Pacing;
use endpointd::cluster::connect::Clients;
use endpointd::core::namespace::Settings;
use endpointd::core::outputs::Outputs;
use endpointd::ops::run::{Options, run};
use http::{Method, Request, header};
use kube::Client;
use kube::client::Body;
use memory_apiserver::{ApiServer, Config};
use serde_json::Value;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Options for a controller under test.
pub(crate) fn options(max_endpoints: usize) -> Options {
    Options {
        settings: Settings {
            max_endpoints,
            outputs: Outputs::ALL,
            legacy_tolerate_unready: false,
            seed: 1,
        },
        pacing: Pacing {
            qps: 0.0,
            burst: 1,
            in_flight: 16,
            slice_batch: Duration::ZERO,
            endpoints_batch: Duration::ZERO,
        },
        deadline: Duration::from_secs(30),
        drain: Duration::from_secs(10),
    }
}

/// A client on a server in this process.
pub(crate) fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

/// A server without garbage collection, as the goldens were recorded.
pub(crate) fn server() -> ApiServer {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(Config {
        gc: false,
        seed: Some(1),
        start_time: Some(start),
        ..Config::default()
    })
}

/// Runs a controller against a server, until the task is aborted.
pub(crate) fn controller(server: &ApiServer, options: Options) -> JoinHandle<()> {
    // Under a name of its own, so that faults can be meant for it alone.
    let client = || Client::new(server.service_as("controller"), "default");
    let clients = Clients {
        watches: client(),
        objects: client(),
        events: client(),
    };
    tokio::spawn(async move {
        run(clients, options, std::future::pending()).await.unwrap();
    })
}

/// A small API client on JSON values. Statuses of 300 and more are errors: the status and the body.
#[derive(Clone)]
pub(crate) struct Api(pub(crate) Client);

impl Api {
    /// Sends a request.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, (u16, Value)> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json");
        let bytes = body.map_or_else(Vec::new, |(_, value)| serde_json::to_vec(value).unwrap());
        if let Some((content_type, _)) = body {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let response = self
            .0
            .send(request.body(Body::from(bytes)).unwrap())
            .await
            .unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect_bytes().await.unwrap();
        let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if code < 300 { Ok(value) } else { Err((code, value)) }
    }

    /// The path of a kind's collection or of one of its objects.
    pub(crate) fn path(kind: &str, namespace: &str, name: Option<&str>) -> String {
        let (base, plural, namespaced) = match kind {
            "Namespace" => ("/api/v1", "namespaces", false),
            "Node" => ("/api/v1", "nodes", false),
            "Pod" => ("/api/v1", "pods", true),
            "Service" => ("/api/v1", "services", true),
            "Endpoints" => ("/api/v1", "endpoints", true),
            "EndpointSlice" => ("/apis/discovery.k8s.io/v1", "endpointslices", true),
            _ => panic!("unknown kind {kind}"),
        };
        let namespace = if namespaced {
            format!("/namespaces/{namespace}")
        } else {
            String::new()
        };
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{base}{namespace}/{plural}{name}")
    }

    /// All objects of a kind in a namespace.
    pub(crate) async fn list(&self, kind: &str, namespace: &str) -> Vec<Value> {
        let list = self
            .call(Method::GET, &Self::path(kind, namespace, None), None)
            .await
            .unwrap();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Creates an object, and sets its status as a kubelet would.
    pub(crate) async fn create(&self, object: &Value, namespace: &str) -> Result<Value, (u16, Value)> {
        let kind = object["kind"].as_str().unwrap();
        let path = Self::path(kind, namespace, None);
        let mut made = self
            .call(Method::POST, &path, Some(("application/json", object)))
            .await?;
        if matches!(kind, "Pod" | "Node") && !object["status"].is_null() {
            made["status"] = object["status"].clone();
            let path = format!("{path}/{}/status", made["metadata"]["name"].as_str().unwrap());
            made = self
                .call(Method::PUT, &path, Some(("application/json", &made)))
                .await?;
        }
        Ok(made)
    }

    /// Applies a JSON merge patch.
    pub(crate) async fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        sub: Option<&str>,
        patch: &Value,
    ) -> Result<Value, (u16, Value)> {
        let mut path = Self::path(kind, namespace, Some(name));
        if let Some(sub) = sub {
            path = format!("{path}/{sub}");
        }
        self.call(
            Method::PATCH,
            &path,
            Some(("application/merge-patch+json", patch)),
        )
        .await
    }

    /// Deletes an object.
    pub(crate) async fn delete(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        grace: Option<u64>,
    ) -> Result<Value, (u16, Value)> {
        let options = grace.map_or_else(
            || serde_json::json!({}),
            |grace| serde_json::json!({"gracePeriodSeconds": grace}),
        );
        self.call(
            Method::DELETE,
            &Self::path(kind, namespace, Some(name)),
            Some(("application/json", &options)),
        )
        .await
    }

    /// The slices of a Service, whoever manages them.
    pub(crate) async fn slices_of(&self, namespace: &str, service: &str) -> Vec<Value> {
        let mut slices = self.list("EndpointSlice", namespace).await;
        slices.retain(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service);
        slices
    }
}
