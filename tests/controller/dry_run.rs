//! A dry run beside a controller that writes, in one process, on a clock that only goes on when nothing is left to
//! do: what it asks of the server, and when it says what. That it agrees with what upstream had settled on is part
//! of `adoption`.

mod bounded;
mod churn;
mod reports;

use crate::cluster;
use crate::gate::Gate;
use endpointd::actors::drift::DriftTracker;
use endpointd::ops::admin::HealthHandle;
use endpointd::ops::run::{Options, RunMode, run_observed};
use kube::Client;
use memory_apiserver::ApiServer;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a difference lasts before it counts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// By then a difference that has lasted is reported: a second lies between two comparisons, and the others get one more.
pub(crate) const SURE: Duration = Duration::from_secs(8);

/// A running dry run.
pub(crate) struct DryRun {
    pub(crate) gate: Gate,
    pub(crate) drift: DriftTracker,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl DryRun {
    pub(crate) fn start(server: &ApiServer, options: Options) -> Self {
        let gate = Gate::new(server);
        let clients = cluster::clients(|| Client::new(gate.clone(), "default"));
        let drift = DriftTracker::new(PATIENCE);
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = drift.clone();
        let task = tokio::spawn(async move {
            let stopped = async {
                // A test that ends drops the sender.
                let _ = stopped.await;
            };
            let (mode, health) = (RunMode::DryRun(shared), HealthHandle::default());
            let running = run_observed(clients, options, mode, &health, stopped);
            running.await.unwrap();
        });
        Self {
            gate,
            drift,
            stop,
            task,
        }
    }

    /// How many Services are out of sync. Whatever happened: nothing was asked of the server but lists and watches.
    pub(crate) fn out_of_sync(&self) -> usize {
        assert!(!self.task.is_finished(), "the dry run has ended");
        let sent = self.gate.take();
        assert!(
            sent.is_empty(),
            "a dry run asks for nothing but lists and watches: {sent:?}"
        );
        self.drift.out_of_sync()
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}
