//! Comparing instead of writing: a process that does not write beside one that does. It keeps what the server has
//! of slices and Endpoints, whole, as it is shown; and when it looks at a Service, it takes all of that over anew,
//! as it would if it began to write at this moment. What it would write then is what differs.
//!
//! So whoever writes decides how endpoints are spread over slices, and what these are called: any layout that this
//! process would leave alone is right. What was found at the last look plays no part in the next, but pods, Services
//! and nodes are followed as ever, and so is which Services they concern. A look costs as much as its Service is
//! large; how often one is looked at is for the caller to say.

use super::lifecycle::Published;
use super::members::desired;
use super::{Kind, NamespaceState, PendingLists, PodChange, Settings};
use crate::core::compact::small::SmallSet;
use crate::core::drift::{Difference, Drift, Operation};
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::hash::{KeyedMap, KeyedSet, hash_of};
use crate::core::ids::{ServiceId, SliceId};
use crate::core::object::{Output, Phase};
use crate::core::slices::{FamilyState, Slice};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The API server's objects, as far as they are of interest, and the Services that have to be looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    slices: KeyedMap<Box<str>, (u8, SliceFacts)>,
    by_service: KeyedMap<Arc<str>, BTreeSet<Box<str>>>,
    pub(super) endpoints: KeyedMap<Arc<str>, ShownEndpoints>,
    marked: KeyedSet<Arc<str>>,
}

/// An Endpoints object on the API server.
#[derive(Clone, Debug)]
pub(super) struct ShownEndpoints {
    epoch: u8,
    pub(super) facts: EndpointsFacts,
    /// Set when its Service existed and is gone.
    pub(super) doomed: bool,
}

impl Shown {
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.endpoints.is_empty() && self.marked.is_empty()
    }

    pub(super) fn slice(&mut self, facts: SliceFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        if let Some((at, known)) = self.slices.get_mut(&name)
            && known.meta.version >= facts.meta.version
        {
            *at = epoch;
            return;
        }
        self.forget_slice(&name);
        if facts.meta.deleting {
            return;
        }
        let service = facts.meta.service.clone();
        self.marked.insert(service.clone());
        self.by_service.entry(service).or_default().insert(name.clone());
        self.slices.insert(name, (epoch, facts));
    }

    pub(super) fn slice_gone(&mut self, name: &str, version: u64) {
        let known = self.slices.get(name);
        if known.is_some_and(|(_, facts)| facts.meta.version <= version) {
            self.forget_slice(name);
        }
    }

    fn forget_slice(&mut self, name: &str) {
        let Some((_, facts)) = self.slices.remove(name) else {
            return;
        };
        let service = facts.meta.service;
        if let Some(names) = self.by_service.get_mut(&service) {
            names.remove(name);
            if names.is_empty() {
                self.by_service.remove(&service);
            }
        }
        self.marked.insert(service);
    }

    pub(super) fn endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        let mut doomed = false;
        if let Some(known) = self.endpoints.get_mut(&name) {
            if known.facts.meta.version >= facts.meta.version {
                known.epoch = epoch;
                return;
            }
            doomed = known.doomed && known.facts.meta.uid == facts.meta.uid;
        }
        self.marked.insert(name.clone());
        let shown = ShownEndpoints { epoch, facts, doomed };
        self.endpoints.insert(name, shown);
    }

    pub(super) fn endpoints_gone(&mut self, name: &str, version: u64) {
        let known = self.endpoints.get(name);
        if known.is_some_and(|known| known.facts.meta.version <= version)
            && let Some((name, _)) = self.endpoints.remove_entry(name)
        {
            self.marked.insert(name);
        }
    }

    /// Marks a Service that is no longer managed.
    pub(super) fn mark(&mut self, name: &Arc<str>) {
        self.marked.insert(name.clone());
    }

    /// Handles a Service that is gone.
    pub(super) fn service_gone(&mut self, name: &Arc<str>) {
        if let Some(known) = self.endpoints.get_mut(name) {
            known.doomed = true;
        }
        self.marked.insert(name.clone());
    }

    /// Completes the list of an epoch: what it did not show is gone.
    pub(super) fn sweep(&mut self, kind: Kind, epoch: u8, version: u64) {
        match kind {
            Kind::Slice => {
                let slices = self.slices.iter();
                let gone = slices.filter(|(_, (at, facts))| *at != epoch && facts.meta.version <= version);
                let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
                for name in gone {
                    self.forget_slice(&name);
                }
            }
            Kind::Endpoints => {
                let endpoints = self.endpoints.iter();
                let gone = endpoints
                    .filter(|(_, known)| known.epoch != epoch && known.facts.meta.version <= version);
                let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
                for name in gone {
                    self.endpoints_gone(&name, version);
                }
            }
            Kind::Node | Kind::Pod | Kind::Service => {}
        }
    }

    pub(super) fn forget(&mut self, kind: Kind) {
        match kind {
            Kind::Slice => {
                self.marked.extend(self.by_service.drain().map(|(name, _)| name));
                self.slices = KeyedMap::default();
            }
            Kind::Endpoints => self.marked.extend(self.endpoints.drain().map(|(name, _)| name)),
            Kind::Node | Kind::Pod | Kind::Service => {}
        }
    }
}

