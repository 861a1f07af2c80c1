//! Standing by: a process that does not write does not follow what others write either. It forgets slices and
//! Endpoints, keeps pods, Services and nodes up to date, and plans nothing. When it may write, both are listed whole
//! and adopted as at the start of a process, as the API server has them: the positions of endpoints too, which others
//! may have moved. So it writes what differs, and nothing else.
//!
//! Trigger times of changes that were seen while standing by are dropped, since another process has published them,
//! and it is not known which few came after that one's last write. These are published without a time, as by any
//! controller that has just started. A Service that was created meanwhile and not published yet gets the time of its
//! creation.

use super::deferral::Deferrals;
use super::passes::Pass;
use super::rounds::{Round, Visit};
use super::{Kind, NamespaceState};
use crate::core::hash::KeyedMap;
use crate::core::ids::PodId;
use crate::core::inputs::PodChange;
use std::ops::Range;

impl NamespaceState {
    /// Forgets the objects of a kind that others write from now on. Until it has been listed again nothing is planned.
    /// Answers to requests that are still in flight mean nothing any more.
    pub fn forget(&mut self, kind: Kind) {
        self.begin_forgetting(kind);
        self.finish_passes();
    }

    /// Does what [`Self::forget`] does, but leaves the visits to pods, Services and objects to
    /// [`Self::step_passes`]. Returns how much else was visited.
    pub(crate) fn begin_forgetting(&mut self, kind: Kind) -> u64 {
        debug_assert!(self.passes.is_empty(), "an event has not been applied in full");
        match kind {
            Kind::Slice => self.forget_slices(),
            Kind::Endpoints => self.forget_endpoints(),
            Kind::Mirrored => self.forget_mirrored(),
            // These are read only.
            Kind::Node | Kind::Pod | Kind::Service => return 1,
        }
        self.deferrals = Deferrals::default();
        self.starting = true;
        self.pending_lists.set(kind);
        // Those of mirrors.
        1 + self.mirrors.len() as u64
    }

    fn forget_slices(&mut self) {
        self.forget_followed();
        self.forget_leases();
        let slices = std::mem::take(&mut self.slices);
        self.passes.push_back(Pass::Round(Round::drop(slices)));
        self.unmanaged = KeyedMap::default();
        self.replacements.forget_slices();
        self.forget_twice();
        self.visit_services(Visit::ForgetSlices);
        let pods = self.inputs.all().collect();
        self.passes.push_back(Pass::Displace(pods));
    }

    /// Resets the positions of a pod's endpoints, whose slices have been forgotten, and visits them.
    pub(super) fn displace(&mut self, pod: PodId) {
        self.displace_members(pod, 0..self.memberships[pod].len());
    }

    /// Does what [`Self::displace`] does, for some of a pod's endpoints.
    pub(super) fn displace_members(&mut self, pod: PodId, members: Range<usize>) {
        self.memberships[pod].displace(members.clone());
        for at in members {
            self.visit(pod, at, PodChange::default());
        }
    }
}
