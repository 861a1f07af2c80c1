//! Leader election on a record that all candidates can read and replace, as client-go does it on a Lease.
//!
//! ```text
//!            another process holds it
//!          ┌────────────────────────┐ look every retry period
//!          ▼                        │
//!      standing by ── unchanged for its whole duration, given up, or none ──► claim
//!          ▲                                                                    │ accepted
//!          └── deadline passed · another's record seen · record gone ◄── leading ◄┘ renews every retry period
//! ```
//!
//! Why there are never two processes that may start a write:
//!
//! * A record is only ever replaced at the version that its replacer has seen, and each write of it changes it.
//!   So a process that replaces another's record knows that the other has not renewed it since.
//! * A candidate replaces another's record only when it has seen it unchanged for the duration in it, counted
//!   on its own clock from when it *received* the record. Times from other clocks are never compared.
//! * A leader may start writes until the renew deadline has passed since it *sent* the last renewal that was
//!   accepted. That moment lies before any candidate received the record, and the deadline is shorter than the
//!   duration. So the leader stops before another may begin, with the difference to spare.
//!
//! This assumes only that all clocks run at about the same speed, and go on while a process is paused or, if that can
//! happen, its machine is suspended. The proof fails if the record is deleted while a leader holds it. A candidate that
//! has seen the record still waits, even if it was its own, but one that starts at that moment does not know of it. The
//! leader stops as soon as it learns of the loss, a retry period later at most, and creates the record again.
//!
//! Versions can go backwards when the server's store was replaced by an empty one, or restored from a copy. A watch
//! that shows a lower version than the known one proves nothing, since it may be late. The answer to a request proves
//! it, if the higher version was known before the request was sent: then the known record is forgotten. The new record
//! may be older than the term of a leader that has yet to learn of the change. So regardless of the holder in it, a
//! candidate waits for the whole duration before it replaces it.

use crate::core::lease::Record;
use crate::core::time::Time;
use std::time::Duration;

/// The part of the retry period that standbys add to it at random, so that many of them do not read all at once.
const JITTER: f64 = 1.2;
/// The part of it that is added at random after a failure. A leader that has lost an answer still asks once more in
/// time.
const LEADER_JITTER: f64 = 0.2;
/// The pause after a first failure, as a fraction of the retry period; it doubles with each further one, up to all of
/// it.
const FIRST_PAUSE_DIVISOR: u32 = 10;

/// The three durations of an election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    lease: Duration,
    renew: Duration,
    retry: Duration,
}

/// The reason why durations do not fit together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TimingError {
    /// A successor might take over while the last leader still writes.
    #[error("the lease duration must be greater than the renew deadline")]
    Lease,
    /// One lost answer would end a term.
    #[error("the renew deadline must be greater than 1.2 times the retry period")]
    Renew,
    /// Candidates would ask without a pause.
    #[error("the retry period must be greater than zero")]
    Retry,
}

impl Timing {
    /// Creates the durations, as client-go requires them: each greater than the next, and none zero.
    ///
    /// # Errors
    ///
    /// Returns an error if they do not go together.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, TimingError> {
        if lease <= renew {
            return Err(TimingError::Lease);
        }
        if renew.as_secs_f64() <= retry.as_secs_f64() * JITTER {
            return Err(TimingError::Renew);
        }
        if retry.is_zero() {
            return Err(TimingError::Retry);
        }
        Ok(Self { lease, renew, retry })
    }

    /// Returns the lease duration in whole seconds, which is all that a record can hold. Rounded up: rounded down, as
    /// in client-go, it could be shorter than the renew deadline.
    fn seconds(&self) -> i32 {
        let seconds = self.lease.as_secs() + u64::from(self.lease.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }

    /// Returns how long a request may take. Two of them fit before the deadline, as in client-go.
    pub fn request(&self) -> Duration {
        self.renew / 2
    }

    /// Returns how long the record must be unchanged before another takes it.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns how long a leader may start writes after it sent the last renewal that was accepted.
    pub fn renew(&self) -> Duration {
        self.renew
    }

    /// Returns how long a leader waits between renewals.
    pub fn retry(&self) -> Duration {
        self.retry
    }
}

