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

    /// Says whether all of its values are above all of the other's, and not by chance. Where either has too few rounds to
    /// tell, they have to be above them by a factor of `noise`, by which runs of the same differ.
    pub(crate) fn is_above(&self, other: &Self, noise: f64) -> bool {
        let is_sharp = self.rounds >= ENOUGH && other.rounds >= ENOUGH;
        let factor = if is_sharp { 1.0 } else { noise };
        self.least > other.most * factor
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
    fn what_was_measured_once_differs_by_the_whole_noise_whatever_it_is_compared_with() {
        let once = |seconds| spread(&rounds(&[seconds])).unwrap();
        assert!(!once(31.0).is_above(&once(8.0), 4.0));
        assert!(once(33.0).is_above(&once(8.0), 4.0));
        let three = spread(&rounds(&[8.0, 9.0, 7.0])).unwrap();
        assert!(!once(35.0).is_above(&three, 4.0), "too few to say");
        let five = spread(&rounds(&[8.0, 9.0, 7.0, 8.5, 7.5])).unwrap();
        assert!(!once(35.0).is_above(&five, 4.0) && once(37.0).is_above(&five, 4.0));
        assert!(!five.is_above(&once(2.0), 4.0) && five.is_above(&once(1.7), 4.0));
        let others = spread(&rounds(&[10.0, 11.0, 9.1, 10.5, 9.5])).unwrap();
        assert!(others.is_above(&five, 4.0) && !five.is_above(&others, 4.0));
    }
}
