//! The dry run of a namespace, beside a controller that writes: which Services have been out of sync for long, and why.
//!
//! Pods, Services and nodes are followed as ever, and so is which Services they concern. Whenever something has changed
//! for a Service, it is looked at again, which costs as much as it is large; how often is for the caller to say.

use super::examine::examine;
use super::findings::Finding;
use super::lasting::Since;
use super::published::Published;
use crate::core::hash::{KeyedMap, KeyedSet};
use crate::core::inbox::{Change, Pending};
use crate::core::namespace::{Kind, NamespaceState};
use crate::core::object::{Output, Verb};
use std::sync::Arc;
use std::time::Duration;

/// The published objects of a namespace, and the Services that are out of sync. Those in sync take no room.
#[derive(Debug)]
pub struct DryRun {
    patience: Duration,
    published: Published,
    services: KeyedMap<Arc<str>, Record>,
}

/// The state of a Service, reported when it has changed.
#[derive(Clone, Debug)]
pub struct ServiceDrift {
    /// The Service.
    pub service: Arc<str>,
    /// The start of the oldest lasting difference. `None` if none has lasted, so that the Service is in sync.
    pub since: Option<Duration>,
    /// The writes that would resolve the lasting differences, and why.
    pub lasting: Vec<Finding>,
    /// The number of them that are new since the last report, by [`Verb`].
    pub new: [u32; Verb::ALL.len()],
}

/// A write, regardless of its reasons. Objects that are to be created have no names yet, so they are numbered.
type Write = (Verb, Output, Option<Arc<str>>, usize);

#[derive(Debug, Default)]
struct Record {
    /// The findings of the last look.
    found: Vec<Finding>,
    since: Since,
    /// When there may be something new to report, without another look.
    due: Option<Duration>,
    /// By when a difference must have been found to be part of the last report.
    reported: Option<Duration>,
    /// The content of the last report.
    lasting: Vec<Write>,
    oldest: Option<Duration>,
}

impl Record {
    fn report(&mut self, service: &Arc<str>, by: Option<Duration>) -> Option<ServiceDrift> {
        let (mut writes, mut oldest, mut new) = (Vec::new(), None, [0; Verb::ALL.len()]);
        let known: KeyedSet<&Write> = self.lasting.iter().collect();
        for (ordinal, finding) in self.found.iter().enumerate() {
            let Some(by) = by else { break };
            let times = || self.since.lasting(finding, by);
            let Some(first) = times().min() else { continue };
            oldest = Some(oldest.unwrap_or(first).min(first));
            let ordinal = if finding.name.is_none() { ordinal } else { 0 };
            let write = (finding.verb, finding.output, finding.name.clone(), ordinal);
            // An endpoint that has been missing for long, and would now go into another slice, is not news.
            if times().max() > self.reported && !known.contains(&write) {
                new[finding.verb as usize] += 1;
            }
            writes.push(write);
        }
        self.reported = by;
        if writes == self.lasting && oldest == self.oldest {
            return None;
        }
        (self.lasting, self.oldest) = (writes, oldest);
        let lasting = self.found.iter();
        Some(ServiceDrift {
            service: service.clone(),
            since: oldest,
            lasting: lasting
                .filter_map(|finding| self.since.only_lasting(finding, by?))
                .collect(),
            new,
        })
    }
}

impl DryRun {
    /// Creates the dry run of a namespace that has not been looked at. A difference counts after `patience`.
    pub fn new(patience: Duration) -> Self {
        Self {
            patience,
            published: Published::default(),
            services: KeyedMap::default(),
        }
    }

    /// Takes from the changes that wait for the namespace those of published objects. `core` is its state before these
    /// changes.
    pub fn take(&mut self, pending: &mut Pending, core: &NamespaceState) {
        let is_known = |service: &str| core.service(service).is_some();
        for change in pending.take_published() {
            if let Change::End(Kind::Service, ..) = change {
                // A Service that the list did not show is gone without another word.
                let known = self.services.keys();
                known.for_each(|service| self.published.mark(service.clone(), is_known(service)));
            }
            self.published.apply(change, is_known);
        }
        for service in pending.services() {
            self.published.mark(service.clone(), is_known(service));
        }
    }

    /// Returns whether a Service has to be looked at, and can be.
    pub fn has_changed(&self, core: &NamespaceState) -> bool {
        !core.is_waiting() && (core.is_dirty() || self.published.has_changed())
    }

    /// Looks at the Services that have changed, unless a list is pending. Returns how many there were, and what has
    /// lasted of what this look and earlier ones have found, for each Service for which that has changed.
    pub fn look(&mut self, core: &mut NamespaceState, now: Duration) -> (usize, Vec<ServiceDrift>) {
        let mut looked_at = 0;
        if self.has_changed(core) {
            let mut changed = self.published.take_changed();
            changed.extend(core.take_dirty());
            looked_at = changed.len();
            let mut findings = examine(core, &mut self.published, &changed);
            for service in changed {
                let found = findings.remove(&service).unwrap_or_default();
                self.found(service, found, now);
            }
        }
        (looked_at, self.reports(now))
    }

    /// Records that a look at a Service found these differences and no others.
    fn found(&mut self, service: Arc<str>, found: Vec<Finding>, now: Duration) {
        if found.is_empty() && !self.services.contains_key(&service) {
            return;
        }
        let record = self.services.entry(service).or_default();
        record.since.found(&found, now);
        (record.found, record.due) = (found, Some(now));
    }

