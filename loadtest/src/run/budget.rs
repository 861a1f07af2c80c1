//! Limits that the user sets for figures, so that a run can fail where they are missed.

use crate::figures::{bytes, number, time};
use crate::oracle::Outputs;
use crate::parse::duration;
use crate::report::model::{self, Report};
use crate::report::spread::Spread;
use crate::report::{DURATIONS, latencies};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A figure and its limit, such as `p99=100ms`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Budget {
    figure: Figure,
    /// In the unit of the figure.
    limit: f64,
}

/// A figure that can have a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// The latency of one output, or of each that is measured, and its quantile.
    Latency(Option<&'static str>, &'static str),
    /// CPU time of the controller for each change.
    Cpu,
    /// The controller's memory at its peak.
    Memory,
    /// Writes for each change.
    Writes,
    /// The share of the time in which writes were held back.
    Throttled,
    /// Watches of simulated kube-proxies that the server ended.
    Ended,
}

/// The outputs whose latencies can have limits, and those of sandboxes: from ready to visible, and from gone to unseen.
const OUTPUTS: [&str; 5] = ["slices", "endpoints", "watchers", "ready", "gone"];

/// Holds the figures of a run, or the medians of its rounds, against the limits. `measured` are the outputs whose latencies
/// the run was to measure.
pub(super) fn judge(budgets: &[Budget], report: &Report, measured: Outputs) -> Vec<model::Budget> {
    let each = budgets.iter().flat_map(|budget| {
        let figures = budget.figure.each(measured);
        figures.into_iter().map(|figure| budget.judge(figure, report))
    });
    each.collect()
}

// === impl Budget ===

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected a figure and its limit, such as p99=100ms, slices.max=2s, cpu=1ms, memory=64MiB, writes=2.5, \
             throttled=5%, watchers.p99=1s or watchers.ended=0"
                .to_owned()
        };
        let (figure, limit) = text.split_once('=').ok_or_else(wrong)?;
        let figure = Figure::parse(figure).ok_or_else(wrong)?;
        let limit = figure.limit(limit).ok_or_else(wrong)?;
        Ok(Self { figure, limit })
    }
}

impl Budget {
    fn judge(&self, figure: Figure, report: &Report) -> model::Budget {
        let spread = Spread::of(report, |report| figure.value(report));
        // A figure that was not measured, in whichever round, may be anything.
        let rounds = report.rounds.len().max(1);
        let met = spread.is_some_and(|spread| spread.rounds == rounds && spread.median <= self.limit);
        model::Budget {
            figure: figure.to_string(),
            limit: figure.text(self.limit),
            measured: match spread {
                None => "not measured".to_owned(),
                Some(spread) if spread.rounds < rounds => format!(
                    "{} in {} of {rounds} rounds, and not measured in the others",
                    figure.text(spread.median),
                    spread.rounds
                ),
                Some(spread) => figure.text(spread.median),
            },
            met,
        }
    }
}

// === impl Figure ===

