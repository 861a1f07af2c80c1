//! Plans: changed Services are evaluated, and the objects that are due are returned; in steps, as thousands of
//! Services may have changed at once.

use super::endpoints::Endpoints;
use super::lifecycle::{Granted, Outcome};
use super::mirror::{Assignment, MirroredSlice, Preparation};
use super::rounds::STRIDE;
use super::{NamespaceState, WorkItem};
use crate::core::body::Encode;
use crate::core::ids::ServiceId;
use crate::core::object::{ObjectName, Output};
use crate::core::slices::Slice;
use crate::core::work::Budget;
use std::sync::Arc;
use std::vec::IntoIter;

/// A plan in progress.
#[derive(Clone, Debug)]
pub(super) struct Planning {
    /// Where a process begins to write: the number of the next Service whose trigger time is to be forgotten.
    untriggered: usize,
    /// The Services that were dirty when the plan was begun. `None` until everything has been adopted.
    dirty: Option<IntoIter<ServiceId>>,
    /// The mirrors that were dirty when these Services had been evaluated.
    mirrors: Option<IntoIter<Arc<str>>>,
    /// The mirror whose Endpoints are being laid out.
    preparation: Option<Box<Preparation>>,
    /// The mirror that is being evaluated.
    assignment: Option<Box<Assignment>>,
}

impl NamespaceState {
    /// Builds the request of an object whose turn has come, from the state at that moment, or returns `None` if
    /// nothing is due any more. At most one request of an object is in flight at a time.
    pub fn grant<E: Encode>(&mut self, object: &ObjectName, encoder: &mut E) -> Option<Granted<E::Body>> {
        match object.output {
            Output::Slice => self.grant_one::<Slice, E>(&object.name, encoder),
            Output::Endpoints => self.grant_one::<Endpoints, E>(&object.name, encoder),
            Output::Mirrored => self.grant_one::<MirroredSlice, E>(&object.name, encoder),
        }
    }

    /// Handles the answer to an object's request; `why` is what the API server said of a refusal. Returns the object
    /// if it is due again.
    pub fn outcome(&mut self, object: &ObjectName, outcome: Outcome, why: Option<&str>) -> Option<WorkItem> {
        match object.output {
            Output::Slice => {
                let service = self.service_to_give_way_to(&object.name);
                let id = self.slices.find(&object.name);
                let due = self.answered::<Slice>(&object.name, outcome, why);
                self.decide(id);
                if let Some(service) = service {
                    self.check_replacement(&service);
                }
                due
            }
            Output::Endpoints => {
                let due = self.answered::<Endpoints>(&object.name, outcome, why);
                self.read_to_mirror(&object.name);
                due
            }
            Output::Mirrored => {
                let due = self.answered::<MirroredSlice>(&object.name, outcome, why);
                self.stop_waiting_for_mirrored(&object.name);
                due
            }
        }
    }