    /// Returns the Services whose drift has changed, by name.
    fn reports(&mut self, now: Duration) -> Vec<ServiceDrift> {
        let by = now.checked_sub(self.patience);
        let mut reports: Vec<ServiceDrift> = Vec::new();
        self.services.retain(|service, record| {
            if record.due.is_some_and(|due| due <= now) {
                reports.extend(record.report(service, by));
                let later = record
                    .since
                    .times()
                    .filter(|&since| by.is_none_or(|by| since > by));
                record.due = later.min().map(|since| since.saturating_add(self.patience));
            }
            !record.found.is_empty()
        });
        reports.sort_unstable_by(|a, b| a.service.cmp(&b.service));
        reports
    }

    /// Returns when, without another look, there will be something new to report.
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let due = self.services.values().filter_map(|record| record.due);
        due.filter(|&due| due > now).min()
    }

    /// Returns the number of differences that were found and are kept, whether they have lasted or not.
    pub fn differences(&self) -> usize {
        let found = self.services.values().flat_map(|record| &record.found);
        found.map(|finding| finding.why.len()).sum()
    }

    /// Returns whether everything is in sync and has been reported as such, and nothing is published.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.published.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::differences::{Difference, Rank};

    const SECOND: Duration = Duration::from_secs(1);

    /// Differences of pods, each in an object that would be updated.
    fn differences<const N: usize>(differences: [(u64, &str); N]) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        for (key, name) in differences {
            let difference = Difference {
                rank: Rank::Endpoint,
                text: key.to_string(),
                pod: Some("p".into()),
                field: None,
            };
            match findings
                .iter_mut()
                .find(|found| found.name.as_deref() == Some(name))
            {
                Some(found) => found.why.push((difference, None)),
                None => findings.push(Finding {
                    namespace: "n".into(),
                    service: "s".into(),
                    output: Output::Slice,
                    name: Some(name.into()),
                    verb: Verb::Update,
                    left_over: false,
                    unmanaged: false,
                    as_whole: false,
                    why: vec![(difference, None)],
                }),
            }
        }
        findings
    }

    fn names(drift: &ServiceDrift) -> Vec<&str> {
        drift
            .lasting
            .iter()
            .filter_map(|found| found.name.as_deref())
            .collect()
    }

    /// Looks once a second; returns what was reported at which second.
    fn look(differences: impl Fn(u64) -> Vec<Finding>, seconds: u64) -> Vec<(u64, ServiceDrift)> {
        let mut dry_run = DryRun::new(5 * SECOND);
        let service = Arc::from("s");
        let mut reports = Vec::new();
        for at in 0..seconds {
            let now = Duration::from_secs(at);
            dry_run.found(Arc::clone(&service), differences(at), now);
            reports.extend(dry_run.reports(now).into_iter().map(|report| (at, report)));
        }
        reports
    }

    #[test]
    fn what_lasts_is_reported_once_and_again_when_it_is_gone() {
        let differs = |at| {
            if (2..20).contains(&at) {
                differences([(1, "a")])
            } else {
                Vec::new()
            }
        };
        let reports = look(differs, 30);
        let told: Vec<_> = reports
            .iter()
            .map(|(at, report)| (*at, report.since, report.new))
            .collect();
        assert_eq!(told, [(7, Some(2 * SECOND), [0, 1, 0]), (20, None, [0; 3])]);
    }

    #[test]
    fn an_object_that_always_differs_in_something_else_is_in_order() {
        assert!(look(|at| differences([(at / 3, "a")]), 60).is_empty());
    }

    #[test]
    fn an_endpoint_that_is_missing_counts_wherever_it_should_go() {
        let reports = look(|at| differences([(1, if at % 2 == 0 { "a" } else { "b" })]), 9);
        assert_eq!(reports[0].0, 5);
        assert_eq!(names(&reports[0].1), ["b"]);
        let new: u32 = reports.iter().flat_map(|(_, report)| report.new).sum();
        assert_eq!(new, 1, "{reports:?}");
    }

    #[test]
    fn one_thing_among_much_that_changes_is_found_and_writes_are_counted_by_object() {
        let reports = look(|at| differences([(0, "a"), (1, "a"), (at + 10, "b")]), 20);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!((reports[0].0, reports[0].1.new), (5, [0, 1, 0]));
    }

    #[test]
    fn what_has_not_lasted_yet_says_when_it_will_have_and_what_is_in_order_takes_no_room() {
        let mut dry_run = DryRun::new(5 * SECOND);
        let service: Arc<str> = Arc::from("s");
        assert_eq!(dry_run.due(SECOND), None);
        dry_run.found(service.clone(), differences([(1, "a")]), SECOND);
        assert!(dry_run.reports(SECOND).is_empty());
        assert_eq!(dry_run.due(SECOND), Some(6 * SECOND));
        assert_eq!(dry_run.reports(6 * SECOND).len(), 1);
        assert_eq!(dry_run.due(6 * SECOND), None);
        assert!(!dry_run.is_empty());
        dry_run.found(service, Vec::new(), 7 * SECOND);
        assert_eq!(dry_run.reports(7 * SECOND)[0].since, None);
        assert!(dry_run.is_empty());
    }
}
