//! When a credential plugin is run, and what a request gets meanwhile. Holds no clock: times are arguments.

use super::Credential;
use crate::cluster::connect::client_error::ClientError;
use crate::core::backoff::Retry;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// A credential is replaced when it is valid for no longer than this, or for half of the time that it was valid at first.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// After a run, the next one begins no sooner than this. A plugin whose clock is wrong returns credentials that have expired
/// already: they are used for this time, so that the plugin is not run for each request.
const BETWEEN: Duration = Duration::from_secs(5);
/// A credential that the API server refuses within this time after it was made counts as one more refusal in a row: a plugin
/// whose credentials are never accepted must not be run in a loop.
const SHORT_LIVED: Duration = Duration::from_secs(600);
/// The pause after the first failure is that of an object's request after so many more: a run starts processes, and often asks a
/// service that others use too.
const HEAD_START: u8 = 3;

/// How long requests wait for the run that is to replace a refused credential. Then they go on with it: it may have been refused
/// by mistake, and a plugin that hangs until it is killed must not stop all requests meanwhile.
const WAIT: Duration = Duration::from_secs(2);

/// The runs of a plugin.
pub(super) struct Runs {
    /// The last credential, and when it has to be replaced.
    credential: Option<(Credential, Option<Timestamp>)>,
    /// True if the API server has refused the last credential.
    refused: bool,
    /// Number of credentials in a row that were refused soon after they were made.
    refusals: u8,
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
    /// When a request that waits asks again, although the run has not ended.
    pub(super) again: Option<Instant>,
}

impl Runs {
    /// Creates the state of a plugin that has not been run.
    pub(super) fn new() -> Self {
        Self {
            credential: None,
            refused: false,
            refusals: 0,
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
        let lasts = |time: Option<Timestamp>| time.is_none_or(|time| clock < time);
        let fresh = !self.refused && credential.is_some_and(|(_, due)| lasts(*due));
        let begins = !fresh && !rests && self.running.is_none();
        if begins {
            self.running = Some(now);
        }
        // Right after a run, its credential is used whatever its expiry time is.
        let just_made = rests && self.failed.is_none();
        // One that was refused is used while no successor is to be had soon, since the API server may have been wrong.
        let waits_until = self
            .running
            .map(|since| since + WAIT)
            .filter(|until| self.refused && self.failed.is_none() && now < *until);
        let stands = |credential: &Credential| lasts(credential.expires) && waits_until.is_none();
        let usable = credential.filter(|(credential, _)| fresh || just_made || stands(credential));
        let answer = match (usable, self.running, &self.failed) {
            (Some((credential, _)), ..) => Some(Ok(credential.clone())),
            (None, None, Some(error)) => Some(Err(error.clone())),
            (None, ..) => None,
        };
        Next {
            begins,
            answer,
            since: self.running.unwrap_or(now),
            again: waits_until,
        }
    }

    /// Handles an answer by which the API server does not accept a request with this header. Only the last credential counts: it
    /// may have taken the place of that of the request meanwhile.
    pub(super) fn refused(&mut self, header: &HeaderValue, now: Instant) {
        let current = self
            .credential
            .as_ref()
            .is_some_and(|(credential, _)| credential.header.as_ref() == Some(header));
        if !current || self.refused {
            return;
        }
        self.refused = true;
        let soon = self
            .last
            .is_some_and(|(ended, _)| now.saturating_duration_since(ended) < SHORT_LIVED);
        self.refusals = if soon { self.refusals.saturating_add(1) } else { 0 };
    }

    /// Returns whether a refused credential has no successor although the plugin was run for one.
    pub(super) fn is_stuck(&self) -> bool {
        self.refused && self.failures > 0
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
                (self.failures, self.failed, self.refused) = (0, None, false);
                let failures = self.refusals;
                let grown = match failures {
                    0 => Duration::ZERO,
                    _ => Retry::Slowly { failures }.delay(random),
                };
                grown.max(BETWEEN)
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
