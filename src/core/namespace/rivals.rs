//! Other controllers that write the same objects: another endpointd that knows nothing of this one, or
//! kube-controller-manager, under the same managed-by label.
//!
//! Their writes are known by their versions, which are none of ours, and by `managedFields`, which name this
//! controller's kind or kube-controller-manager as the last that wrote. If the server does not track that, because one
//! of the two clears `managedFields`, a version counts if it made of an object exactly what this process was about to
//! make of it.
//!
//! Two kinds of versions do not count: one that this process may have written itself, by a request that had no answer;
//! and one that comes within [`GRACE`] of the time at which this process began to write, since a replica that led
//! before may have had requests in flight. So a hand-over is no sign of another controller.

use crate::core::object::Editor;
use crate::core::rival::Rival;
use std::time::Duration;

/// After this time, requests of a replica that led before have been answered or given up.
const GRACE: Duration = Duration::from_secs(60);
/// After so many versions users are told of another controller.
const TOLD_AFTER: u32 = 3;
/// The time within which they must come if it is not known which controller writes them: a user may once do by hand what was due.
const WINDOW: Duration = Duration::from_secs(900);
/// Users are told again after this time, if it still writes.
const TOLD_AGAIN: Duration = Duration::from_secs(3600);

/// The versions of other controllers that were seen in a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals {
    /// When this process began to write.
    began: Duration,
    /// For each of [`Rival::ALL`]: the number of versions, and since when they count.
    seen: [(u32, Duration); Rival::ALL.len()],
    told: [Option<Duration>; Rival::ALL.len()],
}

impl Rivals {
    /// Notes that this process begins to write.
    pub(super) fn begin_writing(&mut self, now: Duration) {
        *self = Self {
            began: now,
            ..Self::default()
        };
    }

    /// Counts a version that this process has not written. `settled` is true if the object was not as it should be before,
    /// and is now. Returns the controller that wrote it, if it is another one.
    pub(super) fn suspect(&mut self, editor: &Editor, settled: bool, now: Duration) -> Option<Rival> {
        let rival = Rival::of(editor, settled).filter(|_| now >= self.began + GRACE)?;
        let (seen, since) = &mut self.seen[rival as usize];
        if rival == Rival::Untracked && now >= *since + WINDOW {
            (*seen, *since) = (0, now);
        }
        *seen = seen.saturating_add(1);
        Some(rival)
    }

    /// Returns whether users are to be told of another controller.
    pub(super) fn is_to_be_told(&self, rival: Rival, now: Duration) -> bool {
        let at = rival as usize;
        self.seen[at].0 >= TOLD_AFTER && self.told[at].is_none_or(|told| now >= told + TOLD_AGAIN)
    }

    /// Notes that users were told of another controller.
    pub(super) fn told(&mut self, rival: Rival, now: Duration) {
        self.told[rival as usize] = Some(now);
    }
}
