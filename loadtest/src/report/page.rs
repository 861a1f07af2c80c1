//! The page of one run, or of several side by side. Both have the same sections; one run has its figures in tables of
//! each section, several have them in one table that compares them.

mod verdict;

use super::components::{Mood, Tile, badge, lines, row, table, tiles, whole};
use super::figures::{self, Better, DURATIONS, Figure, Group, Judgement, Throttled, WRITES};
use super::format;
use super::model::{Latency, Process, Report, Watchers};
use super::plot::Plot;
use super::plots::{self, LAG, is_measured, latencies};
use super::runs::Run;
use super::settings::{self, Setting};
use maud::{Markup, html};
use verdict::{kept_up, throttled, verdict, verified};

/// The page of one run.
pub(super) fn of_one(report: &Report) -> String {
    let run = Run::alone(report);
    whole(
        &format!("{}: loadtest report", run.name),
        &html! {
            (header(&run))
            main {
                (verdict(report))
                (tiles(&all_tiles(report)))
                (rounds(&run))
                (sections(std::slice::from_ref(&run)))
            }
            footer { "The same as data is in report.json, which was written beside this page." }
        },
    )
}

/// The page of several runs.
pub(super) fn of_several(runs: &[Run<'_>], groups: &[Group], warnings: &[String]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    whole(
        &format!("{}: loadtest comparison", format::cut(&names.join(" and "), 80)),
        &html! {
            header {
                p.kind { "Load tests compared" }
                h1 { (format::plural(runs.len() as u64, "run")) " side by side" }
            }
            main {
                ul.runs { @for (number, run) in runs.iter().enumerate() { (card(number, run)) } }
                @if !warnings.is_empty() {
                    div.card.doubtful { (badge(Mood::Doubtful, "Compare with care")) (lines(warnings)) }
                }
                section {
                    h2 { "Figures" }
                    p.explain {
                        "× is how many times the figure of " (runs[0].letter) ". ↓ means that lower is better. "
                        "What differs by less than 5\u{a0}% is called the same. " (figures::noise_of(runs))
                    }
                    (compared(runs, groups))
                }
                (sections(runs))
            }
        },
    )
}

