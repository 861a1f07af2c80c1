//! Tracks the holder of a Lease that a Service follows. Times are those of this process, and never compared with those in the
//! Lease.
//!
//! ```text
//!               list shows it                     seen to change
//!   unknown ──────────────────► first sight ───────────────────► renewed ◄──┐ seen to change
//!      ▲                             │                              │ ──────┘
//!      │ not followed                └──── unchanged for its duration, ─────┘
//!      │ for a while                       and a read confirms it
//!                                                   │
//!                                                expired ── seen to change ──► renewed
//! ```
//!
//! The first sight of a Lease proves nothing: its holder may have stopped renewing it long ago. So a pod is published
//! only once the Lease was seen to change, and a pod that is published already stays for the Lease's duration at most.
//! A watch may have been cut without notice. So before a published pod is removed because its time has run out, the
//! Lease is read once more.
//!
//! There may be several sources at once: a read beside a watch, and the list of all namespaces beside the watch of one, which
//! it replaces. Each is judged by versions, so that a late source sets nothing back. Versions go backwards when the API
//! server's store is restored from a copy, and then the lower ones have to be believed. A list tells the two apart, since it
//! shows the store as it was at a moment after the list was asked for. If it is older than a version that was shown after that
//! moment, it is merely late. If it is older than one that had been shown before, the store has been restored.

use crate::core::lease::Record;
use std::sync::Arc;
use std::time::Duration;

/// How long a Lease that has never been seen may stay unknown before it is read. This is client-go's default duration, which
/// also counts for a Lease without a duration.
const UNSEEN: Duration = Duration::from_secs(15);
/// The pause before a read that has failed is repeated. It doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between reads.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The pause between reads that are refused.
const REFUSED: Duration = Duration::from_secs(60);

/// A Lease at a version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseFacts {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// Its content.
    pub record: Record,
}

/// Bytes of an identity that count as one unit of work, as in other objects.
const TEXT: usize = 256;

impl LeaseFacts {
    /// Returns the units of work that it takes to take the Lease in, without those for the Services that follow it.
    pub fn units(&self) -> u64 {
        (self.record.holder.len() / TEXT) as u64
    }
}

/// The answer to a read of one Lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseAnswer {
    /// The Lease was found.
    Found(LeaseFacts),
    /// There is no Lease of this name.
    Missing,
    /// The API server refused the read, with this message.
    Refused(Box<str>),
    /// There was no answer, or one that proves nothing.
    Failed,
}

/// A change of what is known of the Leases of a namespace. Times are counted from the start of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseChange {
    /// The number of the request to follow that this comes from. Others are outdated.
    pub generation: u64,
    /// When it was received.
    pub at: Duration,
    /// The change.
    pub event: LeaseEvent,
}

impl LeaseChange {
    /// Returns the units of work that it takes to take in the Lease that it shows. Lists count nothing here, since they are taken in
    /// by steps.
    pub fn units(&self) -> u64 {
        match &self.event {
            LeaseEvent::Seen(facts) | LeaseEvent::Read(_, LeaseAnswer::Found(facts)) => facts.units(),
            LeaseEvent::Begun | LeaseEvent::Listed(_) | LeaseEvent::Gone(..) | LeaseEvent::Read(..) => 0,
        }
    }
}

/// All Leases of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseList {
    /// When it was asked for, and the version that it shows.
    pub moment: ListMoment,
    /// The Leases.
    pub leases: Vec<LeaseFacts>,
}

impl LeaseList {
    /// Creates a list that was asked for at this time, counted from the start of the process, and shows this version.
    pub fn new(asked: Duration, version: u64, leases: Vec<LeaseFacts>) -> Self {
        Self {
            moment: ListMoment { asked, version },
            leases,
        }
    }
}

/// The moment of the store that a list shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListMoment {
    /// When the list was asked for, counted from the start of the process. The moment comes after that.
    pub asked: Duration,
    /// The version of the list.
    pub version: u64,
}

impl ListMoment {
    /// Returns whether another source has shown a later moment: this version, at that time.
    pub fn is_before(self, version: u64, shown: Duration) -> bool {
        version > self.version && shown > self.asked
    }
}

