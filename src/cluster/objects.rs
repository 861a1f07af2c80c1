//! Requests for single objects, and what their answers mean.

use super::client_error::ClientError;
use super::decode::{self, Namespaced};
use super::fence::{Closed, Fence};
use super::wire::Status;
use super::{ACCEPT_JSON, ACCEPT_METADATA};
use crate::core::body::Request;
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::namespace::{Content, Outcome};
use crate::core::object::{ObjectName, Output, Remote};
use crate::tenant_log;
use bytes::Bytes;
use http::{Method, StatusCode, header};
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
    /// Whether the fence was closed before there was an answer.
    pub fenced: bool,
}

impl Answer {
    /// Of a request that was not sent, since nothing may be written any more.
    pub fn unsent() -> Self {
        Self {
            outcome: Outcome::Refused,
            why: None,
            quiet: None,
            took: Duration::ZERO,
            fenced: true,
        }
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

    /// Sends the request for an object and waits for the answer.
    pub async fn carry_out(&self, namespace: &str, object: &ObjectName, request: Request) -> Answer {
        let ObjectName { output, name } = object;
        let start = Instant::now();
        let (verb, kind) = match &request {
            Request::Create(_) => (Method::POST, Sent::Create),
            Request::Update(_) => (Method::PUT, Sent::Update),
            Request::Delete(_) => (Method::DELETE, Sent::Delete),
            Request::Fetch => (Method::GET, Sent::Fetch),
            Request::Probe => (Method::GET, Sent::Probe),
        };
        let mut fenced = false;
        let (outcome, why, quiet) = match timeout(
            self.deadline,
            self.exchange(namespace, object, verb, request),
        )
        .await
        {
            Ok(Ok((code, retry_after, body))) => {
                let (outcome, status) = judge(kind, *output, code, &body);
                if let Some(status) = status.as_ref().filter(|_| matters(&outcome))
                    && tenant_log::admits(namespace)
                {
                    tracing::warn!(%namespace, kind = %output, %name, request = ?kind, code = code.as_u16(), reason = %status.reason,
                        message = %status.message, "the API server refused a request; it will be tried again");
                }
                let why = status.as_ref().map(|status| status.message.as_str().into());
                let quiet = retry_after.or_else(|| status?.details?.retry_after_seconds);
                let asked = code == StatusCode::TOO_MANY_REQUESTS || code == StatusCode::SERVICE_UNAVAILABLE;
                // A server that asks for an hour of silence is not believed.
                (
                    outcome,
                    why,
                    quiet
                        .filter(|_| asked)
                        .map(|seconds| Duration::from_secs(seconds.min(30))),
                )
            }
            Ok(Err(Failure::Closed)) => {
                tracing::debug!(%namespace, kind = %output, %name, request = ?kind, "the lease was lost before a request was answered");
                fenced = true;
                (Outcome::Unknown, None, None)
            }
            Ok(Err(Failure::Client(error))) => {
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, kind = %output, %name, request = ?kind, %error, "a request failed; it will be tried again");
                }
                (Outcome::Unknown, None, None)
            }
            Err(_) => {
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, kind = %output, %name, request = ?kind, deadline = ?self.deadline,
                        "a request was not answered in time; it will be tried again");
                }
                (Outcome::Unknown, None, None)
            }
        };
        Answer {
            outcome,
            why,
            quiet,
            took: Instant::now().saturating_duration_since(start),
            fenced,
        }
    }

    async fn exchange(
        &self,
        namespace: &str,
        object: &ObjectName,
        verb: Method,
        request: Request,
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
            self.fence.guard(sent).await??
        };
        let (head, body) = response.into_parts();
        let retry_after = head
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        Ok((head.status, retry_after, body.collect_bytes().await?))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Create,
    Update,
    Delete,
    Fetch,
    Probe,
}

/// Whether people should hear of a refusal. Conflicts and missing objects are everyday things.
fn matters(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected | Outcome::Unknown)
}

