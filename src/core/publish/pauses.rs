//! The pauses that the API server asks for with `Retry-After`.
//!
//! An overloaded API server refuses all writes. A webhook can refuse writes in the same way, with the same code and header, but
//! only those of the namespaces that it applies to. So a pause is at first one of the namespace whose write was refused. It
//! becomes one of all namespaces when several were refused in a row, with no write carried out in between.

use crate::core::hash::IdMap;
use std::time::Duration;

/// How many namespaces have to be refused in a row before all others wait as well.
const SEVERAL: usize = 3;

/// The pauses of namespaces, which are named by their hashes, and of all of them. Owned by the publisher.
#[derive(Clone, Default, Debug)]
pub(super) struct Pauses {
    /// The ends of the pauses of namespaces.
    of: IdMap<u64, Duration>,
    /// The namespaces that have been refused since a write was last carried out. More than [`SEVERAL`] are not counted.
    in_a_row: Vec<u64>,
    /// The end of the pause of all namespaces.
    all: Duration,
}

impl Pauses {
    /// Records that a write of a namespace was refused, with this pause.
    pub(super) fn asked(&mut self, namespace: u64, pause: Duration, now: Duration) {
        let until = self.of.entry(namespace).or_default();
        *until = (*until).max(now + pause);
        if !self.in_a_row.contains(&namespace) && self.in_a_row.len() < SEVERAL {
            self.in_a_row.push(namespace);
        }
        if self.in_a_row.len() == SEVERAL {
            // The shortest of their pauses counts, since the longest may still be that of a webhook.
            let ends = self
                .in_a_row
                .iter()
                .filter_map(|namespace| self.of.get(namespace));
            self.all = self.all.max(ends.min().copied().unwrap_or_default());
        }
    }

    /// Forgets the pauses of namespaces that are over.
    pub(super) fn pass(&mut self, now: Duration) {
        // Nearly always there are none.
        if !self.of.is_empty() {
            self.of.retain(|_, until| *until > now);
        }
    }

    /// Records that a write was carried out: the API server is not overloaded.
    pub(super) fn carried_out(&mut self) {
        self.in_a_row.clear();
    }

    /// Returns when the pause of all namespaces ends, if there is one.
    pub(super) fn all(&self, now: Duration) -> Option<Duration> {
        (self.all > now).then_some(self.all)
    }

    /// Returns whether a namespace has to wait.
    pub(super) fn holds(&self, namespace: u64, now: Duration) -> bool {
        self.of.get(&namespace).is_some_and(|until| *until > now)
    }

    /// Returns when the next pause of a namespace ends, if there is one.
    pub(super) fn next_end(&self, now: Duration) -> Option<Duration> {
        self.of.values().copied().filter(|until| *until > now).min()
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
            pauses.asked(1, 30 * SECOND, Duration::ZERO);
            pauses.asked(2, 20 * SECOND, Duration::ZERO);
        }
        assert_eq!(pauses.all(SECOND), None);
        assert_eq!(
            [1, 2, 3].map(|namespace| pauses.holds(namespace, SECOND)),
            [true, true, false]
        );
        assert_eq!(pauses.next_end(SECOND), Some(20 * SECOND));

        // Another's write goes through: the third refusal is the first again.
        pauses.carried_out();
        pauses.asked(3, SECOND, Duration::ZERO);
        assert_eq!(pauses.all(Duration::ZERO), None);
        pauses.asked(1, 30 * SECOND, Duration::ZERO);
        pauses.asked(2, 20 * SECOND, Duration::ZERO);
        assert_eq!(
            pauses.all(Duration::ZERO),
            Some(SECOND),
            "the shortest of their pauses"
        );
        assert_eq!((pauses.all(SECOND), pauses.holds(3, SECOND)), (None, false));
    }
}
