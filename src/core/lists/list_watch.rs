//! One kind's list and watch, as decisions: when to list, when to watch and from where, when to read a version, and
//! when the state is proven as new as a demand. The caller carries the actions out and reports their results.
//!
//! ```text
//!            ┌──── the watch cannot be resumed, versions went backwards, or no proof in time ────┐
//!            ▼                                                                                   │
//!   ──► listing ── whole ──► watching ── ended ──► (a version is read) ──► watching from there ──┤
//!        │   ▲                   │ broke                                                         │
//!        └───┘                   └──► pause ──► a version is read ──► watching from there ───────┘
//!        failed: pause
//! ```
//!
//! Once it is demanded ([`Demand`]), the known state is proven current by
//!
//! * a list that was asked for after the demand was made, or
//! * a list, an event or a bookmark that reaches the *floor*: a version of the kind that was read after the demand
//!   was made.
//!
//! There is no other proof. The headers of an answer are none: a server sends them before it looks at its backlog. A
//! quiet watch shows nothing by itself, since bookmarks come once a minute. So when the floor is known and not reached,
//! the watch is restarted from where it is, for three seconds: servers send a bookmark two seconds before the end of a
//! watch. If that does not reach the floor either, everything is listed again. The wait for a bookmark lasts one to two
//! seconds, in which nothing is written: if a list is small, it is the quicker proof, and is made at once. A demand
//! takes effect at any time, also during a pause: a watch that waits to be retried proves nothing.
//!
//! A version that is read, or that a list shows, is the present one of the store. If it is lower than one seen before
//! it was asked for, the store was replaced or restored. A watch cannot tell: one that resumes from a version that is
//! yet to come shows nothing until then, and late events are normal. So a version is read whenever a watch begins where
//! another has ended.

use super::Demand;
use std::time::Duration;

/// Time to reach the floor, once that is known.
const PROOF: Duration = Duration::from_secs(2);
/// A kind with no more objects than this is listed again rather than watched for a proof: that is one page.
const SMALL: usize = 500;
/// A list in progress for no longer than this is restarted when a proof is demanded.
const YOUNG: Duration = Duration::from_millis(200);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ends within this time does not count as begun, or, if it has shown something, as brief.
const BRIEF: Duration = Duration::from_secs(5);
/// The same for a watch that is meant to be short.
const VERY_BRIEF: Duration = Duration::from_secs(1);
/// The longest pause after a brief watch that has shown something. Such watches are how events arrive where a proxy ends each
/// one early, so the pause is short beside [`LONGEST_PAUSE`]: it is the delay of an event there. It bounds what the server has
/// to answer to some 40 watches a minute and as many readings of the version.
const LONGEST_BRIEF_PAUSE: Duration = Duration::from_secs(2);
/// Number of brief watches in a row after which everything is listed again, unless nothing is missing. If each of them shows
/// one event, and there are more events than watches, only a list catches up; so it does within a minute.
const MANY_BRIEF: u32 = 25;
/// A store is restored rarely: versions that go backwards again within this time are taken for a fault, and lists pause.
const TURN: Duration = Duration::from_secs(60);
/// Number of failures in a row, none of which showed anything new, after which everything is listed again.
const HOPELESS: u32 = 10;
/// Number of watches in a row that showed nothing and failed, or ended as soon as they began, after which everything is listed
/// again if the last of them should have shown something: a version that was read before it began was newer. Lists may still
/// work where a proxy ends each watch at once. One such watch is usual when an API server stops.
const FRUITLESS: u32 = 3;

/// Number of tries in a row to read a version after which everything is listed instead. A server that is too busy for
/// one object's worth of a list is not asked for all of it: then it is [`HOPELESS`].
const UNREADABLE: u32 = 4;

/// The next thing to do. A list or a watch replaces the one in progress, if any.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// List everything.
    List,
    /// Watch from a version.
    Watch {
        /// Everything up to this version is known.
        from: u64,
        /// Set for a watch so short that a bookmark comes soon.
        short: bool,
    },
    /// Read the kind's current version: one object's worth of a list, from the present of the store.
    ReadVersion,
    /// Report that this demand is met.
    Prove(Demand),
    /// Report that versions went backwards, so that the state is forgotten before anything is listed.
    Rewound {
        /// The demand under which the request that showed it was made.
        under: Demand,
    },
}

