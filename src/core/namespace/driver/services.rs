//! Events of Services, and the visits to their pods that these leave to be done.

use super::NamespaceState;
use crate::core::facts::ServiceFacts;
use crate::core::ids::ServiceId;
use crate::core::namespace::rounds::Visit;
use crate::core::namespace::services::{Compared, Finished, Pass, Queued};
use crate::core::work::TurnBudget;
use std::time::Duration;

impl NamespaceState {
    /// Applies a Service from a list (of the given epoch) or a watch. One with another UID than the known one is a new
    /// Service.
    pub fn apply_service(&mut self, facts: ServiceFacts, epoch: u8) {
        self.begin_service(facts, epoch);
        self.finish_passes();
    }

    /// Does what [`Self::apply_service`] does, but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_service(&mut self, facts: ServiceFacts, epoch: u8) {
        match self.placement().compare_service(facts, epoch) {
            Compared::Same => {}
            Compared::Changed(id, facts, reannotated) => {
                self.placement().notify_opting(id, &facts);
                self.update_service(id, facts);
                if reannotated {
                    self.services.queue(Pass::Notice(id));
                }
            }
            Compared::Other(facts) => {
                self.begin_removal(&facts.name);
                self.services.queue(Pass::Insert(Box::new(facts), epoch));
            }
        }
        self.pass_on();
    }

    /// Removes a Service, but leaves the visits to its pods to [`Self::step_passes`]. Its slices stay: the garbage collector
    /// deletes them.
    pub fn begin_removal(&mut self, name: &str) {
        if let Some(id) = self.services.find(name) {
            // Events that come from now on are about another Service of this name.
            self.services.hide(id);
            if self.services[id].facts.is_managed() {
                self.stop_service(id);
            }
            self.services.queue(Pass::Remove(id));
        }
    }

    /// Applies a change of a Service as the API server has it.
    fn update_service(&mut self, id: ServiceId, facts: ServiceFacts) {
        let facts = self.services.facts_to_publish(&self.ctx, id, facts);
        self.publish_as(id, facts);
    }

    /// Looks at a Service that another controller takes over, if its time has come. Returns false if there is none. Leaves the
    /// visits to its pods to [`Self::step_passes`].
    pub fn look_at_handover(&mut self, now: Duration) -> bool {
        self.advance(now);
        let Some(id) = self.services.take_handover(now) else {
            return false;
        };
        if let Some(facts) = self.placement().continue_handover(id) {
            self.publish_as(id, facts);
        }
        true
    }

    fn publish_as(&mut self, id: ServiceId, facts: ServiceFacts) {
        self.services.renumber_ports(id, &facts);
        if facts.foreground && !self.services[id].facts.foreground {
            self.services.defer(&self.ctx, id);
        }
        let old = &self.services[id].facts;
        match (old.is_managed(), facts.is_managed()) {
            (false, managed) => {
                self.replace_unmanaged(id, facts);
                if managed {
                    self.placement().start_service(id);
                }
            }
            // Another controller's slices, and its alone.
            (true, true) if old.custom != facts.custom => {
                self.stop_service(id);
                self.services.queue(Pass::Replace(id, Box::new(facts)));
            }
            (true, true) => self.placement().reconfigure(id, facts),
            (true, false) => {
                self.placement().keep_ready_times(id);
                self.stop_service(id);
                self.services.queue(Pass::Replace(id, Box::new(facts)));
            }
        }
    }

    /// Applies a change of a Service that was not managed, or no longer is.
    fn replace_unmanaged(&mut self, id: ServiceId, facts: ServiceFacts) {
        let name = facts.name.clone();
        self.services[id].facts = facts;
        self.placement().withdraw_abandoned(id);
        self.mirroring().touch_mirror(&name);
    }

    fn stop_service(&mut self, id: ServiceId) {
        self.placement().stop_service(id);
        if !self.services[id].facts.custom {
            self.endpoints_desk().unmanage_endpoints(id);
        }
    }

    /// Carries on once the pods of a pass have been visited.
    fn finish(&mut self, finished: Finished) {
        match finished {
            Finished::Start(id) => {
                if !self.services[id].facts.custom {
                    self.placement().collect_endpoints(id, None);
                    self.endpoints_desk().manage_endpoints(id);
                }
                self.services.mark(id);
                self.placement().attribute_all(id);
            }
            Finished::Stop(id) => self.placement().stop_pods(id),
            Finished::Unmanage(id) => self.placement().finish_stop(id),
            Finished::Remove(id) => {
                let name = self.services.drop_service(id);
                self.endpoints_desk().delete_endpoints(&name);
                self.mirroring().touch_mirror(&name);
            }
            Finished::Replace(id, facts) => {
                let managed = facts.is_managed();
                self.replace_unmanaged(id, *facts);
                if managed {
                    self.placement().start_service(id);
                }
            }
            Finished::Insert(facts, epoch) => {
                let (name, managed, custom) = (facts.name.clone(), facts.is_managed(), facts.custom);
                let id = self.services.enter(*facts, epoch);
                self.placement().notify_new_service(id);
                if managed {
                    self.services.defer(&self.ctx, id);
                    self.placement().start_service(id);
                }
                if !managed || custom {
                    self.endpoints_desk().spare_endpoints(&name);
                }
                self.placement().attribute_all(id);
                self.mirroring().touch_mirror(&name);
            }
            Finished::Displace => self.services.visit_all(Visit::Reevaluate),
        }
    }

    /// Does the visits to pods, Services and objects that events have left, as far as the budget goes. Returns true when all are
    /// done.
    pub fn step_passes(&mut self, budget: &mut TurnBudget) -> bool {
        while let Some(queued) = self.services.next_pass() {
            if budget.is_spent() {
                self.services.queue_first(queued);
                return false;
            }
            let before = self.ctx.work.total();
            let looked_at = match queued {
                Queued::Pass(pass) => self.step_pass(pass),
                Queued::Round(round) => self.step_round(round),
            };
            self.pass_on();
            budget.spend(looked_at as u64 + self.ctx.work.total() - before);
        }
        true
    }

    /// Continues a pass. Returns the number of pods visited.
    fn step_pass(&mut self, pass: Pass) -> usize {
        let stepped = self.placement().step(pass);
        if let Some(finished) = stepped.finished {
            self.finish(finished);
        }
        if let Some(rest) = stepped.rest {
            self.services.queue_first(rest);
        }
        stepped.looked_at
    }

    /// Does what [`Self::step_passes`] does, to the end.
    pub(super) fn finish_passes(&mut self) {
        let done = self.step_passes(&mut TurnBudget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
    }
}