/// The sections of all pages: curves, and the settings of the runs.
fn sections(runs: &[Run<'_>]) -> Markup {
    let one = if let [run] = runs {
        Some(&*run.report)
    } else {
        None
    };
    let is_measured = runs.iter().any(|run| !run.report.processes.is_empty());
    html! {
        section {
            h2 { "Latency" }
            p.explain {
                "From the API server’s answer to a change until a watching client received the object that shows it. "
                @if runs.iter().any(|run| run.report.watchers.is_some()) {
                    "Watchers: the same at each of the simulated kube-proxies. "
                }
                @if runs.iter().any(|run| run.report.claims.is_some()) {
                    "Ready and Gone: of the pods of sandboxes, until they are shown to take traffic, and to take none. "
                }
                @if one.is_some() { "Generator lag: from when a change was due until it was sent." }
            }
            @if let Some(report) = one { (latency_table(report)) }
            (rendered(&plots::latency(runs)))
        }
        section {
            h2 { "Changes and writes" }
            (rendered(&plots::work(runs)))
            @if let Some(report) = one { (writes_table(report)) }
        }
        @if let Some(watchers) = one.and_then(|report| report.watchers.as_ref()) { (of_watchers(watchers)) }
        @if let Some(report) = one.filter(|report| report.claims.is_some()) { (claims(report)) }
        section {
            h2 { "Processes" }
            @if is_measured { (rendered(&plots::processes(runs))) } @else { p.explain { "No process was measured." } }
            @if let Some(report) = one.filter(|_| is_measured) { (processes_table(report)) }
        }
        @if let Some(report) = one { (phases(report)) }
        @if one.is_some() {
            section {
                h2 { "The run" }
                div.facts { @for (title, settings) in settings::all(runs) { div { h3 { (title) } (pairs(&settings)) } } }
            }
        } @else {
            @for (title, settings) in settings::all(runs) {
                section.settings { h2 { (title) } (settings_table(title, runs, &settings)) }
            }
        }
    }
}

/// Medians and ranges of a run that was repeated.
fn rounds(run: &Run<'_>) -> Markup {
    const HEAD: [&str; 4] = ["", "median", "least", "most"];
    let count = run.report.rounds.len();
    if count == 0 {
        return html! {};
    }
    let mut rows = Vec::new();
    for group in figures::groups(std::slice::from_ref(run)) {
        let of_group: Vec<Markup> = group
            .figures
            .iter()
            .filter_map(|figure| {
                let range = figure.range(0)?;
                Some(row(
                    &figure.name,
                    &HEAD,
                    std::iter::once(figure.text(0)).chain(range),
                ))
            })
            .collect();
        if !of_group.is_empty() {
            rows.push(html! { tr.group { th scope="rowgroup" colspan="4" { (group.title) } } });
            rows.extend(of_group);
        }
    }
    html! {
        section {
            h2 { (format::plural(count as u64, "round")) }
            p.explain {
                "The figures of all rounds. The rest of this page shows one of them, whose latency (p99) is the median."
            }
            (table("Figures of all rounds", "figures compared", &HEAD, &rows))
        }
    }
}

fn rendered(plots: &[Plot]) -> Markup {
    html! { div.plots { @for plot in plots { (plot.render()) } } }
}

fn header(run: &Run<'_>) -> Markup {
    let report = &run.report;
    html! {
        header {
            p.kind { "Load test" }
            h1 { (run.name) }
            p.facts-line {
                @if !report.profile.is_empty() { span { "Profile " b { (report.profile) } } }
                @if let Some(controller) = run.controller() { span { "Controller " b { (controller) } } }
                @if !report.started.is_empty() {
                    span { "Began " time datetime=(report.started) { (format::date(&report.started)) } }
                }
                @if report.seconds > 0.0 { span { "Took " b { (format::seconds(report.seconds)) } } }
            }
        }
    }
}

/// A run among others.
fn card(number: usize, run: &Run<'_>) -> Markup {
    let report = &run.report;
    html! {
        li {
            h2 {
                span.letter {
                    (run.letter) " "
                    // The line that its curves are drawn with.
                    svg.key width="22" height="10" aria-hidden="true" {
                        path class=(format!("curve c{number}")) d="M0 5H22" {}
                    }
                }
                span { (run.name) }
            }
            p {
                @if !report.profile.is_empty() { (report.profile) ", " }
                @if report.seconds > 0.0 { (format::seconds(report.seconds)) }
                @if !report.started.is_empty() { ", " (format::date(&report.started)) }
                @if let Some(controller) = run.controller() { ", " (format::cut(controller, 60)) }
                @if !report.rounds.is_empty() { ", " (format::plural(report.rounds.len() as u64, "round")) }
                @if number == 0 { " (reference)" }
            }
            div.badges { (verified(report)) (kept_up(report)) (throttled(report)) }
        }
    }
}

fn all_tiles(report: &Report) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for (name, latency) in latencies(report) {
        if name == LAG {
            continue;
        }
        if latency.count > 0 || latency.never_seen > 0 {
            tiles.push(latency_tile(report, name, latency));
        }
    }
    let (changes, writes) = (&report.changes, &report.writes);
    let more = if changes.failed > 0 {
        format!("{} failed", format::number(changes.failed))
    } else if changes.made == 0 {
        "none were made".to_owned()
    } else {
        let rate = changes.made as f64 / report.seconds;
        format!("{}, none failed", format::rate(rate))
    };
    tiles.push(Tile {
        mood: (changes.failed > 0).then_some(Mood::Bad),
        ..tile("Changes", format::number(changes.made), more)
    });
    if changes.made > 0 {
        let per_change = format!("{} per change", format::bytes(writes.bytes_per_change));
        tiles.push(Tile {
            mood: above(report, "writes"),
            ..tile("Writes per change", format::figure(writes.per_change), per_change)
        });
    }
    if let Some(throttling) = report.throttling.as_ref().filter(|_| is_throttled(report)) {
        let share = format::percent(throttling.share);
        tiles.push(Tile {
            mood: Some(Mood::Doubtful),
            ..tile(
                "Time throttled",
                share,
                format!("{} in all", format::seconds(throttling.seconds)),
            )
        });
    }
    if let Some(echo) = report.fan_out.and_then(|fan_out| fan_out.echo_p50) {
        let held_back = figures::held_back_for_watchers(report).map(format::seconds);
        let more = format!(
            "p50; held back for watchers for {}",
            held_back.unwrap_or_default()
        );
        tiles.push(tile("Echo of slices", format::seconds(echo), more));
    }
    tiles.extend(process_tiles(report));
    if let Some(longest) = figures::longest_gap(report) {
        let more = format!("no writer for up to {}", format::seconds(longest));
        let restarts = format::number(report.restarts.len() as u64);
        tiles.push(tile("Restarts", restarts, more));
    }
    tiles
}

