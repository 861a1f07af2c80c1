//! What the objects that we write have in common: what the server is known to have of one, the request on its
//! way to it, and what is still to be written.

use super::backoff::Retry;
use super::facts::Extras;
use super::ids::Uid;
use super::queue::Priority;
use super::time::{Time, earliest};
use std::fmt;
use std::sync::Arc;

/// A kind of object that we write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Output {
    /// discovery.k8s.io/v1 `EndpointSlice`.
    Slice,
    /// v1 Endpoints.
    Endpoints,
}

/// An object that we write, within its namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectName {
    /// Its kind.
    pub output: Output,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// An object that we write, cluster-wide.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its kind and name.
    pub object: ObjectName,
}

impl ObjectName {
    /// A slice's.
    pub fn slice(name: Arc<str>) -> Self {
        Self {
            output: Output::Slice,
            name,
        }
    }

    /// An Endpoints object's: its Service has the same.
    pub fn endpoints(name: Arc<str>) -> Self {
        Self {
            output: Output::Endpoints,
            name,
        }
    }
}

impl Output {
    /// As people write it, in the singular.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "endpointslice",
            Self::Endpoints => "endpoints",
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The write or read of an object that is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flight {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
    /// GET.
    Fetch,
    /// GET of the Service that an Endpoints object is named after.
    Probe,
}

/// The object as the server last acknowledged it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// What an object is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Published for its Service.
    Managed,
    /// To be deleted.
    Deleting,
    /// Its Service's own, but its content is not known yet: to be fetched.
    Adopting {
        /// Whether the Service waits for it, since planning without it would publish its endpoints twice.
        blocks: bool,
    },
    /// Of our making, and without a Service when everything had been listed: to be deleted if the server has no such
    /// Service either.
    Leftover {
        /// The server was asked, and has none.
        confirmed: bool,
    },
    /// Left alone: its Service is not managed, or there is none.
    Unmanaged,
}

/// However often others have changed an object behind our back, it is put right after no more than some seconds.
const MOST_LOSSES: u8 = 7;
/// So many failures in a row keep nobody from trying at once when there is a new reason to.
const PATIENCE: u8 = 2;

/// How one object stands with the server.
///
/// All its retries have one clock: what counts against the next request ([`Self::failures`], [`Self::losses`]) goes
/// back to nothing only when the server has what it should, never because the object was looked at in between; and
/// [`Self::retry`] is the only place that makes a pause of it.
#[derive(Clone, Debug)]
pub struct ObjectState {
    /// What the server has; `None` when it does not have it yet.
    pub remote: Option<Remote>,
    /// What others put into its metadata, where there is anything.
    pub extras: Option<Box<Extras>>,
    /// The request on its way; at most one.
    pub flight: Option<Flight>,
    /// The highest resourceVersion that a watch showed; above the acknowledged one, somebody else wrote.
    pub seen: u64,
    /// What the server has is not known, not even whether it has the object where [`Self::remote`] is none: it
    /// must be fetched before the next write.
    pub needs_refetch: bool,
    /// To be written for what no finer account shows: labels, ports, or a write that failed.
    pub rewrite: bool,
    /// The earliest trigger time of what is not yet written.
    pub trigger: Option<Time>,
    /// The trigger time in the write in flight.
    pub flight_trigger: Option<Time>,
    /// How urgent the next write is.
    pub priority: Priority,
    /// How urgent the write in flight was.
    pub flight_priority: Priority,
    /// How many changes of what it should hold came since the last write was built.
    pub changes: u32,
    /// Whether the write in flight carries such a change.
    carried: bool,
    /// Whether there is a new reason to try since the last request left: what it should hold has changed, or the
    /// last request has shown what the server has.
    fresh: bool,
    /// How many requests have failed since the server last had what it should.
    pub failures: u8,
    /// How often in a row others have written to it or deleted it, with no update of ours in between that a change
    /// of what it should hold had called for. Those who collect what has lost its owner may know sooner than we do
    /// that the Service is gone, and would delete as fast as we create.
    pub losses: u8,
    /// Whether the last failure was a refusal of what was sent, which waiting alone does not cure.
    pub rejected: bool,
    /// Whether the server has refused it for its size since it last took a write.
    pub oversized: bool,
    /// The last list that showed it.
    pub epoch: u8,
}

impl Default for ObjectState {
    fn default() -> Self {
        Self {
            remote: None,
            extras: None,
            flight: None,
            seen: 0,
            needs_refetch: false,
            rewrite: false,
            trigger: None,
            flight_trigger: None,
            priority: Priority::Rest,
            flight_priority: Priority::Rest,
            changes: 0,
            carried: false,
            fresh: false,
            failures: 0,
            losses: 0,
            rejected: false,
            oversized: false,
            epoch: 0,
        }
    }
}

/// People hear of failures once more after so many.
pub const SAID_AGAIN: u8 = 20;

impl ObjectState {
    /// A change that makes a write due, and how urgent it is.
    pub fn change(&mut self, priority: Priority) {
        self.priority = self.priority.min(priority);
        self.change_by(1);
    }

    /// As [`Self::change`], of several changes whose urgency is known already.
    pub fn change_by(&mut self, changes: u32) {
        self.changes += changes;
        self.fresh = true;
    }

