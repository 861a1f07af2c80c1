//! Plain requests to the API server: who sends them says what is wanted in JSON and does not read the answers.

use std::time::Duration;

use anyhow::Context;
use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, Config};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// How often a request is sent that the server is too busy for.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Sends writes.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
}

/// Makes a client of the server at `url` that hides no failure behind retries of its own.
pub(crate) fn client(url: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The status that the server answered with, if it answered.
pub(crate) fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// What the server answered, if it did.
pub(crate) fn message(error: &anyhow::Error) -> Option<&str> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(&status.message),
        _ => None,
    }
}

/// Sends a request again for as long as the server says that it is too busy, within bounds.
pub(crate) async fn retrying(send: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match send().await {
            Err(error) if matches!(code(&error), Some(429 | 503 | 504)) => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            outcome => return outcome,
        }
    }
    send().await
}

// === impl Http ===

impl Http {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an object in the collection at `path`.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::POST, path, JSON, body).await
    }

    /// Patches the object, or the subresource, at `path`.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::PATCH, path, MERGE_PATCH, body).await
    }

    /// Deletes the object at `path`, which is gone at once only if the grace is nought.
    pub(crate) async fn delete(&self, path: &str, grace_seconds: u32) -> anyhow::Result<()> {
        let options =
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_seconds });
        self.send(Method::DELETE, path, JSON, &options).await
    }

    /// Deletes all objects of the collection at `path`.
    pub(crate) async fn delete_all(&self, path: &str) -> anyhow::Result<()> {
        self.delete(path, 0).await
    }

    /// Asks a question, and reads the answer.
    pub(crate) async fn ask(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(CONTENT_TYPE, JSON)
            .body(serde_json::to_vec(body)?)?;
        let answer = self.client.request(request).await;
        answer.with_context(|| format!("POST {path}"))
    }

    /// Reads what is at `path`.
    pub(crate) async fn read(&self, path: &str) -> anyhow::Result<Value> {
        let request = Request::get(path).body(Vec::new())?;
        self.client
            .request(request)
            .await
            .with_context(|| format!("GET {path}"))
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
