//! The page of a comparison.

use maud::{Markup, html};

use super::{
    super::{
        curves::{self, Pieces},
        format,
        model::{Latency, Report},
        page::{self, Mood, OverTime, line},
        plot::{Curve, Marks, Plot},
        scale::{Axis, Unit},
    },
    Run,
    differences::{self, Setting},
    figures::{Better, Figure, Group, Judgement},
};

/// The whole page.
pub(super) fn page(runs: &[Run], groups: &[Group], warnings: &[String]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    page::whole(
        &format!("{}: loadtest comparison", format::cut(&names.join(" and "), 80)),
        &html! {
            header {
                p.kind { "Load tests compared" }
                h1 { (format::plural(runs.len() as u64, "run")) " side by side" }
            }
            main {
                ul.runs { @for (number, run) in runs.iter().enumerate() { (card(number, run)) } }
                @if !warnings.is_empty() {
                    div.card.doubtful {
                        (page::badge(Mood::Doubtful, "Compare with care"))
                        (page::lines(warnings))
                    }
                }
                section {
                    h2 { "Figures" }
                    p.explain {
                        "× is how many times the figure of " (runs[0].letter) ". ↓ means that lower is better. "
                        "What differs by less than 5\u{a0}% is called the same. One run of each says little: repeat them."
                    }
                    (table(runs, groups))
                }
                section {
                    h2 { "Curves" }
                    div.plots { @for plot in plots(runs) { (plot.render()) } }
                }
                section.settings {
                    h2 { "Parameters" }
                    (settings("Parameters", runs, &differences::parameters(runs)))
                }
                section.settings { h2 { "Machines" } (settings("Machines", runs, &differences::machines(runs))) }
                section.settings { h2 { "Versions" } (settings("Versions", runs, &differences::versions(runs))) }
            }
        },
    )
}

fn card(number: usize, run: &Run) -> Markup {
    let report = &run.report;
    html! {
        li {
            h2 {
                span.letter { (run.letter) " " (key(number)) }
                span { (run.name) }
            }
            p {
                @if !report.profile.is_empty() { (report.profile) ", " }
                @if report.seconds > 0.0 { (format::seconds(report.seconds)) }
                @if !report.started.is_empty() { ", " (format::date(&report.started)) }
                @if number == 0 { " (reference)" }
            }
            div.badges { (page::verified(report)) (page::kept_up(report)) }
        }
    }
}

/// The line that a run's curves are drawn with.
fn key(number: usize) -> Markup {
    html! {
        svg.key width="22" height="10" aria-hidden="true" { path class=(format!("curve c{number}")) d="M0 5H22" {} }
    }
}

fn table(runs: &[Run], groups: &[Group]) -> Markup {
    let columns = runs.len() * 2;
    html! {
        div.scroll tabindex="0" { table.figures.compared {
            caption.unseen { "Figures of all runs" }
            thead { tr {
                th scope="col" { "" }
                @for (number, run) in runs.iter().enumerate() {
                    th scope="col" { (run.letter) }
                    @if number > 0 { th scope="col" { "to " (runs[0].letter) } }
                }
            } }
            tbody { @for group in groups {
                tr.group { th scope="rowgroup" colspan=(columns) { (group.title) } }
                @for figure in &group.figures {
                    tr {
                        th scope="row" {
                            (figure.name)
                            @if figure.better == Better::Lower {
                                " " span.hint { span aria-hidden="true" { "↓" } span.unseen { "(lower is better)" } }
                            }
                        }
                        td { (figure.text(0)) }
                        @for run in 1..runs.len() { td { (figure.text(run)) } (ratio(figure, run)) }
                    }
                }
            } }
        } }
    }
}

fn ratio(figure: &Figure, run: usize) -> Markup {
    let standing = figure.standing(run);
    let (class, word) = match standing.judgement {
        Judgement::Better => ("ratio better", "better"),
        Judgement::Worse => ("ratio worse", "worse"),
        Judgement::Same => ("ratio", "same"),
        Judgement::None => ("ratio", ""),
    };
    html! { td class=(class) { (standing.text()) " " span { (word) } } }
}

fn settings(name: &str, runs: &[Run], settings: &[Setting]) -> Markup {
    if settings.is_empty() {
        return html! { p.explain { "None are known." } };
    }
    html! {
        div.scroll tabindex="0" { table.figures {
            caption.unseen { (name) }
            thead { tr { th scope="col" { "" } @for run in runs { th scope="col" { (run.letter) } } } }
            tbody { @for setting in settings { tr.differs[setting.differs()] {
                th scope="row" { (setting.name) @if setting.differs() { span.unseen { " (differs)" } } }
                @for value in &setting.values { td { (value.as_deref().unwrap_or(format::NONE)) } }
            } } }
        } }
    }
}

