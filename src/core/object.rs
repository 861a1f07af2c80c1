//! State shared by all objects that the controller writes: what the API server is known to hold, the request in flight,
//! and the changes still to be written.

mod rare;

use self::rare::Rare;
use super::backoff::Retry;
use super::hash::Hashed;
use super::ids::Uid;
use super::priority::Priority;
use super::time::earliest;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A kind of object that the controller writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Output {
    /// discovery.k8s.io/v1 `EndpointSlice`.
    Slice,
    /// v1 Endpoints.
    Endpoints,
    /// discovery.k8s.io/v1 `EndpointSlice` that mirrors Endpoints.
    Mirrored,
}

/// An object that the controller writes, identified within its namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ObjectName {
    /// The kind.
    pub output: Output,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// An object that the controller writes, identified cluster-wide. Its parts carry their hashes, which are needed several times
/// for each write. The only way to hash it is [`Self::of_hashed`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Hashed<Arc<str>>,
    /// The kind and name.
    pub object: Hashed<ObjectName>,
}

impl ObjectKey {
    /// Creates the hashed key of an object of a namespace.
    pub fn hashed(namespace: impl Into<Arc<str>>, object: ObjectName) -> Hashed<Self> {
        Self::of_hashed(Hashed::new(namespace.into()), Hashed::new(object))
    }

    /// Creates a hashed key from parts that have been hashed. An exclusive or of two hashes with a secret key is simple tabulation
    /// hashing, which serves a table nearly as well as random hashes do (Pătraşcu and Thorup, *The power of simple tabulation
    /// hashing*, 2011).
    pub fn of_hashed(namespace: Hashed<Arc<str>>, object: Hashed<ObjectName>) -> Hashed<Self> {
        let hash = namespace.known_hash() ^ object.known_hash();
        Hashed::with_hash(Self { namespace, object }, hash)
    }

    /// Returns the hash of the namespace's name.
    pub(super) fn tenant(&self) -> u64 {
        self.namespace.known_hash()
    }
}

impl ObjectName {
    /// Creates the name of a slice.
    pub fn slice(name: Arc<str>) -> Self {
        Self {
            output: Output::Slice,
            name,
        }
    }

    /// Creates the name of a slice that mirrors Endpoints.
    pub fn mirrored(name: Arc<str>) -> Self {
        Self {
            output: Output::Mirrored,
            name,
        }
    }

    /// Creates the name of an Endpoints object, which is also the name of its Service.
    pub fn endpoints(name: Arc<str>) -> Self {
        Self {
            output: Output::Endpoints,
            name,
        }
    }
}

impl Output {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Slice, Self::Endpoints, Self::Mirrored];

    /// Returns the name for users, in the singular: that of the resource, unless the slice mirrors Endpoints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slice => "endpointslice",
            Self::Endpoints => "endpoints",
            Self::Mirrored => "mirrored-endpointslice",
        }
    }

    /// Returns the kind of its objects as the API spells it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Slice | Self::Mirrored => "EndpointSlice",
            Self::Endpoints => "Endpoints",
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Delete];

    /// Returns its name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The kind of a request for one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
    /// GET.
    Fetch,
    /// GET of the Service with the object's name. Only Endpoints are asked about in this way.
    Probe,
}

/// The object as the API server last acknowledged it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: u64,
}

/// How the controller treats an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Published for its Service.
    Managed,
    /// To be deleted from the API server.
    Deleting,
    /// Being adopted: it belongs to its Service, but its content is not known yet and must be fetched.
    Adopting {
        /// True if the Service waits for it, since planning without it would publish its endpoints twice.
        awaited: bool,
    },
    /// Ours, but it had no Service when everything had been listed: deleted if the API server has no such Service
    /// either.
    Leftover {
        /// True if the API server was asked and has no such Service.
        confirmed: bool,
    },
    /// Left alone: its Service is not managed or does not exist.
    Unmanaged,
}

/// The client that wrote an object last, as far as its `managedFields` say.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Editor {
    /// They do not say.
    #[default]
    Unknown,
    /// An endpointd: this one or another.
    Endpointd,
    /// Another client.
    Other(Box<str>),
}

/// How the API server has refused a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Not at all, or for now.
    None,
    /// It rejects the content, or us.
    Rejected,
    /// The namespace takes no new objects, as far as this server knows: one of several may have an old picture of it.
    Terminating,
}

