//! Requests for single objects, and the interpretation of their answers.

mod judge;

use super::client_error::ClientError;
use super::fence::{Closed, Fence};
use super::http::{self, Head};
use crate::core::body::Request;
use crate::core::leadership::Term;
use crate::core::namespace::{Kind, Outcome};
use crate::core::object::{ObjectName, Output};
use crate::core::publish::Load;
use crate::tenant_log;
use ::http::{Method, StatusCode};
use bytes::Bytes;
use judge::{Asked, Verb, judge};
use kube::Client;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The server's answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The outcome for the object.
    pub outcome: Outcome,
    /// The server's message on a refusal.
    pub why: Option<Box<str>>,
    /// The pause that the server asks for.
    pub quiet: Option<Duration>,
    /// The duration of the request.
    pub took: Duration,
    /// The load on the server, as far as the answer shows it.
    pub load: Load,
}

impl Answer {
    /// Creates the answer to a request that may or may not have been carried out.
    fn unknown(load: Load) -> Self {
        Self {
            outcome: Outcome::Unknown,
            why: None,
            quiet: None,
            took: Duration::ZERO,
            load,
        }
    }

    /// Creates the answer to a request that was not sent, since this process may not write any more.
    pub fn unsent() -> Self {
        Self {
            outcome: Outcome::Throttled,
            why: None,
            quiet: None,
            took: Duration::ZERO,
            load: Load::Unknown,
        }
    }
}

/// Derives the server's load from a status. A failure of one request (500) says nothing about load: its cause may lie
/// in the object alone.
fn load_of(code: StatusCode) -> Load {
    match code {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Load::Overloaded,
        // From a gateway, or from a server that gave up on the request.
        StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            Load::Unanswered
        }
        _ => Load::Answered,
    }
}

/// Reasons for the lack of an answer.
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

/// Sends requests for objects. Its client must not retry by itself: a create that is repeated blindly can leave two
/// slices, and the writer has to see every 429.
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
    /// Creates a client. A request is given up after `deadline`; it may have been carried out all the same.
    pub fn new(client: Client, deadline: Duration) -> Self {
        Self {
            client,
            deadline,
            fence: Fence::open(),
        }
    }

    /// Puts the client behind a fence: it writes nothing while the fence is closed.
    #[must_use]
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// Returns the term in which requests may be sent now, if they may.
    pub fn term(&self) -> Term {
        self.fence.term()
    }

    /// Sends the request for an object that was granted in a term, if that is still the current one, and waits for the
    /// answer.
    pub async fn carry_out(
        &self,
        namespace: &str,
        object: &ObjectName,
        request: Request,
        term: Term,
    ) -> Answer {
        let start = Instant::now();
        let asked = Asked {
            verb: Verb::of(&request),
            bytes: request.size(),
            output: object.output,
            namespace,
            name: &object.name,
        };
        let exchanged = self.exchange(&asked, request, term);
        let answer = match timeout(self.deadline, exchanged).await {
            Ok(Ok((head, body))) => answered(&asked, head, &body),
            Ok(Err(failure)) => failed(&asked, &failure),
            Err(_) => self.silent(&asked),
        };
        Answer {
            took: Instant::now().saturating_duration_since(start),
            ..answer
        }
    }

    async fn exchange(
        &self,
        asked: &Asked<'_>,
        request: Request,
        term: Term,
    ) -> Result<(Head, Bytes), Failure> {
        let kind = match (asked.output, asked.verb) {
            (_, Verb::Probe) => Kind::Service,
            (Output::Slice, _) => Kind::Slice,
            (Output::Endpoints, _) => Kind::Endpoints,
        };
        let collection = http::collection(kind, Some(asked.namespace));
        let object = format!("{collection}/{}", asked.name);
        // Only the UID and version of a written object are news, so the server need not send all of it back.
        let write = |method, uri: &str, body| http::write(method, uri, http::METADATA, http::JSON, body);
        let request = match request {
            Request::Create(body) => write(Method::POST, &collection, body)?,
            Request::Update(body) => write(Method::PUT, &object, body)?,
            Request::Delete(preconditions) => {
                let options = serde_json::json!({ "preconditions": preconditions });
                let body = (!preconditions.is_empty()).then(|| options.to_string().into_bytes());
                write(Method::DELETE, &object, body.unwrap_or_default())?
            }
            Request::Fetch => http::get(&object, http::JSON)?,
            Request::Probe => http::get(&object, http::METADATA)?,
        };
        let reads = request.method() == Method::GET;
        let sent = http::send(&self.client, request);
        let (head, body) = if reads {
            sent.await?
        } else {
            self.fence.guard(term, sent).await??
        };
        Ok((head, body.collect_bytes().await?))
    }

    /// Handles a request without an answer before its deadline.
    fn silent(&self, asked: &Asked<'_>) -> Answer {
        let Asked {
            verb,
            output,
            namespace,
            name,
            ..
        } = asked;
        if tenant_log::admits(namespace) {
            tracing::warn!(%namespace, kind = %output, %name, request = ?verb, deadline = ?self.deadline,
                "the API server did not answer a request in time; it is retried");
        }
        Answer::unknown(Load::Unanswered)
    }
}

/// Interprets the server's answer.
fn answered(asked: &Asked<'_>, head: Head, body: &[u8]) -> Answer {
    let Asked {
        verb,
        output,
        namespace,
        name,
        ..
    } = asked;
    let code = head.code;
    let (outcome, status) = judge(asked, code, body);
    if let Some(status) = status.as_ref().filter(|_| matters(&outcome))
        && tenant_log::admits(namespace)
    {
        tracing::warn!(%namespace, kind = %output, %name, request = ?verb, code = code.as_u16(), reason = %status.reason,
            message = %status.message, "the API server refused a request; it is retried");
    }
    let why = status.as_ref().map(|status| status.message.as_str().into());
    let quiet = head
        .retry_after
        .or_else(|| status?.details?.retry_after_seconds)
        .filter(|_| code == StatusCode::TOO_MANY_REQUESTS || code == StatusCode::SERVICE_UNAVAILABLE);
    Answer {
        outcome,
        why,
        // Cap the pause, in case a server asks for an hour.
        quiet: quiet.map(|seconds| Duration::from_secs(seconds.min(30))),
        took: Duration::ZERO,
        load: load_of(code),
    }
}

/// Handles a request that could not be sent, or whose answer could not be read.
fn failed(asked: &Asked<'_>, failure: &Failure) -> Answer {
    let Asked {
        verb,
        output,
        namespace,
        name,
        ..
    } = asked;
    match failure {
        Failure::Closed => {
            tracing::debug!(%namespace, kind = %output, %name, request = ?verb, "the lease was lost before a request was answered");
            Answer::unknown(Load::Unknown)
        }
        Failure::Client(error) => {
            if tenant_log::admits(namespace) {
                tracing::warn!(%namespace, kind = %output, %name, request = ?verb, %error, "a request failed; it is retried");
            }
            Answer::unknown(Load::Unanswered)
        }
    }
}

/// Returns whether a refusal is worth a warning. Conflicts and missing objects are routine.
fn matters(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected | Outcome::Unknown)
}
