//! Collects the failures to read from the API server, so that an outage is logged once. Every list, every watch and the election
//! meet the same outage, and each retries on its own; the log says the reason once, then every 30 s that the outage lasts,
//! and at last that it is over.

use super::cause::Cause;
use crate::clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a request may be without an answer before the log says so.
const LATE: Duration = Duration::from_secs(10);
/// How often the log says that an outage lasts.
const SUMMARY: Duration = Duration::from_secs(30);
/// How long all must go well before an outage is over. One that comes back at once would fill the log otherwise.
const CALM: Duration = Duration::from_secs(5);
/// The number of reasons that are logged in [`COUNTED`] of one outage. A reason may hold text of the server, which can
/// differ each time.
const REASONS: usize = 16;
/// The time after which a reason that lasts is logged again.
const COUNTED: Duration = Duration::from_secs(3600);
/// The number of reasons that one line names.
const NAMED: usize = 3;

/// The account. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct OutageLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    in_pod: bool,
    account: Mutex<Account>,
    changed: Notify,
}

/// A request that has no answer yet. Dropping it reports that the answer has begun, or is not waited for any more.
#[derive(Debug)]
pub(crate) struct Asking {
    log: OutageLog,
    number: u64,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.log.with(|account, _| account.heard(self.number));
    }
}

