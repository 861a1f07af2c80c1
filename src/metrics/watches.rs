//! Metrics of lists and watches.

use super::catalogue::Cluster;
use crate::clock;
use crate::core::namespace::Kind;
use metrics::{Counter, Gauge};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Origin of the times here.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// By [`Kind::index`]: when the kind's watch last showed a sign of life, in milliseconds plus one; 0 while the kind is
/// not followed.
static SEEN: [AtomicU64; Kind::ALL.len()] = [const { AtomicU64::new(0) }; Kind::ALL.len()];

/// Metrics of one kind's list and watch. Clones share the counters.
#[derive(Clone, Debug)]
pub(crate) struct WatchMetrics {
    kind: Kind,
    /// Events watched.
    pub watched: Counter,
    /// Objects that could not be decoded.
    pub undecodable: Counter,
    /// Lists begun.
    pub lists: Counter,
}

impl WatchMetrics {
    /// Registers the metrics of a kind.
    pub(crate) fn new(kind: Kind) -> Self {
        let (cluster, resource) = (Cluster::default(), &[kind.as_str()]);
        Self {
            kind,
            watched: (cluster.watched)(resource),
            undecodable: (cluster.undecodable)(resource),
            lists: (cluster.lists)(resource),
        }
    }

    /// Records that the server has shown something, or that nothing is missing; and that the kind is followed from now on, so that
    /// a list that never succeeds is late from here on. That a watch was opened shows nothing: it may end at once, again and again.
    pub(crate) fn alive(&self) {
        let passed = clock::since(*START);
        SEEN[self.kind.index()].store(passed.as_millis() as u64 + 1, Ordering::Relaxed);
    }

    /// Records that the kind is not followed any more.
    pub(crate) fn left(&self) {
        SEEN[self.kind.index()].store(0, Ordering::Relaxed);
    }
}

/// Sets the lag of each kind's watch.
pub(super) fn refresh(lags: &[Gauge]) {
    let now = clock::since(*START);
    for (gauge, seen) in lags.iter().zip(&SEEN) {
        let lag = seen.load(Ordering::Relaxed).checked_sub(1).map(|seen| {
            // Never nought, which says that the kind is not followed.
            let lag = now.saturating_sub(Duration::from_millis(seen));
            lag.max(Duration::from_nanos(1))
        });
        gauge.set(lag.unwrap_or_default().as_secs_f64());
    }
}
