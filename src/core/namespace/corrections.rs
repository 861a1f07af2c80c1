//! Objects that another client had deleted, and that are there again. Users are told a moment later, if the Service is
//! still the same. If a Service is deleted, the API server deletes its Endpoints and the garbage collector its slices,
//! and the watches may show that before another watch shows that the Service has gone, or has come back under its name.
//!
//! Services are not known here: the driver says which UID the Service of an object has, both when the object is there
//! again and when users are to be told.

use super::WorkItem;
use super::notifications::Notification;
use crate::core::ids::Uid;
use crate::core::object::{Interference, ObjectName};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long the watch of Services is given to show that a Service has gone.
const WAIT: Duration = Duration::from_secs(2);
/// The number of corrections that wait at a time. Further ones are told at once.
const MOST: usize = 256;

/// Corrections that users are to be told of.
#[derive(Clone, Debug, Default)]
pub(super) struct Corrections {
    /// The corrections that the driver has not taken yet.
    new: Vec<Recreated>,
    /// In the order of their times.
    waiting: VecDeque<Correction>,
    /// The Services that were deleted last, with when that was shown. The objects of one that comes back under its name go
    /// with the old one, perhaps only when the new one is known.
    deleted: VecDeque<(Duration, Box<str>)>,
}

/// An object that had been deleted, and is there again.
#[derive(Clone, Debug)]
pub(super) struct Recreated {
    object: ObjectName,
    service: Arc<str>,
}

/// A correction whose time has yet to come.
#[derive(Clone, Debug)]
pub(super) struct Correction {
    due: Duration,
    recreated: Recreated,
    /// The Service that the object was published for; none if it was not known.
    uid: Option<Uid>,
}

impl Recreated {
    /// Returns the name of the Service that the object is published for.
    pub(super) fn service(&self) -> &str {
        &self.service
    }
}

impl Correction {
    /// Returns the name of the Service that the object is published for.
    pub(super) fn service(&self) -> &str {
        self.recreated.service()
    }

    /// Returns what users are told, unless the Service has another UID by now.
    pub(super) fn notification(self, uid: Option<&Uid>) -> Option<Notification> {
        let Self {
            recreated,
            uid: before,
            ..
        } = self;
        (before.as_ref() == uid).then_some(Notification::Corrected {
            object: recreated.object,
            service: recreated.service,
            interference: Interference::Removed,
        })
    }
}

impl Corrections {
    /// Takes in an object that is as it should be again. Returns what users are told at once.
    pub(super) fn add(&mut self, item: WorkItem, interference: Interference) -> Option<Notification> {
        let WorkItem { object, service, .. } = item;
        if interference == Interference::Removed && self.new.len() + self.waiting.len() < MOST {
            self.new.push(Recreated { object, service });
            return None;
        }
        Some(Notification::Corrected {
            object,
            service,
            interference,
        })
    }

    /// Returns whether objects are there again since they were taken last.
    pub(super) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Takes the objects that are there again since the last call.
    pub(super) fn take_new(&mut self) -> Vec<Recreated> {
        std::mem::take(&mut self.new)
    }

    /// Has an object that is there again wait until it is certain that it should be there, unless it went with an earlier
    /// Service of the name. `uid` is that of its Service.
    pub(super) fn wait(&mut self, recreated: Recreated, uid: Option<Uid>, now: Duration) {
        let recent = now.saturating_sub(WAIT);
        let mut deleted = self.deleted.iter().rev();
        if !deleted.any(|(at, name)| *at >= recent && **name == *recreated.service) {
            self.waiting.push_back(Correction {
                due: now + WAIT,
                recreated,
                uid,
            });
        }
    }

    /// Remembers that a Service was deleted, or replaced by another one of its name.
    pub(super) fn remember_deleted(&mut self, service: &str, now: Duration) {
        if self.deleted.len() >= MOST {
            self.deleted.pop_front();
        }
        self.deleted.push_back((now, service.into()));
    }

    /// Returns when to call [`Self::take_due`] next.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.waiting.front().map(|correction| correction.due)
    }

    /// Takes one correction whose time has come.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<Correction> {
        self.next_look().filter(|due| *due <= now)?;
        self.waiting.pop_front()
    }
}
