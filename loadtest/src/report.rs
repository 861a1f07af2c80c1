//! The report of a run: as JSON, as a page, and two or more of them side by side.

use anyhow::{Context, anyhow, bail};
use memory_apiserver::without_nulls;
use model::{Report, SCHEMA};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

mod chart;
pub mod compare;
mod figures;
mod flags;
pub(crate) mod format;
pub mod model;
mod page;
mod runs;
pub(crate) mod spread;
mod text;

pub(crate) use self::figures::{DURATIONS, latencies};
use self::runs::Run;

#[cfg(test)]
mod sample;

/// The exit code where a figure is above a limit that the user set.
pub(crate) const ABOVE_LIMIT: u8 = 3;
/// The name of a report in its directory.
const JSON: &str = "report.json";
const HTML: &str = "report.html";

/// Where a report was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    /// The report as data.
    pub json: PathBuf,
    /// The report as a page.
    pub html: PathBuf,
}

/// Writes a report as data and as a page. The directory is made if it is not there.
pub fn save(report: &Report, dir: &Path) -> anyhow::Result<Saved> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let saved = Saved {
        json: dir.join(JSON),
        html: dir.join(HTML),
    };
    let mut json = serde_json::to_vec_pretty(report).context("cannot encode the report")?;
    json.push(b'\n');
    write(&saved.json, &json)?;
    let run = [Run::alone(report)];
    let page = page::of(&run, &figures::groups(&run), &[]);
    write(&saved.html, page.as_bytes())?;
    Ok(saved)
}

/// The figures for a terminal, at most 80 columns wide; colour is for terminals only.
pub fn table(report: &Report, colour: bool) -> String {
    text::table(report, colour)
}

/// Reads a report, or the one in a directory.
pub fn read(path: &Path) -> anyhow::Result<Report> {
    let file = if path.is_dir() {
        path.join(JSON)
    } else {
        path.to_owned()
    };
    let name = file.display();
    let bytes = fs::read(&file).with_context(|| format!("cannot read {name}"))?;
    let mut value: Value = serde_json::from_slice(&bytes).with_context(|| format!("{name} is no report"))?;
    let schema = value
        .get("schema")
        .and_then(Value::as_u64)
        .filter(|&schema| schema > 0);
    let schema = schema.ok_or_else(|| anyhow!("{name} is no report: it has no \"schema\""))?;
    if schema > SCHEMA.into() {
        bail!(
            "{name} has schema {schema}, and this loadtest knows those up to {SCHEMA}: a newer loadtest wrote it"
        );
    }
    // JSON knows no infinity and has null instead; what is missing has a default.
    without_nulls(&mut value);
    serde_json::from_value(value).with_context(|| format!("{name} is no report"))
}

/// Writes a file whole or not at all, so that no reader sees the half of one.
fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    fs::write(&beside, contents)
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
