//! Finds the times for which writes are throttled without a pause worth the name, so that the log can say so.

use std::time::Duration;

/// Throttling that lasts for less is usual: a burst of changes spends the tokens.
const LONG: Duration = Duration::from_secs(10);
/// Throttling is over once no write was held back for this long.
const PAUSE: Duration = Duration::from_secs(10);
/// Between writes that go out nobody is held back for a moment. A longer gap begins a new time.
const GAP: Duration = Duration::from_secs(1);

/// The limits that hold back writes that are ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `--kube-api-qps` and `--kube-api-burst`.
    Qps,
    /// A pause that the API server asked for, such as with status 429.
    Server,
}

/// Something to log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ThrottlingNotice {
    /// Writes have been throttled for this long, the last of them by this limit.
    Lasts(Duration, Limit),
    /// It is over, after this long.
    Over(Duration),
}

/// Whether writes are throttled, and since when. There are at most two notices in twenty seconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Throttling {
    since: Option<Duration>,
    last: Duration,
    told: bool,
}

impl Throttling {
    /// Takes what holds back a write at this time, if one does. Call it whenever the writer has nothing more to send.
    pub(crate) fn observe(&mut self, limit: Option<Limit>, now: Duration) -> Option<ThrottlingNotice> {
        let idle = now.saturating_sub(self.last);
        if let Some(since) = self.since
            && idle > if self.told { PAUSE } else { GAP }
        {
            let lasted = self.last.saturating_sub(since);
            let told = self.told;
            *self = Self::default();
            if told {
                self.begin(limit, now);
                return Some(ThrottlingNotice::Over(lasted));
            }
        }
        self.begin(limit, now);
        let lasted = now.saturating_sub(self.since?);
        let limit = limit.filter(|_| !self.told && lasted > LONG)?;
        self.told = true;
        Some(ThrottlingNotice::Lasts(lasted, limit))
    }

    fn begin(&mut self, limit: Option<Limit>, now: Duration) {
        if limit.is_some() {
            self.since.get_or_insert(now);
            self.last = now;
        }
    }

    /// Forgets everything, because this process stops writing. Returns what to log.
    pub(crate) fn end(&mut self) -> Option<ThrottlingNotice> {
        let ended = std::mem::take(self);
        let since = ended.since.filter(|_| ended.told)?;
        Some(ThrottlingNotice::Over(ended.last.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes every 100 ms from `from` to `to`, in tenths of a second. Returns the notices with their times.
    fn observe(
        throttling: &mut Throttling,
        from: u64,
        to: u64,
        limit: impl Fn(u64) -> Option<Limit>,
    ) -> Vec<(u64, ThrottlingNotice)> {
        let at = |tenths: u64| Duration::from_millis(tenths * 100);
        (from..to)
            .filter_map(|tenths| Some((tenths, throttling.observe(limit(tenths), at(tenths))?)))
            .collect()
    }

    fn seconds(tenths: u64) -> Duration {
        Duration::from_millis(tenths * 100)
    }

    #[test]
    fn it_is_said_once_after_ten_seconds_and_once_when_it_is_over() {
        let mut throttling = Throttling::default();
        // A write goes out every half second.
        let busy = |tenths: u64| (tenths % 5 != 0).then_some(Limit::Qps);
        let told = observe(&mut throttling, 1, 600, busy);
        assert_eq!(told, [(102, ThrottlingNotice::Lasts(seconds(101), Limit::Qps))]);
        let told = observe(&mut throttling, 600, 2000, |_| None);
        assert_eq!(told, [(700, ThrottlingNotice::Over(seconds(598)))]);
    }

    #[test]
    fn bursts_are_not_told() {
        let mut throttling = Throttling::default();
        // Nine seconds in twenty, and then every other second for long.
        let bursts = |tenths: u64| (tenths % 200 < 90).then_some(Limit::Qps);
        assert_eq!(observe(&mut throttling, 0, 4000, bursts), []);
        let pulses = |tenths: u64| (tenths % 20 == 0).then_some(Limit::Server);
        assert_eq!(observe(&mut throttling, 4000, 8000, pulses), []);
    }

    #[test]
    fn lines_are_few_however_it_comes_and_goes() {
        let mut throttling = Throttling::default();
        let storm = |tenths: u64| (tenths % 230 < 120).then_some(Limit::Server);
        let told = observe(&mut throttling, 0, 6000, storm);
        assert!(told.len() <= 2 * 6000 / 200, "{}", told.len());
        assert!(
            told.windows(2).all(|pair| matches!(
                (&pair[0].1, &pair[1].1),
                (ThrottlingNotice::Lasts(..), ThrottlingNotice::Over(_))
                    | (ThrottlingNotice::Over(_), ThrottlingNotice::Lasts(..))
            )),
            "{told:?}"
        );
        assert!(told.len() > 10, "{told:?}");
    }

    #[test]
    fn the_end_of_writing_ends_it() {
        let mut throttling = Throttling::default();
        assert_eq!(throttling.end(), None);
        observe(&mut throttling, 0, 50, |_| Some(Limit::Qps));
        assert_eq!(throttling.end(), None, "it was not told");
        observe(&mut throttling, 100, 250, |_| Some(Limit::Qps));
        assert_eq!(throttling.end(), Some(ThrottlingNotice::Over(seconds(149))));
        assert_eq!(throttling.end(), None);
    }
}
