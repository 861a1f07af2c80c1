//! The page of one run, or of several beside each other: how each ended, three charts, and the figures. It is one file, which
//! loads nothing and runs nothing.

use super::figures::{self, Better, Figure, Group, Judgement};
use super::runs::Run;
use super::{chart, format};
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");
/// More problems than these are in `report.json` only.
const SHOWN: usize = 10;

/// The page.
pub(super) fn of(runs: &[Run<'_>], groups: &[Group], warnings: &[String]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let title = names.join(" and ");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) ": loadtest" }
                // Browsers ask the server for an icon otherwise.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                @for (number, run) in runs.iter().enumerate() { (outcome(number, run, runs.len() == 1)) }
                @if !warnings.is_empty() { ul { @for warning in warnings { li.doubtful { (warning) } } } }
                (chart::latency(runs)) (chart::cpu(runs)) (chart::memory(runs))
                div.scroll tabindex="0" { (table(runs, groups)) }
                footer { "The data are in the report.json of each run." }
            }
        }
    };
    page.into_string()
}

/// Nothing may be loaded, no script runs, and of styles only the one of this file applies. So text of a report that got into the
/// page as markup could do nothing.
fn policy() -> String {
    let style = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// What ran, and how it ended. `is_alone`: no warnings of a comparison say the rest.
fn outcome(number: usize, run: &Run<'_>, is_alone: bool) -> Markup {
    let report = &run.report;
    let problems = &report.verdict.problems;
    let missed = report.budgets.iter().filter(|budget| !budget.met);
    html! {
        section.run {
            @if !is_alone { h2 { (chart::key(number)) (run.label()) } }
            p { (run.facts()) }
            p { @for (mood, word) in figures::verdict(report) { span class={ "word " (mood.class()) } { (word) } } }
            ul {
                @if is_alone && figures::is_throttled(report) { li.doubtful { (figures::advice(report)) } }
                @for budget in missed {
                    li.doubtful { (budget.figure) ": " (budget.measured) ", at most " (budget.limit) }
                }
                @for problem in problems.iter().take(SHOWN) { li.bad { (problem) } }
                @if problems.len() > SHOWN { li { "and " (problems.len() - SHOWN) " more" } }
                @if is_alone { @for warning in &report.verdict.warnings { li.doubtful { (warning) } } }
            }
        }
    }
}

/// The figures of all runs. The others are measured by the first.
fn table(runs: &[Run<'_>], groups: &[Group]) -> Markup {
    html! { table {
        @if runs.len() > 1 {
            thead { tr {
                th {}
                @for (number, run) in runs.iter().enumerate() {
                    th { (run.letter) }
                    @if number > 0 { th { "to " (runs[0].letter) } }
                }
            } }
        }
        tbody { @for group in groups {
            tr { th colspan=(runs.len() * 2) scope="rowgroup" { (group.title) } }
            @for figure in &group.figures { tr {
                th scope="row" { (figure.name) @if figure.better == Better::Lower && runs.len() > 1 { " ↓" } }
                @for run in 0..runs.len() {
                    td { (figure.text(run)) @if let Some([least, most]) = figure.range(run) { span { (least) " to " (most) } } }
                    @if run > 0 { (standing(figure, run)) }
                }
            } }
        } }
    } }
}

fn standing(figure: &Figure, run: usize) -> Markup {
    let standing = figure.standing(run);
    let (class, word) = match standing.judgement {
        Judgement::Better => ("good", "better"),
        Judgement::Worse => ("bad", "worse"),
        Judgement::Same => ("", "same"),
        Judgement::Noise => ("", "within noise"),
        Judgement::Throttled => ("", "throttled"),
        Judgement::None => ("", ""),
    };
    html! { td class=(class) { (standing.ratio.map(format::ratio).unwrap_or_default()) span { (word) } } }
}
