//! Metrics of the election, of the log and of the writer of Events.

use crate::core::events::EventOutcome;
use crate::core::leadership::election::Reply;
use metrics::{Counter, Gauge, counter, gauge};

/// Metrics of the election.
#[derive(Debug)]
pub(crate) struct LeaseMetrics {
    leads: Gauge,
    terms: Counter,
    requests: [Counter; 3],
}

impl LeaseMetrics {
    /// Registers the metrics of a Lease, under client-go's names where it has them.
    pub(crate) fn new(name: &str) -> Self {
        let requests =
            |outcome: &'static str| counter!("endpointd_lease_requests_total", "outcome" => outcome);
        let metrics = Self {
            leads: gauge!("leader_election_master_status", "name" => name.to_owned()),
            terms: counter!("endpointd_leader_terms_total"),
            requests: ["ok", "conflict", "unknown"].map(requests),
        };
        metrics.leads.set(0.0);
        metrics
    }

    /// Records whether this process is the leader now.
    pub(crate) fn leads(&self, leads: bool) {
        self.leads.set(f64::from(u8::from(leads)));
        self.terms.increment(u64::from(leads));
    }

    /// Records the answer to a request for the Lease, or its absence.
    pub(crate) fn answered(&self, reply: &Reply) {
        let at = match reply {
            Reply::Record(..) | Reply::Missing => 0,
            Reply::Conflict => 1,
            Reply::Failed => 2,
        };
        self.requests[at].increment(1);
    }
}

/// Metrics of the log.
#[derive(Debug)]
pub(crate) struct LogMetrics {
    left_out: Counter,
}

impl LogMetrics {
    /// Registers the metric.
    pub(crate) fn new() -> Self {
        Self {
            left_out: counter!("endpointd_log_lines_left_out_total"),
        }
    }

    /// Counts lines that were left out.
    pub(crate) fn left_out(&self, lines: u64) {
        self.left_out.increment(lines);
    }
}

impl Default for LogMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Metrics of the writer of Events.
#[derive(Debug)]
pub(crate) struct EventMetrics {
    waiting: Gauge,
    outcomes: [Counter; 3],
    dropped: Counter,
}

impl EventMetrics {
    /// Registers the metrics.
    pub(crate) fn new() -> Self {
        let outcomes =
            |outcome: &'static str| counter!("endpointd_event_requests_total", "outcome" => outcome);
        Self {
            waiting: gauge!("endpointd_events_waiting"),
            outcomes: ["ok", "refused", "unknown"].map(outcomes),
            dropped: counter!("endpointd_events_dropped_total"),
        }
    }

    /// Records how many Events are to be written.
    pub(crate) fn observe(&self, waiting: usize) {
        self.waiting.set(waiting as f64);
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
