//! Two or more runs side by side; the first is what the others are measured by.

use std::{
    fmt::Write as _,
    io::{self, ErrorKind, IsTerminal, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;

use super::{
    ABOVE_LIMIT, figures, page, read,
    runs::{LETTERS, Run},
    settings, text, write,
};

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
    /// runs of the same differ.
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
    let failures = args
        .fail_above
        .map(|limit| figures::worse_than(&runs, &groups, limit));
    let mut text = format!("{text}\n{}\n", args.out.display());
    if let (Some(limit), Some(failures)) = (args.fail_above, &failures) {
        let _ = writeln!(text, "{}", above(limit, failures));
    }
    let code = match failures {
        Some(failures) if !failures.is_empty() => ExitCode::from(ABOVE_LIMIT),
        _ => ExitCode::SUCCESS,
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads only the first lines has what they want.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(code),
    }
}

/// What is worse than it may be.
fn above(limit: f64, failures: &[String]) -> String {
    if failures.is_empty() {
        return format!("no figure is worse by more than ×{limit}");
    }
    let lines: String = failures
        .iter()
        .fold(String::new(), |lines, line| lines + "\n  " + line);
    format!("worse by more than ×{limit}:{lines}")
}

#[cfg(test)]
mod tests;