    /// How long the next request must wait because of what became of the last ones.
    pub fn retry(&self) -> Retry {
        let lost = self.losses.saturating_sub(1).min(MOST_LOSSES);
        match (self.failures, self.rejected, self.fresh) {
            (1.., true, true) => Retry::Floor,
            (failures @ 1.., true, false) => Retry::Slowly { failures },
            // What is to be sent is not what was tried: the failures say little about it. But where changes keep
            // coming and all fail, they come with a pause.
            (..=PATIENCE, _, true) => Retry::Now,
            (_, _, true) => Retry::After {
                failures: PATIENCE + 1,
            },
            (failures, _, false) => match failures.max(lost) {
                0 => Retry::Now,
                failures => Retry::After { failures },
            },
        }
    }

    /// What the object should hold has been built into a request.
    pub fn depart(&mut self, flight: Flight) {
        self.flight = Some(flight);
        self.fresh = false;
        match flight {
            Flight::Create | Flight::Update => {
                self.carried = std::mem::take(&mut self.changes) > 0;
                self.flight_trigger = self.trigger.take();
                self.flight_priority = std::mem::replace(&mut self.priority, Priority::Rest);
                self.rewrite = false;
            }
            // Only what a watch shows from now on can be newer than what the fetch shows.
            Flight::Fetch => self.seen = 0,
            Flight::Delete => self.changes = 0,
            Flight::Probe => {}
        }
    }

    /// The write was accepted; this is the object's version now.
    pub fn written(&mut self, flight: Flight, remote: Remote) {
        self.flight_trigger = None;
        self.succeed();
        if flight == Flight::Update && self.carried {
            self.losses = 0;
        }
        self.needs_refetch = self.seen > remote.version;
        self.seen = self.seen.max(remote.version);
        self.remote = Some(remote);
    }

    /// What the server has was read. Says whether it is another version than the last one known.
    pub fn read(&mut self, remote: Remote) -> bool {
        self.needs_refetch = self.seen > remote.version;
        self.flight_trigger = None;
        let moved = self.remote.as_ref() != Some(&remote);
        self.remote = Some(remote);
        moved
    }

    /// The server has what it should since it took a write of ours: its answer says so, or a look has shown it.
    pub fn succeed(&mut self) {
        (self.failures, self.rejected, self.oversized) = (0, false, false);
    }

    /// A look at the object has shown what the server has, or that it has nothing: that is reason enough for one
    /// more try. Where that fails as well, the next look waits. `others` says that it was looked at for no other
    /// reason than that others have written to it.
    pub fn looked(&mut self, others: bool) {
        self.fresh |= !self.needs_refetch;
        if others {
            self.lose();
        }
    }

    /// Others have written to the object, or deleted it.
    pub fn lose(&mut self) {
        self.losses = self.losses.saturating_add(1);
    }

    /// The request failed, or may have: all of it is due again, with its trigger time.
    pub fn undo_departure(&mut self) {
        self.rewrite = true;
        self.changes += u32::from(std::mem::take(&mut self.carried));
        self.trigger = earliest(self.trigger, self.flight_trigger.take());
        self.priority = self.priority.min(self.flight_priority);
    }

    /// A request failed.
    pub fn fail(&mut self, rejected: bool) {
        // People hear of it again after so many, however many there were.
        self.failures = self.failures.checked_add(1).unwrap_or(u8::MAX - (SAID_AGAIN - 1));
        self.rejected = rejected;
    }

    /// Somebody else wrote, or deleted it: what the server has is to be read, as urgently as an added endpoint.
    pub fn mark_stale(&mut self) {
        self.needs_refetch = true;
        self.priority = self.priority.min(Priority::Add);
    }

    /// Whether the list of an epoch, as of `version`, shows that the server no longer has it: it was there before
    /// the list, and is not in it.
    pub fn is_unlisted(&self, epoch: u8, version: u64) -> bool {
        let older = self
            .remote
            .as_ref()
            .is_some_and(|remote| remote.version <= version);
        older && self.epoch != epoch
    }

    /// A write was not carried out, or it is not known whether it was because somebody else wrote: what the
    /// server has must be seen, and at once if `promptly`, unless that keeps happening.
    pub fn mark_unconfirmed(&mut self, promptly: bool) {
        self.undo_departure();
        self.needs_refetch = true;
        self.fail(false);
        self.fresh |= self.failures == 1 && promptly;
    }

    /// The server no longer has the object, and what was written to it does not count.
    pub fn forget_remote(&mut self) {
        self.remote = None;
        self.extras = None;
        self.flight = None;
        self.seen = 0;
        self.needs_refetch = false;
        self.trigger = earliest(self.trigger, self.flight_trigger.take());
    }

    /// Whether a watch showed a newer version than the last one known.
    pub fn is_outdated(&self) -> bool {
        self.remote
            .as_ref()
            .is_some_and(|remote| remote.version < self.seen)
    }

    /// Whether nothing is known of it that could matter later.
    pub fn is_nothing(&self) -> bool {
        self.remote.is_none() && self.flight.is_none() && !self.needs_refetch
    }

    /// Whether a version is one that we have not seen and did not write.
    pub fn is_news(&self, version: u64) -> bool {
        self.remote.as_ref().is_none_or(|remote| remote.version < version)
    }
}
