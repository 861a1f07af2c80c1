//! What README.md says of runs on a real API server: it is written from what they found, part by part.
//!
//! Results are kept in a file beside the other results of loads. A run replaces those of its parts and no others, so each part
//! is named with the commit, the date and the versions that it was run with.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{
    parts::loads::{self, Row},
    table::{self, Verdict},
};
use crate::report::model::Machine;

/// Where results are kept, below the folder of README.md.
const RESULTS: &str = "loadtest/results/real/results.json";
const END: &str = "<!-- loadtest real: end -->";
const WHAT_WAS_RUN: &str = "<!-- loadtest real: what was run -->";
const LOADS: &str = "<!-- loadtest real: loads -->";

/// What a part was run with.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct With {
    pub(super) commit: String,
    /// The day, as `2026-11-25`.
    pub(super) date: String,
    /// The programs with their versions.
    pub(super) versions: String,
    /// The processor and its cores.
    pub(super) machine: String,
    /// With `--quick`.
    pub(super) quick: bool,
}

/// What a part found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    with: With,
    passed: bool,
    words: String,
    /// What was measured, if it is a load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rows: Vec<Row>,
}

/// The results of all parts, by their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Results(BTreeMap<String, Found>);

/// Puts the results of a run into README.md, and into the file beside the others.
pub(super) fn write(
    readme: &Path,
    with: &With,
    rows: &[table::Row],
    loads: &BTreeMap<String, Vec<Row>>,
) -> anyhow::Result<()> {
    let folder = match readme.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let path = folder.join(RESULTS);
    let mut results: Results = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Results::default(),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    for row in rows.iter().filter(|row| row.outcome.verdict != Verdict::Skipped) {
        let words = row.outcome.words.lines().next().unwrap_or_default().to_owned();
        let found = Found {
            with: with.clone(),
            passed: row.outcome.verdict == Verdict::Passed,
            words,
            rows: loads.get(&row.part).cloned().unwrap_or_default(),
        };
        results.0.insert(row.part.clone(), found);
    }
    let text = fs::read_to_string(readme).with_context(|| format!("reading {}", readme.display()))?;
    let text = replaced(&text, WHAT_WAS_RUN, &results.what_was_run())
        .and_then(|text| replaced(&text, LOADS, &results.loads()))
        .with_context(|| readme.display().to_string())?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let mut json = serde_json::to_vec_pretty(&results)?;
    json.push(b'\n');
    fs::write(&path, json).with_context(|| format!("writing {}", path.display()))?;
    fs::write(readme, text).with_context(|| format!("writing {}", readme.display()))
}

/// A text with other words between a mark and the next end.
fn replaced(text: &str, mark: &str, words: &str) -> anyhow::Result<String> {
    let (before, rest) = text
        .split_once(mark)
        .with_context(|| format!("there is no {mark}"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("{mark} has no end"))?;
    Ok(format!("{before}{mark}\n{words}{END}{after}"))
}

// === impl Results ===

impl Results {
    /// Groups of parts that were run with the same, the latest first.
    fn groups(&self) -> Vec<(&With, Vec<(&String, &Found)>)> {
        let mut groups: BTreeMap<&With, Vec<(&String, &Found)>> = BTreeMap::new();
        for (part, found) in &self.0 {
            groups.entry(&found.with).or_default().push((part, found));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|(one, _), (other, _)| other.date.cmp(&one.date));
        groups
    }

    /// A paragraph for each group, and a line for each part.
    fn what_was_run(&self) -> String {
        let mut out = String::new();
        for (with, parts) in self.groups() {
            let _ = writeln!(out, "> **Run on a real API server**: {with}\n>");
            for (part, Found { passed, words, .. }) in parts {
                let failed = if *passed { "" } else { "**failed**: " };
                let _ = writeln!(out, "> - `{part}`: {failed}{words}");
            }
            out.push_str(">\n");
        }
        if out.is_empty() {
            out.push_str("> **Not run on a real API server** yet.\n");
        }
        out
    }

    /// The tables of all loads, each with what it was run with.
    fn loads(&self) -> String {
        let mut out = String::new();
        for (with, parts) in self.groups() {
            let rows: Vec<Row> = parts.iter().flat_map(|(_, found)| found.rows.clone()).collect();
            if !rows.is_empty() {
                let _ = writeln!(out, "{with}\n\n{}", loads::table(&rows));
            }
        }
        out
    }
}

// === impl With ===

impl With {
    /// Of this program, on this machine, today.
    pub(super) fn now(versions: String, machine: &Machine, quick: bool) -> Self {
        Self {
            commit: option_env!("LOADTEST_COMMIT").unwrap_or("unknown").to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            versions,
            machine: format!("{} cores ({})", machine.cores, machine.processor),
            quick,
        }
    }
}

impl std::fmt::Display for With {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            commit,
            date,
            versions,
            machine,
            quick,
        } = self;
        let small = if *quick { ", in small (`--quick`)" } else { "" };
        write!(
            f,
            "commit {commit} on {date}, with {versions}, on one machine with {machine}{small}:"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::table::Outcome, *};

    fn with(commit: &str, date: &str) -> With {
        With {
            commit: commit.to_owned(),
            date: date.to_owned(),
            versions: "kube-apiserver 1.36.2".to_owned(),
            machine: "2 cores (x)".to_owned(),
            quick: false,
        }
    }

    fn row(part: &str, outcome: Outcome) -> table::Row {
        table::Row {
            part: part.to_owned(),
            took: Duration::from_secs(1),
            outcome,
        }
    }

    #[test]
    fn a_run_replaces_what_was_said_of_its_parts_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("loadtest-readme-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let readme = folder.join("README.md");
        let text = format!("# x\n\n{WHAT_WAS_RUN}\nold\n{END}\n\nbetween\n\n{LOADS}\n{END}\nlast\n");
        fs::write(&readme, text).unwrap();
        let first = [
            row("scenarios", Outcome::passed("114 of 114\nmore")),
            row("guard", Outcome::failed("5 of 6")),
            row("load", Outcome::skipped("no etcd")),
        ];
        write(&readme, &with("aaa", "2026-11-24"), &first, &BTreeMap::new()).unwrap();
        let second = [row("guard", Outcome::passed("6 of 6"))];
        write(&readme, &with("bbb", "2026-11-25"), &second, &BTreeMap::new()).unwrap();
        let text = fs::read_to_string(&readme).unwrap();
        let kept = folder.join(RESULTS).is_file();
        fs::remove_dir_all(folder).unwrap();
        assert!(kept);
        assert_eq!(
            text,
            format!(
                "# x\n\n{WHAT_WAS_RUN}\n\
                 > **Run on a real API server**: commit bbb on 2026-11-25, with kube-apiserver 1.36.2, on one machine with 2 cores \
                 (x):\n>\n> - `guard`: 6 of 6\n>\n\
                 > **Run on a real API server**: commit aaa on 2026-11-24, with kube-apiserver 1.36.2, on one machine with 2 cores \
                 (x):\n>\n> - `scenarios`: 114 of 114\n>\n{END}\n\nbetween\n\n{LOADS}\n{END}\nlast\n"
            )
        );
    }

    #[test]
    fn a_mark_that_is_missing_is_named() {
        let error = replaced("no marks", LOADS, "x").unwrap_err();
        assert!(error.to_string().contains(LOADS), "{error}");
        assert!(replaced(&format!("{LOADS} without an end"), LOADS, "x").is_err());
    }
}
