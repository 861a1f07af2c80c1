//! The text of README.md about runs on a real API server: it is written from what they found, part by part.
//!
//! Results are kept in a file beside the other results of loads. A run replaces those of its parts and no others, so each part
//! is named with the commit, the date and the versions that it was run with. README.md says which parts passed and what users
//! of a cluster notice of the loads; a page beside the results has all that was found.

use super::parts::loads::{self, Row};
use super::table::{self, Verdict};
use crate::report::model::Machine;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Where results are kept, below the folder of README.md.
const RESULTS: &str = "loadtest/results/real/results.json";
/// The page with all results, below the folder of README.md.
const PAGE: &str = "loadtest/results/real/README.md";
const END: &str = "<!-- loadtest real: end -->";
const WHAT_WAS_RUN: &str = "<!-- loadtest real: what was run -->";
const LOADS: &str = "<!-- loadtest real: loads -->";

/// The programs and the machine that a part was run with.
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

/// The result of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    with: With,
    passed: bool,
    words: String,
    /// The measurements, if it is a load.
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
    let page = folder.join(PAGE);
    fs::write(&page, results.page()).with_context(|| format!("writing {}", page.display()))?;
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

/// Returns the measurements of the loads among some parts.
fn rows_of(parts: &[(&String, &Found)]) -> Vec<Row> {
    let rows = parts.iter().flat_map(|(_, found)| &found.rows);
    rows.cloned().collect()
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

    /// For README.md: a paragraph for each group, with the names of its parts.
    fn what_was_run(&self) -> String {
        let mut out = String::new();
        for (with, parts) in self.groups() {
            let named = |passed| {
                let parts = parts.iter().filter(|(_, found)| found.passed == passed);
                parts
                    .map(|(part, _)| part.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let _ = write!(out, "> **Run on a real API server**: {}.", with.programs());
            for (passed, verdict) in [(true, "Passed"), (false, "**Failed**")] {
                let named = named(passed);
                if !named.is_empty() {
                    let _ = write!(out, " {verdict}: {named}.");
                }
            }
            out.push_str("\n>\n");
        }
        let _ = if out.is_empty() {
            writeln!(out, "> **Not run on a real API server** yet.")
        } else {
            writeln!(out, "> [What each part found]({PAGE}).")
        };
        out
    }

    /// For README.md: what users of a cluster notice of the loads, each table with what it was run with.
    fn loads(&self) -> String {
        let mut out = String::new();
        for (with, parts) in self.groups() {
            let mut rows = rows_of(&parts);
            rows.sort_by_key(Row::has_watchers);
            if !rows.is_empty() {
                let _ = writeln!(
                    out,
                    "{}\nMedians; {with} [All figures, with their ranges]({PAGE}).",
                    loads::short_table(&rows)
                );
            }
        }
        out
    }

    /// The page with all that was found: a line for each part, and the tables of all loads.
    fn page(&self) -> String {
        let mut out =
            "# On a real API server\n\nWritten by `.ci/real --write-readme-table`. [CONTRIBUTING.md]\
                       (../../../CONTRIBUTING.md#on-a-real-api-server) says what each part shows.\n"
                .to_owned();
        for (with, parts) in self.groups() {
            let _ = writeln!(
                out,
                "\n## {with}\n\n| part | result | what it found |\n|---|---|---|"
            );
            for (part, Found { passed, words, .. }) in &parts {
                let verdict = if *passed { "passed" } else { "**failed**" };
                let _ = writeln!(out, "| `{part}` | {verdict} | {} |", words.replace('|', "\\|"));
            }
            let rows = rows_of(&parts);
            if !rows.is_empty() {
                let _ = write!(out, "\n{}", loads::table(&rows));
            }
        }
        out
    }
}

// === impl With ===

impl With {
    /// Describes this program, on this machine, today.
    pub(super) fn now(versions: String, machine: &Machine, quick: bool) -> Self {
        Self {
            commit: option_env!("LOADTEST_COMMIT").unwrap_or("unknown").to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            versions,
            machine: format!("{} cores ({})", machine.cores, machine.processor),
            quick,
        }
    }

    /// Returns the programs that were run, without the machine, which matters to nothing but loads.
    fn programs(&self) -> String {
        let Self {
            commit,
            date,
            versions,
            machine: _,
            quick,
        } = self;
        let small = if *quick { ", in small (`--quick`)" } else { "" };
        format!("commit {commit} on {date}, with {versions}{small}")
    }
}

impl std::fmt::Display for With {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, on one machine with {}.", self.programs(), self.machine)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Outcome;
    use super::*;
    use std::time::Duration;

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
            row("outages", Outcome::failed("late")),
            row("load", Outcome::skipped("no etcd")),
        ];
        write(&readme, &with("aaa", "2026-11-24"), &first, &BTreeMap::new()).unwrap();
        let second = [row("guard", Outcome::passed("6 of 6"))];
        write(&readme, &with("bbb", "2026-11-25"), &second, &BTreeMap::new()).unwrap();
        let text = fs::read_to_string(&readme).unwrap();
        let kept = folder.join(RESULTS).is_file();
        let page = fs::read_to_string(folder.join(PAGE)).unwrap();
        fs::remove_dir_all(folder).unwrap();
        assert!(kept);
        let with = |commit, day| format!("commit {commit} on 2026-11-{day}, with kube-apiserver 1.36.2.");
        assert_eq!(
            text,
            format!(
                "# x\n\n{WHAT_WAS_RUN}\n> **Run on a real API server**: {} Passed: guard.\n>\n> **Run on a real API server**: {} Passed: \
                 scenarios. **Failed**: outages.\n>\n> [What each part found]({PAGE}).\n{END}\n\nbetween\n\n{LOADS}\n{END}\nlast\n",
                with("bbb", 25),
                with("aaa", 24)
            )
        );
        for line in [
            "| `guard` | passed | 6 of 6 |",
            "| `scenarios` | passed | 114 of 114 |",
            "| `outages` | **failed** | late |",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }

    #[test]
    fn a_mark_that_is_missing_is_named() {
        let error = replaced("no marks", LOADS, "x").unwrap_err();
        assert!(error.to_string().contains(LOADS), "{error}");
        assert!(replaced(&format!("{LOADS} without an end"), LOADS, "x").is_err());
    }
}