/// What an answer means. The status is that of a refusal.
fn judge(sent: Sent, output: Output, code: StatusCode, body: &[u8]) -> (Outcome, Option<Status>) {
    if code.is_success() {
        return (accepted(sent, output, body), None);
    }
    let status = decode::status(code.as_u16(), body);
    let causes = status
        .details
        .iter()
        .flat_map(|details| details.causes.iter().flatten());
    let terminating = causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating");
    let outcome = match (code, sent) {
        (StatusCode::CONFLICT, Sent::Create) if status.reason == "AlreadyExists" => Outcome::Exists,
        (StatusCode::CONFLICT, _) => Outcome::Conflict,
        // Of a create, it is the namespace that is missing.
        (StatusCode::NOT_FOUND, Sent::Create) => Outcome::Terminating,
        (StatusCode::NOT_FOUND, _) => Outcome::NotFound,
        (StatusCode::FORBIDDEN, _) if terminating => Outcome::Terminating,
        (StatusCode::TOO_MANY_REQUESTS, _) => Outcome::Refused,
        (code, _) if code.is_client_error() && code != StatusCode::REQUEST_TIMEOUT => Outcome::Rejected,
        _ => Outcome::Unknown,
    };
    (outcome, Some(status))
}

fn accepted(sent: Sent, output: Output, body: &[u8]) -> Outcome {
    match sent {
        Sent::Probe => Outcome::Exists,
        Sent::Delete => Outcome::Deleted,
        Sent::Create | Sent::Update => match decode::written(body) {
            Ok((uid, version)) => Outcome::Written(Remote { uid, version }),
            Err(_) => Outcome::Unknown,
        },
        Sent::Fetch if output == Output::Endpoints => {
            match decode::object::<Namespaced<EndpointsFacts>>(body) {
                Ok(endpoints) => Outcome::Fetched(Content::Endpoints(Box::new(endpoints.facts))),
                Err(_) => Outcome::Unknown,
            }
        }
        Sent::Fetch => match (
            decode::is_ours(body),
            decode::object::<Namespaced<SliceFacts>>(body),
        ) {
            (Ok(false), _) => Outcome::Foreign,
            (Ok(true), Ok(slice)) => Outcome::Fetched(Content::Slice(Box::new(slice.facts))),
            _ => Outcome::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(reason: &str, cause: &str) -> Vec<u8> {
        serde_json::json!({"kind": "Status", "reason": reason, "details": {"causes": [{"reason": cause}]}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn refusals_mean_what_they_mean() {
        let judge = |sent, code: u16, body: &[u8]| {
            judge(sent, Output::Slice, StatusCode::from_u16(code).unwrap(), body).0
        };
        assert_eq!(
            judge(Sent::Create, 409, &status("AlreadyExists", "")),
            Outcome::Exists
        );
        assert_eq!(
            judge(Sent::Update, 409, &status("Conflict", "")),
            Outcome::Conflict
        );
        assert_eq!(
            judge(Sent::Delete, 409, &status("Conflict", "")),
            Outcome::Conflict
        );
        assert_eq!(
            judge(Sent::Create, 403, &status("Forbidden", "NamespaceTerminating")),
            Outcome::Terminating
        );
        assert_eq!(
            judge(Sent::Create, 403, &status("Forbidden", "")),
            Outcome::Rejected
        );
        assert_eq!(
            judge(Sent::Create, 404, &status("NotFound", "")),
            Outcome::Terminating
        );
        assert_eq!(
            judge(Sent::Update, 404, &status("NotFound", "")),
            Outcome::NotFound
        );
        assert_eq!(
            judge(Sent::Update, 422, &status("Invalid", "")),
            Outcome::Rejected
        );
        assert_eq!(
            judge(Sent::Update, 429, b"Too many requests, please try again later."),
            Outcome::Refused
        );
        assert_eq!(judge(Sent::Update, 500, b""), Outcome::Unknown);
        assert_eq!(judge(Sent::Update, 504, &status("Timeout", "")), Outcome::Unknown);
        assert_eq!(
            judge(Sent::Update, 200, b"{}"),
            Outcome::Unknown,
            "an answer without a version says nothing"
        );
    }
}