/// How a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// The watch ended as it was meant to.
    Orderly,
    /// The watch failed, or was refused.
    Broken,
    /// The server is too busy for it, and asks for this pause.
    Busy(Duration),
    /// The watch cannot resume from where it is.
    Expired,
}

/// The stream in progress: a list, a watch, or neither.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stream {
    /// Neither begins before this time.
    Idle(Duration),
    Listing {
        /// The demand under which it was asked for.
        demand: Demand,
        /// The highest version seen by then.
        highest: u64,
        since: Duration,
    },
    Watching {
        since: Duration,
        from: u64,
        short: bool,
        /// True if a version that was read before it began is newer than that.
        behind: bool,
    },
}

/// The reading of a version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reading {
    Idle,
    /// The reading begins at this time.
    Due(Duration),
    Asked {
        /// The demand at that time.
        demand: Demand,
        /// The highest version seen by that time.
        highest: u64,
        /// True if it was asked for to meet the demand.
        proving: bool,
    },
}

/// One kind's list and watch. Times count from any start that the caller chooses; random values lie between 0 and 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ListWatch {
    demand: Demand,
    /// The time at which it was made.
    demanded_at: Duration,
    /// The last demand that was met.
    met: Option<Demand>,
    /// Everything up to this version is known. `None` before the first list, and when everything has to be listed
    /// again.
    reached: Option<u64>,
    /// True if the last list was small.
    small: bool,
    /// The highest version seen since versions last went backwards.
    highest: u64,
    /// A version that was read after the demand was made.
    floor: Option<u64>,
    /// The time at which everything is listed again, if the demand is not met by then.
    relist_at: Option<Duration>,
    stream: Stream,
    reading: Reading,
    /// Set when a watch broke, or many were brief: none begins before a version was read.
    checks: bool,
    /// True if the version that was last read is the one up to which everything is known, so that nothing is missed
    /// however silent the watch is. A real server does not send a bookmark at the version from which the watch started.
    current: bool,
    /// Number of lists and watches that failed in a row.
    failures: u32,
    /// Number of watches in a row that have shown something and ended soon after they began. Only one that lasts ends the row: a
    /// server that sends one bookmark and ends the watch would be asked in a tight loop otherwise.
    brief: u32,
    /// Number of readings that failed in a row.
    unread: u32,
    /// Number of lists after which no watch lasted. A server that compacts its history as soon as it has
    /// reported it must not be asked in a tight loop.
    barren: u32,
    /// True if a watch has lasted since the last list.
    fruitful: bool,
    /// The time at which versions last went backwards, and how often in a row that was shortly after the time before.
    turned: Option<Duration>,
    turns: u32,
    /// No list begins before this time, whatever is demanded.
    rest: Duration,
    /// The reports that are due next.
    rewound: Option<Demand>,
    proves: bool,
}

impl ListWatch {
    /// Creates the list and watch of a kind of which nothing is known.
    pub fn new(demand: Demand) -> Self {
        Self {
            demand,
            demanded_at: Duration::ZERO,
            met: None,
            reached: None,
            small: false,
            highest: 0,
            floor: None,
            relist_at: None,
            stream: Stream::Idle(Duration::ZERO),
            reading: Reading::Idle,
            checks: false,
            current: false,
            failures: 0,
            brief: 0,
            unread: 0,
            barren: 0,
            fruitful: true,
            turned: None,
            turns: 0,
            rest: Duration::ZERO,
            rewound: None,
            proves: false,
        }
    }

    /// Returns the latest demand, met or not.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Returns whether the demand is met.
    pub fn is_proven(&self) -> bool {
        self.met == Some(self.demand)
    }

    /// Returns the version up to which everything is known, if there is one.
    pub fn reached(&self) -> Option<u64> {
        self.reached
    }

    /// Returns whether the version that was last read is the one up to which everything is known.
    pub fn is_current(&self) -> bool {
        self.current
    }

    /// Returns whether neither a list nor a watch is in progress.
    pub fn is_idle(&self) -> bool {
        matches!(self.stream, Stream::Idle(_))
    }

    /// Returns whether an answer to [`Action::ReadVersion`] is pending.
    pub fn is_reading(&self) -> bool {
        matches!(self.reading, Reading::Asked { .. })
    }

