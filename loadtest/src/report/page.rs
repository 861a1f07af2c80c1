//! What all pages share: a page is one file, which loads nothing and whose policy allows nothing but itself.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest;

use super::{
    curves::{self, Pieces},
    format,
    model::{Latency, Machine, Report},
    plot::{self, Band, Curve, Look, Marks, Plot, Row},
    scale::{Axis, Unit},
};

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/readout.js");

/// The quantiles in the tables of distributions.
const QUANTILES: [f64; 16] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 0.99999, 0.999_999, 1.0,
];

/// A whole page.
pub(super) fn whole(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // Or else browsers ask the server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Nothing may be loaded, and of style and script only those of this file run: text of a report that found its way
/// into the page as markup could do nothing.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// One figure, large.
pub(super) struct Tile {
    pub(super) label: String,
    pub(super) figure: String,
    pub(super) more: String,
    /// Something is wrong with it.
    pub(super) bad: bool,
}

/// Figures in a row.
pub(super) fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        ul.tiles {
            @for tile in tiles {
                li.bad[tile.bad] {
                    span.label { (tile.label) }
                    strong { (tile.figure) }
                    span.more {
                        // Lines break between these, not between a figure and its unit.
                        @for (number, part) in tile.more.split(", ").enumerate() {
                            @if number > 0 { ", " }
                            span.part { (part) }
                        }
                    }
                }
            }
        }
    }
}

/// How good something is, told by a shape and a word as well as by a colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    Good,
    Doubtful,
    Bad,
}

/// A short judgement.
pub(super) fn badge(mood: Mood, text: &str) -> Markup {
    let (class, shape) = match mood {
        Mood::Good => ("badge good", "M3.5 8.5l3 3 6-7"),
        Mood::Doubtful => ("badge doubtful", "M8 3.5v5.5M8 12.3v.2"),
        Mood::Bad => ("badge bad", "M4 4l8 8M12 4l-8 8"),
    };
    html! {
        span class=(class) {
            svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" { path d=(shape) {} }
            (text)
        }
    }
}

/// Whether the run was verified.
pub(super) fn verified(report: &Report) -> Markup {
    if report.verdict.verified {
        badge(Mood::Good, "Verified")
    } else {
        badge(Mood::Bad, "Not verified")
    }
}

/// Whether the generator kept up.
pub(super) fn kept_up(report: &Report) -> Markup {
    if report.verdict.generator_kept_up {
        badge(Mood::Good, "Generator kept up")
    } else if report.changes.made == 0 {
        badge(Mood::Doubtful, "No changes")
    } else {
        badge(Mood::Doubtful, "Generator lagged")
    }
}

/// Lines, of which a few are shown at once.
pub(super) fn lines(lines: &[String]) -> Markup {
    const SHOWN: usize = 8;
    let (shown, more) = lines.split_at(lines.len().min(SHOWN));
    html! {
        ul.lines { @for line in shown { li { (line) } } }
        @if !more.is_empty() {
            details {
                summary { (format::number(more.len() as u64)) " more" }
                ul.lines { @for line in more { li { (line) } } }
            }
        }
    }
}

