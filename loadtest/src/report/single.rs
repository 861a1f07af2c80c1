//! The page of one run.

use maud::{Markup, html};

use super::{
    curves, format,
    model::{Latency, Process, Report, WriteCounts},
    page::{self, OverTime, Tile, line},
    plot::{Curve, Look, Plot},
    scale::{Axis, Unit},
};

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = name(report);
    page::whole(
        &format!("{title}: loadtest report"),
        &html! {
            (header(report))
            main {
                (verdict(report))
                (page::tiles(&tiles(report)))
                section {
                    h2 { "Latency" }
                    (latency_table(report))
                    div.plots { @for plot in latency_plots(report) { (plot.render()) } }
                }
                section {
                    h2 { "Changes and writes" }
                    div.plots { @for plot in work_plots(report) { (plot.render()) } }
                    (writes_table(report))
                }
                section {
                    h2 { "Processes" }
                    @if report.processes.is_empty() {
                        p.explain { "No process was charged." }
                    } @else {
                        div.plots { @for plot in process_plots(report) { (plot.render()) } }
                        (processes_table(report))
                    }
                }
                @if !report.phases.is_empty() || !report.restarts.is_empty() { (phases(report)) }
                section {
                    h2 { "The run" }
                    div.facts {
                        div { h3 { "Parameters" } (page::pairs(owned(&report.parameters))) }
                        div { h3 { "Machine" } (page::pairs(page::machine(&report.machine))) }
                        div { h3 { "Versions" } (page::pairs(owned(&report.versions))) }
                    }
                }
            }
            footer { "The same as data is in report.json, which was written beside this page." }
        },
    )
}

/// What readers call a run.
pub(super) fn name(report: &Report) -> &str {
    let title = report.title.trim();
    if title.is_empty() {
        "A run without a name"
    } else {
        title
    }
}

fn owned(pairs: &std::collections::BTreeMap<String, String>) -> impl Iterator<Item = (&str, String)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.clone()))
}

fn header(report: &Report) -> Markup {
    html! {
        header {
            p.kind { "Load test" }
            h1 { (name(report)) }
            p.facts-line {
                @if !report.profile.is_empty() { span { "Profile " b { (report.profile) } } }
                @if !report.started.is_empty() {
                    span { "Began " time datetime=(report.started) { (format::date(&report.started)) } }
                }
                @if report.seconds > 0.0 { span { "Took " b { (format::seconds(report.seconds)) } } }
            }
        }
    }
}

