//! The fault plan of a seed.

use fastrand::Rng;
use memory_apiserver::{Failure, Fault, FaultPlan, Latency, Rule, Stage, Verb, Verbs, WatchFault};
use std::time::Duration;

/// The seed's plan, without the faults that no controller can be right under: lies that a real server never
/// tells. An object that such a lie is about is not known to be as it is until it changes again.
pub(super) fn of(seed: u64) -> FaultPlan {
    webhook(seed).into_iter().fold(honest(seed), FaultPlan::rule)
}

fn honest(seed: u64) -> FaultPlan {
    FaultPlan::random(seed).retain(|fault| lie(fault).is_none())
}

/// Half of the plans have a namespace whose slices a quota or a webhook refuses for a while, or whose webhook hangs as long as one
/// may.
fn webhook(seed: u64) -> Vec<Rule> {
    // Not the generator of the history, nor of the other rules: each can change without the others.
    let mut rng = Rng::with_seed(seed ^ 0x4_e051_1ce5);
    let kind = rng.u32(..6);
    let namespace = format!("ns{}", rng.usize(..2));
    let from = Duration::from_secs(rng.u64(..40));
    let lasting = Duration::from_secs(rng.u64(10..40));
    let on = |verbs: Verbs, fault| {
        let writes = Rule::on(verbs, "endpointslices").namespace(&namespace);
        writes.between(from, from + lasting).fault(fault)
    };
    let writes = Verbs::from([Verb::Create, Verb::Update]);
    match kind {
        0 => vec![on(Verb::Create.into(), Fault::before(Failure::Forbidden))],
        1 => vec![on(Verb::Create.into(), Fault::before(Failure::Invalid))],
        2 => vec![
            on(
                writes,
                Fault::Delay(Stage::Before, Latency::Constant(Duration::from_secs(10))),
            ),
            on(writes, Fault::before(Failure::Internal)),
        ],
        _ => Vec::new(),
    }
}

/// Why a fault is left out; none for those that are met.
pub(super) fn lie(fault: &Fault) -> Option<&'static str> {
    match fault {
        Fault::Fail(Stage::Before, Failure::NotFound) => Some(
            "a server does not deny, by name, an object that it has: whoever believes it makes a second one",
        ),
        Fault::Fail(Stage::Before, Failure::NamespaceTerminating) => Some(
            "a namespace that is said to go away does: who believes it waits for that, and it never comes",
        ),
        Fault::Watch(WatchFault::WrongType { .. }) => {
            Some("what cannot be decoded is left out until the object changes, and this one may never change")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lies_are_few() {
        let (mut all, mut kept) = (0, 0);
        for seed in 0..100 {
            all += FaultPlan::random(seed).rules().len();
            kept += honest(seed).rules().len();
        }
        assert!(kept < all);
        assert!(kept * 10 > all * 9, "{kept} of {all}");
    }

    #[test]
    fn half_of_the_plans_have_a_webhook_in_the_way() {
        let plans = (0..100).filter(|seed| !webhook(*seed).is_empty()).count();
        assert!((40..60).contains(&plans), "{plans}");
    }
}
