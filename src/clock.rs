//! The one reading of the clock that most modules need. The core has no clock: it is handed times.

use std::time::Duration;
use tokio::time::Instant;

/// Returns the time that has passed since then, or zero if the clock has moved back.
pub(crate) fn since(then: Instant) -> Duration {
    Instant::now().saturating_duration_since(then)
}
