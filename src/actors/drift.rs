//! Dry run: computes the writes that would be made, counts and logs them, and does nothing else.
//!
//! ```text
//!  shard: changed Services ─► a while later, each is compared once ─► differences that have lasted
//!                                                                                       │
//!                                                   gauges, a counter, the log ◄── ledger
//! ```
//!
//! The writer receives nothing. A comparison costs as much as its Service is large, so a Service that keeps changing is
//! compared a few times within the time that a difference must last, and an unchanged one not at all.

use crate::core::bucket::TokenBucket;
use crate::core::drift::{Deviations, Drift, Report};
use crate::core::hash::KeyedMap;
use crate::core::namespace::NamespaceState;
use crate::core::object::Output;
use crate::metrics::DryRunMetrics;
use crate::tenant_log;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often a changing Service is looked at within the time that a difference must last.
const LOOKS: u32 = 5;
/// The shortest and the longest time between looks.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How often the gauges are updated and lines that were held back are reported.
const TICK: Duration = Duration::from_secs(1);
/// Log lines per second, and burst.
const LINES: (f64, u32) = (2.0, 20);
/// Maximum number of objects named in a log line.
const NAMED: usize = 5;

/// A Service, cluster-wide.
type Key = (Arc<str>, Arc<str>);

/// Tracks which Services of the cluster are out of sync. Cheap to clone; all clones share one ledger.
#[derive(Clone, Debug)]
pub struct DriftTracker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    patience: Duration,
    start: Instant,
    metrics: DryRunMetrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    services: KeyedMap<Key, Entry>,
    oldest: BTreeSet<(Duration, Key)>,
    lines: TokenBucket,
    /// Lines that were held back since their number was last logged.
    held_back: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    since: Duration,
    /// Set when a line was logged about it, so that another is logged when it ends.
    told: bool,
}

impl DriftTracker {
    /// Creates a tracker for a cluster that has not been looked at. A difference counts after `patience`.
    pub fn new(patience: Duration) -> Self {
        Self(Arc::new(Shared {
            patience,
            start: Instant::now(),
            metrics: DryRunMetrics::new(),
            state: Mutex::new(State {
                services: KeyedMap::default(),
                oldest: BTreeSet::new(),
                lines: TokenBucket::new(LINES.0, LINES.1),
                held_back: 0,
            }),
        }))
    }

    /// Returns the number of Services that are out of sync.
    pub fn out_of_sync(&self) -> usize {
        self.0.state.lock().services.len()
    }

    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0.start)
    }

    /// Records the sync state of a Service when it has changed.
    fn report(&self, namespace: &Arc<str>, report: &Report, now: Duration) {
        self.0.metrics.differences(report.new);
        let key = (namespace.clone(), report.service.clone());
        let state = &mut *self.0.state.lock();
        let before = state.services.remove(&key);
        if let Some(before) = before {
            state.oldest.remove(&(before.since, key.clone()));
        }
        let lasted = |since: Duration| (now.saturating_sub(since).as_secs_f64() * 10.0).round() / 10.0;
        match (before, report.since) {
            (_, Some(since)) => {
                // The namespace's own limit comes first, so that lines it drops do not use up the shared limit.
                let may_tell = || tenant_log::admits(namespace) && state.may_tell(now);
                let told = before.map_or_else(may_tell, |before| before.told);
                if told && before.is_none() {
                    tracing::warn!(
                        %namespace,
                        service = %report.service,
                        differs_for_seconds = lasted(since),
                        would = describe(&report.lasting),
                        "dry run: out of sync"
                    );
                }
                state.oldest.insert((since, key.clone()));
                state.services.insert(key, Entry { since, told });
            }
            (Some(Entry { since, told: true }), None) => {
                tracing::info!(
                    %namespace,
                    service = %report.service,
                    differed_for_seconds = lasted(since),
                    "dry run: in sync again"
                );
            }
            (_, None) => {}
        }
        self.0.metrics.out_of_sync(state.services.len(), state.age(now));
    }

    /// Updates the gauges as time passes, and logs how many lines were held back. Never returns.
    pub async fn keep(self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = self.now();
            let mut state = self.0.state.lock();
            self.0.metrics.out_of_sync(state.services.len(), state.age(now));
            if state.held_back > 0 && state.lines.take(now).is_ok() {
                let services = state.services.len();
                let held_back = std::mem::take(&mut state.held_back);
                drop(state);
                tracing::warn!(
                    out_of_sync = services,
                    held_back,
                    "dry run: more Services are out of sync than are logged; the metrics count all of them"
                );
            }
        }
    }
}

