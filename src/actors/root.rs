//! The root: supervises the writer and the shards, and retires shards that have nothing left.

use super::messages::RootMsg;
use super::router::Routes;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;

/// Why the process cannot go on, once it cannot.
pub(crate) type Fatal = watch::Sender<Option<String>>;

/// What the root is made with, and owns.
#[derive(Debug)]
pub(crate) struct RootState {
    /// How to reach shards.
    pub router: Routes,
    /// Whom it tells of a failure.
    pub fatal: Fatal,
}

/// The root's behaviour.
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
