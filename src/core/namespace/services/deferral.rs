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
//! No other write waits: removals of endpoints from a Service that stays are written as ever. The time is the Service's
//! `not_before`. It is looked at when one of its objects is planned and again when it is granted. A process that has just
//! begun to write lets no write wait, because it does not know for how long the process before it has waited.

use super::Services;
use crate::core::deadlines::Deadlines;
use crate::core::ids::ServiceId;
use crate::core::namespace::context::Context;
use std::time::Duration;

/// The longest time for which a write waits.
const LONGEST: Duration = Duration::from_millis(500);

impl Services {
    /// Has the writes for a Service wait from now on, which is new, or is being deleted in the foreground.
    pub(in crate::core::namespace) fn defer(&mut self, ctx: &Context, id: ServiceId) {
        if ctx.starting || ctx.pending_lists.any() {
            return;
        }
        self.not_before.set(id, ctx.now + LONGEST);
    }

    /// Forgets that the writes for any Service wait.
    pub(in crate::core::namespace) fn forget_deferrals(&mut self) {
        self.not_before = Deadlines::default();
    }

    /// Returns whether the write of one of a Service's objects has to wait. `on_server` says whether the API server has the
    /// object: what a new Service has there already does not wait.
    pub(in crate::core::namespace) fn is_deferred(
        &self,
        ctx: &Context,
        id: ServiceId,
        on_server: bool,
    ) -> bool {
        let waits = self.not_before.get(&id).is_some_and(|time| ctx.now < time);
        waits && (self.table[id].facts.foreground || !on_server)
    }

    /// Does what [`Self::is_deferred`] does, for the Service of a name.
    pub(in crate::core::namespace) fn is_deferred_by_name(
        &self,
        ctx: &Context,
        name: &str,
        on_server: bool,
    ) -> bool {
        // Nearly always there are none.
        self.not_before.next().is_some()
            && (self.table.find(name)).is_some_and(|id| self.is_deferred(ctx, id, on_server))
    }

    /// Returns whether a Service is new, and nothing has been written for it.
    pub(in crate::core::namespace) fn is_unwritten(&self, id: ServiceId) -> bool {
        self.not_before.get(&id).is_some() && !self.table[id].facts.foreground
    }

    /// Ends the wait of a new Service, which has a ready endpoint. The evaluation that is due for it anyway queues its
    /// objects.
    #[inline]
    pub(super) fn has_ready_endpoint(&mut self, id: ServiceId) {
        if self.not_before.next().is_some() && self.is_unwritten(id) {
            self.not_before.set(id, Duration::ZERO);
        }
    }

    /// Takes the wait of a Service that has been evaluated, if that has ended it. Returns whether its objects are to be
    /// queued.
    pub(in crate::core::namespace) fn take_concluded(&mut self, id: ServiceId) -> bool {
        let over = self.not_before.get(&id) == Some(Duration::ZERO);
        over && self.not_before.remove(&id).is_some()
    }

    /// Returns when to call [`Self::take_waited`] next.
    pub(in crate::core::namespace) fn next_wait_to_end(&self) -> Option<Duration> {
        self.not_before.next()
    }

    /// Takes a Service whose objects have waited for long enough.
    pub(in crate::core::namespace) fn take_waited(&mut self, now: Duration) -> Option<ServiceId> {
        self.not_before.pop_due(now)
    }
}
