//! Drift: the differences between the objects on the server and those that this process would write, and how long they
//! have lasted. Dry runs record it.
//!
//! The controller that writes needs some time, so a difference counts only once it has lasted: every look at its
//! Service must have found it again for long enough. A difference is identified by what should be published of one
//! endpoint (or one object), not by the object that lacks it: in a busy Service every object differs at every moment,
//! each time for another pod, although nothing is wrong; and while an endpoint is missing, the slice that it should go
//! into changes.

use super::hash::{IdMap, KeyedMap};
use super::object::Output;
use std::sync::Arc;
use std::time::Duration;

/// The operation that would resolve a difference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Delete];

    /// Returns its name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// A write that would be made.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Drift {
    /// The operation.
    pub operation: Operation,
    /// The kind of object.
    pub output: Output,
    /// The object's name; a slice that would be created has none yet.
    pub name: Option<Arc<str>>,
    /// Tells writes without a name apart.
    pub ordinal: u32,
}

/// One difference on the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// A 64-bit key of the difference, regardless of the object it is in: of the desired endpoint, for example.
    pub key: u64,
    /// The write that would resolve it.
    pub deviation: Drift,
}

/// The drift of a Service, reported when it has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    /// The Service.
    pub service: Arc<str>,
    /// The start of the oldest lasting difference. `None` if none has lasted, so that the Service is in sync.
    pub since: Option<Duration>,
    /// The writes that would resolve the lasting differences.
    pub lasting: Vec<Drift>,
    /// The number of them that are new since the last report, by operation.
    pub new: [u32; 3],
}

/// The Services of a namespace that have differences. Those in sync take no room.
#[derive(Debug)]
pub(crate) struct Deviations {
    patience: Duration,
    services: KeyedMap<Arc<str>, Record>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
    at: Duration,
    /// True if it has lasted and was reported.
    told: bool,
}

#[derive(Debug, Default)]
struct Record {
    /// The differences that the last look found, and the start of each by key.
    found: Vec<Difference>,
    since: IdMap<u64, Since>,
    /// The content of the last report.
    lasting: Vec<Drift>,
    oldest: Option<Duration>,
}

impl Record {
    /// Returns when the next difference that has not lasted yet will have.
    fn due(&self, patience: Duration, now: Duration) -> Option<Duration> {
        let ripe = self.since.values().map(|since| since.at.saturating_add(patience));
        ripe.filter(|&ripe| ripe > now).min()
    }

    fn report(&mut self, service: &Arc<str>, patience: Duration, now: Duration) -> Option<Report> {
        let mut lasting: Vec<Drift> = Vec::new();
        // Those among them that have lasted only now.
        let mut ripened: Vec<Drift> = Vec::new();
        let mut oldest = None;
        for Difference { key, deviation } in &self.found {
            let Some(since) = self.since.get_mut(key) else {
                continue;
            };
            if since.at.saturating_add(patience) > now {
                continue;
            }
            oldest = Some(oldest.map_or(since.at, |oldest: Duration| oldest.min(since.at)));
            lasting.push(deviation.clone());
            if !std::mem::replace(&mut since.told, true) {
                ripened.push(deviation.clone());
            }
        }
        for deviations in [&mut lasting, &mut ripened] {
            deviations.sort_unstable();
            deviations.dedup();
        }
        if lasting == self.lasting && oldest == self.oldest {
            return None;
        }
        let mut new = [0; 3];
        for deviation in ripened {
            // An endpoint that has been missing for long, and would now go into another slice, is not news.
            if self.lasting.binary_search(&deviation).is_err() {
                new[deviation.operation as usize] += 1;
            }
        }
        (self.lasting, self.oldest) = (lasting.clone(), oldest);
        Some(Report {
            service: service.clone(),
            since: oldest,
            lasting,
            new,
        })
    }
}

