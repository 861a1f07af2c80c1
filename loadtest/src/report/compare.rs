//! Two or more runs side by side; the first is what the others are measured by.

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;

use super::{
    figures, page, read,
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
}

/// Prints the table and writes the page.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let reports = args.reports.iter().map(|path| Ok((path.as_path(), read(path)?)));
    let runs = Run::named(reports.collect::<anyhow::Result<_>>()?);
    let warnings = settings::warnings(&runs);
    let groups = figures::groups(&runs);
    write(&args.out, page::of_several(&runs, &groups, &warnings).as_bytes())?;
    let text = text::comparison(&runs, &groups, &warnings, io::stdout().is_terminal());
    let text = format!("{text}\n{}\n", args.out.display());
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads only the first lines has what they want.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests;
