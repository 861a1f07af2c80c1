//! Requests of a history, as values that can be printed.

use crate::api::Http;
pub(super) use crate::api::Resource;
use http::Method;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    method: Method,
    path: String,
    body: Value,
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

    /// Sends it. An error is a refusal: a server in this process answers every client that meets no faults.
    pub(super) async fn send(&self, api: &Http) -> anyhow::Result<Value> {
        api.request(self.method.clone(), &self.path, &self.body).await
    }
}

impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.method, self.path, self.body)
    }
}

/// The objects of a namespace.
pub(super) async fn list(api: &Http, kind: Resource, namespace: &str) -> Vec<Value> {
    let mut list = api.read(&kind.path(namespace, "")).await.unwrap_or_default();
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}
