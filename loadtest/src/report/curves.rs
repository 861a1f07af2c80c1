//! From the samples of a report to the curves of a plot.

use super::model::{Bucket, Count, Latency, LatencySample, Process, QueueSample, Report, Throttling};

/// A value at a place: seconds of the run, or a quantile.
pub(super) type Point = (f64, f64);

/// Points that are joined by a line; between two pieces there is a gap.
pub(super) type Pieces = Vec<Vec<Point>>;

/// More points than this are more than a screen shows.
const MOST_POINTS: usize = 800;
/// Samples further apart than this many times their interval have a gap between them.
const GAP: f64 = 1.9;

/// The value that stands for several samples where there are too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Merge {
    /// The highest of them, so that no peak is lost.
    Highest,
    /// Their average.
    Average,
}

/// The time that all plots of these reports show.
pub(super) fn span(reports: &[&Report]) -> (f64, f64) {
    let mut moments = vec![0.0_f64];
    for report in reports {
        moments.push(report.seconds);
        moments.extend(report.phases.iter().flat_map(|phase| [phase.from, phase.to]));
        let counts = report.changes.over_time.iter().chain(&report.writes.over_time);
        moments.extend(counts.map(|sample| sample.at));
        let latencies = report.slices.over_time.iter().chain(&report.endpoints.over_time);
        moments.extend(latencies.map(|sample| sample.at));
        let processes = report.processes.iter().flat_map(|process| &process.over_time);
        moments.extend(processes.map(|sample| sample.at));
        moments.extend(report.queue.iter().map(|sample| sample.at));
        let restarts = report.restarts.iter();
        moments.extend(restarts.map(|restart| restart.at + restart.without_writer_seconds.max(0.0)));
    }
    moments.retain(|moment| moment.is_finite());
    let from = moments.iter().copied().fold(0.0, f64::min);
    let to = moments.iter().copied().fold(0.0, f64::max);
    (from, if to > from { to } else { from + 1.0 })
}

/// How far apart most samples are.
pub(super) fn interval(moments: impl Iterator<Item = f64>) -> Option<f64> {
    let moments: Vec<f64> = moments.filter(|moment| moment.is_finite()).collect();
    let mut steps: Vec<f64> = moments
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|&step| step > 0.0)
        .collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).copied()
}

/// The interval of a report's samples. The samples of a latency alone do not show it: intervals in which nothing ended
/// are left out.
pub(super) fn sampling(report: &Report, latency: &Latency) -> Option<f64> {
    let changes = interval(report.changes.over_time.iter().map(|sample| sample.at));
    changes.or_else(|| interval(latency.over_time.iter().map(|sample| sample.at)))
}

/// One figure of a latency over the run, in microseconds; intervals in which nothing ended are gaps.
pub(super) fn latency(
    latency: &Latency,
    step: Option<f64>,
    figure: impl Fn(&LatencySample) -> u64,
) -> Pieces {
    let samples = latency.over_time.iter().filter(|sample| sample.count > 0);
    // Nought cannot stand on a logarithmic axis, and the clock is no finer.
    let points: Vec<Point> = samples
        .map(|sample| (sample.at, figure(sample).max(1) as f64))
        .collect();
    pieces(&points, step, Merge::Highest)
}

/// How often something was counted in a second. An interval that is left out counted nothing.
pub(super) fn rate(counts: &[Count], seconds: f64) -> Pieces {
    let counts: Vec<Count> = counts
        .iter()
        .copied()
        .filter(|count| count.at.is_finite())
        .collect();
    let Some(last) = counts.last() else {
        return Vec::new();
    };
    let step = interval(counts.iter().map(|count| count.at));
    let step = step.unwrap_or(if seconds > last.at { seconds - last.at } else { 1.0 });
    let mut points: Vec<Point> = Vec::with_capacity(counts.len());
    for count in &counts {
        if let Some(&(before, _)) = points.last()
            && count.at - before > GAP * step
        {
            points.push((before + step, 0.0));
            points.push((count.at - step, 0.0));
        }
        // The run may end in the middle of an interval; one that hardly began says nothing.
        let rest = seconds - count.at;
        let width = if rest > step * 0.1 && rest < step {
            rest
        } else {
            step
        };
        points.push((count.at, count.count as f64 / width));
    }
    pieces(&points, None, Merge::Average)
}

