//! Plans and requests. A plan evaluates the Services that have changed and returns the objects that are due. It is made
//! in steps, since thousands of Services may have changed at once.

use super::NamespaceState;
use crate::core::body::Encode;
use crate::core::ids::ServiceId;
use crate::core::namespace::lifecycle::{BuiltRequest, Lifecycle as _, Outcome};
use crate::core::namespace::mirror::{Assignment, Preparation};
use crate::core::namespace::rounds::STRIDE;
use crate::core::namespace::services::{Start, Trigger};
use crate::core::namespace::{OutputEvent, WorkItem};
use crate::core::object::{ObjectName, Output};
use crate::core::work::{EVALUATION, EVENT, TurnBudget};
use std::sync::Arc;
use std::vec::IntoIter;

/// A plan in progress.
#[derive(Clone, Default, Debug)]
pub(super) struct Planning {
    /// The number of the next Service whose trigger time is to be forgotten. Used when this process begins to write.
    untriggered: usize,
    /// The progress of telling users about problems that were there before this process began to write.
    start: Option<Box<Start>>,
    /// The Services that were dirty when the plan was begun. `None` until everything has been adopted.
    dirty: Option<IntoIter<ServiceId>>,
    /// The mirrors that were dirty when these Services had been evaluated.
    mirrors: Option<IntoIter<Arc<str>>>,
    /// The mirror whose Endpoints are being laid out.
    preparation: Option<Box<Preparation>>,
    /// The mirror that is being evaluated.
    assignment: Option<Box<Assignment>>,
    /// Everything has been evaluated, and objects that were blocked are being released.
    releasing: bool,
}

impl NamespaceState {
    /// Builds the request of an object whose turn has come, from the state at that moment, or returns `None` if
    /// nothing is due any more. At most one request of an object is in flight at a time.
    pub fn build_request<E: Encode>(
        &mut self,
        object: &ObjectName,
        encoder: &mut E,
    ) -> Option<BuiltRequest<E::Body>> {
        let built = match object.output {
            Output::Slice => self.placement().build_request(&object.name, encoder),
            Output::Endpoints => self.endpoints_desk().build_request(&object.name, encoder),
            Output::Mirrored => self.mirroring().build_request(&object.name, encoder),
        };
        self.pass_on();
        built
    }

    /// Handles the answer to an object's request; `why` is what the API server said of a refusal. Returns the object
    /// if it is due again.
    pub fn apply_outcome(
        &mut self,
        object: &ObjectName,
        outcome: Outcome,
        why: Option<&str>,
    ) -> Option<WorkItem> {
        let name = &object.name;
        let due = match object.output {
            Output::Slice => {
                let due = self.placement().apply_outcome(name, outcome, why);
                // Mirrored slices of the Service may have stayed until this one was created.
                if let Some(id) = self.slices.find(name) {
                    self.mirrors.evaluate_later(&self.slices[id].service_name);
                }
                due
            }
            Output::Endpoints => {
                let due = self.endpoints_desk().apply_outcome(name, outcome, why);
                self.pass_on();
                self.mirroring().read_to_mirror(name);
                due
            }
            Output::Mirrored => {
                let due = self.mirroring().apply_outcome(name, outcome, why);
                self.mirroring().stop_waiting_for_mirrored(name);
                due
            }
        };
        self.pass_on();
        due
    }

