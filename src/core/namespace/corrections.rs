//! Objects that had been deleted, and are there again. Users are told a moment later, if their Service is still the same:
//! API servers delete Endpoints along with their Service, and the garbage collector slices, and their watches may show that
//! before another shows that the Service has gone, or has come back under its name.

use super::notifications::Notification;
use super::{NamespaceState, WorkItem};
use crate::core::ids::Uid;
use crate::core::object::Interference;
use std::collections::VecDeque;
use std::time::Duration;

/// How long the watch of Services is given to show that a Service has gone.
const WAIT: Duration = Duration::from_secs(2);
/// The number of corrections that wait at a time. Further ones are told at once.
const MOST: usize = 256;

/// Corrections that users are to be told of.
#[derive(Clone, Debug, Default)]
pub(super) struct Corrections {
    /// In the order of their times.
    waiting: VecDeque<Correction>,
    /// The Services that were deleted last, with when that was shown. The objects of one that comes back under its name go
    /// with the old one, perhaps only when the new one is known.
    deleted: VecDeque<(Duration, Box<str>)>,
}

#[derive(Clone, Debug)]
struct Correction {
    due: Duration,
    item: WorkItem,
    /// The Service that the object was published for; none if it was not known.
    uid: Option<Uid>,
}

impl NamespaceState {
    /// Tells users that an object is as it should be again, once it is certain that it should be there.
    pub(super) fn tell_corrected(&mut self, item: WorkItem, interference: Interference) {
        if interference != Interference::Removed || self.corrections.waiting.len() >= MOST {
            return self.push_corrected(item, interference);
        }
        let recent = self.now.saturating_sub(WAIT);
        let mut deleted = self.corrections.deleted.iter().rev();
        if deleted.any(|(at, name)| *at >= recent && **name == *item.service) {
            return;
        }
        let uid = self.uid_of(&item.service);
        let due = self.now + WAIT;
        self.corrections.waiting.push_back(Correction { due, item, uid });
    }

    /// Remembers that a Service was deleted, or replaced by another one of its name.
    pub(super) fn remember_deleted(&mut self, service: &str) {
        let deleted = &mut self.corrections.deleted;
        if deleted.len() >= MOST {
            deleted.pop_front();
        }
        deleted.push_back((self.now, service.into()));
    }

    /// Returns when to call [`Self::look_at_correction`] next.
    pub(super) fn next_look_at_corrections(&self) -> Option<Duration> {
        self.corrections.waiting.front().map(|correction| correction.due)
    }

    /// Looks at one correction whose time has come. Returns false if there is none.
    pub(super) fn look_at_correction(&mut self, now: Duration) -> bool {
        if self.next_look_at_corrections().is_none_or(|due| due > now) {
            return false;
        }
        let Some(Correction { item, uid, .. }) = self.corrections.waiting.pop_front() else {
            return false;
        };
        if uid == self.uid_of(&item.service) {
            self.push_corrected(item, Interference::Removed);
        }
        true
    }

    fn uid_of(&self, service: &str) -> Option<Uid> {
        let id = self.services.find(service)?;
        Some(self.services[id].facts.uid.clone())
    }

    fn push_corrected(&mut self, item: WorkItem, interference: Interference) {
        let WorkItem { object, service, .. } = item;
        self.notifications.push(Notification::Corrected {
            object,
            service,
            interference,
        });
    }
}
