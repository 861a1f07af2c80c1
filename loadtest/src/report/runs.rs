//! The runs that a page or a table shows. If there are several, the others are measured by the first.

use super::format;
use super::model::Report;
use std::borrow::Cow;
use std::path::Path;

/// The letters that runs go by, as many as there are colours.
pub(super) const LETTERS: [char; 8] = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'];

/// One of the runs.
pub(super) struct Run<'a> {
    pub(super) letter: char,
    /// Its title, and its file's name where another has the same title.
    pub(super) name: String,
    pub(super) report: Cow<'a, Report>,
}

// === impl Run ===

impl<'a> Run<'a> {
    /// A run that nothing is compared with.
    pub(super) fn alone(report: &'a Report) -> Self {
        Self {
            letter: LETTERS[0],
            name: title(report).to_owned(),
            report: Cow::Borrowed(report),
        }
    }

    /// Gives each run its letter, and a name that no other has if that can be.
    pub(super) fn named(reports: Vec<(&Path, Report)>) -> Vec<Self> {
        let titles: Vec<String> = reports
            .iter()
            .map(|(_, report)| title(report).to_owned())
            .collect();
        let named = reports.into_iter().zip(LETTERS).zip(&titles);
        let named = named.map(|(((path, report), letter), title)| {
            let is_shared = titles.iter().filter(|other| *other == title).count() > 1;
            let name = if is_shared {
                format!("{title} ({})", path.display())
            } else {
                title.clone()
            };
            let report = Cow::Owned(report);
            Self { letter, name, report }
        });
        named.collect()
    }

    /// Letter and name.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.letter, self.name)
    }

    /// The profile, when the run began, how long it took, and its controller, as far as they are known.
    pub(super) fn facts(&self) -> String {
        let report = &self.report;
        let controller = report.versions.get("controller").cloned();
        let first = || report.processes.first().map(|process| process.name.clone());
        let facts = [
            report.profile.clone(),
            format::date(&report.started),
            format::seconds(report.seconds),
            controller.or_else(first).unwrap_or_default(),
        ];
        let facts = facts.iter().map(|fact| format::cut(&format::clean(fact), 32));
        facts
            .filter(|fact| !fact.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn title(report: &Report) -> &str {
    let title = report.title.trim();
    if title.is_empty() {
        "A run without a name"
    } else {
        title
    }
}