/// A request to the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Get the record.
    Look,
    /// Create it.
    Create(Record),
    /// Replace it, if it still has this version.
    Replace(u64, Record),
}

/// The API server's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The record and its version: as read, created or replaced.
    Record(u64, Record),
    /// There is no record.
    Missing,
    /// The record is not as it was when it was last seen.
    Conflict,
    /// The answer is missing or unusable: the record may have been created or replaced, or not.
    Failed,
}

/// A record as it was received.
#[derive(Clone, Debug)]
struct Seen {
    version: u64,
    record: Record,
    /// The time at which it was first received as it is.
    since: Duration,
    /// True if the record has been deleted since.
    gone: bool,
    /// The time until which a process that it does not name may lead. Either its version had gone backwards, so it may
    /// be older than the term of a leader that has yet to learn that; or a candidate that did not lead found it gone,
    /// and others may have held it before it was deleted.
    doubt: Duration,
}

/// A request in flight.
#[derive(Clone, Debug)]
struct Asked {
    ask: Ask,
    sent: Duration,
    /// The version that was known when it was sent.
    known: Option<u64>,
}

/// One candidate. Times count from any start that the candidate chooses.
#[derive(Clone, Debug)]
pub struct Election {
    me: String,
    timing: Timing,
    seen: Option<Seen>,
    /// The time until which this one may start writes, if it leads.
    proven: Option<Duration>,
    /// The request in flight.
    asked: Option<Asked>,
    /// The time of the next request.
    next: Duration,
    /// Number of tries that failed, or were too late, since the last success.
    failures: u32,
    /// True if this process makes progress, so that it may hold the Lease.
    able: bool,
    /// Versions went backwards, and that has not been reported.
    turned: bool,
    /// The record must be read before anything else.
    look: bool,
}

