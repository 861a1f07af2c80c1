//! The published objects of a namespace, whole, as the API server has them.

use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::hash::{KeyedMap, KeyedSet};
use crate::core::inbox::Change;
use crate::core::namespace::{Kind, ObjectEvent, OutputEvent};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The slices and Endpoints of a namespace, and the Services of which an object has changed.
#[derive(Debug, Default)]
pub(super) struct Published {
    slices: KeyedMap<Box<str>, Stored<SliceFacts>>,
    by_service: KeyedMap<Arc<str>, BTreeSet<Box<str>>>,
    endpoints: KeyedMap<Arc<str>, Stored<EndpointsFacts>>,
    changed: KeyedSet<Arc<str>>,
}

#[derive(Debug)]
struct Stored<F> {
    facts: F,
    /// The epoch of the last list that showed it.
    epoch: u8,
    /// Set when there has been a Service of its name. Only for Endpoints.
    had_service: bool,
}

impl Published {
    /// Applies a change of a slice, of an Endpoints object, or of a whole list. Changes of other kinds, and those of
    /// which only the metadata is known, say nothing here. `is_known` says whether there has been a Service of a name.
    pub(super) fn apply(&mut self, change: Change, is_known: impl Fn(&str) -> bool) {
        match change {
            Change::Output(OutputEvent::Slice(event) | OutputEvent::Mirrored(event)) => match event {
                ObjectEvent::Whole(facts, epoch) => self.slice(*facts, epoch),
                ObjectEvent::Meta(..) => {}
                ObjectEvent::Gone(name, version) => {
                    let known = self.slices.get(&name);
                    if known.is_some_and(|known| known.facts.meta.version <= version) {
                        self.forget_slice(&name);
                    }
                }
            },
            Change::Output(OutputEvent::Endpoints(event)) => match event {
                ObjectEvent::Whole(facts, epoch) => self.object(*facts, epoch),
                ObjectEvent::Meta(..) => {}
                ObjectEvent::Gone(name, version) => {
                    let known = self.endpoints.get(&*name);
                    if known.is_some_and(|known| known.facts.meta.version <= version) {
                        self.endpoints.remove(&*name);
                        self.changed.insert(name.into());
                    }
                }
            },
            Change::End(Kind::Service, ..) => {
                for (name, known) in &mut self.endpoints {
                    known.had_service |= is_known(name);
                }
                let names = self.by_service.keys().chain(self.endpoints.keys());
                self.changed.extend(names.cloned());
            }
            Change::End(kind, epoch, version) => self.sweep(kind, epoch, version),
            Change::Forget(kind @ (Kind::Slice | Kind::Mirrored)) => {
                self.forget_slices(|known| known.facts.is_mirrored() == (kind == Kind::Mirrored));
            }
            Change::Forget(Kind::Endpoints) => {
                self.changed.extend(self.endpoints.drain().map(|(name, _)| name));
            }
            _ => {}
        }
    }

    fn slice(&mut self, facts: SliceFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        if let Some(known) = self.slices.get_mut(&name)
            && known.facts.meta.version >= facts.meta.version
        {
            known.epoch = epoch;
            return;
        }
        self.forget_slice(&name);
        if facts.meta.deleting {
            return;
        }
        let service = facts.meta.service.clone();
        self.changed.insert(service.clone());
        self.by_service.entry(service).or_default().insert(name.clone());
        let had_service = false;
        let stored = Stored {
            facts,
            epoch,
            had_service,
        };
        self.slices.insert(name, stored);
    }

    fn forget_slice(&mut self, name: &str) {
        let Some(Stored { facts, .. }) = self.slices.remove(name) else {
            return;
        };
        let service = facts.meta.service;
        if let Some(names) = self.by_service.get_mut(&service) {
            names.remove(name);
            if names.is_empty() {
                self.by_service.remove(&service);
            }
        }
        self.changed.insert(service);
    }

