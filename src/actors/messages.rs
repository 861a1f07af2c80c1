//! Messages between the actors, and the handle that reaches the writer.

use super::handle::Handle;
use super::inbox::Inbox;
use crate::cluster::objects::Answer;
use crate::core::hash::Hashed;
use crate::core::leadership::role::Role;
use crate::core::namespace::Outcome;
use crate::core::object::{ObjectKey, ObjectName};
use crate::core::publish::reports::{Report, Reports, Taken};
use crate::core::publish::signals::{Signal, Signals};
use parking_lot::{Mutex, MutexGuard};
use ractor::RpcReplyPort;
use smallvec::SmallVec;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Messages that a shard receives.
#[derive(Debug)]
pub enum ShardMsg {
    /// Changes wait in the inbox. At most one of these is in the mailbox.
    Wake,
    /// The writer is ready to send a request for each of these objects. There are at most `GRANTED_AT_ONCE`.
    Grant(SmallVec<[Hashed<ObjectName>; 2]>),
    /// The outcome of an object's request, and the server's message if the server refused it.
    Outcome(Hashed<ObjectName>, Outcome, Option<Box<str>>),
    /// The timer of a dry run has fired: it is time to compare again.
    Look,
    /// A timer has fired: a Service that is handed over, or an object, may have waited long enough.
    Due,
    /// It is time to look for pods on nodes that do not exist.
    NodesDue,
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
}

/// Messages that the writer receives.
#[derive(Debug)]
pub enum WriterMsg {
    /// Reports from shards, or a change of role, wait in the handle. At most one of these is in the mailbox. Reports that objects
    /// are settled wait for the next one, or for a [`WriterMsg::Ping`].
    Wake,
    /// The server's answer to a request.
    Done(Hashed<ObjectKey>, Answer),
    /// A timer has fired.
    Tick,
    /// A liveness check, or a scrape of the metrics: the actor brings them up to date, and answers it.
    Ping(oneshot::Sender<()>),
    /// Stop sending new requests, and reply once none is in flight.
    Drain(RpcReplyPort<()>),
}

/// Messages that the root receives.
#[derive(Debug)]
pub enum RootMsg {
    /// A shard had nothing left when it had applied a delivery to its inbox.
    Idle {
        /// The shard's namespace.
        namespace: Arc<str>,
        /// The shard's inbox, which distinguishes it from a shard that has replaced it since.
        inbox: Arc<Inbox>,
        /// The number of the delivery.
        sequence: u64,
    },
    /// A liveness check: the actor answers it.
    Ping(oneshot::Sender<()>),
}

/// How many objects of a namespace are granted with one message. The shard builds the bodies of all of them before the first is
/// sent, so more would delay the first.
pub(super) const GRANTED_AT_ONCE: usize = 4;

/// How many reports the writer takes at once. The others wait for its next turn, so that a namespace
/// with a hundred thousand objects does not delay answers and grants.
const TAKEN_AT_ONCE: usize = 256;

/// Reaches the writer. Times in reports, and those that the publisher is told, count from the handle's start.
pub type WriterHandle = Handle<WriterMsg, Mutex<ReportBox>>;

/// Holds reports and signals until the writer takes them.
#[derive(Debug, Default)]
pub struct ReportBox {
    reports: Reports,
    signals: Signals,
    /// True while an echo would let the writer go on.
    awaits_echo: bool,
    /// Set while a [`WriterMsg::Wake`] is in the mailbox.
    woken: bool,
}

