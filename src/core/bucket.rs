//! A token bucket.

use std::time::Duration;

/// Callers try again after a day at the latest, however slow the rate.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// Limits requests to a rate per second, with a burst after a pause. The caller supplies the time.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    /// Tokens per second; infinite if there is no limit.
    rate: f64,
    burst: f64,
    tokens: f64,
    last: Duration,
}

impl TokenBucket {
    /// Creates a full bucket. A `qps` of zero or less means no limit.
    pub(crate) fn new(qps: f64, burst: u32) -> Self {
        let rate = if qps > 0.0 { qps } else { f64::INFINITY };
        let burst = f64::from(burst.max(1));
        Self {
            rate,
            burst,
            tokens: burst,
            last: Duration::ZERO,
        }
    }

    /// Takes a token, or returns the time until there is one.
    pub(crate) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        self.look(now)?;
        if self.rate.is_finite() {
            self.tokens -= 1.0;
        }
        Ok(())
    }

    /// Returns whether there is a token, or the time until there is one, which is never zero.
    pub(crate) fn look(&mut self, now: Duration) -> Result<(), Duration> {
        if self.rate.is_infinite() {
            return Ok(());
        }
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.last = self.last.max(now);
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        if self.tokens >= 1.0 {
            return Ok(());
        }
        let wait = Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate).unwrap_or(LONGEST_WAIT);
        // One nanosecond is added, because rounding could otherwise make the caller come too early forever.
        Err(wait.min(LONGEST_WAIT) + Duration::from_nanos(1))
    }

    /// Returns whether nothing was taken lately.
    pub(crate) fn is_full(&self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.tokens + passed * self.rate >= self.burst
    }

    /// Returns a token that was not needed.
    pub(crate) fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::TokenBucket;
    use std::time::Duration;

    #[test]
    fn a_burst_then_the_rate() {
        let mut bucket = TokenBucket::new(10.0, 3);
        let mut now = Duration::from_secs(1);
        for _ in 0..3 {
            bucket.take(now).unwrap();
        }
        for _ in 0..50 {
            let wait = bucket.take(now).unwrap_err();
            assert!(wait <= Duration::from_millis(101), "{wait:?}");
            now += wait;
            bucket.take(now).unwrap();
        }
        assert!(
            now >= Duration::from_millis(5_999) && now <= Duration::from_millis(6_001),
            "{now:?}"
        );
    }

    #[test]
    fn what_is_given_back_can_be_taken_and_no_more() {
        let mut bucket = TokenBucket::new(1.0, 1);
        bucket.take(Duration::ZERO).unwrap();
        bucket.give_back();
        bucket.give_back();
        bucket.take(Duration::ZERO).unwrap();
        bucket.take(Duration::ZERO).unwrap_err();
    }

    #[test]
    fn a_look_takes_nothing_and_never_says_to_come_back_at_once() {
        let mut bucket = TokenBucket::new(20.0, 1);
        let mut now = Duration::from_secs(1);
        for _ in 0..20 {
            bucket.look(now).unwrap();
            bucket.look(now).unwrap();
            bucket.take(now).unwrap();
            let wait = bucket.look(now).unwrap_err();
            assert!(wait > Duration::from_millis(49), "{wait:?}");
            now += wait;
        }
    }

    #[test]
    fn the_slowest_rate_still_has_an_answer() {
        let mut bucket = TokenBucket::new(f64::MIN_POSITIVE, 1);
        bucket.take(Duration::ZERO).unwrap();
        assert!(bucket.take(Duration::ZERO).unwrap_err() > Duration::from_secs(3600));
    }

    #[test]
    fn no_limit_is_no_limit() {
        let mut bucket = TokenBucket::new(-1.0, 1);
        for _ in 0..1000 {
            bucket.take(Duration::ZERO).unwrap();
        }
    }
}
