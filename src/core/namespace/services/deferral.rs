//! Writes that wait a moment, because the next change may make them unnecessary.
//!
//! If each pod has a Service of its own, a Service is made beside its pod, and both are deleted together. Written at
//! once, each change would be a request: an empty slice, a slice with the pod, a slice without it, and the same for
//! Endpoints. Two of these states are short, and are not written if they last less than [`LONGEST`]:
//!
//! * A new Service without a ready endpoint. Its first objects are created with the first ready endpoint, or when the time
//!   is over. A proxy treats a Service without slices as it treats one whose slices are empty.
//! * A Service that is deleted in the foreground. The garbage collector deletes its slices before it goes, and its
//!   Endpoints are deleted with it, so they are not brought up to date before.
//!
//! No other write waits: removals of endpoints from a Service that stays are written as ever. The time belongs to the
//! Service, and is looked at when one of its objects is planned and again when it is granted. A process that has just
//! begun to write lets no write wait, because it does not know for how long the process before it has waited.

use super::Services;
use crate::core::deadlines::Deadlines;
use crate::core::ids::ServiceId;
use crate::core::namespace::context::Context;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time for which a write waits.
const LONGEST: Duration = Duration::from_millis(500);

/// The reason why the writes for a Service wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::core::namespace) enum Reason {
    /// It is new, and has had no ready endpoint yet.
    New,
    /// It is being deleted in the foreground.
    Going,
}

#[derive(Clone, Copy, Debug)]
struct Deferral {
    reason: Reason,
    /// True if a ready endpoint has come: the next evaluation of the Service ends the wait.
    over: bool,
}

/// The Services whose writes wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferrals {
    by_service: BTreeMap<ServiceId, Deferral>,
    /// When their waits end.
    ends: Deadlines<ServiceId>,
}

impl Deferrals {
    fn insert(&mut self, id: ServiceId, deferral: Deferral, until: Duration) {
        self.by_service.insert(id, deferral);
        self.ends.set(id, until);
    }

    fn remove(&mut self, id: ServiceId) -> Option<Deferral> {
        self.ends.remove(&id)?;
        self.by_service.remove(&id)
    }

    fn get(&self, id: ServiceId) -> Option<&Deferral> {
        // Nearly always there are none.
        if self.by_service.is_empty() {
            return None;
        }
        self.by_service.get(&id)
    }
}

impl Services {
    /// Has the writes for a Service wait from now on.
    pub(in crate::core::namespace) fn defer(&mut self, ctx: &Context, id: ServiceId, reason: Reason) {
        if ctx.starting || ctx.pending_lists.any() {
            return;
        }
        let deferral = Deferral { reason, over: false };
        self.deferrals.insert(id, deferral, ctx.now + LONGEST);
    }

    /// Forgets that the writes for a Service wait.
    pub(super) fn forget_deferral(&mut self, id: ServiceId) {
        self.deferrals.remove(id);
    }

    /// Forgets that the writes for any Service wait.
    pub(in crate::core::namespace) fn forget_deferrals(&mut self) {
        self.deferrals = Deferrals::default();
    }

    /// Returns whether the write of one of a Service's objects has to wait. `on_server` says whether the API server has the
    /// object.
    pub(in crate::core::namespace) fn is_deferred(
        &self,
        ctx: &Context,
        id: ServiceId,
        on_server: bool,
    ) -> bool {
        let deferral = self.deferrals.get(id);
        deferral.is_some_and(|deferral| {
            let concerns = deferral.reason == Reason::Going || !on_server;
            let waits = self.deferrals.ends.get(&id).is_some_and(|end| ctx.now < end);
            concerns && !deferral.over && waits
        })
    }

    /// Does what [`Self::is_deferred`] does, for the Service of a name.
    pub(in crate::core::namespace) fn is_deferred_by_name(
        &self,
        ctx: &Context,
        name: &str,
        on_server: bool,
    ) -> bool {
        // Nearly always there are none.
        if self.deferrals.by_service.is_empty() {
            return false;
        }
        let id = self.table.find(name);
        id.is_some_and(|id| self.is_deferred(ctx, id, on_server))
    }

    /// Returns whether a Service is new, and nothing has been written for it.
    pub(in crate::core::namespace) fn is_unwritten(&self, id: ServiceId) -> bool {
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

    /// Takes the wait of a Service that has been evaluated, if that has ended it. Returns whether its objects are to be
    /// queued.
    pub(in crate::core::namespace) fn take_concluded(&mut self, id: ServiceId) -> bool {
        let over = self.deferrals.get(id).is_some_and(|deferral| deferral.over);
        over && self.deferrals.remove(id).is_some()
    }

    /// Returns when to call [`Self::take_waited`] next.
    pub(in crate::core::namespace) fn next_wait_to_end(&self) -> Option<Duration> {
        self.deferrals.ends.next()
    }

    /// Takes a Service whose objects have waited for long enough.
    pub(in crate::core::namespace) fn take_waited(&mut self, now: Duration) -> Option<ServiceId> {
        let id = self.deferrals.ends.pop_due(now)?;
        self.deferrals.by_service.remove(&id);
        Some(id)
    }
}
