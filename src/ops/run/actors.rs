//! The actors of a controller, and how they are wired.

use super::Options;
use crate::actors::drift::DriftTracker;
use crate::actors::events::EventHandle;
use crate::actors::messages::{RootMsg, WriterHandle, WriterMsg};
use crate::actors::root::{Root, RootState};
use crate::actors::router::{Router, Routes};
use crate::actors::writer::{Writer, WriterArguments};
use crate::cluster::objects::ObjectClient;
use ractor::{Actor, ActorRef};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The actors of a controller.
pub(super) struct Actors {
    pub(super) root: ActorRef<RootMsg>,
    root_done: JoinHandle<()>,
    pub(super) writer: ActorRef<WriterMsg>,
    pub(super) handle: WriterHandle,
    pub(super) router: Arc<Router>,
}

impl Actors {
    /// Starts them.
    pub(super) async fn start(
        objects: ObjectClient,
        events: EventHandle,
        options: Options,
        tracker: Option<DriftTracker>,
        fatal: watch::Sender<Option<String>>,
    ) -> Result<Self, ractor::SpawnErr> {
        let routes = Routes::default();
        let root = RootState {
            router: routes.clone(),
            fatal,
        };
        let (root, root_done) = Actor::spawn(None, Root, root).await?;
        let handle = WriterHandle::default();
        let arguments = WriterArguments {
            handle: handle.clone(),
            router: routes.clone(),
            objects,
            pacing: options.pacing,
            seed: options.settings.seed,
        };
        let (writer, _) = Actor::spawn_linked(None, Writer, arguments, root.get_cell()).await?;
        let router = Router::new(options.settings, handle.clone(), root.clone(), events);
        let router = Arc::new(match tracker {
            Some(tracker) => router.tracking(tracker),
            None => router,
        });
        // The cell is new, so this cannot fail.
        let _ = routes.set(router.clone());
        Ok(Self {
            root,
            root_done,
            writer,
            handle,
            router,
        })
    }

    /// Ends the root, and with it the shards.
    pub(super) async fn stop(self) {
        self.root.stop(None);
        let _ = self.root_done.await;
    }
}
