//! Rate limits for log lines that a namespace's owner can cause: each namespace has a share, so that one that causes
//! ten thousand lines does not bury the lines about others.
//!
//! There is one log, so the limits are global to the process, as the subscriber and the recorder of metrics are.

use crate::clock;
use crate::core::log_shares::{LeftOut, LogShares};
use parking_lot::Mutex;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often to check whether a summary is due.
const TICK: Duration = Duration::from_secs(5);

struct Shared {
    start: Instant,
    shares: Mutex<[LogShares; Topic::ALL.len()]>,
}

static LOG: LazyLock<Shared> = LazyLock::new(|| Shared {
    start: Instant::now(),
    shares: Mutex::default(),
});

fn now() -> Duration {
    clock::since(LOG.start)
}

/// The topic of a line. A namespace has a share for each, so that lines about one topic do not use up those about
/// another, which users look for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Topic {
    /// Objects: what others did to them, and what cannot be published.
    Objects,
    /// Objects that are left to another client.
    Contested,
    /// Annotations that came or changed, or have no effect.
    Annotations,
    /// Slices that go because the annotations that they were published for do not count any more.
    Withdrawals,
}

impl Topic {
    const ALL: [Self; 4] = [
        Self::Objects,
        Self::Contested,
        Self::Annotations,
        Self::Withdrawals,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Contested => "contested objects",
            Self::Annotations => "annotations",
            Self::Withdrawals => "withdrawn slices",
        }
    }
}

/// Returns whether a line about an object in a namespace may be logged now. Call it once for each line, right before it: a
/// suppressed line is counted, and reported in a summary.
pub(crate) fn admits(namespace: &str) -> bool {
    admits_about(namespace, Topic::Objects)
}

/// Does what [`admits`] does, for a line about this topic.
pub(crate) fn admits_about(namespace: &str, topic: Topic) -> bool {
    LOG.shares.lock()[topic as usize].take(namespace, now())
}

/// Counts lines that were left out before it was asked whether they may be logged.
pub(crate) fn leave_out(namespace: &str, topic: Topic, lines: u64) {
    LOG.shares.lock()[topic as usize].leave_out(namespace, lines, now());
}

/// Logs once a minute how many lines about a namespace were suppressed. Never returns.
pub(crate) async fn keep() {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        say(LOG.shares.lock().each_mut().map(|shares| shares.summaries(now())));
    }
}

/// Logs the suppressed lines that were not reported yet, when the process ends.
pub(crate) fn finish() {
    say(LOG.shares.lock().each_mut().map(LogShares::finish));
}

/// Logs how many lines were suppressed of each topic, in the order of [`Topic::ALL`].
fn say(left_out: [Vec<LeftOut>; Topic::ALL.len()]) {
    let each = Topic::ALL.into_iter().zip(left_out);
    for (topic, LeftOut { namespace, lines }) in
        each.flat_map(|(topic, all)| all.into_iter().map(move |left_out| (topic, left_out)))
    {
        let about = topic.as_str();
        match namespace {
            Some(namespace) => {
                tracing::warn!(%namespace, lines, about, "log lines about this namespace exceeded its share and were left out");
            }
            None => {
                tracing::warn!(
                    lines,
                    about,
                    "log lines about further namespaces were left out, because too many namespaces exceeded their share"
                );
            }
        }
    }
}
