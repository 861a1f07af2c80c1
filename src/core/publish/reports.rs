//! The shards' reports that wait for the writer: one channel that keeps the reports of an object in order, and in
//! which namespaces take turns.
//!
//! Each object has one entry, so no matter how far behind the writer is, there are no more entries than objects. An
//! entry holds a reply and the latest want after it. No other report matters:
//!
//! * A reply to a grant is made from the shard's state of that moment, so it covers all earlier wants.
//! * A shard that replies "settled" to an answer may have forgotten the request that was answered, so that covers
//!   nothing.
//! * The writer has at most one grant or request of an object out. So a second reply comes only after "settled", from a
//!   shard that wanted the object again before it got the answer, and replaces the first.
//! * Of the wants after the reply, the latest counts, with the highest priority and the earliest time.
//!
//! Changes of role come through the same channel, and are taken before all reports. A writer that stood still while
//! the lease was lost and won again forgets what it was asked before, and then hears what shards want in the new
//! term. If a change came as a message of its own, the writer could take these reports first and forget them with the
//! rest. Reports of the old term that it takes after the change do no harm: a want is granted, and the shard replies
//! that there is nothing to write; a request is not sent, because its grant was of another term.

use crate::core::hash::{Hashed, HashedMap};
use crate::core::leadership::role::{Role, RoleChange};
use crate::core::namespace::{BuiltRequest, WorkItem};
use crate::core::object::{ObjectKey, ObjectName};
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

/// The largest number of objects for which the memory of a namespace's reports is kept for the next one.
const SPARE: usize = 64;

/// A shard's reply about an object that the writer asked about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Replies to a grant with the request to send.
    Built(BuiltRequest),
    /// Replies to a grant that nothing has to be written any more.
    Nothing,
    /// Replies to an answer that the object needs no further request.
    Settled,
}

/// A shard's report of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// The object is to be written.
    Wanted(WorkItem),
    /// The shard replies to a grant or an answer.
    Replied(Reply),
}

impl Report {
    /// Creates the reply to a grant, with the request that was built for it.
    pub fn to_grant(built: Option<BuiltRequest>) -> Self {
        Self::Replied(built.map_or(Reply::Nothing, Reply::Built))
    }

    /// Creates the reply to an outcome, after which the object may be due again.
    pub fn to_outcome(due: Option<WorkItem>) -> Self {
        due.map_or(Self::Replied(Reply::Settled), Self::Wanted)
    }
}

/// The reports of one object that wait; the reply came first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reported {
    /// The reply, if one waits.
    pub reply: Option<Reply>,
    /// The work item wanted after that, and when the first of its changes was noticed.
    pub wanted: Option<(WorkItem, Duration)>,
}

/// The change or report that the writer takes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The role has changed.
    Role(RoleChange),
    /// A shard has reported an object.
    Reported(Hashed<ObjectKey>, Reported),
}

/// The waiting reports of all objects, and the change of role that comes before them. Shards fill it and the writer empties it.
/// Namespaces take turns, so that one with a hundred thousand objects does not hold up the others; the objects of a
/// namespace are taken in the order in which they were first reported.
#[derive(Clone, Default, Debug)]
pub struct Reports {
    role: Option<RoleChange>,
    /// Objects that are settled. They come before all others: a Service whose objects are all settled is in sync for a moment, even
    /// if they are due again. The writer has nothing to do for them but to show it in its figures, so they do not wake it. There are no
    /// more of them than requests may be in flight: nothing more is sent before they are taken.
    settled: Vec<Hashed<ObjectKey>>,
    by_namespace: HashedMap<Arc<str>, NamespaceReports>,
    /// The keys of `by_namespace`, the next one first.
    turns: VecDeque<Hashed<Arc<str>>>,
    /// The last entry of `by_namespace` that became empty, whose memory serves the next one.
    spare: NamespaceReports,
}

/// The reports of a namespace's objects that wait, at least one.
#[derive(Clone, Default, Debug)]
struct NamespaceReports {
    by_object: HashedMap<ObjectName, Reported>,
    /// The keys of `by_object`.
    order: VecDeque<Hashed<ObjectName>>,
}

impl Reports {
    /// Adds a report of an object of a namespace. If it is wanted, `noticed` is when the change was noticed.
    pub fn push(
        &mut self,
        namespace: &Hashed<Arc<str>>,
        object: Hashed<ObjectName>,
        report: Report,
        noticed: Duration,
    ) {
        if report == Report::Replied(Reply::Settled) {
            return self.settled.push(ObjectKey::of_hashed(namespace.clone(), object));
        }
        let waiting = match self.by_namespace.entry(namespace.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.turns.push_back(entry.key().clone());
                entry.insert(std::mem::take(&mut self.spare))
            }
        };
        let reported = match waiting.by_object.entry(object) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                waiting.order.push_back(entry.key().clone());
                entry.insert(Reported::default())
            }
        };
        match (report, &mut reported.wanted) {
            (Report::Replied(reply), wanted) => {
                debug_assert!(reported.reply.is_none(), "an object has one grant or request out");
                *wanted = None;
                reported.reply = Some(reply);
            }
            (Report::Wanted(mut latest), Some((want, since))) => {
                latest.priority = latest.priority.min(want.priority);
                *want = latest;
                *since = noticed.min(*since);
            }
            (Report::Wanted(want), wanted) => *wanted = Some((want, noticed)),
        }
    }

    /// Changes the role of this process. Must be called before a shard reports anything of the new term.
    pub fn change_role(&mut self, role: Role) {
        self.role = Some(RoleChange::new(role, self.role));
    }

    /// Takes the change of role if there is one, otherwise one of the objects that are settled, and otherwise the reports of the next
    /// object.
    pub fn take(&mut self) -> Option<Taken> {
        if let Some(change) = self.role.take() {
            return Some(Taken::Role(change));
        }
        if let Some(key) = self.settled.pop() {
            let reply = Some(Reply::Settled);
            return Some(Taken::Reported(key, Reported { reply, wanted: None }));
        }
        let namespace = self.turns.pop_front()?;
        let waiting = self.by_namespace.get_mut(&namespace);
        let waiting = waiting.expect("a namespace has a turn as long as something of it waits");
        let (object, reported) = waiting
            .take()
            .expect("something of a namespace waits that has a turn");
        let key = ObjectKey::of_hashed(namespace.clone(), object);
        if waiting.order.is_empty() {
            let emptied = self.by_namespace.remove(&namespace);
            self.spare = emptied
                .filter(|emptied| emptied.order.capacity() <= SPARE)
                .unwrap_or_default();
        } else {
            self.turns.push_back(namespace);
        }
        Some(Taken::Reported(key, reported))
    }

    /// Returns how many objects are settled that have not been taken.
    pub fn settled(&self) -> usize {
        self.settled.len()
    }

    /// Returns whether something waits that the writer has to be woken for.
    pub fn is_urgent(&self) -> bool {
        self.role.is_some() || !self.turns.is_empty()
    }
}

impl NamespaceReports {
    fn take(&mut self) -> Option<(Hashed<ObjectName>, Reported)> {
        let object = self.order.pop_front()?;
        let reported = self
            .by_object
            .remove(&object)
            .expect("an object that is in the order has a place");
        Some((object, reported))
    }
}
