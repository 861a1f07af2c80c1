//! Plots as SVG. Across, places are percentages, so that a plot is as wide as there is room and its text keeps its
//! size; only the curves are stretched.

use super::curves::{Pieces, Point};
use super::format;
use super::scale::Axis;
use maud::{Markup, html};
use std::fmt::Write as _;

/// Where the curves begin, below the names of the phases.
const TOP: f64 = 22.0;
/// Room below them for the labels of the axis.
const BOTTOM: f64 = 26.0;
/// The width of the drawing that is stretched to the width of the plot.
const ACROSS: f64 = 1_000.0;
/// Widths of plots for which names of phases are cut: on a phone, beside another plot, and alone.
const WIDTHS: [(&str, f64); 3] = [("narrow", 270.0), ("wide", 430.0), ("full", 860.0)];
/// The width of a letter of such a name, in pixels.
const LETTER: f64 = 6.6;

/// A plot with its title, its legend and its table.
pub(super) struct Plot {
    /// The name that in-page links and labels use; unique in its page.
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) note: String,
    /// The heading of the table's first column.
    pub(super) across: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// The height of the curves' room, in pixels.
    pub(super) height: f64,
    pub(super) curves: Vec<Curve>,
    pub(super) marks: Marks,
    /// The same in figures: a label, its place on the axis, and a figure for each curve.
    pub(super) rows: Vec<Row>,
}

/// One curve.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) pieces: Pieces,
    pub(super) figure: fn(f64) -> String,
}

/// How a curve is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// A line, in the colour and with the dashes of this number.
    Line(usize),
    /// Dots: for what a line would make a picket fence.
    Dots,
}

/// Marks on the axis of time.
#[derive(Clone, Default)]
pub(super) struct Marks {
    pub(super) phases: Vec<Band>,
    pub(super) restarts: Vec<Band>,
    /// The name of restarts in the legend.
    pub(super) restart: String,
}

/// A stretch of time with its name.
#[derive(Clone)]
pub(super) struct Band {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) name: String,
}

/// One row of a plot's table.
pub(super) struct Row {
    pub(super) place: f64,
    pub(super) label: String,
    pub(super) cells: Vec<Option<String>>,
}

/// Lines have this many colours before they repeat.
const COLOURS: usize = 8;

// === impl Look ===

impl Look {
    fn class(self) -> String {
        match self {
            Self::Line(number) => format!("c{}", number % COLOURS),
            Self::Dots => "dots".to_owned(),
        }
    }
}

// === impl Curve ===

impl Curve {
    fn values(&self) -> impl Iterator<Item = f64> {
        self.pieces.iter().flatten().map(|point| point.1)
    }
}

/// The greatest value of several curves; not a number if there is none.
pub(super) fn most<'a>(curves: impl IntoIterator<Item = &'a Curve>) -> f64 {
    curves
        .into_iter()
        .flat_map(Curve::values)
        .fold(f64::NAN, f64::max)
}

/// The least value of several curves; not a number if there is none.
pub(super) fn least<'a>(curves: impl IntoIterator<Item = &'a Curve>) -> f64 {
    curves
        .into_iter()
        .flat_map(Curve::values)
        .fold(f64::NAN, f64::min)
}

