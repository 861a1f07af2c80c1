//! The rounds over all Services or objects of a namespace, carried out step by step.

use super::NamespaceState;
use crate::core::ids::ServiceId;
use crate::core::namespace::Kind;
use crate::core::namespace::lifecycle::Lifecycle as _;
use crate::core::namespace::rounds::{Round, STRIDE, Sweep, Visit};

impl NamespaceState {
    /// Continues a round. Returns how many entries were looked at.
    pub(super) fn step_round(&mut self, round: Round) -> usize {
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
                let Sweep { kind, epoch, version } = sweep;
                let numbers = from..from + STRIDE;
                let more = match kind {
                    Kind::Slice => self.placement().sweep_some(epoch, version, numbers),
                    Kind::Endpoints => self.endpoints_desk().sweep_some(epoch, version, numbers),
                    Kind::Mirrored => self.mirroring().sweep_some(epoch, version, numbers),
                    Kind::Node | Kind::Pod | Kind::Service => false,
                };
                self.pass_on();
                if !more {
                    self.ctx.pending_lists.clear(kind);
                }
                more.then_some(Round::Sweep(sweep, from + STRIDE))
            }
        };
        if let Some(rest) = rest {
            self.services.queue_first(rest);
        }
        STRIDE
    }

    fn visit_service(&mut self, visit: Visit, id: ServiceId) {
        if self.services.get(id).is_none() {
            return;
        }
        match visit {
            Visit::ForgetSlices => self.services.forget_slices(id),
            Visit::ForgetFollowed => self.placement().forget_followed(id),
            Visit::Reevaluate => self.services.reevaluate(id),
            Visit::RenewEndpoints => self.endpoints_desk().renew_endpoints(id),
        }
    }
}
