//! Queries of the state of a namespace, and the notices and statistics that are taken from it.

use super::NamespaceState;
use crate::core::address::Family;
use crate::core::events::Notice;
use crate::core::facts::ServiceFacts;
use crate::core::hash::KeyedSet;
use crate::core::ids::Uid;
use crate::core::labels::Labels;
use crate::core::namespace::Sizes;
use crate::core::namespace::mirror::{MirrorSync, MirrorTotals};
use crate::core::namespace::services::{ServiceHealth, SyncReport, Totals};
use crate::core::object::Output;
use crate::core::slices::Conditions;
use crate::core::time::Time;
use crate::core::work::Work;
use std::net::IpAddr;
use std::sync::Arc;

impl NamespaceState {
    /// Returns the namespace's name.
    pub fn namespace(&self) -> &Arc<str> {
        &self.ctx.namespace
    }

    /// Returns the work done so far.
    pub fn work(&self) -> Work {
        self.ctx.work
    }

    /// Counts what it takes to take in an object that was read. Returns the units.
    pub fn count_read(&mut self, units: u64) -> u64 {
        self.ctx.count_read(units)
    }

    /// Takes the work done since it was last taken.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.ctx.work)
    }

    /// Takes the notices for users.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.ctx.notices.take()
    }

    /// Takes the number of notices that were dropped, since too many waited.
    pub fn take_dropped_notices(&mut self) -> u64 {
        self.ctx.notices.take_dropped()
    }

    /// Takes the number of times that others changed an object that they had changed twice before, by output.
    pub fn take_contested(&mut self) -> [u64; Output::ALL.len()] {
        std::mem::take(&mut self.ctx.contested)
    }

    /// Takes the evaluations of the last plan, or of the comparisons since the last call.
    pub fn take_syncs(&mut self) -> Vec<SyncReport> {
        self.services.take_syncs()
    }

    /// Returns the totals of the Services.
    pub fn totals(&self) -> Totals {
        self.services.totals()
    }

    /// Takes the evaluations of mirrors since the last call.
    pub fn take_mirror_syncs(&mut self) -> Vec<MirrorSync> {
        self.mirrors.take_syncs()
    }

    /// Returns the sizes of the mirrors.
    pub fn mirror_totals(&self) -> MirrorTotals {
        self.mirrors.totals()
    }

    /// Returns the number of pods, Services, slices, Endpoints objects, and label sets (whole and projected).
    pub fn sizes(&self) -> Sizes {
        let (full_sets, label_sets) = self.inputs.sizes_of_labels();
        Sizes {
            pods: self.inputs.len(),
            services: self.services.len(),
            slices: self.slices.len(),
            endpoints: self.endpoints.len(),
            full_sets,
            label_sets,
        }
    }

    /// Returns whether nothing is known and nothing is queued, so that the state can be dropped.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.services.is_empty()
            && self.slices.is_empty()
            && self.endpoints.is_empty()
            && self.mirrors.is_empty()
    }

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
        self.ctx.pending_lists.any()
    }

    /// Returns whether a Service has changed since it was last evaluated.
    pub fn is_dirty(&self) -> bool {
        self.services.has_dirty()
    }

    /// Takes the names of the Services that have changed since they were last evaluated, or taken here.
    pub fn take_dirty(&mut self) -> Vec<Arc<str>> {
        self.services.take_dirty_names()
    }

    /// Returns how the pods of a Service fare. `None` if nothing is published for it by this process: it is not managed, or is
    /// being deleted. The work grows with its pods.
    pub fn health(&self, service: &str) -> Option<ServiceHealth<'_>> {
        self.services.health(&self.ctx, &self.inputs, service)
    }

    /// Returns the addresses of the pods that belong to a Service, of either family, whether they are published or not.
    pub fn addresses_of_pods(&self, service: &str) -> KeyedSet<IpAddr> {
        let id = self.services.find(service);
        let pods = id
            .into_iter()
            .flat_map(|id| self.services.pods_of(&self.inputs, id));
        pods.filter_map(|pod| self.inputs.get(pod))
            .flat_map(|pod| Family::ALL.map(|family| pod.ip(family)))
            .flatten()
            .collect()
    }

    /// Returns each distinct set of labels that pods have, with the names of these pods.
    pub fn label_sets(&self) -> impl Iterator<Item = (Labels, Vec<&str>)> {
        self.inputs.label_sets()
    }
}
