//! A figure of a run, or of the rounds of a repeated one.

use super::model::Report;

/// With so many rounds on both sides, chance alone sets their ranges apart in one figure of 126. With three it does so in one
/// of ten.
pub(crate) const ENOUGH: usize = 5;

/// A figure of all rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    /// The median, or the one value that there is.
    pub(crate) median: f64,
    /// The least.
    pub(crate) least: f64,
    /// The greatest.
    pub(crate) most: f64,
    /// How many rounds have the figure; one for a run that was not repeated.
    pub(crate) rounds: usize,
}

// === impl Spread ===

impl Spread {
    /// The figure of a report; none where neither it nor any of its rounds has it.
    pub(crate) fn of(report: &Report, value: impl Fn(&Report) -> Option<f64>) -> Option<Self> {
        let mut values: Vec<f64> = if report.rounds.is_empty() {
            value(report).into_iter().collect()
        } else {
            report.rounds.iter().filter_map(value).collect()
        };
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self {
            median,
            least,
            most,
            rounds: values.len(),
        })
    }

    /// The values that other runs of the same might have had: those of the rounds if they are enough, or else also those
    /// around them; around a single value, so many that the greatest is `noise` times the least.
    pub(crate) fn likely(&self, noise: f64) -> (f64, f64) {
        if self.rounds >= ENOUGH {
            return (self.least, self.most);
        }
        let around = noise.sqrt();
        (self.least / around, self.most * around)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(seconds: &[f64]) -> Report {
        let round = |seconds: &f64| Report {
            seconds: *seconds,
            ..Report::default()
        };
        Report {
            seconds: 100.0,
            rounds: seconds.iter().map(round).collect(),
            ..Report::default()
        }
    }

    fn spread(report: &Report) -> Option<Spread> {
        Spread::of(report, |report| Some(report.seconds))
    }

    #[test]
    fn a_repeated_run_has_a_median_and_a_range() {
        let of = |seconds: &[f64]| {
            let spread = spread(&rounds(seconds)).unwrap();
            (spread.median, spread.least, spread.most, spread.rounds)
        };
        assert_eq!(of(&[]), (100.0, 100.0, 100.0, 1), "not repeated");
        assert_eq!(of(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0, 3));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), (2.5, 1.0, 4.0, 4));
        assert_eq!(of(&[1.0, f64::NAN]), (1.0, 1.0, 1.0, 1));
        assert_eq!(spread(&rounds(&[f64::INFINITY])), None);
    }

    #[test]
    fn one_value_stands_for_those_around_it() {
        let one = spread(&rounds(&[8.0])).unwrap();
        assert_eq!(one.likely(4.0), (4.0, 16.0));
        let three = spread(&rounds(&[8.0, 9.0, 7.0])).unwrap();
        assert_eq!(three.likely(4.0), (3.5, 18.0), "too few to say");
        let five = spread(&rounds(&[8.0, 9.0, 7.0, 8.5, 7.5])).unwrap();
        assert_eq!(five.likely(4.0), (7.0, 9.0));
    }
}
