//! What actors tell each other, and the handles by which they reach the writer and the writer of Events.

use super::inbox::Inbox;
use crate::cluster::events::EventAnswer;
use crate::cluster::objects::Answer;
use crate::core::events::{Inbox as Notices, Key, Notice, Pending};
use crate::core::leadership::Role;
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectKey, ObjectName};
use crate::core::publish::reports::{Report, Reported, Reports};
use parking_lot::Mutex;
use ractor::{ActorRef, RpcReplyPort};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What a shard is told.
#[derive(Debug)]
pub enum ShardMsg {
    /// Something waits in the inbox. At most one of these is in the mailbox.
    Wake,
    /// The writer has room for this object's request.
    Grant(ObjectName),
    /// The answer to this object's request, and what the server said if it refused.
    Outcome(ObjectName, Outcome, Option<Box<str>>),
    /// Time has passed that a comparison waited for.
    Look,
    /// Somebody asks whether it still answers.
    Ping(oneshot::Sender<()>),
}

/// What the writer is told.
#[derive(Debug)]
pub enum WriterMsg {
    /// Shards have something to say: it waits in the handle. At most one of these is in the mailbox.
    Wake,
    /// The server's answer to a request.
    Done(ObjectKey, Answer),
    /// Time has passed that something waited for.
    Tick,
    /// Whether anything may be written from now on. Until it is told, the writer takes it that it may.
    Role(Role),
    /// Somebody asks whether it still answers.
    Ping(oneshot::Sender<()>),
    /// Let nothing new go, and say when nothing is in flight any more.
    Drain(RpcReplyPort<()>),
}

/// What the writer of Events is told.
#[derive(Debug)]
pub enum EventMsg {
    /// Notices wait in the handle's map. At most one of these is in the mailbox.
    Wake,
    /// The server's answer to a request.
    Done(Arc<Key>, EventAnswer),
    /// Time has passed that something waited for.
    Tick,
    /// Somebody asks whether it still answers.
    Ping(oneshot::Sender<()>),
    /// Whether anything may be written from now on. Until it is told, the actor takes it that it may.
    Role(Role),
}

/// What the root is told.
#[derive(Debug)]
pub enum RootMsg {
    /// A shard has nothing left, as of this delivery to its inbox.
    Idle {
        /// The shard's namespace.
        namespace: Arc<str>,
        /// Its inbox: another shard may have taken its place.
        inbox: Arc<Inbox>,
        /// The number of the delivery.
        sequence: u64,
    },
    /// Somebody asks whether it still answers.
    Ping(oneshot::Sender<()>),
}

/// So many objects are taken from the reports at once. What shards say of more waits for the writer's next turn, so that
/// answers and grants are not held up by a namespace with a hundred thousand objects.
const TAKEN_AT_ONCE: usize = 256;

/// How shards reach the writer. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct WriterHandle(Arc<WriterShared>);

#[derive(Debug)]
struct WriterShared {
    mailbox: Mutex<ReportBox>,
    actor: OnceLock<ActorRef<WriterMsg>>,
    /// What the times of reports and of the publisher count from.
    start: Instant,
}

#[derive(Debug, Default)]
struct ReportBox {
    reports: Reports,
    /// A [`WriterMsg::Wake`] is in the mailbox.
    woken: bool,
}

impl Default for WriterShared {
    fn default() -> Self {
        Self {
            mailbox: Mutex::default(),
            actor: OnceLock::new(),
            start: Instant::now(),
        }
    }
}

impl WriterHandle {
    /// What a shard says of objects of its namespace, in this order. `noticed` is when the changes were noticed that the
    /// objects are wanted for.
    pub fn report(&self, namespace: &Arc<str>, said: Vec<(ObjectName, Report)>, noticed: Instant) {
        let noticed = noticed.saturating_duration_since(self.0.start);
        let mut mailbox = self.0.mailbox.lock();
        for (object, report) in said {
            let key = ObjectKey {
                namespace: namespace.clone(),
                object,
            };
            mailbox.reports.say(key, report, noticed);
        }
        let wake = !mailbox.reports.is_empty() && !std::mem::replace(&mut mailbox.woken, true);
        drop(mailbox);
        if wake {
            self.send(WriterMsg::Wake);
        }
    }

    /// Tells the writer something. Before it is there, and after it has gone, nobody needs to know.
    pub fn send(&self, message: WriterMsg) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(message);
        }
    }

    /// Lets others reach the writer. The error says that there is one already.
    pub(super) fn set(&self, actor: ActorRef<WriterMsg>) -> Result<(), &'static str> {
        let set = self.0.actor.set(actor);
        set.map_err(|_| "the writer was started twice")
    }

    /// What the clock of reports and of the publisher shows.
    pub(super) fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0.start)
    }

    /// Takes the next reports. When some are left, the writer is to be woken again.
    pub(super) fn take(&self) -> (Vec<(ObjectKey, Reported)>, bool) {
        let mut mailbox = self.0.mailbox.lock();
        let taken = std::iter::from_fn(|| mailbox.reports.take())
            .take(TAKEN_AT_ONCE)
            .collect();
        mailbox.woken = !mailbox.reports.is_empty();
        (taken, mailbox.woken)
    }
}

/// How others leave notices. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct EventHandle(Arc<EventShared>);

#[derive(Debug, Default)]
struct EventShared {
    inbox: Mutex<Notices>,
    /// A wake-up is in the mailbox.
    woken: AtomicBool,
    actor: OnceLock<ActorRef<EventMsg>>,
}

impl EventHandle {
    /// Something has happened. This never blocks, and costs a look-up.
    pub fn record(&self, notice: Notice) {
        self.0.inbox.lock().record(notice);
        // Before the actor is there nobody is to be woken; it looks when it starts.
        let Some(actor) = self.0.actor.get() else {
            return;
        };
        if !self.0.woken.swap(true, Ordering::AcqRel) {
            let _ = actor.cast(EventMsg::Wake);
        }
    }

    /// Tells the actor something. Before it is there, and after it has gone, nobody needs to know.
    pub fn send(&self, message: EventMsg) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(message);
        }
    }

    /// Lets others reach the actor. The error says that there is one already.
    pub(super) fn set(&self, actor: ActorRef<EventMsg>) -> Result<(), &'static str> {
        let set = self.0.actor.set(actor);
        set.map_err(|_| "the writer of Events was started twice")
    }

    /// What waits, and how much found no place.
    pub(super) fn take(&self) -> (Vec<Pending>, u64) {
        // What is recorded from here on wakes the actor again.
        self.0.woken.store(false, Ordering::Release);
        self.0.inbox.lock().take()
    }
}
