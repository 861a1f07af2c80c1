//! Waits until the controller has got everything right.

use crate::observe::watch::Seen;
use crate::oracle::Report;
use std::time::Duration;
use tokio::time::Instant;

/// Outputs that did not change for so long are worth a look, unless some are known to be missing.
const QUIET: Duration = Duration::from_millis(300);
/// Outputs of which some are missing are worth a look when they did not change for so long.
const STALLED: Duration = Duration::from_secs(3);
/// The longest pause between looks; each costs as much as a list of everything. A look that took longer is followed by a
/// pause as long as it took.
const MAX_PAUSE: Duration = Duration::from_secs(3);

/// How it ended.
pub(crate) struct Settled {
    /// The findings of the last look: nothing wrong, unless time ran out.
    pub(crate) report: Report,
    /// When an output changed last.
    pub(crate) last_change: Instant,
}

/// Waits until a check finds nothing wrong with outputs that keep still, or until the time is up: then the last look begins,
/// so that what it finds is what the controller had not done by then. `is_missing` says without a look whether fewer outputs
/// have been seen than there must be.
pub(crate) async fn settle(
    seen: &Seen,
    limit: Duration,
    is_missing: impl Fn() -> bool,
    check: impl AsyncFn() -> anyhow::Result<Report>,
) -> anyhow::Result<Settled> {
    let deadline = Instant::now() + limit;
    let mut pause = QUIET;
    loop {
        let last_change = seen.last_change();
        let now = Instant::now();
        let quiet = if is_missing() { STALLED } else { QUIET };
        let quiet_at = (last_change + quiet).min(deadline);
        if quiet_at > now {
            // Sooner than that what is missing may have come.
            tokio::time::sleep_until(quiet_at.min(now + QUIET)).await;
            continue;
        }
        let report = check().await?;
        if report.is_correct() || now >= deadline {
            return Ok(Settled { report, last_change });
        }
        let took = Instant::now().saturating_duration_since(now);
        let left = deadline.saturating_duration_since(Instant::now());
        tokio::time::sleep(pause.max(took).min(left)).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{Difference, Problem};
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::time::sleep;

    fn found(problem: &str) -> Report {
        let mut report = Report::default();
        report.differences.push(Difference {
            namespace: String::new(),
            service: String::new(),
            family: None,
            ports: None,
            subject: problem.to_owned(),
            problem: Problem::Missing,
        });
        report
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_tells_of_a_look_that_began_when_time_was_up() {
        let (start, seen) = (Instant::now(), Seen::new());
        let limit = Duration::from_secs(60);
        let check = async || {
            let began = Instant::now().saturating_duration_since(start);
            sleep(Duration::from_secs(50)).await;
            Ok(found(&format!("{}", began.as_secs())))
        };
        let settled = settle(&seen, limit, || false, check).await.unwrap();
        assert_eq!(settled.report.differences[0].subject, "60");
    }

    #[tokio::test(start_paused = true)]
    async fn outputs_of_which_some_are_missing_are_not_looked_at_while_others_come() {
        let (start, seen) = (Instant::now(), Seen::new());
        let looks = AtomicU32::new(0);
        let coming = async {
            for _ in 0..20 {
                sleep(Duration::from_secs(2)).await;
                seen.changed(Instant::now());
            }
            std::future::pending::<()>().await;
        };
        let is_missing = || Instant::now() < start + Duration::from_secs(39);
        let check = async || {
            looks.fetch_add(1, Ordering::Relaxed);
            Ok(Report::default())
        };
        let settled = tokio::select! {
            settled = settle(&seen, Duration::from_secs(60), is_missing, check) => settled.unwrap(),
            () = coming => unreachable!("it does not end"),
        };
        assert!(settled.report.is_correct());
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        assert!(Instant::now() < start + Duration::from_secs(41));
    }
}
