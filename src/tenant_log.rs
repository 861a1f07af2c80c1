//! Rate limits for log lines that a namespace's owner can cause: each namespace has a share, so that one that causes
//! ten thousand lines does not bury the lines about others.
//!
//! There is one log, so the limits are global to the process, as the subscriber and the recorder of metrics are.

use crate::core::log_shares::{LeftOut, LogShares};
use crate::metrics::LogMetrics;
use parking_lot::Mutex;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often to check whether a summary is due.
const TICK: Duration = Duration::from_secs(5);

struct Shared {
    start: Instant,
    shares: Mutex<State>,
}

#[derive(Default)]
struct State {
    shares: LogShares,
    /// Shares for lines that are rare and that people look for: other lines do not use them up.
    rare: LogShares,
    /// Suppressed lines that the metric does not count yet.
    uncounted: u64,
}

static LOG: LazyLock<Shared> = LazyLock::new(|| Shared {
    start: Instant::now(),
    shares: Mutex::default(),
});

fn now() -> Duration {
    Instant::now().saturating_duration_since(LOG.start)
}

/// Returns whether a line about a namespace may be logged now. Call it once for each line, right before it: a
/// suppressed line is counted, and reported in a summary.
pub(crate) fn admits(namespace: &str) -> bool {
    let mut state = LOG.shares.lock();
    let admitted = state.shares.take(namespace, now());
    state.uncounted += u64::from(!admitted);
    admitted
}

/// Does what [`admits`] does, for a line that is rare and that people look for.
pub(crate) fn admits_rare(namespace: &str) -> bool {
    let mut state = LOG.shares.lock();
    let admitted = state.rare.take(namespace, now());
    state.uncounted += u64::from(!admitted);
    admitted
}

/// Logs once a minute how many lines about a namespace were suppressed. Never returns.
pub(crate) async fn keep() {
    let metrics = LogMetrics::new();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let (left_out, uncounted) = {
            let mut state = LOG.shares.lock();
            let mut left_out = state.shares.summaries(now());
            left_out.extend(state.rare.summaries(now()));
            (left_out, std::mem::take(&mut state.uncounted))
        };
        metrics.left_out(uncounted);
        say(left_out);
    }
}

/// Logs the suppressed lines that were not reported yet, when the process ends.
pub(crate) fn finish() {
    let left_out = {
        let mut state = LOG.shares.lock();
        let mut left_out = state.shares.finish();
        left_out.extend(state.rare.finish());
        left_out
    };
    say(left_out);
}

fn say(left_out: Vec<LeftOut>) {
    for LeftOut { namespace, lines } in left_out {
        match namespace {
            Some(namespace) => {
                tracing::warn!(%namespace, lines, "log lines about this namespace exceeded its share and were left out");
            }
            None => {
                tracing::warn!(
                    lines,
                    "log lines about further namespaces were left out, because too many namespaces exceeded their share"
                );
            }
        }
    }
}