fn plots(runs: &[Run]) -> Vec<Plot> {
    let reports: Vec<&Report> = runs.iter().map(|run| &run.report).collect();
    let (from, to) = curves::span(&reports);
    let over_time = OverTime {
        axis: Axis::time(from, to),
        marks: marks(runs),
    };
    let curves = |of: &dyn Fn(&Report) -> Pieces, figure: fn(f64) -> String| -> Vec<Curve> {
        let curve = |(number, run): (usize, &Run)| line(number, run.label(), of(&run.report), figure);
        runs.iter().enumerate().map(curve).collect()
    };
    let latencies = |of: fn(&Report) -> &Latency| -> Vec<(String, &Latency)> {
        runs.iter().map(|run| (run.label(), of(&run.report))).collect()
    };
    let p99 = |of: fn(&Report) -> &Latency| {
        curves(&|report| curves::latency(of(report), |s| s.p99), format::micros)
    };
    let samples = |of: fn(&Report) -> usize| reports.iter().map(|report| of(report)).max().unwrap_or(0);
    let endpoints = reports.iter().any(|report| report.endpoints.count > 0);

    let note = page::merged(
        "Log scale.",
        samples(|report| report.slices.over_time.len()),
        "worst",
    );
    let mut plots = vec![
        over_time.durations(
            "slices",
            "Slices: p99 over time",
            note,
            p99(|report| &report.slices),
        ),
        page::distributions(
            "slices-all",
            "Slices: distribution of latency",
            &latencies(|report| &report.slices),
        ),
    ];
    if endpoints {
        let note = page::merged(
            "Log scale.",
            samples(|report| report.endpoints.over_time.len()),
            "worst",
        );
        plots.push(over_time.durations(
            "endpoints",
            "Endpoints: p99 over time",
            note,
            p99(|report| &report.endpoints),
        ));
        let latencies = latencies(|report| &report.endpoints);
        plots.push(page::distributions(
            "endpoints-all",
            "Endpoints: distribution of latency",
            &latencies,
        ));
    }
    let note = page::merged(
        "Of a second, slices and Endpoints.",
        samples(|report| report.writes.over_time.len()),
        "average",
    );
    let writes = curves(
        &|report| curves::rate(&report.writes.over_time, report.seconds),
        format::rate,
    );
    plots.push(over_time.linear("work", "Writes over time", note, Unit::Plain, writes));
    let sampled = samples(|report| {
        report
            .processes
            .iter()
            .map(|process| process.over_time.len())
            .max()
            .unwrap_or(0)
    });
    let sum = |report: &Report, of: fn(&_) -> Pieces| {
        curves::sum(&report.processes.iter().map(of).collect::<Vec<_>>())
    };
    let note = page::merged("All processes of a run; 100 % is one core.", sampled, "average");
    let cpu = curves(&|report| sum(report, curves::cpu), format::cores);
    plots.push(over_time.linear("cpu", "CPU over time", note, Unit::Cores, cpu));
    let note = page::merged("All processes of a run, resident.", sampled, "highest");
    let memory = curves(&|report| sum(report, curves::memory), format::bytes);
    plots.push(over_time.linear("memory", "Memory over time", note, Unit::Bytes, memory));
    if reports.iter().any(|report| !report.queue.is_empty()) {
        let note = page::merged(
            "Objects that wait to be written.",
            samples(|report| report.queue.len()),
            "highest",
        );
        let queue = curves(&|report| curves::queue(&report.queue), format::figure);
        plots.push(over_time.linear("queue", "Queue over time", note, Unit::Plain, queue));
    }
    plots
}

/// Restarts of all runs, and the phases if all runs had the same.
fn marks(runs: &[Run]) -> Marks {
    /// Phases end a little earlier or later in each run.
    const NEAR: f64 = 1.0;
    let mut marks = page::marks(&runs[0].report);
    let whose = runs.iter().filter(|run| !run.report.restarts.is_empty());
    let whose: Vec<String> = whose.map(|run| run.letter.to_string()).collect();
    marks.restart = format!("restart of {}", whose.join(", "));
    for restart in &mut marks.restarts {
        restart.name = format!("{}: {}", runs[0].letter, restart.name);
    }
    for run in &runs[1..] {
        let other = page::marks(&run.report);
        let same = other.phases.len() == marks.phases.len()
            && other.phases.iter().zip(&marks.phases).all(|(one, other)| {
                one.name == other.name
                    && (one.from - other.from).abs() < NEAR
                    && (one.to - other.to).abs() < NEAR
            });
        if !same {
            marks.phases.clear();
        }
        marks
            .restarts
            .extend(other.restarts.into_iter().map(|mut restart| {
                restart.name = format!("{}: {}", run.letter, restart.name);
                restart
            }));
    }
    marks
}
