//! Kubernetes Events, written as by client-go's recorder: repetitions are counted in the existing object, Events that
//! differ in their message alone are combined before they flood, and everything is bounded.
//!
//! Unlike in client-go, a limit only delays: an Event that may not be written yet waits as a count, latest wins, and
//! is written when its turn comes. Namespaces take turns, and share what is remembered: one that causes ten thousand
//! Events delays another's by one turn.

mod body;
mod inbox;
mod lru;
mod queue;
#[cfg(test)]
mod tests;

use super::bucket::TokenBucket;
use super::excerpt;
use super::hash::hash_of;
use super::ids::Uid;
use super::time::Time;
pub use inbox::{NoticeInbox, RepeatedNotice, TakenNotices};
use lru::SharedLru;
use queue::{Due, EventQueue};
use std::sync::Arc;
use std::time::Duration;

/// Number of Events, and of objects that they are about, that are remembered; the same as in client-go.
const REMEMBERED: usize = 4096;
/// Number of different messages from which on Events that are otherwise the same are combined.
const COMBINED_FROM: usize = 10;
/// If nothing similar happens for longer than this, different messages get Events of their own again.
const COMBINED_FOR: Duration = Duration::from_secs(600);
/// The prefix of the message of a combined Event.
const COMBINED: &str = "(combined from similar events): ";
/// Number of Events about one object, by one source, that may be sent at once,
const OBJECT_BURST: u32 = 25;
/// and then one every five minutes.
const OBJECT_QPS: f64 = 1.0 / 300.0;
/// Number of Events in all that may be sent at once,
const BURST: u32 = 50;
/// and then per second. Each is a write to etcd that no endpoint waits for: when ten thousand Services fail at once,
/// their Events must not add ten thousand writes to the load of an API server that may be in trouble already.
const QPS: f64 = 5.0;
/// Number of failed requests after which an Event is given up.
const TRIES: u32 = 6;
/// The pause of all Events after a failed request, as the next would likely fail too; it doubles with each further one
/// in a row,
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longer messages are cut: the newer Events API, which shows the same objects, allows no longer ones.
const LONGEST_MESSAGE: usize = 1024;

/// The upstream controller that an Event is written for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The controller that writes Endpoints.
    Endpoints,
    /// The controller that writes `EndpointSlices`.
    Slices,
    /// The controller that mirrors Endpoints.
    Mirroring,
    /// The controller for Services whose selector is an annotation.
    Custom,
}

impl Source {
    /// Returns the name that the controller gives itself in Events, which is that of upstream's if there is one.
    pub fn component(self) -> &'static str {
        match self {
            Self::Endpoints => "endpoint-controller",
            Self::Slices => "endpoint-slice-controller",
            Self::Mirroring => "endpoint-slice-mirroring-controller",
            Self::Custom => "custom-selector-controller",
        }
    }
}

/// The kind of object that an Event is about; both are of `v1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InvolvedKind {
    /// A Service.
    Service,
    /// An Endpoints object.
    Endpoints,
}

impl InvolvedKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Endpoints => "Endpoints",
        }
    }
}

/// The object that an Event is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Involved {
    /// Its kind.
    pub kind: InvolvedKind,
    /// Its namespace, where the Event goes too.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID; none if it could not be created.
    pub uid: Uid,
    /// Its resourceVersion, if known.
    pub version: Option<u64>,
}

/// A notice for users, to be written as an Event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The source of the Event.
    pub source: Source,
    /// The object that it is about.
    pub involved: Involved,
    /// True if it is a warning.
    pub warning: bool,
    /// A reason for machines, in `UpperCamelCase`.
    pub reason: &'static str,
    /// A sentence for users.
    pub message: String,
}

impl Notice {
    /// Returns a hash that notices with the same key share.
    fn hash(&self) -> u64 {
        let Involved {
            kind,
            namespace,
            name,
            uid,
            version: _,
        } = &self.involved;
        hash_of(&(
            (self.source, kind, namespace, name, uid),
            (self.warning, self.reason, &self.message),
        ))
    }

    /// Returns the key: notices with the same key are repetitions.
    pub fn key(&self) -> Key {
        Key {
            object: Object {
                source: self.source,
                kind: self.involved.kind,
                namespace: self.involved.namespace.clone(),
                name: self.involved.name.clone(),
                uid: self.involved.uid.clone(),
            },
            warning: self.warning,
            reason: self.reason,
            message: Some(self.message.as_str().into()),
        }
    }
}

/// The identity of an Event.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    object: Object,
    warning: bool,
    reason: &'static str,
    /// `None` for the one that others are combined in.
    message: Option<Arc<str>>,
}

/// An object, as seen by one source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Object {
    source: Source,
    kind: InvolvedKind,
    namespace: Arc<str>,
    name: Arc<str>,
    uid: Uid,
}

