//! The plots of a page: of one run its parts, of several a curve for each.

use super::curves::{self, Pieces};
use super::figures::{self, Throttled};
use super::format;
use super::model::{Latency, Process, Report};
use super::plot::{self, Band, Curve, Look, Marks, Plot, Row};
use super::runs::Run;
use super::scale::{Axis, Unit};

/// The quantiles in the tables of distributions.
const QUANTILES: [f64; 16] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 0.99999, 0.999_999, 1.0,
];

/// The height of the curves' room, in pixels.
const HEIGHT: f64 = 200.0;

/// Part of what one run shows in a plot.
type Part = (String, Look, Pieces);

/// All plots over time, with the axis and the marks that they share.
struct OverTime<'a> {
    runs: &'a [Run<'a>],
    axis: Axis,
    marks: Marks,
}

/// Something over time.
struct Quantity<'a> {
    id: &'static str,
    /// The title for one run, and that for several.
    titles: [&'a str; 2],
    notes: [&'a str; 2],
    unit: Option<Unit>,
    figure: fn(f64) -> String,
    /// How many samples a run has, and how several become one point.
    samples: &'a dyn Fn(&Report) -> usize,
    merged: &'static str,
    parts: &'a dyn Fn(&Report) -> Vec<Part>,
    whole: &'a dyn Fn(&Report) -> Pieces,
}

/// The name of the generator's own delay, which is no latency of the controller's.
pub(super) const LAG: &str = "Generator lag";

/// The latencies of a report, with their names.
pub(crate) fn latencies(report: &Report) -> Vec<(&'static str, &Latency)> {
    let mut latencies = vec![("Slices", &report.slices), ("Endpoints", &report.endpoints)];
    if let Some(watchers) = &report.watchers {
        latencies.push(("Watchers", &watchers.latency));
    }
    if let Some(claims) = &report.claims {
        latencies.extend([("Ready", &claims.ready), ("Gone", &claims.gone)]);
    }
    latencies.push((LAG, &report.generator_lag));
    latencies
}

pub(super) fn is_measured(latency: &Latency) -> bool {
    latency.count > 0 || latency.never_seen > 0 || latency.overtaken > 0
}

/// How long changes took until they were visible.
pub(super) fn latency(runs: &[Run<'_>]) -> Vec<Plot> {
    type Of = fn(&Report) -> &Latency;
    let over_time = OverTime::of(runs);
    let mut plots = Vec::new();
    for (ids, name, of) in [
        (
            ["slices", "slices-all"],
            "Slices",
            (|report| &report.slices) as Of,
        ),
        (["endpoints", "endpoints-all"], "Endpoints", |report| {
            &report.endpoints
        }),
    ] {
        // Slices have their place even if there are none: an empty run shows that it is empty.
        if name != "Slices" && !runs.iter().any(|run| is_measured(of(&run.report))) {
            continue;
        }
        plots.push(over_time.latency(ids[0], name, of));
        if runs.len() > 1 {
            let title = format!("{name}: distribution of latency");
            let all = runs.iter().map(|run| (run.label(), of(&run.report)));
            plots.push(distributions(ids[1], title, &all.collect::<Vec<_>>()));
        }
    }
    if let [run] = runs {
        let all = latencies(&run.report).into_iter();
        let all = all
            .map(|(name, latency)| (name.to_owned(), latency))
            .filter(|(_, latency)| !latency.histogram.is_empty());
        let title = "Distribution of latency".to_owned();
        plots.push(distributions("distribution", title, &all.collect::<Vec<_>>()));
    }
    plots
}

/// Changes, writes, and the queue.
pub(super) fn work(runs: &[Run<'_>]) -> Vec<Plot> {
    let over_time = OverTime::of(runs);
    let line = |number, name: &str, pieces| (name.to_owned(), Look::Line(number), pieces);
    let writes = |report: &Report| curves::rate(&report.writes.over_time, report.seconds);
    let changes = |report: &Report| curves::rate(&report.changes.over_time, report.seconds);
    let queue = |report: &Report| curves::queue(&report.queue);
    let throttled = |report: &Report| {
        report
            .throttling
            .as_ref()
            .map(curves::throttled)
            .unwrap_or_default()
    };
    let mut plots = vec![over_time.plot(&Quantity {
        id: "work",
        titles: ["Changes and writes over time", "Writes over time"],
        notes: [
            "Of a second. Writes are of slices and Endpoints.",
            "Of a second, slices and Endpoints.",
        ],
        unit: Some(Unit::Plain),
        figure: format::rate,
        samples: &|report| report.changes.over_time.len().max(report.writes.over_time.len()),
        merged: "average",
        parts: &|report| {
            vec![
                line(0, "changes", changes(report)),
                line(1, "writes", writes(report)),
            ]
        },
        whole: &writes,
    })];
    if runs.iter().any(|run| !run.report.queue.is_empty()) {
        plots.push(over_time.plot(&Quantity {
            id: "queue",
            titles: ["Queue over time"; 2],
            notes: ["Objects that wait to be written."; 2],
            unit: Some(Unit::Plain),
            figure: format::figure,
            samples: &|report| report.queue.len(),
            merged: "highest",
            parts: &|report| vec![line(0, "waiting", queue(report))],
            whole: &queue,
        }));
    }
    // A curve of nothing but noughts would say no more than the badge.
    if runs
        .iter()
        .any(|run| matches!(figures::throttled(&run.report), Some(Throttled::For(_))))
    {
        plots.push(over_time.plot(&Quantity {
            id: "throttled",
            titles: ["Throttled over time"; 2],
            notes: ["Share of the time in which writes that were ready had to wait."; 2],
            unit: Some(Unit::Cores),
            figure: format::percent,
            samples: &|report| {
                report
                    .throttling
                    .as_ref()
                    .map_or(0, |throttling| throttling.over_time.len())
            },
            merged: "average",
            parts: &|report| vec![line(0, "throttled", throttled(report))],
            whole: &throttled,
        }));
    }
    plots
}

/// CPU time and memory of the processes.
pub(super) fn processes(runs: &[Run<'_>]) -> Vec<Plot> {
    let over_time = OverTime::of(runs);
    let plot = |id, title, notes, unit, figure, merged, of: fn(&Process) -> Pieces| {
        over_time.plot(&Quantity {
            id,
            titles: [title; 2],
            notes,
            unit: Some(unit),
            figure,
            samples: &|report| {
                let samples = report.processes.iter().map(|process| process.over_time.len());
                samples.max().unwrap_or(0)
            },
            merged,
            parts: &|report| {
                let processes = report.processes.iter().enumerate();
                let part = |(number, process): (usize, &Process)| {
                    (process.name.clone(), Look::Line(number), of(process))
                };
                processes.map(part).collect()
            },
            whole: &|report| curves::sum(&report.processes.iter().map(of).collect::<Vec<_>>()),
        })
    };
    vec![
        plot(
            "cpu",
            "CPU over time",
            ["100 % is one core.", "All processes of a run; 100 % is one core."],
            Unit::Cores,
            format::percent,
            "average",
            curves::cpu,
        ),
        plot(
            "memory",
            "Memory over time",
            ["Resident.", "All processes of a run, resident."],
            Unit::Bytes,
            format::bytes,
            "highest",
            curves::memory,
        ),
    ]
}

// === impl OverTime ===

impl<'a> OverTime<'a> {
    fn of(runs: &'a [Run<'a>]) -> Self {
        let reports: Vec<&Report> = runs.iter().map(|run| &*run.report).collect();
        let (from, to) = curves::span(&reports);
        Self {
            runs,
            axis: Axis::time(from, to),
            marks: marks(runs),
        }
    }

    fn latency(&self, id: &'static str, name: &str, of: fn(&Report) -> &Latency) -> Plot {
        let titles = ["latency", "p99"].map(|what| format!("{name}: {what} over time"));
        let step = |report: &Report| curves::sampling(report, of(report));
        let each = step(&self.runs[0].report);
        let each = each.map(|step| format!(" In intervals of {}.", format::seconds(step)));
        let note = format!("Log scale.{}", each.unwrap_or_default());
        self.plot(&Quantity {
            id,
            titles: [&titles[0], &titles[1]],
            notes: [&note, "Log scale."],
            unit: None,
            figure: format::micros,
            samples: &|report| {
                let samples = of(report).over_time.iter();
                samples.filter(|sample| sample.count > 0).count()
            },
            merged: "worst",
            parts: &|report| {
                let (latency, step) = (of(report), step(report));
                vec![
                    (
                        "p50".to_owned(),
                        Look::Line(0),
                        curves::latency(latency, step, |sample| sample.p50),
                    ),
                    (
                        "p99".to_owned(),
                        Look::Line(1),
                        curves::latency(latency, step, |sample| sample.p99),
                    ),
                    (
                        "max".to_owned(),
                        Look::Dots,
                        curves::latency(latency, step, |sample| sample.max),
                    ),
                ]
            },
            whole: &|report| curves::latency(of(report), step(report), |sample| sample.p99),
        })
    }

    fn plot(&self, quantity: &Quantity<'_>) -> Plot {
        let figure = quantity.figure;
        let curve = |(name, look, pieces)| Curve {
            name,
            look,
            pieces,
            figure,
        };
        let curves: Vec<Curve> = match self.runs {
            [run] => (quantity.parts)(&run.report).into_iter().map(curve).collect(),
            runs => {
                let each = runs.iter().enumerate();
                let each = each
                    .map(|(number, run)| (run.label(), Look::Line(number), (quantity.whole)(&run.report)));
                each.map(curve).collect()
            }
        };
        let samples = self.runs.iter().map(|run| (quantity.samples)(&run.report));
        let which = usize::from(self.runs.len() > 1);
        let mut note = quantity.notes[which].to_owned();
        let many = curves::merged(samples.max().unwrap_or(0));
        if many > 1 {
            note = format!(
                "{note} Each point is the {} of {many} intervals.",
                quantity.merged
            );
        }
        Plot {
            id: quantity.id,
            title: quantity.titles[which].to_owned(),
            note,
            across: "Since the first change",
            height: HEIGHT,
            y: match quantity.unit {
                Some(unit) => Axis::linear(plot::most(&curves), unit),
                None => Axis::durations(plot::least(&curves), plot::most(&curves)),
            },
            rows: plot::rows_over_time(&curves, &self.axis),
            x: self.axis.clone(),
            curves,
            marks: self.marks.clone(),
        }
    }
}

/// Restarts of all runs, and the phases if all runs had the same.
fn marks(runs: &[Run<'_>]) -> Marks {
    /// Phases end a little earlier or later in each run.
    const NEAR: f64 = 1.0;
    let mut marks = Marks {
        phases: phases(&runs[0].report),
        ..Marks::default()
    };
    let mut whose = Vec::new();
    for run in runs {
        let phases = phases(&run.report);
        let are_same = phases.len() == marks.phases.len()
            && phases.iter().zip(&marks.phases).all(|(one, other)| {
                let is_near = |one: f64, other: f64| (one - other).abs() < NEAR;
                one.name == other.name && is_near(one.from, other.from) && is_near(one.to, other.to)
            });
        if !are_same {
            marks.phases.clear();
        }
        if !run.report.restarts.is_empty() {
            whose.push(run.letter.to_string());
        }
        marks.restarts.extend(run.report.restarts.iter().map(|restart| {
            let (at, without) = (restart.at, restart.without_writer_seconds);
            let name = format!(
                "restart ({}) at {}: no writer for {}",
                restart.signal,
                format::moment(at),
                format::seconds(without)
            );
            Band {
                from: at,
                to: at + without,
                name: if runs.len() > 1 {
                    format!("{}: {name}", run.letter)
                } else {
                    name
                },
            }
        }));
    }
    marks.restart = if runs.len() > 1 {
        format!("restart of {}", whose.join(", "))
    } else {
        "restart".to_owned()
    };
    marks
}

fn phases(report: &Report) -> Vec<Band> {
    let phases = report.phases.iter().map(|phase| Band {
        from: phase.from,
        to: phase.to,
        name: phase.name.clone(),
    });
    phases.collect()
}

/// The distributions of several latencies in one plot.
fn distributions(id: &'static str, title: String, latencies: &[(String, &Latency)]) -> Plot {
    let curve = |(number, (name, latency)): (usize, &(String, &Latency))| Curve {
        name: name.clone(),
        look: Look::Line(number),
        pieces: curves::distribution(&latency.histogram),
        figure: format::micros,
    };
    let curves: Vec<Curve> = latencies.iter().enumerate().map(curve).collect();
    let counts: Vec<u64> = latencies
        .iter()
        .map(|(_, latency)| curves::total(&latency.histogram))
        .collect();
    let x = Axis::quantiles(counts.iter().copied().max().unwrap_or(0));
    let row = |share: f64| {
        let cells = latencies.iter().zip(&counts).map(|((_, latency), count)| {
            // A hundred values have no thousandth.
            let known = share >= 1.0 || *count as f64 * (1.0 - share) >= 0.999;
            let quantile = curves::quantile(&latency.histogram, share).filter(|_| known);
            quantile.map(|micros| format::micros(micros as f64))
        });
        Row {
            place: x.place(share),
            label: if share >= 1.0 {
                "all".to_owned()
            } else {
                format!("{} %", format::plain(share * 100.0))
            },
            cells: cells.collect(),
        }
    };
    let rows = QUANTILES.into_iter().map(row);
    let rows = rows.filter(|row| row.cells.iter().any(Option::is_some));
    Plot {
        id,
        title,
        note: "How many of 100 changes were visible within which time. Log scale.".to_owned(),
        across: "Share of changes",
        height: HEIGHT,
        y: Axis::durations(plot::least(&curves), plot::most(&curves)),
        rows: rows.collect(),
        x,
        curves,
        marks: Marks::default(),
    }
}
