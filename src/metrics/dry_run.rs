//! What a dry run counts.

use crate::core::drift::Operation;
use metrics::{Counter, Gauge, counter, gauge};
use std::time::Duration;

/// Which Services are out of sync: by the names that a process which writes has for those that it has yet to
/// write.
#[derive(Debug)]
pub(crate) struct DryRunMetrics {
    out_of_sync: Gauge,
    oldest: Gauge,
    differences: [Counter; 3],
    comparisons: Counter,
}

impl DryRunMetrics {
    /// Registers them.
    pub(crate) fn new() -> Self {
        let differences = |operation: Operation| counter!("endpointd_dry_run_differences_total", "operation" => operation.as_str());
        Self {
            out_of_sync: gauge!("endpointd_services_out_of_sync"),
            oldest: gauge!("endpointd_services_out_of_sync_oldest_seconds"),
            differences: Operation::ALL.map(differences),
            comparisons: counter!("endpointd_dry_run_comparisons_total"),
        }
    }

    /// So many Services are out of sync, the oldest difference among them for so long.
    pub(crate) fn out_of_sync(&self, services: usize, oldest: Duration) {
        self.out_of_sync.set(services as f64);
        self.oldest.set(oldest.as_secs_f64());
    }

    /// So many writes more would be made, by operation.
    pub(crate) fn differences(&self, new: [u32; 3]) {
        for (counter, new) in self.differences.iter().zip(new) {
            counter.increment(u64::from(new));
        }
    }

    /// So many Services were looked at.
    pub(crate) fn compared(&self, services: usize) {
        self.comparisons.increment(services as u64);
    }
}

impl Default for DryRunMetrics {
    fn default() -> Self {
        Self::new()
    }
}