fn is_throttled(report: &Report) -> bool {
    matches!(figures::throttled(report), Some(Throttled::For(_)))
        || figures::missed(report, "throttled").is_some()
}

fn tile(label: &str, figure: String, more: String) -> Tile {
    Tile {
        label: label.to_owned(),
        figure,
        more,
        mood: None,
    }
}

/// Doubtful where a figure is above the user's limit.
fn above(report: &Report, figure: &str) -> Option<Mood> {
    figures::missed(report, figure).map(|_| Mood::Doubtful)
}

/// Whether one of a latency's figures is above the user's limit.
fn above_in(report: &Report, name: &str, figure: &str) -> bool {
    figures::missed(report, &format!("{}.{figure}", name.to_lowercase())).is_some()
}

fn latency_tile(report: &Report, name: &str, latency: &Latency) -> Tile {
    let [p50, _, p99, _, max] = figures::durations(latency);
    let is_above = ["p50", "p99", "max"]
        .into_iter()
        .any(|figure| above_in(report, name, figure));
    let mood = if latency.never_seen > 0 {
        Some(Mood::Bad)
    } else {
        is_above.then_some(Mood::Doubtful)
    };
    let more = if mood == Some(Mood::Bad) {
        format!("{} never seen", format::number(latency.never_seen))
    } else {
        format!("p50 {p50}, max {max}")
    };
    Tile {
        mood,
        ..tile(&format!("{name}, p99"), p99, more)
    }
}

/// The use of all processes, added up, and how long a start took.
fn process_tiles(report: &Report) -> Vec<Tile> {
    let sum = |figure: fn(&Process) -> f64, format: fn(f64) -> String| {
        figures::of_processes(report, figure).map_or_else(|| format::NONE.to_owned(), format)
    };
    let mut tiles = Vec::new();
    let mut cold = String::new();
    if !report.processes.is_empty() {
        let in_all = format!("{} in all", sum(|process| process.cpu_seconds, format::seconds));
        let per_change = sum(|process| process.cpu_micros_per_change, format::micros);
        tiles.push(Tile {
            mood: above(report, "cpu"),
            ..tile("CPU per change", per_change, in_all)
        });
        let end = format!(
            "{} at the end",
            sum(|process| process.rss_bytes as f64, format::bytes)
        );
        let peak = sum(|process| process.peak_rss_bytes as f64, format::bytes);
        tiles.push(Tile {
            mood: above(report, "memory"),
            ..tile("Memory at its peak", peak, end)
        });
        cold = format!(
            "{} of CPU time",
            sum(|process| process.cold_cpu_seconds, format::seconds)
        );
    }
    let converged = report.converge_seconds.map(format::seconds_needed);
    tiles.extend(converged.map(|converged| tile("Converged from cold in", converged, cold)));
    tiles
}

