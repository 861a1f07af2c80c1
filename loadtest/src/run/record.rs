//! Puts a report together.

use std::{io::IsTerminal as _, path::Path, sync::Arc, time::Duration};

use http::{Request, Uri};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    charge::Charged,
    generator::{Generator, Tally},
    session::Session,
};
use crate::{
    api,
    figures::time,
    observe::watch::{Seen, Writes},
    oracle,
    report::{
        self,
        model::{
            Changes, Count, Latency, Machine, Phase, Process, QueueSample, Report, Restart, SCHEMA,
            WriteCounts,
        },
    },
};

/// Changes that are sent later than that after they were due are late.
const LATE: Duration = Duration::from_millis(100);
/// How many problems a report holds.
const PROBLEMS: usize = 100;
/// The metric that says how much waits in endpointd, which serves those of the other list too.
const QUEUE: &str = "endpointd_queue_waiting";
/// Metrics whose values, summed up, say how much waits in kube-controller-manager.
const QUEUES: [&str; 2] = [
    "workqueue_depth{name=\"endpoint\"}",
    "workqueue_depth{name=\"endpoint_slice\"}",
];

/// A report in the making.
pub(super) struct Record {
    report: Report,
}

/// What is read now and then while changes are made.
pub(super) struct Sampler {
    start: Instant,
    last: Instant,
    tally: Arc<Tally>,
    seen: Arc<Seen>,
    charged: Arc<Mutex<Vec<Charged>>>,
    made: u64,
    first: Writes,
    writes: u64,
    changes: Vec<Count>,
    written: Vec<Count>,
    queue: Vec<QueueSample>,
}

/// What the sampler has at the end.
pub(super) struct Sampled {
    changes: Vec<Count>,
    written: Vec<Count>,
    queue: Vec<QueueSample>,
    writes: Writes,
    processes: Vec<Process>,
}

// === impl Sampler ===