impl NamespaceState {
    /// Creates the state of a namespace of which nothing is known yet, in a process that does not write: it plans
    /// nothing, and is asked by [`Self::compare`] instead. It is shown whole objects, by lists and by watches.
    pub fn comparing(namespace: Arc<str>, settings: Settings, pending_lists: PendingLists) -> Self {
        let mut state = Self::new(namespace, settings, pending_lists);
        state.shown = Some(Box::default());
        // Each look is a beginning.
        state.starting = true;
        state
    }

    /// Returns whether a Service has to be looked at, and can be.
    pub fn is_marked(&self) -> bool {
        let shown = self.shown.as_ref().filter(|_| !self.pending_lists.any());
        shown.is_some_and(|shown| !self.dirty.is_empty() || !shown.marked.is_empty())
    }

    /// Takes the Services of which something has changed since the last call, in order. While a list is pending, there
    /// are none.
    pub fn take_marked(&mut self) -> Vec<Arc<str>> {
        let Some(shown) = self.shown.as_mut().filter(|_| !self.pending_lists.any()) else {
            return Vec::new();
        };
        for id in std::mem::take(&mut self.dirty) {
            // The index may belong to another Service by now.
            if let Some(service) = self.services.get_mut(id)
                && std::mem::take(&mut service.dirty)
            {
                shown.marked.insert(service.facts.name.clone());
            }
        }
        let mut marked: Vec<_> = std::mem::take(&mut shown.marked).into_iter().collect();
        marked.sort_unstable();
        self.grant_nothing();
        marked
    }

    /// Drops all queued work, since differences are found by comparing.
    fn grant_nothing(&mut self) {
        self.slices.want_nothing();
        self.endpoints.want_nothing();
    }

    /// Returns what this process would write for a Service, or for what is left of one that is gone.
    pub fn compare(&mut self, name: &Arc<str>) -> Vec<Difference> {
        let mut found = Vec::new();
        if self.pending_lists.any() || self.shown.is_none() {
            return found;
        }
        match self.services.find(name) {
            Some(id) if self.services[id].facts.selector.is_some() => {
                if self.settings.outputs.slices {
                    self.take_over_slices(id, name);
                }
                self.services[id].dirty = true;
                self.evaluate(id);
                self.differing_slices(id, &mut found);
                self.differing_endpoints(id, &mut found);
                self.grant_nothing();
                let services = &self.services;
                self.dirty
                    .retain(|&id| services.get(id).is_some_and(|service| service.dirty));
            }
            Some(_) => {}
            None => self.leftover_endpoints(name, &mut found),
        }
        found
    }

