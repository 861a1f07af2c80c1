//! What is not as this process would have it, and for how long: the account of a process that compares and does
//! not write.
//!
//! Whoever does write needs some time, so a difference counts only when it has lasted: when each look at its
//! Service has found it again, for so long. What makes two differences the same is what should be published of one
//! endpoint (or one object), not in which object it is missing: in a busy Service every object differs at every
//! moment, each time for another pod, and nothing is wrong; and while an endpoint is missing, which slice it should
//! go into changes.

use super::hash::{IdMap, KeyedMap};
use super::object::Output;
use std::sync::Arc;
use std::time::Duration;

/// What would be done about a difference.
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

    /// As people write it.
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
    /// What would be done.
    pub operation: Operation,
    /// To which kind of object.
    pub output: Output,
    /// To which; a slice that is to be created has no name yet.
    pub name: Option<Arc<str>>,
    /// Tells those without a name apart.
    pub ordinal: u32,
}

/// One thing that the server has otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// What it is, in 64 bits, wherever it is: what an endpoint should be, for example.
    pub key: u64,
    /// The write that would put it right.
    pub deviation: Drift,
}

/// How a Service stands, when that has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    /// The Service.
    pub service: Arc<str>,
    /// Since when the oldest of what has lasted is there. `None` when nothing has lasted: it is in sync.
    pub since: Option<Duration>,
    /// The writes that would be made for what has lasted.
    pub lasting: Vec<Drift>,
    /// How many of them are new since the last report, by operation.
    pub new: [u32; 3],
}

/// The Services of a namespace of which something differs. Those in sync take no room.
#[derive(Debug)]
pub(crate) struct Deviations {
    patience: Duration,
    services: KeyedMap<Arc<str>, Record>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
    at: Duration,
    /// Whether it has lasted, and was reported.
    told: bool,
}

#[derive(Debug, Default)]
struct Record {
    /// What the last look found, and by key since when.
    found: Vec<Difference>,
    since: IdMap<u64, Since>,
    /// What was last reported.
    lasting: Vec<Drift>,
    oldest: Option<Duration>,
}

impl Record {
    /// When the first that has not lasted yet will have.
    fn due(&self, patience: Duration, now: Duration) -> Option<Duration> {
        let ripe = self.since.values().map(|since| since.at.saturating_add(patience));
        ripe.filter(|&ripe| ripe > now).min()
    }

    fn report(&mut self, service: &Arc<str>, patience: Duration, now: Duration) -> Option<Report> {
        let mut lasting: Vec<Drift> = Vec::new();
        // Of those, the ones that have lasted only now.
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
    /// Of a namespace of which nothing has been looked at. A difference counts after `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            services: KeyedMap::default(),
        }
    }

    /// A look at a Service has found this, and nothing else.
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

    /// How those Services stand of which that has changed.
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

    /// When, without another look, there will be something new to report.
    pub(crate) fn due(&self, now: Duration) -> Option<Duration> {
        let records = self.services.values();
        records.filter_map(|record| record.due(self.patience, now)).min()
    }

    /// Whether everything is in sync, and has been reported to be.
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

    /// Looks once a second; returns what was reported at which second.
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
