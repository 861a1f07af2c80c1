//! The figures of runs, for pages and for terminals, and how those of several runs stand to the first one's.

pub(super) mod claims;
pub(super) mod watchers;

use super::model::{Latency, Process, Report, WriteCounts};
use super::runs::Run;
use super::spread::{ENOUGH, Spread};
use super::{flags, format};

/// A difference of less than this is none.
const SAME: f64 = 0.05;

/// How much of the time the controller's own limits may hold back writes until the run is called throttled.
const THROTTLED: f64 = 0.01;

/// Two runs that were throttled for shares of the time that differ by no more than this were throttled alike: by how many times
/// a small share is another says nothing.
const THROTTLED_ALIKE: f64 = 0.03;

/// How many times as large a figure may be in one run as in another of the same, rounded up from six runs of `steady`, ten
/// seconds each, on a busy machine of two cores: p50 1.4, p90 4.5, p99 and p99.9 7 to 9, CPU time 1.4, memory 1.04, starts 3.3.
mod noise {
    pub(super) const MEDIAN: f64 = 1.5;
    pub(super) const P90: f64 = 5.0;
    /// The noise of values that a change in a hundred, or fewer, decide.
    pub(super) const TAIL: f64 = 10.0;
    pub(super) const CPU: f64 = 1.5;
    pub(super) const MEMORY: f64 = 1.1;
    /// The noise of how long a start takes, and of the pauses of restarts.
    pub(super) const START: f64 = 4.0;
    /// The noise of counts that depend on the load, and hardly on chance.
    pub(super) const COUNTS: f64 = 1.1;
    /// The noise of counts of things that should not happen at all.
    pub(super) const NONE: f64 = 1.0;
}

/// The name of a figure, its noise, and its value.
type OfLatency = (&'static str, f64, fn(&Latency) -> u64);

/// The figures of a latency: their names and, in microseconds, their values.
pub(crate) const DURATIONS: [OfLatency; 5] = [
    ("p50", noise::MEDIAN, |latency| latency.p50),
    ("p90", noise::P90, |latency| latency.p90),
    ("p99", noise::TAIL, |latency| latency.p99),
    ("p99.9", noise::TAIL, |latency| latency.p999),
    ("max", noise::TAIL, |latency| latency.max),
];

type OfProcess = (&'static str, f64, fn(f64) -> String, fn(&Process) -> f64);

/// The figures of a process.
const PROCESS: [OfProcess; 5] = [
    ("CPU per change", noise::CPU, format::micros, |process| {
        process.cpu_micros_per_change
    }),
    ("CPU in all", noise::CPU, format::seconds, |process| {
        process.cpu_seconds
    }),
    ("CPU from cold", noise::START, format::seconds, |process| {
        process.cold_cpu_seconds
    }),
    ("memory at the end", noise::MEMORY, format::bytes, |process| {
        process.rss_bytes as f64
    }),
    ("memory at its peak", noise::MEMORY, format::bytes, |process| {
        process.peak_rss_bytes as f64
    }),
];

/// The name of a figure, its direction, its noise, its text and its value.
type OfReport = (
    &'static str,
    Better,
    f64,
    fn(f64) -> String,
    fn(&Report) -> Option<f64>,
);

/// A figure that is better the lower it is.
const fn lower(
    name: &'static str,
    noise: f64,
    text: fn(f64) -> String,
    value: fn(&Report) -> Option<f64>,
) -> OfReport {
    (name, Better::Lower, noise, text, value)
}

/// A figure that is neither better nor worse than another.
const fn neither(
    name: &'static str,
    noise: f64,
    text: fn(f64) -> String,
    value: fn(&Report) -> Option<f64>,
) -> OfReport {
    (name, Better::Neither, noise, text, value)
}

/// The figures of changes and writes.
const WORK: [OfReport; 6] = [
    neither("changes made", noise::NONE, format::whole, |report| {
        Some(report.changes.made as f64)
    }),
    neither("changes per second", noise::COUNTS, format::figure, |report| {
        Some(report.changes.made as f64 / report.seconds)
    }),
    lower("changes failed", noise::NONE, format::whole, |report| {
        Some(report.changes.failed as f64)
    }),
    lower("writes per change", noise::COUNTS, format::figure, |report| {
        (report.changes.made > 0).then_some(report.writes.per_change)
    }),
    lower("bytes per change", noise::COUNTS, format::bytes, |report| {
        (report.changes.made > 0).then_some(report.writes.bytes_per_change)
    }),
    neither("generator lag p99", noise::TAIL, format::micros, |report| {
        (report.generator_lag.count > 0).then_some(report.generator_lag.p99 as f64)
    }),
];

/// The figures among them that become smaller when a limit holds back writes, since changes that wait share a write.
const SHRUNK_BY_LIMITS: [&str; 2] = ["writes per change", "bytes per change"];

/// The figures of starts.
const STARTS: [OfReport; 2] = [
    lower(
        "converged from cold",
        noise::START,
        format::seconds_needed,
        |report| report.converge_seconds,
    ),
    lower("longest writer gap", noise::START, format::seconds, longest_gap),
];

/// The names of the figures of writes.
pub(super) const WRITES: [&str; 4] = ["created", "updated", "deleted", "received"];

/// The direction in which a figure is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Better {
    Lower,
    Neither,
}

/// Figures that belong together.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) figures: Vec<Figure>,
}

