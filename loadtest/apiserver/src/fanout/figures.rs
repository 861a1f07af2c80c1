//! The figures that the model counts.

use super::histogram::Histogram;
use std::time::Duration;

/// The figures so far.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Writes that were carried out.
    pub writes: u64,
    /// Updates of pods that were carried out.
    pub pods: u64,
    /// Watches of the watchers that the server has ended.
    pub ended: u64,
    /// Watches of the controller that the server has ended.
    pub own_ended: u64,
    /// Lists.
    pub listed: u64,
    /// Bytes to watchers, those of lists included.
    pub bytes: u64,
    /// The time for which the servers' work, and not that of other programs, kept cores busy.
    pub cpu: Duration,
    /// The times until watchers saw removals: one for each watcher and removal.
    pub removals: Histogram,
    /// The same for additions.
    pub additions: Histogram,
    /// The times until the controller's own watch showed changes of either kind.
    pub own: Histogram,
}

impl Figures {
    /// Returns the times until watchers saw changes of either kind.
    pub fn seen(&self) -> Histogram {
        let mut all = self.removals.clone();
        all.merge(&self.additions);
        all
    }
}