/// The CPU time of a process over the run, as a share of one core.
pub(super) fn cpu(process: &Process) -> Pieces {
    sampled(
        process.over_time.iter().map(|sample| (sample.at, sample.cpu)),
        Merge::Average,
    )
}

/// The memory of a process over the run, in bytes.
pub(super) fn memory(process: &Process) -> Pieces {
    let points = process
        .over_time
        .iter()
        .map(|sample| (sample.at, sample.rss_bytes as f64));
    sampled(points, Merge::Highest)
}

/// The depth of the queue over the run.
pub(super) fn queue(samples: &[QueueSample]) -> Pieces {
    sampled(
        samples.iter().map(|sample| (sample.at, sample.depth)),
        Merge::Highest,
    )
}

/// The share of the time in which writes were held back, over the run.
pub(super) fn throttled(throttling: &Throttling) -> Pieces {
    let samples = throttling.over_time.iter();
    sampled(samples.map(|sample| (sample.at, sample.share)), Merge::Average)
}

/// Samples at regular intervals. Where some are missing, nothing is known, and there is a gap.
fn sampled(points: impl Iterator<Item = Point>, merge: Merge) -> Pieces {
    let points: Vec<Point> = points.collect();
    pieces(&points, interval(points.iter().map(|point| point.0)), merge)
}

/// Several curves added up, where all of them have a value: between the points of a piece each keeps its value.
pub(super) fn sum(curves: &[Pieces]) -> Pieces {
    // A process without samples takes no part, or there would be no sum at all.
    let curves: Vec<&Pieces> = curves.iter().filter(|curve| !curve.is_empty()).collect();
    let points = curves.iter().flat_map(|curve| curve.iter().flatten());
    let mut moments: Vec<f64> = points.map(|point| point.0).collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let mut sums: Pieces = Vec::new();
    let mut is_open = false;
    for moment in moments {
        let values = curves.iter().map(|curve| value_at(curve, moment));
        let sum: Option<f64> = values.sum();
        match (sum, sums.last_mut()) {
            (Some(sum), Some(piece)) if is_open => piece.push((moment, sum)),
            (Some(sum), _) => sums.push(vec![(moment, sum)]),
            (None, _) => {}
        }
        is_open = sum.is_some() && !curves.iter().any(|curve| ends_at(curve, moment));
    }
    sums
}

/// The value of a curve at a moment: that of the point before it, unless the next piece has not begun.
fn value_at(curve: &Pieces, moment: f64) -> Option<f64> {
    let begun = curve.partition_point(|piece| piece.first().is_some_and(|point| point.0 <= moment));
    let piece = curve.get(begun.checked_sub(1)?)?;
    let before = piece.partition_point(|point| point.0 <= moment);
    let is_over = before == piece.len() && begun < curve.len() && piece[before - 1].0 < moment;
    (!is_over).then(|| piece[before - 1].1)
}

/// A gap of a curve begins at a moment.
fn ends_at(curve: &Pieces, moment: f64) -> bool {
    let before_gaps = curve.iter().rev().skip(1);
    before_gaps
        .filter_map(|piece| piece.last())
        .any(|point| (point.0 - moment).abs() < f64::EPSILON)
}

/// How many durations there are.
pub(super) fn total(histogram: &[Bucket]) -> u64 {
    histogram
        .iter()
        .fold(0, |sum, bucket| sum.saturating_add(bucket.count))
}

/// The distribution as a curve: to each quantile its duration, exact but for the width of the buckets.
pub(super) fn distribution(histogram: &[Bucket]) -> Pieces {
    let total = total(histogram);
    let mut below = 0_u64;
    let mut points = Vec::new();
    for bucket in histogram.iter().filter(|bucket| bucket.count > 0) {
        let duration = bucket.up_to.max(1) as f64;
        points.push((below as f64 / total as f64, duration));
        below = below.saturating_add(bucket.count);
        points.push((below as f64 / total as f64, duration));
    }
    one_piece(points)
}

/// The least duration that this share of all reached at most.
pub(super) fn quantile(histogram: &[Bucket], quantile: f64) -> Option<u64> {
    let total = total(histogram);
    let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut below = 0_u64;
    histogram
        .iter()
        .filter(|bucket| bucket.count > 0)
        .find_map(|bucket| {
            below = below.saturating_add(bucket.count);
            (below >= rank).then_some(bucket.up_to)
        })
}

