//! The fault plan of a seed.

use fastrand::Rng;
use memory_apiserver::{Failure, Fault, FaultPlan, Rule, Stage, Verb, WatchFault};
use std::time::Duration;

/// The seed's plan, without the faults that no controller can be right under: lies that a real server never
/// tells. An object that such a lie is about is not known to be as it is until it changes again.
pub(super) fn of(seed: u64) -> FaultPlan {
    let plan = honest(seed);
    match refusal(seed) {
        Some(rule) => plan.rule(rule),
        None => plan,
    }
}

fn honest(seed: u64) -> FaultPlan {
    FaultPlan::random(seed).retain(|fault| lie(fault).is_none())
}

/// Half of the plans have a namespace that takes no new slices for a while, as with a quota or a webhook.
fn refusal(seed: u64) -> Option<Rule> {
    // Not the generator of the history, nor of the other rules: each can change without the others.
    let mut rng = Rng::with_seed(seed ^ 0x4_e051_1ce5);
    let failure = match rng.u32(..4) {
        0 => Failure::Forbidden,
        1 => Failure::Invalid,
        _ => return None,
    };
    let namespace = format!("ns{}", rng.usize(..2));
    let from = Duration::from_secs(rng.u64(..40));
    let lasting = Duration::from_secs(rng.u64(10..40));
    let creates = Rule::on(Verb::Create, "endpointslices").namespace(&namespace);
    Some(
        creates
            .between(from, from + lasting)
            .fault(Fault::before(failure)),
    )
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
    fn half_of_the_plans_refuse_new_slices_in_a_namespace() {
        let plans = (0..100).filter(|seed| refusal(*seed).is_some()).count();
        assert!((40..60).contains(&plans), "{plans}");
    }
}
