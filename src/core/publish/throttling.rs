//! Notices when writes have been held back for long, so that the log can say so once, and once when it is over.

use std::time::Duration;

/// How long writes are held back before it is worth a line in the log.
const LONG: Duration = Duration::from_secs(10);
/// How long nothing is held back before that counts as the end. A writer at its limit is free for moments all the time.
const CALM: Duration = Duration::from_secs(2);

/// The limit that holds back a write that is ready.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// What waits is of namespaces that wait for an answer, or for a pause that one asked for by `Retry-After`.
    Namespace,
    /// The window of requests in flight is full. A write that only waits for answers is not throttled.
    InFlight,
    /// `--kube-api-qps`.
    Rate,
    /// The bytes that may be sent to watchers each second.
    Watchers,
    /// Events of earlier writes have not come back on our own watch: the API server is behind with its watchers.
    Echoes,
}

impl Limit {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Namespace,
        Self::InFlight,
        Self::Rate,
        Self::Watchers,
        Self::Echoes,
    ];

    /// Returns the name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Namespace => "namespace",
            Self::Echoes => "echoes",
            Self::Watchers => "watchers",
            Self::InFlight => "in_flight",
        }
    }

    /// Returns whether this counts as throttling.
    pub fn throttles(self) -> bool {
        self != Self::InFlight
    }
}

/// A report about writes that are held back. Each is made once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Throttled {
    /// Writes have been held back for this long, and still are.
    Long(Limit, Duration),
    /// After a [`Self::Long`], writes are no longer held back. They were for this long.
    Over(Duration),
}

/// Keeps track of how long writes have been held back. Owned by the writer, which passes in the time.
#[derive(Clone, Default, Debug)]
pub struct Throttling(Option<Period>);

/// A time in which writes are held back, with breaks that are shorter than [`CALM`] and less than half of it.
#[derive(Clone, Copy, Debug)]
struct Period {
    since: Duration,
    /// The time of the last observation, and whether a write was held back then. That holds until the next one.
    observed: Duration,
    held_back: bool,
    /// True if a limit held a write back, rather than answers that were awaited.
    throttled: bool,
    /// The time in which writes were held back, the part of it in which a limit held them back, and the time in which none was.
    held: Duration,
    limited: Duration,
    free: Duration,
    /// The time since a write was last held back.
    calm: Duration,
    reported: bool,
}

impl Throttling {
    /// Records what holds back a write from now on, if anything does.
    pub fn observe(&mut self, limit: Option<Limit>, now: Duration) -> Option<Throttled> {
        let mut over = None;
        if let Some(period) = &mut self.0
            && period.is_over_at(now)
        {
            let lasted = now.saturating_sub(period.calm).saturating_sub(period.since);
            over = period.reported.then_some(Throttled::Over(lasted));
            self.0 = None;
        }
        let Some(period) = &mut self.0 else {
            // Only a write that could go without a limit begins a period; one that waits for answers can lengthen it.
            self.0 = limit
                .filter(|limit| limit.throttles())
                .map(|_| Period::beginning(now));
            return over;
        };
        period.held_back = limit.is_some();
        period.throttled = limit.is_some_and(Limit::throttles);
        if period.held_back {
            period.calm = Duration::ZERO;
        }
        let lasted = now.saturating_sub(period.since);
        // Where answers are slow, a limit that holds writes back for a moment now and then is not the reason.
        let mostly = period.limited * 2 > period.held;
        let limit =
            limit.filter(|limit| limit.throttles() && mostly && !period.reported && lasted >= LONG)?;
        period.reported = true;
        Some(Throttled::Long(limit, lasted))
    }

    /// Returns when [`Self::observe`] has to be called at the latest, so that the end of a reported period is noticed.
    pub fn due(&self) -> Option<Duration> {
        let period = self.0.filter(|period| period.reported && !period.held_back)?;
        Some(period.observed + CALM.saturating_sub(period.calm))
    }

    /// Forgets that writes were held back, since this process writes no more.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl Period {
    fn beginning(now: Duration) -> Self {
        Self {
            since: now,
            observed: now,
            held_back: true,
            throttled: true,
            held: Duration::ZERO,
            limited: Duration::ZERO,
            free: Duration::ZERO,
            calm: Duration::ZERO,
            reported: false,
        }
    }

    /// Counts the time since the last observation, and returns whether the period has ended.
    fn is_over_at(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.observed);
        self.observed = now;
        if self.held_back {
            self.held += passed;
            if self.throttled {
                self.limited += passed;
            }
        } else {
            self.free += passed;
            self.calm += passed;
        }
        self.calm >= CALM || self.free > self.held
    }
}

#[cfg(test)]
mod tests;
