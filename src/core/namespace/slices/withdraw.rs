//! Slices that were published for an annotation which no longer counts.

use crate::core::facts::{Manager, ServiceFacts};
use crate::core::ids::{ServiceId, SliceId};
use crate::core::namespace::Placement;
use crate::core::namespace::rounds::STRIDE;
use crate::core::namespace::services::Pass;
use crate::core::object::Phase;
use crate::core::slices::Slice;

impl Placement<'_> {
    /// Returns whether a slice was published for an annotation of the Service that no longer counts.
    pub(in crate::core::namespace) fn is_abandoned(&self, slice: &Slice, facts: &ServiceFacts) -> bool {
        slice.manager == Manager::Custom && self.ctx.settings.outputs.custom && !facts.custom
    }

    /// Deletes a slice that was published for an annotation that no longer counts.
    pub(super) fn withdraw_slice(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        if slice.object.phase != Phase::Deleting {
            slice.object.phase = Phase::Deleting;
            slice.service = ServiceId::NONE;
            slice.object.change_by(1);
            self.slices.want(id);
        }
    }

    /// Withdraws the slices of a Service whose annotation no longer counts, if this process publishes no others for it. Leaves
    /// the visits to them to `step_passes`.
    pub(in crate::core::namespace) fn withdraw_abandoned(&mut self, service: ServiceId) {
        let facts = &self.services[service].facts;
        if self.ctx.settings.outputs.custom
            && !self.ctx.writes_slices(facts)
            && self.slices.unmanaged_set(&facts.name).is_some()
            && !self.has_handover(service)
        {
            self.services.queue(Pass::Withdraw(service, SliceId::NONE));
        }
    }

    /// Continues to withdraw slices, from those before this one. Returns the last one that was visited, if there are more, and the
    /// number of those visited.
    pub(in crate::core::namespace) fn withdraw_more(
        &mut self,
        service: ServiceId,
        before: SliceId,
    ) -> (Option<SliceId>, usize) {
        let Some(state) = self.services.get(service) else {
            return (None, 0);
        };
        let named = self.slices.unmanaged_set(&state.facts.name).into_iter();
        let earlier = named.flat_map(|set| set.down_from(..=before));
        let some: Vec<_> = earlier.filter(|id| *id < before).take(STRIDE).collect();
        for id in &some {
            let (slice, facts) = (&self.slices[*id], &self.services[service].facts);
            if slice.object.phase == Phase::Unmanaged && self.is_abandoned(slice, facts) {
                self.withdraw_slice(*id);
            }
        }
        (some.get(STRIDE - 1).copied(), some.len())
    }
}
