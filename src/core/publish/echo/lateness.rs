//! How late our own watch of an output is by itself, and how many writes may be on their way to it because of that.
//!
//! The places take each late echo for a sign that the API server is behind with all watchers. But our own watch may be
//! late where those of others are not: a slow path, a proxy, an API server of its own. Two places would then allow two
//! writes for each delay, however idle the server is.
//!
//! Both look the same until more writes are on their way. On a server that is behind, each of them makes the next echo
//! later; if only our watch is late, echoes stay as late as they were. So the number of writes that may be without an
//! echo is doubled when as many were on their way and an echo is still hardly later than the quickest of the last
//! echoes, and halved when an echo is much later. If the quickest echo itself becomes later, our own writes may be the
//! reason, and the number begins anew with few.
//!
//! Such writes have a rate of their own ([`super::super::fan_out`]), which is what kube-controller-manager allows itself
//! however late its own watch is.

use super::{LATE, QUICK};
use std::time::Duration;

/// The number of writes without an answer at which none goes beyond the places: kube-controller-manager 1.36 has as many workers
/// by default, each with at most one write in its hands.
pub(super) const UPSTREAM_WORKERS: usize = 5;
/// The initial number of writes without an echo, until more is known and while nothing is late. It equals the number of those
/// workers.
const FIRST: f64 = UPSTREAM_WORKERS as f64;
/// The least number, which equals the least number of places.
const LEAST: f64 = 2.0;
/// The largest number: as many writes as kube-controller-manager sends in two seconds, at its rate of 20 a second. That
/// controller does not sync a Service again until its own watch has shown the last writes for it, so it is also slower if
/// events are later than some seconds.
const MOST: f64 = 40.0;
/// The number of echoes in a period. The quickest one of a period is forgotten at the end of the next.
const PERIOD: u32 = 8;

/// The weight of one echo in the usual time.
const WEIGHT: f64 = 0.25;
/// After this time without an echo, the next one is expected to be quick again.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// The lateness of one of our own watches, as echoes show it. Owned by [`super::Echoes`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    /// How many writes may be without an echo.
    size: f64,
    /// The time of the quickest echo of the last period and the present one; nothing before the first.
    least: Option<Duration>,
    /// The time of the quickest echo of the present period alone, and the number of its echoes.
    present: Duration,
    count: u32,
    /// When the size last became less. The echo of a write that was answered before then tells nothing about the present size.
    shrunk: Duration,
    /// The usual time of an echo, and when it was last measured.
    usual: Duration,
    measured: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            size: FIRST,
            least: None,
            present: Duration::MAX,
            count: 0,
            shrunk: Duration::ZERO,
            usual: Duration::ZERO,
            measured: Duration::ZERO,
        }
    }
}

impl Lateness {
    /// Returns how many writes may be without an echo.
    pub(super) fn most(&self) -> usize {
        self.size as usize
    }

    /// Returns whether echoes have shown that our own watch alone is late.
    pub(super) fn is_by_itself(&self) -> bool {
        self.size > FIRST
    }

    /// Records an echo that came at `at`, `took` after the answer at `answered`. `among` is the number of writes that had no echo
    /// when it was answered, itself included.
    pub(super) fn came(&mut self, answered: Duration, among: usize, took: Duration, at: Duration) {
        let usual = self.usual_at(at).as_secs_f64();
        self.usual = Duration::from_secs_f64(usual + (took.as_secs_f64() - usual) * WEIGHT);
        self.measured = at;
        let least = self.least.map_or(took, |least| least.min(took));
        self.least = Some(least);
        if took <= QUICK {
            self.size = FIRST;
        } else if took <= hardly_later(least) && among >= self.most() && answered >= self.shrunk {
            self.size = (self.size * 2.0).min(MOST);
        }
        self.outstanding(answered, took, at);
        self.present = self.present.min(took);
        self.count += 1;
        if self.count >= PERIOD {
            if self.present > hardly_later(least) {
                (self.size, self.shrunk) = (LEAST, at);
            }
            self.least = Some(self.present);
            (self.present, self.count) = (Duration::MAX, 0);
        }
    }

    /// Records that an echo has been awaited for `waits` since the answer at `answered`. It may not have come yet.
    pub(super) fn outstanding(&mut self, answered: Duration, waits: Duration, now: Duration) {
        if let Some(least) = self.least
            && waits > much_later(least)
            && answered >= self.shrunk
        {
            (self.size, self.shrunk) = ((self.size / 2.0).max(LEAST), now);
        }
    }

    /// Returns the usual time of an echo. After a while without any it counts as quick again.
    pub(super) fn usual_at(&self, now: Duration) -> Duration {
        if now.saturating_sub(self.measured) > FORGOTTEN {
            Duration::ZERO
        } else {
            self.usual
        }
    }
}

/// Returns the longest time of an echo that counts as no later than the quickest.
fn hardly_later(least: Duration) -> Duration {
    least + QUICK.max(least / 4)
}

/// Returns the time from which on an echo is so much later that fewer writes should be on their way.
fn much_later(least: Duration) -> Duration {
    least + LATE.max(least / 2)
}
