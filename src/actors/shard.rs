//! The shard: one actor per namespace, owner of the namespace's state.

use super::deviations::{Comparison, Ledger};
use super::events::EventHandle;
use super::root::RootMsg;
use super::writer::WriterHandle;
use crate::core::inbox::{Event, Pending};
use crate::core::namespace::{Holds, NamespaceState, Outcome, Remark, Settings};
use crate::core::nodes::{NodeDirectory, NodeTable, NodeView, ZoneView};
use crate::core::object::ObjectName;
use crate::core::publish::reports::{Reply, Report};
use crate::core::work::Budget;
use crate::ops::metrics::{ShardMetrics, ShardPart};
use crate::tenant_log;
use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

/// How much a shard does before others get their turn: some milliseconds. Its own messages wait until it is done with
/// the present one.
const TURN: u64 = 10_000;
/// A request takes a unit for so many bytes of its body, beside what is counted when it is built.
const BYTES: usize = 32;

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

/// Where events wait for a shard. Filled by the ingest tasks, emptied by the shard.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<InboxState>,
    /// The last delivery that the shard is done with.
    applied: AtomicU64,
    /// How many grants and outcomes are in the shard's mailbox. Changed by the router within the shard's entry, and by
    /// the shard when it has replied.
    told: AtomicU64,
    /// Whether the shard had nothing left after its last message.
    empty: AtomicBool,
    /// When the shard last began a turn of what it is at.
    turned: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct InboxState {
    pending: Pending,
    /// How many deliveries there have been: a shard may only be retired at the number that it has seen.
    sequence: u64,
    /// When the shard was told that something waits, if it has not looked since.
    woken: Option<Instant>,
}

impl Inbox {
    /// Adds events. True when the shard must be woken.
    pub fn deliver(&self, events: impl Iterator<Item = Event>) -> bool {
        let mut state = self.state.lock();
        for event in events {
            state.pending.push(event);
        }
        state.sequence += 1;
        let wake = state.woken.is_none();
        if wake {
            state.woken = Some(Instant::now());
        }
        wake
    }

    /// What waits, the number of the last delivery, and since when something has waited.
    fn take(&self) -> (Pending, u64, Option<Instant>) {
        let mut state = self.state.lock();
        let woken = state.woken.take();
        (std::mem::take(&mut state.pending), state.sequence, woken)
    }

    /// How long something has waited here while the shard did nothing.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let woken = self.state.lock().woken?;
        Some(now.saturating_duration_since(woken.max(self.turned().unwrap_or(woken))))
    }

    /// When the shard last began a turn, if it has.
    pub fn turned(&self) -> Option<Instant> {
        *self.turned.lock()
    }

    fn turns(&self) {
        *self.turned.lock() = Some(Instant::now());
    }

    /// The number of the last delivery, if the shard is not done with it.
    pub fn unapplied(&self) -> Option<u64> {
        let sequence = self.state.lock().sequence;
        (!self.has_applied(sequence)).then_some(sequence)
    }

    /// Whether the shard is done with a delivery, and so with all before it.
    pub fn has_applied(&self, sequence: u64) -> bool {
        self.applied.load(Ordering::Acquire) >= sequence
    }

    /// Whether the shard has nothing left, nothing came since the delivery with this number, and no grant or outcome
    /// is still to be replied to. A shard that replied to one after another was made in its place would speak for
    /// objects of the other.
    pub fn is_idle_since(&self, sequence: u64) -> bool {
        let state = self.state.lock();
        let told = self.told.load(Ordering::Acquire);
        state.pending.is_empty()
            && state.sequence == sequence
            && told == 0
            && self.empty.load(Ordering::Acquire)
    }

    /// A grant or an outcome is put into the shard's mailbox.
    pub(super) fn tell(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
    }

    /// The shard has replied to a grant or an outcome.
    fn replied(&self) {
        self.told.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The cluster's nodes, shared by all shards.
#[derive(Clone, Debug, Default)]
pub struct SharedNodes(pub Arc<Mutex<NodeTable>>);

impl NodeDirectory for SharedNodes {
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> Arc<NodeView> {
        self.0.lock().look_up(node, namespace)
    }

    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView {
        self.0.lock().zones(namespace)
    }

    fn forget_zones(&mut self, namespace: &str) {
        self.0.lock().forget_zones(namespace);
    }

    fn forget(&mut self, node: &str, namespace: &str) {
        self.0.lock().forget(node, namespace);
    }
}

/// What a shard is made with.
#[derive(Debug)]
pub struct ShardArguments {
    /// The namespace's name.
    pub namespace: Arc<str>,
    /// The process's settings.
    pub settings: Settings,
    /// The lists that are still to come.
    pub holds: Holds,
    /// Where its events wait.
    pub inbox: Arc<Inbox>,
    /// The cluster's nodes.
    pub nodes: SharedNodes,
    /// Where its wants go.
    pub writer: WriterHandle,
    /// Whom it tells when it is empty.
    pub root: ActorRef<RootMsg>,
    /// Where its Events go.
    pub events: EventHandle,
    /// In a dry run: what would be written goes there, and nowhere else.
    pub ledger: Option<Ledger>,
    /// What all shards count.
    pub metrics: Arc<ShardMetrics>,
}

/// What a shard owns.
#[derive(Debug)]
pub struct ShardState {
    core: NamespaceState,
    /// What is left of the turn, in which several grants and answers may be handled.
    turn: Budget,
    inbox: Arc<Inbox>,
    sequence: u64,
    nodes: SharedNodes,
    writer: WriterHandle,
    root: ActorRef<RootMsg>,
    events: EventHandle,
    /// Of a dry run.
    comparison: Option<Comparison>,
    part: ShardPart,
}

impl ShardState {
    /// Lets others have their turn.
    async fn give_way(&mut self) {
        yield_now().await;
        self.turn = Budget::new(TURN);
        self.inbox.turns();
    }

    fn pass_on(&self, remark: Remark) {
        match remark {
            // They are written by whoever writes the rest.
            Remark::Event(_) if self.comparison.is_some() => {}
            Remark::Event(notice) => self.events.record(notice),
            Remark::TooLarge { object, bytes, why } => {
                let namespace = self.core.namespace();
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, kind = %object.output, name = %object.name, bytes, %why,
                        "the object is too large for the API server; it is tried again slowly, without another word");
                }
            }
            Remark::IgnoredAnnotation {
                service,
                annotation,
                value,
            } => {
                let namespace = self.core.namespace();
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, %service, annotation, %value, "the annotation is no boolean and is ignored");
                }
            }
        }
    }
}

