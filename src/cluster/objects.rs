//! Requests for single objects, and what their answers mean.

mod judge;

use super::client_error::ClientError;
use super::fence::{Closed, Fence};
use super::{ACCEPT_JSON, ACCEPT_METADATA};
use crate::core::body::Request;
use crate::core::leadership::Term;
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectName, Output};
use crate::core::publish::Load;
use crate::tenant_log;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use judge::{Asked, Verb, judge};
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The server's answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What it means for the object.
    pub outcome: Outcome,
    /// What the server said of a refusal.
    pub why: Option<Box<str>>,
    /// How long the server asks us to be quiet.
    pub quiet: Option<Duration>,
    /// How long it took.
    pub took: Duration,
    /// What it tells of the server's load.
    pub load: Load,
}

impl Answer {
    /// Of a request that was not sent, since nothing may be written any more.
    pub fn unsent() -> Self {
        Self {
            outcome: Outcome::Refused,
            why: None,
            quiet: None,
            took: Duration::ZERO,
            load: Load::Unknown,
        }
    }
}

/// What a status tells of the server's load. That one request cannot be carried out (500) tells nothing of it: the
/// reason may lie in its object alone.
fn load_of(code: StatusCode) -> Load {
    match code {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Load::Overloaded,
        // By a gateway, or by a server that gave the request up.
        StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            Load::Unanswered
        }
        _ => Load::Answered,
    }
}

/// Why there is no answer.
enum Failure {
    Client(ClientError),
    Closed,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Client(error.into())
    }
}

impl From<Closed> for Failure {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// Carries out requests. Its client must not retry by itself: a create that is repeated blindly can leave two
/// slices, and the writer wants to see every 429.
#[derive(Clone)]
pub struct ObjectClient {
    client: Client,
    deadline: Duration,
    fence: Fence,
}

impl fmt::Debug for ObjectClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectClient")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl ObjectClient {
    /// Each request is given up after `deadline`; whether it was carried out is then not known.
    pub fn new(client: Client, deadline: Duration) -> Self {
        Self {
            client,
            deadline,
            fence: Fence::open(),
        }
    }

    /// Nothing is written any more while this fence is closed.
    #[must_use]
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// The term in which requests may be sent now, if they may.
    pub fn term(&self) -> Term {
        self.fence.term()
    }

    /// Sends the request for an object that was granted in a term, if that is still the present one, and waits for the
    /// answer.
    pub async fn carry_out(
        &self,
        namespace: &str,
        object: &ObjectName,
        request: Request,
        term: Term,
    ) -> Answer {
        let ObjectName { output, name } = object;
        let start = Instant::now();
        let (method, verb) = match &request {
            Request::Create(_) => (Method::POST, Verb::Create),
            Request::Update(_) => (Method::PUT, Verb::Update),
            Request::Delete(_) => (Method::DELETE, Verb::Delete),
            Request::Fetch => (Method::GET, Verb::Fetch),
            Request::Probe => (Method::GET, Verb::Probe),
        };
        let bytes = match &request {
            Request::Create(body) | Request::Update(body) => body.len(),
            Request::Delete(_) | Request::Fetch | Request::Probe => 0,
        };
        let asked = Asked {
            verb,
            bytes,
            output: *output,
            namespace,
            name,
        };
        let load;
        let (outcome, why, quiet) = match timeout(
            self.deadline,
            self.exchange(namespace, object, method, request, term),
        )
        .await
        {
            Ok(Ok((code, retry_after, body))) => {
                load = load_of(code);
                let (outcome, status) = judge(&asked, code, &body);
                if let Some(status) = status.as_ref().filter(|_| matters(&outcome))
                    && tenant_log::admits(namespace)
                {
                    tracing::warn!(%namespace, kind = %output, %name, request = ?verb, code = code.as_u16(), reason = %status.reason,
                        message = %status.message, "the API server refused a request; it will be tried again");
                }
                let why = status.as_ref().map(|status| status.message.as_str().into());
                let quiet = retry_after.or_else(|| status?.details?.retry_after_seconds);
                let asks = code == StatusCode::TOO_MANY_REQUESTS || code == StatusCode::SERVICE_UNAVAILABLE;
                // A server that asks for an hour of silence is not believed.
                (
                    outcome,
                    why,
                    quiet
                        .filter(|_| asks)
                        .map(|seconds| Duration::from_secs(seconds.min(30))),
                )
            }
            Ok(Err(Failure::Closed)) => {
                tracing::debug!(%namespace, kind = %output, %name, request = ?verb, "the lease was lost before a request was answered");
                load = Load::Unknown;
                (Outcome::Unknown, None, None)
            }
            Ok(Err(Failure::Client(error))) => {
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, kind = %output, %name, request = ?verb, %error, "a request failed; it will be tried again");
                }
                load = Load::Unanswered;
                (Outcome::Unknown, None, None)
            }
            Err(_) => {
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, kind = %output, %name, request = ?verb, deadline = ?self.deadline,
                        "a request was not answered in time; it will be tried again");
                }
                load = Load::Unanswered;
                (Outcome::Unknown, None, None)
            }
        };
        Answer {
            outcome,
            why,
            quiet,
            took: Instant::now().saturating_duration_since(start),
            load,
        }
    }

    async fn exchange(
        &self,
        namespace: &str,
        object: &ObjectName,
        verb: Method,
        request: Request,
        term: Term,
    ) -> Result<(StatusCode, Option<u64>, Bytes), Failure> {
        let ObjectName { output, name } = object;
        let collection = match (output, &request) {
            (_, Request::Probe) => format!("/api/v1/namespaces/{namespace}/services"),
            (Output::Slice, _) => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
            (Output::Endpoints, _) => format!("/api/v1/namespaces/{namespace}/endpoints"),
        };
        let uri = if verb == Method::POST {
            collection
        } else {
            format!("{collection}/{name}")
        };
        // Of what was written, only its UID and version are news: the server need not send all of it back.
        let accept = match request {
            Request::Fetch => ACCEPT_JSON,
            _ => ACCEPT_METADATA,
        };
        let body = match request {
            Request::Create(body) | Request::Update(body) => body,
            Request::Delete(preconditions) if !preconditions.is_empty() => {
                let options = serde_json::json!({ "preconditions": preconditions });
                options.to_string().into_bytes()
            }
            Request::Delete(_) | Request::Fetch | Request::Probe => Vec::new(),
        };
        let reads = verb == Method::GET;
        let mut builder = http::Request::builder()
            .method(verb)
            .uri(uri)
            .header(header::ACCEPT, accept);
        if !body.is_empty() {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
        }
        let request = builder.body(Body::from(body)).map_err(kube::Error::HttpError)?;
        let sent = self.client.send(request);
        let response = if reads {
            sent.await?
        } else {
            self.fence.guard(term, sent).await??
        };
        let (head, body) = response.into_parts();
        let retry_after = head
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        Ok((head.status, retry_after, body.collect_bytes().await?))
    }
}

/// Whether people should hear of a refusal. Conflicts and missing objects are everyday things.
fn matters(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected | Outcome::Unknown)
}
