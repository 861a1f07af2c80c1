//! Messages between the actors, and the handles that reach the writer and the actor that writes Events.

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

/// Messages that a shard receives.
#[derive(Debug)]
pub enum ShardMsg {
    /// Changes wait in the inbox. At most one of these is in the mailbox.
    Wake,
    /// The writer is ready to send a request for this object.
    Grant(ObjectName),
    /// The outcome of this object's request, and the server's message if it refused the request.
    Outcome(ObjectName, Outcome, Option<Box<str>>),
    /// The timer of the dry-run comparison has fired.
    Look,
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
}

/// Messages that the writer receives.
#[derive(Debug)]
pub enum WriterMsg {
    /// Reports from shards wait in the handle. At most one of these is in the mailbox.
    Wake,
    /// The server's answer to a request.
    Done(ObjectKey, Answer),
    /// A timer has fired.
    Tick,
    /// The role of this process. Until the first one arrives, the writer assumes that it may write.
    Role(Role),
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
    /// Stop sending new requests, and reply once none is in flight.
    Drain(RpcReplyPort<()>),
}

/// Messages that the actor that writes Events receives.
#[derive(Debug)]
pub enum EventMsg {
    /// Notices wait in the handle's map. At most one of these is in the mailbox.
    Wake,
    /// The server's answer to a request.
    Done(Arc<Key>, EventAnswer),
    /// A timer has fired.
    Tick,
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
    /// The role of this process. Until the first one arrives, the actor assumes that it may write.
    Role(Role),
}

/// Messages that the root receives.
#[derive(Debug)]
pub enum RootMsg {
    /// A shard is empty as of this delivery to its inbox.
    Idle {
        /// The shard's namespace.
        namespace: Arc<str>,
        /// Its inbox, which distinguishes it from a shard that has replaced it since.
        inbox: Arc<Inbox>,
        /// The number of the delivery.
        sequence: u64,
    },
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
}

/// How many objects the writer takes from the reports at once. The rest waits for its next turn, so that a namespace
/// with a hundred thousand objects does not delay answers and grants.
const TAKEN_AT_ONCE: usize = 256;

/// Sends messages to the writer. All clones share one mailbox.
#[derive(Clone, Debug, Default)]
pub struct WriterHandle(Arc<WriterShared>);

#[derive(Debug)]
struct WriterShared {
    mailbox: Mutex<ReportBox>,
    actor: OnceLock<ActorRef<WriterMsg>>,
    /// Origin of the times of reports and of the publisher.
    start: Instant,
}

#[derive(Debug, Default)]
struct ReportBox {
    reports: Reports,
    /// Set while a [`WriterMsg::Wake`] is in the mailbox.
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
    /// Queues a shard's reports about objects of its namespace, in this order. `noticed` is when the changes behind the
    /// work items were noticed.
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

    /// Sends a message to the writer. It is dropped before the writer has started and after it has stopped.
    pub fn send(&self, message: WriterMsg) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(message);
        }
    }

    /// Registers the writer. Fails when one is registered already.
    pub(super) fn set(&self, actor: ActorRef<WriterMsg>) -> Result<(), &'static str> {
        let set = self.0.actor.set(actor);
        set.map_err(|_| "the writer was started twice")
    }

    /// Returns the current time on the clock of reports and of the publisher.
    pub(super) fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0.start)
    }

    /// Takes the next reports. Returns true when some are left, and the writer has to be woken again.
    pub(super) fn take(&self) -> (Vec<(ObjectKey, Reported)>, bool) {
        let mut mailbox = self.0.mailbox.lock();
        let taken = std::iter::from_fn(|| mailbox.reports.take())
            .take(TAKEN_AT_ONCE)
            .collect();
        mailbox.woken = !mailbox.reports.is_empty();
        (taken, mailbox.woken)
    }
}

/// Records notices for the actor that writes Events. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct EventHandle(Arc<EventShared>);

#[derive(Debug, Default)]
struct EventShared {
    inbox: Mutex<Notices>,
    /// Set while a wake-up is in the mailbox.
    woken: AtomicBool,
    actor: OnceLock<ActorRef<EventMsg>>,
}

impl EventHandle {
    /// Records a notice. This never blocks, and costs one map look-up.
    pub fn record(&self, notice: Notice) {
        self.0.inbox.lock().record(notice);
        // An actor that has not started yet takes the inbox when it starts.
        let Some(actor) = self.0.actor.get() else {
            return;
        };
        if !self.0.woken.swap(true, Ordering::AcqRel) {
            let _ = actor.cast(EventMsg::Wake);
        }
    }

    /// Sends a message to the actor. It is dropped before the actor has started and after it has stopped.
    pub fn send(&self, message: EventMsg) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(message);
        }
    }

    /// Registers the actor. Fails when one is registered already.
    pub(super) fn set(&self, actor: ActorRef<EventMsg>) -> Result<(), &'static str> {
        let set = self.0.actor.set(actor);
        set.map_err(|_| "the writer of Events was started twice")
    }

    /// Takes the pending notices, and the number of those dropped because the inbox was full.
    pub(super) fn take(&self) -> (Vec<Pending>, u64) {
        // Notices recorded from here on wake the actor again.
        self.0.woken.store(false, Ordering::Release);
        self.0.inbox.lock().take()
    }
}
