//! The outcomes of the parts, as a table.

use crate::figures::time;
use std::fmt::Write;
use std::time::Duration;

/// How a part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// It could not be run here, for a reason that is no failure.
    Skipped,
}

/// The outcome of a part.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// In a line.
    pub(super) words: String,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) part: String,
    pub(super) took: Duration,
    pub(super) outcome: Outcome,
}

// === impl Verdict ===

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

// === impl Outcome ===

impl Outcome {
    pub(super) fn passed(words: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Passed,
            words: words.into(),
        }
    }

    pub(super) fn failed(words: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Failed,
            words: words.into(),
        }
    }

    pub(super) fn skipped(words: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Skipped,
            words: words.into(),
        }
    }
}

/// The table, and a last line that counts.
pub(super) fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.part.len()).max().unwrap_or_default();
    let mut out = String::new();
    for Row { part, took, outcome } in rows {
        let took = match outcome.verdict {
            Verdict::Skipped => String::new(),
            _ => time(*took),
        };
        let verdict = outcome.verdict.text();
        // Only the first line: the rest was shown when the part ended.
        let words = outcome.words.lines().next().unwrap_or_default();
        let _ = writeln!(out, "{part:width$}  {verdict:7}  {took:>8}  {words}");
    }
    let count = |verdict| rows.iter().filter(|row| row.outcome.verdict == verdict).count();
    let (passed, failed) = (count(Verdict::Passed), count(Verdict::Failed));
    let skipped = count(Verdict::Skipped);
    let _ = writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped");
    out
}
