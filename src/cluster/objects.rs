//! Requests for single objects, and the interpretation of their answers.

mod judge;

use super::connect::client_error::ClientError;
use super::connect::transport::{Transport, read_all};
use super::fence::{Closed, Fence};
use super::http::{self, Form, Head};
use super::silence::Silent;
use crate::clock;
use crate::core::body::Request;
use crate::core::leadership::Term;
use crate::core::namespace::{Kind, Outcome};
use crate::core::object::{ObjectName, RequestKind};
use crate::core::publish::Load;
use crate::tenant_log::TenantLog;
use ::http::{Method, StatusCode};
use bytes::Bytes;
use judge::{Asked, Remark, judge};
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest pause that the server can ask for, in case it asks for an hour.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Logs something about a request, with the fields that say which.
macro_rules! log {
    ($level:ident, $asked:expr, $($rest:tt)+) => {
        tracing::$level!(namespace = %$asked.namespace, kind = %$asked.output, name = %$asked.name,
            request = ?$asked.verb, $($rest)+)
    };
}

/// The server's answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The outcome for the object.
    pub outcome: Outcome,
    /// The server's message on a refusal.
    pub why: Option<Box<str>>,
    /// The pause that the server asks for.
    pub pause: Option<Duration>,
    /// The duration of the request.
    pub took: Duration,
    /// The load on the server, as far as the answer shows it.
    pub load: Load,
}

impl Answer {
    /// Creates the answer to a request that was not answered, or not sent.
    fn missing(outcome: Outcome, load: Load) -> Self {
        Self {
            outcome,
            why: None,
            pause: None,
            took: Duration::ZERO,
            load,
        }
    }

    /// Creates the answer to a request that was not sent, since this process may not write any more.
    pub fn unsent() -> Self {
        Self::missing(Outcome::Throttled, Load::Unknown)
    }
}

/// The beginning of the message of each refusal by a webhook, whatever code and text the webhook chose (API server, 1.36).
const BY_WEBHOOK: &str = "admission webhook \"";

/// Derives the server's load from an answer. A failure of one request (500) says nothing about load: its cause may lie
/// in the object alone. A webhook may refuse with any code.
fn load_of(code: StatusCode, message: &str) -> Load {
    match code {
        code if !code.is_success() && message.starts_with(BY_WEBHOOK) => Load::Declined,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Load::Overloaded,
        // From a gateway, or from a server that gave up on the request.
        StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            Load::Unanswered
        }
        code if code.is_success() => Load::Answered,
        _ => Load::Declined,
    }
}

/// Reasons for the lack of an answer.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Client(ClientError),
    #[error("{0}")]
    Closed(#[from] Closed),
    #[error("{0}")]
    Silent(Silent),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Client(error.into())
    }
}

/// Sends requests for objects. Its transport must not retry by itself: a create that is repeated blindly can leave two
/// slices, and the writer has to see every 429.
#[derive(Clone)]
pub struct ObjectClient {
    transport: Transport,
    deadline: Duration,
    fence: Fence,
    log: TenantLog,
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
    pub fn new(transport: Transport, deadline: Duration, log: TenantLog) -> Self {
        Self {
            transport,
            deadline,
            fence: Fence::open(),
            log,
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
            verb: request.kind(),
            bytes: request.size(),
            output: object.output,
            namespace,
            name: &object.name,
        };
        let exchanged = timeout(self.deadline, self.exchange(&asked, request, term)).await;
        let answer = match exchanged.unwrap_or(Err(Failure::Silent(Silent(self.deadline)))) {
            Ok((head, body)) => answered(&asked, &head, &body, &self.log),
            Err(failure) => failed(&asked, &failure, &self.log),
        };
        Answer {
            took: clock::since(start),
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
            (_, RequestKind::Probe) => Kind::Service,
            (output, _) => Kind::from(output),
        };
        let collection = http::collection(kind, Some(asked.namespace));
        let object = [&*collection, "/", asked.name].concat();
        // Only the UID and version of a written object are news, so the server need not send all of it back.
        let metadata = Form::Metadata.accept();
        let write = |method, uri: &str, body| http::write(method, uri, metadata, &http::PROTOBUF, body);
        let request = match request {
            Request::Create(body) => write(Method::POST, &collection, body)?,
            Request::Update(body) => write(Method::PUT, &object, body)?,
            Request::Delete(preconditions) => {
                let options = serde_json::json!({ "preconditions": preconditions });
                let body = (!preconditions.is_empty()).then(|| options.to_string().into_bytes());
                http::write(
                    Method::DELETE,
                    &object,
                    metadata,
                    &http::JSON,
                    body.unwrap_or_default(),
                )?
            }
            Request::Fetch => http::get(&object, Form::Edited.accept())?,
            Request::Probe => http::get(&object, metadata)?,
        };
        let reads = request.method() == Method::GET;
        let sent = self.transport.send(request);
        let (head, body) = if reads {
            sent.await?
        } else {
            self.fence.guard(term, sent).await??
        };
        Ok((head, read_all(body).await?))
    }
}

