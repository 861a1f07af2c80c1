//! One-off reads: whole lists, page by page, and single objects. Nothing is kept here but the page that arrives.

mod slow;

use self::slow::{Answer, Telling};
use super::codec::{self, Decode};
use super::election;
use super::http::{self, Form};
use super::pages::{self, ANSWER, PAGE};
use super::silence::within;
use crate::core::lease::Record;
use crate::core::namespace::Kind;
use ::http::StatusCode;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;
use std::time::Duration;
use tokio::time::sleep;

pub use self::slow::OnSlow;
pub use super::cause::Cause;
pub use super::silence::Silent;

/// How often a request is sent while the server is too busy for it.
const TRIES: u32 = 4;
/// The longest pause between tries, even if the server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Reads objects from a server.
#[derive(Clone)]
pub struct Reader {
    client: Client,
    silence: Option<Duration>,
    slow: Option<Telling>,
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
    /// A label selector, as users write it; empty for none.
    pub labels: String,
    /// A field selector; empty for none.
    pub fields: &'static str,
}

impl Selection {
    /// Selects all objects of a namespace.
    pub(crate) fn in_namespace(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::default()
        }
    }
}

/// A resource that is read.
#[derive(Clone, Copy)]
enum ReadResource {
    Kind(Kind),
    /// The Lease of the election.
    Lease,
    /// Namespaces, of which it only matters whether they exist.
    Namespace,
}

impl ReadResource {
    fn as_str(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.as_str(),
            Self::Lease => "leases",
            Self::Namespace => "namespaces",
        }
    }
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

/// A list to read.
#[derive(Clone, Copy)]
struct List<'a> {
    resource: ReadResource,
    path: &'a str,
    /// The namespace in words, for an error.
    place: &'a str,
    of: &'a Selection,
}

impl Selection {
    /// The longest label selector that is sent, encoded, in bytes. A longer one may make the request longer than servers
    /// and proxies take: some take 8 KiB of headers and path together.
    const LONGEST: usize = 2 << 10;

    /// Returns whether its label selector is so long that all objects should be listed, and selected afterwards.
    pub fn is_too_long(&self) -> bool {
        utf8_percent_encode(&self.labels, NON_ALPHANUMERIC)
            .map(str::len)
            .sum::<usize>()
            > Self::LONGEST
    }
}