/// The shard's behaviour.
#[derive(Debug)]
pub struct Shard;

impl Actor for Shard {
    type Msg = ShardMsg;
    type State = ShardState;
    type Arguments = ShardArguments;

    async fn pre_start(
        &self,
        _: ActorRef<ShardMsg>,
        arguments: ShardArguments,
    ) -> Result<ShardState, ActorProcessingErr> {
        let ShardArguments {
            namespace,
            settings,
            holds,
            inbox,
            nodes,
            writer,
            root,
            events,
            ledger,
            metrics,
        } = arguments;
        let core = match ledger {
            None => NamespaceState::new(namespace, settings, holds),
            Some(_) => NamespaceState::comparing(namespace, settings, holds),
        };
        Ok(ShardState {
            core,
            turn: Budget::new(TURN),
            inbox,
            sequence: 0,
            nodes,
            writer,
            root,
            events,
            comparison: ledger.map(Comparison::new),
            part: ShardPart::new(metrics),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ShardMsg>,
        message: ShardMsg,
        state: &mut ShardState,
    ) -> Result<(), ActorProcessingErr> {
        let (mut said, mut noticed) = (Vec::new(), None);
        let replies = matches!(message, ShardMsg::Grant(_) | ShardMsg::Outcome(..));
        let before = state.core.work().total();
        match message {
            ShardMsg::Wake => {
                let (pending, sequence, woken) = state.inbox.take();
                (state.sequence, noticed) = (sequence, woken);
                let mut applying = pending.begin();
                state.turn = Budget::new(TURN);
                state.inbox.turns();
                while !applying.step(&mut state.core, &mut state.nodes, &mut state.turn) {
                    state.give_way().await;
                }
            }
            ShardMsg::Ping(answer) => {
                let _ = answer.send(());
            }
            ShardMsg::Grant(object) => {
                let reply = state.core.reply_to_grant(&object);
                if let Report::Replied(Reply::Built(granted)) = &reply {
                    state.turn.spend((granted.request.size() / BYTES) as u64);
                }
                said.push((object, reply));
            }
            ShardMsg::Outcome(object, outcome, why) => {
                let reply = state.core.reply_to_outcome(&object, outcome, why.as_deref());
                said.push((object, reply));
            }
            ShardMsg::Look => {
                if let Some(comparison) = &mut state.comparison {
                    comparison.look(&mut state.core);
                }
            }
        }
        if let Some(comparison) = &mut state.comparison
            && let Some(delay) = comparison.arm(&state.core)
        {
            // Its handle is not kept: a look that comes too early does nothing.
            drop(myself.send_after(delay, || ShardMsg::Look));
        }
        if replies {
            state.turn.spend(state.core.work().total() - before);
        }
        let noticed = noticed.unwrap_or_else(Instant::now);
        let mut wants = Vec::new();
        state.inbox.turns();
        loop {
            let planned = state.core.step_plan(&mut wants, &mut state.turn);
            let wanted = wants.drain(..);
            said.extend(wanted.map(|want| (want.object.clone(), Report::Wanted(want))));
            if !said.is_empty() {
                let said = std::mem::take(&mut said);
                state.writer.report(state.core.namespace(), said, noticed);
            }
            if planned {
                break;
            }
            state.give_way().await;
        }
        for remark in state.core.take_remarks() {
            state.pass_on(remark);
        }
        state.part.update(&mut state.core);
        state.inbox.applied.store(state.sequence, Ordering::Release);
        let empty = state.core.is_empty() && state.comparison.as_ref().is_none_or(Comparison::is_empty);
        state.inbox.empty.store(empty, Ordering::Release);
        if replies {
            state.inbox.replied();
        }
        if empty {
            let namespace = state.core.namespace().clone();
            // The root is gone only when everything goes.
            let _ = state.root.cast(RootMsg::Idle {
                namespace,
                inbox: state.inbox.clone(),
                sequence: state.sequence,
            });
        }
        if state.turn.is_spent() {
            // Requests can be large, and the runtime hands over a hundred messages before it looks at other actors.
            state.give_way().await;
        }
        Ok(())
    }
}
