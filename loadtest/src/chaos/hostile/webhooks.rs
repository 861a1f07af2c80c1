//! Webhooks that refuse the controller's writes for the attacker's namespaces, or hold them up, as the server in memory answers for
//! them.

use super::kinds::{Attack, NAMESPACE};
use memory_apiserver::{Failure, Fault, FaultPlan, Latency, Matcher, Rule, Stage, Verbs};
use std::time::Duration;

/// The number of Services of each namespace that a webhook is for.
pub(super) const SERVICES: usize = 30;
/// How long the API server waits for a webhook by default.
const HANGS: Duration = Duration::from_secs(10);

/// Returns the faults of an attack by webhooks.
pub(super) fn plan(attack: Attack) -> Option<FaultPlan> {
    let plan = FaultPlan::new(1);
    let fails = |failure| written().fault(Fault::Fail(Stage::Before, failure));
    match attack {
        Attack::Throttling => Some(plan.rule(fails(Failure::TooManyRequests { retry_after: 1 }))),
        Attack::Hanging => {
            let hangs = Fault::Delay(Stage::Before, Latency::Constant(HANGS));
            let hangs = written().fault(hangs);
            Some(plan.rule(hangs).rule(fails(Failure::Internal)))
        }
        _ => None,
    }
}

/// Writes of what the controller publishes in the attacker's namespaces.
fn written() -> Matcher {
    Rule::on(Verbs::WRITES, ["endpoints", "endpointslices"]).namespace(NAMESPACE)
}