fn one_piece(points: Vec<Point>) -> Pieces {
    if points.is_empty() {
        Vec::new()
    } else {
        vec![points]
    }
}

/// How many samples one point stands for.
pub(super) fn merged(samples: usize) -> usize {
    samples.div_ceil(MOST_POINTS).max(1)
}

/// Joins points unless they are further apart than samples are, and merges those of a piece that are too many to see.
fn pieces(points: &[Point], step: Option<f64>, merge: Merge) -> Pieces {
    let many = merged(points.len());
    let is_joined = |before: &Point, after: &Point| {
        // A value that is not a number has no distance, and is left out below.
        let distance = after.0 - before.0;
        step.is_none_or(|step| distance.is_nan() || distance <= GAP * step)
    };
    points
        .chunk_by(is_joined)
        .map(|piece| piece.chunks(many).filter_map(|chunk| merge.of(chunk)).collect())
        .filter(|piece: &Vec<Point>| !piece.is_empty())
        .collect()
}

// === impl Merge ===

impl Merge {
    fn of(self, points: &[Point]) -> Option<Point> {
        let sound = || {
            points
                .iter()
                .filter(|(at, value)| at.is_finite() && value.is_finite())
        };
        let at = sound().next()?.0;
        let values = sound().map(|point| point.1);
        let value = match self {
            Self::Highest => values.fold(f64::NEG_INFINITY, f64::max),
            Self::Average => values.sum::<f64>() / sound().count() as f64,
        };
        Some((at, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(f64, u64)]) -> Vec<Count> {
        counts.iter().map(|&(at, count)| Count { at, count }).collect()
    }

    #[test]
    fn rates_are_per_second_whatever_the_interval() {
        assert_eq!(
            rate(&counts(&[(0.0, 10), (0.5, 20), (1.0, 5)]), 1.25),
            [[(0.0, 20.0), (0.5, 40.0), (1.0, 20.0)]]
        );
        assert_eq!(rate(&counts(&[(0.0, 10)]), 4.0), [[(0.0, 2.5)]]);
        assert_eq!(rate(&counts(&[(5.0, 10)]), 4.0), [[(5.0, 10.0)]]);
        assert!(rate(&[], 4.0).is_empty());
    }

    #[test]
    fn an_interval_without_a_count_had_none() {
        let pieces = rate(&counts(&[(0.0, 10), (1.0, 10), (2.0, 10), (6.0, 10)]), 9.0);
        let expected = [
            (0.0, 10.0),
            (1.0, 10.0),
            (2.0, 10.0),
            (3.0, 0.0),
            (5.0, 0.0),
            (6.0, 10.0),
        ];
        assert_eq!(pieces, [expected]);
    }

    #[test]
    fn a_latency_has_gaps_where_nothing_ended() {
        let sample = |at, count| LatencySample {
            at,
            count,
            p50: 3,
            ..Default::default()
        };
        let over_time = vec![
            sample(0.0, 1),
            sample(1.0, 1),
            sample(2.0, 0),
            sample(3.0, 1),
            sample(4.0, 1),
        ];
        let pieces = latency(
            &Latency {
                over_time,
                ..Default::default()
            },
            Some(1.0),
            |sample| sample.p50,
        );
        assert_eq!(pieces, [[(0.0, 3.0), (1.0, 3.0)], [(3.0, 3.0), (4.0, 3.0)]]);
    }

    #[test]
    fn a_latency_that_is_seldom_measured_is_not_joined_either() {
        let sample = |at: f64| LatencySample {
            at,
            count: 1,
            p50: 3,
            ..Default::default()
        };
        let slices = Latency {
            over_time: [0.0, 5.0, 10.0, 15.0].map(sample).into(),
            ..Default::default()
        };
        let mut report = Report {
            slices: slices.clone(),
            ..Default::default()
        };
        assert_eq!(sampling(&report, &slices), Some(5.0), "nothing else is known");
        report.changes.over_time = counts(&[(0.0, 1), (0.5, 0), (1.0, 1)]);
        let step = sampling(&report, &slices);
        assert_eq!(step, Some(0.5));
        assert_eq!(latency(&slices, step, |sample| sample.p50).len(), 4);
    }

    #[test]
    fn merging_keeps_peaks_and_averages_rates() {
        let points: Vec<Point> = (0..3 * MOST_POINTS).map(|n| (n as f64, (n % 3) as f64)).collect();
        let highest = pieces(&points, None, Merge::Highest).concat();
        assert_eq!(highest.len(), MOST_POINTS);
        assert!(highest.iter().all(|point| (point.1 - 2.0).abs() < 1e-9));
        let average = pieces(&points, Some(1.0), Merge::Average);
        assert_eq!(average.len(), 1);
        assert!(average[0].iter().all(|point| (point.1 - 1.0).abs() < 1e-9));
        assert!(pieces(&[(0.0, f64::NAN)], None, Merge::Highest).is_empty());
    }

    #[test]
    fn a_distribution_is_the_inverse_of_its_counts() {
        let bucket = |up_to, count| Bucket { up_to, count };
        let histogram = [bucket(10, 50), bucket(15, 0), bucket(20, 40), bucket(70, 10)];
        assert_eq!(
            distribution(&histogram),
            [[
                (0.0, 10.0),
                (0.5, 10.0),
                (0.5, 20.0),
                (0.9, 20.0),
                (0.9, 70.0),
                (1.0, 70.0)
            ]]
        );
        let quantiles = [0.0, 0.5, 0.500_1, 0.9, 0.99, 1.0].map(|share| quantile(&histogram, share));
        assert_eq!(
            quantiles,
            [Some(10), Some(10), Some(20), Some(20), Some(70), Some(70)]
        );
        assert!(distribution(&[]).is_empty());
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn sums_hold_the_last_value() {
        let one = vec![vec![(0.0, 1.0), (2.0, 3.0)]];
        let other = vec![vec![(1.0, 10.0)]];
        assert_eq!(sum(&[one, other]), [[(1.0, 11.0), (2.0, 13.0)]]);
        assert!(sum(&[]).is_empty());
    }

    #[test]
    fn samples_that_are_missing_are_gaps() {
        let at = |at: f64| QueueSample { at, depth: 1.0 };
        let samples: Vec<QueueSample> = [0.5, 1.0, 1.5, 4.0, 4.5].map(at).into();
        let pieces = queue(&samples);
        let moments: Vec<Vec<f64>> = pieces
            .iter()
            .map(|piece| piece.iter().map(|point| point.0).collect())
            .collect();
        assert_eq!(moments, [vec![0.5, 1.0, 1.5], vec![4.0, 4.5]]);
        // Also where points are merged.
        let many: Vec<QueueSample> = (0..3 * MOST_POINTS)
            .map(|number| at(number as f64 + if number < 1_000 { 0.0 } else { 2.0 }))
            .collect();
        let pieces = queue(&many);
        assert_eq!(pieces.len(), 2);
        assert!((pieces[1][0].0 - 1_002.0).abs() < 1e-9, "{:?}", pieces[1][0]);
    }

    #[test]
    fn a_sum_has_the_gaps_of_its_parts() {
        let with_gap = vec![vec![(0.0, 1.0), (1.0, 1.0)], vec![(4.0, 2.0), (5.0, 2.0)]];
        let whole = vec![vec![
            (0.0, 10.0),
            (1.0, 10.0),
            (2.0, 10.0),
            (3.0, 10.0),
            (4.0, 10.0),
        ]];
        assert_eq!(
            sum(&[with_gap.clone(), whole]),
            [vec![(0.0, 11.0), (1.0, 11.0)], vec![(4.0, 12.0), (5.0, 12.0)]]
        );
        assert_eq!(sum(std::slice::from_ref(&with_gap)), with_gap);
    }

    #[test]
    fn the_span_is_never_empty() {
        assert_eq!(span(&[]), (0.0, 1.0));
        let report = Report {
            seconds: f64::NAN,
            ..Default::default()
        };
        assert_eq!(span(&[&report]), (0.0, 1.0));
        let queue = vec![QueueSample { at: -1.0, depth: 0.0 }];
        assert_eq!(
            span(&[&Report {
                seconds: 9.0,
                queue,
                ..Default::default()
            }]),
            (-1.0, 9.0)
        );
    }
}
