//! From values to places on an axis, and the round values that stand beside it.

use super::format::{magnitude, number, plain};

/// A round value beside an axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Tick {
    /// Where it stands, from 0 to 1.
    pub(super) place: f64,
    /// The text there; empty where there is only a line.
    pub(super) label: String,
    /// The label is left out where the plot is narrow.
    pub(super) optional: bool,
}

/// One axis of a plot.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Axis {
    scale: Scale,
    pub(super) ticks: Vec<Tick>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Scale {
    Linear {
        from: f64,
        to: f64,
    },
    Log {
        from: f64,
        to: f64,
    },
    /// Quantiles, so that 90, 99 and 99.9 of 100 are equally far apart.
    Nines {
        most: f64,
    },
}

/// How values of a linear axis read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// As plain numbers.
    Plain,
    /// As percentages of one core.
    Cores,
    /// As sizes, whose round values are powers of two.
    Bytes,
}

/// Steps of an axis of time: seconds in one unit, its name, and which of its multiples are round.
const TIMES: [(f64, &str, &[f64]); 3] = [
    (
        1.0,
        "s",
        &[
            0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0,
        ],
    ),
    (60.0, "min", &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0]),
    (
        3_600.0,
        "h",
        &[0.5, 1.0, 2.0, 4.0, 6.0, 12.0, 24.0, 48.0, 96.0, 168.0],
    ),
];
/// Spans from which minutes, and hours, read better than the unit before.
const UNITS_FROM: [f64; 2] = [180.0, 10_800.0];
const MOST_TIMES: f64 = 8.0;
const LINEAR_STEPS: f64 = 4.0;

// === impl Axis ===

impl Axis {
    /// Seconds of a run.
    pub(super) fn time(from: f64, to: f64) -> Self {
        let span = (to - from).max(1e-3);
        let to = from + span;
        let (unit, name, steps) = TIMES[UNITS_FROM.iter().filter(|&&least| span > least).count()];
        let fits = |step: &&f64| span / (**step * unit) <= MOST_TIMES;
        let step = steps.iter().find(fits).copied().unwrap_or_else(|| {
            // Weeks on end: any round number of them.
            nice(span / unit / MOST_TIMES, &[1.0, 2.0, 5.0, 10.0])
        });
        let scale = Scale::Linear { from, to };
        let first = (from / unit / step - 1e-9).ceil() as i64;
        let last = (to / unit / step + 1e-9).floor() as i64;
        let ticks = (first..=last).map(|n| Tick {
            place: scale.place(n as f64 * step * unit),
            label: format!("{} {name}", plain(n as f64 * step)),
            // Nought stays, whatever the count.
            optional: n % 2 != 0,
        });
        Self {
            ticks: ticks.collect(),
            scale,
        }
    }