    /// Evaluates what has changed and returns the objects that are due, in the order in which they should go. While a
    /// list is pending, there are none.
    pub fn plan(&mut self) -> Vec<WorkItem> {
        let mut wants = Vec::new();
        let done = self.step_plan(&mut wants, &mut TurnBudget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
        wants
    }

    /// Does what [`Self::plan`] does, as far as the budget goes; returns true when the plan is complete. Adds the
    /// objects that are due by what has been evaluated so far. No event, grant or outcome may come in between.
    pub fn step_plan(&mut self, wants: &mut Vec<WorkItem>, budget: &mut TurnBudget) -> bool {
        if self.ctx.pending_lists.any() {
            return true;
        }
        debug_assert!(
            !self.services.has_passes(),
            "an event has not been applied in full"
        );
        if !self.has_to_plan() {
            return true;
        }
        let resumed = self.planning.is_some();
        // Most plans are done in one step: one is put on the heap only if another step is left.
        let mut planning = if let Some(planning) = self.planning.take() {
            *planning
        } else {
            // They must not pile up where they are not counted and taken.
            self.services.take_syncs();
            self.mirrors.take_syncs();
            Planning::default()
        };
        // The objects that the step before has left come first.
        let mut done = !resumed || self.collect_wants(wants, budget);
        done = done && self.evaluate_some(&mut planning, budget);
        self.pass_on();
        done = done && self.release_some(&mut planning, budget);
        done &= self.collect_wants(wants, budget);
        if !done {
            self.planning = Some(Box::new(planning));
        }
        done
    }

    /// Queues the objects that could not be written before everything was evaluated. Returns false if the budget ends before
    /// all have been looked at.
    fn release_some(&mut self, planning: &mut Planning, budget: &mut TurnBudget) -> bool {
        if !planning.releasing {
            planning.releasing = true;
            self.placement().begin_release();
            self.endpoints_desk().begin_release();
            self.mirroring().begin_release();
        }
        let done = self.placement().release_some(budget)
            && self.endpoints_desk().release_some(budget)
            && self.mirroring().release_some(budget);
        if done {
            self.services.planned();
        }
        done
    }

    /// Adds the objects that are due, as far as is known. Returns false if the budget ends before all have been looked at.
    fn collect_wants(&mut self, wants: &mut Vec<WorkItem>, budget: &mut TurnBudget) -> bool {
        // Slices first: few clients still read Endpoints.
        self.placement().plan_due(wants, budget)
            && self.endpoints_desk().plan_due(wants, budget)
            && self.mirroring().plan_due(wants, budget)
    }

    /// Returns whether anything has changed since the last plan. Most messages to a shard are answers and events of its own
    /// writes, after which nothing is to be planned.
    fn has_to_plan(&self) -> bool {
        self.ctx.starting
            || self.planning.is_some()
            || self.services.has_dirty()
            || self.slices.has_to_plan()
            || self.endpoints.has_to_plan()
            || self.mirrors.has_to_plan()
    }

    fn evaluate_some(&mut self, planning: &mut Planning, budget: &mut TurnBudget) -> bool {
        if !self.adopt_some(budget)
            || !self.forget_some_triggers(planning, budget)
            || !self.start_some(planning, budget)
        {
            return false;
        }
        let dirty = (planning.dirty).get_or_insert_with(|| self.services.take_dirty().into_iter());
        for id in dirty {
            let before = self.ctx.work.total();
            self.evaluate(id);
            budget.spend(EVALUATION + self.ctx.work.total() - before);
            if budget.is_spent() {
                return false;
            }
        }
        let dirty = planning.mirrors.get_or_insert_with(|| self.mirrors.take_dirty());
        loop {
            if let Some(preparation) = &mut planning.preparation {
                if !self.mirroring().step_preparation(preparation, budget) {
                    return false;
                }
                planning.assignment = self.mirroring().begin_counted(preparation.name(), budget);
                planning.preparation = None;
            }
            if let Some(assignment) = &mut planning.assignment {
                let done = self.mirroring().step_assignment(assignment, budget);
                self.pass_on();
                if !done {
                    return false;
                }
                planning.assignment = None;
            }
            if budget.is_spent() {
                return false;
            }
            let Some(name) = dirty.next() else {
                return true;
            };
            planning.preparation = self.mirroring().begin_preparation(&name).map(Box::new);
            if planning.preparation.is_none() {
                planning.assignment = self.mirroring().begin_counted(&name, budget);
            }
        }
    }

    /// Adopts the objects that were listed before their pods and Services were known, as far as the budget goes.
    fn adopt_some(&mut self, budget: &mut TurnBudget) -> bool {
        while let Some(arrival) = self.take_arrival() {
            let before = self.ctx.work.total();
            self.apply_output(arrival);
            budget.spend(EVENT + self.ctx.work.total() - before);
            if budget.is_spent() {
                return false;
            }
        }
        true
    }

    fn take_arrival(&mut self) -> Option<OutputEvent> {
        let slice = self.slices.take_arrival().map(OutputEvent::Slice);
        let endpoints = || self.endpoints.take_arrival().map(OutputEvent::Endpoints);
        let mirrored = || self.mirrors.take_arrival().map(OutputEvent::Mirrored);
        slice.or_else(endpoints).or_else(mirrored)
    }

    /// Forgets the trigger times of changes from before this process wrote, as far as the budget goes.
    fn forget_some_triggers(&mut self, planning: &mut Planning, budget: &mut TurnBudget) -> bool {
        while self.ctx.starting && planning.untriggered < self.services.end() {
            self.services.forget_triggers(planning.untriggered);
            planning.untriggered += STRIDE;
            budget.spend(STRIDE as u64);
            if budget.is_spent() {
                return false;
            }
        }
        true
    }

    /// Notifies users of what was there before this process wrote, as far as the budget goes.
    fn start_some(&mut self, planning: &mut Planning, budget: &mut TurnBudget) -> bool {
        while self.ctx.starting {
            if budget.is_spent() {
                return false;
            }
            let start = planning.start.get_or_insert_default();
            let before = self.ctx.work.total();
            let done = self.placement().notify_some_at_start(start);
            if done {
                planning.start = None;
                self.ctx.starting = false;
            }
            let looked_at = if done { 1 } else { STRIDE as u64 };
            budget.spend(looked_at + self.ctx.work.total() - before);
        }
        true
    }

    /// Brings what is published for a dirty Service up to date.
    fn evaluate(&mut self, id: ServiceId) {
        if !self.placement().begin_evaluation(id) {
            return;
        }
        let Some(Trigger(trigger)) = self.placement().evaluate(id) else {
            return;
        };
        self.endpoints_desk().evaluate_endpoints(id, trigger);
        if self.services.take_concluded(id) {
            self.want_objects_of(id);
        }
        self.mirrors.evaluate_later(&self.services[id].facts.name);
        self.pass_on();
    }
}
