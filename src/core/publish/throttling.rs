//! Notices when writes have been held back for long, so that the log can say so once, and once when it is over.

use std::time::Duration;

/// How long writes are held back before it is worth a line in the log.
const LONG: Duration = Duration::from_secs(10);
/// How long nothing is held back before that counts as the end. A writer at its limit is free for moments all the time.
const CALM: Duration = Duration::from_secs(2);

/// The limit that holds back a write that is ready. If several do, the last of them counts.
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
    /// Events of earlier writes have not come back on our own watch: the API server is behind with its watchers, or that
    /// watch is late or closed.
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

    /// Returns whether this counts as throttling. Answers that are awaited do not, nor does what single namespaces wait for.
    pub fn throttles(self) -> bool {
        !matches!(self, Self::InFlight | Self::Namespace)
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

/// A time in which writes are held back, with breaks that are shorter than [`CALM`].
#[derive(Clone, Copy, Debug)]
struct Period {
    since: Duration,
    /// The time of the last observation, and what has held a write back since then.
    observed: Duration,
    limit: Option<Limit>,
    /// When a write was last held back.
    held: Duration,
    /// The time in which a limit held a write back, rather than answers that were awaited.
    limited: Duration,
    reported: bool,
}

impl Throttling {
    /// Records what holds back a write from now on, if anything does.
    pub fn observe(&mut self, limit: Option<Limit>, now: Duration) -> Option<Throttled> {
        let throttles = limit.is_some_and(Limit::throttles);
        let begins = throttles.then_some(Period {
            since: now,
            observed: now,
            limit,
            held: now,
            limited: Duration::ZERO,
            reported: false,
        });
        let Some(period) = &mut self.0 else {
            self.0 = begins;
            return None;
        };
        if period.limit.is_some() || limit.is_some() {
            period.held = now;
        }
        if period.limit.is_some_and(Limit::throttles) {
            period.limited += now.saturating_sub(period.observed);
        }
        (period.observed, period.limit) = (now, limit);
        let lasted = period.held.saturating_sub(period.since);
        let is_over = now.saturating_sub(period.held) >= CALM;
        if period.reported {
            if !is_over {
                return None;
            }
            self.0 = begins;
            return Some(Throttled::Over(lasted));
        }
        // Moments now and then are not worth a line.
        let mostly = period.limited * 2 >= lasted;
        if is_over || lasted >= LONG && !mostly {
            self.0 = begins;
            return None;
        }
        let limit = limit.filter(|_| throttles && lasted >= LONG)?;
        period.reported = true;
        Some(Throttled::Long(limit, lasted))
    }

    /// Returns when [`Self::observe`] has to be called at the latest, so that the end of a reported period is noticed.
    pub fn due(&self) -> Option<Duration> {
        let period = self
            .0
            .filter(|period| period.reported && period.limit.is_none())?;
        Some(period.held + CALM)
    }

    /// Forgets that writes were held back, since this process writes no more.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests;
