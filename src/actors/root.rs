//! The root: it supervises the writer and the shards, and retires shards that are empty.

use super::messages::RootMsg;
use super::router::Routes;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;

/// The reason why the process cannot go on, once there is one.
pub(crate) type Fatal = watch::Sender<Option<String>>;

/// The arguments and the state of the root.
#[derive(Debug)]
pub(crate) struct RootState {
    /// Reaches the shards.
    pub router: Routes,
    /// Receives the reason when an actor fails.
    pub fatal: Fatal,
}

/// The root actor.
#[derive(Debug)]
pub(crate) struct Root;

impl Actor for Root {
    type Msg = RootMsg;
    type State = RootState;
    type Arguments = RootState;

    async fn pre_start(
        &self,
        _: ActorRef<RootMsg>,
        state: RootState,
    ) -> Result<RootState, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<RootMsg>,
        message: RootMsg,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RootMsg::Idle {
                namespace,
                inbox,
                sequence,
            } => {
                if let Some(router) = state.router.get() {
                    router.retire(&namespace, &inbox, sequence);
                }
            }
            RootMsg::Ping(answer) => {
                let _ = answer.send(());
            }
        }
        Ok(())
    }

    /// Ends the process when a shard or the writer fails: its state could only be rebuilt by listing everything again,
    /// which is what a new process does. A shard that was retired has not failed.
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
