//! The election and its watchdog, which run beside the controller.

use super::tasks::{apart, guarded};
use super::{Renewing, RunError};
use crate::ops::admin::HealthHandle;
use crate::ops::election::{Candidacy, Elector, LeadershipListeners};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// A running election, and the watchdog that it depends on.
pub(super) struct Elected {
    stop: oneshot::Sender<bool>,
    election: JoinHandle<()>,
    watchdog: JoinHandle<()>,
}

impl Elected {
    /// Starts both. The election runs where `renewing` says.
    pub(super) fn start(
        renewing: Renewing,
        candidacy: Candidacy,
        listeners: LeadershipListeners,
        seed: u64,
        health: &HealthHandle,
        fatal: &watch::Sender<Option<String>>,
    ) -> Result<Self, RunError> {
        let (stop, stopped) = oneshot::channel();
        let election = match renewing {
            Renewing::Here(client) => {
                let election = Elector::new(client, candidacy, listeners, seed);
                guarded("the election", election.run(stopped), fatal)
            }
            Renewing::Apart(connect) => apart("the election", fatal, async move {
                let client = connect().await?;
                Elector::new(client, candidacy, listeners, seed)
                    .run(stopped)
                    .await;
                Ok(())
            })?,
        };
        let health = health.clone();
        let watching = async move { health.watch_over().await };
        Ok(Self {
            stop,
            election,
            watchdog: guarded("the watchdog", watching, fatal),
        })
    }

    /// Releases the Lease if all requests in flight are done, and lets it expire otherwise. The Lease has been renewed
    /// until now.
    pub(super) async fn end(self, drained: bool) {
        let _ = self.stop.send(drained);
        let _ = self.election.await;
        self.watchdog.abort();
    }
}
