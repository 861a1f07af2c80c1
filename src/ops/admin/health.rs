//! Health reports in the format of the Kubernetes components, which kubelets, scripts and users know.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::fmt::Write as _;

/// A health check and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    /// The check's name in reports and in `exclude`.
    pub(super) name: &'static str,
    /// The reason of a failure, which is only logged and never sent to the client.
    pub(super) result: Result<(), String>,
}

impl Check {
    pub(super) fn new(name: &'static str, result: Result<(), String>) -> Self {
        Self { name, result }
    }
}

/// The outcome of an endpoint's checks, and the text that is sent to the client.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Report {
    pub(super) ok: bool,
    pub(super) text: String,
}

/// Creates the report of an endpoint of this name. It lists the checks only if one has failed or the query has
/// `verbose`; `exclude=NAME`, which may be repeated, leaves a check out.
pub(super) fn report(endpoint: &str, checks: &[Check], query: Option<&str>) -> Report {
    let (mut verbose, mut excluded) = (false, Vec::new());
    for pair in query.unwrap_or_default().split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "verbose" => verbose = true,
            "exclude" => excluded.push(percent_decode_str(value).decode_utf8_lossy()),
            _ => {}
        }
    }
    let (mut text, mut ok) = (String::new(), true);
    for Check { name, result } in checks {
        // Writing to a string cannot fail.
        let _ = match result {
            _ if excluded.iter().any(|excluded| excluded == name) => {
                writeln!(text, "[+]{name} excluded: ok")
            }
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(_) => {
                ok = false;
                writeln!(text, "[-]{name} failed: reason withheld")
            }
        };
    }
    let unknown = |excluded: &&Cow<'_, str>| checks.iter().all(|check| check.name != **excluded);
    let unknown: Vec<String> = excluded
        .iter()
        .filter(unknown)
        .map(|excluded| format!("{excluded:?}"))
        .collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        let _ = writeln!(
            text,
            "warn: some health checks cannot be excluded: no matches for {unknown}"
        );
    }
    if ok && !verbose {
        return Report {
            ok,
            text: "ok".to_owned(),
        };
    }
    let verdict = if ok { "passed" } else { "failed" };
    let _ = writeln!(text, "{endpoint} check {verdict}");
    Report { ok, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_those_of_kubernetes_components() {
        let good = [Check::new("leaderElection", Ok(())), Check::new("b", Ok(()))];
        let bad = [good[0].clone(), Check::new("b", Err("a secret".to_owned()))];
        for (checks, query, ok, text) in [
            (&good, None, true, "ok"),
            (&good, Some(""), true, "ok"),
            (&good, Some("exclude=b"), true, "ok"),
            (
                &good,
                Some("verbose"),
                true,
                "[+]leaderElection ok\n[+]b ok\nhealthz check passed\n",
            ),
            (
                &good,
                Some("verbose=false&exclude=b"),
                true,
                "[+]leaderElection ok\n[+]b excluded: ok\nhealthz check passed\n",
            ),
            (
                &bad,
                None,
                false,
                "[+]leaderElection ok\n[-]b failed: reason withheld\nhealthz check failed\n",
            ),
            (&bad, Some("exclude=%62"), true, "ok"),
            (
                &bad,
                Some("exclude=b&exclude=c%22&verbose"),
                true,
                "[+]leaderElection ok\n[+]b excluded: ok\n\
                 warn: some health checks cannot be excluded: no matches for \"c\\\"\"\nhealthz check passed\n",
            ),
        ] {
            let report = report("healthz", checks, query);
            assert_eq!((report.ok, &*report.text), (ok, text), "{query:?}");
        }
    }
}
