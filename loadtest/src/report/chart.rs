//! The charts of a page as SVG, with a curve for each run. Places across are percentages, so a chart is as wide as there is room,
//! and its text keeps its size.

use super::format;
use super::model::{ProcessSample, Report};
use super::runs::Run;
use maud::{Markup, html};
use std::fmt::Write as _;

/// The height of the room for curves, in pixels, and that of the line below it.
const HEIGHT: f64 = 180.0;
const BELOW: f64 = 20.0;
/// The width of the drawing that is stretched to the width of the chart.
const ACROSS: f64 = 1_000.0;
/// More points than these are more than a screen shows: of some that stand for one, the highest is drawn.
const MOST_POINTS: usize = 400;
/// Samples further apart than this many times their usual distance have a gap between them.
const GAP: f64 = 2.5;
const MIB: f64 = 1024.0 * 1024.0;

/// Seconds since the first change, and a value.
type Point = (f64, f64);

/// Where values stand, from 0 to 1.
enum Scale {
    Linear {
        to: f64,
    },
    /// Each decade is as high as the others.
    Log {
        from: f64,
        to: f64,
    },
}

/// How long changes took until they were visible. Of a run without slices, the times of Endpoints are shown.
pub(super) fn latency(runs: &[Run<'_>]) -> Markup {
    let points = |report: &Report| {
        let all = [&report.slices, &report.endpoints];
        let measured = all.into_iter().find(|latency| latency.count > 0);
        let samples = measured.into_iter().flat_map(|latency| &latency.over_time);
        // Nought cannot stand on a logarithmic axis, and the clock is no finer.
        samples
            .filter(|sample| sample.count > 0)
            .map(|sample| (sample.at, sample.p99.max(1) as f64))
            .collect()
    };
    let curves = curves(runs, points);
    let values = || curves.iter().flatten().map(|point| point.1);
    let from = power(values().fold(f64::INFINITY, f64::min)).floor();
    let to = power(values().fold(1.0, f64::max)).ceil().max(from + 1.0);
    let ticks: Vec<f64> = (from as i32..=to as i32)
        .map(|decade| 10_f64.powi(decade))
        .collect();
    let scale = Scale::Log {
        from: 10_f64.powf(from),
        to: 10_f64.powf(to),
    };
    chart(
        "Latency",
        "From a change until a watching client saw it: p99 of each interval, on a log scale.",
        &curves,
        &scale,
        &ticks,
        format::micros,
    )
}

/// CPU time of the controller, which is the first process of a run.
pub(super) fn cpu(runs: &[Run<'_>]) -> Markup {
    let curves = curves(runs, |report| sampled(report, |sample| sample.cpu));
    linear(
        "CPU",
        "Of the controller; 100 % is one core.",
        &curves,
        0.01,
        format::percent,
    )
}

/// Memory of the controller.
pub(super) fn memory(runs: &[Run<'_>]) -> Markup {
    let curves = curves(runs, |report| sampled(report, |sample| sample.rss_bytes as f64));
    linear(
        "Memory",
        "Of the controller, resident.",
        &curves,
        MIB,
        format::bytes,
    )
}

/// The line that a run is drawn with.
pub(super) fn key(number: usize) -> Markup {
    html! { svg.key width="24" height="10" aria-hidden="true" { path class=(class(number)) d="M1 5H23" {} } }
}

fn class(number: usize) -> String {
    format!("curve c{number}")
}

fn curves(runs: &[Run<'_>], points: impl Fn(&Report) -> Vec<Point>) -> Vec<Vec<Point>> {
    let curve = |run: &Run<'_>| {
        let mut points = points(&run.report);
        points.retain(|(at, value)| at.is_finite() && value.is_finite());
        points
    };
    runs.iter().map(curve).collect()
}

fn sampled(report: &Report, value: impl Fn(&ProcessSample) -> f64) -> Vec<Point> {
    let controller = report.processes.first();
    let samples = controller.into_iter().flat_map(|process| &process.over_time);
    samples.map(|sample| (sample.at, value(sample))).collect()
}

/// A chart whose axis begins at nought, with ticks at round multiples of a unit.
fn linear(title: &str, note: &str, curves: &[Vec<Point>], unit: f64, text: fn(f64) -> String) -> Markup {
    let most = curves.iter().flatten().map(|point| point.1).fold(unit, f64::max);
    let step = round_up(most / unit / 4.0) * unit;
    let steps = (most / step).ceil();
    let ticks: Vec<f64> = (0..=steps as u32).map(|n| f64::from(n) * step).collect();
    chart(
        title,
        note,
        curves,
        &Scale::Linear { to: steps * step },
        &ticks,
        text,
    )
}

fn chart(
    title: &str,
    note: &str,
    curves: &[Vec<Point>],
    scale: &Scale,
    ticks: &[f64],
    text: fn(f64) -> String,
) -> Markup {
    let seconds = curves.iter().flatten().map(|point| point.0).fold(0.0, f64::max);
    let height = |value: f64| ((1.0 - scale.place(value)) * HEIGHT).round();
    html! {
        figure {
            figcaption { h2 { (title) } p { (note) } }
            @if curves.iter().all(Vec::is_empty) {
                p { "Nothing was measured." }
            } @else {
                svg role="img" aria-label=(title) width="100%" height=(HEIGHT + BELOW) {
                    @for tick in ticks {
                        line.grid x1="0" x2="100%" y1=(height(*tick)) y2=(height(*tick)) {}
                        // The label of the highest would be cut off above its line.
                        text x="2" y=(if height(*tick) < 12.0 { height(*tick) + 13.0 } else { height(*tick) - 4.0 }) { (text(*tick)) }
                    }
                    svg width="100%" height=(HEIGHT) viewBox={ "0 0 " (ACROSS) " " (HEIGHT) } preserveAspectRatio="none" {
                        @for (number, curve) in curves.iter().enumerate() {
                            path class=(class(number)) d=(path(curve, seconds, scale)) {}
                        }
                    }
                    text x="0" y=(HEIGHT + BELOW - 4.0) { "0" }
                    text x="100%" y=(HEIGHT + BELOW - 4.0) text-anchor="end" { (format::seconds(seconds)) }
                }
            }
        }
    }
}

/// The points as a path, joined unless something is missing between them.
fn path(points: &[Point], seconds: f64, scale: &Scale) -> String {
    let mut distances: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    distances.sort_by(f64::total_cmp);
    let usual = distances.get(distances.len() / 2).copied().unwrap_or(0.0);
    let many = points.len().div_ceil(MOST_POINTS).max(1);
    let mut path = String::new();
    let mut before = f64::NEG_INFINITY;
    for chunk in points.chunks(many) {
        let at = chunk[0].0;
        let highest = chunk.iter().map(|point| point.1).fold(f64::MIN, f64::max);
        let stroke = if at - before > GAP * usual * many as f64 {
            'M'
        } else {
            'L'
        };
        let (x, y) = (
            at / seconds.max(1e-3) * ACROSS,
            (1.0 - scale.place(highest)) * HEIGHT,
        );
        // A line of no length shows a point that has no neighbour, as its ends are round.
        let dot = if stroke == 'M' { "h0" } else { "" };
        let _ = write!(path, "{stroke}{x:.1} {y:.1}{dot}");
        before = at;
    }
    path
}

/// The least of 1, 2 and 5 times a power of ten that is not below a value.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(power(value).floor());
    let digit = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|digit| digit * power >= value * 0.999_999);
    digit.unwrap_or(10.0) * power
}

/// The power of ten that a value is; nought for one that has none.
fn power(value: f64) -> f64 {
    if value > 0.0 && value.is_finite() {
        value.log10()
    } else {
        0.0
    }
}

// === impl Scale ===

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let place = match *self {
            Self::Linear { to } => value / to,
            Self::Log { from, to } => (value / from).ln() / (to / from).ln(),
        };
        place.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_gaps_where_samples_are_missing_and_keep_their_peaks() {
        let scale = Scale::Linear { to: 10.0 };
        let points = [(0.0, 0.0), (1.0, 10.0), (2.0, 5.0), (10.0, 10.0)];
        assert_eq!(
            path(&points, 10.0, &scale),
            "M0.0 180.0h0L100.0 0.0L200.0 90.0M1000.0 0.0h0"
        );
        let many: Vec<Point> = (0..1_200).map(|n| (f64::from(n), f64::from(n % 3))).collect();
        let path = path(&many, 1_200.0, &Scale::Linear { to: 2.0 });
        assert_eq!(path.matches(' ').count(), MOST_POINTS);
        assert_eq!(path.matches(" 0.0").count(), MOST_POINTS, "{path}");
        assert_eq!(path.matches('M').count(), 1);
    }

    #[test]
    fn axes_are_round_and_hold_all() {
        let rounded = [0.3, 1.0, 1.1, 4.9, 7.0, 99.0].map(|value| round_up(value).to_string());
        assert_eq!(rounded, ["0.5", "1", "2", "5", "10", "100"]);
        let log = Scale::Log {
            from: 10.0,
            to: 1_000.0,
        };
        let places = [1.0, 10.0, 100.0, 1e9].map(|value| format!("{:.2}", log.place(value)));
        assert_eq!(places, ["0.00", "0.00", "0.50", "1.00"]);
    }
}
