//! The label and the names by which a run's objects are told from those of others.

/// The label that everything of a run carries, with the run's name as its value.
pub(crate) const LABEL: &str = "endpointd.io/loadtest";
/// The prefix of the names of namespaces and nodes; the run's name follows.
pub(crate) const PREFIX: &str = "loadtest";

/// Whether a run of that name makes namespaces and nodes of that name.
pub(crate) fn is_ours(name: &str, run: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_prefix(run))
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| {
            let number = rest.strip_prefix("node-").unwrap_or(rest);
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_run_gives_are_its_own() {
        for name in ["loadtest-r1-01", "loadtest-r1-node-001"] {
            assert!(is_ours(name, "r1"), "{name}");
        }
        for name in [
            "default",
            "loadtest-r1",
            "loadtest-r2-01",
            "loadtest-r1-",
            "loadtest-r1-x",
            "loadtest-r1-node-",
        ] {
            assert!(!is_ours(name, "r1"), "{name}");
        }
    }
}