fn latency_table(report: &Report) -> Markup {
    let mut head = vec![""];
    head.extend(DURATIONS.map(|(name, ..)| name));
    head.extend(["measured", "overtaken", "never seen"]);
    let shown = latencies(report).into_iter();
    let rows = shown
        .filter(|(_, latency)| is_measured(latency))
        .map(|(name, latency)| {
            html! { tr {
                th scope="row" { (name) }
                @for ((figure, ..), duration) in DURATIONS.iter().zip(figures::durations(latency)) {
                    td.doubtful[above_in(report, name, figure)] data-head=(figure) { (duration) }
                }
                td data-head="measured" { (format::number(latency.count)) }
                td data-head="overtaken" { (format::number(latency.overtaken)) }
                td.bad[latency.never_seen > 0] data-head="never seen" { (format::number(latency.never_seen)) }
            } }
        });
    let rows: Vec<Markup> = rows.collect();
    html! { @if !rows.is_empty() { (table("Latencies", "figures", &head, &rows)) } }
}

fn writes_table(report: &Report) -> Markup {
    let mut head = vec![""];
    head.extend(WRITES);
    let writes = [
        ("Slices", &report.writes.slices),
        ("Endpoints", &report.writes.endpoints),
    ];
    let rows = writes.map(|(name, counts)| row(name, &head, figures::of_writes(counts, format::number)));
    table("Writes", "figures", &head, &rows)
}

fn processes_table(report: &Report) -> Markup {
    let head = [
        "",
        "CPU per change",
        "CPU time",
        "CPU from cold",
        "memory",
        "peak",
        "process",
    ];
    let rows = report.processes.iter().map(|process| {
        let figures = figures::of_process(process).into_iter();
        row(&process.name, &head, figures.chain([process.pid.to_string()]))
    });
    table("Processes", "figures", &head, &rows.collect::<Vec<_>>())
}

fn of_watchers(watchers: &Watchers) -> Markup {
    const HEAD: [&str; 2] = ["", "figure"];
    let rows = figures::watchers::lines(watchers).into_iter();
    let rows: Vec<Markup> = rows.map(|(name, figure)| row(name, &HEAD, [figure])).collect();
    html! {
        section {
            h2 { "Watchers" }
            p.explain {
                "Simulated kube-proxies, each with a watch of all slices on a connection of its own. Counts are of all of "
                "them, while changes were made and until all had received the last one."
            }
            (table("Watchers", "figures", &HEAD, &rows))
        }
    }
}

fn claims(report: &Report) -> Markup {
    const HEAD: [&str; 2] = ["", "figure"];
    let rows = figures::claims::lines(report).into_iter();
    let rows: Vec<Markup> = rows.map(|(name, figure)| row(name, &HEAD, [figure])).collect();
    html! {
        section {
            h2 { "Sandboxes" }
            p.explain {
                "Pods with Services of their own that are made and deleted. Writes are what a watching client saw, deletions by "
                "the garbage collector and the API server included; requests are the controller’s, as its metrics say; "
                "bytes by verb are those of the bodies that the API server in memory received, which counts the requests of each kind too."
            }
            (table("Sandboxes", "figures", &HEAD, &rows))
        }
    }
}

