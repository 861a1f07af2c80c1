//! The context that every owner of a namespace's state may use: names, settings, the clock, and the queue of
//! notices. It knows no pods, Services or published objects.

use super::Settings;
use super::kind::PendingLists;
use super::notices::Notices;
use crate::core::events::Notice;
use crate::core::facts::ServiceFacts;
use crate::core::object::Output;
use crate::core::work::Work;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

/// The names, the clock and the notices of one namespace.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) namespace: Arc<str>,
    pub(super) settings: Settings,
    /// Draws the names of slices.
    pub(super) random: fastrand::Rng,
    /// The lists that are still to come: nothing is planned or written until they are complete.
    pub(super) pending_lists: PendingLists,
    /// Set until the first plan, and again until the first plan after the outputs were forgotten: everything that is
    /// known was there before this process wrote.
    pub(super) starting: bool,
    /// The time, as of the last call of [`Self::advance`].
    pub(super) now: Duration,
    pub(super) notices: Notices,
    pub(super) work: Work,
    /// How often others have changed an object that they had changed twice before, by output.
    pub(super) contested: [u64; Output::ALL.len()],
}

impl Context {
    /// Creates the context of a namespace. `pending_lists` are the lists still to come.
    pub(super) fn new(namespace: Arc<str>, settings: Settings, pending_lists: PendingLists) -> Self {
        // Slice names depend on the seed alone, not on the key of hashes.
        let random = fastrand::Rng::with_seed(settings.seed ^ FxBuildHasher.hash_one(&namespace));
        Self {
            namespace,
            settings,
            random,
            pending_lists,
            starting: pending_lists.any(),
            now: Duration::ZERO,
            notices: Notices::default(),
            work: Work::default(),
            contested: [0; Output::ALL.len()],
        }
    }

    /// Moves the clock forward.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Gives users a notice.
    pub(super) fn notify(&mut self, notice: Notice) {
        self.work.notices += 1;
        self.notices.push(notice);
    }

    /// Counts what it takes to take in an object that was read. Returns the units.
    pub(super) fn count_read(&mut self, units: u64) -> u64 {
        self.work.items_read += units;
        units
    }

    /// Returns whether slices are published for a Service by this process.
    pub(super) fn writes_slices(&self, facts: &ServiceFacts) -> bool {
        facts.custom || (self.settings.outputs.slices && facts.is_managed())
    }

    /// Returns whether it can be said which nodes do not exist: not while lists are pending, or while another process
    /// writes.
    pub(super) fn may_tell_of_nodes(&self) -> bool {
        !self.starting && !self.pending_lists.any()
    }
}
