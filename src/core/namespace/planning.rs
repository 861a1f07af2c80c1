//! Plans: what has changed is evaluated, and the objects that are due are named; in steps, as thousands of Services may
//! have changed at once.

use super::endpoints::EndpointsOutput;
use super::lifecycle::{Granted, Outcome};
use super::slices::SliceOutput;
use super::{NamespaceState, WorkItem};
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::ids::ServiceId;
use crate::core::object::{ObjectName, Output};
use crate::core::work::Budget;
use std::vec::IntoIter;

/// A plan that is being made.
#[derive(Clone, Debug)]
pub(super) struct Planning {
    /// Listed slices and Endpoints that are yet to be taken over, each with the last list that showed it.
    slices: IntoIter<(u8, SliceFacts)>,
    endpoints: IntoIter<(u8, EndpointsFacts)>,
    /// What had changed when the plan was begun. None before everything has been taken over.
    dirty: Option<IntoIter<ServiceId>>,
}

impl NamespaceState {
    /// It is an object's turn: the request to send, built from the state of this moment, or none if nothing is
    /// due any more. At most one request of an object is out at a time.
    pub fn grant(&mut self, object: &ObjectName) -> Option<Granted> {
        match object.output {
            Output::Slice => self.grant_one::<SliceOutput>(&object.name),
            Output::Endpoints => self.grant_one::<EndpointsOutput>(&object.name),
        }
    }

    /// The answer to an object's request; `why` is what the server said of a refusal. Returns the object if it
    /// is due again.
    pub fn outcome(&mut self, object: &ObjectName, outcome: Outcome, why: Option<&str>) -> Option<WorkItem> {
        match object.output {
            Output::Slice => self.answered::<SliceOutput>(&object.name, outcome, why),
            Output::Endpoints => self.answered::<EndpointsOutput>(&object.name, outcome, why),
        }
    }

    /// Evaluates what has changed and returns the objects that are due, in the order in which they should go.
    /// While a list is awaited, that is nothing.
    pub fn plan(&mut self) -> Vec<WorkItem> {
        let mut wants = Vec::new();
        let done = self.step_plan(&mut wants, &mut Budget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
        wants
    }

    /// As [`Self::plan`], as far as the budget goes; true when the plan is whole. Adds the objects that are due by
    /// what has been evaluated so far. No event, grant or outcome may come in between.
    pub fn step_plan(&mut self, wants: &mut Vec<WorkItem>, budget: &mut Budget) -> bool {
        if self.pending_lists.any() || self.shown.is_some() {
            return true;
        }
        debug_assert!(self.passes.is_empty(), "an event has not been applied in full");
        let mut planning = self.planning.take().unwrap_or_else(|| {
            // Whoever does not count does not take them: they must not pile up.
            self.syncs.clear();
            Box::new(Planning {
                slices: self.take_arrivals().into_iter(),
                endpoints: self.take_endpoints_arrivals().into_iter(),
                dirty: None,
            })
        });
        let done = self.evaluate_some(&mut planning, budget);
        if done {
            self.release_blocked::<SliceOutput>();
            self.release_blocked::<EndpointsOutput>();
            self.resolved.planned();
        } else {
            self.planning = Some(planning);
        }
        self.collect_wants(wants);
        done
    }

    fn evaluate_some(&mut self, planning: &mut Planning, budget: &mut Budget) -> bool {
        for (epoch, facts) in &mut planning.slices {
            budget.spend(1 + facts.endpoints.len() as u64);
            self.listed::<SliceOutput>(facts, epoch);
            if budget.is_spent() {
                return false;
            }
        }
        for (epoch, facts) in &mut planning.endpoints {
            budget.spend(1 + facts.addresses() as u64);
            self.listed::<EndpointsOutput>(facts, epoch);
            if budget.is_spent() {
                return false;
            }
        }
        let dirty = planning.dirty.get_or_insert_with(|| {
            if std::mem::take(&mut self.starting) {
                self.forget_triggers();
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
        true
    }

    /// The objects that are due, as far as it is known.
    fn collect_wants(&mut self, wants: &mut Vec<WorkItem>) {
        self.plan_due::<SliceOutput>(wants);
        // Few still read Endpoints, and each is written whole.
        self.plan_due::<EndpointsOutput>(wants);
    }
}
