//! The reasons why nothing could be read, for single reads, lists and watches alike.

use super::codec::{DecodeError, Status};
use super::connect::client_error::ClientError;
use super::http::Head;
use super::silence::Silent;
use std::time::Duration;

/// The reason why a read failed, or a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The server could not be reached, or the connection broke.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// This client has no permission.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// The server has no object of this name. A 404 that names none is a [`Self::Status`]: anything that does not know
    /// the path answers so, in these days with a `Status` of the same reason.
    #[error("not found: {message}")]
    NotFound {
        /// The name that the server says it does not find.
        name: String,
        /// The human-readable message.
        message: String,
    },
    /// The server no longer keeps the version that was asked for. A list that takes too long expires like this too.
    #[error("expired: the server no longer keeps the version that was asked for")]
    Expired,
    /// The server refused in another way.
    #[error("the server answered {code} {reason}: {message}")]
    Status {
        /// HTTP status.
        code: u16,
        /// The machine-readable reason.
        reason: String,
        /// The human-readable message.
        message: String,
        /// The pause that the server asks for, if it is too busy.
        pause: Option<Duration>,
    },
    /// An object, or the list around it, is malformed.
    #[error("malformed answer: {0}")]
    Malformed(String),
    /// The server did not answer in time.
    #[error("{0}")]
    Silent(#[from] Silent),
}

impl Cause {
    /// Creates the cause that the refusal of a request is.
    pub(super) fn answered(head: &Head, status: Status) -> Self {
        let pause = head.pause(&status);
        Self::of(head.code.as_u16(), status, pause)
    }

    /// Creates the cause that a status is, which did not come with a head of its own.
    pub(super) fn refused(code: u16, status: Status) -> Self {
        let pause = status.pause();
        Self::of(code, status, pause)
    }

    fn of(code: u16, status: Status, pause: Option<Duration>) -> Self {
        match (code, status.missing()) {
            (403, _) => Self::Forbidden(status.message),
            (404, Some(name)) => Self::NotFound {
                name: name.to_owned(),
                message: status.message,
            },
            (410, _) => Self::Expired,
            (code, _) => Self::Status {
                code,
                reason: status.reason,
                message: status.message,
                // 504 is a gateway's or an API server's that waited in vain for its cache.
                pause: pause.filter(|_| matches!(code, 429 | 503 | 504)),
            },
        }
    }

    /// Returns the pause that the server asks for before the same is asked of it again.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Status { pause, .. } => *pause,
            _ => None,
        }
    }

    /// Returns whether the server says that it has no object of this name.
    pub(super) fn is_missing(&self, asked: &str) -> bool {
        matches!(self, Self::NotFound { name, .. } if name == asked)
    }
}

impl From<kube::Error> for Cause {
    fn from(error: kube::Error) -> Self {
        Self::Client(error.into())
    }
}

impl From<DecodeError> for Cause {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::codec::status;
    use serde_json::json;

    fn cause(code: u16, details: &serde_json::Value) -> Cause {
        let reason = if code == 404 {
            "NotFound"
        } else {
            "TooManyRequests"
        };
        let body = json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code, "details": details});
        Cause::refused(code, status(code, body.to_string().as_bytes()))
    }

    #[test]
    fn a_path_that_is_not_known_was_taken_for_an_object_that_does_not_exist() {
        let unknown = cause(404, &json!(null));
        assert!(matches!(unknown, Cause::Status { code: 404, .. }), "{unknown}");
        assert!(!unknown.is_missing("s"));
        let missing = cause(404, &json!({"name": "s", "kind": "services"}));
        assert!(missing.is_missing("s") && !missing.is_missing("t"));
        let page = Cause::refused(404, status(404, b"404 page not found\n"));
        assert!(!page.is_missing("s"));
    }

    #[test]
    fn a_server_that_is_too_busy_says_for_how_long() {
        let details = json!({"retryAfterSeconds": 7});
        for code in [429, 503, 504] {
            assert_eq!(
                cause(code, &details).pause(),
                Some(Duration::from_secs(7)),
                "{code}"
            );
        }
        for code in [403, 404, 410, 500] {
            assert_eq!(cause(code, &details).pause(), None, "{code}");
        }
        assert_eq!(cause(429, &json!({})).pause(), None);
    }
}
