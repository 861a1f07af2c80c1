//! The time that a server may spend on watchers whose channel is full.

/// Nanoseconds that are added each second.
const REFILLED: f64 = 50e6;
/// Nanoseconds that are kept at most.
const MOST: u64 = 100_000_000;

/// A store of time, shared by all watchers of a resource. It starts empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    stored: u64,
    /// When it was last emptied.
    at: u64,
}

impl Budget {
    /// Takes all that is there.
    pub(super) fn take(&mut self, now: u64) -> u64 {
        let refilled = now.saturating_sub(self.at) as f64 * REFILLED / 1e9;
        self.at = now;
        let taken = (self.stored + refilled as u64).min(MOST);
        self.stored = 0;
        taken
    }

    /// Gives back what was not used of it.
    pub(super) fn give_back(&mut self, unused: u64) {
        self.stored = (self.stored + unused).min(MOST);
    }
}
