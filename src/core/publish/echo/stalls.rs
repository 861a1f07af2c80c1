//! The times in which this process did nothing, though it had to.

use std::time::Duration;

/// Number of pauses that are kept. More of them than this while one echo is awaited would take minutes.
const KEPT: usize = 64;

/// The pauses of this process since the oldest echo that is awaited. Owned by [`super::Echoes`].
#[derive(Clone, Default, Debug)]
pub(super) struct Stalls(Vec<(Duration, Duration)>);

impl Stalls {
    /// Adds a pause, which may be the last one again with a later end. Pauses that ended before `oldest` no longer matter.
    pub(super) fn add(&mut self, from: Duration, to: Duration, oldest: Option<Duration>) {
        self.0.retain(|(_, to)| oldest.is_some_and(|oldest| oldest < *to));
        if let Some((_, until)) = self.0.last_mut()
            && from <= *until
        {
            *until = to.max(*until);
            return;
        }
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        self.0.push((from, to));
    }

    /// Returns the time between these two moments without the pauses.
    pub(super) fn without(&self, since: Duration, at: Duration) -> Duration {
        let overlap = |(from, to): &(Duration, Duration)| (*to).min(at).saturating_sub((*from).max(since));
        let stalled: Duration = self.0.iter().map(overlap).sum();
        at.saturating_sub(since).saturating_sub(stalled)
    }
}