/// Names and values, or that there are none.
pub(super) fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    let mut pairs = pairs.into_iter().peekable();
    html! {
        @if pairs.peek().is_none() {
            p.none { "None are known." }
        } @else {
            dl { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// What a machine is, by name.
pub(super) fn machine(machine: &Machine) -> [(&'static str, String); 5] {
    let text = |text: &str| {
        if text.is_empty() {
            format::NONE.to_owned()
        } else {
            text.to_owned()
        }
    };
    let known = |known: bool, text: String| if known { text } else { format::NONE.to_owned() };
    [
        ("Processor", text(&machine.processor)),
        ("Cores", known(machine.cores > 0, machine.cores.to_string())),
        (
            "Memory",
            known(
                machine.memory_bytes > 0,
                format::bytes(machine.memory_bytes as f64),
            ),
        ),
        ("System", text(&machine.system)),
        (
            "Load average",
            known(
                machine.cores > 0,
                format!("{:.2} at the start", machine.load_average),
            ),
        ),
    ]
}

/// The phases and restarts of a run, as marks.
pub(super) fn marks(report: &Report) -> Marks {
    let phases = report.phases.iter().map(|phase| Band {
        from: phase.from,
        to: phase.to,
        name: phase.name.clone(),
    });
    let restarts = report.restarts.iter().map(|restart| Band {
        from: restart.at,
        to: restart.at + restart.without_writer_seconds,
        name: format!(
            "restart ({}) at {}: no writer for {}",
            restart.signal,
            format::moment(restart.at),
            format::seconds(restart.without_writer_seconds)
        ),
    });
    Marks {
        phases: phases.collect(),
        restarts: restarts.collect(),
        restart: "restart".to_owned(),
    }
}

/// The axes and marks that plots over time share.
pub(super) struct OverTime {
    pub(super) axis: Axis,
    pub(super) marks: Marks,
}

// === impl OverTime ===

impl OverTime {
    /// A plot of durations in microseconds.
    pub(super) fn durations(
        &self,
        id: &'static str,
        title: &'static str,
        note: String,
        curves: Vec<Curve>,
    ) -> Plot {
        let y = Axis::durations(plot::least(&curves), plot::most(&curves));
        self.plot(id, title, note, y, curves)
    }

    /// A plot that begins at nought.
    pub(super) fn linear(
        &self,
        id: &'static str,
        title: &'static str,
        note: String,
        unit: Unit,
        curves: Vec<Curve>,
    ) -> Plot {
        let y = Axis::linear(plot::most(&curves), unit);
        self.plot(id, title, note, y, curves)
    }

    fn plot(&self, id: &'static str, title: &'static str, note: String, y: Axis, curves: Vec<Curve>) -> Plot {
        Plot {
            id,
            title,
            note,
            across: "Since the first change",
            y,
            height: 200.0,
            rows: plot::rows_over_time(&curves, &self.axis),
            x: self.axis.clone(),
            curves,
            marks: self.marks.clone(),
        }
    }
}

/// The distributions of several latencies in one plot.
pub(super) fn distributions(id: &'static str, title: &'static str, latencies: &[(String, &Latency)]) -> Plot {
    let curve = |(number, (name, latency)): (usize, &(String, &Latency))| Curve {
        name: name.clone(),
        look: Look::Line(number),
        pieces: curves::distribution(&latency.histogram),
        figure: format::micros,
    };
    let curves: Vec<Curve> = latencies.iter().enumerate().map(curve).collect();
    let count = |latency: &Latency| {
        latency
            .histogram
            .iter()
            .fold(0_u64, |sum, b| sum.saturating_add(b.count))
    };
    let most = latencies
        .iter()
        .map(|(_, latency)| count(latency))
        .max()
        .unwrap_or(0);
    let x = Axis::quantiles(most);
    let row = |share: f64| Row {
        place: x.place(share),
        label: if share >= 1.0 {
            "all".to_owned()
        } else {
            format!("{} %", format::plain(share * 100.0))
        },
        cells: latencies
            .iter()
            .map(|(_, latency)| {
                // Of a hundred values none is the thousandth.
                let known = share >= 1.0 || count(latency) as f64 * (1.0 - share) >= 0.999;
                let quantile = curves::quantile(&latency.histogram, share).filter(|_| known);
                quantile.map(|micros| format::micros(micros as f64))
            })
            .collect(),
    };
    let rows = QUANTILES
        .into_iter()
        .map(row)
        .filter(|row| row.cells.iter().any(Option::is_some));
    Plot {
        id,
        title,
        note: "How many of 100 changes were visible within which time. Log scale.".to_owned(),
        across: "Share of changes",
        y: Axis::durations(plot::least(&curves), plot::most(&curves)),
        height: 200.0,
        rows: rows.collect(),
        x,
        curves,
        marks: Marks::default(),
    }
}

/// The note of a plot whose samples were too many: how many of them each point stands for.
pub(super) fn merged(note: &str, samples: usize, how: &str) -> String {
    match curves::merged(samples) {
        1 => note.to_owned(),
        many => format!("{note} Each point is the {how} of {many} intervals."),
    }
}

/// A curve of a line.
pub(super) fn line(
    number: usize,
    name: impl Into<String>,
    pieces: Pieces,
    figure: fn(f64) -> String,
) -> Curve {
    Curve {
        name: name.into(),
        look: Look::Line(number),
        pieces,
        figure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_cannot_end_their_elements() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
        // Or the hashes in the policy would not be those of what is there.
        let page = whole("t", &html! {});
        assert!(page.contains(&format!("<style>{STYLE}</style>")));
        assert!(page.contains(&format!("<script>{SCRIPT}</script>")));
        assert!(!STYLE.contains('\r') && !SCRIPT.contains('\r'));
    }

    #[test]
    fn a_title_stays_text() {
        let page = whole("</title><script>alert(1)</script>", &html! { "&" });
        assert!(page.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>"));
        assert_eq!(page.matches("<script").count(), 1);
    }

    #[test]
    fn many_lines_are_folded() {
        let all: Vec<String> = (0..30).map(|n| format!("<{n}>")).collect();
        let text = lines(&all).into_string();
        assert_eq!(text.matches("<li>").count(), 30);
        assert!(text.contains("22 more") && text.contains("&lt;29&gt;"));
        assert!(!lines(&all[..5]).into_string().contains("more"));
    }
}