fn phases(report: &Report) -> Markup {
    const PHASES: [&str; 5] = ["", "from", "to", "changes", "rate"];
    const PARTS: [&str; 7] = ["", "p50", "p99", "max", "writes", "slices", "most"];
    const RESTARTS: [&str; 3] = ["Restart", "at", "without a writer"];
    let phases = report.phases.iter().map(|phase| {
        let cells = [
            format::moment(phase.from),
            format::moment(phase.to),
            format::number(phase.changes),
            format::rate(phase.changes as f64 / (phase.to - phase.from)),
        ];
        row(&phase.name, &PHASES, cells)
    });
    let parts = report.phases.iter().filter(|phase| phase.slices.count > 0);
    let parts: Vec<_> = parts
        .map(|phase| {
            let [p50, _, p99, _, max] = figures::durations(&phase.slices);
            let writes = format::number(phase.slice_writes.all());
            let (written, most) = if phase.slices_written > 0 {
                (
                    format::number(phase.slices_written),
                    format::number(phase.most_writes),
                )
            } else {
                (format::NONE.to_owned(), format::NONE.to_owned())
            };
            row(&phase.name, &PARTS, [p50, p99, max, writes, written, most])
        })
        .collect();
    let restarts = report.restarts.iter().map(|restart| {
        let without = format::seconds(restart.without_writer_seconds);
        row(&restart.signal, &RESTARTS, [format::moment(restart.at), without])
    });
    let (phases, restarts): (Vec<_>, Vec<_>) = (phases.collect(), restarts.collect());
    html! {
        @if !phases.is_empty() || !restarts.is_empty() {
            section {
                h2 { "Phases" }
                @if !phases.is_empty() {
                    (table("Phases", "figures", &PHASES, &phases))
                }
                @if parts.len() > 1 {
                    p.explain {
                        "The slices of each phase: latencies, writes, how many slices these were of, and how many were "
                        "the most of one slice."
                    }
                    (table("Slices of each phase", "figures", &PARTS, &parts))
                }
                @if !restarts.is_empty() {
                    (table("Restarts", "figures", &RESTARTS, &restarts))
                }
            }
        }
    }
}

/// Names and values, or that there are none.
fn pairs(settings: &[Setting]) -> Markup {
    html! {
        @if settings.is_empty() {
            p.none { "None are known." }
        } @else {
            dl { @for setting in settings {
                div { dt { (setting.name) } dd { (setting.values[0].as_deref().unwrap_or(format::NONE)) } }
            } }
        }
    }
}

fn settings_table(title: &str, runs: &[Run<'_>], settings: &[Setting]) -> Markup {
    if settings.is_empty() {
        return html! { p.explain { "None are known." } };
    }
    let mut head = vec![String::new()];
    head.extend(runs.iter().map(|run| run.letter.to_string()));
    let rows = settings.iter().map(|setting| {
        html! { tr.differs[setting.differs()] {
            th scope="row" { (setting.name) @if setting.differs() { span.unseen { " (differs)" } } }
            @for value in &setting.values { td { (value.as_deref().unwrap_or(format::NONE)) } }
        } }
    });
    table(title, "figures", &head, &rows.collect::<Vec<_>>())
}

/// The figures of all runs, with how they stand to the first one's.
fn compared(runs: &[Run<'_>], groups: &[Group]) -> Markup {
    let mut head = vec![String::new(), runs[0].letter.to_string()];
    for run in &runs[1..] {
        head.extend([run.letter.to_string(), format!("to {}", runs[0].letter)]);
    }
    let mut rows = Vec::new();
    for group in groups {
        rows.push(html! {
            tr.group { th scope="rowgroup" colspan=(runs.len() * 2) { (group.title) } }
        });
        for figure in &group.figures {
            rows.push(html! { tr {
                th scope="row" {
                    (figure.name)
                    @if figure.better == Better::Lower {
                        " " span.hint { span aria-hidden="true" { "↓" } span.unseen { "(lower is better)" } }
                    }
                }
                (median(figure, 0))
                @for run in 1..runs.len() { (median(figure, run)) (ratio(figure, run)) }
            } });
        }
    }
    table("Figures of all runs", "figures compared", &head, &rows)
}

/// The figure of a run, and its range where it was repeated.
fn median(figure: &Figure, run: usize) -> Markup {
    html! { td {
        (figure.text(run))
        @if let Some([least, most]) = figure.range(run) { span.range { (least) " to " (most) } }
    } }
}

fn ratio(figure: &Figure, run: usize) -> Markup {
    let standing = figure.standing(run);
    let (class, word) = match standing.judgement {
        Judgement::Better => ("ratio better", "better"),
        Judgement::Worse => ("ratio worse", "worse"),
        Judgement::Same => ("ratio", "same"),
        Judgement::Noise => ("ratio", "within noise"),
        Judgement::Throttled => ("ratio", "throttled, not judged"),
        Judgement::None => ("ratio", ""),
    };
    html! { td class=(class) { (standing.text()) " " span { (word) } } }
}
