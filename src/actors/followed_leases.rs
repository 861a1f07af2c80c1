//! Runs the watches and reads of Leases that shards ask for: one watch in each namespace where a Service follows a Lease,
//! and one of all namespaces where those are many.

use super::handle::Handle;
use crate::clock;
use crate::cluster::watch::{Everywhere, LeaseReader, Members};
use crate::core::followed_leases::lease::LeaseRequest;
use crate::core::followed_leases::reads::{LeaseRead, LeaseReads, ReadOutcome};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

/// When this many single namespaces have watches, one watch of all namespaces replaces these. Its cost to the API server is a
/// look at each renewal of a Lease in the cluster, except for those of nodes.
const MANY: usize = 64;
/// How long a watch of all namespaces is not tried again after one was refused.
const REFUSED: Duration = Duration::from_secs(3600);

/// Reaches the actor with the shards' requests about Leases. Times in reports about Leases count from the handle's start.
///
/// The mailbox needs no bound: a shard asks at most twice for each change of the set of Services that follow Leases, and has at
/// most one read of each Lease under way.
pub(crate) type LeaseHandle = Handle<LeaseMsg, ()>;

impl LeaseHandle {
    /// Passes on a request of a namespace's shard. The request is dropped if the actor has not started yet.
    pub(super) fn ask(&self, namespace: &Arc<str>, request: LeaseRequest) {
        self.send(LeaseMsg::Ask(namespace.clone(), request));
    }
}

/// Messages that the actor receives.
#[derive(Debug)]
pub(crate) enum LeaseMsg {
    /// A request of a namespace's shard.
    Ask(Arc<str>, LeaseRequest),
    /// The outcome of a read.
    Answered(LeaseRead, ReadOutcome),
    /// A timer has fired: it may be time for the next read.
    Tick,
    /// The watch of all namespaces with this number has begun, or was refused.
    Everywhere(u64, Everywhere),
    /// A task has panicked, with this error.
    Failed(String),
}

/// Arguments for starting the actor.
#[derive(Debug)]
pub(crate) struct LeaseArguments {
    /// The handle that the shards hold.
    pub(crate) handle: LeaseHandle,
    /// Sends the requests.
    pub(crate) reader: LeaseReader,
}

/// The state of the actor.
#[derive(Debug)]
pub(crate) struct LeaseState {
    handle: LeaseHandle,
    reader: LeaseReader,
    reads: LeaseReads,
    /// When the next [`LeaseMsg::Tick`] is due, if one is armed.
    tick: Option<Duration>,
    /// The namespaces in which Leases are followed, with the numbers of the requests.
    followed: HashMap<Arc<str>, u64>,
    /// The watches of single namespaces.
    watches: HashMap<Arc<str>, Running>,
    everywhere: Option<ClusterWatch>,
    /// Number of watches of all namespaces that were begun.
    begun: u64,
    /// When a watch of all namespaces was last refused.
    refused: Option<Instant>,
}

/// The watch of all namespaces.
#[derive(Debug)]
struct ClusterWatch {
    number: u64,
    members: Arc<Members>,
    _task: Running,
}

