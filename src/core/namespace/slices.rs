//! The slices of a namespace: adopting them, what each should hold and how that is compared with what the API server has, and
//! which of two copies of an endpoint stays.

mod adopt;
mod duplicates;
mod output;
mod withdraw;

use super::lifecycle::Objects;
use crate::core::compact::small::SmallSet;
use crate::core::hash::KeyedMap;
use crate::core::ids::{ServiceId, SliceId};
use crate::core::slices::Slice;
use crate::core::work::Work;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Up to this many slices of one Service are counted again in builds with assertions.
const FEW: usize = 16;

/// The slices that name one Service and are not managed.
#[derive(Clone, Debug, Default)]
struct Unmanaged {
    ids: SmallSet<SliceId>,
    /// How many of them other controllers have on the API server. There may be a hundred thousand, and the Service is looked at
    /// again after each change of one of them, so they are counted instead of looked at one by one.
    foreign: usize,
}

/// The slices of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    objects: Objects<Slice>,
    /// Slices that name a Service we do not manage, by Service name.
    unmanaged: KeyedMap<Arc<str>, Unmanaged>,
    duplicates: duplicates::Duplicates,
}

impl Deref for Slices {
    type Target = Objects<Slice>;

    fn deref(&self) -> &Self::Target {
        &self.objects
    }
}

impl DerefMut for Slices {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.objects
    }
}

impl Slices {
    /// Returns how many slices of a Service other controllers have.
    pub(super) fn foreign_of(&self, service: &str) -> usize {
        let Some(Unmanaged { ids, foreign }) = self.unmanaged.get(service) else {
            return 0;
        };
        debug_assert!(
            ids.len() > FEW || *foreign == self.of(ids, Slice::is_foreign).len(),
            "the count follows each change of a slice"
        );
        *foreign
    }

    /// Returns the set of the slices that name a Service and are not managed. `None` if there are none.
    pub(super) fn unmanaged_set(&self, service: &str) -> Option<&SmallSet<SliceId>> {
        self.unmanaged.get(service).map(|unmanaged| &unmanaged.ids)
    }

    /// Notes that a slice is not managed.
    pub(super) fn enter_unmanaged(&mut self, service: Arc<str>, id: SliceId) {
        self.unmanaged.entry(service).or_default().ids.insert(id);
        self.recount(id);
    }

    /// Forgets a slice that was not managed, and that has been removed.
    pub(super) fn leave_unmanaged(&mut self, slice: &Slice, id: SliceId) {
        self.remove_unmanaged(&slice.service_name, slice.counts_as_foreign, id);
    }

    fn remove_unmanaged(&mut self, service: &str, counted: bool, id: SliceId) {
        let Some(unmanaged) = self.unmanaged.get_mut(service) else {
            return;
        };
        unmanaged.foreign -= usize::from(counted);
        unmanaged.ids.remove(&id);
        if unmanaged.ids.is_empty() {
            self.unmanaged.remove(service);
        }
    }

    /// Takes the slices that name a Service and are not managed.
    pub(super) fn take_unmanaged(&mut self, service: &str) -> SmallSet<SliceId> {
        let ids = self.unmanaged.remove(service).unwrap_or_default().ids;
        for id in ids.iter() {
            self.objects[id].counts_as_foreign = false;
        }
        ids
    }

    /// Takes one from the slices that name a Service and are not managed.
    pub(super) fn take_from_unmanaged(&mut self, id: SliceId) {
        let slice = &mut self.objects[id];
        let service = slice.service_name.clone();
        let counted = std::mem::take(&mut slice.counts_as_foreign);
        self.remove_unmanaged(&service, counted, id);
    }

    /// Counts a slice as what it is now, if it is not managed. To be called whenever that may have changed.
    pub(super) fn recount(&mut self, id: SliceId) {
        let Some(slice) = self.objects.get_mut(id) else {
            return;
        };
        if let Some(unmanaged) = self.unmanaged.get_mut(&slice.service_name)
            && unmanaged.ids.contains(&id)
        {
            let now = slice.is_foreign();
            let before = std::mem::replace(&mut slice.counts_as_foreign, now);
            unmanaged.foreign = unmanaged.foreign - usize::from(before) + usize::from(now);
        }
    }

    /// Forgets all slices, and what was not decided about them. Returns the slices, which are yet to be dropped.
    pub(super) fn forget(&mut self) -> Objects<Slice> {
        std::mem::take(self).objects
    }

    /// Queues all slices of a Service.
    pub(super) fn want_all(&mut self, slices: &SmallSet<SliceId>, work: &mut Work) {
        for slice in slices.iter() {
            work.slices_touched += 1;
            self.objects.want(slice);
        }
    }

    /// Returns the slices of a Service that pass the test.
    pub(super) fn of(&self, slices: &SmallSet<SliceId>, pass: impl Fn(&Slice) -> bool) -> Vec<SliceId> {
        slices
            .iter()
            .filter(|&slice| pass(&self.objects[slice]))
            .collect()
    }

    /// Forgets that a slice has yet to be read, which is its Service's no longer.
    pub(super) fn forget_unread(&mut self, service: ServiceId, slice: SliceId) {
        self.duplicates.forget(service, slice);
    }

    /// Returns whether a slice of a Service that appeared has yet to be read. One that cannot be read is not waited for.
    pub(super) fn reads_slices_of(&self, service: ServiceId) -> bool {
        self.duplicates.reads_slices_of(service, &self.objects)
    }
}
