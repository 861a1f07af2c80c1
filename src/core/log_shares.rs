//! Limits log lines per namespace: lines that a namespace's owner can cause are shared out by namespace, and those left
//! out are counted.

use super::bucket::TokenBucket;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The number of lines about a namespace that may be logged at once.
const BURST: u32 = 10;
/// After these, the number of seconds for each further line.
const SECONDS: f64 = 6.0;
/// A namespace that has caused no line for this long is forgotten, because its burst is full again by then.
const IDLE: Duration = Duration::from_secs(60);
/// The shortest interval between summaries of the lines left out about a namespace.
const SUMMARY: Duration = Duration::from_secs(60);
/// The number of namespaces with a share of their own at a time. All others have one share together.
const NAMESPACES: usize = 1024;

/// The shares of all namespaces. The owner asks before each line, and writes the summaries when they are due.
#[derive(Debug)]
pub(crate) struct LogShares {
    shares: BTreeMap<Arc<str>, Share>,
    /// The share of the namespaces for which there was no room.
    rest: Share,
    limit: usize,
    /// The last time that there was no room, even after removing shares that were no longer needed.
    crowded: Option<Duration>,
}

/// Lines that were left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeftOut {
    /// The namespace that they were about; `None` for the namespaces that have one share together.
    pub namespace: Option<Arc<str>>,
    /// The number of lines.
    pub lines: u64,
}

#[derive(Debug)]
struct Share {
    bucket: TokenBucket,
    /// The time at which a line was last requested.
    used: Duration,
    /// The number of lines left out since the last summary.
    left_out: u64,
    /// The time at which the first of them was left out, or of the last summary if that was less than a minute earlier.
    since: Option<Duration>,
}

impl Share {
    fn new() -> Self {
        Self {
            bucket: TokenBucket::new(1.0 / SECONDS, BURST),
            used: Duration::ZERO,
            left_out: 0,
            since: None,
        }
    }

    fn take(&mut self, now: Duration) -> bool {
        self.used = self.used.max(now);
        if self.bucket.take(now).is_ok() {
            return true;
        }
        self.leave_out(1, now);
        false
    }

    fn leave_out(&mut self, lines: u64, now: Duration) {
        // A summary written less than a minute ago delays the next one.
        if self.left_out == 0
            && self
                .since
                .is_none_or(|since| now.saturating_sub(since) >= SUMMARY)
        {
            self.since = Some(now);
        }
        self.left_out += lines;
    }

    fn is_idle(&self, now: Duration) -> bool {
        self.left_out == 0 && now.saturating_sub(self.used) >= IDLE
    }

