//! The reasons why nothing could be read, for single reads, lists and watches alike.

use super::client_error::ClientError;
use super::codec::DecodeError;
use super::codec::Status;
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
    /// The object does not exist.
    #[error("not found: {0}")]
    NotFound(String),
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
        /// The message for people.
        message: String,
    },
    /// An object, or the list around it, is malformed.
    #[error("malformed answer: {0}")]
    Malformed(String),
    /// The server did not answer in time.
    #[error("{0}")]
    Silent(#[from] Silent),
}

/// The server has sent nothing for this long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no answer for {} s", .0.as_secs_f64())]
pub struct Silent(pub Duration);

impl Cause {
    /// Creates the cause that a refusal is.
    pub(super) fn refused(code: u16, status: Status) -> Self {
        match code {
            403 => Self::Forbidden(status.message),
            404 => Self::NotFound(status.message),
            410 => Self::Expired,
            code => Self::Status {
                code,
                reason: status.reason,
                message: status.message,
            },
        }
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
