//! Limits the log lines and Events that owners of namespaces can cause, for each namespace by itself.

use super::bucket::TokenBucket;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The number of lines and Events of a namespace that may go at once.
const BURST: u32 = 10;
/// The rate at which further ones may go.
const PER_SECOND: f64 = 1.0 / 6.0;
/// The number of namespaces with a limit of their own at a time. Further ones have one limit together.
const MOST_NAMESPACES: usize = 1024;

/// The limits of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct NamespaceLimiter {
    limits: BTreeMap<Arc<str>, Limit>,
    /// The limit of the namespaces for which there is no room.
    further: Limit,
}

/// The limit of one namespace.
#[derive(Debug)]
struct Limit {
    bucket: TokenBucket,
    /// What was refused since something was admitted.
    left_out: u64,
}

impl Limit {
    fn admit(&mut self, now: Duration) -> Option<u64> {
        if self.bucket.take(now).is_err() {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            bucket: TokenBucket::new(PER_SECOND, BURST),
            left_out: 0,
        }
    }
}

impl NamespaceLimiter {
    /// Admits a line or an Event about a namespace, and returns how many were refused before it. Returns nothing if it is
    /// refused.
    pub(crate) fn admit(&mut self, namespace: &str, now: Duration) -> Option<u64> {
        if let Some(limit) = self.limits.get_mut(namespace) {
            return limit.admit(now);
        }
        if self.limits.len() >= MOST_NAMESPACES {
            self.limits.retain(|_, limit| !limit.bucket.is_full(now));
        }
        if self.limits.len() >= MOST_NAMESPACES {
            return self.further.admit(now);
        }
        self.limits.entry(namespace.into()).or_default().admit(now)
    }

    /// Takes the number of those that were refused, by namespace. Namespaces that share a limit have no name.
    pub(crate) fn take_left_out(&mut self) -> Vec<(Option<Arc<str>>, u64)> {
        let limits = self
            .limits
            .iter_mut()
            .map(|(name, limit)| (Some(name.clone()), limit));
        let all = limits.chain([(None, &mut self.further)]);
        all.map(|(name, limit)| (name, std::mem::take(&mut limit.left_out)))
            .filter(|(_, left_out)| *left_out > 0)
            .collect()
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
        let mut limiter = NamespaceLimiter::default();
        let (mut loud, mut quiet, mut told) = (0, 0, 0);
        for tick in 0..10_000 {
            let now = Duration::from_millis(tick * 12);
            if let Some(left_out) = limiter.admit("loud", now) {
                (loud, told) = (loud + 1, told + left_out);
            }
            if tick % 1000 == 0 {
                quiet += u64::from(limiter.admit("quiet", now).is_some());
            }
        }
        assert_eq!(quiet, 10);
        // Two minutes: the burst, and ten a minute.
        assert!((29..=30).contains(&loud), "{loud}");
        let left = limiter.take_left_out();
        assert_eq!(left.len(), 1);
        assert_eq!(loud + told + left[0].1, 10_000, "each is admitted or counted");
        assert_eq!(limiter.take_left_out(), []);
    }

    #[test]
    fn memory_is_bounded_and_further_namespaces_share_a_limit() {
        let mut limiter = NamespaceLimiter::default();
        for number in 0..MOST_NAMESPACES + 100 {
            limiter.admit(&format!("n{number}"), at(1));
        }
        assert_eq!(limiter.limits.len(), MOST_NAMESPACES);
        assert_eq!(limiter.take_left_out(), [(None, 100 - u64::from(BURST))]);
        // Namespaces that are quiet again make room.
        assert_eq!(limiter.admit("new", at(100)), Some(0));
        assert_eq!(limiter.limits.len(), 1);
    }
}
