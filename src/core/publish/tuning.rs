//! Every constant that decides when a write goes and is not a flag, with its unit. docs/design.md says how each was found.

use std::time::Duration;

/// An echo that takes longer than this is late: half of the places are taken away.
pub const LATE: Duration = Duration::from_millis(250);

/// The constants of the three rules and of the order of writes.
#[derive(Debug)]
pub(super) struct Tuning {
    /// Writes of a Service that one turn sends at most.
    pub turn_writes: usize,
    /// Of so many writes, one is of Endpoints while slices wait too.
    pub endpoints_share: usize,
    /// A share of the window and of the places, as a divisor, that one namespace or all slow ones together may use.
    pub slow_share: usize,
    /// The least number of places.
    pub places_least: f64,
    /// Writes a second that need no place: the default of kube-controller-manager.
    pub upstream_rate: f64,
    /// A write of which no echo tells keeps its place this long: it is not answered, or answered without a version, or refused.
    pub place_kept: Duration,
    /// A write whose echo never comes keeps its place this long.
    pub echo_lost: Duration,
    /// The size of a slice of 100 endpoints, in bytes.
    pub slice_bytes: f64,
    /// An event costs an API server as much as one of this many bytes, however small it is.
    pub event_bytes: f64,
    /// A write pays for so many slices at most. What it costs beyond that delays its namespace.
    pub write_slices: f64,
    /// The budget never falls below so many slices a second.
    pub least_slices: f64,
    /// The most that the budget grows to, in bytes a second to all watchers.
    pub grown_bytes: f64,
    /// The part of its base by which the budget grows in a second.
    pub growth: f64,
    /// The budget grows only while echoes are no slower than this.
    pub quick: Duration,
    /// A budget that was not used up for this long falls back to its base.
    pub growth_kept: Duration,
    /// Slices in a group while the budget is used up.
    pub group_slices: f64,
    /// The longest time from one group to the next.
    pub group_period: Duration,
    /// A proxy goes on to watch this long after its Node was deleted.
    pub nodes_outlived: Duration,
    /// The smallest window.
    pub window_least: f64,
    /// The weight of one answer in what answers usually take.
    pub answer_weight: f64,
    /// A write that is out for so many times what answers usually take hangs,
    pub hangs_after: f64,
    /// but not before this time.
    pub hangs_least: Duration,
    /// The most writes that hang and leave their places in the window, though it may be the API server that hangs.
    pub hanging_most: usize,
    /// The most that do because others were carried out.
    pub overtaken_most: usize,
    /// The time between two writes that go though the window is full of requests that hang.
    pub probe_every: Duration,
    /// The time between two retries of a namespace whose writes are refused with 403 or 422.
    pub refused_retry: Duration,
    /// Namespaces that are remembered as slow, or with refused writes, at most.
    pub namespaces_kept: usize,
}

/// The constants.
pub(super) const TUNING: Tuning = Tuning {
    turn_writes: 8,
    endpoints_share: 4,
    slow_share: 2,
    places_least: 2.0,
    upstream_rate: 20.0,
    place_kept: Duration::from_secs(1),
    echo_lost: Duration::from_secs(10),
    slice_bytes: 13e3,
    event_bytes: 10e3,
    write_slices: 4.0,
    least_slices: 1.0,
    grown_bytes: 300e6,
    growth: 0.5,
    quick: Duration::from_millis(50),
    growth_kept: Duration::from_secs(10),
    group_slices: 5.0,
    group_period: Duration::from_millis(250),
    nodes_outlived: Duration::from_secs(600),
    window_least: 2.0,
    answer_weight: 0.125,
    hangs_after: 10.0,
    hangs_least: Duration::from_millis(100),
    hanging_most: 64,
    overtaken_most: 256,
    probe_every: Duration::from_secs(1),
    refused_retry: Duration::from_secs(1),
    namespaces_kept: 65_536,
};