impl OutageLog {
    /// Creates an empty account. `in_pod` says whether requests carry the token of this pod's service account.
    pub(crate) fn new(in_pod: bool) -> Self {
        Self(Arc::new(Shared {
            start: Instant::now(),
            in_pod,
            account: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Notes that a request for a resource is sent now.
    pub(crate) fn asks(&self, resource: &'static str) -> Asking {
        let number = self.with(|account, now| account.asks(resource, now));
        Asking {
            log: self.clone(),
            number,
        }
    }

    /// Records that a resource could not be read, and logs the reason unless the log has it already.
    pub(crate) fn failed(&self, resource: &'static str, cause: &Cause) {
        let error = cause.to_string();
        let failure = Failure::from(cause);
        let first = self.with(|account, now| account.failed(resource, failure, &error, now));
        if !first {
            tracing::debug!(resource, error, "a request failed again; it is retried");
            return;
        }
        match cause {
            Cause::Client(_) | Cause::Silent(_) => {
                tracing::warn!(error, "requests to the API server fail; they are retried");
            }
            Cause::Status { code: 401, .. } if self.0.in_pod => {
                tracing::warn!(
                    error,
                    "the API server does not accept the token of this pod's service account; requests are retried until \
                     the kubelet has renewed it. If the key that signs tokens was replaced, delete the pods of endpointd: \
                     new pods get new tokens at once"
                );
            }
            Cause::Status { code: 401, .. } => {
                tracing::warn!(
                    error,
                    "the API server does not accept the credentials; requests are retried"
                );
            }
            Cause::Forbidden(_) => {
                tracing::warn!(
                    resource,
                    error,
                    "the API server does not permit a request; it is retried"
                );
            }
            _ => tracing::warn!(resource, error, "a request failed; it is retried"),
        }
    }

    /// Notes that a resource could be read.
    pub(crate) fn succeeded(&self, resource: &'static str) {
        self.with(|account, now| account.succeeded(resource, now));
    }

    /// Notes that a resource is not read any more, so that nothing is known of it.
    pub(crate) fn left(&self, resource: &'static str) {
        self.with(|account, _| account.left(resource));
    }

    /// Logs what lasts and what is over. Never returns.
    pub(crate) async fn keep(self) {
        loop {
            let (lines, wake) = self.with(|account, now| (account.due(now), account.wake()));
            for line in lines {
                line.log();
            }
            let sleep = async {
                match wake {
                    Some(wake) => sleep_until(self.0.start + wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = sleep => {}
            }
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Account, Duration) -> T) -> T {
        let now = clock::since(self.0.start);
        let mut account = self.0.account.lock();
        let before = account.wake();
        let result = change(&mut account, now);
        if account.wake() != before {
            self.0.changed.notify_one();
        }
        result
    }
}

/// A kind of failure. Each has an outage of its own: a permission that is missing for weeks says nothing about a server
/// that cannot be reached for a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Failure {
    /// No answer came.
    Unanswered,
    /// The API server answered, but not with what was asked for.
    Refused,
}

impl From<&Cause> for Failure {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Client(_) | Cause::Silent(_) => Self::Unanswered,
            _ => Self::Refused,
        }
    }
}

/// A line of the log that is due at its time, not at a result.
#[derive(PartialEq, Eq, Debug)]
enum Line {
    /// A request for this resource has had no answer for this long.
    Late(&'static str, Duration),
    /// These resources cannot be read, some of them for this long, and why.
    Lasts(Failure, String, Duration, String),
    /// This kind of failure is over, after this long.
    Over(Failure, Duration),
}

impl Line {
    fn log(self) {
        match self {
            Self::Late(resource, waited) => {
                let seconds = waited.as_secs();
                tracing::warn!(resource, seconds, "the API server does not answer; still waiting");
            }
            Self::Lasts(failure, resources, lasted, error) => {
                let seconds = lasted.as_secs();
                match failure {
                    Failure::Unanswered => tracing::warn!(
                        seconds,
                        resources,
                        error,
                        "requests to the API server still fail; they are retried"
                    ),
                    Failure::Refused => tracing::warn!(
                        seconds,
                        resources,
                        error,
                        "the API server still does not answer as it should; requests are retried"
                    ),
                }
            }
            Self::Over(failure, lasted) => {
                let seconds = lasted.as_secs();
                match failure {
                    Failure::Unanswered => {
                        tracing::info!(after_seconds = seconds, "the API server answers again");
                    }
                    Failure::Refused => tracing::info!(
                        after_seconds = seconds,
                        "requests to the API server succeed again"
                    ),
                }
            }
        }
    }
}

/// The requests without an answer, and the resources that cannot be read. Times count from some origin.
#[derive(Debug)]
struct Account {
    /// The requests without an answer by number, with their resource and when they were sent.
    asking: BTreeMap<u64, (&'static str, Duration)>,
    next: u64,
    unanswered: Failing,
    refused: Failing,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            asking: BTreeMap::new(),
            next: 0,
            unanswered: Failing::new(Failure::Unanswered),
            refused: Failing::new(Failure::Refused),
        }
    }
}

/// The resources that fail in one way, and the outage that they make up.
#[derive(Debug)]
struct Failing {
    failure: Failure,
    /// The resources that cannot be read, with the last reason; `None` while an answer is late.
    resources: BTreeMap<&'static str, Option<String>>,
    outage: Option<Outage>,
}

/// The outage that is under way.
#[derive(Debug)]
struct Outage {
    since: Duration,
    /// The time of the last line that says that it lasts, or of the first line.
    said: Duration,
    /// The reasons that were logged, and since when.
    reasons: BTreeSet<String>,
    counted: Duration,
    /// The time since which all goes well.
    well: Option<Duration>,
}

impl Account {
    fn asks(&mut self, resource: &'static str, now: Duration) -> u64 {
        self.next += 1;
        self.asking.insert(self.next, (resource, now));
        self.next
    }

    /// Notes a failure. Returns whether its reason is to be logged, since it has not been yet.
    fn failed(&mut self, resource: &'static str, failure: Failure, reason: &str, now: Duration) -> bool {
        match failure {
            Failure::Unanswered => self.unanswered.failed(resource, reason, now),
            Failure::Refused => {
                self.unanswered.succeeded(resource, now);
                self.refused.failed(resource, reason, now)
            }
        }
    }

    fn succeeded(&mut self, resource: &'static str, now: Duration) {
        self.unanswered.succeeded(resource, now);
        self.refused.succeeded(resource, now);
    }

    fn left(&mut self, resource: &'static str) {
        self.unanswered.left(resource);
        self.refused.left(resource);
    }

    /// Forgets a request whose answer has begun, or is not waited for any more.
    fn heard(&mut self, number: u64) {
        self.asking.remove(&number);
    }

    fn is_asked_for(&self, resource: &str) -> bool {
        self.asking.values().any(|(asked, _)| *asked == resource)
    }

    /// Returns the lines that are due.
    fn due(&mut self, now: Duration) -> Vec<Line> {
        let mut lines = Vec::new();
        for (resource, since) in self.asking.values() {
            let late = now >= *since + LATE && !self.unanswered.resources.contains_key(resource);
            if late && self.unanswered.is_late(resource, *since, now) {
                lines.push(Line::Late(resource, now.saturating_sub(*since)));
            }
        }
        for resource in self.answered_late() {
            self.unanswered.succeeded(resource, now);
        }
        lines.extend(self.unanswered.due(now));
        lines.extend(self.refused.due(now));
        lines
    }

    /// Returns the resources whose answer was late and has come.
    fn answered_late(&self) -> Vec<&'static str> {
        let late = self.unanswered.resources.iter();
        let late = late.filter(|(resource, reason)| reason.is_none() && !self.is_asked_for(resource));
        late.map(|(resource, _)| *resource).collect()
    }

    /// Returns when a line may be due next.
    fn wake(&self) -> Option<Duration> {
        let late = self
            .asking
            .values()
            .filter(|(resource, _)| !self.unanswered.resources.contains_key(resource))
            .map(|(_, since)| *since + LATE);
        // An answer to a late request is noticed at once.
        let answered = self.answered_late().into_iter().map(|_| Duration::ZERO);
        let lines = [self.unanswered.wake(), self.refused.wake()]
            .into_iter()
            .flatten();
        late.chain(answered).chain(lines).min()
    }
}

impl Failing {
    fn new(failure: Failure) -> Self {
        Self {
            failure,
            resources: BTreeMap::new(),
            outage: None,
        }
    }

    fn failed(&mut self, resource: &'static str, reason: &str, now: Duration) -> bool {
        self.resources.insert(resource, Some(reason.to_owned()));
        let outage = self.outage(now);
        if now >= outage.counted + COUNTED {
            outage.counted = now;
            outage.reasons.clear();
        }
        outage.reasons.len() < REASONS && outage.reasons.insert(reason.to_owned())
    }

    /// Notes that the answer to a request of this time is late. Returns whether an outage begins with that.
    fn is_late(&mut self, resource: &'static str, since: Duration, now: Duration) -> bool {
        self.resources.insert(resource, None);
        let begins = self.outage.is_none();
        let outage = self.outage(now);
        if begins {
            outage.since = since;
        }
        begins
    }

    /// The outage under way, or a new one.
    fn outage(&mut self, now: Duration) -> &mut Outage {
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: now,
            said: now,
            reasons: BTreeSet::new(),
            counted: now,
            well: None,
        });
        outage.well = None;
        outage
    }

