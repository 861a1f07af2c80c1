//! The difference between two scrapes: rates, and quantiles of what happened between them.

use super::exposition::Exposition;
use std::time::Duration;

/// The metrics at one time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// When they arrived, counted from the start of this program.
    pub(super) at: Duration,
    pub(super) metrics: Exposition,
}

/// Two samples of one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    before: &'a Exposition,
    after: &'a Exposition,
    seconds: f64,
}

/// A quantile, as far as a histogram's buckets tell it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Quantile {
    /// The value, interpolated within its bucket.
    Of(f64),
    /// The value lies above the last finite bound, which is this.
    Above(f64),
}

/// Returns whether two scrapes are of the same process, which counts from its start on.
pub(super) fn is_same_process(before: &Exposition, after: &Exposition) -> bool {
    let start = |page: &Exposition| page.sum("process_start_time_seconds", &[]);
    match (start(before), start(after)) {
        // Some systems round the time to a hundredth of a second, in different ways.
        (Some(before), Some(after)) => (before - after).abs() < 0.5,
        (None, None) => true,
        _ => false,
    }
}

impl<'a> Span<'a> {
    /// Returns the time between two samples, if they are of one process and some time has passed.
    pub(super) fn between(before: &'a Sample, after: &'a Sample) -> Option<Self> {
        let passed = after
            .at
            .checked_sub(before.at)
            .filter(|passed| !passed.is_zero())?;
        is_same_process(&before.metrics, &after.metrics).then_some(Self {
            before: &before.metrics,
            after: &after.metrics,
            seconds: passed.as_secs_f64(),
        })
    }

    /// Returns how much the sum of a counter's series grew in a second, on average. A series that appeared in between
    /// began with zero. `None` if there is no such series, or the counter was reset.
    pub(super) fn rate(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let after = self.after.sum(name, labels)?;
        let grown = after - self.before.sum(name, labels).unwrap_or(0.0);
        (grown >= 0.0).then(|| grown / self.seconds)
    }

    /// Returns a quantile of a histogram's values that were recorded between the samples. `None` if there were none,
    /// or the histogram was reset.
    pub(super) fn quantile(&self, name: &str, labels: &[(&str, &str)], at: f64) -> Option<Quantile> {
        let before = self.before.buckets(name, labels);
        let mut buckets = self.after.buckets(name, labels);
        for (bound, count) in &mut buckets {
            let known = before.iter().find(|(known, _)| known.total_cmp(bound).is_eq());
            *count -= known.map_or(0.0, |(_, count)| *count);
            if *count < 0.0 {
                return None;
            }
        }
        quantile(&buckets, at)
    }
}

/// Returns a quantile of cumulative buckets, as Prometheus computes it: linear within a bucket, and from zero in the
/// first one.
fn quantile(buckets: &[(f64, f64)], at: f64) -> Option<Quantile> {
    let total = buckets
        .last()
        .map(|(_, count)| *count)
        .filter(|count| *count > 0.0)?;
    let rank = at * total;
    let (mut low, mut below) = (0.0, 0.0);
    for &(bound, count) in buckets {
        if count >= rank && count > below {
            if bound.is_infinite() {
                return Some(Quantile::Above(low));
            }
            return Some(Quantile::Of(
                low + (bound - low) * (rank - below) / (count - below),
            ));
        }
        (low, below) = (bound, count.max(below));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: u64, page: &str) -> Sample {
        Sample {
            at: Duration::from_secs(seconds),
            metrics: Exposition::parse(&format!("endpointd_shards 1\n{page}")).unwrap(),
        }
    }

    #[test]
    fn a_rate_is_the_growth_by_the_second() {
        let before = sample(1, "process_start_time_seconds 5\nc{a=\"x\"} 10\n");
        let after = sample(
            5,
            "process_start_time_seconds 5.01\nc{a=\"x\"} 30\nc{a=\"y\"} 2\n",
        );
        let span = Span::between(&before, &after).unwrap();
        assert_eq!(span.rate("c", &[("a", "x")]), Some(5.0));
        assert_eq!(span.rate("c", &[("a", "y")]), Some(0.5), "it began with zero");
        assert_eq!(span.rate("c", &[]), Some(5.5));
        assert_eq!(span.rate("d", &[]), None);
    }

    #[test]
    fn a_restart_or_a_reset_gives_no_rate() {
        let before = sample(1, "process_start_time_seconds 5\nc 10\n");
        let restarted = sample(3, "process_start_time_seconds 8\nc 11\n");
        assert!(Span::between(&before, &restarted).is_none());
        let reset = sample(3, "process_start_time_seconds 5\nc 9\n");
        assert_eq!(Span::between(&before, &reset).unwrap().rate("c", &[]), None);
        assert!(Span::between(&before, &before).is_none(), "no time has passed");
        assert!(Span::between(&restarted, &before).is_none());
    }

    #[test]
    fn quantiles_are_of_what_happened_in_between() {
        let page = |counts: [u32; 4]| {
            let bounds = ["0.1", "0.2", "0.4", "+Inf"];
            let lines = bounds.iter().zip(counts);
            let lines = lines.map(|(le, count)| format!("h_bucket{{le=\"{le}\"}} {count}\n"));
            lines.collect::<Vec<_>>().concat()
        };
        let between = |before: [u32; 4], after: [u32; 4], at: f64| {
            let (before, after) = (sample(0, &page(before)), sample(1, &page(after)));
            Span::between(&before, &after).unwrap().quantile("h", &[], at)
        };
        let close = |found: Option<Quantile>, expected: f64| match found {
            Some(Quantile::Of(value)) => assert!((value - expected).abs() < 1e-9, "{value}, not {expected}"),
            other => panic!("{other:?}, not {expected}"),
        };
        // The thousand old ones are of no account; the ten new ones are in the second bucket.
        close(
            between([1000, 1000, 1000, 1000], [1000, 1010, 1010, 1010], 0.5),
            0.15,
        );
        // Empty buckets on either side, and at the rank itself.
        close(between([0; 4], [0, 0, 10, 10], 0.5), 0.3);
        close(between([0; 4], [5, 5, 10, 10], 0.5), 0.1);
        close(between([0; 4], [0, 10, 10, 10], 0.0), 0.1);
        assert_eq!(between([0; 4], [0, 0, 0, 10], 0.99), Some(Quantile::Above(0.4)));
        assert_eq!(between([7, 8, 9, 9], [7, 8, 9, 9], 0.5), None, "nothing happened");
        assert_eq!(between([7, 8, 9, 9], [1, 1, 1, 1], 0.5), None, "it was reset");
        assert_eq!(quantile(&[], 0.5), None);
    }
}