impl Deviations {
    /// Creates the record of a namespace that has not been looked at. A difference counts after `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            services: KeyedMap::default(),
        }
    }

    /// Records that a look at a Service found these differences and no others.
    pub(crate) fn found(&mut self, service: &Arc<str>, differences: Vec<Difference>, now: Duration) {
        if differences.is_empty() && !self.services.contains_key(service) {
            return;
        }
        let record = self.services.entry(service.clone()).or_default();
        let known = std::mem::take(&mut record.since);
        for Difference { key, .. } in &differences {
            let new = Since { at: now, told: false };
            record.since.insert(*key, known.get(key).copied().unwrap_or(new));
        }
        record.found = differences;
    }

    /// Returns reports for the Services whose drift has changed.
    pub(crate) fn reports(&mut self, now: Duration) -> Vec<Report> {
        let patience = self.patience;
        let mut reports: Vec<Report> = Vec::new();
        self.services.retain(|service, record| {
            reports.extend(record.report(service, patience, now));
            !record.found.is_empty()
        });
        reports.sort_unstable_by(|a, b| a.service.cmp(&b.service));
        reports
    }

    /// Returns when, without another look, there will be something new to report.
    pub(crate) fn due(&self, now: Duration) -> Option<Duration> {
        let records = self.services.values();
        records.filter_map(|record| record.due(self.patience, now)).min()
    }

    /// Returns whether everything is in sync and has been reported as such.
    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn difference(key: u64, name: &str) -> Difference {
        Difference {
            key,
            deviation: Drift {
                operation: Operation::Update,
                output: Output::Slice,
                name: Some(name.into()),
                ordinal: 0,
            },
        }
    }

    /// Checks once a second, and returns each report with its second.
    fn look(differences: impl Fn(u64) -> Vec<Difference>, seconds: u64) -> Vec<(u64, Report)> {
        let mut deviations = Deviations::new(5 * SECOND);
        let service = Arc::from("s");
        let mut reports = Vec::new();
        for at in 0..seconds {
            let now = Duration::from_secs(at);
            deviations.found(&service, differences(at), now);
            reports.extend(deviations.reports(now).into_iter().map(|report| (at, report)));
        }
        reports
    }

    #[test]
    fn what_lasts_is_reported_once_and_again_when_it_is_gone() {
        let reports = look(
            |at| {
                (2..20)
                    .contains(&at)
                    .then(|| difference(1, "a"))
                    .into_iter()
                    .collect()
            },
            30,
        );
        let told: Vec<_> = reports
            .iter()
            .map(|(at, report)| (*at, report.since, report.new))
            .collect();
        assert_eq!(told, [(7, Some(2 * SECOND), [0, 1, 0]), (20, None, [0; 3])]);
    }

    #[test]
    fn an_object_that_always_differs_in_something_else_is_in_order() {
        assert_eq!(look(|at| vec![difference(at / 3, "a")], 60), []);
    }

    #[test]
    fn an_endpoint_that_is_missing_counts_wherever_it_should_go() {
        let reports = look(|at| vec![difference(1, if at % 2 == 0 { "a" } else { "b" })], 9);
        assert_eq!(reports[0].0, 5);
        assert_eq!(reports[0].1.lasting, [difference(1, "b").deviation]);
        let new: u32 = reports.iter().flat_map(|(_, report)| report.new).sum();
        assert_eq!(new, 1, "{reports:?}");
    }

    #[test]
    fn one_thing_among_much_that_changes_is_found_and_writes_are_counted_by_object() {
        let differences = |at| vec![difference(0, "a"), difference(1, "a"), difference(at + 10, "b")];
        let reports = look(differences, 20);
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert_eq!((reports[0].0, reports[0].1.new), (5, [0, 1, 0]));
    }

    #[test]
    fn what_has_not_lasted_yet_says_when_it_will_have_and_what_is_in_order_takes_no_room() {
        let mut deviations = Deviations::new(5 * SECOND);
        let service = Arc::from("s");
        assert_eq!(deviations.due(SECOND), None);
        deviations.found(&service, vec![difference(1, "a")], SECOND);
        assert_eq!(deviations.reports(SECOND), []);
        assert_eq!(deviations.due(SECOND), Some(6 * SECOND));
        assert_eq!(deviations.reports(6 * SECOND).len(), 1);
        assert_eq!(deviations.due(6 * SECOND), None);
        assert!(!deviations.is_empty());
        deviations.found(&service, Vec::new(), 7 * SECOND);
        assert_eq!(deviations.reports(7 * SECOND)[0].since, None);
        assert!(deviations.is_empty());
    }
}
