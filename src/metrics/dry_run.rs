//! Metrics of a dry run.

use crate::core::object::Verb;
use metrics::{Counter, Gauge, counter, gauge};
use std::time::Duration;

/// Counts the Services that are out of sync, under the names that a writing process uses for Services that it has yet
/// to write.
#[derive(Debug)]
pub(crate) struct DryRunMetrics {
    out_of_sync: Gauge,
    oldest: Gauge,
    differences: [Counter; 3],
    comparisons: Counter,
}

impl DryRunMetrics {
    /// Registers the metrics.
    pub(crate) fn new() -> Self {
        let differences =
            |verb: Verb| counter!("endpointd_dry_run_differences_total", "operation" => verb.as_str());
        Self {
            out_of_sync: gauge!("endpointd_services_out_of_sync"),
            oldest: gauge!("endpointd_services_out_of_sync_oldest_seconds"),
            differences: Verb::ALL.map(differences),
            comparisons: counter!("endpointd_dry_run_comparisons_total"),
        }
    }

    /// Records how many Services are out of sync, and for how long the oldest of them has been.
    pub(crate) fn out_of_sync(&self, services: usize, oldest: Duration) {
        self.out_of_sync.set(services as f64);
        self.oldest.set(oldest.as_secs_f64());
    }

    /// Counts further writes that would be made, by operation.
    pub(crate) fn differences(&self, new: [u32; 3]) {
        for (counter, new) in self.differences.iter().zip(new) {
            counter.increment(u64::from(new));
        }
    }

    /// Counts Services that were looked at.
    pub(crate) fn compared(&self, services: usize) {
        self.comparisons.increment(services as u64);
    }
}

impl Default for DryRunMetrics {
    fn default() -> Self {
        Self::new()
    }
}