    fn succeeded(&mut self, resource: &'static str, now: Duration) {
        self.resources.remove(resource);
        if self.resources.is_empty()
            && let Some(outage) = &mut self.outage
        {
            outage.well.get_or_insert(now);
        }
    }

    /// Forgets a resource. If no other resource fails, the outage is dropped without a line in the log: it is not
    /// known whether it is over.
    fn left(&mut self, resource: &'static str) {
        if self.resources.remove(resource).is_some() && self.resources.is_empty() {
            self.outage = None;
        }
    }

    fn due(&mut self, now: Duration) -> Option<Line> {
        let outage = self.outage.as_mut()?;
        match outage.well {
            Some(well) if now >= well + CALM => {
                let lasted = well.saturating_sub(outage.since);
                self.outage = None;
                Some(Line::Over(self.failure, lasted))
            }
            None if now >= outage.said + SUMMARY => {
                outage.said = now;
                let lasted = now.saturating_sub(outage.since);
                let resources: Vec<_> = self.resources.keys().copied().collect();
                Some(Line::Lasts(
                    self.failure,
                    resources.join(","),
                    lasted,
                    self.reasons(),
                ))
            }
            _ => None,
        }
    }

    /// Returns the reason, or several with their resources.
    fn reasons(&self) -> String {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (resource, reason) in &self.resources {
            let reason = reason.as_deref().unwrap_or("no answer yet");
            by_reason.entry(reason).or_default().push(resource);
        }
        let count = by_reason.len();
        if count == 1 {
            return by_reason.into_keys().collect();
        }
        let each = by_reason.into_iter().take(NAMED);
        let mut each: Vec<_> = each
            .map(|(reason, resources)| format!("{}: {reason}", resources.join(",")))
            .collect();
        if count > NAMED {
            each.push(format!("and {} more", count - NAMED));
        }
        each.join("; ")
    }

