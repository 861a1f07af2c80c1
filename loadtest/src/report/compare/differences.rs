//! What makes a comparison doubtful.

use std::collections::BTreeSet;

use super::{
    super::{format, model::Report, page},
    Run,
};

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
    fn new(name: impl Into<String>, runs: &[Run], value: impl Fn(&Report) -> Option<String>) -> Self {
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
    fn line(&self, runs: &[Run]) -> String {
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
pub(super) fn parameters(runs: &[Run]) -> Vec<Setting> {
    let profile = Setting::new("profile", runs, |report| Some(report.profile.clone()));
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.report.parameters.keys()).collect();
    let others = names.into_iter().filter(|name| *name != "profile");
    let others = others.map(|name| Setting::new(name, runs, |report| report.parameters.get(name).cloned()));
    std::iter::once(profile).chain(others).collect()
}

/// Where the runs ran.
pub(super) fn machines(runs: &[Run]) -> Vec<Setting> {
    let names = page::machine(&runs[0].report.machine).map(|(name, _)| name);
    let settings = names.into_iter().enumerate();
    settings
        .map(|(number, name)| {
            Setting::new(name, runs, |report| {
                let [.., (_, value)] = &page::machine(&report.machine)[..=number] else {
                    return None;
                };
                Some(value.clone())
            })
        })
        .collect()
}

/// What ran.
pub(super) fn versions(runs: &[Run]) -> Vec<Setting> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.report.versions.keys()).collect();
    names
        .into_iter()
        .map(|name| Setting::new(name, runs, |report| report.versions.get(name).cloned()))
        .collect()
}

/// What readers should know before they trust the comparison, a line each.
pub(super) fn warnings(runs: &[Run]) -> Vec<String> {
    let mut warnings = Vec::new();
    for run in runs {
        let verdict = &run.report.verdict;
        if !verdict.verified {
            warnings.push(format!(
                "{} was not verified: its figures are those of a run that went wrong",
                run.letter
            ));
        }
        if run.report.changes.made == 0 {
            warnings.push(format!(
                "{} made no changes: it has nothing to compare",
                run.letter
            ));
        } else if !verdict.generator_kept_up {
            warnings.push(format!(
                "{} had a generator that lagged: the load was lower than it claims to be",
                run.letter
            ));
        }
    }
    warnings.extend(
        parameters(runs)
            .iter()
            .filter(|setting| setting.differs())
            .map(|setting| setting.line(runs)),
    );
    // The load at the start is never the same to the hundredth, and is judged by whoever made the report.
    let machines = machines(runs)
        .into_iter()
        .filter(|setting| setting.name != "Load average");
    warnings.extend(
        machines
            .filter(Setting::differs)
            .map(|setting| format!("machine: {}", setting.line(runs))),
    );
    // The controllers are what is compared, but both by the same measure.
    let measure = versions(runs)
        .into_iter()
        .find(|setting| setting.name == "loadtest");
    warnings.extend(
        measure
            .filter(Setting::differs)
            .map(|setting| format!("version of {}", setting.line(runs))),
    );
    let seconds = |run: &Run| run.report.seconds;
    if runs
        .iter()
        .any(|run| (seconds(run) - seconds(&runs[0])).abs() > AS_LONG * seconds(&runs[0]))
    {
        let length = Setting::new("length", runs, |report| Some(format::seconds(report.seconds)));
        warnings.push(length.line(runs));
    }
    for run in runs {
        let own = run.report.verdict.warnings.iter();
        warnings.extend(own.map(|warning| format!("{} warned: {warning}", run.letter)));
    }
    warnings
}