impl Reader {
    /// Creates a reader. The client must not retry by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            silence: Some(ANSWER),
            slow: None,
        }
    }

    /// Sets how long the server may be silent, before it begins to answer and while it does; `None` for any time. By
    /// default it is a minute.
    #[must_use]
    pub fn waiting(self, silence: Option<Duration>) -> Self {
        Self { silence, ..self }
    }

    /// Has `told` called when a request has had no answer for this long, or the answer does not go on for as long.
    #[must_use]
    pub fn telling(self, after: Duration, told: OnSlow) -> Self {
        Self {
            slow: Some(Telling { after, told }),
            ..self
        }
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
        let path = http::collection(kind, of.namespace.as_deref());
        let list = List {
            resource: ReadResource::Kind(kind),
            path: &path,
            place: &place,
            of,
        };
        let wrap = |cause| ReadError {
            verb: "list",
            what: format!("{}{place}", kind.as_str()),
            cause,
        };
        match self.pages(list, PAGE, &mut each).await {
            // A list in one piece needs no continue token that can expire.
            Err(Cause::Expired) => {
                each(Item::Restart);
                self.pages(list, 0, &mut each).await.map_err(wrap)
            }
            outcome => outcome.map_err(wrap),
        }
    }

    /// Gets what a Lease says, if it exists.
    pub async fn lease(&self, namespace: &str, name: &str) -> Result<Option<Record>, ReadError> {
        let uri = format!("{}/{name}", http::leases(namespace));
        let what = format!("leases {namespace}/{name}");
        let decode = |body: &[u8]| {
            let lease = serde_json::from_slice(body).ok();
            let record = lease
                .and_then(|lease| election::read(&lease))
                .map(|(_, record)| record);
            record.ok_or_else(|| Cause::Malformed("it is no Lease".to_owned()))
        };
        self.one(ReadResource::Lease, &uri, what, decode).await
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
        let what = match namespace {
            Some(namespace) => format!("{} {namespace}/{name}", kind.as_str()),
            None => format!("{} {name}", kind.as_str()),
        };
        self.one(ReadResource::Kind(kind), &uri, what, |body| {
            Ok(codec::object(body)?)
        })
        .await
    }

    /// Returns whether a namespace exists.
    pub async fn has_namespace(&self, name: &str) -> Result<bool, ReadError> {
        let (uri, what) = (http::namespace(name), format!("namespaces {name}"));
        let found = self.one(ReadResource::Namespace, &uri, what, |_| Ok(())).await?;
        Ok(found.is_some())
    }

    /// Gets an object from a path, if it exists. `what` names it in an error.
    async fn one<T>(
        &self,
        resource: ReadResource,
        uri: &str,
        what: String,
        decode: impl FnOnce(&[u8]) -> Result<T, Cause>,
    ) -> Result<Option<T>, ReadError> {
        let name = uri.rsplit('/').next().unwrap_or_default();
        let outcome = async {
            let body = self.answer(resource, uri, &format!("get {what}")).await?;
            let object = within(self.silence, body.collect()).await??;
            decode(&object.to_bytes())
        };
        match outcome.await {
            Ok(object) => Ok(Some(object)),
            Err(cause) if cause.is_missing(name) => Ok(None),
            Err(cause) => Err(ReadError {
                verb: "get",
                what,
                cause,
            }),
        }
    }

    async fn pages<T: Decode>(
        &self,
        list: List<'_>,
        size: usize,
        each: &mut impl FnMut(Item<T>),
    ) -> Result<(), Cause> {
        let mut query = String::new();
        let List { resource, of, .. } = list;
        for (name, selector) in [("labelSelector", &*of.labels), ("fieldSelector", of.fields)] {
            if !selector.is_empty() {
                query.extend(["&", name, "="]);
                query.extend(utf8_percent_encode(selector, NON_ALPHANUMERIC));
            }
        }
        let what = &*format!("list {}{}", resource.as_str(), list.place);
        let get = |uri: String| async move { self.answer(resource, &uri, what).await };
        let read = pages::read(list.path, &query, size, self.silence, get, |items, errors| {
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
    async fn answer(&self, resource: ReadResource, uri: &str, what: &str) -> Result<Answer, Cause> {
        let tries = self.tries(resource, uri);
        let body = match &self.slow {
            Some(telling) => telling.during(what, tries).await?,
            None => tries.await?,
        };
        let telling = self.slow.clone().map(|telling| (telling, what.to_owned()));
        Ok(Answer::new(body, telling))
    }

    async fn tries(&self, resource: ReadResource, uri: &str) -> Result<Body, Cause> {
        let mut tries = 1;
        loop {
            let (wait, cause) = match within(self.silence, self.ask(resource, uri)).await {
                Ok(Ok(body)) => return Ok(body),
                Ok(Err((Some(wait), cause))) if tries < TRIES => (wait, cause),
                Ok(Err((_, cause))) => return Err(cause),
                Err(silent) => return Err(silent.into()),
            };
            tracing::debug!(%cause, seconds = wait.as_secs(), "the API server is busy; the request is retried");
            sleep(wait.min(LONGEST_PAUSE)).await;
            tries += 1;
        }
    }

    /// Sends a request once. With a refusal, returns the pause after which another try is worthwhile, if one is.
    async fn ask(&self, resource: ReadResource, uri: &str) -> Result<Body, (Option<Duration>, Cause)> {
        let accept = match resource {
            ReadResource::Kind(_) => Form::Whole.accept(),
            ReadResource::Lease | ReadResource::Namespace => &http::JSON,
        };
        let read = http::read(&self.client, uri, accept).await;
        let (head, status) = match read.map_err(|error| (None, error.into()))? {
            Ok(body) => return Ok(body),
            Err(refusal) => refusal,
        };
        let busy = matches!(
            head.code,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        );
        let wait = head.pause(&status).unwrap_or(Duration::from_secs(1));
        Err((busy.then_some(wait), Cause::answered(&head, status)))
    }
}