    fn wake(&self) -> Option<Duration> {
        let outage = self.outage.as_ref()?;
        Some(match outage.well {
            Some(well) => well + CALM,
            None => outage.said + SUMMARY,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    use Failure::{Refused, Unanswered};

    fn failed(
        account: &mut Account,
        resource: &'static str,
        failure: Failure,
        reason: &str,
        now: Duration,
    ) -> bool {
        account.failed(resource, failure, reason, now)
    }

    fn lasts(failure: Failure, resources: &str, lasted: u64, error: &str) -> Line {
        Line::Lasts(failure, resources.to_owned(), at(lasted), error.to_owned())
    }

    #[test]
    fn a_reason_is_said_once_then_every_30_seconds_then_that_it_is_over() {
        let mut account = Account::default();
        assert_eq!(account.wake(), None);
        assert!(failed(&mut account, "pods", Unanswered, "refused", at(1)));
        assert!(!failed(&mut account, "services", Unanswered, "refused", at(1)));
        assert!(!failed(&mut account, "pods", Unanswered, "refused", at(2)));
        assert_eq!((account.due(at(30)), account.wake()), (vec![], Some(at(31))));
        assert_eq!(
            account.due(at(31)),
            [lasts(Unanswered, "pods,services", 30, "refused")]
        );
        account.succeeded("services", at(40));
        assert_eq!(account.due(at(61)), [lasts(Unanswered, "pods", 60, "refused")]);
        // Another reason is news.
        assert!(failed(&mut account, "pods", Unanswered, "no certificate", at(62)));
        account.succeeded("pods", at(63));
        assert_eq!((account.due(at(67)), account.wake()), (vec![], Some(at(68))));
        assert_eq!(account.due(at(68)), [Line::Over(Unanswered, at(62))]);
        assert_eq!((account.due(at(200)), account.wake()), (vec![], None));
        assert!(
            failed(&mut account, "pods", Unanswered, "refused", at(201)),
            "another outage"
        );
    }

    #[test]
    fn an_outage_that_comes_back_at_once_is_one() {
        let mut account = Account::default();
        assert!(failed(&mut account, "pods", Unanswered, "refused", at(0)));
        account.succeeded("pods", at(1));
        assert!(!failed(&mut account, "pods", Unanswered, "refused", at(5)));
        assert_eq!(account.due(at(10)), []);
        account.succeeded("pods", at(11));
        assert_eq!(account.due(at(16)), [Line::Over(Unanswered, at(11))]);
    }

    #[test]
    fn what_is_forbidden_for_long_does_not_hide_a_server_that_cannot_be_reached() {
        let mut account = Account::default();
        assert!(failed(&mut account, "endpoints", Refused, "forbidden", at(0)));
        for outage in [100, 1000] {
            assert!(failed(&mut account, "pods", Unanswered, "refused", at(outage)));
            assert!(!failed(
                &mut account,
                "endpoints",
                Unanswered,
                "refused",
                at(outage)
            ));
            let lines = account.due(at(outage + 30));
            assert!(
                lines.contains(&lasts(Unanswered, "endpoints,pods", 30, "refused")),
                "{lines:?}"
            );
            assert!(
                lines.contains(&lasts(Refused, "endpoints", outage + 30, "forbidden")),
                "{lines:?}"
            );
            account.succeeded("pods", at(outage + 40));
            assert!(!failed(
                &mut account,
                "endpoints",
                Refused,
                "forbidden",
                at(outage + 40)
            ));
            assert_eq!(account.due(at(outage + 45)), [Line::Over(Unanswered, at(40))]);
        }
        // Each resource has its own reason.
        assert!(failed(&mut account, "nodes", Refused, "malformed", at(1050)));
        let error = "endpoints: forbidden; nodes: malformed";
        assert_eq!(
            account.due(at(1060)),
            [lasts(Refused, "endpoints,nodes", 1060, error)]
        );
    }

    #[test]
    fn what_is_not_read_any_more_does_not_succeed() {
        let mut account = Account::default();
        assert!(failed(&mut account, "endpoints", Refused, "forbidden", at(0)));
        account.left("endpoints");
        assert_eq!((account.due(at(100)), account.wake()), (vec![], None));
        assert!(failed(&mut account, "pods", Unanswered, "refused", at(100)));
        account.succeeded("pods", at(101));
        account.left("pods");
        assert_eq!(account.due(at(106)), [Line::Over(Unanswered, at(1))]);
    }

    #[test]
    fn a_server_that_says_nothing_is_waited_for_with_one_line() {
        let mut account = Account::default();
        let pods = account.asks("pods", at(0));
        let services = account.asks("services", at(0));
        assert_eq!((account.due(at(9)), account.wake()), (vec![], Some(at(10))));
        assert_eq!(account.due(at(10)), [Line::Late("pods", at(10))]);
        assert_eq!(account.wake(), Some(at(40)));
        assert_eq!(
            account.due(at(40)),
            [lasts(Unanswered, "pods,services", 40, "no answer yet")]
        );
        // The answers begin; whether they are good shows later.
        account.heard(pods);
        account.heard(services);
        assert_eq!(account.wake(), Some(Duration::ZERO));
        assert_eq!((account.due(at(41)), account.wake()), (vec![], Some(at(46))));
        assert_eq!(account.due(at(46)), [Line::Over(Unanswered, at(41))]);
    }

    #[test]
    fn the_answer_to_one_of_two_requests_for_a_resource_says_nothing_of_the_other() {
        let mut account = Account::default();
        let quick = account.asks("leases", at(0));
        account.asks("leases", at(0));
        account.heard(quick);
        assert_eq!(account.due(at(10)), [Line::Late("leases", at(10))]);
    }

    #[test]
    fn reasons_that_differ_each_time_do_not_fill_the_log() {
        let mut account = Account::default();
        let mut said = |from: u64| {
            let failed = |n: &u64| failed(&mut account, "pods", Refused, &format!("error {n}"), at(*n));
            (from..from + 1000).filter(failed).count()
        };
        assert_eq!(said(0), REASONS);
        assert_eq!(said(1000), 0);
        assert_eq!(said(3600), REASONS, "after an hour");
    }
}
