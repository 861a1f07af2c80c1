//! One kind's list and watch, as decisions: when to list, when to watch and from where, when to read a version, and
//! when what is known is shown to be as new as a demand. Who carries the actions out reports what came of them.
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
//! What proves that a view is current, once that is demanded ([`Demand`]):
//!
//! * a list that was asked for after the demand was made, or
//! * a list, an event or a bookmark that reaches the *floor*: a version of the kind that was read after the demand
//!   was made.
//!
//! Nothing else does. The headers of an answer do not: a server sends them before it looks at its backlog. A quiet
//! watch shows nothing by itself, since bookmarks come once a minute. So when the floor is known and not reached, the
//! watch is begun anew from where it is, for three seconds: servers send a bookmark two seconds before the end of
//! a watch. If that does not reach the floor either, everything is listed again. The wait for a bookmark lasts one to
//! two seconds, in which nothing is written: where a list is small, it is the quicker proof, and is made at once.
//! A demand is heard at any time, in a pause too: a watch that waits to be tried again is not a view.
//!
//! A version that is read, or that a list shows, comes from the present of the store. If it is lower than one that
//! had been seen before it was asked for, then the store was replaced or set back. A watch cannot tell: one that
//! goes on from a version still to come shows nothing for as long as that takes, and late events are normal. So a
//! version is read whenever a watch begins where another has ended.

use super::Demand;
use std::time::Duration;

/// How long something may take to reach the floor, once that is known.
const PROOF: Duration = Duration::from_secs(2);
/// A kind with no more objects than this is listed again rather than watched for a proof: that is a page.
const SMALL: usize = 500;
/// A list that has been under way for no longer than this is begun anew when a proof is demanded.
const YOUNG: Duration = Duration::from_millis(200);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ends after no longer than this, showing nothing, was not really begun.
const BRIEF: Duration = Duration::from_secs(5);
/// The same of a watch that is meant to be short.
const VERY_BRIEF: Duration = Duration::from_secs(1);
/// Versions that go backwards again so soon do so for no good reason.
const TURN: Duration = Duration::from_secs(60);
/// After so many failures in a row, none of which showed anything new, everything is listed again.
const HOPELESS: u32 = 10;

/// After so many tries in a row to read a version, everything is listed instead.
const UNREADABLE: u32 = 4;

/// What to do next. A list or a watch takes the place of the one that is under way, if any.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// List everything.
    List,
    /// Watch from a version.
    Watch {
        /// All up to this is known.
        from: u64,
        /// For so short that a bookmark comes soon.
        short: bool,
    },
    /// Read the version that the kind has now: one object's worth of a list, from the present of the store.
    ReadVersion,
    /// Say that this demand is met.
    Prove(Demand),
    /// Say that versions went backwards, so that what is known is forgotten before anything is listed.
    Rewound {
        /// Under which demand that was asked for which showed it.
        under: Demand,
    },
}

/// How a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// As it was meant to.
    Orderly,
    /// It failed, or was refused.
    Broken,
    /// It cannot go on from where it is.
    Expired,
}

/// What is under way: a list, a watch, or neither.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stream {
    /// Nothing begins before then.
    Idle(Duration),
    Listing {
        /// Under which demand it was asked for.
        demand: Demand,
        /// The highest version seen by then.
        highest: u64,
        since: Duration,
    },
    Watching {
        since: Duration,
        from: u64,
        short: bool,
    },
}

/// The reading of a version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reading {
    Idle,
    /// It begins then.
    Due(Duration),
    Asked {
        /// The demand by then.
        demand: Demand,
        /// The highest version seen by then.
        highest: u64,
        /// Whether it was asked for to meet the demand.
        proving: bool,
    },
}

/// One kind's list and watch. Time is the caller's own, since whenever it likes; what is random lies between 0 and 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    demand: Demand,
    /// When it was made.
    demanded_at: Duration,
    /// The last demand that was met.
    met: Option<Demand>,
    /// All up to this version is known. None before the first list, and when everything has to be listed again.
    reached: Option<u64>,
    /// The last list was small.
    small: bool,
    /// The highest version that was seen, since versions last went backwards.
    highest: u64,
    /// A version that was read after the demand was made.
    floor: Option<u64>,
    /// When everything is listed again, if the demand is not met by then.
    patience: Option<Duration>,
    stream: Stream,
    reading: Reading,
    /// A watch broke: none begins before a version was read.
    checks: bool,
    /// The version that was last read is the one up to which everything is known, so that nothing is missed however
    /// silent the watch is. A real server keeps back a bookmark that says no more than the version that was asked for.
    current: bool,
    /// Lists and watches that failed in a row.
    failures: u32,
    /// Readings that failed in a row.
    unread: u32,
    /// Lists after which no watch showed anything. A server whose history is gone as soon as it has told it must
    /// not be asked in a tight loop.
    barren: u32,
    /// Whether a watch has shown something since the last list.
    fruitful: bool,
    /// When versions last went backwards, and how often in a row that was shortly after the time before.
    turned: Option<Duration>,
    turns: u32,
    /// Nothing is listed before then, whatever is demanded.
    rest: Duration,
    /// What is to be said next.
    rewound: Option<Demand>,
    proves: bool,
}

