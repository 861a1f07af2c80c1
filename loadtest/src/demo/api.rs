//! Plain requests to the API server: the demo says what it wants in JSON and does not read the answers.

use anyhow::Context;
use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, Config};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Sends the demo's writes.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
}

/// Makes a client of the server at `url` that hides no failure behind retries of its own.
pub(super) fn client(url: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

// === impl Http ===

impl Http {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an object in the collection at `path`.
    pub(super) async fn create(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::POST, path, JSON, body).await
    }

    /// Replaces the object, or the subresource, at `path`.
    pub(super) async fn replace(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::PUT, path, JSON, body).await
    }

    /// Patches the object, or the subresource, at `path`.
    pub(super) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::PATCH, path, MERGE_PATCH, body).await
    }

    /// Deletes the object at `path`, which is gone at once only if the grace is nought.
    pub(super) async fn delete(&self, path: &str, grace_seconds: u32) -> anyhow::Result<()> {
        let options =
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_seconds });
        self.send(Method::DELETE, path, JSON, &options).await
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> anyhow::Result<()> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(CONTENT_TYPE, content)
            .body(serde_json::to_vec(body)?)?;
        let _: IgnoredAny = self
            .client
            .request(request)
            .await
            .with_context(|| format!("{method} {path}"))?;
        Ok(())
    }
}
