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
use super::lifecycle::Objects;
use super::passes::Pass;
use super::{Kind, NamespaceState};
use crate::core::compact::small::SmallSet;
use crate::core::hash::KeyedMap;
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::PodChange;
use crate::core::slices::FamilyState;
use std::ops::Range;

impl NamespaceState {
    /// Forgets the objects of a kind that others write from now on. Until it has been listed again nothing is planned.
    /// Answers to requests that are still in flight mean nothing any more.
    pub fn forget(&mut self, kind: Kind) {
        self.begin_forgetting(kind);
        self.finish_passes();
    }

    /// Does what [`Self::forget`] does, but leaves the visits to pods to [`Self::step_passes`]. Returns how many
    /// objects and Services were visited.
    pub(crate) fn begin_forgetting(&mut self, kind: Kind) -> u64 {
        debug_assert!(self.passes.is_empty(), "an event has not been applied in full");
        let outputs = self.slices.len() + self.endpoints.len() + self.mirrored.len();
        let looked_at = outputs + self.services.len();
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
        looked_at as u64
    }

    fn forget_slices(&mut self) {
        self.forget_followed();
        self.forget_leases();
        self.slices = Objects::default();
        self.unmanaged = KeyedMap::default();
        self.replacements.forget_slices();
        self.forget_twice();
        for service in self.services.values_mut() {
            service.slices = SmallSet::default();
            service.awaiting = 0;
            for family in service.families.iter_mut().flatten() {
                **family = FamilyState::default();
            }
        }
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

    /// Marks all managed Services to be evaluated, since none of their endpoints is placed any more.
    pub(super) fn finish_displacing(&mut self) {
        let services = self.services.iter();
        let managed = services.filter(|(_, service)| service.facts.is_managed());
        let managed: Vec<ServiceId> = managed.map(|(id, _)| id).collect();
        for service in managed {
            self.reset_sync_stats(service);
            self.mark(service);
        }
    }

    /// Forgets trigger times noted before the first plan, since those changes were there before this process wrote.
    pub(super) fn forget_triggers(&mut self) {
        for service in self.services.values_mut() {
            if service.known {
                service.trigger = None;
            }
        }
    }
}
