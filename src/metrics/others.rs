//! What the election and the writer of Events count.

use crate::core::events::EventOutcome;
use crate::core::lease::Reply;
use metrics::{Counter, Gauge, counter, gauge};

/// What the election counts.
#[derive(Debug)]
pub(crate) struct LeaseMetrics {
    leads: Gauge,
    terms: Counter,
    requests: [Counter; 3],
}

impl LeaseMetrics {
    /// Registers them for a Lease, under client-go's names where it has them.
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

    /// Whether this process leads now.
    pub(crate) fn leads(&self, leads: bool) {
        self.leads.set(f64::from(u8::from(leads)));
        self.terms.increment(u64::from(leads));
    }

    /// A request for the Lease was answered, or was not.
    pub(crate) fn answered(&self, reply: &Reply) {
        let at = match reply {
            Reply::Record(..) | Reply::Missing => 0,
            Reply::Conflict => 1,
            Reply::Failed => 2,
        };
        self.requests[at].increment(1);
    }
}

/// What the log counts.
#[derive(Debug)]
pub(crate) struct LogMetrics {
    left_out: Counter,
}

impl LogMetrics {
    /// Registers it.
    pub(crate) fn new() -> Self {
        Self {
            left_out: counter!("endpointd_log_lines_left_out_total"),
        }
    }

    /// So many lines were left out.
    pub(crate) fn left_out(&self, lines: u64) {
        self.left_out.increment(lines);
    }
}

impl Default for LogMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// What the writer of Events counts.
#[derive(Debug)]
pub(crate) struct EventMetrics {
    waiting: Gauge,
    outcomes: [Counter; 3],
    dropped: Counter,
}

impl EventMetrics {
    /// Registers them.
    pub(crate) fn new() -> Self {
        let outcomes =
            |outcome: &'static str| counter!("endpointd_event_requests_total", "outcome" => outcome);
        Self {
            waiting: gauge!("endpointd_events_waiting"),
            outcomes: ["ok", "refused", "unknown"].map(outcomes),
            dropped: counter!("endpointd_events_dropped_total"),
        }
    }

    /// How many Events are to be written.
    pub(crate) fn observe(&self, waiting: usize) {
        self.waiting.set(waiting as f64);
    }

    /// A request was answered, or was not.
    pub(crate) fn done(&self, outcome: EventOutcome) {
        let at = match outcome {
            EventOutcome::Written => 0,
            EventOutcome::Exists | EventOutcome::NotFound | EventOutcome::Rejected => 1,
            EventOutcome::Failed { .. } => 2,
        };
        self.outcomes[at].increment(1);
    }

    /// So many Events will not be written, unless they happen again.
    pub(crate) fn dropped(&self, events: u64) {
        self.dropped.increment(events);
    }
}

impl Default for EventMetrics {
    fn default() -> Self {
        Self::new()
    }
}
