//! The root: supervises the writer and the shards, and retires shards that have nothing left.

use super::router::Router;
use super::shard::Inbox;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// What the root is told.
#[derive(Debug)]
pub enum RootMsg {
    /// The root is told of the router once, before anything else.
    Router(Arc<Router>),
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

/// Why the process cannot go on, once it cannot.
pub type Fatal = watch::Sender<Option<String>>;

/// What the root owns.
#[derive(Debug)]
pub struct RootState {
    router: Option<Arc<Router>>,
    fatal: Fatal,
}

/// The root's behaviour.
#[derive(Debug)]
pub struct Root;

impl Actor for Root {
    type Msg = RootMsg;
    type State = RootState;
    type Arguments = Fatal;

    async fn pre_start(&self, _: ActorRef<RootMsg>, fatal: Fatal) -> Result<RootState, ActorProcessingErr> {
        Ok(RootState { router: None, fatal })
    }

    async fn handle(
        &self,
        _: ActorRef<RootMsg>,
        message: RootMsg,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        match (message, &state.router) {
            (RootMsg::Router(router), _) => state.router = Some(router),
            (
                RootMsg::Idle {
                    namespace,
                    inbox,
                    sequence,
                },
                Some(router),
            ) => router.retire(&namespace, &inbox, sequence),
            (RootMsg::Idle { .. }, None) => {}
            (RootMsg::Ping(answer), _) => {
                let _ = answer.send(());
            }
        }
        Ok(())
    }

    /// What a shard or the writer knew cannot be rebuilt without listing everything again, and a new process
    /// does just that: so the failure of one ends the process. A shard that was retired is no failure.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<RootMsg>,
        event: SupervisionEvent,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(who, error) = event {
            state
                .fatal
                .send_replace(Some(format!("actor {} failed: {error}", who.get_id())));
        }
        Ok(())
    }
}
