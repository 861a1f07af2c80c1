//! The changes that a watching client saw, for others that watch the same slices and decode less of them.
//!
//! The API server tells all watches of a kind in the order of its versions. So another client shows a change as soon as it
//! has received anything of the version at which the change became visible, or of a newer one.

use parking_lot::Mutex;
use tokio::time::Instant;

/// A change that became visible.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Mark {
    /// The version of the first slice that showed it.
    pub(crate) version: u64,
    /// When the API server answered to the change.
    pub(crate) answered: Instant,
}

/// The changes that a kube-proxy should see, too.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    new: Vec<Mark>,
    version: u64,
}

// === impl Marks ===

impl Marks {
    /// A slice of this version arrived at the observer.
    pub(super) fn arrived(&self, version: u64) {
        let mut state = self.0.lock();
        state.version = state.version.max(version);
    }

    pub(crate) fn add(&self, mark: Mark) {
        self.0.lock().new.push(mark);
    }

    /// The changes since this was last called, and the last version that the observer has received.
    pub(crate) fn take(&self) -> (Vec<Mark>, u64) {
        let mut state = self.0.lock();
        (std::mem::take(&mut state.new), state.version)
    }
}
