//! Two or more runs side by side; the first is what the others are measured by.

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;

use super::{format, model::Report, read, single, write};

mod differences;
mod figures;
mod page;
mod text;

/// The letters that runs go by, as many as there are colours.
const LETTERS: [char; 8] = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'];

/// Which reports to compare.
#[derive(Debug, Parser)]
pub struct Args {
    /// Report files or their directories; all others are compared with the first.
    #[arg(required = true, num_args = 2..=LETTERS.len(), value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// File to write the page to.
    #[arg(long, value_name = "FILE", default_value = "compare.html")]
    out: PathBuf,
}

/// One of the runs.
struct Run {
    letter: char,
    /// Its title, and its file's name where another has the same title.
    name: String,
    report: Report,
}

// === impl Run ===

impl Run {
    /// Letter and name, as legends have them.
    fn label(&self) -> String {
        format!("{} {}", self.letter, format::cut(&self.name, 40))
    }
}

/// Prints the table and writes the page.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reports = args.reports.iter().map(|path| Ok((path.as_path(), read(path)?)));
    let runs = name(reports.collect::<anyhow::Result<_>>()?);
    let warnings = differences::warnings(&runs);
    let groups = figures::groups(&runs);
    write(&args.out, page::page(&runs, &groups, &warnings).as_bytes())?;
    let text = text::text(&runs, &groups, &warnings, io::stdout().is_terminal());
    let text = format!("{text}\n{}\n", args.out.display());
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads only the first lines has what they want.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Gives each run its letter, and a name that no other has if that can be.
fn name(reports: Vec<(&Path, Report)>) -> Vec<Run> {
    let titles: Vec<String> = reports
        .iter()
        .map(|(_, report)| single::name(report).to_owned())
        .collect();
    let named = reports
        .into_iter()
        .zip(LETTERS)
        .zip(&titles)
        .map(|(((path, report), letter), title)| {
            let shared = titles.iter().filter(|other| *other == title).count() > 1;
            let name = if shared {
                format!("{title} ({})", path.display())
            } else {
                title.clone()
            };
            Run { letter, name, report }
        });
    named.collect()
}

#[cfg(test)]
mod tests;
