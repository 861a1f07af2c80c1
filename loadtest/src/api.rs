//! Plain requests to the API server, in JSON.

use anyhow::Context;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use kube::{Client, Config};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use std::time::Duration;

/// How often a request is sent that the server is too busy for.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A kind of object that is made or changed here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resource {
    Namespaces,
    Nodes,
    Pods,
    Services,
    Slices,
    Endpoints,
    Leases,
}

/// Sends requests.
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

/// The message of the server's refusal, if there was one.
pub(crate) fn message(error: &anyhow::Error) -> Option<&str> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(&status.message),
        _ => None,
    }
}

/// An error and its causes, without those that the error before has said already, as kube's do.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Sends a request again for as long as the server says that it is too busy, within bounds.
pub(crate) async fn retrying<Sent>(send: impl Fn() -> Sent) -> anyhow::Result<()>
where
    Sent: Future<Output = anyhow::Result<()>>,
{
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

// === impl Resource ===

impl Resource {
    /// The path of an object, or of its collection if there is no name. The namespace is empty for an object that has
    /// none.
    pub(crate) fn path(self, namespace: &str, name: &str) -> String {
        let (base, plural) = match self {
            Self::Namespaces => ("/api/v1", "namespaces"),
            Self::Nodes => ("/api/v1", "nodes"),
            Self::Pods => ("/api/v1", "pods"),
            Self::Services => ("/api/v1", "services"),
            Self::Slices => ("/apis/discovery.k8s.io/v1", "endpointslices"),
            Self::Endpoints => ("/api/v1", "endpoints"),
            Self::Leases => ("/apis/coordination.k8s.io/v1", "leases"),
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

// === impl Http ===

impl Http {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an object in the collection at `path`.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::POST, path, body).await
    }

    /// Patches the object, or the subresource, at `path`.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::PATCH, path, body).await
    }

    /// Deletes the object at `path`, or all objects of the collection. It is gone at once only if the grace is nought.
    pub(crate) async fn delete(&self, path: &str, grace_seconds: u32) -> anyhow::Result<()> {
        let options =
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_seconds });
        self.send(Method::DELETE, path, &options).await
    }

    /// Asks a question, and reads the answer.
    pub(crate) async fn ask(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.request(Method::POST, path, body).await
    }

    /// Reads what is at `path`.
    pub(crate) async fn read(&self, path: &str) -> anyhow::Result<Value> {
        self.request(Method::GET, path, &Value::Null).await
    }

    /// Reads what is at `path`, which need not be JSON.
    pub(crate) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let request = Request::get(path).body(Vec::new())?;
        let answer = self.client.request_text(request).await;
        answer.with_context(|| format!("GET {path}"))
    }

    /// Has the server apply an object at `path`, as `kubectl apply --server-side` does, or only say what would come of it.
    pub(crate) async fn apply(&self, path: &str, object: &Value, dry_run: bool) -> anyhow::Result<Value> {
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let uri = format!("{path}?fieldManager=loadtest&force=true&fieldValidation=Strict{dry_run}");
        let request = Request::patch(uri)
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .body(serde_json::to_vec(object)?)?;
        let answer = self.client.request(request).await;
        answer.with_context(|| format!("applying {path}"))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<()> {
        let _: IgnoredAny = self.request(method, path, body).await?;
        Ok(())
    }

    /// Sends a request, whose body is none if it is null, and reads the answer.
    pub(crate) async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<T> {
        let content = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body)?
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(CONTENT_TYPE, content)
            .body(bytes)?;
        let answer = self.client.request(request).await;
        answer.with_context(|| format!("{method} {path}"))
    }
}