/// A point in time on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// On the monotonic clock: limits and delays go by it.
    pub now: Duration,
    /// On the wall clock.
    pub wall: Time,
}

/// A request for one Event object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventWrite {
    /// The key to pass to [`EventLog::done`] with its outcome.
    pub key: Arc<Key>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// The request to send.
    pub request: EventRequest,
}

/// The request for an Event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventRequest {
    /// POST this object.
    Create(Vec<u8>),
    /// PATCH with this merge patch.
    Patch(Vec<u8>),
}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventOutcome {
    /// The request was carried out.
    Written,
    /// An Event of that name exists, so an earlier create was carried out after all.
    Exists,
    /// The Event no longer exists: API servers keep Events for an hour.
    NotFound,
    /// The API server refuses it, and would the next time too.
    Rejected,
    /// The API server did not answer, or asks for a pause.
    Failed {
        /// The length of the pause.
        pause: Option<Duration>,
        /// True if the failure concerns this Event or its namespace only, and not the API server.
        alone: bool,
    },
}

/// All Events of this process. Owned by one actor.
#[derive(Debug)]
pub struct EventLog {
    entries: SharedLru<Arc<Key>, Entry>,
    objects: SharedLru<Object, ObjectLog>,
    /// The Events that are to be written.
    queue: EventQueue,
    bucket: TokenBucket,
    /// No request goes before this time.
    pause: Duration,
    /// Number of failed requests in a row.
    failures: u32,
    /// The Event in flight.
    flying: Option<Arc<Key>>,
    /// The number in the last name: names are never the same.
    last_name: i64,
    given_up: u64,
}

/// One Event.
#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    /// The resourceVersion of the object that it is about, if known.
    version: Option<u64>,
    message: String,
    first: Time,
    last: Time,
    count: u32,
    /// The count that the API server has; 0 if there is no such object, as far as we know.
    written: u32,
    /// The count in flight.
    sent: u32,
    /// Its turn, if it is to be written.
    due: Option<Due>,
    /// True if its object's bucket has given a token for the next request.
    paid: bool,
    failures: u32,
}

impl Entry {
    /// Applies an outcome. Returns whether another request follows it.
    fn retries(&mut self, outcome: EventOutcome) -> bool {
        let tries_left = self.failures + 1 < TRIES;
        match outcome {
            EventOutcome::Written => {
                self.written = self.sent;
                false
            }
            // The count of the existing Event is unknown: a patch corrects it.
            EventOutcome::Exists if self.written == 0 && tries_left => {
                self.written = 1;
                true
            }
            EventOutcome::NotFound if self.written > 0 && tries_left => {
                self.written = 0;
                true
            }
            EventOutcome::Failed { .. } => tries_left,
            _ => false,
        }
    }
}

/// The log of an object: one of few reasons has one group.
#[derive(Debug)]
struct ObjectLog {
    bucket: TokenBucket,
    groups: Vec<Group>,
}

/// Events that differ in their message alone.
#[derive(Debug)]
struct Group {
    warning: bool,
    reason: &'static str,
    /// Hashes of the messages that have an Event each, at most [`COMBINED_FROM`] less one.
    messages: Vec<u64>,
    last: Duration,
}

impl Default for EventLog {
    fn default() -> Self {
        Self::with_limit(REMEMBERED)
    }
}

impl EventLog {
    fn with_limit(limit: usize) -> Self {
        Self {
            entries: SharedLru::new(limit),
            objects: SharedLru::new(limit),
            queue: EventQueue::default(),
            bucket: TokenBucket::new(QPS, BURST),
            pause: Duration::ZERO,
            failures: 0,
            flying: None,
            last_name: 0,
            given_up: 0,
        }
    }

    /// Records that something has happened `times` times, the last of them now.
    pub fn record(&mut self, mut notice: Notice, times: u32, at: Moment) {
        cut(&mut notice.message, LONGEST_MESSAGE);
        let mut key = notice.key();
        if self.combines(&key, at.now) {
            key.message = None;
            notice.message.insert_str(0, COMBINED);
            cut(&mut notice.message, LONGEST_MESSAGE);
        }
        let key = Arc::new(key);
        let last_name = &mut self.last_name;
        let (entry, gone) = self.entries.use_or_insert(&key.object.namespace, &key, || {
            *last_name = at.wall.as_nanoseconds().max(*last_name + 1);
            Entry {
                name: format!("{}.{last_name:x}", notice.involved.name).into(),
                version: None,
                message: String::new(),
                first: at.wall,
                last: at.wall,
                count: 0,
                written: 0,
                sent: 0,
                due: None,
                paid: false,
                failures: 0,
            }
        });
        entry.count = entry.count.saturating_add(times).min(i32::MAX as u32);
        entry.last = at.wall;
        entry.message = notice.message;
        entry.version = notice.involved.version.or(entry.version);
        if entry.due.is_none() && self.flying.as_ref() != Some(&key) {
            entry.due = Some(self.queue.insert(at.now, key));
        }
        if let Some((key, Entry { due: Some(due), .. })) = gone {
            self.queue.remove(&key, due);
            self.given_up += 1;
        }
    }

