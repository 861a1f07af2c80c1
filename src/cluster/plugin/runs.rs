//! When a credential plugin is run, and what a request gets meanwhile. Holds no clock: times are arguments.

use super::Credential;
use crate::cluster::client_error::ClientError;
use crate::core::backoff::Retry;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// A credential is replaced when it is valid for no longer than this, or for half of the time that it was valid at first.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// After a run, the next one begins no sooner than this. A plugin whose clock is wrong returns credentials that have expired
/// already: they are used for this time, so that the plugin is not run for each request.
const BETWEEN: Duration = Duration::from_secs(5);
/// The pause after the first failure is that of an object's request after so many more: a run starts processes, and often asks a
/// service that others use too.
const HEAD_START: u8 = 3;

/// The runs of a plugin.
pub(super) struct Runs {
    /// The last credential, and when it has to be replaced.
    credential: Option<(Credential, Option<Timestamp>)>,
    /// When the run in progress began.
    running: Option<Instant>,
    /// When the last run ended, and the pause after it.
    last: Option<(Instant, Duration)>,
    /// Number of runs that failed in a row, and why the last one did.
    failures: u8,
    failed: Option<ClientError>,
}

/// The decision about a request that needs the credential.
pub(super) struct Next {
    /// True if the caller has to begin a run.
    pub(super) begins: bool,
    /// The answer that the request gets at once. Without it, it waits for the run in progress.
    pub(super) answer: Option<Result<Credential, ClientError>>,
    /// When the run in progress began, or now.
    pub(super) since: Instant,
}

impl Runs {
    /// Creates the state of a plugin that has not been run.
    pub(super) fn new() -> Self {
        Self {
            credential: None,
            running: None,
            last: None,
            failures: 0,
            failed: None,
        }
    }

    /// Decides what a request does now. `clock` is the time of day, by which credentials expire.
    pub(super) fn next(&mut self, now: Instant, clock: Timestamp) -> Next {
        let rests = self
            .last
            .is_some_and(|(ended, pause)| now.saturating_duration_since(ended) < pause);
        let credential = self.credential.as_ref();
        let fresh = credential.is_some_and(|(_, due)| due.is_none_or(|due| clock < due));
        let begins = !fresh && !rests && self.running.is_none();
        if begins {
            self.running = Some(now);
        }
        // Right after a run, its credential is used whatever its expiry time is.
        let just_made = rests && self.failed.is_none();
        let usable = credential.filter(|(credential, _)| {
            fresh || just_made || credential.expires.is_none_or(|expires| clock < expires)
        });
        let answer = match (usable, self.running, &self.failed) {
            (Some((credential, _)), ..) => Some(Ok(credential.clone())),
            (None, None, Some(error)) => Some(Err(error.clone())),
            (None, ..) => None,
        };
        Next {
            begins,
            answer,
            since: self.running.unwrap_or(now),
        }
    }

    /// Handles the end of the run. `random` (0 to 1) is for the pause after a failure.
    pub(super) fn ended(
        &mut self,
        result: Result<Credential, ClientError>,
        now: Instant,
        clock: Timestamp,
        random: f64,
    ) {
        self.running = None;
        let pause = match result {
            Ok(credential) => {
                let due = credential.expires.map(|expires| {
                    let valid = expires.duration_since(clock).max(SignedDuration::ZERO);
                    expires.saturating_sub(MARGIN.min(valid / 2)).unwrap_or(expires)
                });
                self.credential = Some((credential, due));
                (self.failures, self.failed) = (0, None);
                BETWEEN
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.failed = Some(error);
                let failures = self.failures.saturating_add(HEAD_START);
                Retry::After { failures }.delay(random)
            }
        };
        self.last = Some((now, pause));
    }
}
