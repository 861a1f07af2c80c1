//! Leases.

use crate::validate::Faults;
use serde_json::Value;

pub(crate) fn check(faults: &mut Faults, value: &Value) {
    let number = |field: &str| {
        value
            .get("spec")
            .and_then(|s| s.get(field))
            .and_then(Value::as_i64)
    };
    if let Some(seconds) = number("leaseDurationSeconds").filter(|s| *s <= 0) {
        faults.invalid(
            "spec.leaseDurationSeconds",
            &seconds.into(),
            "must be greater than 0",
        );
    }
    if let Some(count) = number("leaseTransitions").filter(|t| *t < 0) {
        faults.invalid(
            "spec.leaseTransitions",
            &count.into(),
            "must be greater than or equal to 0",
        );
    }
}
