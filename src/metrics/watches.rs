//! Metrics of lists and watches.

use crate::clock;
use crate::core::namespace::Kind;
use metrics::{Counter, Gauge, counter, gauge};
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
        let resource = kind.as_str();
        Self {
            kind,
            watched: counter!("endpointd_watch_events_total", "resource" => resource),
            undecodable: counter!("endpointd_decode_failures_total", "resource" => resource),
            lists: counter!("endpointd_lists_total", "resource" => resource),
        }
    }

    /// Records that the kind is followed from now on, before the server has shown anything. A list that never succeeds is late
    /// from here on.
    pub(crate) fn begins(&self) {
        self.alive();
    }

    /// Records that the server has shown something, or that nothing is missing. That a watch was opened shows nothing: it may end at once, again and again.
    pub(crate) fn alive(&self) {
        let passed = clock::since(*START);
        SEEN[self.kind.index()].store(passed.as_millis() as u64 + 1, Ordering::Relaxed);
    }

    /// Records that the kind is not followed any more.
    pub(crate) fn left(&self) {
        SEEN[self.kind.index()].store(0, Ordering::Relaxed);
    }
}

/// Gauges of the lag of each kind's watch.
pub(super) struct Lags([Gauge; Kind::ALL.len()]);

impl Lags {
    pub(super) fn new() -> Self {
        Self(Kind::ALL.map(|kind| gauge!("endpointd_watch_lag_seconds", "resource" => kind.as_str())))
    }

    pub(super) fn refresh(&self) {
        let now = clock::since(*START);
        for (gauge, seen) in self.0.iter().zip(&SEEN) {
            let lag = match seen.load(Ordering::Relaxed) {
                0 => Duration::ZERO,
                // Never nought, which says that the kind is not followed.
                seen => now
                    .saturating_sub(Duration::from_millis(seen - 1))
                    .max(Duration::from_nanos(1)),
            };
            gauge.set(lag.as_secs_f64());
        }
    }
}
