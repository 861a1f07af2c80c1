//! The slices of a namespace: adopting them, what each should hold and how that is compared with what the API server has, and
//! which of two copies of an endpoint stays.

mod adopt;
mod duplicates;
mod output;

use super::lifecycle::Objects;
use crate::core::compact::small::SmallSet;
use crate::core::hash::KeyedMap;
use crate::core::ids::{ServiceId, SliceId};
use crate::core::slices::Slice;
use crate::core::work::Work;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The slices of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    objects: Objects<Slice>,
    /// Slices that name a Service we do not manage, by Service name.
    unmanaged: KeyedMap<Arc<str>, SmallSet<SliceId>>,
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
    /// Returns the slices that name a Service and are not managed.
    pub(super) fn unmanaged_of(&self, service: &str) -> impl Iterator<Item = SliceId> {
        self.unmanaged_set(service).into_iter().flat_map(SmallSet::iter)
    }

    /// Returns the set of the slices that name a Service and are not managed. `None` if there are none.
    pub(super) fn unmanaged_set(&self, service: &str) -> Option<&SmallSet<SliceId>> {
        self.unmanaged.get(service)
    }

    /// Notes that a slice is not managed.
    pub(super) fn enter_unmanaged(&mut self, service: Arc<str>, id: SliceId) {
        self.unmanaged.entry(service).or_default().insert(id);
    }

    /// Takes the slices that name a Service and are not managed.
    pub(super) fn take_unmanaged(&mut self, service: &str) -> SmallSet<SliceId> {
        self.unmanaged.remove(service).unwrap_or_default()
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

    /// Returns whether a slice of a Service that appeared has yet to be read. One that cannot be read is not waited for.
    pub(super) fn reads_slices_of(&self, service: ServiceId) -> bool {
        self.duplicates.reads_slices_of(service, &self.objects)
    }
}
