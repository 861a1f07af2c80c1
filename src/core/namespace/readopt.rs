//! Adopting the objects of single Services anew, as if the process began at this moment. Inspections do so before each
//! look, since whoever writes decides how endpoints are spread over slices, and what these are called.

use super::NamespaceState;
use super::endpoints::Endpoints;
use super::followed::Following;
use super::leading::LeaderStatus;
use super::lifecycle::{Published as _, adoption_order};
use super::mirror::MirroredSlice;
use crate::core::facts::{EndpointsFacts, ServiceFacts, SliceFacts};
use crate::core::ids::{ServiceId, Uid};
use crate::core::object::Phase;
use crate::core::slices::{Conditions, FamilyState, Slice};
use crate::core::time::Time;
use std::sync::Arc;

impl NamespaceState {
    /// Returns the facts of a Service.
    pub fn service(&self, name: &str) -> Option<&ServiceFacts> {
        let id = self.services.find(name)?;
        Some(&self.services[id].facts)
    }

    /// Returns the UID, the conditions and the Ready time of a pod.
    pub fn pod(&self, name: &str) -> Option<(&Uid, Conditions, Option<Time>)> {
        let pod = self.inputs.pod(self.inputs.find(name)?);
        Some((pod.uid(), pod.conditions(), pod.ready_time()))
    }

    /// Returns whether a list is pending, so that nothing can be planned.
    pub fn is_waiting(&self) -> bool {
        self.pending_lists.any()
    }

    /// Returns whether a Service has changed since it was last evaluated.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the names of the Services that have changed since they were last evaluated, or taken here.
    pub fn take_dirty(&mut self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for id in std::mem::take(&mut self.dirty) {
            // The index may belong to another Service by now.
            if let Some(service) = self.services.get_mut(id)
                && std::mem::take(&mut service.dirty)
            {
                names.push(service.facts.name.clone());
            }
        }
        names
    }

    /// Forgets the slices of a Service, managed or not. None of its pods is placed any more. A pod that leads it still
    /// does: that was learned from its Lease, and not from slices, and might be learned again only when that is renewed.
    pub fn forget_slices_of(&mut self, name: &str) {
        let mut slices = self.unmanaged.remove(name).unwrap_or_default();
        let managed = self.managed(name);
        let pods = managed.map(|id| self.pods_of(id)).unwrap_or_default();
        if let Some(id) = managed {
            let service = &mut self.services[id];
            service.awaiting = 0;
            for slice in std::mem::take(&mut service.slices).iter() {
                slices.insert(slice);
            }
            for family in service.families.iter_mut().flatten() {
                **family = FamilyState::default();
            }
        }
        for slice in slices.iter() {
            self.slices.remove(slice);
        }
        self.replacements.forget_slices_of(name);
        let Some(id) = managed else { return };
        self.forget_deferral(id);
        let leads = |following: &Following| following.decided && following.status == LeaderStatus::Leads;
        let following = self.services[id].following.as_deref();
        let forgets = following.is_some_and(|following| !leads(following));
        for pod_id in pods {
            if forgets {
                self.forget_member(pod_id, id);
            } else if self.inputs.get(pod_id).is_some() {
                self.displace_members(pod_id, self.memberships[pod_id].of(id));
            }
        }
        if let Some(following) = &mut self.services[id].following {
            following.decided = false;
        }
        self.reset_sync_stats(id);
    }

    /// Adopts what the API server has for a Service whose slices are forgotten: its slices, and the Endpoints object of
    /// its name. `orphaned` says that this object has lost its Service, so that it is to be deleted, whoever made it.
    pub fn adopt_objects_of(
        &mut self,
        name: &Arc<str>,
        mut slices: Vec<SliceFacts>,
        endpoints: Option<EndpointsFacts>,
        orphaned: bool,
    ) {
        let starting = std::mem::replace(&mut self.starting, true);
        if let Some(id) = self.managed(name) {
            if self.writes_slices(&self.services[id].facts) {
                slices.sort_unstable_by(adoption_order::<Slice>);
                for facts in slices {
                    Slice::arrive(self, facts, 0);
                }
            }
            if self.settings.outputs.endpoints && !self.services[id].facts.custom {
                let entry = self.endpoints.find(name);
                let entry = entry.expect("a managed Service has an entry for its Endpoints");
                match endpoints {
                    Some(facts) => self.observed::<Endpoints>(entry, facts),
                    None => Endpoints::remake(self, entry),
                }
            }
            self.mark(id);
        } else if self.services.find(name).is_some() {
            if self.settings.outputs.custom {
                for facts in slices {
                    Slice::arrive(self, facts, 0);
                }
            }
        } else {
            if let Some(id) = self.endpoints.find(name) {
                self.endpoints.remove(id);
            }
            if let Some(facts) = endpoints.filter(|_| self.settings.outputs.endpoints) {
                Endpoints::arrive(self, facts, 0);
                if orphaned && let Some(id) = self.endpoints.find(name) {
                    self.endpoints[id].object.phase = Phase::Deleting;
                }
            }
        }
        self.starting = starting;
    }

    /// Adopts what the API server has of a Service's mirror, of which everything known is forgotten: its slices, and the
    /// Endpoints that they mirror.
    pub fn adopt_mirror(
        &mut self,
        name: &Arc<str>,
        slices: Vec<SliceFacts>,
        endpoints: Option<EndpointsFacts>,
    ) {
        if !self.settings.outputs.mirrored {
            return;
        }
        let starting = std::mem::replace(&mut self.starting, true);
        self.forget_mirror(name);
        if self.service(name).is_some_and(|service| service.selectorless) {
            if let Some(id) = self.endpoints.find(name) {
                self.endpoints.remove(id);
            }
            if let Some(facts) = endpoints {
                Endpoints::arrive(self, facts, 0);
            }
        }
        for facts in slices {
            MirroredSlice::arrive(self, facts, 0);
        }
        self.starting = starting;
    }

    fn managed(&self, name: &str) -> Option<ServiceId> {
        let id = self.services.find(name);
        id.filter(|&id| self.services[id].facts.is_managed())
    }
}
