//! Puts a report together.

use super::generator::Tally;
use super::scrape::{Reading, Readings};
use super::session::Session;
use super::usage::{MeasuredProcess, flags_of};
use crate::figures::time;
use crate::observe::watch::{Seen, Writes};
use crate::report::model::{self, Changes, Claims, Latency, Machine, Report, SCHEMA};
use crate::watchers::Finished;
use crate::{oracle, report};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Changes that are sent later than that after they were due are late.
const LATE: Duration = Duration::from_millis(100);
/// How many problems a report holds.
const PROBLEMS: usize = 100;
/// The part of a report that is read now and then while changes are made.
pub(super) struct Sampler {
    start: Instant,
    last: Instant,
    tally: Arc<Tally>,
    seen: Arc<Seen>,
    measured: Arc<Mutex<Vec<MeasuredProcess>>>,
    /// The writes of before.
    first: Writes,
    readings: Readings,
}

// === impl Sampler ===

impl Sampler {
    pub(super) fn new(
        start: Instant,
        tally: &Arc<Tally>,
        seen: &Arc<Seen>,
        measured: &Arc<Mutex<Vec<MeasuredProcess>>>,
        before: Option<Reading>,
    ) -> Self {
        Self {
            start,
            last: start,
            tally: Arc::clone(tally),
            seen: Arc::clone(seen),
            measured: Arc::clone(measured),
            first: seen.writes(),
            readings: Readings::begin(start, before),
        }
    }

    /// An interval ends.
    pub(super) fn sample(&mut self) {
        let now = Instant::now();
        let since_start = |time: Instant| time.saturating_duration_since(self.start).as_secs_f64();
        let (at, end) = (since_start(self.last), since_start(now));
        let interval = now.saturating_duration_since(self.last);
        self.last = now;
        for visibility in [&self.seen.slices, &self.seen.endpoints] {
            visibility.lock().latencies().cut(at);
        }
        self.tally.lag.lock().cut(at);
        for measured in self.measured.lock().iter_mut() {
            measured.sample(end, interval);
        }
    }

    /// The controller's metrics were read.
    pub(super) fn read(&mut self, reading: Reading) {
        self.readings.add(reading, Instant::now());
    }

    /// Puts all figures into the report.
    pub(super) fn end(&mut self, report: &mut Report) {
        self.sample();
        let (tally, seen) = (&self.tally, &self.seen);
        let made = tally.made();
        report.changes = Changes {
            made,
            failed: tally.failed(),
        };
        report.slices = seen.slices.lock().latency();
        report.fewest_reachable = seen.slices.lock().fewest_reachable();
        report.endpoints = seen.endpoints.lock().latency();
        report.generator_lag = tally.lag.lock().report();
        let writes = seen.writes().since(&self.first);
        let Writes { slices, endpoints } = writes;
        let per_change = |count: u64| count as f64 / made.max(1) as f64;
        report.writes = model::Writes {
            slices,
            endpoints,
            per_change: per_change(writes.all()),
            bytes_per_change: per_change(slices.bytes + endpoints.bytes),
        };
        let mut measured = self.measured.lock();
        report.processes = measured
            .iter_mut()
            .map(|measured| measured.report(made))
            .collect();
        let claims = tally.operations().claims;
        if let Some(of_report) = report.claims.as_mut() {
            let [ready, gone] = seen.slices.lock().latencies_apart();
            let [slice_requests, requests] = self.readings.requests();
            *of_report = Claims {
                alive: of_report.alive,
                made: claims,
                ready,
                gone,
                slice_requests,
                requests,
            };
        }
        report.throttling = self.readings.throttling();
        report.fan_out = self.readings.fan_out();
    }
}

