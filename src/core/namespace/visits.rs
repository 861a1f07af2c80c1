//! The rounds of [`super::rounds`], carried out step by step.

use super::endpoints::Endpoints;
use super::lifecycle::Published;
use super::mirror::MirroredSlice;
use super::passes::Pass;
use super::rounds::{Round, STRIDE, Sweep, Visit};
use super::{Kind, NamespaceState};
use crate::core::compact::small::SmallSet;
use crate::core::ids::ServiceId;
use crate::core::slices::{FamilyState, Slice};

impl NamespaceState {
    /// Continues a round. Returns the rest of it, and how many entries were looked at.
    pub(super) fn step_round(&mut self, round: Round) -> (Option<Round>, usize) {
        let rest = match round {
            Round::Services(visit, from) => {
                for number in from..from + STRIDE {
                    self.visit_service(visit, ServiceId::from(number));
                }
                let next = from + STRIDE;
                (next < self.services.end()).then_some(Round::Services(visit, next))
            }
            Round::Drop(mut objects, from) => {
                let more = objects.drop_some(from, STRIDE);
                more.then_some(Round::Drop(objects, from + STRIDE))
            }
            Round::Sweep(sweep, from) => {
                let more = match sweep.kind {
                    Kind::Slice => self.sweep_some::<Slice>(sweep, from),
                    Kind::Endpoints => self.sweep_some::<Endpoints>(sweep, from),
                    Kind::Mirrored => self.sweep_some::<MirroredSlice>(sweep, from),
                    Kind::Node | Kind::Pod | Kind::Service => false,
                };
                if !more {
                    self.pending_lists.clear(sweep.kind);
                }
                more.then_some(Round::Sweep(sweep, from + STRIDE))
            }
        };
        (rest, STRIDE)
    }

    /// Visits all Services.
    pub(super) fn visit_services(&mut self, visit: Visit) {
        self.passes.push_back(Pass::Round(Round::Services(visit, 0)));
    }

    fn visit_service(&mut self, visit: Visit, id: ServiceId) {
        let Some(service) = self.services.get_mut(id) else {
            return;
        };
        match visit {
            Visit::ForgetSlices => {
                service.slices = SmallSet::default();
                service.awaiting = 0;
                for family in service.families.iter_mut().flatten() {
                    **family = FamilyState::default();
                }
            }
            Visit::Reevaluate => {
                if service.facts.is_managed() {
                    self.reset_sync_stats(id);
                    self.mark(id);
                }
            }
            Visit::RenewEndpoints => self.renew_endpoints(id),
        }
    }

    /// Forgets trigger times noted before the first plan, since those changes were there before this process wrote: those of
    /// some Services, from a number on.
    pub(super) fn forget_triggers(&mut self, from: usize) {
        for number in from..from + STRIDE {
            if let Some(service) = self.services.get_mut(ServiceId::from(number))
                && service.known
            {
                service.trigger = None;
            }
        }
    }

    /// Returns the names of the pods or Services that the list of an epoch did not show, and where to go on if there may be
    /// more. Looks at some Services, from a number on; at all pods; and at nothing for other kinds.
    pub(crate) fn some_unlisted(&self, kind: Kind, epoch: u8, from: usize) -> (Vec<Box<str>>, Option<usize>) {
        if kind != Kind::Service {
            return (self.unlisted(kind, epoch), None);
        }
        let next = from + STRIDE;
        let some = (from..next).filter_map(|number| self.services.get(ServiceId::from(number)));
        let gone = some.filter(|service| service.epoch != epoch);
        let names = gone.map(|service| (*service.facts.name).into()).collect();
        (names, (next < self.services.end()).then_some(next))
    }

    /// Handles those of some objects that a list did not show. Returns whether there are more.
    fn sweep_some<T: Published>(&mut self, sweep: Sweep, from: usize) -> bool {
        let Sweep { epoch, version, .. } = sweep;
        for number in from..from + STRIDE {
            let entry = T::objects(self).get(number.into());
            let gone = entry.filter(|entry| entry.object().is_unlisted(epoch, version));
            if let Some(name) = gone.map(|entry| entry.name().to_owned()) {
                self.vanished::<T>(&name, version);
            }
        }
        let objects = T::objects_mut(self);
        let more = from + STRIDE < objects.end();
        if !more {
            objects.drop_older_arrivals(epoch);
        }
        more
    }
}
