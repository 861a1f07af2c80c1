//! Notices when writes have been held back for long, so that the log can say so once, and once when it is over.

use std::time::Duration;

/// How long writes are held back before that is worth a line in the log.
const LONG: Duration = Duration::from_secs(10);
/// How long nothing may be held back before it counts as over. A writer at its limit is free for moments all the time.
const CALM: Duration = Duration::from_secs(2);

/// What holds back a write that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// `--kube-api-qps`.
    Rate,
    /// A pause that the API server has asked for, by `Retry-After`.
    Server,
}

/// What has been noticed. Each is reported once.
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

/// A time in which writes are held back, with breaks shorter than [`CALM`].
#[derive(Clone, Copy, Debug)]
struct Period {
    since: Duration,
    last: Duration,
    reported: bool,
}

impl Throttling {
    /// Takes in what holds back a write now, if anything does.
    pub fn observe(&mut self, limit: Option<Limit>, now: Duration) -> Option<Throttled> {
        let ended = self.0.filter(|period| now.saturating_sub(period.last) >= CALM);
        if let Some(period) = ended {
            self.0 = None;
            if period.reported {
                // The period that may begin now is noticed by the next call.
                return Some(Throttled::Over(period.last.saturating_sub(period.since)));
            }
        }
        let limit = limit?;
        let period = self.0.get_or_insert(Period {
            since: now,
            last: now,
            reported: false,
        });
        period.last = now;
        let lasted = now.saturating_sub(period.since);
        if period.reported || lasted < LONG {
            return None;
        }
        period.reported = true;
        Some(Throttled::Long(limit, lasted))
    }

    /// Forgets that writes were held back, since this process writes no more.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests;