    /// Returns the demand under which a list was asked for, if an answer to [`Action::List`] is pending.
    pub fn listing(&self) -> Option<Demand> {
        match self.stream {
            Stream::Listing { demand, .. } => Some(demand),
            Stream::Idle(_) | Stream::Watching { .. } => None,
        }
    }

    /// Returns the number of lists and watches that failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Demands a proof. A retry that waits is made now.
    pub fn demanded(&mut self, demand: Demand, now: Duration) {
        if demand <= self.demand {
            return;
        }
        let rewound = demand.history > self.demand.history;
        (self.demand, self.demanded_at) = (demand, now);
        let at_once = match self.stream {
            _ if rewound => true,
            // Restarting a list this young loses less than a proof costs.
            Stream::Listing { since, .. } => now.saturating_sub(since) <= YOUNG,
            Stream::Idle(_) | Stream::Watching { .. } => self.small,
        };
        (self.floor, self.relist_at) = (None, at_once.then_some(now));
        if rewound {
            // Everything that comes now is of another history.
            (self.reached, self.highest) = (None, 0);
        }
        if let Stream::Idle(next) = &mut self.stream {
            *next = now.max(self.rest);
        }
        self.reading = match (self.reached, self.stream) {
            // The next list is a proof by itself.
            (None, Stream::Idle(_)) => Reading::Idle,
            _ => Reading::Due(now),
        };
    }

    /// Returns what to do now. Must be called until it returns `None`.
    pub fn act(&mut self, now: Duration) -> Option<Action> {
        if let Some(under) = self.rewound.take() {
            return Some(Action::Rewound { under });
        }
        if std::mem::take(&mut self.proves) {
            return Some(Action::Prove(self.demand));
        }
        if self.next_relist().is_some_and(|end| end <= now) {
            // A list that began just before the demand was made is given up, too.
            (self.relist_at, self.reached) = (None, None);
            (self.stream, self.reading) = (Stream::Idle(now.max(self.rest)), Reading::Idle);
        }
        self.act_stream(now).or_else(|| self.act_reading(now))
    }

    fn act_stream(&mut self, now: Duration) -> Option<Action> {
        let short = match self.stream {
            Stream::Idle(next) if next <= now => !self.is_proven(),
            // The watch is quiet, or dead, or behind; or the bookmark before its end has come and gone.
            Stream::Watching { short, since, .. }
                if !self.is_proven() && self.floor.is_some() && (!short || since < self.demanded_at) =>
            {
                true
            }
            _ => return None,
        };
        let Some(from) = self.reached else {
            self.stream = Stream::Listing {
                demand: self.demand,
                highest: self.highest,
                since: now,
            };
            (self.reading, self.checks, self.relist_at) = (Reading::Idle, false, None);
            return Some(Action::List);
        };
        if self.needs_version() {
            return None;
        }
        self.stream = Stream::Watching {
            since: now,
            from,
            short,
            behind: from < self.highest,
        };
        Some(Action::Watch { from, short })
    }

    fn act_reading(&mut self, now: Duration) -> Option<Action> {
        match self.reading {
            Reading::Due(at) if at <= now => {
                self.reading = Reading::Asked {
                    demand: self.demand,
                    highest: self.highest,
                    proving: !self.is_proven(),
                };
                Some(Action::ReadVersion)
            }
            _ => None,
        }
    }

    /// Returns when to ask for actions again, if nothing is reported before.
    pub fn wake(&self) -> Option<Duration> {
        if self.rewound.is_some() || self.proves {
            return Some(Duration::ZERO);
        }
        let stream = match self.stream {
            Stream::Idle(next) if self.reached.is_none() || !self.needs_version() => Some(next),
            _ => None,
        };
        let reading = match self.reading {
            Reading::Due(at) => Some(at),
            Reading::Idle | Reading::Asked { .. } => None,
        };
        [stream, reading, self.next_relist()].into_iter().flatten().min()
    }

    /// Returns whether a list that shows this version may be handed on. It may not if versions went backwards, since
    /// the state must be forgotten first.
    pub fn accepts(&self, version: u64) -> bool {
        !matches!(self.stream, Stream::Listing { highest, .. } if version < highest)
    }