/// Interprets the server's answer.
fn answered(asked: &Asked<'_>, head: &Head, body: &[u8], log: &TenantLog) -> Answer {
    let (outcome, remark) = judge(asked, head.code, body);
    let status = match remark {
        Some(Remark::Refused(status)) => Some(status),
        Some(Remark::Unreadable(error)) => {
            if log.admits(asked.namespace) {
                log!(warn, asked, code = head.code.as_u16(), %error,
                    "the answer to a request cannot be read; the object is read again");
            }
            None
        }
        None => None,
    };
    // Conflicts and missing objects are routine.
    if let Some(status) = &status
        && matches!(outcome, Outcome::Rejected | Outcome::Unknown)
        && log.admits(asked.namespace)
    {
        log!(warn, asked, code = head.code.as_u16(), reason = %status.reason, message = %status.message,
            "the API server refused a request; it is retried");
    }
    let waits = matches!(
        head.code,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let pause = status
        .as_ref()
        .filter(|_| waits)
        .and_then(|status| head.pause(status));
    let message = status.as_ref().map_or("", |status| &*status.message);
    let load = load_of(head.code, message);
    Answer {
        outcome,
        why: status.map(|status| status.message.into()),
        pause: pause.map(|pause| pause.min(LONGEST_PAUSE)),
        took: Duration::ZERO,
        load,
    }
}

/// Handles a request that could not be sent, or whose answer could not be read.
fn failed(asked: &Asked<'_>, failure: &Failure, log: &TenantLog) -> Answer {
    match failure {
        Failure::Closed(_) => {
            log!(debug, asked, "the lease was lost before a request was answered");
            return Answer::missing(Outcome::Unknown, Load::Unknown);
        }
        Failure::Client(_) | Failure::Silent(_) => {}
    }
    if log.admits(asked.namespace) {
        log!(warn, asked, error = %failure, "a request failed; it is retried");
    }
    Answer::missing(Outcome::Unknown, Load::Unanswered)
}

#[cfg(test)]
mod tests {
    use super::{Load, StatusCode, load_of};

    #[test]
    fn the_refusal_of_a_webhook_is_no_sign_of_the_servers_load() {
        let by_webhook = "admission webhook \"quota.example.com\" denied the request: too many requests";
        for (code, load) in [
            (StatusCode::TOO_MANY_REQUESTS, Load::Overloaded),
            (StatusCode::SERVICE_UNAVAILABLE, Load::Overloaded),
            (StatusCode::GATEWAY_TIMEOUT, Load::Unanswered),
            (StatusCode::REQUEST_TIMEOUT, Load::Unanswered),
            (StatusCode::INTERNAL_SERVER_ERROR, Load::Declined),
        ] {
            assert_eq!(load_of(code, "too many requests, please try again later"), load);
            assert_eq!(load_of(code, by_webhook), Load::Declined, "{code}");
        }
        assert_eq!(load_of(StatusCode::OK, ""), Load::Answered);
    }
}
