//! Two or more runs side by side; the first is what the others are measured by.

use super::figures::{self, Failures};
use super::runs::{LETTERS, Run};
use super::{ABOVE_LIMIT, page, read, settings, text, write};
use clap::Parser;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

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

/// Prints the table and writes the page.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reports = args.reports.iter().map(|path| Ok((path.as_path(), read(path)?)));
    let runs = Run::named(reports.collect::<anyhow::Result<_>>()?);
    let warnings = settings::warnings(&runs);
    let groups = figures::groups(&runs);
    write(&args.out, page::of_several(&runs, &groups, &warnings).as_bytes())?;
    let text = text::comparison(&runs, &groups, &warnings, io::stdout().is_terminal());
    let mut text = format!("{text}\n{}\n", args.out.display());
    let mut code = ExitCode::SUCCESS;
    if let Some(limit) = args.fail_above {
        let failures = figures::failures(&runs, &groups, limit);
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

#[cfg(test)]
mod tests;
