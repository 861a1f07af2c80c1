//! Counters of work done, so that tests can hold the cost of a change without a clock.

use std::ops::Sub;

/// What a [`crate::core::namespace::NamespaceState`] has done since it was made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Work {
    /// How often labels were compared with a selector.
    pub selector_evaluations: u64,
    /// How many pairs of labels and selectors were looked up or compared, as pods and Services came, went and changed.
    pub pairs_compared: u64,
    /// How many ports of Services and of pods were read to find where a pod's endpoints lead.
    pub ports_read: u64,
    /// How often a pod's place in one Service and family was looked at.
    pub endpoints_visited: u64,
    /// How often an address of an Endpoints object was looked at: for an event of its pod, or because the object
    /// was built.
    pub addresses_visited: u64,
    /// How many endpoints got a place in a slice.
    pub endpoints_placed: u64,
    /// How many slices an evaluation of a Service looked at.
    pub slices_touched: u64,
    /// How many Services were evaluated.
    pub evaluations: u64,
}

impl Work {
    /// All of it, as one number: each unit takes some ten to some hundred nanoseconds.
    pub fn total(&self) -> u64 {
        let Self {
            selector_evaluations,
            pairs_compared,
            ports_read,
            endpoints_visited,
            addresses_visited,
            endpoints_placed,
            slices_touched,
            evaluations,
        } = self;
        // A pair is compared, and a port read, in a fraction of the time that the others take.
        (pairs_compared + ports_read) / 4
            + selector_evaluations
            + endpoints_visited
            + addresses_visited
            + endpoints_placed
            + slices_touched
            + evaluations
    }
}

/// How much may be done in one go, so that others get their turn: so many units of [`Work::total`].
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    /// Without an end.
    pub fn unlimited() -> Self {
        Self(u64::MAX)
    }

    /// So many units. Whatever is done in one piece is done, even if it is more than what was left.
    pub fn new(units: u64) -> Self {
        Self(units)
    }

    /// So much was done.
    pub fn spend(&mut self, units: u64) {
        self.0 = self.0.saturating_sub(units);
    }

    /// Whether the next piece has to wait.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

impl Sub for Work {
    type Output = Self;

    /// What has been done since an earlier count.
    fn sub(self, before: Self) -> Self {
        Self {
            selector_evaluations: self.selector_evaluations - before.selector_evaluations,
            pairs_compared: self.pairs_compared - before.pairs_compared,
            ports_read: self.ports_read - before.ports_read,
            endpoints_visited: self.endpoints_visited - before.endpoints_visited,
            addresses_visited: self.addresses_visited - before.addresses_visited,
            endpoints_placed: self.endpoints_placed - before.endpoints_placed,
            slices_touched: self.slices_touched - before.slices_touched,
            evaluations: self.evaluations - before.evaluations,
        }
    }
}