impl View {
    /// Of a kind of which nothing is known.
    pub fn new(demand: Demand) -> Self {
        Self {
            demand,
            demanded_at: Duration::ZERO,
            met: None,
            reached: None,
            small: false,
            highest: 0,
            floor: None,
            patience: None,
            stream: Stream::Idle(Duration::ZERO),
            reading: Reading::Idle,
            checks: false,
            current: false,
            failures: 0,
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

    /// The demand that is to be met, or is.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Whether the demand is met.
    pub fn is_proven(&self) -> bool {
        self.met == Some(self.demand)
    }

    /// The version up to which everything is known, if a list was.
    pub fn reached(&self) -> Option<u64> {
        self.reached
    }

    /// Whether neither a list nor a watch is under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.stream, Stream::Idle(_))
    }

    /// Whether an answer to [`Action::ReadVersion`] is awaited.
    pub fn is_reading(&self) -> bool {
        matches!(self.reading, Reading::Asked { .. })
    }

    /// Whether an answer to [`Action::List`] is awaited, and under which demand it was asked for.
    pub fn listing(&self) -> Option<Demand> {
        match self.stream {
            Stream::Listing { demand, .. } => Some(demand),
            Stream::Idle(_) | Stream::Watching { .. } => None,
        }
    }

    /// How often in a row listing or watching has failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A proof is demanded. Whatever waits to be tried again is tried now.
    pub fn demanded(&mut self, demand: Demand, now: Duration) {
        if demand <= self.demand {
            return;
        }
        let rewound = demand.history > self.demand.history;
        (self.demand, self.demanded_at) = (demand, now);
        let at_once = match self.stream {
            _ if rewound => true,
            // What would be lost is less than a proof costs.
            Stream::Listing { since, .. } => now.saturating_sub(since) <= YOUNG,
            Stream::Idle(_) | Stream::Watching { .. } => self.small,
        };
        (self.floor, self.patience) = (None, at_once.then_some(now));
        if rewound {
            // Whatever comes now is of another history.
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

    /// What to do now; to be asked until there is nothing.
    pub fn act(&mut self, now: Duration) -> Option<Action> {
        if let Some(under) = self.rewound.take() {
            return Some(Action::Rewound { under });
        }
        if std::mem::take(&mut self.proves) {
            return Some(Action::Prove(self.demand));
        }
        if self.patience_ends().is_some_and(|end| end <= now) {
            // A list that began just before the demand was made is given up, too.
            (self.patience, self.reached) = (None, None);
            (self.stream, self.reading) = (Stream::Idle(now.max(self.rest)), Reading::Idle);
        }
        self.act_stream(now).or_else(|| self.act_reading(now))
    }

    fn act_stream(&mut self, now: Duration) -> Option<Action> {
        let short = match self.stream {
            Stream::Idle(next) if next <= now => !self.is_proven(),
            // It is quiet, or dead, or behind; or the bookmark before its end has come and gone.
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
            (self.reading, self.checks, self.patience) = (Reading::Idle, false, None);
            return Some(Action::List);
        };
        if self.needs_version() {
            return None;
        }
        self.stream = Stream::Watching {
            since: now,
            from,
            short,
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

    /// When to ask for actions again, if nothing is reported before.
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
        [stream, reading, self.patience_ends()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a list that shows this version may be handed on: not if versions went backwards, since what is known
    /// must be forgotten first.
    pub fn accepts(&self, version: u64) -> bool {
        !matches!(self.stream, Stream::Listing { highest, .. } if version < highest)
    }

    /// A list of so many objects was whole, and what it shows has been handed on if it was
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
            // It began before the demand was made. If it falls short of it, a watch may not.
            self.patience = self.floor.map(|_| now + PROOF);
            self.compare();
        }
    }

    /// A list failed.
    pub fn list_failed(&mut self, now: Duration, random: f64) {
        if let Stream::Listing { .. } = self.stream {
            self.failures += 1;
            self.stream = Stream::Idle(now + pause(self.failures, random));
        }
    }

    /// The watch has shown an event or a bookmark of this version, and it has been handed on.
    pub fn shown(&mut self, version: u64) {
        if !matches!(self.stream, Stream::Watching { .. }) {
            return;
        }
        if self.reached.is_some_and(|reached| reached < version) {
            self.reached = Some(version);
            self.highest = self.highest.max(version);
            (self.failures, self.fruitful) = (0, true);
            self.compare();
        }
    }

    /// The watch has ended.
    pub fn ended(&mut self, end: End, now: Duration, random: f64) {
        let Stream::Watching { since, from, short } = self.stream else {
            return;
        };
        let moved = self.reached != Some(from);
        let lasted = now.saturating_sub(since) > if short { VERY_BRIEF } else { BRIEF };
        if moved || end == End::Orderly && lasted {
            (self.failures, self.fruitful) = (0, true);
        }
        match end {
            End::Expired => return self.list_again(now, random),
            End::Orderly if lasted || moved => {}
            // A server that ends watches as soon as they begin must not be asked in a tight loop.
            End::Orderly | End::Broken => self.failures += 1,
        }
        if self.failures >= HOPELESS && !self.current {
            return self.list_again(now, random);
        }
        self.checks = end == End::Broken;
        let next = match self.failures {
            0 => now,
            failures => now + pause(failures, random),
        };
        // What is being read may have been asked of a server that is gone.
        (self.stream, self.reading) = (Stream::Idle(next), Reading::Due(next));
    }

    /// The version was read, or not.
    pub fn version_read(&mut self, version: Option<u64>, now: Duration, random: f64) {
        let Reading::Asked { demand, highest, .. } = self.reading else {
            return;
        };
        let Some(version) = version else {
            self.unread += 1;
            let listing = matches!(self.stream, Stream::Listing { .. });
            if self.unread >= UNREADABLE && self.needs_version() && !listing {
                // A list shows the same and more.
                self.unread = 0;
                return self.list_again(now, random);
            }
            let next = now + pause(self.unread, random);
            self.reading = Reading::Due(next);
            return;
        };
        (self.reading, self.unread) = (Reading::Idle, 0);
        self.current = self.reached == Some(version);
        if version < highest {
            return self.rewind(version, demand, now, random);
        }
        self.highest = self.highest.max(version);
        self.checks = false;
        if demand == self.demand && !self.is_proven() && self.floor.is_none() {
            (self.floor, self.patience) = (Some(version), Some(now + PROOF));
            if let Stream::Listing { .. } = self.stream {
                // Begun anew, it would take as long again.
                self.patience = None;
            }
            self.compare();
        }
    }

    /// No watch begins before a version was read.
    fn needs_version(&self) -> bool {
        self.checks || !self.is_proven() && self.floor.is_none()
    }

    /// When everything is listed again for want of a proof.
    fn patience_ends(&self) -> Option<Duration> {
        self.patience.filter(|_| !self.is_proven())
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
        (self.floor, self.patience) = (None, None);
        if !matches!(self.reading, Reading::Asked { proving: false, .. }) && !self.checks {
            self.reading = Reading::Idle;
        }
    }

    /// What is known is of another history.
    fn rewind(&mut self, version: u64, under: Demand, now: Duration, random: f64) {
        self.highest = version;
        self.rewound = Some(under);
        (self.floor, self.patience, self.proves) = (None, None, false);
        self.list_again(now, random);
        // Servers behind one address that do not share a store would else be listed in turn, without a pause.
        let again = self
            .turned
            .is_some_and(|turned| now.saturating_sub(turned) < TURN);
        self.turns = if again { self.turns + 1 } else { 0 };
        self.turned = Some(now);
        if self.turns > 0 {
            self.rest = now + pause(self.turns, random);
            self.stream = Stream::Idle(self.rest);
        }
    }

    fn list_again(&mut self, now: Duration, random: f64) {
        self.reached = None;
        self.barren = if self.fruitful { 0 } else { self.barren + 1 };
        // Until a list was whole, nothing more is counted.
        self.fruitful = false;
        let next = match self.barren {
            0 | 1 => now,
            barren => now + pause(barren, random),
        };
        (self.stream, self.reading) = (Stream::Idle(next), Reading::Idle);
    }
}

/// The pause after failures: between half of the nominal one and all of it.
fn pause(failures: u32, random: f64) -> Duration {
    let nominal = Duration::from_millis(100)
        .saturating_mul(1 << failures.min(10))
        .min(LONGEST_PAUSE);
    nominal.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests;