    /// Handles a complete list with this number of objects. Its content has been handed on if it was
    /// [accepted](Self::accepts).
    pub fn listed(&mut self, version: u64, objects: usize, now: Duration, random: f64) {
        let Stream::Listing { demand, highest, .. } = self.stream else {
            return;
        };
        self.failures = 0;
        if version < highest {
            return self.rewind(version, demand, now, random);
        }
        self.small = objects <= SMALL;
        (self.reached, self.highest, self.fruitful) = (Some(version), version, false);
        self.stream = Stream::Idle(now);
        self.unread = 0;
        if demand == self.demand {
            self.meet();
        } else {
            // The list began before the demand was made. If it does not reach the floor, a watch may.
            self.relist_at = self.floor.map(|_| now + PROOF);
            self.compare();
        }
    }

    /// Handles a failed list. A server that is too busy for it may have asked for a pause.
    pub fn list_failed(&mut self, asked: Option<Duration>, now: Duration, random: f64) {
        if let Stream::Listing { .. } = self.stream {
            self.failures += 1;
            self.stream = Stream::Idle(now + pause_of(self.failures, asked, random));
        }
    }

    /// Handles an event or a bookmark of this version, which the watch has shown and which has been handed on.
    pub fn shown(&mut self, version: u64) {
        if !matches!(self.stream, Stream::Watching { .. }) {
            return;
        }
        if self.reached.is_some_and(|reached| reached < version) {
            self.reached = Some(version);
            self.highest = self.highest.max(version);
            self.failures = 0;
            self.compare();
        }
    }

    /// Handles the end of the watch.
    pub fn ended(&mut self, end: End, now: Duration, random: f64) {
        let Stream::Watching {
            since,
            from,
            short,
            behind,
        } = self.stream
        else {
            return;
        };
        let moved = self.reached != Some(from);
        let lasted = now.saturating_sub(since) > if short { VERY_BRIEF } else { BRIEF };
        if moved || end == End::Orderly && lasted {
            self.failures = 0;
        }
        if lasted && (moved || end == End::Orderly) {
            (self.brief, self.fruitful) = (0, true);
        } else if moved {
            self.brief += 1;
        }
        match end {
            End::Expired => return self.list_again(now, random),
            End::Orderly if lasted || moved => {}
            // A server that ends watches as soon as they begin must not be asked in a tight loop.
            End::Orderly | End::Broken | End::Busy(_) => self.failures += 1,
        }
        // A server that is too busy for a watch is not asked for a list, nor one whose lists are older than the versions that it
        // tells: each would have everything of all kinds listed again.
        let spared = matches!(end, End::Busy(_)) || self.has_turned(now);
        let fruitless = self.failures >= FRUITLESS && behind && !moved && !spared;
        if fruitless || self.failures >= HOPELESS && !self.current {
            return self.list_again(now, random);
        }
        self.checks = matches!(end, End::Broken | End::Busy(_)) || self.brief >= MANY_BRIEF;
        let failed = match (self.failures, end) {
            (failures, End::Busy(asked)) => pause_of(failures, Some(asked), random),
            (0, _) => Duration::ZERO,
            (failures, _) => pause(failures, random),
        };
        let brief = match self.brief {
            0 => Duration::ZERO,
            brief => pause(brief, random).min(LONGEST_BRIEF_PAUSE),
        };
        let next = now + failed.max(brief);
        // After many brief watches it counts how much they have missed, and not what happens in the pause.
        let reading = if self.brief >= MANY_BRIEF { now } else { next };
        // The reading in progress may have been asked of a server that is gone.
        (self.stream, self.reading) = (Stream::Idle(next), Reading::Due(reading));
    }