/// One figure of all runs.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) better: Better,
    pub(super) values: Vec<Option<Spread>>,
    /// Whether the figure was measured in all rounds of a run, by run.
    is_whole: Vec<bool>,
    noise: f64,
    /// Whether limits that held back writes have made the figure smaller, by run. Empty if they have no part in it.
    shrunk: Vec<bool>,
    /// Values that differ by no more than this are the same, however small they are.
    tolerance: f64,
    format: fn(f64) -> String,
}

/// How a run's figure stands to the reference's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Standing {
    /// How many times the reference; none if that was nought, or either is missing.
    pub(super) ratio: Option<f64>,
    pub(super) judgement: Judgement,
}

/// The judgement of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Judgement {
    /// No judgement is possible, or neither way is better.
    None,
    Same,
    /// Runs of the same differ by as much.
    Noise,
    /// No judgement is possible, since a limit held back writes in one of the two: changes that wait share a write.
    Throttled,
    Better,
    Worse,
}

/// The durations of a latency as text, or that nothing was measured.
pub(super) fn durations(latency: &Latency) -> [String; 5] {
    DURATIONS.map(|(_, _, value)| {
        if latency.count > 0 {
            format::micros(value(latency) as f64)
        } else {
            format::NONE.to_owned()
        }
    })
}

/// The figures of writes as text; long numbers may have to be short.
pub(super) fn of_writes(counts: &WriteCounts, number: fn(u64) -> String) -> [String; 4] {
    [
        number(counts.created),
        number(counts.updated),
        number(counts.deleted),
        format::bytes(counts.bytes as f64),
    ]
}

/// The figures of a process as text.
pub(super) fn of_process(process: &Process) -> [String; 5] {
    PROCESS.map(|(_, _, format, value)| {
        process
            .used(value)
            .map_or_else(|| format::NONE.to_owned(), format)
    })
}

/// The latencies of a report, with their names.
pub(crate) fn latencies(report: &Report) -> Vec<(&'static str, &Latency)> {
    let mut latencies = vec![("Slices", &report.slices), ("Endpoints", &report.endpoints)];
    if let Some(watchers) = &report.watchers {
        latencies.push(("Watchers", &watchers.latency));
    }
    if let Some(claims) = &report.claims {
        latencies.extend([("Ready", &claims.ready), ("Gone", &claims.gone)]);
    }
    latencies.push(("Generator lag", &report.generator_lag));
    latencies
}

/// How good something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    Good,
    Doubtful,
    Bad,
}

// === impl Mood ===

impl Mood {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Doubtful => "doubtful",
            Self::Bad => "bad",
        }
    }
}

