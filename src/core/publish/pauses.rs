//! The pauses that the API server asks for with `Retry-After`.
//!
//! An overloaded API server refuses all writes. A webhook can refuse writes in the same way, with the same code and header, but
//! only those of the namespaces that it applies to. So a pause is at first one of the namespace whose write was refused. It
//! becomes one of all namespaces when several were refused in a row, with no write carried out in between. Since one webhook can
//! apply to several namespaces, a write of another one is tried from time to time during that: if it is carried out, all go on.

use crate::core::deadlines::Deadlines;
use std::collections::VecDeque;
use std::time::Duration;

/// How many namespaces have to be refused in a row before all others wait as well.
const SEVERAL: usize = 3;
/// The time from one write to the next while all namespaces wait.
const BETWEEN_TRIALS: Duration = Duration::from_secs(1);

/// The pauses of namespaces, which are named by their hashes, and of all of them. Owned by the publisher.
#[derive(Clone, Default, Debug)]
pub(super) struct Pauses {
    /// The ends of the pauses of namespaces.
    of: Deadlines<u64>,
    /// The last [`SEVERAL`] namespaces that were refused since a write was last carried out and whose pauses are not over, with the
    /// ends of these.
    in_a_row: VecDeque<(u64, Duration)>,
    /// The end of the pause of all namespaces.
    all: Duration,
    /// When the next write may go during that pause.
    trial: Duration,
}

impl Pauses {
    /// Records that a write of a namespace was refused, with this pause. `counts` says that it may be the API server's own answer.
    pub(super) fn asked(&mut self, namespace: u64, pause: Duration, counts: bool, now: Duration) {
        let until = now + pause;
        let before = self.of.get(&namespace);
        self.of
            .set(namespace, before.map_or(until, |before| before.max(until)));
        if !counts {
            return;
        }
        self.in_a_row
            .retain(|(other, end)| *other != namespace && *end > now);
        if self.in_a_row.len() == SEVERAL {
            self.in_a_row.pop_front();
        }
        self.in_a_row.push_back((namespace, until));
        if self.in_a_row.len() == SEVERAL {
            // The shortest of their pauses counts, since the longest may still be that of a webhook.
            let end = self.in_a_row.iter().map(|(_, end)| *end).min();
            self.all = self.all.max(end.unwrap_or_default());
            self.trial = self.trial.max(now + BETWEEN_TRIALS);
        }
    }

    /// Takes a namespace whose pause is over.
    pub(super) fn take_over(&mut self, now: Duration) -> Option<u64> {
        self.of.pop_due(now)
    }

    /// Records that a write was carried out: the API server is not overloaded.
    pub(super) fn carried_out(&mut self) {
        self.in_a_row.clear();
        self.all = Duration::ZERO;
    }

    /// Returns whether all wait, but for one write now and then.
    pub(super) fn is_on(&self, now: Duration) -> bool {
        self.all > now
    }

    /// Records that a write goes.
    pub(super) fn goes(&mut self, now: Duration) {
        if self.all > now {
            self.trial = now + BETWEEN_TRIALS;
        }
    }

    /// Returns when the next write of a namespace that does not wait by itself may go, if not now.
    pub(super) fn all(&self, now: Duration) -> Option<Duration> {
        let until = self.all.min(self.trial);
        (until > now).then_some(until)
    }

    /// Returns when the next pause of a namespace ends, if there is one.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.of.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_namespace_waits_by_itself_and_all_wait_if_several_are_refused_in_a_row() {
        let mut pauses = Pauses::default();
        for _ in 0..9 {
            pauses.asked(1, 30 * SECOND, true, Duration::ZERO);
            pauses.asked(2, 20 * SECOND, true, Duration::ZERO);
        }
        assert_eq!(pauses.all(SECOND), None);
        assert_eq!(
            [1, 2, 3].map(|namespace| pauses.of.get(&namespace).is_some()),
            [true, true, false]
        );
        assert_eq!(pauses.next_end(), Some(20 * SECOND));

        // Another's write goes through: the third refusal is the first again.
        pauses.carried_out();
        pauses.asked(3, SECOND, true, Duration::ZERO);
        assert_eq!(pauses.all(Duration::ZERO), None);
        pauses.asked(1, 30 * SECOND, true, Duration::ZERO);
        pauses.asked(2, 20 * SECOND, true, Duration::ZERO);
        assert_eq!(
            pauses.all(Duration::ZERO),
            Some(SECOND),
            "the shortest of their pauses"
        );
        assert_eq!((pauses.all(SECOND), pauses.take_over(SECOND)), (None, Some(3)));
        assert_eq!(pauses.take_over(SECOND), None);
    }

    #[test]
    fn an_overload_is_over_with_its_own_pauses_and_not_with_that_of_a_webhook() {
        let mut pauses = Pauses::default();
        pauses.asked(1, 30 * SECOND, true, Duration::ZERO);
        for (at, namespaces) in [2..5, 5..9].into_iter().enumerate() {
            let now = at as u32 * SECOND;
            for namespace in namespaces {
                pauses.asked(namespace, SECOND, true, now);
            }
            assert_eq!(pauses.all(now), Some(now + SECOND));
        }
        assert_eq!(pauses.all(2 * SECOND), None);
    }

    #[test]
    fn one_write_a_second_goes_while_all_wait_and_the_first_that_is_carried_out_ends_that() {
        let mut pauses = Pauses::default();
        for namespace in 0..3 {
            pauses.asked(namespace, 30 * SECOND, true, Duration::ZERO);
        }
        assert_eq!(pauses.all(Duration::ZERO), Some(SECOND));
        assert_eq!(pauses.all(SECOND), None);
        pauses.goes(SECOND);
        assert_eq!(pauses.all(SECOND), Some(2 * SECOND));
        pauses.asked(3, 30 * SECOND, true, SECOND);
        assert_eq!(
            (pauses.all(2 * SECOND), pauses.of.get(&3).is_some()),
            (None, true)
        );
        pauses.goes(2 * SECOND);
        pauses.carried_out();
        assert_eq!(pauses.all(2 * SECOND), None);
        assert!(pauses.of.get(&3).is_some(), "its own pause is not over");
    }
}
