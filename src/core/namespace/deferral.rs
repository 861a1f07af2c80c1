//! Writes that wait a moment, because what comes next may spare them.
//!
//! Where each pod has a Service of its own, a Service is made beside its pod, and both are deleted together. Written at
//! once, each change would be a request: an empty slice, a slice with the pod, a slice without it, and the same for
//! Endpoints. Two of these states hardly last, and are not written if they last less than [`LONGEST`]:
//!
//! * A new Service without a ready endpoint. Its first objects are created with the first ready endpoint, or when the time
//!   is over. A proxy treats a Service without slices as it treats one whose slices are empty.
//! * A Service that is deleted in the foreground. The garbage collector deletes its slices before it goes, and its
//!   Endpoints are deleted with it, so they are not brought up to date before.
//!
//! Nothing else waits: what is removed of a Service that stays is written as ever. The time belongs to the Service, and
//! is looked at when one of its objects is planned and again when it is granted. Nothing waits in a process that has just
//! begun to write, because it does not know for how long the process before it has waited.

use super::NamespaceState;
use crate::core::ids::ServiceId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest time for which a write waits.
pub(super) const LONGEST: Duration = Duration::from_millis(500);

/// The reason why the writes for a Service wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// It is new, and has had no ready endpoint yet.
    New,
    /// It is being deleted in the foreground.
    Going,
}

#[derive(Clone, Copy, Debug)]
struct Deferral {
    reason: Reason,
    until: Duration,
    /// True if a ready endpoint has come: the next evaluation of the Service ends the wait.
    over: bool,
}

/// The Services whose writes wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferrals {
    by_service: BTreeMap<ServiceId, Deferral>,
    /// The same, by the time at which the wait is over.
    deadlines: BTreeSet<(Duration, ServiceId)>,
}

impl Deferrals {
    fn insert(&mut self, id: ServiceId, deferral: Deferral) {
        self.remove(id);
        self.by_service.insert(id, deferral);
        self.deadlines.insert((deferral.until, id));
    }

    fn remove(&mut self, id: ServiceId) -> Option<Deferral> {
        let deferral = self.by_service.remove(&id)?;
        self.deadlines.remove(&(deferral.until, id));
        Some(deferral)
    }

    fn get(&self, id: ServiceId) -> Option<&Deferral> {
        // Nearly always there are none.
        if self.by_service.is_empty() {
            return None;
        }
        self.by_service.get(&id)
    }
}

impl NamespaceState {
    /// Has the writes for a Service wait from now on.
    pub(super) fn defer(&mut self, id: ServiceId, reason: Reason) {
        if self.starting || self.pending_lists.any() {
            return;
        }
        let until = self.now + LONGEST;
        let over = false;
        self.deferrals.insert(id, Deferral { reason, until, over });
    }

    /// Forgets that the writes for a Service wait.
    pub(super) fn forget_deferral(&mut self, id: ServiceId) {
        self.deferrals.remove(id);
    }

    /// Returns whether the write of one of a Service's objects has to wait. `on_server` says whether the API server has the
    /// object.
    pub(super) fn is_deferred(&self, id: ServiceId, on_server: bool) -> bool {
        let deferral = self.deferrals.get(id);
        deferral.is_some_and(|deferral| {
            let concerns = deferral.reason == Reason::Going || !on_server;
            concerns && !deferral.over && self.now < deferral.until
        })
    }

    /// Returns whether a Service is new, and nothing has been written for it.
    pub(super) fn is_unwritten(&self, id: ServiceId) -> bool {
        let deferral = self.deferrals.get(id);
        deferral.is_some_and(|deferral| deferral.reason == Reason::New)
    }

    /// Ends the wait of a new Service, which has a ready endpoint. The evaluation that is due for it anyway queues its
    /// objects.
    #[inline]
    pub(super) fn has_ready_endpoint(&mut self, id: ServiceId) {
        if !self.deferrals.by_service.is_empty()
            && let Some(deferral) = self.deferrals.by_service.get_mut(&id)
        {
            deferral.over |= deferral.reason == Reason::New;
        }
    }

    /// Queues the objects of a Service that has been evaluated, if that has ended their wait.
    pub(super) fn conclude_deferral(&mut self, id: ServiceId) {
        if self.deferrals.get(id).is_some_and(|deferral| deferral.over) {
            self.end_deferral(id);
        }
    }

    /// Returns when to call [`Self::look_at_deferral`] next.
    pub fn next_look_at_deferral(&self) -> Option<Duration> {
        self.deferrals.deadlines.first().map(|(until, _)| *until)
    }

    /// Queues the objects of one Service that have waited for long enough. Returns false if there is none.
    pub fn look_at_deferral(&mut self, now: Duration) -> bool {
        self.advance(now);
        let Some(&(until, id)) = self.deferrals.deadlines.first() else {
            return false;
        };
        if until > now {
            return false;
        }
        self.end_deferral(id);
        true
    }

    fn end_deferral(&mut self, id: ServiceId) {
        self.deferrals.remove(id);
        let Some(service) = self.services.get(id) else {
            return;
        };
        for slice in service.slices.iter() {
            self.work.slices_touched += 1;
            self.slices.want(slice);
        }
        if let Some(endpoints) = self.endpoints.find(&service.facts.name) {
            self.endpoints.want(endpoints);
        }
    }
}
