//! Objects whose turn came while their Service must not be written: it waits until slices have been read. They are kept by
//! Service, and looked at when that may be over and not before: there may be thousands, and most messages end no wait.

use super::Published;
use crate::core::compact::table::EntryId;
use crate::core::object::{ObjectState, Phase};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// The request that an object waits to send. All objects of one Service and purpose wait for the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Purpose {
    Create,
    Update,
    Other,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Other];

    fn of(object: &ObjectState) -> Self {
        match object.phase {
            Phase::Managed if object.remote.is_none() => Self::Create,
            Phase::Managed => Self::Update,
            _ => Self::Other,
        }
    }
}

/// The blocked objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct Blocked<I> {
    objects: BTreeSet<(Arc<str>, Purpose, I)>,
    /// How far they have been looked at, since all of them may be due.
    at: Option<(Arc<str>, Purpose, I)>,
}

impl<I> Default for Blocked<I> {
    fn default() -> Self {
        Self {
            objects: BTreeSet::new(),
            at: None,
        }
    }
}

/// An object to look at next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Next<I> {
    pub(super) id: I,
    purpose: Purpose,
}

impl<I: EntryId> Blocked<I> {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds an object, which may have been added for another purpose.
    pub(super) fn insert<T: Published<Id = I>>(&mut self, id: I, entry: &T) {
        self.remove(id, entry.service());
        let purpose = Purpose::of(entry.as_ref());
        self.objects.insert((entry.service().clone(), purpose, id));
    }

    /// Removes an object of a Service, if it is there.
    pub(super) fn remove(&mut self, id: I, service: &Arc<str>) {
        if self.objects.is_empty() {
            return;
        }
        for purpose in Purpose::ALL {
            self.objects.remove(&(service.clone(), purpose, id));
        }
    }

    /// Returns the first object of a Service. After one that is still blocked, the first for another purpose.
    pub(super) fn first_of(&self, service: &Arc<str>, after: Option<Next<I>>) -> Option<Next<I>> {
        let mut purposes = Purpose::ALL
            .into_iter()
            .filter(|purpose| after.is_none_or(|after| *purpose > after.purpose));
        purposes.find_map(|purpose| {
            let from = (service.clone(), purpose, I::from(0));
            let (name, same, id) = self.objects.range(from..).next()?;
            (name == service && *same == purpose).then_some(Next { id: *id, purpose })
        })
    }

    /// Returns the next of all objects, from the first on after the last one.
    pub(super) fn next(&mut self) -> Option<I> {
        let from = self.at.take().map_or(Unbounded, Excluded);
        self.at = self.objects.range((from, Unbounded)).next().cloned();
        self.at.as_ref().map(|(_, _, id)| *id)
    }

    /// Returns all of them.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = I> {
        self.objects.iter().map(|(_, _, id)| *id)
    }
}
