//! Hints in proportion to the CPUs of the zones (`topology-mode: Auto`): the one thing about slices that requires a
//! look at all endpoints of a Service. Only Services that ask for it pay for it.

use super::Service;
use super::evaluate::Evaluation;
use super::members::desired;
use super::passes::Pass;
use crate::core::address::Family;
use crate::core::facts::EndpointFacts;
use crate::core::hints::{Disabled, Hint, HintMode, HintState, HintedEndpoint, HintedSlice, Zone, assign};
use crate::core::ids::{ServiceId, SliceId};
use crate::core::namespace::Placement;
use crate::core::nodes::{NodeDirectory, ZoneView};
use crate::core::object::Phase;
use crate::core::priority::Priority;
use crate::core::slices::{Difference, Slice};
use std::collections::BTreeSet;

/// The Services whose hints depend on the zones, and the zones while there are any.
#[derive(Clone, Debug, Default)]
pub(super) struct AutoHints {
    services: BTreeSet<ServiceId>,
    zones: Option<ZoneView>,
}

impl AutoHints {
    /// Records whether a Service depends on the zones.
    pub(super) fn note(&mut self, id: ServiceId, depends: bool) {
        if depends {
            self.services.insert(id);
        } else {
            self.services.remove(&id);
        }
    }

    /// Returns the Services, from one on.
    pub(super) fn from(&self, first: ServiceId) -> impl Iterator<Item = &ServiceId> {
        self.services.range(first..)
    }

    /// Takes a view of the zones, unless it is older than what is known. Returns the first Service that depends on it.
    fn update(&mut self, view: ZoneView) -> Option<ServiceId> {
        if self
            .zones
            .as_ref()
            .is_some_and(|known| known.version >= view.version)
        {
            return None;
        }
        self.zones = Some(view);
        self.services.first().copied()
    }
}

