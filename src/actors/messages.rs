//! Messages between the actors, and the handles that reach the writer and the actor that writes Events.

use super::handle::Handle;
use super::inbox::Inbox;
use crate::cluster::events::EventAnswer;
use crate::cluster::objects::Answer;
use crate::core::events::{Key, Notice, NoticeInbox, TakenNotices};
use crate::core::hash::Hashed;
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectKey, ObjectName};
use crate::core::publish::reports::{Report, Reports, Taken};
use crate::core::publish::signals::{Signal, Signals};
use crate::core::leadership::role::Role;
use parking_lot::{Mutex, MutexGuard};
use ractor::RpcReplyPort;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Messages that a shard receives.
#[derive(Debug)]
pub enum ShardMsg {
    /// Changes wait in the inbox. At most one of these is in the mailbox.
    Wake,
    /// The writer is ready to send a request for each of these objects, at most `GRANTED_AT_ONCE`.
    Grant(SmallVec<[ObjectName; 2]>),
    /// The outcome of this object's request, and the server's message if it refused the request.
    Outcome(ObjectName, Outcome, Option<Box<str>>),
    /// The timer of the dry-run comparison has fired.
    Look,
    /// The time of a Lease, or of a slice that gives way, may have run out.
    Due,
    /// It is time to look for pods on nodes that do not exist.
    NodesDue,
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
}

/// Messages that the writer receives.
#[derive(Debug)]
pub enum WriterMsg {
    /// Reports from shards, or a change of role, wait in the handle. At most one of these is in the mailbox.
    Wake,
    /// The server's answer to a request.
    Done(Hashed<ObjectKey>, Answer),
    /// A timer has fired.
    Tick,
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
    /// Stop sending new requests, and reply once none is in flight.
    Drain(RpcReplyPort<()>),
}

/// Messages that the actor that writes Events receives.
#[derive(Debug)]
pub enum EventMsg {
    /// Notices, or a change of role, wait in the handle's map. At most one of these is in the mailbox.
    Wake,
    /// The server's answer to a request.
    Done(Arc<Key>, EventAnswer),
    /// A timer has fired.
    Tick,
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
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

/// How many objects of a namespace are granted with one message. The bodies of all are built before the first is sent.
pub(super) const GRANTED_AT_ONCE: usize = 4;

/// How many reports the writer takes at once. The rest waits for its next turn, so that a namespace
/// with a hundred thousand objects does not delay answers and grants.
const TAKEN_AT_ONCE: usize = 256;

/// Sends messages to the writer. Its clock is that of reports and of the publisher.
pub type WriterHandle = Handle<WriterMsg, Mutex<ReportBox>>;

/// Holds reports and signals until the writer takes them.
#[derive(Debug, Default)]
pub struct ReportBox {
    reports: Reports,
    signals: Signals,
    /// True while the writer can go on as soon as an echo comes.
    awaits_echo: bool,
    /// Set while a [`WriterMsg::Wake`] is in the mailbox.
    woken: bool,
}

impl WriterHandle {
    /// Queues a shard's reports about objects of its namespace, in this order. `noticed` is when the changes behind the
    /// work items were noticed.
    pub fn report(&self, namespace: &Hashed<Arc<str>>, said: Vec<(ObjectName, Report)>, noticed: Instant) {
        let noticed = self.at(noticed);
        let mut mailbox = self.lock();
        for (object, report) in said {
            mailbox.reports.push(namespace, object, report, noticed);
        }
        self.wake(mailbox);
    }

    /// Changes the role of this process; until the first call, the writer assumes that it may write. Must be called
    /// before the shards hear of the change, so that the writer applies it before it takes what they report.
    pub fn change_role(&self, role: Role) {
        let mut mailbox = self.lock();
        mailbox.reports.change_role(role);
        self.wake(mailbox);
    }

