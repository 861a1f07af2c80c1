//! The watches of a controller.

use super::tasks::guarded;
use crate::actors::router::Router;
use crate::cluster::outage::OutageLog;
use crate::cluster::watch::{Source, Watch};
use crate::core::leadership::Leadership;
use crate::core::leadership::role::Role;
use crate::core::namespace::Kind;
use crate::core::outputs::Outputs;
use crate::tenant_log::TenantLog;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Starts watches.
pub(super) struct WatchStarter {
    pub(super) client: kube::Client,
    pub(super) router: Arc<Router>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) outages: OutageLog,
    pub(super) log: TenantLog,
    pub(super) seed: u64,
    pub(super) fatal: watch::Sender<Option<String>>,
}

impl WatchStarter {
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
            self.outages.clone(),
            self.seed,
        )
        .logging(self.log.clone());
        guarded(
            &format!("the watch of {}", source.kind.as_str()),
            watch.run(),
            &self.fatal,
        )
    }
}
