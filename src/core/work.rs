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
    /// How many slices an evaluation of a Service looked at.
    pub slices_touched: u64,
    /// How many Services were evaluated.
    pub evaluations: u64,
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
            slices_touched: self.slices_touched - before.slices_touched,
            evaluations: self.evaluations - before.evaluations,
        }
    }
}
