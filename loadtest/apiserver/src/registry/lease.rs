//! Leases.

use crate::cause::Faults;
use serde_json::Value;

pub(crate) fn check(faults: &mut Faults, value: &Value, _old: Option<&Value>) {
    for (field, least, why) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        let number = value.pointer(&format!("/spec/{field}")).and_then(Value::as_i64);
        if let Some(number) = number.filter(|number| *number < least) {
            faults.invalid(&format!("spec.{field}"), &number.into(), why);
        }
    }
}