    /// Returns whether there have been too many similar notices for this one to have an Event of its own.
    fn combines(&mut self, key: &Key, now: Duration) -> bool {
        let message = hash_of(&key.message);
        let (log, _) = self
            .objects
            .use_or_insert(&key.object.namespace, &key.object, ObjectLog::new);
        let same = |group: &Group| group.warning == key.warning && group.reason == key.reason;
        let at = log.groups.iter().position(same).unwrap_or_else(|| {
            log.groups.push(Group {
                warning: key.warning,
                reason: key.reason,
                messages: Vec::new(),
                last: now,
            });
            log.groups.len() - 1
        });
        let group = &mut log.groups[at];
        if now.saturating_sub(group.last) > COMBINED_FOR {
            group.messages.clear();
        }
        group.last = now;
        if group.messages.contains(&message) {
            return false;
        }
        if group.messages.len() + 1 < COMBINED_FROM {
            group.messages.push(message);
            return false;
        }
        true
    }

    /// Returns the next request, if one may go now. No other goes before [`EventLog::done`].
    pub fn next(&mut self, now: Duration) -> Option<EventWrite> {
        loop {
            if self.next_due()? > now {
                return None;
            }
            if let Err(wait) = self.bucket.take(now) {
                self.pause = self.pause.max(now + wait);
                return None;
            }
            let key = self.queue.pop(now)?;
            let entry = self
                .entries
                .get_mut(&key.object.namespace, &key)
                .expect("an entry that goes leaves its turn");
            entry.due = None;
            if !entry.paid {
                let (log, _) = self
                    .objects
                    .use_or_insert(&key.object.namespace, &key.object, ObjectLog::new);
                if let Err(wait) = log.bucket.take(now) {
                    self.bucket.give_back();
                    entry.due = Some(self.queue.insert(now + wait, key));
                    continue;
                }
                entry.paid = true;
            }
            entry.sent = entry.count;
            self.flying = Some(key.clone());
            return Some(EventWrite {
                namespace: key.object.namespace.clone(),
                name: entry.name.clone(),
                request: if entry.written == 0 {
                    EventRequest::Create(body::create(&key, entry))
                } else {
                    EventRequest::Patch(body::patch(entry))
                },
                key,
            });
        }
    }

    /// Returns when [`EventLog::next`] may have something, if nothing happens before; `None` while a request is in
    /// flight.
    pub fn next_due(&self) -> Option<Duration> {
        if self.flying.is_some() {
            return None;
        }
        Some(self.queue.next_due()?.max(self.pause))
    }

    /// Handles the outcome of the request in flight.
    pub fn done(&mut self, key: &Key, outcome: EventOutcome, now: Duration) {
        let Some(key) = self.flying.take_if(|flying| **flying == *key) else {
            return;
        };
        match outcome {
            // A failure of one namespace, such as of a webhook of its own, is no reason for the others to wait.
            EventOutcome::Failed { alone: true, .. } => {}
            EventOutcome::Failed { pause, .. } => {
                let pause = pause_after(self.failures).max(pause.unwrap_or_default());
                self.pause = self.pause.max(now + pause.min(LONGEST_PAUSE));
                self.failures += 1;
            }
            _ => self.failures = 0,
        }
        // The entry may have been forgotten while its request was in flight.
        if let Some(entry) = self.entries.get_mut(&key.object.namespace, &key) {
            let retry = entry.retries(outcome);
            let mut pause = Duration::ZERO;
            if retry {
                if let EventOutcome::Failed { alone: true, .. } = outcome {
                    pause = pause_after(entry.failures);
                }
                entry.failures += 1;
            } else {
                self.given_up += u64::from(outcome != EventOutcome::Written);
                (entry.paid, entry.failures) = (false, 0);
            }
            // An Event that was given up is tried again when it happens again, with all that happened before in its
            // count.
            if retry || entry.count > entry.sent {
                entry.due = Some(self.queue.insert(now + pause, key));
            }
        }
    }

    /// Returns how often an Event was given up since the last call: refused, failed too often, or pushed out by newer
    /// ones.
    pub fn take_given_up(&mut self) -> u64 {
        std::mem::take(&mut self.given_up)
    }
}

impl ObjectLog {
    fn new() -> Self {
        Self {
            bucket: TokenBucket::new(OBJECT_QPS, OBJECT_BURST),
            groups: Vec::new(),
        }
    }
}

/// Returns the pause after a failure that follows `failures` others in a row.
fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(1 << failures.min(16))
        .min(LONGEST_PAUSE)
}

/// Cuts a text to a maximum number of bytes, between two characters.
fn cut(text: &mut String, limit: usize) {
    text.truncate(excerpt::cut(text, limit).len());
}
