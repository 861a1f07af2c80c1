//! Measured times, and the goals that they are held against.

#![allow(clippy::disallowed_types)] // The real clock is what is measured.

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use std::time::{Duration, Instant};

/// Measures a routine that runs some number of times and says how long that took. Returns the nanoseconds of
/// one run: the lower quartile of what criterion's samples showed, since other processes only ever add.
/// `None` when criterion does not measure (a filter, `--test`, `--list`).
pub(crate) fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    mut routine: impl FnMut(u64) -> Duration,
) -> Option<f64> {
    let mut samples = Vec::new();
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let elapsed = routine(iterations);
            samples.push(elapsed.as_nanos() as f64 / iterations as f64);
            elapsed
        });
    });
    if std::env::args().any(|argument| argument == "--test") {
        return None;
    }
    lower_quartile(samples)
}

fn lower_quartile(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 4).copied()
}

/// Nanoseconds of one run of several routines that take turns, 100 times `runs` runs of each: for ratios, since
/// whatever else the machine does meets all of them. Lower quartiles, as of [`measure`].
pub(crate) fn in_turns<'a, const N: usize>(
    runs: u64,
    mut routines: [Box<dyn FnMut(u64) -> Duration + 'a>; N],
) -> [f64; N] {
    let mut samples = [const { Vec::new() }; N];
    for _ in 0..100 {
        for (routine, samples) in routines.iter_mut().zip(&mut samples) {
            samples.push(routine(runs).as_nanos() as f64 / runs as f64);
        }
    }
    samples.map(|samples| lower_quartile(samples).expect("there are a hundred"))
}

/// The time that a routine takes, and nothing else that is done in between.
pub(crate) fn timed<T>(total: &mut Duration, routine: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = routine();
    *total += start.elapsed();
    result
}

/// Goals, and whether they are met. Printed at the end, where a person sees them.
#[derive(Default)]
pub(crate) struct Goals(Vec<String>);

impl Goals {
    /// Something is to be at most so much.
    pub(crate) fn at_most(&mut self, what: &str, value: Option<f64>, limit: f64, unit: &str) {
        self.add(
            what,
            value,
            |value| value <= limit,
            &format!("at most {limit}{unit}"),
            unit,
        );
    }

    /// Something is to be at least so much.
    pub(crate) fn at_least(&mut self, what: &str, value: Option<f64>, limit: f64, unit: &str) {
        self.add(
            what,
            value,
            |value| value >= limit,
            &format!("at least {limit}{unit}"),
            unit,
        );
    }

    /// A figure without a goal.
    pub(crate) fn note(&mut self, what: &str, value: Option<f64>, unit: &str) {
        if let Some(value) = value {
            self.0
                .push(format!("no goal      {what}: {}{unit}", digits(value)));
        }
    }

    fn add(&mut self, what: &str, value: Option<f64>, met: impl Fn(f64) -> bool, goal: &str, unit: &str) {
        if let Some(value) = value {
            let verdict = if met(value) { "goal met   " } else { "goal missed" };
            self.0
                .push(format!("{verdict}  {what}: {}{unit} ({goal})", digits(value)));
        }
    }

    /// One line for each.
    pub(crate) fn print(&self) {
        for line in &self.0 {
            println!("{line}");
        }
    }
}

fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// How many times one figure is the other, if both were measured.
pub(crate) fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}