/// News of the Leases of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseEvent {
    /// This process has begun to follow them.
    Begun,
    /// All Leases of the namespace.
    Listed(LeaseList),
    /// The watch shows a Lease.
    Seen(LeaseFacts),
    /// The watch shows that a Lease is gone, as of a version.
    Gone(Arc<str>, u64),
    /// The answer to a read.
    Read(NumberedRead, LeaseAnswer),
}

/// A read of a Lease, distinct from an earlier one of the same Lease that was taken back.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NumberedRead {
    /// The Lease.
    pub name: Arc<str>,
    /// The number of reads that the namespace had taken back when it asked for this one.
    pub number: u64,
}

/// A request about the Leases of a namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeaseRequest {
    /// Follow them from now on. Reports carry this number.
    Follow(u64),
    /// Read one of them. The report carries this number of the request to follow.
    Read(u64, NumberedRead),
    /// Do not make this read, unless it has begun.
    Cancel(NumberedRead),
    /// Stop following them.
    Leave,
}

/// The leader, as a Lease shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leader<'a> {
    /// It is not known yet whether any process leads.
    Unknown,
    /// No process leads.
    Nobody(Vacancy),
    /// The process with this identity leads.
    Held(&'a str),
}

/// The reason why no pod leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vacancy {
    /// There is no such Lease.
    NoLease,
    /// The Lease names no holder.
    NoHolder,
    /// The holder has not renewed the Lease for its duration.
    Expired,
    /// This process may not read the Lease.
    Unreadable,
}

/// The consequence of a change of a Lease for the Services that follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseEffect {
    /// No consequence.
    None,
    /// The Lease may have another holder, or none.
    Judge,
    /// The Lease was seen to change, so its holder is alive.
    Renewed {
        /// True if it has another holder than before.
        moved: bool,
    },
}

/// The known state of a Lease.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
enum ObservedLease {
    #[default]
    Unknown,
    Missing {
        /// A version as of which it was gone.
        version: u64,
    },
    Unreadable,
    Present {
        version: u64,
        record: Record,
        /// When its holder's time runs out.
        until: Duration,
    },
    Expired {
        version: u64,
        record: Record,
    },
}

/// A Lease that Services follow.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FollowedLease {
    observed: ObservedLease,
    /// When its version was learned.
    shown: Duration,
    /// True while it is to be read, and no answer has come.
    reading: bool,
    /// True if the watch has shown something since the read was sent.
    overtaken: bool,
    /// Number of reads that have failed in a row.
    failures: u32,
    /// When to look at it next.
    wake: Option<Duration>,
}