impl Sampler {
    pub(super) fn new(
        start: Instant,
        tally: &Arc<Tally>,
        seen: &Arc<Seen>,
        charged: &Arc<Mutex<Vec<Charged>>>,
    ) -> Self {
        let first = seen.writes();
        Self {
            start,
            last: start,
            tally: Arc::clone(tally),
            seen: Arc::clone(seen),
            charged: Arc::clone(charged),
            made: 0,
            first,
            writes: first.events(),
            changes: Vec::new(),
            written: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// An interval ends.
    pub(super) fn sample(&mut self) {
        let now = Instant::now();
        let at = self.last.saturating_duration_since(self.start).as_secs_f64();
        let interval = now.saturating_duration_since(self.last);
        self.last = now;
        for visibility in [&self.seen.slices, &self.seen.endpoints] {
            visibility.lock().latencies().cut(at);
        }
        self.tally.lag.lock().cut(at);
        let (made, writes) = (self.tally.made(), self.seen.writes().events());
        let count = made - std::mem::replace(&mut self.made, made);
        self.changes.push(Count { at, count });
        let count = writes - std::mem::replace(&mut self.writes, writes);
        self.written.push(Count { at, count });
        let end = now.saturating_duration_since(self.start).as_secs_f64();
        for charged in self.charged.lock().iter_mut() {
            charged.sample(end, interval);
        }
    }

    /// So many objects wait to be written.
    pub(super) fn queue(&mut self, depth: f64) {
        let at = Instant::now().saturating_duration_since(self.start).as_secs_f64();
        self.queue.push(QueueSample { at, depth });
    }

    pub(super) fn end(&mut self) -> Sampled {
        self.sample();
        let made = self.tally.made();
        let mut charged = self.charged.lock();
        Sampled {
            changes: std::mem::take(&mut self.changes),
            written: std::mem::take(&mut self.written),
            queue: std::mem::take(&mut self.queue),
            writes: self.seen.writes() - self.first,
            processes: charged.iter_mut().map(|charged| charged.report(made)).collect(),
        }
    }
}

// === impl Record ===

impl Record {
    pub(super) fn begin(session: &Session<'_>, started: Timestamp) -> Self {
        let plan = &session.plan;
        let mut report = Report {
            schema: SCHEMA,
            title: session.args.title.clone().unwrap_or_default(),
            profile: plan.name.clone(),
            started: started.to_string(),
            parameters: plan.parameters(),
            machine: machine(),
            ..Report::default()
        };
        let own = env!("CARGO_PKG_VERSION").to_owned();
        if session.spawn {
            report
                .versions
                .insert("controller".to_owned(), format!("endpointd {own}"));
        }
        report.versions.insert("loadtest".to_owned(), own);
        report
            .versions
            .insert("API server".to_owned(), session.version.clone());
        if let Some(commit) = option_env!("LOADTEST_COMMIT") {
            report.versions.insert("commit".to_owned(), commit.to_owned());
        }
        Self { report }
    }

    pub(super) fn warn(&mut self, what: &str) {
        self.report.verdict.warnings.push(what.to_owned());
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.report.phases.push(phase);
    }

    pub(super) fn restarts(&mut self, restarts: Vec<Restart>) {
        self.report.restarts.extend(restarts);
    }

    pub(super) fn end(
        self,
        churned_for: Duration,
        converged_in: Option<Duration>,
        check: &oracle::Report,
        sampled: Sampled,
        generator: &Generator,
        seen: &Seen,
    ) -> Report {
        let mut report = self.report;
        let tally = generator.tally();
        let (made, failed) = (tally.made(), tally.failed());
        let Sampled {
            changes,
            written,
            queue,
            writes,
            processes,
        } = sampled;
        report.seconds = churned_for.as_secs_f64();
        report.changes = Changes {
            made,
            failed,
            over_time: changes,
        };
        report.slices = seen.slices.lock().latency();
        report.endpoints = seen.endpoints.lock().latency();
        report.generator_lag = tally.lag.lock().report();
        let (slices, endpoints) = (writes.slices, writes.endpoints);
        report.writes.per_change = writes.events() as f64 / made.max(1) as f64;
        report.writes.bytes_per_change = (slices.bytes + endpoints.bytes) as f64 / made.max(1) as f64;
        report.writes.slices = WriteCounts::from(slices);
        report.writes.endpoints = WriteCounts::from(endpoints);
        report.writes.over_time = written;
        if report.title.is_empty() {
            let first = processes.first().map(|process| process.name.clone());
            report.title = first.unwrap_or_else(|| "controller".to_owned());
        }
        report.processes = processes;
        report.queue = queue;
        report.converge_seconds = converged_in.map(|converged_in| converged_in.as_secs_f64());

        judge(&mut report, check, tally);
        report
    }
}

/// Says what is wrong with what the controller did, and what makes the figures doubtful.
fn judge(report: &mut Report, check: &oracle::Report, tally: &Tally) {
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

fn keeps_up(lag: &Latency) -> bool {
    Duration::from_micros(lag.p99) <= LATE
}

/// How much waits, according to a page of metrics.
pub(super) async fn queue_depth(url: &Uri) -> Option<f64> {
    let mut origin = url.clone().into_parts();
    let path = origin.path_and_query.replace("/".parse().ok()?)?;
    let origin = Uri::from_parts(origin).ok()?;
    let client = api::client(&origin.to_string()).ok()?;
    let request = Request::get(path.as_str()).body(Vec::new()).ok()?;
    waiting(&client.request_text(request).await.ok()?)
}

fn waiting(metrics: &str) -> Option<f64> {
    let values = |names: &[&str]| {
        let values = metrics.lines().filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            names.contains(&name).then_some(value)?.parse::<f64>().ok()
        });
        values.reduce(|a, b| a + b)
    };
    values(&[QUEUE]).or_else(|| values(&QUEUES))
}

fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        value.map(|value| value.trim_start_matches([':', '\t', ' ']).trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal:");
    let memory = memory.and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
    let release = |name: &str| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned();
    let load = read("/proc/loadavg");
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
        memory_bytes: memory.unwrap_or_default() * 1024,
        system: format!("{} {}", release("ostype"), release("osrelease")),
        load_average: load
            .split(' ')
            .next()
            .and_then(|load| load.parse().ok())
            .unwrap_or_default(),
    }
}

/// Shows a report to whoever ran it, and saves it where it is wanted.
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
    fn queues_are_summed_up_and_others_left_out() {
        let page = "# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"endpoint\"} 3\n\
                    workqueue_depth{name=\"endpoint_slice\"} 4\nworkqueue_depth{name=\"other\"} 9\n";
        assert_eq!(waiting(page), Some(7.0));
        assert_eq!(waiting("endpointd_queue_waiting 0\n"), Some(0.0));
        let both = format!("{page}\nendpointd_queue_waiting 3\n");
        assert_eq!(waiting(&both), Some(3.0), "the same objects are counted once");
        assert_eq!(waiting("up 1\n"), None);
    }

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
