//! The one filter of inspections: what differs, and has for long enough.
//!
//! The controller that writes needs some time, so a difference counts only once it has lasted: every look at its
//! Service must have found it again. It is identified by what it says of a pod in a certain state, or of an object,
//! but not by the object that lacks a pod: in a busy Service every object differs at every moment, each time for
//! another pod, although nothing is wrong; and while an endpoint is missing, the slice that it should go into changes.

use super::findings::Finding;
use crate::core::hash::IdMap;
use std::time::Duration;

/// Since when each difference has been found by every look.
#[derive(Debug, Default)]
pub(super) struct Since(IdMap<u64, Duration>);

impl Since {
    /// Records that a look has found these and no others.
    pub(super) fn found(&mut self, findings: &[Finding], now: Duration) {
        let known = std::mem::take(&mut self.0);
        for key in findings.iter().flat_map(Finding::keys) {
            self.0.insert(key, known.get(&key).copied().unwrap_or(now));
        }
    }

    /// Returns the times of all differences.
    pub(super) fn times(&self) -> impl Iterator<Item = Duration> {
        self.0.values().copied()
    }

    /// Returns since when the differences of a finding have lasted that were found at a time or before.
    pub(super) fn lasting(&self, finding: &Finding, by: Duration) -> impl Iterator<Item = Duration> {
        finding
            .keys()
            .filter_map(|key| self.0.get(&key).copied())
            .filter(move |since| *since <= by)
    }

    /// Returns a finding with those differences only; none if there are none.
    pub(super) fn only_lasting(&self, finding: &Finding, by: Duration) -> Option<Finding> {
        finding.only(|key| self.0.get(&key).is_some_and(|since| *since <= by))
    }
}

/// Returns those of the later findings that an earlier look had made already. This leaves out what a running controller
/// has fixed in the meantime or has not got to yet.
pub(crate) fn still(earlier: &[Finding], later: &[Finding]) -> Vec<Finding> {
    // Between two looks, a difference that both have found counts by itself, whatever else has changed.
    let each = |findings: &[Finding]| {
        let mut findings = findings.to_vec();
        for finding in &mut findings {
            finding.as_whole = false;
        }
        findings
    };
    let (earlier, later) = (each(earlier), each(later));
    let mut since = Since::default();
    since.found(&earlier, Duration::ZERO);
    since.found(&later, Duration::MAX);
    let lasting = later
        .iter()
        .filter_map(|finding| since.only_lasting(finding, Duration::ZERO));
    lasting.collect()
}
