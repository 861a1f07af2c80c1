//! The places of one resource: how many writes may be without an echo.

use super::stream::Place;
use super::{LATE, QUICK};
use std::time::Duration;

/// The initial number of places.
const FIRST: f64 = 5.0;
/// The number of places that are always left: one that is kept for removals, and one for all writes.
const LEAST: f64 = 2.0;
/// The number of places while there are no other watchers. It stays the same however late echoes are: only our own watch is
/// late then, and whether the server has too much to do shows in its answers.
const UNWATCHED: f64 = 256.0;

/// The places of one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    size: f64,
    most: f64,
    /// True while there are no other watchers.
    unwatched: bool,
    /// Set until an echo is late for the first time: the places grow by one with each echo.
    starting: bool,
    /// The number of places that are held, and the number that writes hold which remove no endpoint.
    pub held: usize,
    pub others: usize,
    /// The number of the last grant that left no place, or only one. The echo of a write that was granted later proves nothing
    /// about a larger number of places.
    pub filled: u64,
    /// When places were last taken away. Writes that were answered earlier were sent while there were more.
    pub shrunk: Duration,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            size: FIRST,
            most: UNWATCHED,
            unwatched: false,
            starting: true,
            held: 0,
            others: 0,
            filled: 0,
            shrunk: Duration::ZERO,
        }
    }
}

impl Places {
    /// Sets the largest number; `None` if there are no other watchers.
    pub(super) fn set_most_places(&mut self, most: Option<u16>) {
        self.most = most.map_or(UNWATCHED, |most| f64::from(most).max(LEAST));
        self.unwatched = most.is_none();
    }

    /// Returns the number of places.
    pub(super) fn limit(&self) -> usize {
        let size = if self.unwatched { UNWATCHED } else { self.size };
        size.min(self.most) as usize
    }

    /// Returns the number of places that are not kept for removals: half of all.
    pub(super) fn limit_of_others(&self) -> usize {
        self.limit() / 2
    }

    /// Returns whether the limits hold back writes, or would with one more.
    pub(super) fn is_full(&self) -> bool {
        self.held + 1 >= self.limit() || self.others >= self.limit_of_others()
    }

    /// Takes a place.
    pub(super) fn take(&mut self, removes: bool) {
        self.held += 1;
        self.others += usize::from(!removes);
    }

    /// Frees a place.
    pub(super) fn free(&mut self, removes: bool) {
        self.held -= 1;
        self.others -= usize::from(!removes);
    }

    /// Takes half of the places away.
    pub(super) fn shrink(&mut self, now: Duration) {
        self.size = (self.size.min(self.most) / 2.0).max(LEAST);
        self.starting = false;
        self.shrunk = now;
    }

    /// Records an echo that came at `at`, `took` after the answer.
    pub(super) fn echoed(&mut self, place: Place, took: Duration, at: Duration) {
        if took > LATE {
            if place.answered >= self.shrunk {
                self.shrink(at);
            }
        } else if took <= QUICK {
            self.proved(place.write.number);
        }
    }

    /// Records that the server is not behind with the event of the write whose grant has this number.
    pub(super) fn proved(&mut self, sent: u64) {
        if sent <= self.filled {
            let more = if self.starting { 1.0 } else { 1.0 / self.size };
            self.size = (self.size + more).min(self.most);
        }
    }
}
