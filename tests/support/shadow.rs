//! A dry run that is started and stopped by the test, with a gate of its own before the server.

use super::gate::Gate;
use endpointd::actors::drift::DriftTracker;
use endpointd::cluster::connect::Clients;
use endpointd::ops::run::{Options, run_dry};
use kube::Client;
use memory_apiserver::ApiServer;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long a difference lasts before it counts.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// By then what has lasted is told, with a second between two looks and one more for everybody else.
pub(crate) const SURE: Duration = Duration::from_secs(8);

/// A running dry run.
pub(crate) struct Shadow {
    pub(crate) gate: Gate,
    pub(crate) ledger: DriftTracker,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Shadow {
    pub(crate) fn start(server: &ApiServer, options: Options) -> Self {
        let gate = Gate::new(server);
        let client = || Client::new(gate.clone(), "default");
        let clients = Clients {
            watches: client(),
            objects: client(),
            events: client(),
        };
        let ledger = DriftTracker::new(PATIENCE);
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = ledger.clone();
        let task = tokio::spawn(async move {
            let stopped = async {
                // A test that ends drops the sender.
                let _ = stopped.await;
            };
            run_dry(clients, options, shared, stopped).await.unwrap();
        });
        Self {
            gate,
            ledger,
            stop,
            task,
        }
    }

    /// How many Services are out of sync. Whatever happened: nothing was asked of the server but lists and watches.
    pub(crate) fn out_of_sync(&self) -> usize {
        assert!(!self.task.is_finished(), "it runs to the end");
        let sent = self.gate.take();
        assert!(
            sent.is_empty(),
            "a dry run asks for nothing but lists and watches: {sent:?}"
        );
        self.ledger.out_of_sync()
    }

    /// Ends it in order.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}