/// A task that ends when this is dropped.
#[derive(Debug)]
struct Running(tokio::task::AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Leases;

impl Actor for Leases {
    type Msg = LeaseMsg;
    type State = LeaseState;
    type Arguments = LeaseArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<LeaseMsg>,
        arguments: LeaseArguments,
    ) -> Result<LeaseState, ActorProcessingErr> {
        let LeaseArguments { handle, reader } = arguments;
        handle.set(myself)?;
        Ok(LeaseState {
            handle,
            reads: LeaseReads::new(reader.seed()),
            reader,
            tick: None,
            followed: HashMap::new(),
            watches: HashMap::new(),
            everywhere: None,
            begun: 0,
            refused: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<LeaseMsg>,
        message: LeaseMsg,
        state: &mut LeaseState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LeaseMsg::Ask(namespace, LeaseRequest::Follow(generation)) => {
                state.reads.forget(&namespace);
                state.follow(namespace, generation, &myself);
            }
            LeaseMsg::Ask(namespace, LeaseRequest::Leave) => {
                state.reads.forget(&namespace);
                state.leave(&namespace);
            }
            LeaseMsg::Ask(namespace, LeaseRequest::Read(generation, numbered)) => {
                let read = LeaseRead {
                    namespace,
                    generation,
                    numbered,
                };
                state.reads.want(read, state.handle.now());
                state.read(&myself);
            }
            LeaseMsg::Ask(namespace, LeaseRequest::Cancel(read)) => state.reads.cancel(&namespace, &read),
            LeaseMsg::Answered(read, outcome) => {
                let now = state.handle.now();
                state.reads.done(read, outcome, now);
                state.read(&myself);
            }
            LeaseMsg::Tick => {
                state.tick = None;
                state.read(&myself);
            }
            LeaseMsg::Everywhere(number, outcome) => state.handle_everywhere(number, outcome, &myself),
            // Without its watch, a Service would keep an outdated leader for ever.
            LeaseMsg::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl LeaseState {
    /// Sends the reads that may go now, and sets a timer for the next one.
    fn read(&mut self, actor: &ActorRef<LeaseMsg>) {
        let now = self.handle.now();
        loop {
            match self.reads.next(now) {
                Ok(read) => {
                    let (reader, told) = (self.reader.clone(), actor.clone());
                    let task = tokio::spawn(async move {
                        let outcome = reader.read(read.clone()).await;
                        let _ = told.cast(LeaseMsg::Answered(read, outcome));
                    });
                    report_panic(task, actor.clone());
                }
                Err(Some(at)) => {
                    if self.tick.is_none_or(|tick| tick > at) {
                        self.tick = Some(at);
                        // The timer's handle is dropped: it is not stopped. A tick that comes too early does nothing.
                        drop(actor.send_after(at.saturating_sub(now), || LeaseMsg::Tick));
                    }
                    return;
                }
                Err(None) => return,
            }
        }
    }

    /// Has the Leases of a namespace watched: by the watch of all namespaces if that still takes one in, else by a watch of
    /// its own.
    fn follow(&mut self, namespace: Arc<str>, generation: u64, actor: &ActorRef<LeaseMsg>) {
        self.leave(&namespace);
        self.followed.insert(namespace.clone(), generation);
        let reader = &self.reader;
        let joins = |shared: &ClusterWatch| reader.join(&shared.members, &namespace, generation);
        if self.everywhere.as_ref().is_some_and(joins) {
            return;
        }
        self.follow_alone(namespace, generation, actor);
        let refused = self.refused.is_some_and(|at| clock::since(at) < REFUSED);
        if self.watches.len() >= MANY && !refused {
            self.follow_everywhere(actor);
        }
    }

    /// Ends the watch of a namespace's Leases.
    fn leave(&mut self, namespace: &str) {
        self.followed.remove(namespace);
        self.watches.remove(namespace);
        if let Some(shared) = &self.everywhere {
            shared.members.leave(namespace);
        }
    }

    /// Starts a watch of a single namespace.
    fn follow_alone(&mut self, namespace: Arc<str>, generation: u64, actor: &ActorRef<LeaseMsg>) {
        let task = tokio::spawn(self.reader.clone().follow(namespace.clone(), generation));
        self.watches.insert(namespace, Running(task.abort_handle()));
        report_panic(task, actor.clone());
    }

    /// Starts a watch of all namespaces, and ends the one before it. Watches of single namespaces end once it has begun.
    fn follow_everywhere(&mut self, actor: &ActorRef<LeaseMsg>) {
        self.begun += 1;
        let (number, told) = (self.begun, actor.clone());
        let tell = move |outcome| {
            let _ = told.cast(LeaseMsg::Everywhere(number, outcome));
        };
        let members = Arc::new(Members::new(&self.followed));
        let following = self
            .reader
            .clone()
            .follow_everywhere(members.clone(), Box::new(tell));
        let task = tokio::spawn(following);
        self.everywhere = Some(ClusterWatch {
            number,
            members,
            _task: Running(task.abort_handle()),
        });
        report_panic(task, actor.clone());
    }

    /// Handles the beginning or the refusal of a watch of all namespaces.
    fn handle_everywhere(&mut self, number: u64, outcome: Everywhere, actor: &ActorRef<LeaseMsg>) {
        let Some(shared) = self.everywhere.take_if(|shared| shared.number == number) else {
            return;
        };
        match outcome {
            Everywhere::Watches => {
                self.watches.retain(|namespace, _| !shared.members.has(namespace));
                self.everywhere = Some(shared);
            }
            Everywhere::Refused => {
                tracing::info!(
                    namespaces = self.followed.len(),
                    "the Leases of all namespaces may not be watched at once, so each namespace has a watch of its own"
                );
                self.refused = Some(Instant::now());
                drop(shared);
                let alone = self.followed.iter();
                let alone: Vec<_> = alone
                    .filter(|(namespace, _)| !self.watches.contains_key(*namespace))
                    .map(|(namespace, generation)| (namespace.clone(), *generation))
                    .collect();
                for (namespace, generation) in alone {
                    self.follow_alone(namespace, generation, actor);
                }
            }
        }
    }
}

/// Sends the actor a message if a task panics.
fn report_panic(task: JoinHandle<()>, actor: ActorRef<LeaseMsg>) {
    tokio::spawn(async move {
        if let Err(error) = task.await
            && JoinError::is_panic(&error)
        {
            let _ = actor.cast(LeaseMsg::Failed(format!("following Leases failed: {error}")));
        }
    });
}
