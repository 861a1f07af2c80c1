//! Endpoints that stand in two slices of a group: a process was killed at the wrong moment, or two processes write.
//!
//! If two processes write, each may have put an endpoint into another slice, and each reads what the other has written.
//! Both must decide alike which copy stays: if each kept its own, each would take out the other's, and clients would
//! lose the endpoint for as long as both run. So the copy in the older slice stays, and if both are as old, the one in
//! the slice whose name comes first. It does not count which slice is ours, or was known before.
//!
//! * A place that the API server does not have is no copy, even if a create has been sent: the endpoint stays where the
//!   server has it.
//! * While a write of one of the slices is in flight or has failed, or it is to be read, or its age is not known,
//!   nothing is decided. The other is read again after the answer, or when a list shows the first, or when that is
//!   gone.
//! * No slice is created while one that appeared, or about which something is to be decided, has yet to be read.

use crate::core::ids::{ServiceId, SliceId};
use crate::core::namespace::Placement;
use crate::core::namespace::lifecycle::Objects;
use crate::core::object::{Phase, RequestKind};
use crate::core::slices::Slice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The open decisions about slices that may hold the same endpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Duplicates {
    /// Slices that appeared, or about which something is to be decided, and that have yet to be read.
    unread: BTreeSet<(ServiceId, SliceId)>,
    /// By the slice of which more must be known: the names of the slices to be read again after that. The number of one that
    /// goes meanwhile may be another one's.
    undecided: BTreeMap<SliceId, BTreeSet<Arc<str>>>,
}

impl Duplicates {
    /// Notes that a slice of a Service has yet to be read.
    pub(super) fn reads(&mut self, service: ServiceId, slice: SliceId) {
        self.unread.insert((service, slice));
    }

    /// Forgets a slice that was read, or is gone.
    pub(super) fn forget(&mut self, service: ServiceId, slice: SliceId) {
        self.unread.remove(&(service, slice));
    }

    /// Returns whether a slice of a Service that appeared has yet to be read. One that cannot be read is not waited for.
    pub(super) fn reads_slices_of(&self, service: ServiceId, slices: &Objects<Slice>) -> bool {
        let of = (service, SliceId(0))..=(service, SliceId::NONE);
        let mut unread = self.unread.range(of);
        unread.any(|(_, id)| {
            let reads = |slice: &Slice| {
                let object = &slice.object;
                let reads = object.needs_refetch || object.flight == Some(RequestKind::Fetch);
                let reads = reads || matches!(object.phase, Phase::Adopting { .. });
                reads && object.failures == 0 && slice.service == service
            };
            slices.get(*id).is_some_and(reads)
        })
    }
}

/// The slice of two that keeps an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeper {
    /// The one that was read.
    This,
    /// The one in which it is placed.
    Holder,
    /// It depends on an answer.
    Unknown,
}

impl Placement<'_> {
    /// Decides which slice keeps an endpoint that is placed in `holder`, and that the API server has in `id`.
    pub(super) fn keeper(&self, holder: SliceId, at: usize, id: SliceId) -> Keeper {
        let (Some(holder), slice) = (self.slices.objects.get(holder), &self.slices.objects[id]) else {
            return Keeper::Holder;
        };
        if holder.object.is_absent() || !holder.slots[at].published.is_published() {
            return Keeper::This;
        }
        // The content that was sent may not be there, and the slice may be gone.
        let object = &holder.object;
        let writes = matches!(object.flight, Some(RequestKind::Create | RequestKind::Update));
        let doubtful = writes || object.needs_refetch || object.unsettled;
        match (holder.created, slice.created) {
            (Some(theirs), Some(own)) if !doubtful => {
                let older = (own, &slice.name) < (theirs, &holder.name);
                if older { Keeper::This } else { Keeper::Holder }
            }
            _ => Keeper::Unknown,
        }
    }

    /// Has a slice read again once more is known of another one, and that one read if nothing of it is in flight.
    pub(super) fn decide_later(&mut self, holder: SliceId, id: SliceId) {
        let name = self.slices.objects[id].name.clone();
        let undecided = &mut self.slices.duplicates.undecided;
        if undecided.entry(holder).or_default().insert(name) {
            let object = &mut self.slices.objects[holder].object;
            if object.flight.is_none() {
                object.mark_stale();
                self.slices.objects.want(holder);
            }
        }
    }

    /// Has the slices read again about which nothing could be decided before more was known of this one: a request of it was
    /// answered, a list has shown it, or it is gone.
    pub(super) fn decide(&mut self, holder: SliceId) {
        let Some(slices) = self.slices.duplicates.undecided.remove(&holder) else {
            return;
        };
        for name in slices {
            let Some(id) = self.slices.objects.find(&name) else {
                continue;
            };
            let slice = &mut self.slices.objects[id];
            if slice.object.phase == Phase::Managed {
                slice.object.mark_stale();
                // Otherwise a slice that others have deleted would be made anew, with the endpoints of this one.
                self.slices.duplicates.unread.insert((slice.service, id));
                self.slices.objects.want(id);
            }
        }
    }
}
