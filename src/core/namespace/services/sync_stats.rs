//! Statistics of evaluations, and of what all Services hold together.

use super::Services;
use crate::core::address::Family;
use crate::core::hints::HintMode;
use crate::core::ids::ServiceId;
use crate::core::namespace::Placement;

/// The changes that one evaluation of a Service made to its slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncReport {
    /// Endpoints that were placed.
    pub added: u32,
    /// Endpoints that were removed since the evaluation before.
    pub removed: u32,
    /// Slices that differ from what the API server has.
    pub slices: u32,
    /// The mode of the Service's hints.
    pub hints: HintMode,
}

/// The sizes of Services, as of their last evaluations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Endpoints that are placed in a slice.
    pub endpoints: usize,
    /// Slices in use.
    pub slices: usize,
    /// Slices that would do if all were filled; at least one for each Service and family.
    pub desired_slices: usize,
    /// Services whose endpoints are hinted to their own zones.
    pub same_zone: usize,
    /// Services whose endpoints are hinted to their own nodes.
    pub same_node: usize,
    /// Services whose selector is an annotation that can be used.
    pub annotated: usize,
    /// Services whose selector is an annotation that cannot be used.
    pub frozen: usize,
}

impl Totals {
    fn replace(&mut self, old: SyncStats, new: SyncStats) {
        let both = [(&old, false), (&new, true)];
        for (stats, adds) in both {
            let is = |mode| usize::from(stats.counts && stats.hints == mode);
            for (total, part) in [
                (&mut self.endpoints, stats.endpoints as usize),
                (&mut self.slices, stats.slices as usize),
                (&mut self.desired_slices, stats.desired_slices as usize),
                (&mut self.same_zone, is(HintMode::SameZone)),
                (&mut self.same_node, is(HintMode::SameNode)),
                (&mut self.annotated, usize::from(stats.selector == Some(true))),
                (&mut self.frozen, usize::from(stats.selector == Some(false))),
            ] {
                *total = if adds { *total + part } else { *total - part };
            }
        }
    }
}

/// A Service's part of the totals.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::core::namespace) struct SyncStats {
    counts: bool,
    endpoints: u32,
    slices: u32,
    desired_slices: u32,
    hints: HintMode,
    /// Whether the selector in its annotation can be used, if that counts.
    selector: Option<bool>,
}

/// The changes to a Service's slices since its last evaluation.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::core::namespace) struct Moves {
    pub(in crate::core::namespace) added: u32,
    pub(in crate::core::namespace) removed: u32,
    pub(in crate::core::namespace) slices: u32,
}

impl Services {
    /// Takes the evaluations of the last plan, or of the comparisons since the last call.
    pub(in crate::core::namespace) fn take_syncs(&mut self) -> Vec<SyncReport> {
        std::mem::take(&mut self.syncs)
    }

    /// Returns the totals of the Services.
    pub(in crate::core::namespace) fn totals(&self) -> Totals {
        self.totals
    }

    /// Uncounts a Service that is no longer managed, or whose content is forgotten.
    pub(in crate::core::namespace) fn reset_sync_stats(&mut self, id: ServiceId) {
        let service = &mut self.table[id];
        service.moves = Moves::default();
        let old = std::mem::take(&mut service.sync_stats);
        self.totals.replace(old, SyncStats::default());
    }
}

impl Placement<'_> {
    /// Counts a Service that has been evaluated.
    pub(in crate::core::namespace) fn record_sync(&mut self, id: ServiceId) {
        if !self.ctx.writes_slices(&self.services.table[id].facts) {
            return;
        }
        let service = &mut self.services.table[id];
        let mut stats = SyncStats {
            counts: true,
            hints: service.facts.hints,
            selector: (service.facts.custom && !service.is_handed_over())
                .then_some(!service.facts.is_frozen()),
            ..SyncStats::default()
        };
        for family in Family::ALL {
            let Some(state) = &service.families[family.index()] else {
                continue;
            };
            stats.slices += state.managed;
            let mut desired = 0;
            for group in state.groups.iter() {
                stats.endpoints += group.endpoints;
                desired += group.endpoints.div_ceil(self.ctx.settings.max_endpoints as u32);
            }
            stats.desired_slices += desired.max(1);
        }
        let Moves {
            added,
            removed,
            slices,
        } = std::mem::take(&mut service.moves);
        self.services.syncs.push(SyncReport {
            added,
            removed,
            slices,
            hints: stats.hints,
        });
        let old = std::mem::replace(&mut service.sync_stats, stats);
        self.services.totals.replace(old, stats);
    }
}
