//! The watches of a controller.

use super::tasks::guarded;
use crate::actors::followed_leases::{LeaseArguments, LeaseHandle, Leases};
use crate::actors::messages::RootMsg;
use crate::actors::router::Router;
use crate::cluster::encodings::Encodings;
use crate::cluster::outage::{OutageLog, SharedOutage};
use crate::cluster::watch::{LeaseReader, Source, Watch};
use crate::core::leadership::Leadership;
use crate::core::leadership::role::Role;
use crate::core::namespace::Kind;
use crate::core::outputs::Outputs;
use ractor::{Actor, ActorRef};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Starts watches.
pub(super) struct WatchStarter {
    pub(super) client: kube::Client,
    pub(super) router: Arc<Router>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) encodings: Encodings,
    pub(super) outages: OutageLog,
    pub(super) seed: u64,
    pub(super) fatal: watch::Sender<Option<String>>,
}

impl WatchStarter {
    /// Starts the actor that follows Leases for the shards. They ask for nothing before they exist.
    pub(super) async fn follow_leases(
        &self,
        handle: LeaseHandle,
        root: &ActorRef<RootMsg>,
    ) -> Result<(), ractor::SpawnErr> {
        let (client, leadership) = (self.client.clone(), self.leadership.clone());
        let outages = SharedOutage::new(self.outages.clone(), "leases");
        let router = self.router.clone();
        let reader = LeaseReader::new(client, router, leadership, outages, self.seed, handle.start());
        let arguments = LeaseArguments { handle, reader };
        Actor::spawn_linked(None, Leases, arguments, root.get_cell()).await?;
        Ok(())
    }

    /// Starts a watch of each kind that these outputs need, and of nodes: their number tells how many proxies watch what is
    /// written.
    pub(super) fn follow(&self, outputs: Outputs) -> Vec<JoinHandle<()>> {
        // A dry run compares whole objects; otherwise metadata is enough.
        let whole = self.leadership.borrow().role == Role::DryRun;
        Kind::ALL
            .into_iter()
            .filter(|kind| kind.is_needed(outputs) || *kind == Kind::Node)
            .map(|kind| self.watch(Source::of(kind, outputs.custom, whole)))
            .collect()
    }

    /// Runs the watch of a source as a task, which never ends by itself.
    fn watch(&self, source: Source) -> JoinHandle<()> {
        let watch = Watch::new(
            source,
            self.client.clone(),
            self.router.clone(),
            self.leadership.clone(),
            self.encodings.clone(),
            self.outages.clone(),
            self.seed,
        );
        guarded(
            &format!("the watch of {}", source.kind.as_str()),
            watch.run(),
            &self.fatal,
        )
    }
}
