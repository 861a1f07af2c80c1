//! The settings of runs, and the differences that make a comparison doubtful.

use super::figures::{self, Throttled};
use super::model::{Machine, Report};
use super::runs::Run;
use super::{flags, format};
use std::collections::BTreeSet;

/// Runs whose lengths differ by less than this are as long.
const AS_LONG: f64 = 0.05;

/// One setting of all runs.
pub(super) struct Setting {
    pub(super) name: String,
    /// None where a run does not have it.
    pub(super) values: Vec<Option<String>>,
}

// === impl Setting ===

impl Setting {
    fn new(name: impl Into<String>, runs: &[Run<'_>], value: impl Fn(&Report) -> Option<String>) -> Self {
        Self {
            name: name.into(),
            values: runs.iter().map(|run| value(&run.report)).collect(),
        }
    }

    /// Not all runs have the same.
    pub(super) fn differs(&self) -> bool {
        self.values.iter().any(|value| *value != self.values[0])
    }

    /// `rate: 500 (A), 100 (B, C)`.
    fn line(&self, runs: &[Run<'_>]) -> String {
        let mut values: Vec<(&Option<String>, Vec<String>)> = Vec::new();
        for (value, run) in self.values.iter().zip(runs) {
            match values.iter_mut().find(|(other, _)| *other == value) {
                Some((_, letters)) => letters.push(run.letter.to_string()),
                None => values.push((value, vec![run.letter.to_string()])),
            }
        }
        let values = values.into_iter().map(|(value, letters)| {
            let value = value
                .as_deref()
                .map_or_else(|| "not known".to_owned(), |value| format::cut(value, 60));
            format!("{value} ({})", letters.join(", "))
        });
        format!("{}: {}", self.name, values.collect::<Vec<_>>().join("; "))
    }
}

/// The parameters of all runs, profile included.
fn parameters(runs: &[Run<'_>]) -> Vec<Setting> {
    let profile = Setting::new("profile", runs, |report| Some(report.profile.clone()));
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.report.parameters.keys()).collect();
    let others = names.into_iter().filter(|name| *name != "profile");
    let others = others.map(|name| Setting::new(name, runs, |report| report.parameters.get(name).cloned()));
    std::iter::once(profile).chain(others).collect()
}

/// Where the runs ran.
fn machines(runs: &[Run<'_>]) -> Vec<Setting> {
    type Of = fn(&Machine) -> Option<String>;
    let all: [(&str, Of); 5] = [
        ("Processor", |machine| known(&machine.processor)),
        ("Cores", |machine| {
            (machine.cores > 0).then(|| machine.cores.to_string())
        }),
        ("Memory", |machine| {
            (machine.memory_bytes > 0).then(|| format::bytes(machine.memory_bytes as f64))
        }),
        ("System", |machine| known(&machine.system)),
        ("Load average", |machine| {
            (machine.cores > 0).then(|| format!("{:.2} at the start", machine.load_average))
        }),
    ];
    let setting = |(name, of): (&str, Of)| Setting::new(name, runs, |report| of(&report.machine));
    all.into_iter().map(setting).collect()
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Versions of the programs that ran.
fn versions(runs: &[Run<'_>]) -> Vec<Setting> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.report.versions.keys()).collect();
    names
        .into_iter()
        .map(|name| Setting::new(name, runs, |report| report.versions.get(name).cloned()))
        .collect()
}

/// The flags of the runs' controllers, each with its value.
fn flags(runs: &[Run<'_>]) -> Vec<Setting> {
    let given = |run| flags::of(run).into_iter().flatten();
    let names: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| given(&run.report))
        .map(|(name, _)| name)
        .collect();
    let value = |report: &Report, name: &str| {
        let value = match flags::of(report)?.get(name) {
            Some(Some(value)) => value,
            Some(None) => "given",
            None => "not given",
        };
        Some(value.to_owned())
    };
    names
        .into_iter()
        .map(|name| Setting::new(name, runs, |report| value(report, name)))
        .collect()
}

/// All of it, by sort.
pub(super) fn all(runs: &[Run<'_>]) -> [(&'static str, Vec<Setting>); 4] {
    let mut parameters = parameters(runs);
    if runs.len() == 1 {
        // The page's head has the profile already.
        parameters.retain(|setting| setting.name != "profile");
    }
    [
        ("Parameters", parameters),
        ("Flags of the controller", flags(runs)),
        ("Machine", machines(runs)),
        ("Versions", versions(runs)),
    ]
}

/// Warnings for readers of the comparison, a line each.
pub(super) fn warnings(runs: &[Run<'_>]) -> Vec<String> {
    let mut warnings = Vec::new();
    for Run { letter, report, .. } in runs {
        if !report.verdict.verified {
            warnings.push(format!(
                "{letter} was not verified: its figures are those of a run that went wrong"
            ));
        }
        if report.changes.made == 0 {
            warnings.push(format!("{letter} made no changes: it has nothing to compare"));
        } else if !report.verdict.generator_kept_up {
            warnings.push(format!(
                "{letter} had a generator that lagged: the load was lower than it claims to be"
            ));
        }
    }
    let differing = |prefix: &str, mut settings: Vec<Setting>| -> Vec<String> {
        settings.retain(Setting::differs);
        let lines = settings
            .iter()
            .map(|setting| format!("{prefix}{}", setting.line(runs)));
        lines.collect()
    };
    warnings.extend(differing("", parameters(runs)));
    warnings.extend(differing("flag of the controller: ", flags(runs)));
    // The load at the start is never the same to the hundredth, and is judged where a report is made.
    let mut machines = machines(runs);
    machines.retain(|setting| setting.name != "Load average");
    warnings.extend(differing("machine: ", machines));
    // The controllers are what is compared, but both by the same measure.
    let mut versions = versions(runs);
    versions.retain(|setting| setting.name == "loadtest");
    warnings.extend(differing("version of ", versions));
    let rounds = Setting::new("rounds", runs, |report| {
        Some(report.rounds.len().max(1).to_string())
    });
    warnings.extend(differing("", vec![rounds]));
    let first = runs[0].report.seconds;
    if runs
        .iter()
        .any(|run| (run.report.seconds - first).abs() > AS_LONG * first)
    {
        let length = Setting::new("length", runs, |report| Some(format::seconds(report.seconds)));
        warnings.push(length.line(runs));
    }
    for Run { letter, report, .. } in runs {
        if let Some(Throttled::For(share)) = figures::throttled(report) {
            let share = format::percent(share);
            warnings.push(format!(
                "{letter} was throttled {share} of the time: {} Changes that wait share a write, so its writes and bytes per \
                 change are not judged.",
                figures::advice(report)
            ));
        }
    }
    for run in runs {
        let own = run.report.verdict.warnings.iter();
        warnings.extend(own.map(|warning| format!("{} warned: {warning}", run.letter)));
    }
    warnings
}
