//! A client on JSON values that no fault reaches: who changes the cluster.

use bytes::Bytes;
use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, client::Body};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Reads and writes objects.
#[derive(Clone)]
pub(super) struct Api {
    client: Client,
}

/// A kind of object that a history changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Resource {
    Namespaces,
    Nodes,
    Pods,
    Services,
    Slices,
    Endpoints,
}

/// What is wanted of the server.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: Method,
    path: String,
    body: Value,
}

/// A refusal: its status and its words.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) code: u16,
    pub(super) message: String,
}

// === impl Resource ===

impl Resource {
    /// The path of the collection, and of an object in it.
    pub(super) fn path(self, namespace: &str, name: &str) -> String {
        let (base, plural) = match self {
            Self::Namespaces => ("/api/v1", "namespaces"),
            Self::Nodes => ("/api/v1", "nodes"),
            Self::Pods => ("/api/v1", "pods"),
            Self::Services => ("/api/v1", "services"),
            Self::Slices => ("/apis/discovery.k8s.io/v1", "endpointslices"),
            Self::Endpoints => ("/api/v1", "endpoints"),
        };
        let scope = match namespace {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        let object = match name {
            "" => String::new(),
            name => format!("/{name}"),
        };
        format!("{base}{scope}/{plural}{object}")
    }
}

// === impl Ask ===

impl Ask {
    fn new(method: Method, path: String, body: Value) -> Self {
        Self { method, path, body }
    }

    pub(super) fn create(kind: Resource, namespace: &str, object: Value) -> Self {
        Self::new(Method::POST, kind.path(namespace, ""), object)
    }

    pub(super) fn replace(kind: Resource, namespace: &str, name: &str, object: Value) -> Self {
        Self::new(Method::PUT, kind.path(namespace, name), object)
    }

    pub(super) fn patch(kind: Resource, namespace: &str, name: &str, patch: Value) -> Self {
        Self::new(Method::PATCH, kind.path(namespace, name), patch)
    }

    pub(super) fn patch_status(kind: Resource, namespace: &str, name: &str, patch: Value) -> Self {
        let path = format!("{}/status", kind.path(namespace, name));
        Self::new(Method::PATCH, path, patch)
    }

    /// With options such as a grace period or a propagation policy.
    pub(super) fn delete(kind: Resource, namespace: &str, name: &str, options: Value) -> Self {
        Self::new(Method::DELETE, kind.path(namespace, name), options)
    }
}

impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.method, self.path, self.body)
    }
}

// === impl Api ===

impl Api {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) async fn send(&self, ask: &Ask) -> Result<Value, Refused> {
        let content = if ask.method == Method::PATCH {
            MERGE_PATCH
        } else {
            JSON
        };
        let request = Request::builder()
            .method(ask.method.clone())
            .uri(&ask.path)
            .header(CONTENT_TYPE, content);
        let body = if ask.body.is_null() {
            Vec::new()
        } else {
            ask.body.to_string().into_bytes()
        };
        let request = request
            .body(Body::from(body))
            .expect("paths are made of names that need no escape");
        let response = self.client.send(request).await;
        let (head, body) = response
            .expect("a server in this process answers who meets no faults")
            .into_parts();
        let body: Bytes = body
            .collect_bytes()
            .await
            .expect("answers without faults are whole");
        let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if head.status.is_success() {
            return Ok(value);
        }
        Err(Refused {
            code: head.status.as_u16(),
            message: value["message"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// The objects of a namespace, or of all with an empty one.
    pub(super) async fn list(&self, kind: Resource, namespace: &str) -> Vec<Value> {
        let ask = Ask::new(Method::GET, kind.path(namespace, ""), Value::Null);
        let mut list = self.send(&ask).await.unwrap_or_else(|_| json!({}));
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    pub(super) async fn get(&self, kind: Resource, namespace: &str, name: &str) -> Option<Value> {
        let ask = Ask::new(Method::GET, kind.path(namespace, name), Value::Null);
        self.send(&ask).await.ok()
    }
}