    /// Evaluates what has changed and returns the objects that are due, in the order in which they should go. While a
    /// list is pending, there are none.
    pub fn plan(&mut self) -> Vec<WorkItem> {
        let mut wants = Vec::new();
        let done = self.step_plan(&mut wants, &mut Budget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
        wants
    }

    /// Does what [`Self::plan`] does, as far as the budget goes; returns true when the plan is complete. Adds the
    /// objects that are due by what has been evaluated so far. No event, grant or outcome may come in between.
    pub fn step_plan(&mut self, wants: &mut Vec<WorkItem>, budget: &mut Budget) -> bool {
        if self.pending_lists.any() {
            return true;
        }
        debug_assert!(self.passes.is_empty(), "an event has not been applied in full");
        if !self.has_to_plan() {
            return true;
        }
        let resumed = self.planning.is_some();
        let mut planning = self.planning.take().unwrap_or_else(|| {
            // They must not pile up where nobody counts and takes them.
            self.syncs.clear();
            self.mirrors.clear_syncs();
            Box::new(Planning {
                untriggered: 0,
                dirty: None,
                mirrors: None,
                preparation: None,
                assignment: None,
            })
        });
        // What the step before has left comes first.
        let mut done = !resumed || self.collect_wants(wants, budget);
        done = done && self.evaluate_some(&mut planning, budget);
        if done {
            self.release_blocked::<Slice>();
            self.release_blocked::<Endpoints>();
            self.release_blocked::<MirroredSlice>();
            self.resolved.planned();
        }
        done &= self.collect_wants(wants, budget);
        if !done {
            self.planning = Some(planning);
        }
        done
    }

    /// Returns whether anything has changed since the last plan. Most messages to a shard are answers and events of its own
    /// writes, after which nothing is to be planned.
    fn has_to_plan(&self) -> bool {
        self.starting
            || self.planning.is_some()
            || !self.dirty.is_empty()
            || self.slices.has_to_plan()
            || self.endpoints.has_to_plan()
            || self.mirrored.has_to_plan()
            || self.mirrors.has_dirty()
    }

    fn evaluate_some(&mut self, planning: &mut Planning, budget: &mut Budget) -> bool {
        while let Some((epoch, facts)) = self.slices.take_arrival() {
            budget.spend(1 + self.count_read(facts.units()));
            self.listed::<Slice>(facts, epoch);
            if budget.is_spent() {
                return false;
            }
        }
        while let Some((epoch, facts)) = self.endpoints.take_arrival() {
            budget.spend(1 + self.count_read(facts.units()));
            self.listed::<Endpoints>(facts, epoch);
            if budget.is_spent() {
                return false;
            }
        }
        while let Some((epoch, facts)) = self.mirrored.take_arrival() {
            budget.spend(1 + self.count_read(facts.units()));
            self.listed::<MirroredSlice>(facts, epoch);
            if budget.is_spent() {
                return false;
            }
        }
        while self.starting && planning.untriggered < self.services.end() {
            self.forget_triggers(planning.untriggered);
            planning.untriggered += STRIDE;
            budget.spend(STRIDE as u64);
            if budget.is_spent() {
                return false;
            }
        }
        let dirty = planning.dirty.get_or_insert_with(|| {
            if std::mem::take(&mut self.starting) {
                self.begin_writing();
                self.notify_at_start();
            }
            std::mem::take(&mut self.dirty).into_iter()
        });
        for id in dirty {
            let before = self.work.total();
            self.evaluate(id);
            budget.spend(1 + self.work.total() - before);
            if budget.is_spent() {
                return false;
            }
        }
        let mirrors = planning.mirrors.get_or_insert_with(|| self.mirrors.take_dirty());
        loop {
            if let Some(preparation) = &mut planning.preparation {
                if !self.step_preparation(preparation, budget) {
                    return false;
                }
                planning.assignment = self.begin_counted(preparation.name(), budget);
                planning.preparation = None;
            }
            if let Some(assignment) = &mut planning.assignment {
                if !self.step_assignment(assignment, budget) {
                    return false;
                }
                planning.assignment = None;
            }
            if budget.is_spent() {
                return false;
            }
            let Some(name) = mirrors.next() else {
                return true;
            };
            planning.preparation = self.begin_preparation(&name).map(Box::new);
            if planning.preparation.is_none() {
                planning.assignment = self.begin_counted(&name, budget);
            }
        }
    }

    /// Begins to evaluate a mirror, and charges for that.
    fn begin_counted(&mut self, name: &Arc<str>, budget: &mut Budget) -> Option<Box<Assignment>> {
        let before = self.work.total();
        let assignment = self.begin_assignment(name);
        budget.spend(1 + self.work.total() - before);
        assignment.map(Box::new)
    }

    /// Adds the objects that are due, as far as is known. Returns false if the budget ends before all have been looked at.
    fn collect_wants(&mut self, wants: &mut Vec<WorkItem>, budget: &mut Budget) -> bool {
        // Few still read Endpoints, and each is written whole.
        self.plan_due::<Slice>(wants, budget)
            && self.plan_due::<Endpoints>(wants, budget)
            && self.plan_due::<MirroredSlice>(wants, budget)
    }
}
