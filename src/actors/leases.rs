//! Runs the watches and reads of Leases that shards ask for: one watch in each namespace where a Service follows a Lease.

use crate::cluster::watch::LeaseReader;
use crate::core::leader::LeaseRequest;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

/// Passes on the shards' requests about Leases. Cheap to clone; all clones share one mailbox.
///
/// The mailbox is not bounded: a shard asks once for each change of the set of Services that follow Leases, and has at
/// most one read of each Lease in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    actor: OnceLock<ActorRef<LeaseMsg>>,
    /// Origin of the times in reports about Leases.
    start: Instant,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            actor: OnceLock::new(),
            start: Instant::now(),
        }
    }
}

impl LeaseHandle {
    /// Passes on a request of a namespace's shard. Dropped before the actor has started.
    pub(super) fn ask(&self, namespace: &Arc<str>, request: LeaseRequest) {
        if let Some(actor) = self.0.actor.get() {
            let _ = actor.cast(LeaseMsg::Ask(namespace.clone(), request));
        }
    }

    /// Returns the origin of the times in reports about Leases.
    pub(crate) fn start(&self) -> Instant {
        self.0.start
    }

    /// Returns the current time on that clock.
    pub(super) fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0.start)
    }
}

/// Messages that the actor receives.
#[derive(Debug)]
pub(crate) enum LeaseMsg {
    /// A request of a namespace's shard.
    Ask(Arc<str>, LeaseRequest),
    /// A task has failed.
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
    reader: LeaseReader,
    /// The watches, by namespace.
    watches: HashMap<Arc<str>, Running>,
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
        let set = arguments.handle.0.actor.set(myself);
        set.map_err(|_| "the actor that follows Leases was started twice")?;
        Ok(LeaseState {
            reader: arguments.reader,
            watches: HashMap::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<LeaseMsg>,
        message: LeaseMsg,
        state: &mut LeaseState,
    ) -> Result<(), ActorProcessingErr> {
        let reader = state.reader.clone();
        let watches = &mut state.watches;
        match message {
            LeaseMsg::Ask(namespace, LeaseRequest::Follow(generation)) => {
                let task = tokio::spawn(reader.follow(namespace.clone(), generation));
                watches.insert(namespace, Running(task.abort_handle()));
                report_panic(task, myself);
            }
            LeaseMsg::Ask(namespace, LeaseRequest::Leave) => drop(watches.remove(&namespace)),
            LeaseMsg::Ask(namespace, LeaseRequest::Read(generation, name)) => {
                let task = tokio::spawn(reader.read(namespace, generation, name));
                report_panic(task, myself);
            }
            // A watch that is gone would leave Services with outdated leaders for ever.
            LeaseMsg::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Tells the actor if a task panics.
fn report_panic(task: JoinHandle<()>, actor: ActorRef<LeaseMsg>) {
    tokio::spawn(async move {
        if let Err(error) = task.await
            && JoinError::is_panic(&error)
        {
            let _ = actor.cast(LeaseMsg::Failed(format!("following Leases failed: {error}")));
        }
    });
}