    fn forget_slices(&mut self, gone: impl Fn(&Stored<SliceFacts>) -> bool) {
        let slices = self.slices.iter();
        let gone = slices.filter(|(_, known)| gone(known));
        let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.forget_slice(&name);
        }
    }

    fn object(&mut self, facts: EndpointsFacts, epoch: u8) {
        let name = facts.meta.name.clone();
        let mut had_service = false;
        if let Some(known) = self.endpoints.get_mut(&name) {
            if known.facts.meta.version >= facts.meta.version {
                known.epoch = epoch;
                return;
            }
            had_service = known.had_service && known.facts.meta.uid == facts.meta.uid;
        }
        self.changed.insert(name.clone());
        let stored = Stored {
            facts,
            epoch,
            had_service,
        };
        self.endpoints.insert(name, stored);
    }

    /// Forgets what the list of an epoch did not show. If it was a list of Services, any of them may be gone.
    fn sweep(&mut self, kind: Kind, epoch: u8, version: u64) {
        match kind {
            Kind::Slice | Kind::Mirrored => self.forget_slices(|known| {
                known.facts.is_mirrored() == (kind == Kind::Mirrored)
                    && known.epoch != epoch
                    && known.facts.meta.version <= version
            }),
            Kind::Endpoints => {
                let changed = &mut self.changed;
                self.endpoints.retain(|name, known| {
                    let gone = known.epoch != epoch && known.facts.meta.version <= version;
                    if gone {
                        changed.insert(name.clone());
                    }
                    !gone
                });
            }
            Kind::Node | Kind::Pod | Kind::Service => {}
        }
    }

    /// Records that a Service has changed, so that what is published of it has to be looked at. `is_known` says whether
    /// it was there before the change.
    pub(super) fn mark(&mut self, service: Arc<str>, is_known: bool) {
        if let Some(known) = self.endpoints.get_mut(&service) {
            known.had_service |= is_known;
        }
        self.changed.insert(service);
    }

    /// Returns whether an object has changed, or a Service was marked.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Takes the Services of which an object has changed, and those that were marked.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// Returns all slices that name a Service, by name.
    pub(super) fn slices_of(&self, service: &str) -> impl Iterator<Item = &SliceFacts> {
        let names = self.by_service.get(service).into_iter().flatten();
        names.map(|name| &self.slices[name].facts)
    }

    /// Returns the Endpoints object of a name.
    pub(super) fn endpoints_of(&self, service: &str) -> Option<&EndpointsFacts> {
        self.endpoints.get(service).map(|known| &known.facts)
    }

    /// Returns whether the Endpoints object of a name has lost its Service, given whether that exists now.
    pub(super) fn is_orphaned(&mut self, service: &str, exists: bool) -> bool {
        let Some(known) = self.endpoints.get_mut(service) else {
            return false;
        };
        known.had_service |= exists;
        known.had_service && !exists
    }

    /// Returns whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.endpoints.is_empty() && self.changed.is_empty()
    }
}

/// The published objects of a Service.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    /// All slices that name it, by name.
    pub slices: Vec<&'a SliceFacts>,
    /// The Endpoints object of its name.
    pub endpoints: Option<&'a EndpointsFacts>,
    /// The managed slices that hold an endpoint of each pod, as indices.
    holders: OnceCell<KeyedMap<&'a str, Vec<usize>>>,
}

impl<'a> Around<'a> {
    pub(super) fn new(published: &'a Published, service: &str) -> Self {
        Self {
            slices: published.slices_of(service).collect(),
            endpoints: published.endpoints_of(service),
            holders: OnceCell::new(),
        }
    }

    /// Returns a slice by its name.
    pub(super) fn slice(&self, name: &str) -> Option<&'a SliceFacts> {
        let found = self.slices.binary_search_by(|slice| (*slice.meta.name).cmp(name));
        found.ok().map(|at| self.slices[at])
    }

    /// Returns another managed slice of the same family and owner that holds the same pod.
    pub(super) fn elsewhere(&self, slice: &SliceFacts, pod: Option<&str>) -> Option<&'a SliceFacts> {
        let holders = self.holders.get_or_init(|| {
            let mut holders: KeyedMap<&str, Vec<usize>> = KeyedMap::default();
            for (at, slice) in self
                .slices
                .iter()
                .enumerate()
                .filter(|(_, slice)| slice.is_written())
            {
                for pod in slice
                    .endpoints
                    .iter()
                    .filter_map(|endpoint| endpoint.pod.as_deref())
                {
                    // A slice may hold thousands of endpoints of one pod.
                    let holders: &mut Vec<usize> = holders.entry(pod).or_default();
                    if holders.last() != Some(&at) {
                        holders.push(at);
                    }
                }
            }
            holders
        });
        let holders = holders.get(pod?)?.iter().map(|&at| self.slices[at]);
        let mut others = holders.filter(|other| {
            other.family == slice.family
                && other.meta.owner.meet(&slice.meta.owner)
                && other.meta.name != slice.meta.name
        });
        others.next()
    }
}
