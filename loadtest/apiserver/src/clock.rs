//! Wall time derived from tokio's clock.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// Maps tokio's clock to wall time, so that a paused clock also stops the timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Timestamp,
    start: Instant,
}

impl Clock {
    pub(crate) fn new(wall: Option<Timestamp>) -> Self {
        Self {
            wall: wall.unwrap_or_else(Timestamp::now),
            start: Instant::now(),
        }
    }

    /// Returns the time since the start.
    pub(crate) fn offset(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    pub(crate) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.offset()).unwrap_or(SignedDuration::MAX);
        self.wall.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// The present in whole seconds, as the API writes `Time`.
    pub(crate) fn time(&self) -> String {
        self.time_in(0)
    }

    /// The present plus `seconds`.
    pub(crate) fn time_in(&self, seconds: i64) -> String {
        shift_seconds(self.now().as_second(), seconds)
    }
}

/// An RFC 3339 time moved by `seconds`; what is not a time stays as it is.
pub(crate) fn shift(time: &str, seconds: i64) -> String {
    match time.parse::<Timestamp>() {
        Ok(at) => shift_seconds(at.as_second(), seconds),
        Err(_) => time.to_owned(),
    }
}

fn shift_seconds(second: i64, by: i64) -> String {
    Timestamp::from_second(second.saturating_add(by))
        .unwrap_or(Timestamp::MAX)
        .to_string()
}
