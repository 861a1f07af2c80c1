//! Durations that were measured: all of them, and those of each interval.

use crate::report::model::{Latency, LatencySample};
use hdrhistogram::Histogram;
use std::time::Duration;

/// Latencies are kept to three digits, from microseconds to ten minutes.
const MAX_MICROS: u64 = 600_000_000;
/// Measured durations.
#[derive(Debug)]
pub(crate) struct Latencies {
    all: Histogram<u64>,
    interval: Histogram<u64>,
    /// The durations of the present part of a run.
    part: Histogram<u64>,
    over_time: Vec<LatencySample>,
}

// === impl Latencies ===

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_max(MAX_MICROS, 3).expect("the bounds are valid");
        Self {
            all: histogram.clone(),
            interval: histogram.clone(),
            part: histogram,
            over_time: Vec::new(),
        }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let micros = latency.as_micros() as u64;
        self.all.saturating_record(micros);
        self.interval.saturating_record(micros);
        self.part.saturating_record(micros);
    }

    /// Forgets what was measured so far.
    pub(crate) fn clear(&mut self) {
        self.all.reset();
        self.interval.reset();
        self.part.reset();
        self.over_time.clear();
    }

    /// Ends a part of the run: the figures of those that were measured in it.
    pub(crate) fn end_part(&mut self) -> Latency {
        let part = summary(&self.part);
        self.part.reset();
        part
    }

    /// Ends an interval that began so many seconds after the start.
    pub(crate) fn cut(&mut self, at: f64) {
        if self.interval.is_empty() {
            return;
        }
        self.over_time.push(LatencySample {
            at,
            count: self.interval.len(),
            p50: self.interval.value_at_quantile(0.5),
            p99: self.interval.value_at_quantile(0.99),
            max: self.interval.max(),
        });
        self.interval.reset();
    }

    /// Some quantile so far, once there is one.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<Duration> {
        (!self.all.is_empty()).then(|| Duration::from_micros(self.all.value_at_quantile(quantile)))
    }

    /// The figures of a report, those apart that only others know.
    pub(crate) fn report(&self) -> Latency {
        Latency {
            over_time: self.over_time.clone(),
            ..summary(&self.all)
        }
    }
}

fn summary(histogram: &Histogram<u64>) -> Latency {
    let quantile = |quantile| histogram.value_at_quantile(quantile);
    Latency {
        count: histogram.len(),
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: histogram.max(),
        ..Latency::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interval_stands_for_itself() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_millis(10));
        latencies.cut(0.0);
        latencies.cut(1.0);
        latencies.record(Duration::from_millis(30));
        latencies.cut(2.0);
        assert_eq!(latencies.end_part().count, 2, "a part holds several intervals");
        assert_eq!(latencies.end_part().count, 0, "and ends once");
        let samples = latencies.report().over_time;
        let at: Vec<(f64, u64)> = samples.iter().map(|sample| (sample.at, sample.count)).collect();
        assert_eq!(
            at,
            [(0.0, 1), (2.0, 1)],
            "an interval without anything has no sample"
        );
        assert!(samples[1].p50 >= 30_000 && samples[0].max < 10_100);
    }
}
