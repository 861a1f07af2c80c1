//! The shard: one actor per namespace, owner of the namespace's state.

use super::deviations::{Comparison, Ledger};
use super::inbox::Inbox;
use super::messages::{EventHandle, RootMsg, ShardMsg, WriterHandle};
use super::shared_nodes::SharedNodes;
use crate::core::namespace::{Holds, NamespaceState, Remark, Settings};
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
        state.inbox.applied(state.sequence);
        let empty = state.core.is_empty() && state.comparison.as_ref().is_none_or(Comparison::is_empty);
        state.inbox.set_empty(empty);
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
