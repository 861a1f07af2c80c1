//! Whether this process writes: always, while it leads, or never.

use crate::actors::drift::DriftTracker;
use crate::cluster::fence::{Clock, Fence};
use crate::core::leadership::Leadership;
use crate::ops::admin::Renewal;
use crate::ops::election::Candidacy;
use crate::ops::progress::Progress;
use futures::future::BoxFuture;
use std::fmt;

/// Creates the client for the Lease on the runtime that uses it, because a client runs its requests in a task there.
pub type Connect = Box<dyn FnOnce() -> BoxFuture<'static, Result<kube::Client, String>> + Send>;

/// The place where the Lease is acquired and renewed.
pub enum Renewing {
    /// A thread of its own, so that no other work of this process can keep it from renewing in time.
    Apart(Connect),
    /// The runtime that does everything else, with this client: for tests with a paused clock, which advances only when
    /// all tasks wait.
    Here(kube::Client),
}

/// The role of this process beside others.
pub enum RunMode {
    /// The only process that writes.
    Alone,
    /// A candidate for leadership, which writes while it holds a Lease.
    Candidate(Renewing, Box<Candidacy>),
    /// A dry run, which writes nothing and reports what it would write.
    DryRun(DriftTracker),
}

impl RunMode {
    /// Returns the initial fence and leadership.
    pub(super) fn at_first(&self) -> (Fence, Leadership) {
        match self {
            Self::Alone => (Fence::open(), Leadership::ALWAYS),
            Self::Candidate(_, candidacy) => (Fence::closed(candidacy.clock.clone()), Leadership::STANDBY),
            // A dry run plans no writes, and the closed fence would stop one if it did.
            Self::DryRun(_) => (Fence::closed(Clock::default()), Leadership::DRY_RUN),
        }
    }

    /// Creates the records of Lease renewals, and of the progress that the election checks, if there is an election.
    pub(super) fn records(&self) -> Option<(Renewal, Progress)> {
        let Self::Candidate(_, candidacy) = self else {
            return None;
        };
        let renewal = Renewal::new(candidacy.clock.clone(), candidacy.timing.lease());
        let progress = Progress::new(candidacy.clock.clone(), candidacy.stalled_after);
        Some((renewal, progress))
    }
}

impl fmt::Debug for RunMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "Alone",
            Self::Candidate(..) => "Candidate",
            Self::DryRun(_) => "DryRun",
        })
    }
}