impl Figure {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "writes" => Self::Writes,
            "throttled" => Self::Throttled,
            "watchers.ended" => Self::Ended,
            _ => {
                // The name of a quantile may have a point, too.
                let of_output = text.split_once('.').and_then(|(output, quantile)| {
                    Some((*OUTPUTS.iter().find(|name| **name == output)?, quantile))
                });
                let (output, quantile) = match of_output {
                    Some((output, quantile)) => (Some(output), quantile),
                    None => (None, text),
                };
                let (quantile, ..) = DURATIONS.into_iter().find(|(name, ..)| *name == quantile)?;
                Self::Latency(output, quantile)
            }
        })
    }

    /// A limit in the unit of the figure: microseconds, bytes, a share, or a count.
    fn limit(self, text: &str) -> Option<f64> {
        let limit = match self {
            Self::Latency(..) | Self::Cpu => duration(text).ok()?.as_secs_f64() * 1e6,
            Self::Memory => {
                let units = [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];
                let (count, unit) = units
                    .into_iter()
                    .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)))?;
                count.trim().parse::<f64>().ok()? * unit as f64
            }
            Self::Writes | Self::Ended => text.parse().ok()?,
            Self::Throttled => text.strip_suffix('%')?.trim().parse::<f64>().ok()? / 100.0,
        };
        (limit.is_finite() && limit >= 0.0).then_some(limit)
    }

    /// The figures that this one stands for: latencies of no output in particular are those of each that is measured.
    fn each(self, measured: Outputs) -> Vec<Self> {
        let Self::Latency(None, quantile) = self else {
            return vec![self];
        };
        let outputs = [("slices", measured.slices), ("endpoints", measured.endpoints)];
        let measured = outputs.into_iter().filter(|(_, is_measured)| *is_measured);
        let each: Vec<Self> = measured
            .map(|(output, _)| Self::Latency(Some(output), quantile))
            .collect();
        if each.is_empty() { vec![self] } else { each }
    }

    fn value(self, report: &Report) -> Option<f64> {
        let controller = report.processes.first();
        match self {
            Self::Latency(output, quantile) => {
                let output = output?;
                let mut all = latencies(report).into_iter();
                let (_, latency) = all.find(|(name, _)| name.eq_ignore_ascii_case(output))?;
                let (_, _, duration) = DURATIONS.into_iter().find(|(name, ..)| *name == quantile)?;
                (latency.count > 0).then(|| duration(latency) as f64)
            }
            Self::Cpu => controller?.used(|process| process.cpu_micros_per_change),
            Self::Memory => controller?.used(|process| process.peak_rss_bytes as f64),
            Self::Writes => (report.changes.made > 0).then_some(report.writes.per_change),
            Self::Throttled => report.throttling.as_ref().map(|throttling| throttling.share),
            Self::Ended => report.watchers.as_ref().map(|watchers| watchers.ended as f64),
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Latency(..) | Self::Cpu => time(Duration::from_secs_f64(value / 1e6)),
            Self::Memory => bytes(value as u64),
            Self::Writes => format!("{value:.2}"),
            Self::Ended => number(value as u64),
            Self::Throttled => format!("{:.1} %", value * 100.0),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Latency(Some(output), quantile) => {
                return write!(f, "{output}.{quantile}");
            }
            Self::Latency(None, quantile) => quantile,
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Writes => "writes",
            Self::Throttled => "throttled",
            Self::Ended => "watchers.ended",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Latency, Process, Throttling};

    fn report() -> Report {
        Report {
            slices: Latency {
                count: 10,
                p99: 120_000,
                p999: 300_000,
                ..Latency::default()
            },
            processes: vec![Process {
                cpu_micros_per_change: 400.0,
                peak_rss_bytes: 30 << 20,
                ..Process::default()
            }],
            throttling: Some(Throttling {
                share: 0.93,
                ..Throttling::default()
            }),
            ..Report::default()
        }
    }

    fn judged(budget: &str, report: &Report) -> Vec<(String, String, String, bool)> {
        judged_of(budget, report, Outputs::SLICES)
    }

    fn judged_of(budget: &str, report: &Report, measured: Outputs) -> Vec<(String, String, String, bool)> {
        let all = judge(&[budget.parse().unwrap()], report, measured);
        all.into_iter()
            .map(|budget| (budget.figure, budget.limit, budget.measured, budget.met))
            .collect()
    }

    fn one(budget: &str) -> (String, String, bool) {
        let mut all = judged(budget, &report());
        assert_eq!(all.len(), 1, "{all:?}");
        let (figure, _, measured, met) = all.remove(0);
        (figure, measured, met)
    }

    #[test]
    fn figures_are_held_against_their_limits() {
        let missed = |figure: &str, measured: &str| (figure.to_owned(), measured.to_owned(), false);
        let met = |figure: &str, measured: &str| (figure.to_owned(), measured.to_owned(), true);
        assert_eq!(one("p99=100ms"), missed("slices.p99", "120 ms"));
        assert_eq!(one("slices.p99=120ms"), met("slices.p99", "120 ms"));
        assert_eq!(one("p99.9=1s"), met("slices.p99.9", "300 ms"));
        assert_eq!(one("slices.p99.9=100ms"), missed("slices.p99.9", "300 ms"));
        assert_eq!(one("cpu=500us"), met("cpu", "400 µs"));
        assert_eq!(one("memory=16MiB"), missed("memory", "30.0 MiB"));
        assert_eq!(one("throttled=5%"), missed("throttled", "93.0 %"));
    }

    #[test]
    fn watchers_have_figures_of_their_own() {
        let mut watched = report();
        let mut watchers = model::Watchers {
            ended: 2,
            ..model::Watchers::default()
        };
        watchers.latency.count = 10;
        watchers.latency.p99 = 900_000;
        watched.watchers = Some(watchers);
        let found = |budget: &str| {
            let (figure, _, measured, met) = judged(budget, &watched).remove(0);
            (figure, measured, met)
        };
        let expected = |figure: &str, measured: &str, met| (figure.to_owned(), measured.to_owned(), met);
        assert_eq!(found("watchers.p99=1s"), expected("watchers.p99", "900 ms", true));
        assert_eq!(found("watchers.ended=0"), expected("watchers.ended", "2", false));
        assert_eq!(one("watchers.ended=9").1, "not measured", "there were none");
    }

    #[test]
    fn what_was_not_measured_is_no_success() {
        assert_eq!(
            one("endpoints.p99=1m"),
            ("endpoints.p99".to_owned(), "not measured".to_owned(), false)
        );
        assert_eq!(one("writes=99").1, "not measured");
        let nothing = judged("max=1m", &Report::default());
        assert_eq!(
            nothing,
            [(
                "slices.max".to_owned(),
                "60.0 s".to_owned(),
                "not measured".to_owned(),
                false
            )]
        );
        let mut unread = report();
        unread.processes[0].unread = true;
        for budget in ["cpu=1h", "memory=99GiB"] {
            let found = judged(budget, &unread).remove(0);
            assert_eq!((&*found.2, found.3), ("not measured", false), "{budget}");
        }
    }

    #[test]
    fn each_output_that_a_run_measures_has_to_have_been_measured() {
        let found = judged_of("p99=1m", &report(), Outputs::ALL);
        let found: Vec<_> = found
            .iter()
            .map(|(figure, _, _, met)| (&**figure, *met))
            .collect();
        assert_eq!(found, [("slices.p99", true), ("endpoints.p99", false)]);
    }

    #[test]
    fn a_figure_has_to_have_been_measured_in_every_round() {
        let mut once = Report {
            rounds: vec![report(), report(), report()],
            ..report()
        };
        assert!(judged("p99=1m", &once)[0].3);
        for round in &mut once.rounds[1..] {
            round.slices = Latency::default();
        }
        let found = judged("p99=1m", &once).remove(0);
        assert_eq!(
            (&*found.2, found.3),
            ("120 ms in 1 of 3 rounds, and not measured in the others", false)
        );
    }

    #[test]
    fn the_median_of_rounds_counts() {
        let round = |p99| {
            let mut round = report();
            round.slices.p99 = p99;
            round
        };
        let repeated = Report {
            rounds: vec![round(90_000), round(900_000), round(95_000)],
            ..round(900_000)
        };
        assert!(judged("p99=100ms", &repeated)[0].3);
        assert!(!judged("p99=94ms", &repeated)[0].3);
    }

    #[test]
    fn limits_that_mean_nothing_are_refused() {
        let wrong = "|p99|p99=|p99=100|p98=1s|=1s|pods.p99=1s|cpu=5%|memory=64|memory=x MiB|writes=|writes=-1|\
                     writes=NaN|throttled=5|throttled=inf%";
        for wrong in wrong.split('|') {
            let refused = wrong.parse::<Budget>().unwrap_err();
            assert!(refused.contains("p99=100ms"), "{wrong}");
        }
    }
}
