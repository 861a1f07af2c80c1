//! The fault plan of a seed.

use memory_apiserver::{Failure, Fault, FaultPlan, Stage, WatchFault};

/// The seed's plan, without the faults that no controller can be right under: lies that a real server never
/// tells. An object that such a lie is about is not known to be as it is until it changes again.
pub(super) fn of(seed: u64) -> FaultPlan {
    FaultPlan::random(seed).retain(|fault| lie(fault).is_none())
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
            kept += of(seed).rules().len();
        }
        assert!(kept < all);
        assert!(kept * 10 > all * 9, "{kept} of {all}");
    }
}