/// Rows for curves over time: one for each moment at which any of them has a value.
pub(super) fn rows_over_time(curves: &[Curve], x: &Axis) -> Vec<Row> {
    let mut moments: Vec<f64> = curves
        .iter()
        .flat_map(|curve| curve.pieces.iter().flatten())
        .map(|p| p.0)
        .collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let mut points: Vec<Vec<Point>> = curves.iter().map(|curve| curve.pieces.concat()).collect();
    for points in &mut points {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let mut next = vec![0; curves.len()];
    let row = |moment: f64| {
        let cells = curves
            .iter()
            .zip(&points)
            .zip(&mut next)
            .map(|((curve, points), next)| {
                let mut value = None;
                while let Some(point) = points.get(*next).filter(|point| point.0 <= moment) {
                    value = Some(point.1);
                    *next += 1;
                }
                value.map(curve.figure)
            });
        Row {
            cells: cells.collect(),
            place: x.place(moment),
            label: format::moment(moment),
        }
    };
    moments.into_iter().map(row).collect()
}

// === impl Plot ===

impl Plot {
    pub(super) fn render(&self) -> Markup {
        let shown: Vec<&Curve> = self
            .curves
            .iter()
            .filter(|curve| !curve.pieces.is_empty())
            .collect();
        let (title, text) = (format!("{}-title", self.id), format!("{}-text", self.id));
        html! {
            figure.plot #(self.id) {
                figcaption {
                    h3 #(title) { (self.title) }
                    @if !self.note.is_empty() { p.note { (self.note) } }
                }
                @if shown.is_empty() {
                    p.empty { "Nothing was measured." }
                } @else {
                    (self.legend())
                    div.frame {
                        svg role="img" aria-labelledby=(format!("{title} {text}"))
                            height=(place(TOP + self.height + BOTTOM)) {
                            title { (self.title) }
                            desc #(text) { (self.description()) }
                            (self.bands())
                            (self.grid())
                            (self.drawing(&shown))
                        }
                    }
                    (self.table())
                }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend {
                @for (column, curve) in self.curves.iter().enumerate() {
                    li data-column=(column) {
                        svg.key width="22" height="10" aria-hidden="true" {
                            @if curve.look == Look::Dots {
                                path.curve.dots d="M5 5h0M17 5h0" {}
                            } @else {
                                path class=(format!("curve {}", curve.look.class())) d="M0 5H22" {}
                            }
                        }
                        span { (curve.name) }
                        b.value {}
                    }
                }
                @if !self.marks.restarts.is_empty() {
                    li { svg.key width="10" height="12" aria-hidden="true" { path.restart d="M5 0V12" {} } span { (self.marks.restart) } }
                }
                li.moment { b.value {} }
            }
        }
    }

    /// The description for readers who do not see the plot.
    fn description(&self) -> String {
        let mut text = String::new();
        for curve in &self.curves {
            let (least, most) = (least([curve]), most([curve]));
            if most.is_finite() {
                let figure = curve.figure;
                let _ = write!(
                    text,
                    "{}: from {} to {}. ",
                    curve.name,
                    figure(least),
                    figure(most)
                );
            }
        }
        text.push_str("All figures are in the table below.");
        text
    }

    fn bands(&self) -> Markup {
        let bottom = TOP + self.height;
        html! {
            @for (number, band) in self.marks.phases.iter().enumerate() {
                @let (from, to) = (self.x.place(band.from), self.x.place(band.to));
                @let width = (to - from).max(0.0);
                @let shade = if number % 2 == 0 { "phase even" } else { "phase odd" };
                svg.band x=(percent(from)) y="0" width=(percent(width)) height=(place(bottom)) {
                    title { (band.name) ": " (format::moment(band.from)) " to " (format::moment(band.to)) }
                    rect class=(shade) y=(place(TOP)) width="100%" height=(place(self.height)) {}
                    rect.edge width="100%" y=(place(TOP - 3.0)) height="3" {}
                    @for (class, pixels) in WIDTHS {
                        @let room = (pixels * width / LETTER) as usize;
                        @if room >= 2 {
                            text class=(class) x="2" y=(place(TOP - 8.0)) { (format::cut(&band.name, room)) }
                        }
                    }
                }
            }
            @for band in &self.marks.restarts {
                @let (from, to) = (self.x.place(band.from), self.x.place(band.to));
                g {
                    title { (band.name) }
                    rect.gap x=(percent(from)) y=(place(TOP)) width=(percent((to - from).max(0.0))) height=(place(self.height)) {}
                    line.restart x1=(percent(from)) x2=(percent(from)) y1=(place(TOP - 3.0)) y2=(place(bottom)) {}
                }
            }
        }
    }

    fn grid(&self) -> Markup {
        let bottom = TOP + self.height;
        html! {
            @for tick in &self.y.ticks {
                @let y = place(bottom - tick.place * self.height);
                line class=(if tick.label.is_empty() { "grid faint" } else { "grid" }) x1="0" x2="100%" y1=(y) y2=(y) {}
                @if !tick.label.is_empty() {
                    text.tick x="-8" y=(y) dy=".33em" text-anchor="end" { (tick.label) }
                }
            }
            line.axis x1="0" x2="100%" y1=(place(bottom)) y2=(place(bottom)) {}
            @for tick in &self.x.ticks {
                @let x = percent(tick.place);
                line.axis x1=(x) x2=(x) y1=(place(bottom)) y2=(place(bottom + 4.0)) {}
                text class=(if tick.optional { "tick optional" } else { "tick" })
                    x=(x) y=(place(bottom + 18.0)) text-anchor="middle" { (tick.label) }
            }
        }
    }

    fn drawing(&self, shown: &[&Curve]) -> Markup {
        html! {
            svg.curves x="0" y=(place(TOP)) width="100%" height=(place(self.height))
                viewBox=(format!("0 0 {ACROSS} {}", place(self.height))) preserveAspectRatio="none" {
                // Backwards: the first curve is the one that matters most, and lies above the others.
                @for curve in shown.iter().rev() {
                    path class=(format!("curve {}", curve.look.class())) d=(self.path(curve)) {}
                }
            }
        }
    }

    fn path(&self, curve: &Curve) -> String {
        let mut path = String::new();
        for piece in &curve.pieces {
            let mut before = (f64::NAN, f64::NAN);
            for (number, &(x, y)) in piece.iter().enumerate() {
                let at = (self.x.place(x) * ACROSS, (1.0 - self.y.place(y)) * self.height);
                // A point nearer than a tenth of a pixel to the last one adds nothing but bytes.
                if (at.0 - before.0).abs() < 0.1 && (at.1 - before.1).abs() < 0.1 {
                    continue;
                }
                before = at;
                let alone = piece.len() == 1 || curve.look == Look::Dots;
                let stroke = if number == 0 || alone { 'M' } else { 'L' };
                let _ = write!(path, "{stroke}{} {}", place(at.0), place(at.1));
                if alone {
                    // A line of no length is a dot, as its ends are round.
                    path.push_str("h0");
                }
            }
        }
        path
    }

    fn table(&self) -> Markup {
        html! {
            details {
                summary { "Figures" }
                div.scroll tabindex="0" {
                    table {
                        caption.unseen { (self.title) }
                        thead { tr {
                            th scope="col" { (self.across) }
                            @for curve in &self.curves { th scope="col" { (curve.name) } }
                        } }
                        tbody {
                            @for row in &self.rows {
                                tr data-x=(format!("{:.4}", row.place)) {
                                    th scope="row" { (row.label) }
                                    @for cell in &row.cells { td { @if let Some(cell) = cell { (cell) } } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A coordinate: to a tenth, without needless digits.
fn place(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    // Minus nought is nought.
    (tenths + 0.0).to_string()
}

/// A share of the width.
fn percent(share: f64) -> String {
    format!("{}%", (share * 10_000.0).round() / 100.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::scale::Unit;
    use super::*;

    fn plot(pieces: Pieces, look: Look) -> Plot {
        let curves = vec![Curve {
            name: "a < b".to_owned(),
            look,
            pieces,
            figure: format::whole,
        }];
        let x = Axis::time(0.0, 10.0);
        Plot {
            id: "sample",
            title: "Sample".to_owned(),
            note: String::new(),
            across: "At",
            y: Axis::linear(most(&curves), Unit::Plain),
            height: 100.0,
            rows: rows_over_time(&curves, &x),
            x,
            curves,
            marks: Marks::default(),
        }
    }

    #[test]
    fn lines_have_gaps_and_lone_points_are_dots() {
        let plot = plot(
            vec![vec![(0.0, 0.0), (5.0, 4.0)], vec![(10.0, 2.0)]],
            Look::Line(0),
        );
        assert_eq!(plot.path(&plot.curves[0]), "M0 100L500 0M1000 50h0");
        let cells: Vec<_> = plot
            .rows
            .iter()
            .map(|row| (row.label.as_str(), row.cells[0].as_deref()))
            .collect();
        assert_eq!(
            cells,
            [("0.0 s", Some("0")), ("5.0 s", Some("4")), ("10.0 s", Some("2"))]
        );
    }

    #[test]
    fn dots_are_not_joined() {
        let plot = plot(vec![vec![(0.0, 4.0), (5.0, 4.0)]], Look::Dots);
        assert_eq!(plot.path(&plot.curves[0]), "M0 0h0M500 0h0");
    }

    #[test]
    fn names_are_escaped_and_a_plot_of_nothing_says_so() {
        let full = plot(vec![vec![(0.0, 4.0)]], Look::Line(1)).render().into_string();
        assert!(full.contains("a &lt; b") && !full.contains("a < b"), "{full}");
        let empty = plot(Vec::new(), Look::Line(1)).render().into_string();
        assert!(
            empty.contains("Nothing was measured") && !empty.contains("<svg"),
            "{empty}"
        );
    }

    #[test]
    fn rows_hold_the_curves_that_have_a_value_then() {
        let figure = format::whole;
        let curve = |pieces| Curve {
            name: String::new(),
            look: Look::Dots,
            pieces,
            figure,
        };
        let curves = [
            curve(vec![vec![(1.0, 1.0), (3.0, 3.0)]]),
            curve(vec![vec![(2.0, 2.0)], vec![(3.0, 4.0)]]),
        ];
        let rows = rows_over_time(&curves, &Axis::time(0.0, 4.0));
        let cells: Vec<Vec<_>> = rows
            .iter()
            .map(|row| row.cells.iter().map(Option::as_deref).collect())
            .collect();
        assert_eq!(
            cells,
            [[Some("1"), None], [None, Some("2")], [Some("3"), Some("4")]]
        );
    }
}
