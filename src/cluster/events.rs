//! Requests for Events, and what their answers mean.

use super::ACCEPT_JSON;
use super::client_error::ClientError;
use super::decode;
use super::fence::Fence;
use crate::core::events::{EventOutcome, EventRequest, EventWrite};
use http::{Method, StatusCode, header};
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// After how long a request is given up.
const DEADLINE: Duration = Duration::from_secs(10);

/// The server's answer to a request for an Event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventAnswer {
    /// What it means.
    pub outcome: EventOutcome,
    /// What people should know of it. There is nothing to know of a namespace that is being deleted.
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
    /// One that writes with this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            fence: Fence::open(),
        }
    }

    /// Nothing is written any more while this fence is closed.
    #[must_use]
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// Sends a request and waits for the answer.
    pub async fn carry_out(&self, write: &EventWrite) -> EventAnswer {
        match timeout(
            DEADLINE,
            self.fence.guard(self.fence.term(), self.exchange(write)),
        )
        .await
        {
            // Whoever leads now will say what is to be said.
            Ok(Err(_)) => EventAnswer {
                outcome: EventOutcome::Refused,
                complaint: None,
            },
            Ok(Ok(Ok((code, retry_after, body)))) => judge(
                matches!(write.request, EventRequest::Create(_)),
                code,
                retry_after,
                &body,
            ),
            Ok(Ok(Err(error))) => EventAnswer {
                outcome: EventOutcome::Failed {
                    quiet: None,
                    alone: false,
                },
                complaint: Some(error.to_string()),
            },
            Err(_) => EventAnswer {
                outcome: EventOutcome::Failed {
                    quiet: None,
                    alone: false,
                },
                complaint: Some(format!("no answer in {DEADLINE:?}")),
            },
        }
    }

    async fn exchange(&self, write: &EventWrite) -> Result<(StatusCode, Option<u64>, Vec<u8>), ClientError> {
        let collection = format!("/api/v1/namespaces/{}/events", write.namespace);
        let (method, uri, content, body) = match &write.request {
            EventRequest::Create(body) => (Method::POST, collection, "application/json", body),
            EventRequest::Patch(body) => (
                Method::PATCH,
                format!("{collection}/{}", write.name),
                "application/merge-patch+json",
                body,
            ),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header(header::ACCEPT, ACCEPT_JSON)
            .header(header::CONTENT_TYPE, content)
            .body(Body::from(body.clone()))?;
        let response = self.client.send(request).await?;
        let (head, body) = response.into_parts();
        let retry_after = head
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        // Of what was written, only that it was is of interest.
        let body = if head.status.is_success() {
            Vec::new()
        } else {
            body.collect_bytes().await?.to_vec()
        };
        Ok((head.status, retry_after, body))
    }
}

fn judge(create: bool, code: StatusCode, retry_after: Option<u64>, body: &[u8]) -> EventAnswer {
    let silent = |outcome| EventAnswer {
        outcome,
        complaint: None,
    };
    if code.is_success() {
        return silent(EventOutcome::Written);
    }
    let status = decode::status(code.as_u16(), body);
    let terminating = status
        .details
        .iter()
        .flat_map(|details| details.causes.iter().flatten())
        .any(|cause| cause.reason == "NamespaceTerminating");
    let retry_after = retry_after.or_else(|| status.details.as_ref()?.retry_after_seconds);
    let complaint = Some(format!("{} {}: {}", code.as_u16(), status.reason, status.message));
    match code {
        StatusCode::CONFLICT if create && status.reason == "AlreadyExists" => silent(EventOutcome::Exists),
        StatusCode::NOT_FOUND if !create => silent(EventOutcome::NotFound),
        // Of a create, it is the namespace that is missing.
        StatusCode::NOT_FOUND => silent(EventOutcome::Refused),
        StatusCode::FORBIDDEN if terminating => silent(EventOutcome::Refused),
        // Another conflict of a patch is over as soon as it is said.
        StatusCode::CONFLICT | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => EventAnswer {
            outcome: EventOutcome::Failed {
                quiet: retry_after.map(Duration::from_secs),
                alone: matches!(code, StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR),
            },
            complaint,
        },
        code if code.is_client_error() => EventAnswer {
            outcome: EventOutcome::Refused,
            complaint,
        },
        _ => EventAnswer {
            outcome: EventOutcome::Failed {
                quiet: retry_after.map(Duration::from_secs),
                alone: matches!(code, StatusCode::CONFLICT | StatusCode::INTERNAL_SERVER_ERROR),
            },
            complaint,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventOutcome::{Exists, Failed, NotFound, Refused, Written};

    #[test]
    fn answers_mean_what_they_mean() {
        let body = |reason: &str, cause: &str| {
            serde_json::json!({"kind": "Status", "reason": reason, "details": {"causes": [{"reason": cause}]}}).to_string()
        };
        let quiet = Some(Duration::from_secs(7));
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
                    quiet: None,
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
                    quiet: None,
                    alone: true,
                },
                true,
            ),
            (true, 404, None, body("NotFound", ""), Refused, false),
            (false, 404, None, body("NotFound", ""), NotFound, false),
            (
                true,
                403,
                None,
                body("Forbidden", "NamespaceTerminating"),
                Refused,
                false,
            ),
            (true, 403, None, body("Forbidden", ""), Refused, true),
            (false, 422, None, body("Invalid", ""), Refused, true),
            (true, 400, None, "nonsense".to_owned(), Refused, true),
            (
                true,
                429,
                Some(7),
                "wait".to_owned(),
                Failed { quiet, alone: false },
                true,
            ),
            (
                true,
                500,
                None,
                String::new(),
                Failed {
                    quiet: None,
                    alone: true,
                },
                true,
            ),
            (
                true,
                503,
                Some(7),
                String::new(),
                Failed { quiet, alone: false },
                true,
            ),
        ] {
            let code = StatusCode::from_u16(code).unwrap();
            let answer = judge(create, code, retry_after, body.as_bytes());
            assert_eq!(answer.outcome, outcome, "{code} {body}");
            assert_eq!(answer.complaint.is_some(), complains, "{code} {body}");
        }
    }
}
