//! One account of what cannot be read from the API server, for the log. Every list, every watch and the election meet the
//! same outage, and each retries on its own; the log says the reason once, then every 30 s that it lasts, and at last
//! that it is over.

use super::cause::Cause;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How long a request may be without an answer before the log says so.
const QUIET: Duration = Duration::from_secs(10);
/// How often the log says that an outage lasts.
const SUMMARY: Duration = Duration::from_secs(30);
/// How long all must go well before an outage is over. One that comes back at once would fill the log otherwise.
const CALM: Duration = Duration::from_secs(5);
/// The number of reasons that are logged during one outage. A reason may hold text of the server, which can differ each
/// time.
const REASONS: usize = 16;

/// The account. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct OutageLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    account: Mutex<Account>,
    changed: Notify,
}

impl Default for OutageLog {
    fn default() -> Self {
        Self(Arc::new(Shared {
            start: Instant::now(),
            account: Mutex::default(),
            changed: Notify::new(),
        }))
    }
}

/// A request that has no answer yet. Dropping it says that there is one, or that nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Asking {
    log: OutageLog,
    resource: &'static str,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.log.with(|account, _| account.heard(self.resource));
    }
}

impl OutageLog {
    /// Notes that a request for a resource is sent now.
    pub(crate) fn asks(&self, resource: &'static str) -> Asking {
        self.with(|account, now| {
            account.asking.insert(resource, now);
        });
        Asking {
            log: self.clone(),
            resource,
        }
    }