/// How a run ended, in words that are in capitals where something is wrong.
pub(super) fn verdict(report: &Report) -> Vec<(Mood, String)> {
    let word = |is_good: bool, good: &str, otherwise: Mood, wrong: &str| {
        let (mood, text) = if is_good {
            (Mood::Good, good)
        } else {
            (otherwise, wrong)
        };
        (mood, text.to_owned())
    };
    let verdict = &report.verdict;
    let mut words = vec![
        word(verdict.verified, "verified", Mood::Bad, "NOT VERIFIED"),
        word(
            verdict.generator_kept_up,
            "generator kept up",
            Mood::Doubtful,
            "GENERATOR LAGGED",
        ),
    ];
    if let Some(throttling) = &report.throttling {
        let share = format!("THROTTLED {} OF THE TIME", format::percent(throttling.share));
        let is_free = !is_throttled(report);
        let free = if throttling.share > 0.0 {
            "hardly throttled"
        } else {
            "not throttled"
        };
        words.push(word(is_free, free, Mood::Doubtful, &share));
    }
    words
}

/// Whether the controller's own limits held back writes for long enough to be seen in the figures.
pub(super) fn is_throttled(report: &Report) -> bool {
    let throttling = report.throttling.as_ref();
    throttling.is_some_and(|throttling| throttling.share >= THROTTLED)
}

/// Returns advice about a controller whose own limits hold back writes.
pub(super) fn advice(report: &Report) -> String {
    let limit = match flags::of(report).map(|flags| flags.get("--kube-api-qps").copied().flatten()) {
        Some(Some(qps)) => format!("--kube-api-qps={}", format::cut(qps, 12)),
        Some(None) => "the default --kube-api-qps".to_owned(),
        None => "--kube-api-qps".to_owned(),
    };
    format!(
        "Writes that were ready waited for {limit}, for clients that watch slices, or for a pause that the API server asked \
         for: the latencies are those of the limits. docs/sizing.md says how to choose them."
    )
}