impl WriterHandle {
    /// Queues a shard's reports about objects of its namespace, in this order. `noticed` is when the shard noticed the changes
    /// that made the objects due.
    pub fn report(
        &self,
        namespace: &Hashed<Arc<str>>,
        reports: Vec<(Hashed<ObjectName>, Report)>,
        noticed: Instant,
    ) {
        let noticed = self.at(noticed);
        let mut mailbox = self.lock();
        for (object, report) in reports {
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

    /// Passes on the signals of our own watches. They wake the writer only if it waits for an echo, or if the number of nodes
    /// has changed; otherwise it takes them when something else wakes it.
    pub fn signal(&self, signals: impl IntoIterator<Item = Signal>) {
        let mut mailbox = self.lock();
        for signal in signals {
            mailbox.signals.push(signal);
        }
        self.wake(mailbox);
    }

    /// Takes the signals that wait.
    pub(super) fn take_signals(&self) -> Vec<Signal> {
        self.lock().signals.take()
    }

    /// Sets whether a signal wakes the writer. Returns true if it should and one waits already.
    pub(super) fn await_echoes(&self, awaits: bool) -> bool {
        let mut mailbox = self.lock();
        mailbox.awaits_echo = awaits;
        awaits && !mailbox.signals.is_empty()
    }

    /// Wakes the writer if something waits that it has to act upon, and it has not been woken yet.
    fn wake(&self, mut mailbox: MutexGuard<'_, ReportBox>) {
        let signalled = if mailbox.awaits_echo {
            !mailbox.signals.is_empty()
        } else {
            mailbox.signals.has_nodes()
        };
        let waits = signalled || mailbox.reports.is_urgent();
        let wake = waits && !std::mem::replace(&mut mailbox.woken, true);
        drop(mailbox);
        if wake {
            self.send(WriterMsg::Wake);
        }
    }

    /// Takes the reports and changes of role that come next, for a [`WriterMsg::Wake`] or, if `woken` is false, for another message.
    /// Returns true if some are left and no [`WriterMsg::Wake`] is in the mailbox: then the writer has to be woken again.
    pub(super) fn take(&self, taken: &mut Vec<Taken>, woken: bool) -> bool {
        let mut mailbox = self.lock();
        mailbox.woken &= !woken;
        // Settled objects do not count: they take hardly any time, and until they are taken the figures show them as out of sync.
        let most = mailbox.reports.settled() + TAKEN_AT_ONCE;
        taken.extend(std::iter::from_fn(|| mailbox.reports.take()).take(most));
        mailbox.reports.is_urgent() && !std::mem::replace(&mut mailbox.woken, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::Output;
    use crate::core::publish::reports::Reply;
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

    #[test]
    fn settled_objects_wake_nobody_and_a_ping_leaves_wake_ups_where_they_are() {
        let handle = WriterHandle::default();
        let namespace = Hashed::new(Arc::from("ns"));
        let report = |name: usize, report: &Report| {
            let object = Hashed::new(ObjectName::slice(name.to_string().as_str().into()));
            handle.report(&namespace, vec![(object, report.clone())], Instant::now());
        };
        let (settled, nothing) = (Report::Replied(Reply::Settled), Report::Replied(Reply::Nothing));
        for name in 0..2 * TAKEN_AT_ONCE {
            report(name, &settled);
        }
        assert!(!handle.lock().woken);
        let mut taken = Vec::new();
        assert!(!handle.take(&mut taken, false));
        assert_eq!(
            taken.len(),
            2 * TAKEN_AT_ONCE,
            "a scrape shows none of them as due"
        );

        // One wake-up is in the mailbox, and a ping comes before it.
        for name in 0..=TAKEN_AT_ONCE {
            report(name, &nothing);
        }
        assert!(handle.lock().woken);
        assert!(!handle.take(&mut taken, false), "it has been sent");
        assert!(handle.lock().woken);
        assert!(!handle.take(&mut taken, true));
        assert!(!handle.lock().woken);
        assert_eq!(taken.len(), 3 * TAKEN_AT_ONCE + 1);

        // A ping that takes a part sends the wake-up for the rest.
        handle.lock().reports.push(
            &namespace,
            Hashed::new(ObjectName::slice("a".into())),
            nothing.clone(),
            Duration::ZERO,
        );
        for name in 0..TAKEN_AT_ONCE {
            let name = Hashed::new(ObjectName::slice(name.to_string().as_str().into()));
            handle
                .lock()
                .reports
                .push(&namespace, name, nothing.clone(), Duration::ZERO);
        }
        assert!(handle.take(&mut taken, false));
        assert!(handle.lock().woken);
    }
}
