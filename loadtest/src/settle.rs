//! Waits until the controller has got everything right.

use std::time::Duration;

use tokio::time::Instant;

use crate::{observe::watch::Seen, oracle::Report};

/// Outputs that did not change for so long are worth a look.
const QUIET: Duration = Duration::from_millis(300);
/// The longest pause between looks; each costs as much as a list of everything.
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// How it ended.
pub(crate) struct Settled {
    /// The findings of the last look: nothing wrong, unless time ran out.
    pub(crate) report: Report,
    /// When an output changed last.
    pub(crate) last_change: Instant,
}

/// Waits until a check finds nothing wrong with outputs that keep still, or until the time is up.
pub(crate) async fn settle(
    seen: &Seen,
    limit: Duration,
    check: impl AsyncFn() -> anyhow::Result<Report>,
) -> anyhow::Result<Settled> {
    let deadline = Instant::now() + limit;
    let mut pause = QUIET;
    loop {
        let last_change = seen.last_change();
        let quiet_at = last_change + QUIET;
        if quiet_at > Instant::now() && Instant::now() < deadline {
            tokio::time::sleep_until(quiet_at.min(deadline)).await;
            continue;
        }
        let report = check().await?;
        if report.is_correct() || Instant::now() >= deadline {
            return Ok(Settled { report, last_change });
        }
        tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}