/// How it is decided whether a difference between these runs is more than noise.
pub(super) fn noise_of(runs: &[Run<'_>]) -> String {
    let is_repeated = |run: &Run<'_>| run.report.rounds.len() >= ENOUGH;
    if runs.iter().all(is_repeated) {
        return "The medians of the rounds are compared; better or worse is what lies outside the range of the others."
            .to_owned();
    }
    format!(
        "Runs of the same differ, so where either of two has fewer than {ENOUGH} rounds nothing is called better or worse below \
         ×{} (p50, CPU), ×{} (starts), ×{} (p90) or ×{} (p99 and above): run both with --repeat {ENOUGH} to see less.",
        noise::MEDIAN,
        noise::START,
        noise::P90,
        noise::TAIL
    )
}

// === impl Figure ===

impl Figure {
    /// The figure of a run as text; of a repeated one the median.
    pub(super) fn text(&self, run: usize) -> String {
        self.values[run].map_or_else(|| format::NONE.to_owned(), |spread| (self.format)(spread.median))
    }

    /// The least and the greatest of a repeated run, as text; nothing for one that was not repeated.
    pub(super) fn range(&self, run: usize) -> Option<[String; 2]> {
        let spread = self.values[run].filter(|spread| spread.rounds > 1)?;
        Some([spread.least, spread.most].map(self.format))
    }

    /// Whether the first run has the figure, and this one does not, or not in all of its rounds as the first.
    fn is_missing(&self, run: usize) -> bool {
        let is_gone = !self.is_whole[run] && (self.is_whole[0] || self.values[run].is_none());
        self.better == Better::Lower && self.values[0].is_some() && is_gone
    }

    fn is_shrunk(&self, run: usize) -> bool {
        self.shrunk.get(run) == Some(&true)
    }

    /// How a run's figure stands to the first run's.
    pub(super) fn standing(&self, run: usize) -> Standing {
        let (Some(reference), Some(value)) = (self.values[0], self.values[run]) else {
            return Standing {
                ratio: None,
                judgement: Judgement::None,
            };
        };
        let ratio = (reference.median > 0.0)
            .then(|| value.median / reference.median)
            .filter(|ratio| ratio.is_finite());
        let difference = (value.median - reference.median).abs();
        let judgement = match self.better {
            _ if difference <= self.tolerance.max(SAME * reference.median.abs()) => Judgement::Same,
            Better::Neither => Judgement::None,
            Better::Lower if self.is_shrunk(0) || self.is_shrunk(run) => Judgement::Throttled,
            Better::Lower if reference.is_above(&value, self.noise) => Judgement::Better,
            Better::Lower if value.is_above(&reference, self.noise) => Judgement::Worse,
            Better::Lower => Judgement::Noise,
        };
        Standing { ratio, judgement }
    }
}

/// All figures that at least one of the runs has.
pub(super) fn groups(runs: &[Run<'_>]) -> Vec<Group> {
    let reports: Vec<&Report> = runs.iter().map(|run| &*run.report).collect();
    let mut groups = vec![
        latency("Slices: change to visible", &reports, |report| {
            Some(&report.slices)
        }),
        latency("Endpoints: change to visible", &reports, |report| {
            Some(&report.endpoints)
        }),
        latency("Watchers: change to event", &reports, |report| {
            Some(&report.watchers.as_ref()?.latency)
        }),
        group("Watchers", &reports, &watchers::FIGURES),
        latency("Sandboxes: ready to visible", &reports, |report| {
            Some(&report.claims.as_ref()?.ready)
        }),
        latency("Sandboxes: gone to unseen", &reports, |report| {
            Some(&report.claims.as_ref()?.gone)
        }),
        group("Sandboxes", &reports, &claims::FIGURES),
        work(&reports),
    ];
    groups.extend(processes(&reports));
    groups.push(group("Starts", &reports, &STARTS));
    for group in &mut groups {
        group
            .figures
            .retain(|figure| figure.values.iter().any(Option::is_some));
    }
    groups.retain(|group| !group.figures.is_empty());
    groups
}

/// The reasons why runs are not as good as the first one.
#[derive(Default)]
pub(super) struct Failures {
    /// The figures that are worse by more than the limit, a line each.
    pub(super) worse: Vec<String>,
    /// The figures that the first run has and another lacks, in some of its rounds or in all, a line each.
    pub(super) missing: Vec<String>,
    /// The letters of the runs that were not verified.
    pub(super) unverified: Vec<String>,
}

// === impl Failures ===

impl Failures {
    /// Whether there is no such reason.
    pub(super) fn is_none(&self) -> bool {
        self.worse.is_empty() && self.missing.is_empty() && self.unverified.is_empty()
    }
}

/// Finds what keeps runs from being as good as the first one. Figures are worse only by more than this factor.
pub(super) fn failures(runs: &[Run<'_>], groups: &[Group], limit: f64) -> Failures {
    let mut failures = Failures::default();
    for (number, run) in runs.iter().enumerate().skip(1) {
        if !run.report.verdict.verified {
            failures.unverified.push(run.letter.to_string());
        }
        for group in groups {
            for figure in &group.figures {
                let place = format!("{}: {}, {}", run.letter, format::clean(&group.title), figure.name);
                let (before, now) = (figure.text(0), figure.text(number));
                if figure.is_missing(number) {
                    failures
                        .missing
                        .push(format!("{place}: not measured, {before} in {}", runs[0].letter));
                    continue;
                }
                let standing = figure.standing(number);
                let is_above = standing.ratio.is_none_or(|ratio| ratio > limit);
                if standing.judgement == Judgement::Worse && is_above {
                    failures.worse.push(format!("{place}: {now} after {before}"));
                }
            }
        }
    }
    failures
}

/// Returns for how many seconds writes waited for the sake of clients that watch.
fn held_back_for_watchers(report: &Report) -> Option<f64> {
    let fan_out = report.fan_out?;
    Some(fan_out.held_back_by_echoes + fan_out.held_back_by_watchers)
}

fn work(reports: &[&Report]) -> Group {
    type Value = fn(&Report) -> Option<f64>;
    let mut work = group("Changes and writes", reports, &WORK);
    let held_back = |report: &&Report| is_throttled(report);
    for figure in &mut work.figures {
        if SHRUNK_BY_LIMITS.contains(&&*figure.name) {
            figure.shrunk = reports.iter().map(held_back).collect();
        }
    }
    let throttled = figure(
        reports,
        "time throttled",
        Better::Lower,
        noise::MEDIAN,
        format::percent,
        |report| report.throttling.as_ref().map(|throttling| throttling.share),
    );
    work.figures.push(Figure {
        tolerance: THROTTLED_ALIKE,
        ..throttled
    });
    let for_watchers: [(_, Value); 3] = [
        ("echo p50", |report| report.fan_out?.echo_p50),
        ("echo p99", |report| report.fan_out?.echo_p99),
        ("held back for watchers", held_back_for_watchers),
    ];
    // kube-controller-manager has none of them.
    for (name, value) in for_watchers {
        let figure = figure(
            reports,
            name,
            Better::Neither,
            noise::MEDIAN,
            format::seconds,
            value,
        );
        work.figures.push(figure);
    }
    work
}

fn group(title: &str, reports: &[&Report], figures: &[OfReport]) -> Group {
    let figures = figures.iter();
    let figures = figures
        .map(|(name, better, noise, format, value)| figure(reports, name, *better, *noise, *format, value));
    Group {
        title: title.to_owned(),
        figures: figures.collect(),
    }
}

fn figure(
    reports: &[&Report],
    name: &str,
    better: Better,
    noise: f64,
    format: fn(f64) -> String,
    value: impl Fn(&Report) -> Option<f64>,
) -> Figure {
    let values = reports.iter().map(|report| Spread::of(report, &value));
    let is_whole = reports.iter().map(|report| {
        let rounds = match &report.rounds[..] {
            [] => std::slice::from_ref(*report),
            rounds => rounds,
        };
        rounds.iter().all(|round| value(round).is_some())
    });
    Figure {
        name: name.to_owned(),
        better,
        values: values.collect(),
        is_whole: is_whole.collect(),
        noise,
        shrunk: Vec::new(),
        tolerance: 0.0,
        format,
    }
}

/// A figure of what processes used.
fn used(
    reports: &[&Report],
    name: &str,
    noise: f64,
    format: fn(f64) -> String,
    value: impl Fn(&Report) -> Option<f64>,
) -> Figure {
    // The clock ticks too slowly to tell a short time from nought, so such a figure cannot be compared.
    let values = reports
        .iter()
        .map(|report| Spread::of(report, |report| value(report).filter(|value| *value > 0.0)))
        .collect();
    Figure {
        values,
        ..figure(reports, name, Better::Lower, noise, format, value)
    }
}

fn latency(title: &str, reports: &[&Report], of: fn(&Report) -> Option<&Latency>) -> Group {
    let mut figures: Vec<Figure> = DURATIONS
        .into_iter()
        .map(|(name, noise, value)| {
            figure(reports, name, Better::Lower, noise, format::micros, |report| {
                let latency = of(report)?;
                (latency.count > 0).then(|| value(latency) as f64)
            })
        })
        .collect();
    let count = |name: &str, better, value: fn(&Latency) -> u64| {
        figure(reports, name, better, noise::NONE, format::whole, |report| {
            let latency = of(report)?;
            (latency.count > 0 || latency.never_seen > 0).then(|| value(latency) as f64)
        })
    };
    figures.push(count("never seen", Better::Lower, |latency| latency.never_seen));
    figures.push(count("measured", Better::Neither, |latency| latency.count));
    Group {
        title: title.to_owned(),
        figures,
    }
}

/// The processes of each run in their order, of which the first is the controller.
fn processes(reports: &[&Report]) -> impl Iterator<Item = Group> {
    let most = reports.iter().map(|report| report.processes.len()).max();
    (0..most.unwrap_or(0)).map(|at| {
        let mut names: Vec<&str> = reports
            .iter()
            .filter_map(|report| Some(report.processes.get(at)?.name.as_str()))
            .collect();
        names.dedup();
        let figures = PROCESS.into_iter().map(|(name, noise, format, value)| {
            used(reports, name, noise, format, |report| {
                report.processes.get(at)?.used(value)
            })
        });
        Group {
            title: names.join(" / "),
            figures: figures.collect(),
        }
    })
}

/// The longest time that a restart left no controller to write, in seconds.
fn longest_gap(report: &Report) -> Option<f64> {
    let gaps = report
        .restarts
        .iter()
        .map(|restart| restart.without_writer_seconds);
    gaps.reduce(f64::max)
}
