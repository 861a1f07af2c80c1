//! Dry run: computes the writes that would be made, counts and logs them, and does nothing else.
//!
//! ```text
//!  shard: changed Services ─► a while later, each is compared once ─► differences that have lasted
//!                                                                                       │
//!                                                   gauges, a counter, the log ◄── tracker
//! ```
//!
//! The writer receives nothing. A comparison costs as much as its Service is large, so a Service that keeps changing is
//! compared a few times within the time that a difference must last, and an unchanged one not at all.

use crate::clock;
use crate::core::bucket::TokenBucket;
use crate::core::excerpt::Excerpt;
use crate::core::hash::{KeyedMap, KeyedSet};
use crate::core::inbox::Pending;
use crate::core::namespace::NamespaceState;
use crate::inspect::dry_run::{DryRun, ServiceDrift};
use crate::inspect::findings::Finding;
use crate::metrics::catalogue::{DryRuns, Published};
use crate::tenant_log::TenantLog;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
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
/// Maximum number of objects named in a log line, and of reasons.
const NAMED: usize = 5;
/// Maximum number of bytes of a reason.
const REASON: usize = 256;

/// A Service, cluster-wide.
type Key = (Arc<str>, Arc<str>);

/// Tracks which Services of the cluster are out of sync. Cheap to clone; all clones share one state.
#[derive(Clone, Debug)]
pub struct DriftTracker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    patience: Duration,
    start: Instant,
    metrics: DryRuns,
    published: Published,
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
    /// True if a line was logged about it, so that another is logged when it ends.
    told: bool,
}

