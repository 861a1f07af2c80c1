//! One-off reads: whole lists, page by page, and single objects. Nothing is kept here but the page that arrives.

use super::codec::{self, Decode};
use super::encodings::{Encodings, Form};
use super::http;
use super::pages::{self, ANSWER, PAGE};
use crate::core::namespace::Kind;
use ::http::StatusCode;
use kube::Client;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;
use std::time::Duration;
use tokio::time::{sleep, timeout};

pub use super::cause::{Cause, Silent};

/// How often a request is sent while the server is too busy for it.
const TRIES: u32 = 4;
/// The longest pause between tries, even if the server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Reads objects from a server.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    encodings: Encodings,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

/// Selects the objects of a kind to list. By default all.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Restricts the list to this namespace.
    pub namespace: Option<String>,
    /// A label selector, as people write it; empty for none.
    pub labels: String,
    /// A field selector; empty for none.
    pub fields: &'static str,
}

/// Items of a list.
#[derive(Debug)]
pub enum Item<T> {
    /// An object.
    Object(T),
    /// The list was so slow that it expired, and begins anew: discard the objects that it showed until now.
    Restart,
}

/// A failed read. Prints as one line.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {what}: {cause}")]
pub struct ReadError {
    /// `get` or `list`.
    pub verb: &'static str,
    /// The resource, and its scope: `pods in all namespaces`.
    pub what: String,
    /// The cause.
    #[source]
    pub cause: Cause,
}

impl ReadError {
    /// Returns whether permission is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self.cause, Cause::Forbidden(_))
    }
}

impl Reader {
    /// Creates a reader. The client must not retry by itself.
    pub fn new(client: Client, encodings: Encodings) -> Self {
        Self { client, encodings }
    }

    /// Lists objects of a kind as of one moment, page by page.
    pub async fn list<T: Decode>(
        &self,
        kind: Kind,
        of: &Selection,
        mut each: impl FnMut(Item<T>),
    ) -> Result<(), ReadError> {
        let place = match &of.namespace {
            _ if kind == Kind::Node => String::new(),
            Some(namespace) => format!(" in namespace {namespace}"),
            None => " in all namespaces".to_owned(),
        };
        let wrap = |cause| ReadError {
            verb: "list",
            what: format!("{}{place}", kind.as_str()),
            cause,
        };
        match self.pages(kind, of, PAGE, &mut each).await {
            // A list in one piece needs no continue token that can expire.
            Err(Cause::Expired) => {
                each(Item::Restart);
                self.pages(kind, of, 0, &mut each).await.map_err(wrap)
            }
            outcome => outcome.map_err(wrap),
        }
    }

    /// Lists like [`Reader::list`], and collects the objects.
    pub async fn all<T: Decode>(&self, kind: Kind, of: &Selection) -> Result<Vec<T>, ReadError> {
        let mut found = Vec::new();
        self.list(kind, of, |item| match item {
            Item::Object(object) => found.push(object),
            Item::Restart => found.clear(),
        })
        .await?;
        Ok(found)
    }

    /// Gets one object, if it exists.
    pub async fn get<T: Decode>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, ReadError> {
        let uri = format!("{}/{name}", http::collection(kind, namespace));
        let outcome = async {
            let body = self.answer(kind, &uri).await?;
            let object = timeout(ANSWER, body.collect_bytes())
                .await
                .map_err(|_| Silent(ANSWER))??;
            Ok(codec::object(&object)?)
        };
        match outcome.await {
            Ok(object) => Ok(Some(object)),
            Err(Cause::NotFound(_)) => Ok(None),
            Err(cause) => Err(ReadError {
                verb: "get",
                what: match namespace {
                    Some(namespace) => format!("{} {namespace}/{name}", kind.as_str()),
                    None => format!("{} {name}", kind.as_str()),
                },
                cause,
            }),
        }
    }

    async fn pages<T: Decode>(
        &self,
        kind: Kind,
        of: &Selection,
        size: usize,
        each: &mut impl FnMut(Item<T>),
    ) -> Result<(), Cause> {
        let mut query = String::new();
        for (name, selector) in [("labelSelector", &*of.labels), ("fieldSelector", of.fields)] {
            if !selector.is_empty() {
                query.extend(["&", name, "="]);
                query.extend(utf8_percent_encode(selector, NON_ALPHANUMERIC));
            }
        }
        let path = http::collection(kind, of.namespace.as_deref());
        let get = |uri: String| async move { self.answer(kind, &uri).await };
        let read = pages::read(&path, &query, size, get, |items, errors| {
            // A missing object would make others look wrong, or right, by mistake.
            if let Some(error) = errors.into_iter().next() {
                return Err(Cause::Malformed(error.to_string()));
            }
            for item in items {
                each(Item::Object(item));
            }
            Ok(())
        });
        read.await.map(drop)
    }

    /// Returns the body of the answer to a request. Sends the request again while the server is too busy.
    async fn answer(&self, kind: Kind, uri: &str) -> Result<Body, Cause> {
        let mut tries = 1;
        loop {
            let (wait, cause) = match timeout(ANSWER, self.ask(kind, uri)).await {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err((Some(wait), cause))) if tries < TRIES => (wait, cause),
                Ok(Err((_, cause))) => return Err(cause),
                Err(_) => return Err(Silent(ANSWER).into()),
            };
            tracing::debug!(%cause, ?wait, "the API server is busy; the request is retried");
            sleep(wait.min(LONGEST_PAUSE)).await;
            tries += 1;
        }
    }

    /// Sends a request once. With a refusal, returns the pause after which another try is worthwhile, if one is.
    async fn ask(&self, kind: Kind, uri: &str) -> Result<Body, (Option<Duration>, Cause)> {
        let read = http::read(&self.client, &self.encodings, kind, Form::Whole, uri).await;
        let (head, status) = match read.map_err(|error| (None, error.into()))? {
            Ok(body) => return Ok(body),
            Err(refusal) => refusal,
        };
        let busy = matches!(
            head.code,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        );
        let wait = head.pause(&status).unwrap_or(Duration::from_secs(1));
        Err((busy.then_some(wait), Cause::refused(head.code.as_u16(), status)))
    }
}
