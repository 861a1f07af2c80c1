#![forbid(unsafe_code)]
//! Recorded scenarios. A scenario is a JSON file: steps, each with the operations that a person or a kubelet carries
//! out and with the Endpoints and `EndpointSlices` that the namespace settled on afterwards. `loadtest record` writes
//! the second from a cluster, and the tests of endpointd compare with it. Both carry out operations and normalise
//! states with this crate, so a file that one of them writes is a file that the other can check.
//!
//! | Field | Meaning |
//! |---|---|
//! | `name` | the scenario's name, and its file's |
//! | `why` | the behaviour that the scenario shows, in a sentence |
//! | `config` | `max4`: slices hold 4 endpoints; 100 otherwise |
//! | `packing` | `free`: it does not matter which slice holds which endpoint ([`merge_groups`]) |
//! | `trigger` | `exact`: trigger times are compared even after several changes at once |
//! | `steps[].do` | operations, carried out in order ([`Play::act`]) |
//! | `steps[].then` | the state afterwards, normalised ([`Play::state`]) |

mod api;
mod check;
mod compare;
pub mod guard;
mod normal;
mod play;

pub use self::api::{Api, Error, Resource};
pub use self::compare::{Compared, differences, is_managed, without_trigger_times, without_uids};
pub use self::normal::merge_groups;
pub use self::play::{Play, carry_out};

use serde_json::Value;

/// The annotation of the Namespace and the Nodes that [`Play::marked`] has created.
pub const MARK: &str = "endpointd.io/scenario-run";

/// The annotation that carries the trigger time.
pub const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// A scenario, as its file has it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a>(pub &'a Value);

impl<'a> Scenario<'a> {
    /// Its name, which is empty if the file has none.
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Its steps: operations, and the state that they led to.
    pub fn steps(self) -> &'a [Value] {
        self.0["steps"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The operations of all steps.
    pub fn operations(self) -> impl Iterator<Item = &'a Value> {
        self.steps().iter().flat_map(|step| items(&step["do"]))
    }

    /// The controller's limit of endpoints in a slice, which the scenario was written for.
    pub fn max_endpoints(self) -> usize {
        if self.0["config"] == "max4" { 4 } else { 100 }
    }

    /// Puts a normalised state into the form in which this scenario records it.
    pub fn recordable(self, state: &Value) -> Value {
        if self.0["packing"] == "free" {
            merge_groups(state)
        } else {
            state.clone()
        }
    }

    /// Whether trigger times are compared after a step. Controllers are free to put several changes of a step into
    /// one write or into more, and the trigger time follows from that.
    pub fn compares_trigger_times(self, step: usize) -> bool {
        let operations = items(&self.steps()[step]["do"]);
        let changes = operations.filter(|op| op["sleep"].is_null()).count();
        step == 0 || self.0["trigger"] == "exact" || changes <= 1
    }

    /// The recorded state after a step, with the parts that are compared.
    pub fn recorded(self, step: usize, compared: Compared) -> Value {
        compared.select(&self.steps()[step]["then"])
    }

    /// The state that endpointd settles on after a step, where it differs from the recorded one on purpose: docs/differences.md
    /// says why.
    pub fn of_endpointd(self, step: usize, compared: Compared) -> Option<Value> {
        Some(compared.select(self.steps()[step].get("endpointd")?))
    }

    /// A normalised state, with the parts that are compared.
    pub fn observed(self, state: &Value, compared: Compared) -> Value {
        compared.select(&self.recordable(state))
    }
}

/// The elements of an array; none if the value is something else.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// An array in an order that depends on its elements alone.
fn sorted(values: impl IntoIterator<Item = Value>) -> Value {
    let mut values: Vec<Value> = values.into_iter().collect();
    values.sort_by_cached_key(Value::to_string);
    Value::Array(values)
}