    /// Handles the result of reading the version. If that failed because the server is too busy, the error is the pause
    /// that it asked for.
    pub fn version_read(&mut self, version: Result<u64, Option<Duration>>, now: Duration, random: f64) {
        let Reading::Asked { demand, highest, .. } = self.reading else {
            return;
        };
        let version = match version {
            Ok(version) => version,
            Err(asked) => return self.version_unread(asked, now, random),
        };
        (self.reading, self.unread) = (Reading::Idle, 0);
        self.current = self.reached == Some(version);
        if version < highest {
            return self.rewind(version, demand, now, random);
        }
        self.highest = self.highest.max(version);
        self.checks = false;
        if self.brief >= MANY_BRIEF && self.is_idle() {
            self.brief = MANY_BRIEF / 2;
            if !self.current {
                // The watches have taken so long that this list needs no pause of its own.
                self.fruitful = true;
                return self.list_again(now, random);
            }
        }
        if demand == self.demand && !self.is_proven() && self.floor.is_none() {
            (self.floor, self.relist_at) = (Some(version), Some(now + PROOF));
            if let Stream::Listing { .. } = self.stream {
                // If it were restarted, it would take as long again.
                self.relist_at = None;
            }
            self.compare();
        }
    }

    /// Handles a version that could not be read.
    fn version_unread(&mut self, asked: Option<Duration>, now: Duration, random: f64) {
        self.unread += 1;
        let listing = matches!(self.stream, Stream::Listing { .. });
        let most = if asked.is_some() { HOPELESS } else { UNREADABLE };
        let next = now + pause_of(self.unread, asked, random);
        if self.unread >= most && self.needs_version() && !listing {
            // A list shows the same and more.
            self.unread = 0;
            self.list_again(now, random);
            if asked.is_some() {
                self.stream = Stream::Idle(next);
            }
            return;
        }
        self.reading = Reading::Due(next);
    }

    /// Returns whether a version must be read before a watch may begin.
    fn needs_version(&self) -> bool {
        self.checks || !self.is_proven() && self.floor.is_none()
    }

    /// Returns when everything is listed again because there is no proof.
    fn next_relist(&self) -> Option<Duration> {
        self.relist_at.filter(|_| !self.is_proven())
    }

    fn compare(&mut self) {
        if let (Some(reached), Some(floor)) = (self.reached, self.floor)
            && reached >= floor
            && !self.is_proven()
        {
            self.meet();
        }
    }

    fn meet(&mut self) {
        self.proves = !self.is_proven();
        self.met = Some(self.demand);
        (self.floor, self.relist_at) = (None, None);
        if !matches!(self.reading, Reading::Asked { proving: false, .. }) && !self.checks {
            self.reading = Reading::Idle;
        }
    }

    /// Handles versions that went backwards: the state is of another history.
    fn rewind(&mut self, version: u64, under: Demand, now: Duration, random: f64) {
        self.highest = version;
        self.rewound = Some(under);
        (self.floor, self.relist_at, self.proves) = (None, None, false);
        // The lists before were of another history.
        self.fruitful = true;
        self.list_again(now, random);
        // Otherwise servers behind one address that do not share a store would be listed in turn, without a pause.
        self.turns = if self.has_turned(now) { self.turns + 1 } else { 0 };
        self.turned = Some(now);
        if self.turns > 0 {
            self.rest = now + pause(self.turns, random);
            self.stream = Stream::Idle(self.rest);
        }
    }

    /// Returns whether versions went backwards a short while ago.
    fn has_turned(&self, now: Duration) -> bool {
        self.turned
            .is_some_and(|turned| now.saturating_sub(turned) < TURN)
    }

    fn list_again(&mut self, now: Duration, random: f64) {
        self.reached = None;
        self.barren = if self.fruitful { 0 } else { self.barren + 1 };
        // Until a list is complete, nothing more is counted.
        self.fruitful = false;
        let next = match self.barren {
            0 | 1 => now,
            barren => now + pause(barren, random),
        };
        (self.stream, self.reading) = (Stream::Idle(next), Reading::Idle);
    }
}

/// Returns the pause after failures, the last of which may have asked for one: as long as that at least, up to half as
/// long again, so that the clients that a busy server sends away do not come back at once, and never above the longest.
fn pause_of(failures: u32, asked: Option<Duration>, random: f64) -> Duration {
    let asked = asked.unwrap_or_default().min(LONGEST_PAUSE);
    let spread = asked.mul_f64(1.0 + random.clamp(0.0, 1.0) / 2.0);
    pause(failures, random).max(spread)
}

/// Returns the pause after failures: between half of the nominal one and all of it.
fn pause(failures: u32, random: f64) -> Duration {
    let nominal = Duration::from_millis(100)
        .saturating_mul(1 << failures.min(10))
        .min(LONGEST_PAUSE);
    nominal.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests;