    /// From nought to at least this.
    pub(super) fn linear(most: f64, unit: Unit) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = match unit {
            Unit::Plain => nice(most / LINEAR_STEPS, &[1.0, 2.0, 5.0, 10.0]),
            Unit::Cores => nice(most * 100.0 / LINEAR_STEPS, &[1.0, 2.0, 5.0, 10.0]) / 100.0,
            Unit::Bytes => ((most / LINEAR_STEPS).log2().ceil().max(0.0)).exp2(),
        };
        let steps = (most / step - 1e-9).ceil().max(1.0);
        let scale = Scale::Linear {
            from: 0.0,
            to: steps * step,
        };
        let ticks = (0..=steps as u64).map(|n| Tick {
            place: n as f64 / steps,
            label: unit.label(n as f64 * step),
            optional: false,
        });
        Self {
            ticks: ticks.collect(),
            scale,
        }
    }

    /// Durations in microseconds, each decade as high as the others. Nought stands at the lower end.
    pub(super) fn durations(least: f64, most: f64) -> Self {
        let least = if least.is_finite() { least.max(1.0) } else { 1.0 };
        let most = if most.is_finite() { most.max(least) } else { least };
        let mut low = below(least);
        let mut high = above(most);
        // A flat curve stands in the middle of one decade, not at the edge of none.
        if high / low < 9.0 {
            low = below((low / 2.0).max(1.0));
            high = above((low * 10.0).max(high));
        }
        let scale = Scale::Log { from: low, to: high };
        let decades = (high / low).log10();
        let every = (decades / 6.0).ceil().max(1.0) as i32;
        let mut ticks = Vec::new();
        for power in magnitude(low * 1.000_1)..=magnitude(high * 1.000_1) {
            for (number, digit) in [1.0, 2.0, 5.0].into_iter().enumerate() {
                let value = digit * 10_f64.powi(power);
                if value < low * 0.999 || value > high * 1.001 {
                    continue;
                }
                let decade = number == 0;
                let labelled = decades <= 2.2 || (decade && power.rem_euclid(every) == 0);
                if labelled || decade || decades <= 4.0 {
                    ticks.push(Tick {
                        place: scale.place(value),
                        label: if labelled { duration(value) } else { String::new() },
                        optional: false,
                    });
                }
            }
        }
        Self { scale, ticks }
    }

    /// Quantiles of so many values.
    pub(super) fn quantiles(count: u64) -> Self {
        let nines = (count.max(1) as f64).log10().ceil().clamp(2.0, 9.0);
        let scale = Scale::Nines { most: nines };
        let mut ticks = vec![
            Tick {
                place: 0.0,
                label: "0".to_owned(),
                optional: false,
            },
            Tick {
                place: scale.place(0.5),
                label: "50".to_owned(),
                optional: nines > 3.0,
            },
        ];
        for nine in 1..=nines as usize {
            let label = match nine {
                1 => "90".to_owned(),
                2 => "99".to_owned(),
                more => format!("99.{}", "9".repeat(more - 2)),
            };
            ticks.push(Tick {
                place: nine as f64 / nines,
                label,
                optional: nines > 5.0 && (nines as usize - nine) % 2 == 1,
            });
        }
        Self { scale, ticks }
    }

    /// Where a value stands, from 0 to 1; what lies beyond the axis stands at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.scale.place(value)
    }
}

// === impl Scale ===

impl Scale {
    fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { from, to } => (value - from) / (to - from),
            Self::Log { from, to } => (value.max(from) / from).ln() / (to / from).ln(),
            Self::Nines { most } => {
                if value >= 1.0 {
                    1.0
                } else {
                    -(1.0 - value).log10() / most
                }
            }
        };
        if place.is_nan() {
            0.0
        } else {
            place.clamp(0.0, 1.0)
        }
    }
}

// === impl Unit ===

impl Unit {
    fn label(self, value: f64) -> String {
        const SIZES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        match self {
            Self::Plain => plain(value),
            Self::Cores => format!("{} %", plain(value * 100.0)),
            Self::Bytes if value == 0.0 => "0".to_owned(),
            Self::Bytes => {
                let unit = (value.log2() / 10.0).floor().min((SIZES.len() - 1) as f64);
                let size = value / (unit * 10.0).exp2();
                format!("{} {}", plain(size), SIZES[unit as usize])
            }
        }
    }
}

/// The least of these digits, times a power of ten, that is not below a value.
fn nice(value: f64, digits: &[f64]) -> f64 {
    let power = 10_f64.powi(magnitude(value));
    let fits = |digit: &&f64| **digit * power >= value * 0.999_999;
    digits
        .iter()
        .find(fits)
        .map_or(power * 10.0, |digit| digit * power)
}

/// The greatest of 1, 2 and 5 times a power of ten that is not above a value.
fn below(value: f64) -> f64 {
    let power = 10_f64.powi(magnitude(value * 1.000_001));
    let fits = |digit: &&f64| **digit * power <= value * 1.000_001;
    [5.0, 2.0].iter().find(fits).map_or(power, |digit| digit * power)
}

/// The least of 1, 2 and 5 times a power of ten that is not below a value.
fn above(value: f64) -> f64 {
    nice(value, &[1.0, 2.0, 5.0, 10.0])
}

