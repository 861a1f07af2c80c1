//! Standing by: a process that does not write does not follow what others write either. It forgets slices and
//! Endpoints, keeps pods, Services and nodes up to date, and plans nothing. When it may write, both are listed whole
//! and adopted as at the start of a process, as the API server has them: the positions of endpoints too, which others
//! may have moved. So it writes what differs, and nothing else.
//!
//! Trigger times of changes that were seen while standing by are dropped, since another process has published them,
//! and it is not known which few came after that one's last write. These are published without a time, as by any
//! controller that has just started. A Service that was created meanwhile and not published yet gets the time of its
//! creation.

use super::Services;
use super::passes::Pass;
use crate::core::compact::small::SmallSet;
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::PodChange;
use crate::core::namespace::Placement;
use crate::core::namespace::rounds::{Round, Visit};
use crate::core::slices::FamilyState;
use std::ops::Range;

impl Services {
    /// Has all Services visited.
    pub(in crate::core::namespace) fn visit_all(&mut self, visit: Visit) {
        self.queue(Round::Services(visit, 0));
    }

    /// Forgets the slices of one Service, which have been forgotten.
    pub(in crate::core::namespace) fn forget_slices(&mut self, id: ServiceId) {
        let service = &mut self.table[id];
        service.slices = SmallSet::default();
        service.awaiting = 0;
        for family in service.families.iter_mut().flatten() {
            **family = FamilyState::default();
        }
    }

    /// Marks a Service to be evaluated if it is managed, since none of its endpoints is placed any more.
    pub(in crate::core::namespace) fn reevaluate(&mut self, id: ServiceId) {
        if self.table[id].facts.is_managed() {
            self.reset_sync_stats(id);
            self.mark(id);
        }
    }
}

impl Placement<'_> {
    /// Forgets all slices.
    pub(in crate::core::namespace) fn forget_slices(&mut self) {
        if self.ctx.settings.outputs.custom {
            self.services.visit_all(Visit::ForgetFollowed);
        }
        let slices = self.slices.forget();
        self.inputs.forget_zones();
        self.services.queue(Round::drop(slices));
        self.services.visit_all(Visit::ForgetSlices);
        let pods = self.inputs.all().collect();
        self.services.queue(Pass::Displace(pods));
    }

    /// Resets the positions of a pod's endpoints, whose slices have been forgotten, and visits them.
    pub(in crate::core::namespace) fn displace(&mut self, pod: PodId) {
        self.displace_members(pod, 0..self.services.memberships[pod].len());
    }

    /// Does what [`Self::displace`] does, for some of a pod's endpoints.
    pub(in crate::core::namespace) fn displace_members(&mut self, pod: PodId, members: Range<usize>) {
        self.services.memberships[pod].displace(members.clone());
        for at in members {
            self.visit(pod, at, PodChange::default());
        }
    }

    /// Forgets the slices of a Service, managed or not. None of its pods is placed any more.
    pub(in crate::core::namespace) fn forget_slices_of(&mut self, name: &str) {
        let mut slices = self.slices.take_unmanaged(name);
        let managed = self.services.managed(name);
        let pods = managed.map(|id| self.pods_of(id)).unwrap_or_default();
        if let Some(id) = managed {
            let service = &mut self.services.table[id];
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
        let Some(id) = managed else { return };
        self.services.not_before.remove(&id);
        let forgets = self.services.table[id].following.is_some();
        for pod_id in pods {
            if forgets {
                self.forget_member(pod_id, id);
            } else if self.inputs.get(pod_id).is_some() {
                self.displace_members(pod_id, self.services.memberships[pod_id].of(id));
            }
        }
        self.services.reset_sync_stats(id);
    }
}
