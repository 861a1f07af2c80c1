//! Starting and stopping the controller.

use crate::actors::events::{EventArguments, EventHandle, Events, WallClock};
use crate::actors::root::{Root, RootMsg};
use crate::actors::router::Router;
use crate::actors::writer::{Pacing, Writer, WriterArguments, WriterHandle, WriterMsg};
use crate::cluster::connect::Clients;
use crate::cluster::events::EventClient;
use crate::cluster::objects::ObjectClient;
use crate::cluster::watch::{Endpoints, Nodes, Pods, Services, Slices, Source, Watch};
use crate::core::namespace::{Kind, Settings};
use ractor::{Actor, ActorRef, RpcReplyPort};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What the controller is run with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// What the core needs to know.
    pub settings: Settings,
    /// How writes are paced.
    pub pacing: Pacing,
    /// After how long a request is given up.
    pub deadline: Duration,
    /// How long a shutdown waits for requests in flight.
    pub drain: Duration,
}

/// Why the controller ended without having been told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An actor could not be started.
    #[error("cannot start: {0}")]
    Start(#[from] ractor::SpawnErr),
    /// An actor or a watch failed, and what it knew is lost.
    #[error("{0}")]
    Fatal(String),
}

/// Runs the controller until `shutdown` is ready, then lets what is in flight finish.
pub async fn run(
    clients: Clients,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (fatal, mut failed) = watch::channel(None);
    let (root, root_done) = Actor::spawn(None, Root, fatal.clone()).await?;
    let handle = WriterHandle::default();
    let routes = Arc::new(OnceLock::new());
    let arguments = WriterArguments {
        handle: handle.clone(),
        router: routes.clone(),
        objects: ObjectClient::new(clients.objects, options.deadline),
        pacing: options.pacing,
        seed: options.settings.seed,
    };
    let events = EventHandle::default();
    let event_arguments = EventArguments {
        handle: events.clone(),
        client: EventClient::new(clients.events),
        clock: WallClock::default(),
    };
    Actor::spawn_linked(None, Events, event_arguments, root.get_cell()).await?;
    let (writer, _) = Actor::spawn_linked(None, Writer, arguments, root.get_cell()).await?;
    let router = Arc::new(Router::new(options.settings, handle, root.clone(), events));
    // The cell is new, so this cannot fail; and the root waits for nothing else before its first message.
    let _ = routes.set(router.clone());
    let _ = root.cast(RootMsg::Router(router.clone()));

    let seed = options.settings.seed;
    let kinds = Kind::needed_for(options.settings.outputs);
    let watches: Vec<_> = kinds
        .map(|kind| match kind {
            Kind::Node => follow::<Nodes>(&clients.watches, &router, seed, &fatal),
            Kind::Pod => follow::<Pods>(&clients.watches, &router, seed, &fatal),
            Kind::Service => follow::<Services>(&clients.watches, &router, seed, &fatal),
            Kind::Slice => follow::<Slices>(&clients.watches, &router, seed, &fatal),
            Kind::Endpoints => follow::<Endpoints>(&clients.watches, &router, seed, &fatal),
        })
        .collect();
    let result = tokio::select! {
        biased;
        () = shutdown => Ok(()),
        reason = failed.wait_for(Option::is_some) => {
            Err(RunError::Fatal(reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()))
        }
    };
    for watch in &watches {
        watch.abort();
    }
    drain(&writer, options.drain).await;
    root.stop(None);
    let _ = root_done.await;
    result
}

/// Runs a kind's watch as a task. It never ends by itself; if it does, by a panic, so does the process.
fn follow<S: Source>(
    client: &kube::Client,
    router: &Arc<Router>,
    seed: u64,
    fatal: &watch::Sender<Option<String>>,
) -> JoinHandle<()> {
    let watch = Watch::new::<S>(client.clone(), router.clone(), seed);
    let fatal = fatal.clone();
    let task = tokio::spawn(watch.run::<S>());
    let abort = task.abort_handle();
    tokio::spawn(async move {
        // Aborting this aborts the watch too.
        let _guard = AbortOnDrop(abort);
        if let Err(error) = task.await
            && error.is_panic()
        {
            fatal.send_replace(Some(format!("the watch of {} failed: {error}", S::KIND.as_str())));
        }
    })
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until no request is in flight, but not for ever.
async fn drain(writer: &ActorRef<WriterMsg>, limit: Duration) {
    let (done, drained) = oneshot::channel();
    if writer.cast(WriterMsg::Drain(RpcReplyPort::from(done))).is_ok()
        && timeout(limit, drained).await.is_err()
    {
        tracing::warn!(
            ?limit,
            "requests were still in flight when the time to finish them was over"
        );
    }
}