    fn take_over_slices(&mut self, id: ServiceId, name: &Arc<str>) {
        self.forget_slices_of(id);
        let Some(shown) = &self.shown else { return };
        let names = shown.by_service.get(name).into_iter().flatten();
        let mut slices: Vec<_> = names.filter_map(|name| shown.slices.get(name)).cloned().collect();
        slices.sort_unstable_by(|(_, a), (_, b)| (a.created, &a.meta.name).cmp(&(b.created, &b.meta.name)));
        for (epoch, facts) in slices {
            Slice::arrive(self, facts, epoch);
        }
    }

    /// Forgets what the last look at a Service found. None of its pods is placed any more.
    pub(super) fn forget_slices_of(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        for slice in std::mem::take(&mut service.slices).iter() {
            self.slices.remove(slice);
        }
        service.slices = SmallSet::default();
        for family in service.families.iter_mut().flatten() {
            **family = FamilyState::default();
        }
        for pod_id in self.cache.pods(id) {
            let Some(pod) = self.pods.get_mut(pod_id) else {
                continue;
            };
            for at in pod.members_of(id) {
                let member = &mut self.pods[pod_id].members[at];
                (member.slice, member.at, member.queued) = (SliceId::NONE, 0, false);
                self.visit(pod_id, at, PodChange::default());
            }
        }
    }

    fn differing_slices(&self, id: ServiceId, found: &mut Vec<Difference>) {
        let service = &self.services[id];
        let mut created = 0;
        for slice_id in service.slices.iter() {
            let slice = &self.slices[slice_id];
            if !self.is_due(slice) {
                continue;
            }
            let (operation, name) = match (slice.object.phase, &slice.object.remote) {
                (Phase::Managed, None) => (Operation::Create, None),
                (Phase::Managed, Some(_)) => (Operation::Update, Some(slice.name.clone())),
                _ => (Operation::Delete, Some(slice.name.clone())),
            };
            let deviation = Drift {
                operation,
                output: Output::Slice,
                ordinal: created,
                name,
            };
            created += u32::from(operation == Operation::Create);
            let before = found.len();
            let mut add = |key| {
                let deviation = deviation.clone();
                found.push(Difference { key, deviation });
            };
            for slot in slice.slots.iter().filter(|slot| slot.dirty) {
                let pod = &self.pods[slot.pod];
                let conditions = desired(pod, service);
                add(hash_of(&(slice.family, &pod.uid, conditions, pod.ready_time)));
            }
            if slice.removed > 0 {
                self.unwanted_in(slice_id, slice, &mut add);
            }
            if slice.object.rewrite && slice.object.remote.is_some() {
                add(hash_of(&("rewrite", &slice.name)));
            }
            if found.len() == before {
                // A slice to delete, or one without endpoints to create.
                let name = deviation.name.as_ref();
                let key = hash_of(&(operation, slice.family, name));
                found.push(Difference { key, deviation });
            }
        }
    }

    /// Adds the endpoints that the API server has in a slice and that should not be there.
    fn unwanted_in(&self, id: SliceId, slice: &Slice, add: &mut impl FnMut(u64)) {
        let shown = self
            .shown
            .as_ref()
            .and_then(|shown| shown.slices.get(&*slice.name));
        let Some((_, facts)) = shown else { return };
        let mut count = 0;
        for endpoint in &facts.endpoints {
            let pod = endpoint.pod.as_deref().and_then(|name| self.pods.find(name));
            let pod = pod.map(|pod| &self.pods[pod]);
            let member = pod.and_then(|pod| Some(pod.members[pod.member(slice.service, slice.family)?]));
            if member.is_none_or(|member| member.slice != id) {
                count += 1;
                add(hash_of(&(&slice.name, &endpoint.pod_uid, &endpoint.addresses)));
            }
        }
        if count < slice.removed {
            add(hash_of(&("twice", &slice.name)));
        }
    }
}