/// After this time, the changes of other clients are forgotten.
const QUIET: Duration = Duration::from_secs(600);
/// An object is contested from this many changes by others in a row.
const CONTESTED_FROM: u8 = 3;
/// Users are told of others after this time again.
const TOLD_AGAIN: Duration = Duration::from_secs(3600);

/// How often others have changed an object of ours or deleted it, with less than ten quiet minutes in between.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ForeignChanges {
    count: u8,
    /// When they last changed it, or it was put right after that.
    last: Duration,
    /// True if it has not been put right since.
    stands: bool,
    /// When users were last told.
    told: Option<Duration>,
}

impl ForeignChanges {
    /// Returns those that count now.
    #[must_use]
    pub fn at(self, now: Duration) -> Self {
        let count = if now < self.last + QUIET { self.count } else { 0 };
        Self { count, ..self }
    }

    /// Counts one more.
    pub fn add(&mut self, now: Duration) {
        *self = self.at(now);
        (self.count, self.last) = (self.count.saturating_add(1), now);
        self.stands = true;
    }

    /// Notes that the object was put right.
    fn put_right(&mut self, now: Duration) {
        if std::mem::take(&mut self.stands) {
            self.last = now;
        }
    }

    /// Returns these, or the others if they are more.
    #[must_use]
    pub fn most(self, others: Self) -> Self {
        if others.count > self.count { others } else { self }
    }

    /// Returns whether there are any.
    pub fn any(self) -> bool {
        self.count > 0
    }

    /// Returns whether they are too many for somebody's mistake.
    pub fn is_contested(self) -> bool {
        self.count >= CONTESTED_FROM
    }

    /// Returns whether users are to be told of them now.
    pub fn tell(&mut self, now: Duration) -> bool {
        let tells = self.told.is_none_or(|told| now >= told + TOLD_AGAIN);
        if tells {
            self.told = Some(now);
        }
        tells
    }
}

/// Up to this many failures in a row, a new reason to write causes an immediate retry.
const IMMEDIATE_RETRIES: u8 = 2;

/// The state of one object relative to the API server.
///
/// All its retries share one clock: what delays the next request ([`Self::failures`], [`ForeignChanges`]) is
/// reset only when the server holds what it should, never because the object was read in between, and only
/// [`Self::retry`] turns it into a delay.
#[derive(Clone, Debug)]
pub struct ObjectState {
    /// How the controller treats it.
    pub phase: Phase,
    /// The object on the server; `None` when the server does not have it yet.
    pub remote: Option<Remote>,
    /// The request in flight; at most one.
    pub flight: Option<RequestKind>,
    /// The highest resourceVersion that a watch showed. If it exceeds the acknowledged one, another client wrote.
    pub seen: u64,
    /// The object needs a refetch before the next write: the server's copy is unknown, and if [`Self::remote`] is
    /// `None`, so is whether it exists.
    pub needs_refetch: bool,
    /// Forces a write for changes that no finer counter tracks: labels, ports, or a write that failed.
    pub rewrite: bool,
    /// The priority of the next write.
    pub priority: Priority,
    /// The priority of the write in flight.
    pub flight_priority: Priority,
    /// True if a new reason to try has come up since the last request was sent: the desired content changed, or the
    /// last request showed what the server has.
    fresh: bool,
    /// True if the server accepted an update of ours since this process first saw the object.
    pub updated: bool,
    /// The number of failed requests since the server last held the desired content.
    pub failures: u8,
    /// True if a write failed, or may have failed, since the server's copy was last known: it may not hold what was sent.
    pub unsettled: bool,
    /// True if a write had no answer since the server's copy was last known: another version may be that write.
    pub unanswered: bool,
    /// How the last failure refused the content that was sent, which waiting alone does not cure.
    pub refusal: Refusal,
    /// True if it waits: it is to be deleted, but the API server is given the time to do that itself; or it was deleted, and is
    /// not made again before it is known whether its Service was too.
    pub waits: bool,
    /// The epoch of the last list that included it.
    pub epoch: u8,
    /// Nothing for most objects that are as they should be. Boxed, because there may be two such objects for each pod.
    rare: Option<Box<Rare>>,
}

/// Failures are reported again after this many more.
pub const RENOTIFY_AFTER: u8 = 20;

