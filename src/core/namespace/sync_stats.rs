//! What evaluations come to, and what all Services hold together: for who counts.

use super::NamespaceState;
use crate::core::address::Family;
use crate::core::hints::HintMode;
use crate::core::ids::ServiceId;

/// What one evaluation of a Service has done to its slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncReport {
    /// Endpoints that got a place.
    pub added: u32,
    /// Endpoints that had lost theirs since the evaluation before.
    pub removed: u32,
    /// Slices that differ from what the server has.
    pub slices: u32,
    /// What decides about the Service's hints.
    pub hints: HintMode,
}

/// What Services hold, as of their last evaluations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Endpoints that have a place in a slice.
    pub endpoints: usize,
    /// Slices in use.
    pub slices: usize,
    /// Slices that would do if all were filled; at least one for each Service and family.
    pub desired_slices: usize,
    /// Services whose endpoints are hinted to their own zones.
    pub same_zone: usize,
    /// Services whose endpoints are hinted to their own nodes.
    pub same_node: usize,
}

impl Totals {
    fn replace(&mut self, old: SyncStats, new: SyncStats) {
        let both = [(&old, false), (&new, true)];
        for (tally, adds) in both {
            let is = |mode| usize::from(tally.counts && tally.hints == mode);
            for (total, part) in [
                (&mut self.endpoints, tally.endpoints as usize),
                (&mut self.slices, tally.slices as usize),
                (&mut self.desired_slices, tally.desired_slices as usize),
                (&mut self.same_zone, is(HintMode::SameZone)),
                (&mut self.same_node, is(HintMode::SameNode)),
            ] {
                *total = if adds { *total + part } else { *total - part };
            }
        }
    }
}

/// A Service's part of the totals.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SyncStats {
    counts: bool,
    endpoints: u32,
    slices: u32,
    desired_slices: u32,
    hints: HintMode,
}

/// What happened to a Service's slices since its last evaluation.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Moves {
    pub(super) added: u32,
    pub(super) removed: u32,
    pub(super) slices: u32,
}

impl NamespaceState {
    /// The evaluations of the last plan, or of the comparisons since the last time.
    pub fn take_syncs(&mut self) -> Vec<SyncReport> {
        std::mem::take(&mut self.syncs)
    }

    /// What the Services hold.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// A Service has been evaluated.
    pub(super) fn tally(&mut self, id: ServiceId) {
        if !self.settings.outputs.slices {
            return;
        }
        let service = &mut self.services[id.index()];
        let mut tally = SyncStats {
            counts: true,
            hints: service.facts.hints,
            ..SyncStats::default()
        };
        for family in Family::ALL {
            let Some(state) = &service.families[family.index()] else {
                continue;
            };
            tally.slices += state.live;
            let mut desired = 0;
            for group in state.groups.iter() {
                tally.endpoints += group.endpoints;
                desired += group.endpoints.div_ceil(self.settings.max_endpoints as u32);
            }
            tally.desired_slices += desired.max(1);
        }
        let Moves {
            added,
            removed,
            slices,
        } = std::mem::take(&mut service.moves);
        self.syncs.push(SyncReport {
            added,
            removed,
            slices,
            hints: tally.hints,
        });
        let old = std::mem::replace(&mut service.tally, tally);
        self.totals.replace(old, tally);
    }

    /// A Service is not managed any more, or what it holds is forgotten.
    pub(super) fn untally(&mut self, id: ServiceId) {
        let service = &mut self.services[id.index()];
        service.moves = Moves::default();
        let old = std::mem::take(&mut service.tally);
        self.totals.replace(old, SyncStats::default());
    }
}
