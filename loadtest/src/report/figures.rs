//! The figures of runs, for pages and for terminals, and how those of several runs stand to the first one's.

use super::{
    format,
    model::{Goal, Latency, Process, Report, WriteCounts},
    runs::Run,
};

/// Less of a difference than this says nothing about one run of each.
const SAME: f64 = 0.05;

type OfLatency = (&'static str, fn(&Latency) -> u64);

/// The figures of a latency: their names and, in microseconds, their values.
pub(super) const DURATIONS: [OfLatency; 5] = [
    ("p50", |latency| latency.p50),
    ("p90", |latency| latency.p90),
    ("p99", |latency| latency.p99),
    ("p99.9", |latency| latency.p999),
    ("max", |latency| latency.max),
];

type OfProcess = (&'static str, fn(f64) -> String, fn(&Process) -> f64);

/// The figures of a process.
const PROCESS: [OfProcess; 5] = [
    ("CPU per change", format::micros, |process| {
        process.cpu_micros_per_change
    }),
    ("CPU in all", format::seconds, |process| process.cpu_seconds),
    ("CPU from cold", format::seconds, |process| {
        process.cold_cpu_seconds
    }),
    ("memory at the end", format::bytes, |process| {
        process.rss_bytes as f64
    }),
    ("memory at its peak", format::bytes, |process| {
        process.peak_rss_bytes as f64
    }),
];

type OfReport = (
    &'static str,
    Better,
    fn(f64) -> String,
    fn(&Report) -> Option<f64>,
);

/// The figures of changes and writes.
const WORK: [OfReport; 6] = [
    ("changes made", Better::Neither, format::whole, |report| {
        Some(report.changes.made as f64)
    }),
    ("changes per second", Better::Neither, format::figure, |report| {
        Some(report.changes.made as f64 / report.seconds)
    }),
    ("changes failed", Better::Lower, format::whole, |report| {
        Some(report.changes.failed as f64)
    }),
    ("writes per change", Better::Lower, format::figure, |report| {
        (report.changes.made > 0).then_some(report.writes.per_change)
    }),
    ("bytes per change", Better::Lower, format::bytes, |report| {
        (report.changes.made > 0).then_some(report.writes.bytes_per_change)
    }),
    ("generator lag p99", Better::Neither, format::micros, |report| {
        (report.generator_lag.count > 0).then_some(report.generator_lag.p99 as f64)
    }),
];

/// The figures of starts.
const STARTS: [OfReport; 2] = [
    ("converged from cold", Better::Lower, format::seconds, |report| {
        report.converge_seconds
    }),
    ("longest writer gap", Better::Lower, format::seconds, longest_gap),
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
    pub(super) values: Vec<Option<f64>>,
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
    /// Nobody can say, or neither way is better.
    None,
    Same,
    Better,
    Worse,
}

/// The durations of a latency as text, or that nothing was measured.
pub(super) fn durations(latency: &Latency) -> [String; 5] {
    DURATIONS.map(|(_, value)| {
        if latency.count > 0 {
            format::micros(value(latency) as f64)
        } else {
            format::NONE.to_owned()
        }
    })
}

/// Whether a goal is met, as text.
pub(super) fn met(goal: &Goal) -> &'static str {
    if goal.met { "met" } else { "missed" }
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
    PROCESS.map(|(_, format, value)| format(value(process)))
}

// === impl Figure ===

impl Figure {
    /// The figure of a run as text.
    pub(super) fn text(&self, run: usize) -> String {
        self.values[run].map_or_else(|| format::NONE.to_owned(), self.format)
    }

    /// How a run's figure stands to the first run's.
    pub(super) fn standing(&self, run: usize) -> Standing {
        let (Some(reference), Some(value)) = (self.values[0], self.values[run]) else {
            return Standing {
                ratio: None,
                judgement: Judgement::None,
            };
        };
        let ratio = (reference > 0.0)
            .then(|| value / reference)
            .filter(|ratio| ratio.is_finite());
        let same = (value - reference).abs() <= SAME * reference.abs();
        let judgement = match self.better {
            _ if same => Judgement::Same,
            Better::Neither => Judgement::None,
            Better::Lower if value < reference => Judgement::Better,
            Better::Lower => Judgement::Worse,
        };
        Standing { ratio, judgement }
    }
}

// === impl Standing ===

impl Standing {
    /// The ratio as text; nothing if there is none.
    pub(super) fn text(self) -> String {
        self.ratio.map(format::ratio).unwrap_or_default()
    }
}

/// All figures that at least one of the runs has.
pub(super) fn groups(runs: &[Run<'_>]) -> Vec<Group> {
    let reports: Vec<&Report> = runs.iter().map(|run| &*run.report).collect();
    let mut groups = vec![
        latency("Slices: change to visible", &reports, |report| &report.slices),
        latency("Endpoints: change to visible", &reports, |report| {
            &report.endpoints
        }),
        group("Changes and writes", &reports, &WORK),
        processes(&reports),
    ];
    groups.extend(each_process(&reports));
    groups.push(group("Starts", &reports, &STARTS));
    for group in &mut groups {
        group
            .figures
            .retain(|figure| figure.values.iter().any(Option::is_some));
    }
    groups.retain(|group| !group.figures.is_empty());
    groups
}

fn group(title: &str, reports: &[&Report], figures: &[OfReport]) -> Group {
    let figures = figures.iter();
    let figures = figures.map(|(name, better, format, value)| figure(reports, name, *better, *format, value));
    Group {
        title: title.to_owned(),
        figures: figures.collect(),
    }
}

fn figure(
    reports: &[&Report],
    name: &str,
    better: Better,
    format: fn(f64) -> String,
    value: impl Fn(&Report) -> Option<f64>,
) -> Figure {
    let values = reports
        .iter()
        .map(|report| value(report).filter(|value| value.is_finite()));
    Figure {
        name: name.to_owned(),
        better,
        values: values.collect(),
        format,
    }
}

fn latency(title: &str, reports: &[&Report], of: fn(&Report) -> &Latency) -> Group {
    let mut figures: Vec<Figure> = DURATIONS
        .into_iter()
        .map(|(name, value)| {
            figure(reports, name, Better::Lower, format::micros, |report| {
                let latency = of(report);
                (latency.count > 0).then(|| value(latency) as f64)
            })
        })
        .collect();
    let count = |name: &str, better, value: fn(&Latency) -> u64| {
        figure(reports, name, better, format::whole, |report| {
            let latency = of(report);
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

/// The processes of each run added up: controllers differ in how many they are.
fn processes(reports: &[&Report]) -> Group {
    let figures = PROCESS.into_iter().map(|(name, format, value)| {
        figure(reports, name, Better::Lower, format, |report| {
            (!report.processes.is_empty()).then(|| report.processes.iter().map(value).sum())
        })
    });
    Group {
        title: "Processes, added up".to_owned(),
        figures: figures.collect(),
    }
}

/// Each process by its name, where every run has the same ones and there is more than one.
fn each_process(reports: &[&Report]) -> Vec<Group> {
    let names = |report: &Report| -> Vec<String> {
        let mut names: Vec<String> = report
            .processes
            .iter()
            .map(|process| process.name.clone())
            .collect();
        names.sort();
        names
    };
    let first = names(reports[0]);
    let distinct = first.windows(2).all(|pair| pair[0] != pair[1]);
    if first.len() < 2 || !distinct || reports.iter().any(|report| names(report) != first) {
        return Vec::new();
    }
    let group = |name: String| {
        let figures = PROCESS.into_iter().map(|(title, format, value)| {
            figure(reports, title, Better::Lower, format, |report| {
                report
                    .processes
                    .iter()
                    .find(|process| process.name == name)
                    .map(value)
            })
        });
        Group {
            figures: figures.collect(),
            title: name.clone(),
        }
    };
    first.into_iter().map(group).collect()
}

/// The longest time that a restart left nobody to write, in seconds.
pub(super) fn longest_gap(report: &Report) -> Option<f64> {
    let gaps = report
        .restarts
        .iter()
        .map(|restart| restart.without_writer_seconds);
    gaps.reduce(f64::max)
}