impl FollowedLease {
    /// Returns who leads.
    pub fn leader(&self) -> Leader<'_> {
        match &self.observed {
            ObservedLease::Unknown => Leader::Unknown,
            ObservedLease::Missing { .. } => Leader::Nobody(Vacancy::NoLease),
            ObservedLease::Unreadable => Leader::Nobody(Vacancy::Unreadable),
            ObservedLease::Expired { .. } => Leader::Nobody(Vacancy::Expired),
            ObservedLease::Present { record, .. } if record.holder.is_empty() => {
                Leader::Nobody(Vacancy::NoHolder)
            }
            ObservedLease::Present { record, .. } => Leader::Held(&record.holder),
        }
    }

    /// Returns the holder that the Lease names, even if its time has run out.
    pub fn holder(&self) -> Option<&str> {
        let (ObservedLease::Present { record, .. } | ObservedLease::Expired { record, .. }) = &self.observed
        else {
            return None;
        };
        (!record.holder.is_empty()).then_some(&record.holder)
    }

    /// Returns when to call [`Self::due`] next.
    pub fn wake(&self) -> Option<Duration> {
        self.wake.filter(|_| !self.reading)
    }

    /// Handles that this process has begun to follow the Leases of the namespace.
    pub fn begun(&mut self, at: Duration) {
        if self.observed == ObservedLease::Unknown {
            self.wake = Some(at + UNSEEN);
        }
    }

    /// Handles a list of all Leases, which shows this one or does not. A list is no renewal, and one that comes late shows
    /// nothing.
    pub fn listed(&mut self, moment: ListMoment, shown: Option<(u64, &Record)>, at: Duration) -> LeaseEffect {
        (self.reading, self.overtaken, self.failures) = (false, false, 0);
        if self
            .version()
            .is_some_and(|version| moment.is_before(version, self.shown))
        {
            return LeaseEffect::None;
        }
        self.shown = at;
        match (&mut self.observed, shown) {
            (ObservedLease::Missing { version }, None) => {
                *version = moment.version;
                LeaseEffect::None
            }
            (_, None) => self.miss(moment.version, at),
            (
                ObservedLease::Present { version, record, .. } | ObservedLease::Expired { version, record },
                Some((new, shown)),
            ) if record == shown => {
                *version = new;
                LeaseEffect::None
            }
            (_, Some((version, record))) => self.first_sight(version, record, at),
        }
    }

    /// Handles an event of the watch.
    pub fn seen(&mut self, version: u64, record: &Record, at: Duration) -> LeaseEffect {
        self.overtaken = true;
        match &mut self.observed {
            // The Leases are not listed yet, so this one may be of any age.
            ObservedLease::Unknown => LeaseEffect::None,
            ObservedLease::Unreadable => self.first_sight(version, record, at),
            ObservedLease::Missing { version: known }
            | ObservedLease::Present { version: known, .. }
            | ObservedLease::Expired { version: known, .. }
                if version <= *known =>
            {
                LeaseEffect::None
            }
            ObservedLease::Missing { .. } => self.renew(version, record, at, true),
            ObservedLease::Present {
                version: known,
                record: old,
                ..
            }
            | ObservedLease::Expired {
                version: known,
                record: old,
            } => {
                // Another client has edited its metadata.
                if old == record {
                    (*known, self.shown) = (version, at);
                    return LeaseEffect::None;
                }
                let moved = old.holder != record.holder;
                self.renew(version, record, at, moved)
            }
        }
    }

    /// Handles the deletion of the Lease.
    pub fn gone(&mut self, as_of: u64, at: Duration) -> LeaseEffect {
        self.overtaken = true;
        match self.observed {
            ObservedLease::Present { version, .. } | ObservedLease::Expired { version, .. }
                if as_of > version =>
            {
                self.miss(as_of, at)
            }
            _ => LeaseEffect::None,
        }
    }

    /// Handles the answer to a read.
    pub fn read(&mut self, answer: &LeaseAnswer, at: Duration) -> LeaseEffect {
        if !std::mem::take(&mut self.reading) {
            return LeaseEffect::None;
        }
        let overtaken = std::mem::take(&mut self.overtaken);
        if *answer == LeaseAnswer::Failed {
            let pause = PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
            self.failures += 1;
            self.wake = Some(self.wake.unwrap_or_default().max(at + pause));
            return LeaseEffect::None;
        }
        self.failures = 0;
        match (answer, &self.observed) {
            // The watch has shown something that may be newer, and nothing is known to compare it with.
            (_, ObservedLease::Unknown) if overtaken => {
                self.wake = Some(at + PAUSE);
                LeaseEffect::None
            }
            // The watch has shown something newer.
            (LeaseAnswer::Missing | LeaseAnswer::Refused(_), ObservedLease::Present { until, .. })
                if overtaken && *until > at =>
            {
                LeaseEffect::None
            }
            // The answer has no version: all that was shown until now is older.
            (LeaseAnswer::Missing, _) => self.miss(self.version().unwrap_or_default(), at),
            (LeaseAnswer::Refused(_), _) => self.see(ObservedLease::Unreadable, Some(at + REFUSED)),
            (
                LeaseAnswer::Found(LeaseFacts { version, record, .. }),
                ObservedLease::Present {
                    version: known,
                    record: old,
                    until,
                },
            ) => {
                let (until, moved) = (*until, old.holder != record.holder);
                if old == record && until <= at {
                    let (version, record) = ((*version).max(*known), record.clone());
                    return self.see(ObservedLease::Expired { version, record }, None);
                }
                match (old == record, *version > *known) {
                    (true, _) => LeaseEffect::None,
                    (false, true) => self.renew(*version, record, at, moved),
                    (false, false) if overtaken => LeaseEffect::None,
                    // The API server's store was restored from a copy.
                    (false, false) => self.first_sight(*version, record, at),
                }
            }
            (LeaseAnswer::Found(found), ObservedLease::Expired { version, record }) => {
                match (*record == found.record, found.version > *version) {
                    (false, true) => {
                        let moved = record.holder != found.record.holder;
                        self.renew(found.version, &found.record, at, moved)
                    }
                    _ => LeaseEffect::None,
                }
            }
            // It was deleted while the answer was on its way.
            (LeaseAnswer::Found(found), ObservedLease::Missing { version })
                if overtaken && found.version <= *version =>
            {
                LeaseEffect::None
            }
            (
                LeaseAnswer::Found(found),
                ObservedLease::Unknown | ObservedLease::Missing { .. } | ObservedLease::Unreadable,
            ) => self.first_sight(found.version, &found.record, at),
            (LeaseAnswer::Failed, _) => LeaseEffect::None,
        }
    }

    /// Returns whether it is to be read, and no answer has come yet.
    pub fn is_reading(&self) -> bool {
        self.reading
    }

    /// Returns the number of reads that have failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Delays the next look at it.
    pub fn postpone(&mut self, by: Duration) {
        self.wake = self.wake.map(|wake| wake + by);
    }

    /// Asks for a read at once, because a Service has begun to follow the Lease after the list. Returns whether to send
    /// it.
    pub fn ask(&mut self) -> bool {
        let asks = self.observed == ObservedLease::Unknown && !self.reading;
        if asks {
            (self.reading, self.overtaken) = (true, false);
        }
        asks
    }

    /// Looks at it, once the time of [`Self::wake`] has come. `published` says whether a pod is published for it. Returns whether to
    /// read it, and the effect on the Services that follow it.
    pub fn due(&mut self, now: Duration, published: bool) -> (bool, LeaseEffect) {
        if self.wake().is_none_or(|wake| wake > now) {
            return (false, LeaseEffect::None);
        }
        match &self.observed {
            ObservedLease::Present {
                until,
                version,
                record,
            } if *until <= now && !published => {
                let (version, record) = (*version, record.clone());
                (false, self.see(ObservedLease::Expired { version, record }, None))
            }
            ObservedLease::Missing { .. } | ObservedLease::Expired { .. } => {
                self.wake = None;
                (false, LeaseEffect::None)
            }
            _ => {
                (self.reading, self.overtaken) = (true, false);
                (true, LeaseEffect::None)
            }
        }
    }

    fn first_sight(&mut self, version: u64, record: &Record, at: Duration) -> LeaseEffect {
        self.present(version, record, at);
        LeaseEffect::Judge
    }

    fn renew(&mut self, version: u64, record: &Record, at: Duration, moved: bool) -> LeaseEffect {
        self.present(version, record, at);
        LeaseEffect::Renewed { moved }
    }

    fn present(&mut self, version: u64, record: &Record, at: Duration) {
        self.shown = at;
        let until = at.saturating_add(duration(record));
        self.wake = (!record.holder.is_empty()).then_some(until);
        self.observed = ObservedLease::Present {
            version,
            record: record.clone(),
            until,
        };
    }

    fn miss(&mut self, version: u64, at: Duration) -> LeaseEffect {
        self.shown = at;
        self.see(ObservedLease::Missing { version }, None)
    }

    /// Returns the version as of which it is known.
    fn version(&self) -> Option<u64> {
        match self.observed {
            ObservedLease::Missing { version }
            | ObservedLease::Present { version, .. }
            | ObservedLease::Expired { version, .. } => Some(version),
            ObservedLease::Unknown | ObservedLease::Unreadable => None,
        }
    }

    fn see(&mut self, observed: ObservedLease, wake: Option<Duration>) -> LeaseEffect {
        (self.observed, self.wake) = (observed, wake);
        LeaseEffect::Judge
    }
}

/// Returns how long a holder may go without renewing.
pub fn duration(record: &Record) -> Duration {
    match u64::try_from(record.seconds) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds),
        _ => UNSEEN,
    }
}

/// Returns the name of a pod, host or node that an identity begins with: the part before the first `_`, a character that no
/// such name contains. client-go and controller-runtime append `_` and a UUID to the hostname.
pub fn holder_name(identity: &str) -> &str {
    identity.split('_').next().unwrap_or_default()
}

/// Returns whether a Lease can have this name: a DNS subdomain. It becomes part of a request's path.
pub fn is_lease_name(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        let ends = [part.bytes().next(), part.bytes().next_back()];
        ends.iter().all(|end| end.is_some_and(alphanumeric))
            && part.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[cfg(test)]
mod tests;
