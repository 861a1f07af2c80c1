//! Metrics of the election and of the writer of Events.

use crate::core::events::EventOutcome;
use metrics::{Counter, Gauge, counter, gauge};

/// The metric of the election.
#[derive(Debug)]
pub(crate) struct LeaseMetrics {
    leads: Gauge,
}

impl LeaseMetrics {
    /// Registers the metric of a Lease, under client-go's name.
    pub(crate) fn new(name: &str) -> Self {
        let metrics = Self {
            leads: gauge!("leader_election_master_status", "name" => name.to_owned()),
        };
        metrics.leads.set(0.0);
        metrics
    }

    /// Records whether this process is the leader now.
    pub(crate) fn leads(&self, leads: bool) {
        self.leads.set(f64::from(u8::from(leads)));
    }
}

/// Metrics of the writer of Events.
#[derive(Debug)]
pub(crate) struct EventMetrics {
    outcomes: [Counter; 3],
    dropped: Counter,
}

impl EventMetrics {
    /// Registers the metrics.
    pub(crate) fn new() -> Self {
        let outcomes =
            |outcome: &'static str| counter!("endpointd_event_requests_total", "outcome" => outcome);
        Self {
            outcomes: ["ok", "refused", "unknown"].map(outcomes),
            dropped: counter!("endpointd_events_dropped_total"),
        }
    }

    /// Records the answer to a request, or its absence.
    pub(crate) fn done(&self, outcome: EventOutcome) {
        let at = match outcome {
            EventOutcome::Written => 0,
            EventOutcome::Exists | EventOutcome::NotFound | EventOutcome::Rejected => 1,
            EventOutcome::Failed { .. } => 2,
        };
        self.outcomes[at].increment(1);
    }

    /// Counts Events that will not be written, unless they happen again.
    pub(crate) fn dropped(&self, events: u64) {
        self.dropped.increment(events);
    }
}

impl Default for EventMetrics {
    fn default() -> Self {
        Self::new()
    }
}
