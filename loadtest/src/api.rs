//! Plain requests to the API server, in JSON.

use bytes::Bytes;
use http::Method;
use kube::{Client, Config};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) use scenario::Resource;

/// How often a request is sent that the server is too busy for.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Sends requests to paths. Its errors are those of the client that scenarios are played with, as causes of `anyhow`'s.
#[derive(Clone)]
pub(crate) struct Http(scenario::Api);

/// Makes a client of the server at `url` that hides no failure behind retries of its own.
pub(crate) fn client(url: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The status that the server refused a request with, if it answered.
pub(crate) fn code(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<scenario::Error>()?.code()
}

/// The message of the server's refusal, if there was one.
pub(crate) fn message(error: &anyhow::Error) -> Option<&str> {
    match error.downcast_ref()? {
        scenario::Error::Refused { message, .. } => Some(message),
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

// === impl Http ===

impl Http {
    pub(crate) fn new(client: Client) -> Self {
        Self(scenario::Api(client))
    }

    /// Creates an object in the collection at `path`.
    pub(crate) async fn create(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::POST, path, body).await.map(drop)
    }

    /// Patches the object, or the subresource, at `path`.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> anyhow::Result<()> {
        self.send(Method::PATCH, path, body).await.map(drop)
    }

    /// Deletes the object at `path`, or all objects of the collection. It is gone at once only if the grace is nought.
    pub(crate) async fn delete(&self, path: &str, grace_seconds: u32) -> anyhow::Result<()> {
        let options =
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace_seconds });
        self.send(Method::DELETE, path, &options).await.map(drop)
    }

    /// Asks a question, and reads the answer.
    pub(crate) async fn ask(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.request(Method::POST, path, body).await
    }

    /// Reads what is at `path`.
    pub(crate) async fn read(&self, path: &str) -> anyhow::Result<Value> {
        self.request(Method::GET, path, &Value::Null).await
    }

    /// Lists the objects of the collection at `path`.
    pub(crate) async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        Ok(self.0.items(path).await?)
    }

    /// Reads what is at `path`, which need not be JSON.
    pub(crate) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let answer = self.send(Method::GET, path, &Value::Null).await?;
        Ok(String::from_utf8(answer.into())?)
    }

    /// Has the server apply an object at `path`, or only say what would come of it.
    pub(crate) async fn apply(&self, path: &str, object: &Value, dry_run: bool) -> anyhow::Result<Value> {
        Ok(self.0.apply(path, "loadtest", object, dry_run).await?)
    }

    /// Sends a request, whose body is none if it is null, and reads the answer.
    pub(crate) async fn request(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let answer = self.send(method, path, body).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Bytes> {
        let media = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let body = (!body.is_null()).then_some((media, body));
        Ok(self.0.send(method, path, body).await?)
    }
}
