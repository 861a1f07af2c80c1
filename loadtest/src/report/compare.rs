//! Two or more runs side by side; the first is what the others are measured by.

use super::figures::{self, Failures, Group};
use super::model::{Machine, Report};
use super::runs::{LETTERS, Run};
use super::{ABOVE_LIMIT, flags, format, page, read, text, write};
use clap::Parser;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs whose lengths differ by less than this are as long.
const AS_LONG: f64 = 0.05;

/// Flags of `loadtest compare`.
#[derive(Debug, Parser)]
pub struct Args {
    /// Report files or their directories; all others are compared with the first.
    #[arg(required = true, num_args = 2..=LETTERS.len(), value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// File to write the page to.
    #[arg(long, value_name = "FILE", default_value = "compare.html")]
    out: PathBuf,
    /// Exit with 3 if a figure of another run is worse than the first run's by more than this factor, and by more than
    /// runs of the same differ, if another run lacks a figure that the first run has, or if it was not verified.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    fail_above: Option<f64>,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text
        .parse()
        .ok()
        .filter(|factor| *factor >= 1.0 && f64::is_finite(*factor));
    factor.ok_or_else(|| "expected a factor of 1 or more, such as 1.2".to_owned())
}

/// Several runs, and their figures.
pub(crate) struct Comparison<'a> {
    runs: Vec<Run<'a>>,
    groups: Vec<Group>,
    warnings: Vec<String>,
}

// === impl Comparison ===

impl Comparison<'_> {
    /// Compares reports with the first of them. Where titles are the same, the paths tell them apart.
    pub(crate) fn of(reports: Vec<(&Path, Report)>) -> Self {
        let runs = Run::named(reports);
        Self {
            groups: figures::groups(&runs),
            warnings: warnings(&runs),
            runs,
        }
    }

    /// Writes the page.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        write(
            path,
            page::of(&self.runs, &self.groups, &self.warnings).as_bytes(),
        )
    }

    /// The tables for a terminal; colour is for terminals only.
    pub(crate) fn table(&self, colour: bool) -> String {
        text::comparison(&self.runs, &self.groups, &self.warnings, colour)
    }
}

/// Prints the table and writes the page.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reports = args.reports.iter().map(|path| Ok((path.as_path(), read(path)?)));
    let comparison = Comparison::of(reports.collect::<anyhow::Result<_>>()?);
    comparison.save(&args.out)?;
    let table = comparison.table(io::stdout().is_terminal());
    let mut text = format!("{table}\n{}\n", args.out.display());
    let mut code = ExitCode::SUCCESS;
    if let Some(limit) = args.fail_above {
        let failures = figures::failures(&comparison.runs, &comparison.groups, limit);
        text.push_str(&told(limit, &failures));
        if !failures.is_none() {
            code = ExitCode::from(ABOVE_LIMIT);
        }
    }
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A reader such as `head` may close the pipe after the lines that it needs; that is no failure.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(code),
    }
}

/// Says what failed; the last line is the outcome.
fn told(limit: f64, failures: &Failures) -> String {
    let Failures {
        worse,
        missing,
        unverified,
    } = failures;
    let mut text = String::new();
    for (title, lines) in [
        (format!("worse by more than ×{limit}:"), worse),
        ("missing:".to_owned(), missing),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}\n  {}", lines.join("\n  "));
        }
    }
    let mut outcome = Vec::new();
    let figures = |lines: &[String]| match lines.len() {
        1 => "1 figure is".to_owned(),
        count => format!("{count} figures are"),
    };
    if !worse.is_empty() {
        outcome.push(format!("{} worse by more than ×{limit}", figures(worse)));
    }
    if !missing.is_empty() {
        outcome.push(format!("{} missing", figures(missing)));
    }
    match &unverified[..] {
        [] => {}
        [one] => outcome.push(format!("{one} was not verified")),
        several => outcome.push(format!("{} were not verified", several.join(" and "))),
    }
    let _ = if outcome.is_empty() {
        writeln!(
            text,
            "no figure is worse by more than ×{limit}, and none is missing"
        )
    } else {
        writeln!(text, "failed: {}", outcome.join(", "))
    };
    text
}

/// The reasons to doubt a comparison, a line each.
fn warnings(runs: &[Run<'_>]) -> Vec<String> {
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
    let reports = || runs.iter().map(|run| &*run.report);
    warnings.extend(difference("profile", runs, |report| Some(report.profile.clone())));
    let names: BTreeSet<&String> = reports().flat_map(|report| report.parameters.keys()).collect();
    for name in names.into_iter().filter(|name| *name != "profile") {
        warnings.extend(difference(name, runs, |report| {
            report.parameters.get(name).cloned()
        }));
    }
    let given = reports().filter_map(flags::of).flatten();
    let names: BTreeSet<&str> = given.map(|(name, _)| name).collect();
    for name in names {
        let value = |report: &Report| {
            let value = match flags::of(report)?.get(name) {
                Some(Some(value)) => value,
                Some(None) => "given",
                None => "not given",
            };
            Some(value.to_owned())
        };
        warnings.extend(difference(
            &format!("flag of the controller: {name}"),
            runs,
            value,
        ));
    }
    // The load at the start is never the same to the hundredth, and is judged where a report is made.
    let machine = |Machine {
                       processor,
                       cores,
                       memory_bytes,
                       system,
                       ..
                   }: &Machine| {
        format!(
            "{processor}, {cores} cores, {}, {system}",
            format::bytes(*memory_bytes as f64)
        )
    };
    warnings.extend(difference("machine", runs, |report| {
        Some(machine(&report.machine))
    }));
    // The controllers are what is compared, but both by the same measure.
    warnings.extend(difference("version of loadtest", runs, |report| {
        report.versions.get("loadtest").cloned()
    }));
    warnings.extend(difference("rounds", runs, |report| {
        Some(report.rounds.len().max(1).to_string())
    }));
    let first = runs[0].report.seconds;
    if reports().any(|report| (report.seconds - first).abs() > AS_LONG * first) {
        warnings.extend(difference("length", runs, |report| {
            Some(format::seconds(report.seconds))
        }));
    }
    for Run { letter, report, .. } in runs {
        if let Some(throttling) = report
            .throttling
            .as_ref()
            .filter(|_| figures::is_throttled(report))
        {
            let share = format::percent(throttling.share);
            warnings.push(format!(
                "{letter} was throttled {share} of the time: {} Changes that wait share a write, so its writes and bytes per change are not judged.",
                figures::advice(report)
            ));
        }
        let own = report.verdict.warnings.iter();
        warnings.extend(own.map(|warning| format!("{letter} warned: {warning}")));
    }
    warnings
}

/// A setting that is not the same in all runs, such as `rate: 500 (A), 100 (B, C)`.
fn difference(name: &str, runs: &[Run<'_>], value: impl Fn(&Report) -> Option<String>) -> Option<String> {
    let mut values: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for run in runs {
        let (value, letter) = (value(&run.report), run.letter.to_string());
        match values.iter_mut().find(|(other, _)| *other == value) {
            Some((_, letters)) => letters.push(letter),
            None => values.push((value, vec![letter])),
        }
    }
    let differs = values.len() > 1;
    let values = values.into_iter().map(|(value, letters)| {
        let value = value.map_or_else(|| "not known".to_owned(), |value| format::cut(&value, 60));
        format!("{value} ({})", letters.join(", "))
    });
    differs.then(|| format!("{name}: {}", values.collect::<Vec<_>>().join("; ")))
}

#[cfg(test)]
mod tests;