impl Placement<'_> {
    /// Subscribes to the zones when a Service depends on them, and unsubscribes when none does any more.
    pub(in crate::core::namespace) fn watch_zones(&mut self, nodes: &mut dyn NodeDirectory) {
        let hints = &mut self.services.auto_hints;
        match (hints.services.is_empty(), &hints.zones) {
            (true, Some(_)) => {
                hints.zones = None;
                nodes.forget_zones(&self.ctx.namespace);
            }
            (false, None) => {
                let view = nodes.zones(&self.ctx.namespace);
                self.apply_zones(view);
            }
            (true, None) | (false, Some(_)) => {}
        }
    }

    /// Applies a change of the zones' CPU: only the hints of the Services that depend on it are looked at, by the passes.
    pub(in crate::core::namespace) fn apply_zones(&mut self, view: ZoneView) {
        if let Some(first) = self.services.auto_hints.update(view) {
            self.services.queue(Pass::Rehint(first));
        }
    }

    /// Makes the next evaluation of a Service look at all its hints.
    pub(in crate::core::namespace) fn rehint_all(&mut self, id: ServiceId) {
        for state in self.services.table[id].families.iter_mut().flatten() {
            state.pending().rehint = true;
        }
        self.services.mark(id);
    }

    /// Records whether a Service depends on the zones.
    pub(in crate::core::namespace) fn note_hint_mode(&mut self, id: ServiceId) {
        let facts = &self.services.table[id].facts;
        let depends = facts.is_managed() && facts.hints == HintMode::Auto;
        self.services.auto_hints.note(id, depends);
    }

    /// Handles a change of a Service's mode. Endpoints whose hints stay the same are no reason to write.
    pub(in crate::core::namespace) fn switch_hints(&mut self, id: ServiceId, before: HintMode) {
        self.note_hint_mode(id);
        let now = self.services.table[id].facts.hints;
        for slice_id in self.slices.of(&self.services.table[id].slices, |slice| {
            slice.object.phase == Phase::Managed
        }) {
            let mut kept: Vec<Option<Zone>> = Vec::new();
            let mut changed = Vec::new();
            let (slice, service) = (&self.slices[slice_id], &self.services.table[id]);
            for (at, slot) in slice.slots.iter().enumerate() {
                let pod = self.inputs.pod(slot.pod);
                let ready = desired(pod, service).ready();
                let (node, zone) = self.inputs.node_and_zone(pod);
                let old = match before {
                    HintMode::Auto => auto_hint(slice, at),
                    mode => mode.hint(ready, zone.map(|zone| &**zone), node),
                };
                // Hints to a zone alone may stay, until the evaluation finds otherwise.
                let keep = old
                    .zone
                    .filter(|_| old.node.is_none() && now == HintMode::Auto)
                    .map(Zone::from);
                let new = match now {
                    HintMode::Auto => Hint {
                        zone: keep.as_deref(),
                        node: None,
                    },
                    mode => mode.hint(ready, zone.map(|zone| &**zone), node),
                };
                changed.push(old != new);
                kept.push(keep);
            }
            let slice = &mut self.slices[slice_id];
            slice.set_hints(if now == HintMode::Auto { kept } else { Vec::new() });
            for (at, changed) in changed.into_iter().enumerate() {
                if changed {
                    self.mark_stale(slice_id, at);
                    self.touch(slice_id, Priority::Rest);
                }
            }
        }
        self.rehint_all(id);
    }

    /// Marks an endpoint of which something published has changed, conditions aside.
    fn mark_stale(&mut self, id: SliceId, at: usize) {
        let slice = &mut self.slices[id];
        slice.slots[at].difference.add(Difference::Content);
        let wanted = desired(
            self.inputs.pod(slice.slots[at].pod),
            &self.services.table[slice.service],
        );
        slice.recount(at, wanted);
        slice.change(Priority::Rest);
    }

    /// Assigns hints to the endpoints of a family, if something about them may have changed. Slices that are not
    /// written anyway keep theirs as long as no zone gets too much.
    pub(super) fn assign_hints(&mut self, evaluation: &mut Evaluation) {
        let Evaluation { service, family, .. } = *evaluation;
        let state = self.services.table[service].family(family);
        let rehint = std::mem::take(&mut state.pending().rehint);
        if self.services.table[service].facts.hints != HintMode::Auto {
            self.hints_are(service, family, HintState::Off);
            return;
        }
        // A request that was built since its endpoints changed has taken the change along, and hints that are too
        // old: such a slice does not differ, and is a reason to look all the same.
        let is_managed = |&id: &SliceId| self.slices[id].object.phase == Phase::Managed;
        if !rehint && !evaluation.changed.iter().any(is_managed) {
            return;
        }
        let ids = self.slices.of(&self.services.table[service].slices, |slice| {
            slice.object.phase == Phase::Managed && slice.family == family
        });
        let slots = ids.iter().map(|&id| self.slices[id].slots.len() as u64);
        self.ctx.work.endpoints_visited += slots.sum::<u64>();
        let ratios = self.services.auto_hints.zones.as_ref().ok_or(Disabled::NoNodes);
        let ratios = ratios.and_then(|view| view.ratios.as_ref().map_err(|why| *why));
        let assigned = ratios.and_then(|ratios| {
            let hinted: Vec<_> = ids
                .iter()
                .map(|&id| self.hinted_slice(&self.slices[id], self.slice_differs(id)))
                .collect();
            assign(ratios, &hinted)
        });
        let is_hinted = |id: &SliceId| self.slices[*id].hints().iter().any(Option::is_some);
        if matches!(assigned, Err(Disabled::NoNodes | Disabled::OneZone))
            && ids.iter().any(is_hinted)
            && !ids.iter().any(|id| self.slice_differs(*id))
        {
            // Nodes have gone, and no zone that is left has too many endpoints.
            return;
        }
        let state = HintState::after(&assigned);
        let hints: Vec<_> = match assigned {
            Ok(assigned) => assigned
                .into_iter()
                .map(|given| (ids[given.slice], given.hints))
                .collect(),
            Err(_) => ids
                .iter()
                .map(|&id| (id, vec![None; self.slices[id].slots.len()]))
                .collect(),
        };
        self.hints_are(service, family, state);
        for (id, hints) in hints {
            let before = self.slices[id].set_hints(hints);
            for (at, before) in before.into_iter().enumerate() {
                if self.slices[id].hints()[at] != before {
                    self.mark_stale(id, at);
                    evaluation.changed.push(id);
                }
            }
        }
    }

    /// Notifies users when hints come or go, and of each new reason.
    fn hints_are(&mut self, service: ServiceId, family: Family, state: HintState) {
        let known = &mut self.services.table[service].family(family).hint_state;
        let event = std::mem::replace(known, state).event(state, family.as_str());
        if let Some(event) = event {
            self.notify_hints(service, event);
        }
    }

    fn hinted_slice<'a>(&'a self, slice: &'a Slice, touched: bool) -> HintedSlice<'a> {
        let service: &Service = &self.services.table[slice.service];
        let endpoints = slice.slots.iter().zip(slice.hints()).map(|(slot, hint)| {
            let pod = self.inputs.pod(slot.pod);
            HintedEndpoint {
                ready: desired(pod, service).ready(),
                zone: self.inputs.node_and_zone(pod).1,
                hint: hint.as_ref(),
            }
        });
        HintedSlice {
            touched,
            endpoints: endpoints.collect(),
        }
    }

    /// Adopts the hint that the API server has for an endpoint of a Service that depends on the zones. Returns true if
    /// the endpoint must be written for its hints alone.
    pub(in crate::core::namespace) fn reconcile_hint(
        &mut self,
        id: SliceId,
        at: usize,
        new: bool,
        endpoint: &EndpointFacts,
    ) -> bool {
        let slice = &self.slices[id];
        if slice.hints().is_empty() {
            return false;
        }
        let published = match (&endpoint.zone_hints[..], &endpoint.node_hints[..]) {
            ([zone], []) => {
                // Users were notified of these hints when they came.
                let (service, family) = (slice.service, slice.family);
                self.services.table[service].family(family).hint_state = HintState::On;
                Some(Zone::from(&**zone))
            }
            ([], []) => None,
            _ => return true,
        };
        let slice = &mut self.slices[id];
        if new {
            slice.hints_mut()[at] = published;
            return false;
        }
        slice.hints()[at] != published
    }
}

/// Returns the hint of an endpoint of a Service in the mode `Auto`.
pub(in crate::core::namespace) fn auto_hint(slice: &Slice, at: usize) -> Hint<'_> {
    Hint {
        zone: slice.hints().get(at).and_then(|zone| zone.as_deref()),
        node: None,
    }
}