fn verdict(report: &Report) -> Markup {
    let verdict = &report.verdict;
    let lag = &report.generator_lag;
    let problems = verdict.problems.len() as u64;
    html! {
        section.verdict {
            h2.unseen { "Verdict" }
            div.card.good[verdict.verified].bad[!verdict.verified].long[problems > 2] {
                (page::verified(report))
                @if verdict.verified {
                    p { "In the end every object was as it should be." }
                } @else if problems == 0 {
                    p { "Nobody knows whether the objects are as they should be: the run did not get so far." }
                } @else {
                    p { (format::plural(problems, "problem")) " in the end:" }
                }
                @if problems > 0 { (page::lines(&verdict.problems)) }
            }
            div.card.good[verdict.generator_kept_up].doubtful[!verdict.generator_kept_up] {
                (page::kept_up(report))
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
            @if !verdict.warnings.is_empty() {
                div.card.doubtful {
                    (page::badge(page::Mood::Doubtful, &format::plural(verdict.warnings.len() as u64, "warning")))
                    (page::lines(&verdict.warnings))
                }
            }
        }
    }
}

fn tiles(report: &Report) -> Vec<Tile> {
    let tile = |label: &str, figure: String, more: String| Tile {
        label: label.to_owned(),
        figure,
        more,
        bad: false,
    };
    let mut tiles = Vec::new();
    for (label, latency) in [
        ("Slices, p99", &report.slices),
        ("Endpoints, p99", &report.endpoints),
    ] {
        if latency.count > 0 || latency.never_seen > 0 {
            let unseen = format!("{} never seen", format::number(latency.never_seen));
            let (p50, max) = (
                format::micros(latency.p50 as f64),
                format::micros(latency.max as f64),
            );
            let bad = latency.never_seen > 0;
            let figure = if latency.count > 0 {
                format::micros(latency.p99 as f64)
            } else {
                format::NONE.to_owned()
            };
            let more = if bad {
                unseen
            } else {
                format!("p50 {p50}, max {max}")
            };
            tiles.push(Tile {
                bad,
                ..tile(label, figure, more)
            });
        }
    }
    let (changes, writes) = (&report.changes, &report.writes);
    let rate = changes.made as f64 / report.seconds;
    let more = if changes.failed > 0 {
        format!("{} failed", format::number(changes.failed))
    } else if changes.made == 0 {
        "none were made".to_owned()
    } else {
        format!("{}, none failed", format::rate(rate))
    };
    let bad = changes.failed > 0;
    tiles.push(Tile {
        bad,
        ..tile("Changes", format::number(changes.made), more)
    });
    let per_change = format!("{} per change", format::bytes(writes.bytes_per_change));
    if changes.made > 0 {
        tiles.push(tile(
            "Writes per change",
            format::figure(writes.per_change),
            per_change,
        ));
    }
    if !report.processes.is_empty() {
        let processes = &report.processes;
        let sum = |figure: fn(&Process) -> f64| processes.iter().map(figure).sum::<f64>();
        let in_all = format!("{} in all", format::seconds(sum(|process| process.cpu_seconds)));
        let per_change = sum(|process| process.cpu_micros_per_change);
        tiles.push(tile("CPU per change", format::micros(per_change), in_all));
        let end = format!(
            "{} at the end",
            format::bytes(sum(|process| process.rss_bytes as f64))
        );
        let peak = format::bytes(sum(|process| process.peak_rss_bytes as f64));
        tiles.push(tile("Memory at its peak", peak, end));
        if let Some(seconds) = report.converge_seconds {
            let cpu = format::seconds(sum(|process| process.cold_cpu_seconds));
            tiles.push(tile(
                "Converged from cold in",
                format::seconds(seconds),
                format!("{cpu} of CPU time"),
            ));
        }
    } else if let Some(seconds) = report.converge_seconds {
        tiles.push(tile(
            "Converged from cold in",
            format::seconds(seconds),
            String::new(),
        ));
    }
    if !report.restarts.is_empty() {
        let longest = report
            .restarts
            .iter()
            .map(|restart| restart.without_writer_seconds)
            .fold(0.0, f64::max);
        let more = format!("no writer for up to {}", format::seconds(longest));
        tiles.push(tile(
            "Restarts",
            format::number(report.restarts.len() as u64),
            more,
        ));
    }
    tiles
}

/// What was measured, with its name.
pub(super) fn latencies(report: &Report) -> [(&'static str, &Latency); 3] {
    [
        ("Slices", &report.slices),
        ("Endpoints", &report.endpoints),
        ("Generator lag", &report.generator_lag),
    ]
}

fn measured(latency: &Latency) -> bool {
    latency.count > 0 || latency.never_seen > 0 || latency.overtaken > 0
}

fn latency_table(report: &Report) -> Markup {
    html! {
        p.explain {
            "From the API server’s answer to a change until a watching client received the object that shows it. "
            "Generator lag: from when a change was due until it was sent."
        }
        @if latencies(report).into_iter().any(|(_, latency)| measured(latency)) { div.scroll tabindex="0" { table.figures {
            caption.unseen { "Latencies" }
            thead { tr {
                th scope="col" { "" }
                @for head in ["p50", "p90", "p99", "p99.9", "max", "measured", "overtaken", "never seen"] {
                    th scope="col" { (head) }
                }
            } }
            tbody { @for (name, latency) in latencies(report).into_iter().filter(|(_, latency)| measured(latency)) {
                tr {
                    th scope="row" { (name) }
                    @for micros in [latency.p50, latency.p90, latency.p99, latency.p999, latency.max] {
                        td { @if latency.count > 0 { (format::micros(micros as f64)) } @else { (format::NONE) } }
                    }
                    td { (format::number(latency.count)) }
                    td { (format::number(latency.overtaken)) }
                    td.bad[latency.never_seen > 0] { (format::number(latency.never_seen)) }
                }
            } }
        } } }
    }
}

fn over_time(report: &Report) -> OverTime {
    let (from, to) = curves::span(&[report]);
    OverTime {
        axis: Axis::time(from, to),
        marks: page::marks(report),
    }
}

fn latency_plots(report: &Report) -> Vec<Plot> {
    let over_time = over_time(report);
    let mut plots = Vec::new();
    let parts = [
        ("slices", "Slices: latency over time", &report.slices),
        ("endpoints", "Endpoints: latency over time", &report.endpoints),
    ];
    for (id, title, latency) in parts {
        // Slices have their place even if there are none: an empty run shows that it is empty.
        if id == "slices" || measured(latency) {
            let longest = Curve {
                name: "max".to_owned(),
                look: Look::Dots,
                pieces: curves::latency(latency, |sample| sample.max),
                figure: format::micros,
            };
            let curves = vec![
                line(
                    0,
                    "p50",
                    curves::latency(latency, |sample| sample.p50),
                    format::micros,
                ),
                line(
                    1,
                    "p99",
                    curves::latency(latency, |sample| sample.p99),
                    format::micros,
                ),
                longest,
            ];
            let samples = latency.over_time.iter().filter(|sample| sample.count > 0).count();
            let step = curves::interval(latency.over_time.iter().map(|sample| sample.at));
            let each = step.map_or_else(String::new, |step| {
                format!(" In intervals of {}.", format::seconds(step))
            });
            let note = page::merged(&format!("Log scale.{each}"), samples, "worst");
            plots.push(over_time.durations(id, title, note, curves));
        }
    }
    let shown = latencies(report)
        .into_iter()
        .filter(|(_, latency)| !latency.histogram.is_empty());
    let shown: Vec<(String, &Latency)> = shown.map(|(name, latency)| (name.to_owned(), latency)).collect();
    plots.push(page::distributions(
        "distribution",
        "Distribution of latency",
        &shown,
    ));
    plots
}

fn work_plots(report: &Report) -> Vec<Plot> {
    let over_time = over_time(report);
    let (changes, writes) = (&report.changes.over_time, &report.writes.over_time);
    let curves = vec![
        line(0, "changes", curves::rate(changes, report.seconds), format::rate),
        line(1, "writes", curves::rate(writes, report.seconds), format::rate),
    ];
    let note = page::merged(
        "Of a second. Writes are of slices and Endpoints.",
        changes.len().max(writes.len()),
        "average",
    );
    let mut plots = vec![over_time.linear("work", "Changes and writes over time", note, Unit::Plain, curves)];
    if !report.queue.is_empty() {
        let curves = vec![line(0, "waiting", curves::queue(&report.queue), format::figure)];
        let note = page::merged("Objects that wait to be written.", report.queue.len(), "highest");
        plots.push(over_time.linear("queue", "Queue over time", note, Unit::Plain, curves));
    }
    plots
}

fn process_plots(report: &Report) -> Vec<Plot> {
    let over_time = over_time(report);
    let samples = report
        .processes
        .iter()
        .map(|process| process.over_time.len())
        .max()
        .unwrap_or(0);
    let curves = |of: fn(&Process) -> curves::Pieces, figure: fn(f64) -> String| -> Vec<Curve> {
        let processes = report.processes.iter().enumerate();
        processes
            .map(|(number, process)| line(number, process.name.as_str(), of(process), figure))
            .collect()
    };
    let cpu = page::merged("100 % is one core.", samples, "average");
    let memory = page::merged("Resident.", samples, "highest");
    vec![
        over_time.linear(
            "cpu",
            "CPU over time",
            cpu,
            Unit::Cores,
            curves(curves::cpu, format::cores),
        ),
        over_time.linear(
            "memory",
            "Memory over time",
            memory,
            Unit::Bytes,
            curves(curves::memory, format::bytes),
        ),
    ]
}

fn writes_table(report: &Report) -> Markup {
    let cells = |counts: &WriteCounts| {
        let WriteCounts {
            created,
            updated,
            deleted,
            bytes,
        } = *counts;
        [
            format::number(created),
            format::number(updated),
            format::number(deleted),
            format::bytes(bytes as f64),
        ]
    };
    html! {
        div.scroll tabindex="0" { table.figures {
            caption.unseen { "Writes" }
            thead { tr { @for head in ["", "created", "updated", "deleted", "received"] { th scope="col" { (head) } } } }
            tbody { @for (name, counts) in [("Slices", &report.writes.slices), ("Endpoints", &report.writes.endpoints)] {
                tr { th scope="row" { (name) } @for cell in cells(counts) { td { (cell) } } }
            } }
        } }
    }
}

fn processes_table(report: &Report) -> Markup {
    html! {
        div.scroll tabindex="0" { table.figures {
            caption.unseen { "Processes" }
            thead { tr {
                @for head in ["", "CPU per change", "CPU time", "CPU from cold", "memory", "peak", "process"] {
                    th scope="col" { (head) }
                }
            } }
            tbody { @for process in &report.processes { tr {
                th scope="row" { (process.name) }
                td { (format::micros(process.cpu_micros_per_change)) }
                td { (format::seconds(process.cpu_seconds)) }
                td { (format::seconds(process.cold_cpu_seconds)) }
                td { (format::bytes(process.rss_bytes as f64)) }
                td { (format::bytes(process.peak_rss_bytes as f64)) }
                td { (process.pid) }
            } } }
        } }
    }
}

fn phases(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Phases" }
            @if !report.phases.is_empty() { div.scroll tabindex="0" { table.figures {
                caption.unseen { "Phases" }
                thead { tr { @for head in ["", "from", "to", "changes", "rate"] { th scope="col" { (head) } } } }
                tbody { @for phase in &report.phases { tr {
                    th scope="row" { (phase.name) }
                    td { (format::moment(phase.from)) }
                    td { (format::moment(phase.to)) }
                    td { (format::number(phase.changes)) }
                    td { (format::rate(phase.changes as f64 / (phase.to - phase.from))) }
                } } }
            } } }
            @if !report.restarts.is_empty() { div.scroll tabindex="0" { table.figures {
                caption.unseen { "Restarts" }
                thead { tr { @for head in ["Restart", "at", "without a writer"] { th scope="col" { (head) } } } }
                tbody { @for restart in &report.restarts { tr {
                    th scope="row" { (restart.signal) }
                    td { (format::moment(restart.at)) }
                    td { (format::seconds(restart.without_writer_seconds)) }
                } } }
            } } }
        }
    }
}
