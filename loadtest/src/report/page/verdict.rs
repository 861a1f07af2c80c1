//! How a run ended, and what a reader should know before trusting its figures.

use super::super::components::{Mood, badge, lines};
use super::super::figures::{self, Throttled};
use super::super::format;
use super::super::model::Report;
use maud::{Markup, html};

pub(super) fn verified(report: &Report) -> Markup {
    if report.verdict.verified {
        badge(Mood::Good, "Verified")
    } else {
        badge(Mood::Bad, "Not verified")
    }
}

pub(super) fn kept_up(report: &Report) -> Markup {
    if report.verdict.generator_kept_up {
        badge(Mood::Good, "Generator kept up")
    } else if report.changes.made == 0 {
        badge(Mood::Doubtful, "No changes")
    } else {
        badge(Mood::Doubtful, "Generator lagged")
    }
}

/// Returns the badge about throttling; nothing where it is not known.
pub(super) fn throttled(report: &Report) -> Markup {
    html! {
        @match figures::throttled(report) {
            Some(Throttled::Never) => (badge(Mood::Good, "Not throttled")),
            Some(Throttled::Hardly(_)) => (badge(Mood::Good, "Hardly throttled")),
            Some(Throttled::For(share)) => {
                (badge(Mood::Doubtful, &format!("Throttled {} of the time", format::percent(share))))
            }
            None => {},
        }
    }
}

/// A share below a hundredth, which is not nought.
fn small(share: f64) -> String {
    if share < 0.0005 {
        "less than 0.1 %".to_owned()
    } else {
        format::percent(share)
    }
}

/// A text whose flags are not broken into two lines.
fn with_flags(text: &str) -> Markup {
    html! {
        @for (number, word) in text.split(' ').enumerate() {
            @if number > 0 { " " }
            @if word.starts_with("--") { span.flag { (word) } } @else { (word) }
        }
    }
}

/// The limits that the user set, if there are any.
fn budgets(report: &Report) -> Markup {
    let missed = report.budgets.iter().filter(|budget| !budget.met).count() as u64;
    html! {
        @if !report.budgets.is_empty() {
            div.card.good[missed == 0].doubtful[missed > 0] {
                @if missed == 0 {
                    (badge(Mood::Good, "Within budget"))
                } @else {
                    (badge(Mood::Doubtful, &format!("{} missed", format::plural(missed, "budget"))))
                }
                ul.lines { @for budget in &report.budgets {
                    li.doubtful[!budget.met] {
                        (budget.figure) ": " b { (budget.measured) } ", at most " (budget.limit)
                    }
                } }
            }
        }
    }
}

pub(super) fn verdict(report: &Report) -> Markup {
    let verdict = &report.verdict;
    let lag = &report.generator_lag;
    let problems = verdict.problems.len() as u64;
    html! {
        section.verdict {
            h2.unseen { "Verdict" }
            div.card.good[verdict.verified].bad[!verdict.verified].long[problems > 2] {
                (verified(report))
                @if verdict.verified {
                    p { "In the end every object was as it should be." }
                } @else if problems == 0 {
                    p { "Nobody knows whether the objects are as they should be: the run did not get so far." }
                } @else {
                    p { (format::plural(problems, "problem")) " in the end:" }
                }
                @if problems > 0 { (lines(&verdict.problems)) }
            }
            div.card.good[verdict.generator_kept_up].doubtful[!verdict.generator_kept_up] {
                (kept_up(report))
                p {
                    @if verdict.generator_kept_up {
                        "Changes were made when they were due, so the latencies are the controller's."
                    } @else if report.changes.made == 0 {
                        "None were made, so nothing could be measured."
                    } @else {
                        "Changes were made late, so the load was lower than it claims to be."
                    }
                    @if lag.count > 0 {
                        " Lag p99 " (format::micros(lag.p99 as f64)) ", longest " (format::micros(lag.max as f64)) "."
                    }
                }
            }
            @match figures::throttled(report) {
                Some(Throttled::Never) => {
                    div.card.good {
                        (throttled(report))
                        p { "The controller's own limits did not hold back its writes." }
                    }
                },
                Some(Throttled::Hardly(share)) => {
                    div.card.good {
                        (throttled(report))
                        p {
                            "The controller's own limits held back its writes for " (small(share)) " of the time, too little to "
                            "be seen in the figures."
                        }
                    }
                },
                Some(Throttled::For(_)) => {
                    div.card.doubtful { (throttled(report)) p { (with_flags(&figures::advice(report))) } }
                },
                None => {},
            }
            (budgets(report))
            @if !verdict.warnings.is_empty() {
                div.card.doubtful {
                    (badge(Mood::Doubtful, &format::plural(verdict.warnings.len() as u64, "warning")))
                    (lines(&verdict.warnings))
                }
            }
        }
    }
}
