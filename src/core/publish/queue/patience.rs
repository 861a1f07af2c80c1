//! How long objects may be overtaken by more urgent ones.

use super::classes::{ADDITIONS, CLASSES, Classes, ENDPOINTS_ADDITIONS, ENDPOINTS_REMOVALS, REMOVALS};
use super::promises::ENDPOINTS_BESIDE_SLICES;
use std::time::Duration;

/// How long objects of a class may be overtaken by those of the classes before it. At that age an object is as urgent
/// as one of the first class that has just come.
///
/// If the pace of writes is known, additions reach that age sooner: after a part ([`PART_OF_BACKLOG`]) of the time that it takes
/// to write all waiting slices, or all waiting Endpoints. From then on they alternate with removals, and after the full time they
/// go first. Where removals never end, additions would otherwise wait for thirty seconds in a cluster whose slices could all be
/// written in one second.
const LONGEST: [Duration; CLASSES] = [
    Duration::ZERO,
    Duration::from_secs(30),
    Duration::from_secs(40),
    Duration::from_secs(50),
    Duration::from_secs(60),
    Duration::from_secs(70),
];

/// All removals overtake additions for the backlog's time divided by this. With half of the backlog's time,
/// additions that no removal takes along wait three times as long as others while changes come at several times the pace
/// of writes; with a tenth, they would hardly be overtaken at all.
pub(super) const PART_OF_BACKLOG: u32 = 6;

/// How long objects may be overtaken, by class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience([Duration; CLASSES]);

impl Patience {
    /// Returns the patience while these numbers of slices and of Endpoints wait; `pace` is the time from one write to the next, if
    /// it is known.
    pub(super) fn new(pace: Option<Duration>, waiting: [usize; 2]) -> Self {
        let mut patience = LONGEST;
        let Some(pace) = pace else {
            return Self(patience);
        };
        let [slices, endpoints] = waiting.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let beside_slices = if slices > 0 { ENDPOINTS_BESIDE_SLICES } else { 1 };
        let of_endpoints = pace
            .saturating_mul(endpoints)
            .saturating_mul(beside_slices.into());
        let backlog = [
            (REMOVALS, ADDITIONS, pace.saturating_mul(slices)),
            (ENDPOINTS_REMOVALS, ENDPOINTS_ADDITIONS, of_endpoints),
        ];
        for (removals, additions, backlog) in backlog {
            let sooner = patience[removals] + backlog / PART_OF_BACKLOG;
            patience[additions] = patience[additions].min(sooner);
        }
        Self(patience)
    }

    /// Returns the time from which on an object of a class that has waited since `since` is as urgent as a removal that has just
    /// come.
    fn deadline(&self, class: usize, since: Duration) -> Duration {
        since + self.0[class]
    }

    /// Returns which of these classes is the most urgent, by the ages of their oldest objects.
    pub(super) fn most_urgent(
        &self,
        classes: Classes,
        oldest: impl Fn(usize) -> Option<Duration>,
    ) -> Option<usize> {
        let deadline = |class: usize| Some((self.deadline(class, oldest(class)?), class));
        classes.iter().filter_map(deadline).min().map(|(_, class)| class)
    }

    /// Returns the latest that [`Self::deadline`] can be, however fast the pace.
    pub(super) fn latest(class: usize, since: Duration) -> Duration {
        since + LONGEST[class]
    }

    /// Returns the time from which on an object of a class that has waited since `since` is as urgent as a removal of the same
    /// output that has just come.
    pub(super) fn deadline_in_output(&self, class: usize, since: Duration) -> Duration {
        let removals = if Classes::ENDPOINTS.has(class) {
            ENDPOINTS_REMOVALS
        } else {
            REMOVALS
        };
        since + self.0[class].saturating_sub(self.0[removals])
    }
}