    /// Notes that a resource cannot be read, and logs the reason unless the log has it already.
    pub(crate) fn failed(&self, resource: &'static str, cause: &Cause) {
        let error = cause.to_string();
        let first = self.with(|account, now| account.failed(resource, &error, now));
        if !first {
            tracing::debug!(resource, error, "a request failed again; it is retried");
            return;
        }
        match cause {
            Cause::Client(_) | Cause::Silent(_) => {
                tracing::warn!(error, "the API server cannot be reached; requests are retried");
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
        let now = Instant::now().saturating_duration_since(self.0.start);
        let mut account = self.0.account.lock();
        let before = account.wake();
        let result = change(&mut account, now);
        if account.wake() != before {
            self.0.changed.notify_one();
        }
        result
    }
}

/// A line of the log that is due at its time, not at a result.
#[derive(PartialEq, Eq, Debug)]
enum Line {
    /// Nothing was heard about a resource for this long.
    Quiet(&'static str, Duration),
    /// These resources cannot be read for this long; one of the reasons.
    Lasts(String, Duration, String),
    /// All can be read, after this long.
    Over(Duration),
}

impl Line {
    fn log(self) {
        match self {
            Self::Quiet(resource, quiet) => {
                let seconds = quiet.as_secs();
                tracing::warn!(resource, seconds, "the API server does not answer; still waiting");
            }
            Self::Lasts(resources, lasted, error) => {
                let seconds = lasted.as_secs();
                tracing::warn!(
                    seconds,
                    resources,
                    error,
                    "requests to the API server still fail; they are retried"
                );
            }
            Self::Over(lasted) => {
                let seconds = lasted.as_secs();
                tracing::info!(
                    after_seconds = seconds,
                    "requests to the API server succeed again"
                );
            }
        }
    }
}

/// What is known, at times since some origin.
#[derive(Default, Debug)]
struct Account {
    /// The resources that are asked for, and since when.
    asking: BTreeMap<&'static str, Duration>,
    /// The resources that cannot be read, with the last reason; `None` while an answer is late.
    failing: BTreeMap<&'static str, Option<String>>,
    outage: Option<Outage>,
}

/// The outage that is under way.
#[derive(Debug)]
struct Outage {
    since: Duration,
    /// The time of the last line that says that it lasts, or of the first line.
    said: Duration,
    /// The reasons that were logged.
    reasons: BTreeSet<String>,
    /// The time since which all goes well.
    well: Option<Duration>,
}

impl Account {
    /// Notes a failure. Returns whether its reason is to be logged.
    fn failed(&mut self, resource: &'static str, reason: &str, now: Duration) -> bool {
        self.failing.insert(resource, Some(reason.to_owned()));
        let outage = self.outage(now);
        outage.reasons.len() < REASONS && outage.reasons.insert(reason.to_owned())
    }

    fn succeeded(&mut self, resource: &'static str, now: Duration) {
        self.failing.remove(resource);
        self.calm(now);
    }

    /// An answer has begun, or nobody waits for one.
    fn heard(&mut self, resource: &'static str) {
        self.asking.remove(resource);
    }

    /// The outage under way, or a new one.
    fn outage(&mut self, now: Duration) -> &mut Outage {
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: now,
            said: now,
            reasons: BTreeSet::new(),
            well: None,
        });
        outage.well = None;
        outage
    }

    fn calm(&mut self, now: Duration) {
        if self.failing.is_empty()
            && let Some(outage) = &mut self.outage
        {
            outage.well.get_or_insert(now);
        }
    }

    /// Returns the lines that are due.
    fn due(&mut self, now: Duration) -> Vec<Line> {
        let mut lines = Vec::new();
        let late = self.asking.iter().filter(|(_, since)| now >= **since + QUIET);
        let late: Vec<_> = late.map(|(resource, since)| (*resource, *since)).collect();
        for (resource, since) in late {
            if self.failing.contains_key(resource) {
                continue;
            }
            self.failing.insert(resource, None);
            let new = self.outage.is_none();
            let outage = self.outage(now);
            if new {
                // It began when the request was sent, not when it was noticed.
                outage.since = since;
                lines.push(Line::Quiet(resource, now.saturating_sub(since)));
            }
        }
        // A late answer that came.
        let asking = &self.asking;
        self.failing
            .retain(|resource, reason| reason.is_some() || asking.contains_key(resource));
        self.calm(now);
        let Some(outage) = &mut self.outage else {
            return lines;
        };
        match outage.well {
            Some(well) if now >= well + CALM => {
                lines.push(Line::Over(well.saturating_sub(outage.since)));
                self.outage = None;
            }
            None if now >= outage.said + SUMMARY => {
                outage.said = now;
                let resources: Vec<_> = self.failing.keys().copied().collect();
                let reason = self.failing.values().flatten().next();
                let reason = reason.map_or("no answer yet", String::as_str).to_owned();
                let lasted = now.saturating_sub(outage.since);
                lines.push(Line::Lasts(resources.join(","), lasted, reason));
            }
            _ => {}
        }
        lines
    }

    /// Returns when a line may be due next.
    fn wake(&self) -> Option<Duration> {
        let late = self
            .asking
            .iter()
            .filter(|(resource, _)| !self.failing.contains_key(*resource))
            .map(|(_, since)| *since + QUIET);
        // An answer to a late request is noticed at once.
        let heard = self
            .failing
            .iter()
            .filter(|(resource, reason)| reason.is_none() && !self.asking.contains_key(*resource))
            .map(|_| Duration::ZERO);
        let outage = self.outage.as_ref();
        let outage = outage.map(|outage| match outage.well {
            Some(well) => well + CALM,
            None => outage.said + SUMMARY,
        });
        late.chain(heard).chain(outage).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_reason_is_said_once_then_every_30_seconds_then_that_it_is_over() {
        let mut account = Account::default();
        assert_eq!(account.wake(), None);
        assert!(account.failed("pods", "refused", at(1)));
        assert!(!account.failed("services", "refused", at(1)));
        assert!(!account.failed("pods", "refused", at(2)));
        assert_eq!((account.due(at(30)), account.wake()), (vec![], Some(at(31))));
        let lasts =
            |resources: &str, lasted| Line::Lasts(resources.to_owned(), at(lasted), "refused".to_owned());
        assert_eq!(account.due(at(31)), [lasts("pods,services", 30)]);
        account.succeeded("services", at(40));
        assert_eq!(account.due(at(61)), [lasts("pods", 60)]);
        // Another reason is news.
        assert!(account.failed("pods", "no certificate", at(62)));
        account.succeeded("pods", at(63));
        assert_eq!((account.due(at(67)), account.wake()), (vec![], Some(at(68))));
        assert_eq!(account.due(at(68)), [Line::Over(at(62))]);
        assert_eq!((account.due(at(200)), account.wake()), (vec![], None));
        assert!(account.failed("pods", "refused", at(201)), "another outage");
    }

    #[test]
    fn an_outage_that_comes_back_at_once_is_one() {
        let mut account = Account::default();
        assert!(account.failed("pods", "refused", at(0)));
        account.succeeded("pods", at(1));
        assert!(!account.failed("pods", "refused", at(5)));
        assert_eq!(account.due(at(10)), []);
        account.succeeded("pods", at(11));
        assert_eq!(account.due(at(16)), [Line::Over(at(11))]);
    }

    #[test]
    fn a_server_that_says_nothing_is_waited_for_with_one_line() {
        let mut account = Account::default();
        account.asking.insert("pods", at(0));
        account.asking.insert("services", at(0));
        assert_eq!((account.due(at(9)), account.wake()), (vec![], Some(at(10))));
        assert_eq!(account.due(at(10)), [Line::Quiet("pods", at(10))]);
        assert_eq!(account.wake(), Some(at(40)));
        assert_eq!(
            account.due(at(40)),
            [Line::Lasts(
                "pods,services".to_owned(),
                at(40),
                "no answer yet".to_owned()
            )]
        );
        // The answers begin; whether they are good shows later.
        account.heard("pods");
        account.heard("services");
        assert_eq!(account.wake(), Some(Duration::ZERO));
        assert_eq!((account.due(at(41)), account.wake()), (vec![], Some(at(46))));
        assert_eq!(account.due(at(46)), [Line::Over(at(41))]);
    }

    #[test]
    fn reasons_that_differ_each_time_do_not_fill_the_log() {
        let mut account = Account::default();
        let said = (0..1000).filter(|n| account.failed("pods", &format!("error {n}"), at(*n)));
        assert_eq!(said.count(), REASONS);
    }
}
