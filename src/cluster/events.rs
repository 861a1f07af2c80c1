//! Requests for Events, and the interpretation of their answers.

use super::codec;
use super::connect::client_error::ClientError;
use super::fence::Fence;
use super::http::{self, Head};
use super::silence::Silent;
use crate::core::events::{EventOutcome, EventRequest, EventWrite};
use ::http::{Method, StatusCode};
use bytes::Bytes;
use kube::Client;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of a request.
const DEADLINE: Duration = Duration::from_secs(10);

/// The server's answer to a request for an Event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventAnswer {
    /// The outcome.
    pub outcome: EventOutcome,
    /// The error to log, if it is worth logging. Refusals in a namespace that is being deleted are not.
    pub complaint: Option<String>,
}

/// Writes Events.
#[derive(Clone)]
pub struct EventClient {
    client: Client,
    fence: Fence,
}

impl fmt::Debug for EventClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventClient").finish_non_exhaustive()
    }
}

impl EventClient {
    /// Creates a client that writes through this one.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            fence: Fence::open(),
        }
    }

    /// Puts the client behind a fence: it writes nothing while the fence is closed.
    #[must_use]
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// Sends a request and waits for the answer.
    pub async fn carry_out(&self, write: &EventWrite) -> EventAnswer {
        let sent = self.fence.guard(self.fence.term(), self.exchange(write));
        let failed = |complaint| EventAnswer {
            outcome: EventOutcome::Failed {
                pause: None,
                alone: false,
            },
            complaint: Some(complaint),
        };
        match timeout(DEADLINE, sent).await {
            // The current leader records the same Events.
            Ok(Err(_)) => EventAnswer {
                outcome: EventOutcome::Rejected,
                complaint: None,
            },
            Ok(Ok(Ok((head, body)))) => {
                let patches = matches!(write.request, EventRequest::Patch(_));
                judge(&write.namespace, patches.then_some(&*write.name), &head, &body)
            }
            Ok(Ok(Err(error))) => failed(error.to_string()),
            Err(_) => failed(Silent(DEADLINE).to_string()),
        }
    }

    async fn exchange(&self, write: &EventWrite) -> Result<(Head, Bytes), ClientError> {
        let collection = http::events(&write.namespace);
        let request = match &write.request {
            EventRequest::Create(body) => {
                http::write(Method::POST, &collection, &http::JSON, &http::JSON, body.clone())
            }
            EventRequest::Patch(body) => {
                let uri = format!("{collection}/{}", write.name);
                http::write(Method::PATCH, &uri, &http::JSON, &http::MERGE_PATCH, body.clone())
            }
        };
        let (head, body) = http::send(&self.client, request?).await?;
        // On success the body is of no interest.
        let body = if head.code.is_success() {
            Bytes::new()
        } else {
            body.collect_bytes().await?
        };
        Ok((head, body))
    }
}

/// Interprets an answer. `patched` is the name of the Event, unless it was to be created.
fn judge(namespace: &str, patched: Option<&str>, head: &Head, body: &[u8]) -> EventAnswer {
    let code = head.code;
    if code.is_success() {
        return EventAnswer {
            outcome: EventOutcome::Written,
            complaint: None,
        };
    }
    let status = codec::status(code.as_u16(), body);
    let terminating = code == StatusCode::FORBIDDEN && status.is_of_terminating_namespace();
    let outcome = match code {
        StatusCode::CONFLICT if patched.is_none() && status.reason == "AlreadyExists" => EventOutcome::Exists,
        StatusCode::NOT_FOUND if patched.is_some() && status.missing() == patched => EventOutcome::NotFound,
        // On a create, what is not found is the namespace.
        StatusCode::NOT_FOUND if status.missing() == Some(namespace) => EventOutcome::Rejected,
        // Any other conflict is over by the time it is reported, and a 404 that names neither is from something that does
        // not know the path.
        StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_FOUND => {
            EventOutcome::Failed {
                pause: head.pause(&status),
                alone: true,
            }
        }
        code if code.is_client_error()
            && !matches!(code, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) =>
        {
            EventOutcome::Rejected
        }
        _ => EventOutcome::Failed {
            pause: head.pause(&status),
            alone: false,
        },
    };
    let missing = code == StatusCode::NOT_FOUND && status.missing().is_some();
    let routine = outcome == EventOutcome::Exists || missing || terminating;
    EventAnswer {
        outcome,
        complaint: (!routine).then(|| status.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventOutcome::{Exists, Failed, NotFound, Rejected, Written};

    #[test]
    fn answers_mean_what_they_mean() {
        let body = |reason: &str, cause: &str| {
            serde_json::json!({"kind": "Status", "reason": reason, "details": {"causes": [{"reason": cause}]}}).to_string()
        };
        let missing = |name: &str| {
            serde_json::json!({"kind": "Status", "reason": "NotFound", "details": {"name": name}}).to_string()
        };
        let alone = Failed {
            pause: None,
            alone: true,
        };
        let pause = Some(Duration::from_secs(7));
        for (create, code, retry_after, body, outcome, complains) in [
            (true, 201, None, String::new(), Written, false),
            (false, 200, None, String::new(), Written, false),
            (true, 409, None, body("AlreadyExists", ""), Exists, false),
            (
                true,
                409,
                None,
                body("Conflict", ""),
                Failed {
                    pause: None,
                    alone: true,
                },
                true,
            ),
            (
                false,
                409,
                None,
                body("Conflict", ""),
                Failed {
                    pause: None,
                    alone: true,
                },
                true,
            ),
            (true, 404, None, missing("ns"), Rejected, false),
            (false, 404, None, missing("ns"), Rejected, false),
            (false, 404, None, missing("e"), NotFound, false),
            // As an API server answers that does not know the path.
            (true, 404, None, body("NotFound", ""), alone, true),
            (false, 404, None, body("NotFound", ""), alone, true),
            (false, 404, None, "404 page not found".to_owned(), alone, true),
            (
                true,
                403,
                None,
                body("Forbidden", "NamespaceTerminating"),
                Rejected,
                false,
            ),
            (true, 403, None, body("Forbidden", ""), Rejected, true),
            (false, 422, None, body("Invalid", ""), Rejected, true),
            (true, 400, None, "nonsense".to_owned(), Rejected, true),
            (
                true,
                429,
                Some(7),
                "wait".to_owned(),
                Failed { pause, alone: false },
                true,
            ),
            (
                true,
                500,
                None,
                String::new(),
                Failed {
                    pause: None,
                    alone: true,
                },
                true,
            ),
            (
                true,
                503,
                Some(7),
                String::new(),
                Failed { pause, alone: false },
                true,
            ),
        ] {
            let code = StatusCode::from_u16(code).unwrap();
            let answer = judge(
                "ns",
                (!create).then_some("e"),
                &Head { code, retry_after },
                body.as_bytes(),
            );
            assert_eq!(answer.outcome, outcome, "{code} {body}");
            assert_eq!(answer.complaint.is_some(), complains, "{code} {body}");
        }
    }
}
