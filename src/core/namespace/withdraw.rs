//! Slices that were published for an annotation which no longer counts: they are deleted, and if the Service has a selector
//! now, only once slices for that are there, so that clients always have some.

use super::NamespaceState;
use crate::core::compact::small::SmallSet;
use crate::core::facts::{Manager, ServiceFacts};
use crate::core::ids::{ServiceId, SliceId};
use crate::core::object::Phase;
use crate::core::slices::Slice;

impl NamespaceState {
    /// Returns whether a slice was published for an annotation of the Service that no longer counts.
    pub(super) fn is_abandoned(&self, slice: &Slice, facts: &ServiceFacts) -> bool {
        slice.manager == Manager::Custom && self.settings.outputs.custom && !facts.custom
    }

    /// Deletes a slice that was published for an annotation that no longer counts. If the Service has a selector now, it
    /// stays until slices for that are there, or for some seconds.
    pub(super) fn withdraw_slice(&mut self, id: SliceId) {
        let name = self.slices[id].service_name.clone();
        let service = self
            .services
            .find(&name)
            .map(|service| &self.services[service].facts);
        let selected = service.is_some_and(|facts| !facts.selectorless && !facts.external);
        let waits = selected && !self.has_builtin_slices(&name, true);
        let slice = &mut self.slices[id];
        slice.object.phase = Phase::Deleting;
        slice.service = ServiceId::NONE;
        slice.gives_way = waits;
        slice.object.change_by(1);
        self.slices.want(id);
        if waits {
            self.replaced.entry(name.clone()).or_default().insert(id);
            let others = self
                .unmanaged
                .get(&name)
                .map(|others| others.iter().collect::<Vec<_>>());
            for other in others.into_iter().flatten() {
                self.learn_content(other);
            }
        }
    }

    /// Withdraws the slices of a Service whose annotation no longer counts.
    pub(super) fn withdraw_abandoned(&mut self, service: ServiceId) {
        let facts = &self.services[service].facts;
        let Some(unmanaged) = self.unmanaged.get(&facts.name) else {
            return;
        };
        let abandoned = |id: &SliceId| {
            let slice = &self.slices[*id];
            slice.object.phase == Phase::Unmanaged && self.is_abandoned(slice, facts)
        };
        let abandoned: Vec<_> = unmanaged.iter().filter(abandoned).collect();
        for id in abandoned {
            self.withdraw_slice(id);
        }
    }

    /// Returns whether slices for the selector of a Service are there: at least one, and none of ours is yet to be
    /// created. `hold` asks that one that another process writes has endpoints, too.
    pub(super) fn has_builtin_slices(&self, name: &str, hold: bool) -> bool {
        let known = self.services.find(name).map(|id| &self.services[id].slices);
        let slices = known.into_iter().chain(self.unmanaged.get(name));
        let mut there = false;
        for id in slices.flat_map(SmallSet::iter) {
            let slice = &self.slices[id];
            match (slice.manager, slice.object.remote.is_some(), slice.object.phase) {
                // Nobody knows yet what it holds, or it is yet to be created.
                (Manager::Builtin, true, Phase::Adopting { .. })
                | (Manager::Builtin, false, Phase::Managed) => {
                    return false;
                }
                (Manager::Builtin, true, Phase::Unmanaged) => {
                    there |= !hold || slice.others_hold == Some(true);
                }
                (Manager::Builtin, true, phase) => there |= phase != Phase::Deleting,
                _ => {}
            }
        }
        there
    }

    /// Has a slice wait no longer for others to take its place.
    pub(super) fn stop_waiting(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        if std::mem::take(&mut slice.gives_way)
            && let Some(waiting) = self.replaced.get_mut(&slice.service_name)
        {
            waiting.remove(&id);
            if waiting.is_empty() {
                self.replaced.remove(&slice.service_name);
            }
        }
    }

    /// Lets slices of a Service go that others have taken the place of.
    pub(super) fn check_slices_replaced(&mut self, service: &str) {
        if !self.replaced.contains_key(service) || !self.has_builtin_slices(service, true) {
            return;
        }
        for id in self.replaced.remove(service).unwrap_or_default().iter() {
            self.slices[id].gives_way = false;
            self.slices.want(id);
        }
    }
}