impl ObjectState {
    /// Creates the state of an object of which nothing is known yet.
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            remote: None,
            flight: None,
            seen: 0,
            needs_refetch: false,
            rewrite: false,
            priority: Priority::Rest,
            flight_priority: Priority::Rest,
            fresh: false,
            updated: false,
            failures: 0,
            unsettled: false,
            unanswered: false,
            refusal: Refusal::None,
            waits: false,
            epoch: 0,
            rare: None,
        }
    }

    /// Records a change that makes a write due, with its priority.
    pub fn change(&mut self, priority: Priority) {
        self.priority = self.priority.min(priority);
        self.change_by(1);
    }

    /// Like [`Self::change`], for several changes whose priority is already recorded.
    pub fn change_by(&mut self, changes: u32) {
        if changes > 0 {
            self.rare().changes += changes;
        }
        self.fresh = true;
    }

    /// Returns how long the next request must wait, given how the previous ones went.
    pub fn retry(&self) -> Retry {
        // One change by others is put right at once.
        let changes = self.foreign_changes().count.saturating_sub(1);
        match (self.failures, self.refusal, self.fresh) {
            (1.., Refusal::Rejected | Refusal::Terminating, true) => Retry::Floor,
            (failures @ 1.., Refusal::Rejected, false) => Retry::Slowly { failures },
            (failures @ 1.., Refusal::Terminating, false) => Retry::Terminating { failures },
            // The content to send is not what failed, so the failures say little about it. But if changes keep coming
            // and all of them fail, they are retried with a delay.
            (..=IMMEDIATE_RETRIES, _, true) => Retry::Now,
            (_, _, true) => Retry::After {
                failures: IMMEDIATE_RETRIES + 1,
            },
            (failures, _, false) if changes > failures => Retry::Contested { changes },
            (0, _, false) => Retry::Now,
            (failures, _, false) => Retry::After { failures },
        }
    }

    /// Records that a request was built from the current desired content and is now in flight.
    pub fn depart(&mut self, flight: RequestKind) {
        self.flight = Some(flight);
        self.fresh = false;
        match flight {
            RequestKind::Create | RequestKind::Update => {
                if let Some(rare) = &mut self.rare {
                    rare.carried = std::mem::take(&mut rare.changes) > 0;
                    rare.flight_trigger = rare.trigger.take();
                }
                self.flight_priority = std::mem::replace(&mut self.priority, Priority::Rest);
                self.rewrite = false;
            }
            // Only versions that a watch shows from now on can be newer than the fetched object.
            RequestKind::Fetch => self.seen = 0,
            RequestKind::Delete => {
                if let Some(rare) = &mut self.rare {
                    rare.changes = 0;
                }
            }
            RequestKind::Probe => {}
        }
    }

    /// Records that the write was accepted and left the object at this version.
    pub fn written(&mut self, flight: RequestKind, remote: Remote, now: Duration) {
        self.land();
        self.succeed();
        self.updated |= flight == RequestKind::Update;
        if let Some(rare) = &mut self.rare {
            rare.foreign.put_right(now);
        }
        self.needs_refetch = self.seen > remote.version;
        self.seen = self.seen.max(remote.version);
        (self.unanswered, self.unsettled) = (false, false);
        self.remote = Some(remote);
    }

    /// Ends what is known of the write in flight.
    fn land(&mut self) {
        if let Some(rare) = &mut self.rare {
            (rare.flight_trigger, rare.carried) = (None, false);
            self.tidy();
        }
    }

    /// Records the object as read from the server. Returns whether its version differs from the last known one.
    pub fn read(&mut self, remote: Remote) -> bool {
        self.needs_refetch = self.seen > remote.version;
        self.land();
        self.take_sent();
        (self.unanswered, self.unsettled) = (false, false);
        let moved = self.remote.as_ref() != Some(&remote);
        // Another object of the name was not updated yet.
        self.updated &= self.remote.as_ref().is_none_or(|old| old.uid == remote.uid);
        self.remote = Some(remote);
        moved
    }

    /// Resets the failures: the server accepted a write and holds what it should, as its answer or a later read shows.
    pub fn succeed(&mut self) {
        (self.failures, self.refusal) = (0, Refusal::None);
        if let Some(rare) = &mut self.rare {
            rare.oversized = false;
            self.tidy();
        }
    }

    /// Allows one more immediate try, because a read showed what the server has, or that it has nothing. If that try
    /// fails as well, the next read waits.
    pub fn looked(&mut self) {
        self.fresh |= !self.needs_refetch;
    }

    /// Takes back that there is a new reason to try: the next request waits as long as failures and changes by others say.
    pub fn wait_for_turn(&mut self) {
        self.fresh = false;
    }

    /// Makes the content of a request that failed, or may have failed, due again, with its trigger time.
    pub fn undo_departure(&mut self) {
        self.rewrite = true;
        self.unsettled = true;
        if let Some(rare) = &mut self.rare {
            rare.changes += u32::from(std::mem::take(&mut rare.carried));
            rare.trigger = earliest(rare.trigger, rare.flight_trigger.take());
        }
        self.priority = self.priority.min(self.flight_priority);
    }

    /// Counts a failed request.
    pub fn fail(&mut self, refusal: Refusal) {
        // On overflow, continues at a value that keeps the reports `RENOTIFY_AFTER` failures apart.
        self.failures = self
            .failures
            .checked_add(1)
            .unwrap_or(u8::MAX - (RENOTIFY_AFTER - 1));
        self.refusal = refusal;
    }

    /// Marks the object stale because another client wrote or deleted it, for a fetch as urgent as an added endpoint.
    pub fn mark_stale(&mut self) {
        self.needs_refetch = true;
        self.priority = self.priority.min(Priority::Add);
    }

    /// Returns whether the list of this epoch, taken at `version`, shows that the server no longer has the object: it
    /// existed before the list and is not in it.
    pub fn is_unlisted(&self, epoch: u8, version: u64) -> bool {
        let older = self
            .remote
            .as_ref()
            .is_some_and(|remote| remote.version <= version);
        older && self.epoch != epoch
    }

    /// Records that a write failed because another client wrote, or that it may have been applied. The object needs a
    /// refetch, at once if `promptly`, unless this keeps happening.
    pub fn mark_unconfirmed(&mut self, promptly: bool) {
        self.undo_departure();
        self.needs_refetch = true;
        self.unanswered |= !promptly;
        self.fail(Refusal::None);
        self.fresh |= self.failures == 1 && promptly;
    }

    /// Forgets the server's copy, which no longer exists; earlier writes to it do not count.
    pub fn forget_remote(&mut self) {
        self.remote = None;
        self.updated = false;
        self.flight = None;
        self.seen = 0;
        self.needs_refetch = false;
        self.unsettled = false;
        if let Some(rare) = &mut self.rare {
            (rare.extras, rare.gone) = (None, 0);
            rare.trigger = earliest(rare.trigger, rare.flight_trigger.take());
            self.tidy();
        }
    }

    /// Records a version that a watch or a list shows while a request is in flight. If that creates the object, it may be
    /// another one of the name, and the answer may say no more than that the request was not carried out.
    pub fn show_in_flight(&mut self, version: u64) {
        self.seen = self.seen.max(version);
        self.needs_refetch |= self.remote.is_none();
    }

    /// Handles the answer that the object is gone, or another controller's: if a watch has shown it since, it may be there
    /// again, and needs a refetch before that is believed. Returns whether it does.
    pub fn refetch_if_shown_since(&mut self) -> bool {
        let known = self.remote.as_ref().map_or(0, |remote| remote.version);
        let again = self.is_shown_since(known);
        // The next such answer is newer than what was shown.
        self.note_gone(self.seen);
        self.needs_refetch |= again;
        again
    }

    /// Returns whether a watch has shown the name at a newer version than this one, and than the last at which it was gone.
    pub fn is_shown_since(&self, version: u64) -> bool {
        let gone = self.rare.as_ref().map_or(0, |rare| rare.gone);
        self.seen > version.max(gone)
    }

    /// Returns whether a watch showed a newer version than the last known one.
    pub fn is_outdated(&self) -> bool {
        self.remote
            .as_ref()
            .is_some_and(|remote| remote.version < self.seen)
    }

    /// Returns whether what the server has may be other than what was acknowledged: a request is in flight, or the object is to
    /// be read.
    pub fn is_unknown(&self) -> bool {
        self.flight.is_some() || self.needs_refetch
    }

    /// Returns whether the server does not have the object: no create of it is in flight or may have been carried out.
    pub fn is_absent(&self) -> bool {
        self.remote.is_none() && self.flight.is_none() && !self.needs_refetch
    }

    /// Returns whether this version is one that we have neither seen nor written.
    pub fn is_news(&self, version: u64) -> bool {
        self.remote.as_ref().is_none_or(|remote| remote.version < version)
    }
}
