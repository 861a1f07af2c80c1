//! The shard: one actor per namespace, owner of the namespace's state.

use super::drift::{Comparison, DriftTracker};
use super::inbox::Inbox;
use super::messages::{EventHandle, RootMsg, ShardMsg, WriterHandle};
use super::shared_nodes::SharedNodes;
use crate::core::namespace::{NamespaceState, Notification, PendingLists, Settings};
use crate::core::object::ObjectName;
use crate::core::publish::reports::{Reply, Report};
use crate::core::work::Budget;
use crate::metrics::{ShardMetrics, ShardPart};
use crate::tenant_log;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use tokio::task::yield_now;
use tokio::time::Instant;

/// How much a shard does before others get their turn: some milliseconds. Its own messages wait until it is done with
/// the present one.
const TURN: u64 = 10_000;
/// A request takes a unit for so many bytes of its body, beside what is counted when it is built.
const BYTES: usize = 32;

/// What a shard is made with.
#[derive(Debug)]
pub(crate) struct ShardArguments {
    /// The namespace's name.
    pub namespace: Arc<str>,
    /// The process's settings.
    pub settings: Settings,
    /// The lists that are still to come.
    pub pending_lists: PendingLists,
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
    pub ledger: Option<DriftTracker>,
    /// What all shards count.
    pub metrics: Arc<ShardMetrics>,
}

/// What a shard owns.
#[derive(Debug)]
pub(crate) struct ShardState {
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

    /// Does what a message says, but for plans. Returns what there is to say to the writer, and when it was noticed what
    /// plans will follow from.
    async fn take(&mut self, message: ShardMsg) -> (Vec<(ObjectName, Report)>, Option<Instant>) {
        match message {
            ShardMsg::Wake => {
                let (pending, sequence, woken) = self.inbox.take();
                self.sequence = sequence;
                let mut applying = pending.begin();
                self.turn = Budget::new(TURN);
                self.inbox.turns();
                while !applying.step(&mut self.core, &mut self.nodes, &mut self.turn) {
                    self.give_way().await;
                }
                return (Vec::new(), woken);
            }
            ShardMsg::Grant(object) => {
                let reply = self.core.reply_to_grant(&object);
                if let Report::Replied(Reply::Built(granted)) = &reply {
                    self.turn.spend((granted.request.size() / BYTES) as u64);
                }
                return (vec![(object, reply)], None);
            }
            ShardMsg::Outcome(object, outcome, why) => {
                let reply = self.core.reply_to_outcome(&object, outcome, why.as_deref());
                return (vec![(object, reply)], None);
            }
            ShardMsg::Look => {
                if let Some(comparison) = &mut self.comparison {
                    comparison.look(&mut self.core);
                }
            }
            ShardMsg::Ping(answer) => {
                let _ = answer.send(());
            }
        }
        (Vec::new(), None)
    }

    /// Plans, in turns, and says to the writer what there is to say, in this order.
    async fn plan(&mut self, mut said: Vec<(ObjectName, Report)>, noticed: Instant) {
        let mut wants = Vec::new();
        self.inbox.turns();
        loop {
            let planned = self.core.step_plan(&mut wants, &mut self.turn);
            let wanted = wants.drain(..);
            said.extend(wanted.map(|want| (want.object.clone(), Report::Wanted(want))));
            if !said.is_empty() {
                let said = std::mem::take(&mut said);
                self.writer.report(self.core.namespace(), said, noticed);
            }
            if planned {
                return;
            }
            self.give_way().await;
        }
    }

    /// Ends the handling of a message: what people should hear goes out, others see how far this shard is, and the root
    /// hears of it if nothing is left.
    fn finish(&mut self, replied: bool) {
        for remark in self.core.take_remarks() {
            self.pass_on(remark);
        }
        self.part.update(&mut self.core);
        self.inbox.applied(self.sequence);
        let empty = self.core.is_empty() && self.comparison.as_ref().is_none_or(Comparison::is_empty);
        self.inbox.set_empty(empty);
        if replied {
            self.inbox.replied();
        }
        if empty {
            // The root is gone only when everything goes.
            let _ = self.root.cast(RootMsg::Idle {
                namespace: self.core.namespace().clone(),
                inbox: self.inbox.clone(),
                sequence: self.sequence,
            });
        }
    }

    fn pass_on(&self, remark: Notification) {
        match remark {
            // They are written by whoever writes the rest.
            Notification::Event(_) if self.comparison.is_some() => {}
            Notification::Event(notice) => self.events.record(notice),
            Notification::TooLarge { object, bytes, why } => {
                let namespace = self.core.namespace();
                if tenant_log::admits(namespace) {
                    tracing::warn!(%namespace, kind = %object.output, name = %object.name, bytes, %why,
                        "the object is too large for the API server; it is tried again slowly, without another word");
                }
            }
            Notification::IgnoredAnnotation {
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
pub(crate) struct Shard;

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
            pending_lists,
            inbox,
            nodes,
            writer,
            root,
            events,
            ledger,
            metrics,
        } = arguments;
        let core = match ledger {
            None => NamespaceState::new(namespace, settings, pending_lists),
            Some(_) => NamespaceState::comparing(namespace, settings, pending_lists),
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
        let replies = matches!(message, ShardMsg::Grant(_) | ShardMsg::Outcome(..));
        let before = state.core.work().total();
        let (said, noticed) = state.take(message).await;
        if let Some(comparison) = &mut state.comparison
            && let Some(delay) = comparison.arm(&state.core)
        {
            // Its handle is not kept: a look that comes too early does nothing.
            drop(myself.send_after(delay, || ShardMsg::Look));
        }
        if replies {
            state.turn.spend(state.core.work().total() - before);
        }
        state.plan(said, noticed.unwrap_or_else(Instant::now)).await;
        state.finish(replies);
        if state.turn.is_spent() {
            // Requests can be large, and the runtime hands over a hundred messages before it looks at other actors.
            state.give_way().await;
        }
        Ok(())
    }
}
