//! Findings about an object, in the words of the real server's causes.

use serde_json::Value;

/// One cause in a Status' details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) field: String,
}

impl Cause {
    pub(crate) fn new(reason: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            field: field.to_owned(),
        }
    }
}

/// The faults of an object; empty when there are none.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub(crate) Vec<Cause>);

// === impl Faults ===

impl Faults {
    fn add(&mut self, reason: &'static str, field: &str, message: String) {
        self.0.push(Cause::new(reason, field, message));
    }

    /// A value that must not be: `value` is shown as JSON.
    pub(crate) fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        self.add(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {value}: {why}"),
        );
    }

    pub(crate) fn invalid_text(&mut self, field: &str, value: &str, why: &str) {
        self.invalid(field, &Value::from(value), why);
    }

    pub(crate) fn required(&mut self, field: &str, why: &str) {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        self.add("FieldValueRequired", field, message);
    }

    pub(crate) fn not_supported(&mut self, field: &str, value: &str, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let message = format!(
            "Unsupported value: \"{value}\": supported values: {}",
            list.join(", ")
        );
        self.add("FieldValueNotSupported", field, message);
    }

    pub(crate) fn duplicate(&mut self, field: &str, value: &Value) {
        self.add("FieldValueDuplicate", field, format!("Duplicate value: {value}"));
    }

    pub(crate) fn too_many(&mut self, field: &str, count: usize, most: usize) {
        self.add(
            "FieldValueTooMany",
            field,
            format!("Too many: {count}: must have at most {most} items"),
        );
    }

    pub(crate) fn too_long(&mut self, field: &str, most: usize) {
        self.add(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {most} bytes"),
        );
    }

    pub(crate) fn forbidden(&mut self, field: &str, why: &str) {
        self.add("FieldValueForbidden", field, format!("Forbidden: {why}"));
    }

    /// A port's number.
    pub(crate) fn port(&mut self, field: &str, number: i64) {
        if !(1..=65535).contains(&number) {
            self.invalid(field, &number.into(), "must be between 1 and 65535, inclusive");
        }
    }

    /// The protocol of a port.
    pub(crate) fn protocol(&mut self, field: &str, port: &Value) {
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            self.not_supported(field, protocol, &["SCTP", "TCP", "UDP"]);
        }
    }

    /// Each of `faults` as an invalid value.
    pub(crate) fn each(&mut self, field: &str, value: &str, faults: Vec<String>) {
        for fault in faults {
            self.invalid_text(field, value, &fault);
        }
    }

    pub(crate) fn immutable(&mut self, field: &str, new: &Value, old: &Value) {
        if new != old {
            self.invalid(field, new, "field is immutable");
        }
    }
}
