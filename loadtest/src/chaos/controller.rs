//! The controller under test, as a client of the server: in this process on this runtime's clock, or over real
//! sockets on a runtime of its own.

use super::link::Link;
use anyhow::Context;
use endpointd::cluster::connect::{Clients, Target};
use endpointd::ops::run::{self, RunError, run};
use memory_apiserver::ApiServer;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long an end in order may take: the drain's time and some more.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Where controllers reach the server.
pub(super) enum Place {
    /// Within the process. Requests of a controller that was killed linger, or not.
    Here { server: ApiServer, lingering: bool },
    /// At a URL.
    Sockets(String),
}

/// A running controller.
pub(super) struct Controller {
    task: JoinHandle<Result<(), RunError>>,
    stop: Option<oneshot::Sender<()>>,
    line: Line,
}

/// The line that is cut when the controller is killed.
enum Line {
    Link(Link),
    /// All its sockets close with it.
    Runtime(Option<Runtime>),
}

// === impl Place ===

impl Place {
    pub(super) fn start(&self, options: run::Options) -> anyhow::Result<Controller> {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move {
            // If the sender was dropped, the controller must not end in order.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let (task, line) = match self {
            Self::Here { server, lingering } => {
                let link = Link::new(server, *lingering);
                let clients = Clients {
                    watches: link.client(),
                    objects: link.client().into(),
                    events: link.client(),
                    in_pod: false,
                };
                (tokio::spawn(run(clients, options, stopped)), Line::Link(link))
            }
            Self::Sockets(url) => {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()
                    .context("a runtime for the controller")?;
                let target = Target::Server(url.clone());
                let task = runtime.spawn(async move {
                    let clients = Clients::connect(&target).await;
                    let clients = clients.map_err(|error| RunError::Fatal(error.to_string()))?;
                    run(clients, options, stopped).await
                });
                (task, Line::Runtime(Some(runtime)))
            }
        };
        Ok(Controller {
            task,
            stop: Some(stop),
            line,
        })
    }
}

// === impl Controller ===

impl Controller {
    /// Fails when the controller has ended by itself.
    pub(super) async fn check(&mut self) -> anyhow::Result<()> {
        if let Line::Link(link) = &self.line {
            anyhow::ensure!(
                !link.goes_in_circles(),
                "the controller sent thousands of requests without a pause"
            );
        }
        if !self.task.is_finished() {
            return Ok(());
        }
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow::bail!("the controller ended, and nobody had asked it to"),
            Ok(Err(error)) => anyhow::bail!("the controller failed: {error}"),
            Err(error) => anyhow::bail!("the controller failed: {error}"),
        }
    }

    /// Asks the controller to end, and waits for that.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.check().await?;
        self.ask_to_stop();
        let end = timeout(STOP_LIMIT, &mut self.task).await;
        end.with_context(|| format!("the controller did not end within {STOP_LIMIT:?}"))??
            .context("the controller failed while it ended")
    }

    /// Ends the controller as a kill does: it does nothing more.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.check().await?;
        if let Line::Link(link) = &self.line {
            link.cut();
            // A controller without its link counts as killed. It is stopped only so that it uses no more CPU time.
            self.ask_to_stop();
        }
        Ok(())
    }

    fn ask_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // One that has ended meanwhile is found out about by the caller that waits for it.
            let _ = stop.send(());
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        match &mut self.line {
            Line::Link(link) => link.cut(),
            Line::Runtime(runtime) => {
                if let Some(runtime) = runtime.take() {
                    runtime.shutdown_background();
                }
            }
        }
    }
}