impl DriftTracker {
    /// Creates a tracker for a cluster that has not been looked at. A difference counts after `patience`.
    pub fn new(patience: Duration) -> Self {
        Self(Arc::new(Shared {
            patience,
            start: Instant::now(),
            metrics: DryRuns::default(),
            published: Published::default(),
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
        clock::since(self.0.start)
    }

    /// Records the sync state of a Service when it has changed.
    fn report(&self, namespace: &Arc<str>, report: &ServiceDrift, log: &TenantLog, now: Duration) {
        for (counter, new) in self.0.metrics.differences.iter().zip(report.new) {
            counter.increment(u64::from(new));
        }
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
                let may_tell = || log.admits(namespace) && state.may_tell(now);
                let told = before.map_or_else(may_tell, |before| before.told);
                if told && before.is_none() {
                    tracing::warn!(
                        %namespace,
                        service = %report.service,
                        differs_for_seconds = lasted(since),
                        would = would(&report.lasting),
                        why = why(&report.lasting),
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
        self.show(state, now);
    }

    fn show(&self, state: &State, now: Duration) {
        let published = &self.0.published;
        published.out_of_sync.set(state.services.len() as f64);
        published.oldest.set(state.age(now).as_secs_f64());
    }

    /// Updates the gauges as time passes, and logs how many lines were held back. Never returns.
    pub async fn keep(self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = self.now();
            let mut state = self.0.state.lock();
            self.show(&state, now);
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
fn would(findings: &[Finding]) -> String {
    let writes = findings.iter().map(|finding| {
        let kind = finding.output.kind();
        let name = finding
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!(" {name}"));
        format!("{} {kind}{name}", finding.verb.as_str())
    });
    some(writes, ", ")
}

/// Describes the reasons of these writes.
fn why(findings: &[Finding]) -> String {
    // A slice and Endpoints mostly differ for the same reasons.
    let mut said = KeyedSet::default();
    let reasons = findings.iter().flat_map(|finding| &finding.why);
    let reasons = reasons.filter_map(|(why, _)| said.insert(&why.text).then_some(&why.text));
    some(reasons.map(|text| Excerpt::new(text, REASON)), "; ")
}

/// Joins the first few of many texts.
fn some(mut texts: impl Iterator<Item = impl Display>, separator: &str) -> String {
    let first: Vec<_> = texts.by_ref().take(NAMED).map(|text| text.to_string()).collect();
    let mut text = first.join(separator);
    let more = texts.count();
    if more > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}and {more} more");
    }
    text
}

/// The dry run of a shard: what is known of its namespace, and when it looks next.
#[derive(Debug)]
pub struct ShardDryRun {
    tracker: DriftTracker,
    dry_run: DryRun,
    log: TenantLog,
    /// When the next look is due, if one is armed.
    armed: Option<Duration>,
}

impl ShardDryRun {
    /// Creates the dry run for a namespace that has not been looked at.
    pub fn new(tracker: DriftTracker, log: TenantLog) -> Self {
        Self {
            dry_run: DryRun::new(tracker.0.patience),
            tracker,
            log,
            armed: None,
        }
    }

    /// Takes the changes of published objects from those that wait for the namespace.
    pub fn take(&mut self, pending: &mut Pending, core: &NamespaceState) {
        self.dry_run.take(pending, core);
    }

    /// If a look is due, compares the Services that have changed, and checks whether earlier differences have lasted.
    pub fn look(&mut self, core: &mut NamespaceState) {
        let now = self.tracker.now();
        if self.armed.is_none_or(|at| at > now) {
            return;
        }
        self.armed = None;
        let (compared, reports) = self.dry_run.look(core, now);
        self.tracker.0.metrics.comparisons.increment(compared as u64);
        for report in reports {
            self.tracker.report(core.namespace(), &report, &self.log, now);
        }
    }

    /// Returns after how long the next look is due, or `None` when none is needed or one is armed already.
    pub fn arm(&mut self, core: &NamespaceState) -> Option<Duration> {
        let now = self.tracker.now();
        let between = (self.tracker.0.patience / LOOKS).clamp(BETWEEN.0, BETWEEN.1);
        let look = self.dry_run.has_changed(core).then(|| now + between);
        let at = look.into_iter().chain(self.dry_run.due(now)).min()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(at.saturating_sub(now))
    }

    /// Returns whether no difference is known.
    pub fn is_empty(&self) -> bool {
        self.dry_run.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::{Output, Verb};

    #[tokio::test(start_paused = true)]
    async fn lines_are_few_services_are_counted_and_the_oldest_is_found() {
        let (tracker, log) = (DriftTracker::new(Duration::ZERO), TenantLog::default());
        // Ten per namespace, which is as many lines as a namespace may log.
        let namespace = |number: u64| Arc::from(format!("dry-run-{}", number / 10));
        let report = |number: u64, since: Option<u64>| ServiceDrift {
            service: format!("s{number}").into(),
            since: since.map(Duration::from_secs),
            lasting: Vec::new(),
            new: [0; 3],
        };
        let now = Duration::from_secs(100);
        for number in 0..50 {
            tracker.report(&namespace(number), &report(number, Some(40 + number)), &log, now);
        }
        let age = || tracker.0.state.lock().age(now);
        assert_eq!(tracker.out_of_sync(), 50);
        assert_eq!(tracker.0.state.lock().held_back, 30);
        assert_eq!(age(), Duration::from_secs(60));
        // The longest difference is gone, but the same Service has another one.
        tracker.report(&namespace(0), &report(0, Some(90)), &log, now);
        assert_eq!(age(), Duration::from_secs(59));
        for number in 0..50 {
            tracker.report(&namespace(number), &report(number, None), &log, now);
        }
        assert_eq!((tracker.out_of_sync(), age()), (0, Duration::ZERO));
        assert!(tracker.0.state.lock().oldest.is_empty());
    }

    #[test]
    fn a_line_names_some_of_the_writes() {
        let findings: Vec<_> = (0..7)
            .map(|number| Finding {
                namespace: "n".into(),
                service: "s".into(),
                output: Output::Slice,
                name: (number >= 2).then(|| format!("s-{number}").into()),
                verb: if number < 2 { Verb::Create } else { Verb::Delete },
                left_over: false,
                unmanaged: false,
                as_whole: false,
                why: Vec::new(),
            })
            .collect();
        assert_eq!(
            would(&findings),
            "create EndpointSlice, create EndpointSlice, delete EndpointSlice s-2, delete EndpointSlice s-3, \
             delete EndpointSlice s-4, and 2 more"
        );
    }
}