/// A round duration in microseconds.
fn duration(micros: f64) -> String {
    if micros < 999.0 {
        format!("{} µs", plain(micros))
    } else if micros < 999_000.0 {
        format!("{} ms", plain(micros / 1e3))
    } else if micros < 9e10 {
        format!("{} s", number((micros / 1e6).round() as u64))
    } else {
        format!("{:.0e} s", micros / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        let labels = axis.ticks.iter().map(|tick| tick.label.as_str());
        labels.filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn times_are_round() {
        assert_eq!(
            labels(&Axis::time(0.0, 60.0)),
            ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]
        );
        assert_eq!(
            labels(&Axis::time(0.0, 0.45)),
            ["0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s"]
        );
        assert_eq!(
            labels(&Axis::time(-4.0, 6.0)),
            ["-4 s", "-2 s", "0 s", "2 s", "4 s", "6 s"]
        );
        assert_eq!(
            labels(&Axis::time(0.0, 600.0)),
            ["0 min", "2 min", "4 min", "6 min", "8 min", "10 min"]
        );
        assert_eq!(labels(&Axis::time(0.0, 86_400.0)).len(), 7);
        assert_eq!(labels(&Axis::time(0.0, 86_400.0))[1], "4 h");
        assert!(labels(&Axis::time(0.0, 1e9)).len() <= 9);
        assert!(!labels(&Axis::time(0.0, 0.0)).is_empty());
    }

    #[test]
    fn a_linear_axis_begins_at_nought_and_holds_all() {
        assert_eq!(
            labels(&Axis::linear(730.0, Unit::Plain)),
            ["0", "200", "400", "600", "800"]
        );
        assert_eq!(
            labels(&Axis::linear(0.07, Unit::Cores)),
            ["0 %", "2 %", "4 %", "6 %", "8 %"]
        );
        let mib = 1024.0 * 1024.0;
        assert_eq!(
            labels(&Axis::linear(50.0 * mib, Unit::Bytes)),
            ["0", "16 MiB", "32 MiB", "48 MiB", "64 MiB"]
        );
        for most in [0.0, f64::NAN, f64::INFINITY, 1e-9, 3.0, 1e15] {
            for unit in [Unit::Plain, Unit::Cores, Unit::Bytes] {
                let axis = Axis::linear(most, unit);
                assert!((2..=6).contains(&axis.ticks.len()), "{most} {unit:?}: {axis:?}");
                assert!(axis.ticks.windows(2).all(|pair| pair[0].place < pair[1].place));
            }
        }
    }

    #[test]
    fn durations_stand_by_their_logarithms() {
        let axis = Axis::durations(300.0, 40_000.0);
        assert_eq!(labels(&axis), ["1 ms", "10 ms"]);
        assert_eq!(
            labels(&Axis::durations(300.0, 4_000.0)),
            ["200 µs", "500 µs", "1 ms", "2 ms", "5 ms"]
        );
        assert!(
            (axis.place(2_000.0) - axis.place(1_000.0) - (axis.place(20_000.0) - axis.place(10_000.0))).abs()
                < 1e-9
        );
        assert!(axis.place(0.0).abs() < 1e-9);
        assert!((axis.place(1e12) - 1.0).abs() < 1e-9);
        assert_eq!(
            labels(&Axis::durations(1e10, 4e12)),
            ["10,000 s", "1e5 s", "1e6 s"]
        );
        for (least, most) in [
            (1.0, 1.0),
            (0.0, 0.0),
            (1_000.0, 1_000.0),
            (1.0, u64::MAX as f64),
            (f64::NAN, f64::NAN),
        ] {
            let axis = Axis::durations(least, most);
            assert!((2..=8).contains(&labels(&axis).len()), "{least} {most}: {axis:?}");
            assert!(axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.place)));
        }
    }

    #[test]
    fn each_nine_takes_as_much_room() {
        let axis = Axis::quantiles(20_000);
        assert_eq!(labels(&axis), ["0", "50", "90", "99", "99.9", "99.99", "99.999"]);
        assert!((axis.place(0.9) - 0.2).abs() < 1e-9);
        assert!((axis.place(0.999) - 0.6).abs() < 1e-9);
        assert!((axis.place(1.0) - 1.0).abs() < 1e-9);
        assert_eq!(labels(&Axis::quantiles(0)), ["0", "50", "90", "99"]);
    }
}