    /// Hands on what our own watches have shown. The writer is woken only if it waits for that, or if the number of nodes
    /// has changed: otherwise it takes the signals when something else wakes it.
    pub fn signal(&self, signals: impl IntoIterator<Item = Signal>) {
        let mut mailbox = self.lock();
        for signal in signals {
            mailbox.signals.push(signal);
        }
        self.wake(mailbox);
    }

    /// Takes the signals.
    pub(super) fn take_signals(&self) -> Vec<Signal> {
        self.lock().signals.take()
    }

    /// Sets whether a signal wakes the writer. Returns whether there is one already.
    pub(super) fn await_echoes(&self, awaits: bool) -> bool {
        let mut mailbox = self.lock();
        mailbox.awaits_echo = awaits;
        awaits && !mailbox.signals.is_empty()
    }

    /// Wakes the writer if something waits and it has not been woken yet.
    fn wake(&self, mut mailbox: MutexGuard<'_, ReportBox>) {
        let signalled = if mailbox.awaits_echo {
            !mailbox.signals.is_empty()
        } else {
            mailbox.signals.has_nodes()
        };
        let waits = signalled || !mailbox.reports.is_empty();
        let wake = waits && !std::mem::replace(&mut mailbox.woken, true);
        drop(mailbox);
        if wake {
            self.send(WriterMsg::Wake);
        }
    }

    /// Takes what comes next. Returns true when something is left, and the writer has to be woken again.
    pub(super) fn take(&self, taken: &mut Vec<Taken>) -> bool {
        let mut mailbox = self.lock();
        taken.extend(std::iter::from_fn(|| mailbox.reports.take()).take(TAKEN_AT_ONCE));
        mailbox.woken = !mailbox.reports.is_empty();
        mailbox.woken
    }
}

/// Records notices for the actor that writes Events.
pub type EventHandle = Handle<EventMsg, NoticeBox>;

/// Holds notices until the actor that writes Events takes them.
#[derive(Debug, Default)]
pub struct NoticeBox {
    inbox: Mutex<NoticeInbox>,
    /// Set while a wake-up is in the mailbox.
    woken: AtomicBool,
}

impl EventHandle {
    /// Records a notice. This never blocks, and costs one map look-up.
    pub fn record(&self, notice: Notice) {
        self.inbox.lock().record(notice);
        self.wake();
    }

    /// Changes the role of this process; until the first call, the actor assumes that it may write. Must be called
    /// before the shards hear of the change.
    pub fn change_role(&self, role: Role) {
        self.inbox.lock().change_role(role);
        self.wake();
    }

    /// Counts notices that were left out before they could be recorded.
    pub fn leave_out(&self, notices: u64) {
        self.inbox.lock().leave_out(notices);
        self.wake();
    }

    fn wake(&self) {
        // An actor that has not started yet takes the inbox when it starts.
        if self.has_started() && !self.woken.swap(true, Ordering::AcqRel) {
            self.send(EventMsg::Wake);
        }
    }

    /// Takes what has come.
    pub(super) fn take(&self) -> TakenNotices {
        // Notices recorded from here on wake the actor again.
        self.woken.store(false, Ordering::Release);
        self.inbox.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::Output;
    use std::time::Duration;

    #[test]
    fn a_signal_wakes_a_writer_that_waits_for_it() {
        let shown = || Signal::Shown {
            output: Output::Slice,
            version: 7,
            at: Duration::ZERO,
        };
        let woken = |handle: &WriterHandle| handle.lock().woken;
        let handle = WriterHandle::default();
        handle.signal([shown()]);
        assert!(
            !woken(&handle),
            "it takes the signal when something else wakes it"
        );
        handle.signal([Signal::Nodes(3)]);
        assert!(
            woken(&handle),
            "another number of nodes moves the budget that it may wait for"
        );

        let handle = WriterHandle::default();
        assert!(!handle.await_echoes(true));
        handle.signal([shown()]);
        assert!(woken(&handle));
        assert_eq!(handle.take_signals().len(), 1);
    }
}