impl State {
    fn may_tell(&mut self, now: Duration) -> bool {
        let may = self.lines.take(now).is_ok();
        self.held_back += u64::from(!may);
        may
    }

    fn age(&self, now: Duration) -> Duration {
        let oldest = self.oldest.first().map(|(since, _)| now.saturating_sub(*since));
        oldest.unwrap_or_default()
    }
}

/// Describes the writes that would be made.
fn describe(deviations: &[Drift]) -> String {
    let mut text = String::new();
    for deviation in deviations.iter().take(NAMED) {
        let kind = match deviation.output {
            Output::Slice => "EndpointSlice",
            Output::Endpoints => "Endpoints",
        };
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{} {kind}", deviation.operation.as_str());
        if let Some(name) = &deviation.name {
            let _ = write!(text, " {name}");
        }
    }
    if deviations.len() > NAMED {
        let _ = write!(text, ", and {} more", deviations.len() - NAMED);
    }
    text
}

/// The comparison state of a shard: the differences in its namespace, and when it looks next.
#[derive(Debug)]
pub struct Comparison {
    ledger: DriftTracker,
    deviations: Deviations,
    /// When the next look is due, if one is armed.
    armed: Option<Duration>,
}

impl Comparison {
    /// Creates the comparison for a namespace that has not been looked at.
    pub fn new(ledger: DriftTracker) -> Self {
        Self {
            deviations: Deviations::new(ledger.0.patience),
            ledger,
            armed: None,
        }
    }

    /// Looks, if it is due, at the Services that have changed, and at whether earlier differences have lasted.
    pub fn look(&mut self, core: &mut NamespaceState) {
        let now = self.ledger.now();
        if self.armed.is_none_or(|at| at > now) {
            return;
        }
        self.armed = None;
        let marked = core.take_marked();
        self.ledger.0.metrics.compared(marked.len());
        for service in marked {
            let differences = core.compare(&service);
            self.deviations.found(&service, differences, now);
        }
        for report in self.deviations.reports(now) {
            self.ledger.report(core.namespace(), &report, now);
        }
    }

    /// Returns after how long the next look is due, or `None` when none is needed or one is armed already.
    pub fn arm(&mut self, core: &NamespaceState) -> Option<Duration> {
        let now = self.ledger.now();
        let between = (self.ledger.0.patience / LOOKS).clamp(BETWEEN.0, BETWEEN.1);
        let look = core.is_marked().then(|| now + between);
        let at = look.into_iter().chain(self.deviations.due(now)).min()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(at.saturating_sub(now))
    }

    /// Returns whether no difference is known.
    pub fn is_empty(&self) -> bool {
        self.deviations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::drift::Operation;

    #[tokio::test(start_paused = true)]
    async fn lines_are_few_services_are_counted_and_the_oldest_is_found() {
        let ledger = DriftTracker::new(Duration::ZERO);
        // Ten per namespace, which is as many lines as a namespace may log.
        let namespace = |number: u64| Arc::from(format!("dry-run-{}", number / 10));
        let report = |number: u64, since: Option<u64>| Report {
            service: format!("s{number}").into(),
            since: since.map(Duration::from_secs),
            lasting: Vec::new(),
            new: [0; 3],
        };
        let now = Duration::from_secs(100);
        for number in 0..50 {
            ledger.report(&namespace(number), &report(number, Some(40 + number)), now);
        }
        let age = || ledger.0.state.lock().age(now);
        assert_eq!(ledger.out_of_sync(), 50);
        assert_eq!(ledger.0.state.lock().held_back, 30);
        assert_eq!(age(), Duration::from_secs(60));
        // The longest difference is gone, but the same Service has another one.
        ledger.report(&namespace(0), &report(0, Some(90)), now);
        assert_eq!(age(), Duration::from_secs(59));
        for number in 0..50 {
            ledger.report(&namespace(number), &report(number, None), now);
        }
        assert_eq!((ledger.out_of_sync(), age()), (0, Duration::ZERO));
        assert!(ledger.0.state.lock().oldest.is_empty());
    }

    #[test]
    fn a_line_names_some_of_the_writes() {
        let deviations: Vec<_> = (0..7)
            .map(|ordinal| Drift {
                operation: if ordinal < 2 {
                    Operation::Create
                } else {
                    Operation::Delete
                },
                output: Output::Slice,
                name: (ordinal >= 2).then(|| format!("s-{ordinal}").into()),
                ordinal,
            })
            .collect();
        assert_eq!(
            describe(&deviations),
            "create EndpointSlice, create EndpointSlice, delete EndpointSlice s-2, delete EndpointSlice s-3, \
             delete EndpointSlice s-4, and 2 more"
        );
    }
}
