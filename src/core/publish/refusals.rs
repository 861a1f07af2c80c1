//! Whether an answer of 429 or 503 is a sign that the API server is overloaded.
//!
//! A webhook can refuse the writes of its namespaces with the same codes. So a refusal counts only if another namespace was
//! refused as well since a write was last carried out, or if no write of another namespace was carried out lately.

use std::time::Duration;

/// A refusal is no sign of overload if another namespace's write was carried out so lately before the refused one was sent.
const LATELY: Duration = Duration::from_millis(100);
/// The API server goes on if it has carried a write out within this time.
const GOES_ON: Duration = Duration::from_secs(2);

/// The namespaces, by their hashes, whose writes were carried out and refused last. Owned by the publisher.
#[derive(Clone, Default, Debug)]
pub(super) struct Refusals {
    /// The namespaces whose writes were carried out last, and when: the last one, and the last other one.
    carried_out: [Option<(u64, Duration)>; 2],
    /// A namespace that was refused since a write was last carried out.
    refused: Option<u64>,
    /// True if another one was, too.
    several: bool,
}

impl Refusals {
    /// Records that a write of a namespace was carried out.
    pub(super) fn carried_out(&mut self, namespace: u64, now: Duration) {
        (self.refused, self.several) = (None, false);
        match &mut self.carried_out[0] {
            Some((last, at)) if *last == namespace => *at = now,
            last => self.carried_out = [Some((namespace, now)), *last],
        }
    }

    /// Returns whether a write was carried out lately.
    pub(super) fn goes_on(&self, now: Duration) -> bool {
        let [last, _] = self.carried_out;
        last.is_some_and(|(_, at)| now.saturating_sub(at) < GOES_ON)
    }

    /// Records that a write of a namespace, sent at this time, was refused. Returns whether that may be the API server's own
    /// answer, and not a webhook's.
    pub(super) fn refused(&mut self, namespace: u64, sent: Duration) -> bool {
        let first = *self.refused.get_or_insert(namespace);
        self.several |= first != namespace;
        let since = sent.saturating_sub(LATELY);
        let mut others = self.carried_out.iter().flatten();
        self.several || !others.any(|(other, at)| *other != namespace && *at >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_namespace_that_is_refused_alone_is_no_sign_of_overload() {
        let mut refusals = Refusals::default();
        assert!(refusals.refused(1, at(0)), "nothing was carried out");
        for millis in 1..50 {
            refusals.carried_out(2, at(10 * millis));
            refusals.carried_out(1, at(10 * millis + 1));
            assert!(!refusals.refused(1, at(10 * millis + 2)));
            assert!(!refusals.refused(1, at(10 * millis + 3)));
        }
    }

    #[test]
    fn several_that_are_refused_or_one_while_nothing_is_carried_out_are_one() {
        let mut refusals = Refusals::default();
        refusals.carried_out(2, at(0));
        assert!(!refusals.refused(1, at(10)));
        assert!(refusals.refused(3, at(10)));
        assert!(refusals.refused(1, at(10)));
        refusals.carried_out(2, at(20));
        assert!(!refusals.refused(1, at(110)));
        assert!(
            refusals.refused(1, at(121)),
            "nothing was carried out for a while"
        );
        assert!(refusals.refused(2, at(30)), "its own writes do not count");
    }
}
