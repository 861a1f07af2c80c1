//! The figures of one phase.

use crate::observe::watch::{Seen, Writes};
use crate::report::model::Report;

/// A phase whose figures are taken.
pub(super) struct Part {
    first: Writes,
    counts_slices: bool,
}

// === impl Part ===

impl Part {
    /// Begins one; `counts_slices`: the writes of each slice are of interest, not only all together.
    pub(super) fn begin(seen: &Seen, counts_slices: bool) -> Self {
        seen.slices.lock().latencies().end_part();
        if counts_slices {
            seen.count_slices();
        }
        Self {
            first: seen.writes(),
            counts_slices,
        }
    }

    /// Puts the figures into the report's last phase.
    pub(super) fn end(self, seen: &Seen, report: &mut Report) {
        let Some(phase) = report.phases.last_mut() else {
            return;
        };
        phase.slices = seen.slices.lock().latencies().end_part();
        phase.slice_writes = seen.writes().since(&self.first).slices;
        if self.counts_slices {
            let each = seen.writes_of_slices();
            phase.slices_written = each.len() as u64;
            phase.most_writes = each.into_iter().max().unwrap_or_default().into();
        }
    }
}