/// A report of a run that begins to make changes.
pub(super) fn begin(session: &Session<'_>) -> Report {
    let plan = &session.plan;
    let mut report = Report {
        schema: SCHEMA,
        title: session.args.title.clone().unwrap_or_else(|| plan.title()),
        profile: plan.name.clone(),
        started: Timestamp::now().to_string(),
        parameters: parameters(session),
        machine: Machine::here(),
        flags: flags(session),
        claims: (plan.claims() > 0).then(|| Claims {
            alive: plan.sizes.pods as u64,
            ..Claims::default()
        }),
        ..Report::default()
    };
    let own = env!("CARGO_PKG_VERSION").to_owned();
    let mut version = |of: &str, version: String| report.versions.insert(of.to_owned(), version);
    if session.spawn {
        version("controller", format!("endpointd {own}"));
    }
    version("loadtest", own);
    version("API server", session.version.clone());
    if let Some(commit) = option_env!("LOADTEST_COMMIT") {
        version("commit", commit.to_owned());
    }
    report
}

fn parameters(session: &Session<'_>) -> BTreeMap<String, String> {
    let mut parameters = session.plan.parameters();
    let of_watchers = session.args.watchers.parameters().into_iter();
    parameters.extend(of_watchers.map(|(name, value)| (name.to_owned(), value)));
    parameters
}

/// The flags of the controller: those it is started with, less the address of its metrics, or else those of the first
/// process that is measured.
fn flags(session: &Session<'_>) -> Option<Vec<String>> {
    let controller = &session.args.controller;
    if !session.spawn {
        return flags_of(*controller.pid.first()?);
    }
    let limit = format!("--max-endpoints-per-slice={}", controller.max_endpoints_per_slice);
    let chosen = controller.chosen().into_iter();
    let chosen = chosen.map(|flag| flag.to_string_lossy().into_owned());
    let of_session = session.controller_flags().into_iter();
    Some(std::iter::once(limit).chain(of_session).chain(chosen).collect())
}

/// Says what is wrong with what the controller did, and what makes the figures doubtful.
pub(super) fn judge(report: &mut Report, check: &oracle::Report, tally: &Tally) {
    let verdict = &mut report.verdict;
    verdict.verified = check.is_correct();
    let shown = check.differences.iter().take(PROBLEMS);
    verdict.problems = shown.map(ToString::to_string).collect();
    let rest = check.differences.len().saturating_sub(PROBLEMS);
    if rest > 0 {
        verdict.problems.push(format!("and {rest} more"));
    }
    verdict.generator_kept_up = keeps_up(&report.generator_lag);
    if !verdict.generator_kept_up {
        let p99 = time(Duration::from_micros(report.generator_lag.p99));
        verdict.warnings.push(format!(
            "the generator lagged: one change in a hundred was sent {p99} or more after it was due"
        ));
    }
    if tally.failed() > 0 {
        let all = tally.failures().join("; ");
        let failed = tally.failed();
        verdict
            .warnings
            .push(format!("{failed} changes were refused, such as: {all}"));
    }
}

/// Adds what came of the proxies.
pub(super) fn add(report: &mut Report, finished: Finished) {
    let Finished {
        figures, problems, ..
    } = finished;
    let unseen = figures.latency.never_seen;
    let verdict = &mut report.verdict;
    verdict.verified &= problems.is_empty();
    // An observer that was cut off does not know at which version a change became visible.
    if unseen > 0 && problems.is_empty() {
        verdict.warnings.push(format!(
            "{unseen} changes were not matched with events of the watchers"
        ));
    }
    verdict.problems.extend(problems);
    report.watchers = Some(figures);
}

fn keeps_up(lag: &Latency) -> bool {
    Duration::from_micros(lag.p99) <= LATE
}

/// Shows a report to the user, and saves it where it is wanted.
pub(super) fn show(report: &Report, dir: Option<&Path>) -> anyhow::Result<()> {
    println!("{}", report::table(report, std::io::stdout().is_terminal()));
    if let Some(dir) = dir {
        let saved = report::save(report, dir)?;
        println!("report: {} and {}", saved.json.display(), saved.html.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_lags_is_found_out() {
        let lag = |p99| Latency {
            p99,
            ..Latency::default()
        };
        assert!(keeps_up(&lag(2_000)));
        assert!(!keeps_up(&lag(150_000)));
    }
}
