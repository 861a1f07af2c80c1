//! The shard: one actor per namespace, which owns the namespace's state.

use super::drift::{DriftTracker, ShardDryRun};
use super::events::EventHandle;
use super::inbox::Inbox;
use super::messages::{RootMsg, ShardMsg, WriterHandle};
use super::shared_nodes::SharedNodes;
use crate::clock;
use crate::cluster::codec::Protobuf;
use crate::core::hash::Hashed;
use crate::core::inbox::Applying;
use crate::core::namespace::{NamespaceState, PendingLists, Settings};
use crate::core::object::ObjectName;
use crate::core::publish::reports::Report;
use crate::core::work::TurnBudget;
use crate::metrics::{ShardMetrics, ShardPart};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::Instant;

/// The interval at which pods on nodes that do not exist are looked for. After eight looks, two minutes, a node is
/// reported. When a node has been deleted, kube-controller-manager (1.36) deletes its pods: it waits for 40 to 60 seconds, and
/// then deletes one pod after another. Users need not be told of those.
const NODE_INTERVAL: Duration = Duration::from_secs(15);

/// Arguments for starting a shard.
#[derive(Debug)]
pub(crate) struct ShardArguments {
    /// The namespace's name.
    pub namespace: Arc<str>,
    /// The settings of the process.
    pub settings: Settings,
    /// The pending lists.
    pub pending_lists: PendingLists,
    /// Queues changes until the shard takes them.
    pub inbox: Arc<Inbox>,
    /// The cluster's nodes.
    pub nodes: SharedNodes,
    /// Receives its work items.
    pub writer: WriterHandle,
    /// Notified when the shard is empty.
    pub root: ActorRef<RootMsg>,
    /// Receives its notices.
    pub events: EventHandle,
    /// In a dry run, receives the writes that the shard would make, in place of the writer.
    pub drift: Option<DriftTracker>,
    /// Metrics shared by all shards.
    pub metrics: Arc<ShardMetrics>,
}

/// The state of a shard.
#[derive(Debug)]
pub(crate) struct ShardState {
    core: NamespaceState,
    /// The namespace's name, as reports carry it.
    namespace: Hashed<Arc<str>>,
    /// The remaining budget of the turn. One turn may handle several grants and answers; messages in the mailbox wait until the
    /// current one is done.
    turn: TurnBudget,
    inbox: Arc<Inbox>,
    sequence: u64,
    nodes: SharedNodes,
    writer: WriterHandle,
    root: ActorRef<RootMsg>,
    events: EventHandle,
    /// When the next [`ShardMsg::Due`] comes, and the task that sends it.
    timer: Option<(Duration, AbortHandle)>,
    /// True if a [`ShardMsg::NodesDue`] is under way.
    looks_at_nodes: bool,
    /// Set in a dry run.
    dry_run: Option<ShardDryRun>,
    part: ShardPart,
}

impl ShardState {
    /// Makes the visits that are left, over as many turns as they take.
    async fn finish_passes(&mut self) {
        while !self.core.step_passes(&mut self.turn) {
            self.yield_turn().await;
        }
    }

    /// Gives users the notices of this turn, yields to other tasks, and begins a new turn.
    async fn yield_turn(&mut self) {
        self.tell();
        yield_now().await;
        self.turn = TurnBudget::for_a_turn();
        self.inbox.turns(Instant::now());
    }

    /// Gives users the notices that wait.
    fn tell(&mut self) {
        for notice in self.core.take_notices() {
            self.events.record(notice);
        }
        self.events.leave_out(self.core.take_dropped_notices());
    }

    /// Takes the changes from the inbox and applies them as far as one turn goes. Returns the changes that are left, if any, and
    /// when the first of all was noticed.
    ///
    /// This is no `async` function, and what is left is boxed, so that the future of a message's handler stays small. The future
    /// has room for all that the handler ever holds across a pause, and the runtime moves it several times before it is polled.
    /// Changes are large, and few wake-ups have more than one turn.
    fn begin_changes(&mut self) -> (Option<Box<Applying>>, Option<Instant>) {
        let (mut pending, sequence, woken) = self.inbox.take();
        if let Some(dry_run) = &mut self.dry_run {
            dry_run.take(&mut pending, &self.core);
        }
        self.sequence = sequence;
        let mut applying = pending.begin();
        self.turn = TurnBudget::for_a_turn();
        let applied = applying.step(&mut self.core, &mut self.nodes, &mut self.turn);
        ((!applied).then(|| Box::new(applying)), woken)
    }

    /// Applies the changes that are left, over as many turns as they take.
    async fn finish_changes(&mut self, mut rest: Box<Applying>) {
        loop {
            self.yield_turn().await;
            if rest.step(&mut self.core, &mut self.nodes, &mut self.turn) {
                return;
            }
        }
    }