impl Election {
    /// Creates a candidate that has seen nothing. No other may ever have the same identity.
    pub fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: None,
            proven: None,
            asked: None,
            next: Duration::ZERO,
            failures: 0,
            able: true,
            turned: false,
            look: true,
        }
    }

    /// Returns the durations.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Returns the time until which writes may be started, while this one leads.
    pub fn proven(&self) -> Option<Duration> {
        self.proven
    }

    /// Returns the holder of the lease, as far as is known.
    pub fn holder(&self) -> Option<&str> {
        let seen = self.seen.as_ref().filter(|seen| !seen.gone);
        seen.map(|seen| &*seen.record.holder)
            .filter(|holder| !holder.is_empty())
    }

    /// Returns when something is to be done next, if nothing is heard before.
    pub fn wake(&self) -> Duration {
        match (&self.asked, self.proven) {
            (None, proven) => proven.map_or(self.next, |proven| proven.min(self.next)),
            (Some(_), Some(proven)) => proven,
            // Wait for its answer, or give it up.
            (Some(asked), None) => asked.sent + self.timing.lease,
        }
    }

    /// Sets whether this process makes progress. One that does not claims nothing and does not renew what
    /// it holds, so that another takes over when that has run out.
    pub fn set_able(&mut self, able: bool, now: Duration) {
        if able && !self.able {
            self.next = self.next.min(now);
        }
        self.able = able;
    }

    /// Returns whether versions were found to have gone backwards since the last call.
    pub fn take_turn(&mut self) -> bool {
        std::mem::take(&mut self.turned)
    }

    /// Lets time pass: a leader that has not renewed in time no longer leads. Returns the request to send now, if any;
    /// at most one is in flight at a time. `wall` is the wall-clock time.
    pub fn ask(&mut self, now: Duration, wall: Time) -> Option<Ask> {
        if self.proven.is_some_and(|until| until <= now) {
            self.lose(now);
        }
        if self.asked.is_some() || now < self.next {
            return None;
        }
        let ask = match &self.seen {
            _ if self.look => Ask::Look,
            None => Ask::Create(self.claim(None, wall)),
            Some(seen) if self.is_free(seen, now) => {
                let record = self.claim(Some(&seen.record), wall);
                if seen.gone {
                    Ask::Create(record)
                } else {
                    Ask::Replace(seen.version, record)
                }
            }
            Some(_) => Ask::Look,
        };
        if !self.able && ask != Ask::Look {
            self.next = now + self.timing.retry;
            return None;
        }
        self.send(&ask, now);
        Some(ask)
    }

    fn send(&mut self, ask: &Ask, now: Duration) {
        self.asked = Some(Asked {
            ask: ask.clone(),
            sent: now,
            known: self.seen.as_ref().map(|seen| seen.version),
        });
    }

    /// Handles the answer to the request in flight. `random` lies between 0 and 1.
    pub fn answered(&mut self, reply: Reply, now: Duration, random: f64) {
        let Some(Asked { ask, sent, known }) = self.asked.take() else {
            return;
        };
        self.look = false;
        let claimed = !matches!(ask, Ask::Look);
        match reply {
            Reply::Record(version, record) => {
                self.learn(version, record, known, now);
                if claimed {
                    return self.claimed(sent, now, random);
                }
            }
            Reply::Missing => self.missing(now),
            Reply::Conflict => {
                // Another candidate was faster, or this one was, and the answer was lost.
                self.look = true;
                self.next = now + self.breath(random);
                return;
            }
            Reply::Failed => {
                let period = self
                    .timing
                    .retry
                    .mul_f64(1.0 + LEADER_JITTER * random.clamp(0.0, 1.0));
                self.next = (sent + period).max(now + self.breath(random));
                self.look = self.seen.is_none();
                return;
            }
        }
        self.next = self.next_try(now, random);
    }

    /// Handles a claim that was accepted.
    fn claimed(&mut self, sent: Duration, now: Duration, random: f64) {
        // An answer so late that the time is over proves nothing.
        let until = sent + self.timing.renew;
        let seen = self.seen.as_ref();
        let mine = seen.is_some_and(|seen| seen.record.holder == self.me);
        self.proven = (mine && until > now).then_some(until);
        self.next = if self.proven.is_some() {
            self.failures = 0;
            sent + self.timing.retry
        } else if mine {
            now
        } else {
            now + self.breath(random)
        };
    }

    /// Counts a failure. Returns how long to pause after it.
    fn breath(&mut self, random: f64) -> Duration {
        let nominal = (self.timing.retry / FIRST_PAUSE_DIVISOR).saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        nominal
            .min(self.timing.retry)
            .mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }

    /// Handles a record in the answer to a request. `known` is the version that was known when it was sent.
    fn learn(&mut self, version: u64, record: Record, known: Option<u64>, now: Duration) {
        let last = self.seen.as_ref().map(|seen| seen.version);
        let rewound = last == known && known.is_some_and(|known| version < known);
        if rewound {
            (self.seen, self.turned) = (None, true);
        }
        let doubt = if rewound {
            now + self.duration(&record)
        } else {
            Duration::ZERO
        };
        self.see_as(version, record, doubt, now);
    }

    /// Handles a record that a watch has shown.
    pub fn see(&mut self, version: u64, record: Record, now: Duration) {
        self.see_as(version, record, Duration::ZERO, now);
    }

    fn see_as(&mut self, version: u64, record: Record, doubt: Duration, now: Duration) {
        match &mut self.seen {
            Some(seen) if seen.version > version => return,
            Some(seen) if seen.record == record && !seen.gone => seen.version = version,
            seen => {
                let before = seen.as_ref().map_or(Duration::ZERO, |seen| seen.doubt);
                *seen = Some(Seen {
                    version,
                    record,
                    since: now,
                    gone: false,
                    doubt: doubt.max(before),
                });
            }
        }
        let seen = self.seen.as_ref().expect("it was just put there");
        let (mine, free) = (seen.record.holder == self.me, self.free_from(seen));
        if !mine {
            self.lose(now);
        }
        // A record that has become free is claimed at once, but not by candidates that have failed more than once: a
        // record that keeps changing must not make them try all the time.
        if self.proven.is_none() && self.failures < 2 {
            self.next = self.next.min(free.max(now));
        }
    }

    /// Handles a watch event that the record is gone, as of a version.
    pub fn see_gone(&mut self, version: u64, now: Duration) {
        if self.seen.as_ref().is_some_and(|seen| seen.version <= version) {
            self.missing(now);
        }
    }

    /// Releases the lease. Returns the request to send, if any: no other may be in flight.
    pub fn release(&mut self, now: Duration, wall: Time) -> Option<Ask> {
        self.proven = None;
        let seen = self.seen.as_ref().filter(|seen| !seen.gone)?;
        if seen.record.holder != self.me || self.asked.is_some() {
            return None;
        }
        let ask = if std::mem::take(&mut self.look) {
            Ask::Look
        } else {
            let record = Record {
                holder: String::new(),
                // The least that the API accepts.
                seconds: 1,
                acquired: Some(wall),
                renewed: Some(after(seen.record.renewed, wall)),
                transitions: seen.record.transitions,
            };
            Ask::Replace(seen.version, record)
        };
        self.send(&ask, now);
        Some(ask)
    }

    /// Returns the record that this candidate would write.
    fn claim(&self, old: Option<&Record>, wall: Time) -> Record {
        let mine = old.filter(|old| old.holder == self.me);
        Record {
            holder: self.me.clone(),
            seconds: self.timing.seconds(),
            acquired: mine.map_or(Some(wall), |old| old.acquired),
            // The API server treats an update that changes nothing as no write, so no candidate would see a renewal.
            renewed: Some(after(old.and_then(|old| old.renewed), wall)),
            transitions: old.map_or(0, |old| old.transitions.saturating_add(i32::from(mine.is_none()))),
        }
    }

    fn lose(&mut self, now: Duration) {
        if self.proven.take().is_some() {
            self.next = now;
        }
    }

    fn missing(&mut self, now: Duration) {
        let leads = self.proven.is_some_and(|until| until > now);
        self.lose(now);
        if let Some(mut seen) = self.seen.take_if(|seen| !seen.gone) {
            // Its holder may have renewed it just before, unseen.
            (seen.gone, seen.since) = (true, now);
            if !leads {
                seen.doubt = seen.doubt.max(now + self.duration(&seen.record));
            }
            self.seen = Some(seen);
        }
    }

    /// Returns the time from which the record may be replaced.
    fn free_from(&self, seen: &Seen) -> Duration {
        let mine = seen.record.holder == self.me;
        if mine && self.proven.is_some() {
            return Duration::ZERO;
        }
        let named = if seen.record.holder.is_empty() || mine {
            Duration::ZERO
        } else {
            seen.since + said(&seen.record).unwrap_or(self.timing.lease)
        };
        named.max(seen.doubt)
    }

    /// Returns how long a holder of this record, or of another of its time, may lead.
    fn duration(&self, record: &Record) -> Duration {
        said(record).map_or(self.timing.lease, |said| said.max(self.timing.lease))
    }

    fn is_free(&self, seen: &Seen, now: Duration) -> bool {
        self.free_from(seen) <= now
    }

    /// Returns when to try again after an answer that was no success: at once if the record is free, otherwise when
    /// standbys do, but not later than it becomes free.
    fn next_try(&mut self, now: Duration, random: f64) -> Duration {
        let Some(seen) = &self.seen else { return now };
        let free = self.free_from(seen);
        if free > now {
            // There is nothing to be claimed, so failed claims no longer count.
            self.failures = 0;
        }
        let pause = self.timing.retry.mul_f64(1.0 + JITTER * random.clamp(0.0, 1.0));
        (now + pause).min(free.max(now))
    }
}

/// Returns the duration in a record.
fn said(record: &Record) -> Option<Duration> {
    let seconds = u64::try_from(record.seconds).ok().filter(|&seconds| seconds > 0);
    seconds.map(Duration::from_secs)
}

/// Returns the time, but later than another: whatever happens to the clock, each renewal differs from the last.
fn after(last: Option<Time>, now: Time) -> Time {
    // Records hold microseconds.
    let micro = |time: Time| time.as_nanoseconds().div_euclid(1000);
    let now = micro(now);
    let next = last.map_or(now, |last| now.max(micro(last).saturating_add(1)));
    Time::from_nanoseconds(next.saturating_mul(1000))
}

#[cfg(test)]
mod tests;
