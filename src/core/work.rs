//! Counters of work done, so that tests can hold the cost of a change without a clock.

/// What a [`crate::core::namespace::NamespaceState`] has done since it was made.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Work {
    /// How often labels were compared with a selector.
    pub selector_evaluations: u64,
    /// How often a pod's place in one Service and family was looked at.
    pub endpoints_visited: u64,
    /// How many slices an evaluation of a Service looked at.
    pub slices_touched: u64,
    /// How many Services were evaluated.
    pub evaluations: u64,
}
