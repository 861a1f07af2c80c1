//! Other controllers that write the same objects: another endpointd that knows nothing of this one, or
//! kube-controller-manager, under the same managed-by label.
//!
//! What they write is known by its version, which is none of ours, and by `managedFields`, which name this controller's kind
//! or kube-controller-manager as the last that wrote. Where the server does not track that, because one of the two clears
//! `managedFields`, a version counts if it made of an object exactly what this process was about to make of it. What could be a write of this process, since one had no answer, does
//! not count; nor does what comes within [`GRACE`] of the time at which this process began to write, since a replica that
//! led before may have had requests in flight. So a hand-over is no sign of another controller.

use super::NamespaceState;
use super::lifecycle::Published;
use super::notifications::Notification;
use crate::core::events::{Notice, Source};
use crate::core::object::Editor;
use crate::core::rival::Rival;
use std::time::Duration;

/// After this time, requests of a replica that led before have been answered or given up.
const GRACE: Duration = Duration::from_secs(60);
/// After so many versions people are told of another controller,
const TOLD_AFTER: u32 = 3;
/// within this time if it is not known who they are: somebody may once do by hand what was due,
const WINDOW: Duration = Duration::from_secs(900);
/// and again after this time, if it still writes.
const TOLD_AGAIN: Duration = Duration::from_secs(3600);

/// What was seen of other controllers in a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals {
    /// When this process began to write.
    began: Duration,
    /// For each of [`Rival::ALL`]: the number of versions, and since when they count.
    seen: [(u32, Duration); Rival::ALL.len()],
    told: [Option<Duration>; Rival::ALL.len()],
}

impl NamespaceState {
    /// Notes that this process begins to write.
    pub(super) fn begin_writing(&mut self) {
        self.rivals = Rivals {
            began: self.now,
            ..Rivals::default()
        };
    }

    /// Notes that an object was read in a version that this process has not written. `editor` is the client that wrote it;
    /// `settled` is true if it was not as it should be before, and is now.
    pub(super) fn note_foreign_version<T: Published>(&mut self, id: T::Id, editor: &Editor, settled: bool) {
        let Some(rival) = Rival::of(editor, settled).filter(|_| self.now >= self.rivals.began + GRACE) else {
            return;
        };
        let at = rival as usize;
        let (seen, since) = &mut self.rivals.seen[at];
        if rival == Rival::Untracked && self.now >= *since + WINDOW {
            (*seen, *since) = (0, self.now);
        }
        *seen = seen.saturating_add(1);
        let many = *seen >= TOLD_AFTER;
        self.notifications.push(Notification::RivalWrote { rival });
        let due = self.rivals.told[at].is_none_or(|told| self.now >= told + TOLD_AGAIN);
        if !many || !due {
            return;
        }
        let item = T::objects(self)[id].work_item();
        let Some(service) = self.services.find(&item.service) else {
            return;
        };
        self.rivals.told[at] = Some(self.now);
        let other = match rival {
            Rival::Endpointd => "Another endpointd, which is no replica of this one (it uses another Lease),",
            Rival::Builtin => "kube-controller-manager",
            Rival::Untracked => {
                "Another controller, perhaps an endpointd that uses another Lease (--clear-managed-fields hides its name),"
            }
        };
        self.notifications.push(Notification::Event(Notice {
            source: Source::Slices,
            involved: self.involved(service),
            warning: true,
            reason: "AnotherControllerWrites",
            message: format!(
                "{other} also writes what this controller publishes here; switch one of the two off"
            ),
        }));
        self.notifications.push(Notification::Rival {
            rival,
            object: item.object,
            service: item.service,
        });
    }
}
