//! Counts of times.

use std::time::Duration;

/// Buckets for each doubling of the time: a quantile is exact to within three per cent.
const FINE: u32 = 5;

/// How many times were of which length.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// By the number of a bucket. The times are microseconds.
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        self.add_nanos(time.as_nanos() as u64);
    }

    pub(super) fn add_nanos(&mut self, nanos: u64) {
        let bucket = bucket_of(nanos / 1_000);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
    }

    /// Adds the times of another one.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// Returns the times that were counted since an earlier state of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (count, less) in since.counts.iter_mut().zip(&earlier.counts) {
            *count -= less;
        }
        since.total -= earlier.total;
        since
    }

    /// Returns how many times were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the time that the given part of all times (0 to 1) does not exceed, zero if there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (self.total as f64 * part).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return Duration::from_micros(end_of(bucket));
            }
        }
        Duration::ZERO
    }
}

/// The first times have a bucket each; above, the leading bits of a time are its bucket.
fn bucket_of(micros: u64) -> usize {
    let bits = u64::BITS - micros.leading_zeros();
    let shift = bits.saturating_sub(FINE + 1);
    ((u64::from(shift) << FINE) + (micros >> shift)) as usize
}

/// The largest time of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> FINE).saturating_sub(1);
    let leading = bucket - (shift << FINE);
    ((leading + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_times() {
        let mut last = 0;
        for micros in 0..100_000 {
            let bucket = bucket_of(micros);
            assert!(bucket == last || bucket == last + 1, "{micros}");
            last = bucket;
            let end = end_of(bucket);
            assert!(
                end >= micros && end as f64 <= micros as f64 * 1.04,
                "{micros} {end}"
            );
        }
        let mut histogram = Histogram::default();
        (1..=100).for_each(|millis| histogram.add(Duration::from_millis(millis)));
        let p99 = histogram.quantile(0.99).as_secs_f64();
        assert!((0.099..0.102).contains(&p99), "{p99}");
    }
}