    /// Handles a message that came at this time, except for planning. Returns the reports for the writer, and when the changes
    /// behind the coming plan were noticed.
    async fn take(
        &mut self,
        message: ShardMsg,
        began: Instant,
    ) -> (Vec<(Hashed<ObjectName>, Report)>, Option<Instant>) {
        self.core.advance(self.writer.at(began));
        match message {
            ShardMsg::Wake => {
                let (rest, woken) = self.begin_changes();
                if let Some(rest) = rest {
                    self.finish_changes(rest).await;
                }
                return (Vec::new(), woken);
            }
            ShardMsg::Grant(objects) => {
                let mut replies = Vec::with_capacity(objects.len());
                for object in &objects {
                    if self.turn.is_spent() {
                        // Each may be a megabyte.
                        self.yield_turn().await;
                    }
                    let before = self.core.work().total();
                    let reply = Report::to_grant(self.core.build_request(object, &mut Protobuf));
                    self.turn.spend(self.core.work().total() - before);
                    replies.push((object.clone(), reply));
                }
                return (replies, None);
            }
            ShardMsg::Outcome(object, outcome, why) => {
                let before = self.core.work().total();
                let reply = Report::to_outcome(self.core.apply_outcome(&object, outcome, why.as_deref()));
                self.turn.spend(self.core.work().total() - before);
                return (vec![(object, reply)], None);
            }
            ShardMsg::Look => {
                if let Some(dry_run) = &mut self.dry_run {
                    dry_run.look(&mut self.core);
                }
            }
            ShardMsg::Due => {
                self.timer = None;
                let now = self.writer.now();
                let mut before = self.core.work().total();
                while self.core.look_at_one(now) {
                    self.turn.spend(1 + self.core.work().total() - before);
                    self.finish_passes().await;
                    before = self.core.work().total();
                    if self.turn.is_spent() {
                        self.yield_turn().await;
                    }
                }
            }
            ShardMsg::NodesDue => {
                self.looks_at_nodes = false;
                self.core.begin_look_at_unknown_nodes();
                self.finish_passes().await;
            }
            ShardMsg::Ping(answer) => {
                let _ = answer.send(());
            }
        }
        (Vec::new(), None)
    }

    /// Plans, yielding between turns, and sends the reports to the writer in this order.
    async fn plan(&mut self, mut said: Vec<(Hashed<ObjectName>, Report)>, noticed: Instant) {
        let mut wants = Vec::new();
        loop {
            let planned = self.core.step_plan(&mut wants, &mut self.turn);
            let wanted = wants.drain(..);
            said.extend(wanted.map(|want| (Hashed::new(want.object.clone()), Report::Wanted(want))));
            if !said.is_empty() {
                let said = std::mem::take(&mut said);
                self.writer.report(&self.namespace, said, noticed);
            }
            if planned {
                return;
            }
            self.yield_turn().await;
        }
    }

    /// Sets a timer for when something is due.
    fn await_due(&mut self, myself: &ActorRef<ShardMsg>) {
        let Some(due) = self.core.next_look() else {
            return;
        };
        let now = self.writer.now();
        let due = due.max(now);
        if self.timer.as_ref().is_some_and(|(armed, _)| *armed <= due) {
            return;
        }
        let timer = myself
            .send_after(due.saturating_sub(now), || ShardMsg::Due)
            .abort_handle();
        if let Some((_, earlier)) = self.timer.replace((due, timer)) {
            earlier.abort();
        }
    }

    /// Sets a timer while pods are on nodes that do not exist.
    fn await_nodes(&mut self, myself: &ActorRef<ShardMsg>) {
        if self.core.has_unknown_nodes() && !self.looks_at_nodes {
            self.looks_at_nodes = true;
            drop(myself.send_after(NODE_INTERVAL, || ShardMsg::NodesDue));
        }
    }

    /// Finishes handling a message: publishes how far the shard has applied its inbox, and tells the root when the shard is
    /// empty.
    fn finish(&mut self, replied: bool, began: Instant) {
        let took = clock::since(began);
        self.part.update(&mut self.core, took);
        self.inbox.applied(self.sequence);
        let empty = self.core.is_empty() && self.dry_run.as_ref().is_none_or(ShardDryRun::is_empty);
        self.inbox.set_empty(empty);
        if replied {
            self.inbox.replied();
        }
        if empty {
            // The root stops only when the process shuts down.
            let _ = self.root.cast(RootMsg::Idle {
                namespace: self.core.namespace().clone(),
                inbox: self.inbox.clone(),
                sequence: self.sequence,
            });
        }
    }
}

/// The shard actor.
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
            drift,
            metrics,
        } = arguments;
        let dry_run = drift.map(|drift| ShardDryRun::new(drift, events.log().clone()));
        Ok(ShardState {
            core: NamespaceState::new(namespace.clone(), settings, pending_lists),
            namespace: Hashed::new(namespace),
            turn: TurnBudget::for_a_turn(),
            inbox,
            sequence: 0,
            nodes,
            writer,
            root,
            events,
            timer: None,
            looks_at_nodes: false,
            dry_run,
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
        let began = Instant::now();
        state.inbox.turns(began);
        let (said, noticed) = state.take(message, began).await;
        if let Some(dry_run) = &mut state.dry_run
            && let Some(delay) = dry_run.arm(&state.core)
        {
            // The timer's handle is dropped: a look that comes too early does nothing.
            drop(myself.send_after(delay, || ShardMsg::Look));
        }
        if state.dry_run.is_none() {
            state.plan(said, noticed.unwrap_or(began)).await;
        }
        state.await_due(&myself);
        state.await_nodes(&myself);
        state.tell();
        state.finish(replies, began);
        if state.turn.is_spent() {
            // Requests can be large, and the runtime runs an actor for a hundred messages before it polls others.
            state.yield_turn().await;
        }
        Ok(())
    }
}