    fn summary(&mut self, now: Duration) -> Option<u64> {
        let waits = self.since.is_none_or(|since| now.saturating_sub(since) < SUMMARY);
        if self.left_out == 0 || waits {
            return None;
        }
        self.since = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Default for LogShares {
    fn default() -> Self {
        Self::with_limit(NAMESPACES)
    }
}

impl LogShares {
    fn with_limit(limit: usize) -> Self {
        Self {
            shares: BTreeMap::new(),
            rest: Share::new(),
            limit,
            crowded: None,
        }
    }

    /// Returns whether a line about a namespace may be written now. If not, it is counted.
    pub(crate) fn take(&mut self, namespace: &str, now: Duration) -> bool {
        self.share(namespace, now).take(now)
    }

    /// Counts lines about a namespace that were left out.
    pub(crate) fn leave_out(&mut self, namespace: &str, lines: u64, now: Duration) {
        self.share(namespace, now).leave_out(lines, now);
    }

    fn share(&mut self, namespace: &str, now: Duration) -> &mut Share {
        if !self.shares.contains_key(namespace) && self.shares.len() >= self.limit {
            // The search is done at most once a second, not for each line of a storm.
            let looked = self
                .crowded
                .is_some_and(|at| now.saturating_sub(at) < Duration::from_secs(1));
            if !looked {
                self.shares.retain(|_, share| !share.is_idle(now));
                self.crowded = Some(now);
            }
            if self.shares.len() >= self.limit {
                return &mut self.rest;
            }
        }
        self.shares.entry(namespace.into()).or_insert_with(Share::new)
    }

    /// Returns the summaries that are due now, at most one a minute for each namespace.
    pub(crate) fn summaries(&mut self, now: Duration) -> Vec<LeftOut> {
        self.collect(|share| share.summary(now))
    }

    /// Returns all lines that were left out and not reported yet.
    pub(crate) fn finish(&mut self) -> Vec<LeftOut> {
        self.collect(|share| Some(std::mem::take(&mut share.left_out)).filter(|&lines| lines > 0))
    }

    fn collect(&mut self, mut of: impl FnMut(&mut Share) -> Option<u64>) -> Vec<LeftOut> {
        let mut all: Vec<_> = self
            .shares
            .iter_mut()
            .filter_map(|(namespace, share)| {
                let lines = of(share)?;
                Some(LeftOut {
                    namespace: Some(namespace.clone()),
                    lines,
                })
            })
            .collect();
        all.extend(of(&mut self.rest).map(|lines| LeftOut {
            namespace: None,
            lines,
        }));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn ten_thousand_lines_of_a_namespace_leave_others_theirs() {
        let mut shares = LogShares::default();
        let (mut loud, mut quiet, mut told) = (0u64, 0, 0);
        for tick in 0..10_000u64 {
            let now = Duration::from_millis(tick * 12);
            loud += u64::from(shares.take("loud", now));
            if tick % 1000 == 0 {
                quiet += u64::from(shares.take("quiet", now));
            }
            for LeftOut { namespace, lines } in shares.summaries(now) {
                assert_eq!(namespace.as_deref(), Some("loud"));
                told += lines;
            }
        }
        assert_eq!(quiet, 10);
        // Two minutes: the burst, and ten a minute.
        assert!((29..=30).contains(&loud), "{loud}");
        let left = shares.finish();
        assert_eq!(left.len(), 1);
        assert_eq!(
            loud + told + left[0].lines,
            10_000,
            "no line is lost without a word"
        );
        assert_eq!(shares.finish(), []);
    }

    #[test]
    fn lines_that_were_never_asked_for_are_in_the_summary() {
        let mut shares = LogShares::default();
        assert!(shares.take("n", at(1)));
        shares.leave_out("n", 70, at(1));
        shares.leave_out("n", 7, at(30));
        assert_eq!(shares.summaries(at(60)), []);
        let lines: Vec<_> = shares.summaries(at(61)).iter().map(|it| it.lines).collect();
        assert_eq!(lines, [77]);
    }

    #[test]
    fn a_summary_comes_once_a_minute() {
        let mut shares = LogShares::default();
        let mut summaries = Vec::new();
        for second in 0..300 {
            for _ in 0..5 {
                shares.take("n", at(second));
            }
            summaries.extend(shares.summaries(at(second)).into_iter().map(|_| second));
        }
        // A minute after the first line was left out, and every minute after that.
        assert_eq!(summaries, [62, 122, 182, 242]);
        // Lines left out at the end are reported too.
        assert_eq!(shares.summaries(at(302)).len(), 1);
        assert_eq!(shares.summaries(at(900)), []);
    }

    #[test]
    fn memory_is_bounded_and_those_beyond_share() {
        let mut shares = LogShares::with_limit(3);
        for number in 0..100 {
            shares.take(&format!("n{number}"), at(1));
        }
        assert_eq!(shares.shares.len(), 3);
        let left = shares.finish();
        let rest = LeftOut {
            namespace: None,
            lines: 97 - u64::from(BURST),
        };
        assert_eq!(left, [rest]);
        // Namespaces that are quiet again make room.
        assert!(shares.take("new", at(100)));
        assert_eq!(shares.shares.len(), 1);
    }
}
