//! Starting and stopping the controller.

use super::admin::{Parts, Renewal, Vitals};
use super::election::{Candidacy, Elector, Told};
use crate::actors::deviations::Ledger;
use crate::actors::events::{EventArguments, EventHandle, EventMsg, Events, WallClock};
use crate::actors::root::{Root, RootMsg};
use crate::actors::router::Router;
use crate::actors::standing::{Role, Standing};
use crate::actors::writer::{Pacing, Writer, WriterArguments, WriterHandle, WriterMsg};
use crate::cluster::connect::Clients;
use crate::cluster::events::EventClient;
use crate::cluster::fence::{Clock, Fence};
use crate::cluster::objects::ObjectClient;
use crate::cluster::watch::{
    Endpoints, Nodes, Pods, Services, Slices, Source, Watch, WholeEndpoints, WholeSlices,
};
use crate::core::namespace::{Kind, Settings};
use crate::core::outputs::Outputs;
use ractor::{Actor, ActorRef, RpcReplyPort};
use std::fmt;
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

/// Runs the controller until `shutdown` is ready, then lets what is in flight finish. It writes from the
/// beginning: nobody else may.
pub async fn run(
    clients: Clients,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    run_observed(clients, options, Part::Alone, &Vitals::default(), shutdown).await
}

/// As [`run`], but writes only while it holds a Lease, which is asked for by a client of its own: renewals must
/// not wait for anything else. When it ends, it gives the Lease up as soon as no write is on its way any more;
/// if that lasts too long, the Lease is left to run out, so that the next one does not meet a late write.
pub async fn run_elected(
    clients: Clients,
    options: Options,
    lease: kube::Client,
    candidacy: Candidacy,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let part = Part::Candidate(lease, Box::new(candidacy));
    run_observed(clients, options, part, &Vitals::default(), shutdown).await
}

/// As [`run`], but writes nothing, and takes part in no election: it compares what others write with what it would
/// write, and tells the ledger.
pub async fn run_dry(
    clients: Clients,
    options: Options,
    ledger: Ledger,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    run_observed(
        clients,
        options,
        Part::Shadow(ledger),
        &Vitals::default(),
        shutdown,
    )
    .await
}

/// What part a process plays beside others.
pub enum Part {
    /// Nobody else may write.
    Alone,
    /// It writes while it holds a Lease, which is asked for by this client.
    Candidate(kube::Client, Box<Candidacy>),
    /// It writes nothing, and tells what it would write.
    Shadow(Ledger),
}

impl Part {
    /// What it may do before it has heard anything.
    fn at_first(&self) -> (Fence, Standing) {
        match self {
            Self::Alone => (Fence::open(), Standing::ALWAYS),
            Self::Candidate(_, candidacy) => (Fence::closed(candidacy.clock.clone()), Standing::WAITING),
            // Nothing asks to be written; and what did could not leave.
            Self::Shadow(_) => (Fence::closed(Clock::default()), Standing::COMPARING),
        }
    }

    /// What there is to be told of its Lease.
    fn renewal(&self) -> Option<Renewal> {
        match self {
            Self::Candidate(_, candidacy) => {
                Some(Renewal::new(candidacy.clock.clone(), candidacy.timing.lease()))
            }
            Self::Alone | Self::Shadow(_) => None,
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "Alone",
            Self::Candidate(..) => "Candidate",
            Self::Shadow(_) => "Shadow",
        })
    }
}

/// As [`run`], [`run_elected`] or [`run_dry`], by the part it plays, and lets others see how it is through `vitals`.
pub async fn run_observed(
    clients: Clients,
    options: Options,
    part: Part,
    vitals: &Vitals,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (fence, standing) = part.at_first();
    let (told, standing) = watch::channel(standing);
    let (fatal, mut failed) = watch::channel(None);
    let (root, root_done) = Actor::spawn(None, Root, fatal.clone()).await?;
    let handle = WriterHandle::default();
    let routes = Arc::new(OnceLock::new());
    let arguments = WriterArguments {
        handle: handle.clone(),
        router: routes.clone(),
        objects: ObjectClient::new(clients.objects, options.deadline).behind(fence.clone()),
        pacing: options.pacing,
        seed: options.settings.seed,
    };
    let events = EventHandle::default();
    let event_arguments = EventArguments {
        handle: events.clone(),
        client: EventClient::new(clients.events).behind(fence.clone()),
        clock: WallClock::default(),
    };
    Actor::spawn_linked(None, Events, event_arguments, root.get_cell()).await?;
    let (writer, _) = Actor::spawn_linked(None, Writer, arguments, root.get_cell()).await?;
    let router = Router::new(options.settings, handle.clone(), root.clone(), events.clone());
    let router = Arc::new(match &part {
        Part::Shadow(ledger) => router.comparing(ledger.clone()),
        Part::Alone | Part::Candidate(..) => router,
    });
    // The cell is new, so this cannot fail; and the root waits for nothing else before its first message.
    let _ = routes.set(router.clone());
    let _ = root.cast(RootMsg::Router(router.clone()));

    let seed = options.settings.seed;
    if !standing.borrow().role.writes() {
        let role = standing.borrow().role;
        handle.send(WriterMsg::Role(role));
        events.send(EventMsg::Role(role));
    }
    let renewal = part.renewal();
    vitals.set(Parts {
        root: root.clone(),
        writer: handle.clone(),
        events: events.clone(),
        router: router.clone(),
        standing: standing.clone(),
        renewal: renewal.clone(),
        fence: fence.clone(),
        outputs: options.settings.outputs,
    });
    let mut elector = None;
    let mut ledger = None;
    match part {
        Part::Alone => {}
        Part::Candidate(client, candidacy) => {
            let told = Told {
                fence,
                router: router.clone(),
                writer: handle,
                events,
                standing: told,
                renewal: renewal.expect("a candidate has one"),
            };
            let election = Elector::new(client, *candidacy, told, seed);
            let (stop, stopped) = oneshot::channel();
            elector = Some((stop, guarded("the election", election.run(stopped), &fatal)));
        }
        Part::Shadow(shared) => {
            ledger = Some(guarded("the account of differences", shared.keep(), &fatal));
        }
    }
    let follower = Follower {
        client: clients.watches,
        router,
        standing,
        seed,
        fatal,
    };
    let watches = follower.follow(options.settings.outputs);
    let result = tokio::select! {
        biased;
        () = shutdown => Ok(()),
        reason = failed.wait_for(Option::is_some) => {
            Err(RunError::Fatal(reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()))
        }
    };
    for task in watches.iter().chain(&ledger) {
        task.abort();
    }
    let drained = drain(&writer, options.drain).await;
    if let Some((stop, election)) = elector {
        // It has been renewing the lease until now.
        let _ = stop.send(drained);
        let _ = election.await;
    }
    root.stop(None);
    let _ = root_done.await;
    result
}

/// Starts watches.
struct Follower {
    client: kube::Client,
    router: Arc<Router>,
    standing: watch::Receiver<Standing>,
    seed: u64,
    fatal: watch::Sender<Option<String>>,
}

impl Follower {
    /// Of all kinds that are needed.
    fn follow(&self, outputs: Outputs) -> Vec<JoinHandle<()>> {
        // Who compares sees what others write whole.
        let whole = self.standing.borrow().role == Role::Shadow;
        Kind::needed_for(outputs)
            .map(|kind| match kind {
                Kind::Node => self.watch::<Nodes>(),
                Kind::Pod => self.watch::<Pods>(),
                Kind::Service => self.watch::<Services>(),
                Kind::Slice if whole => self.watch::<WholeSlices>(),
                Kind::Endpoints if whole => self.watch::<WholeEndpoints>(),
                Kind::Slice => self.watch::<Slices>(),
                Kind::Endpoints => self.watch::<Endpoints>(),
            })
            .collect()
    }

    /// Runs a kind's watch as a task. It never ends by itself.
    fn watch<S: Source>(&self) -> JoinHandle<()> {
        let watch = Watch::new::<S>(
            self.client.clone(),
            self.router.clone(),
            self.standing.clone(),
            self.seed,
        );
        guarded(
            &format!("the watch of {}", S::KIND.as_str()),
            watch.run::<S>(),
            &self.fatal,
        )
    }
}

/// Runs something as a task. If it ends by a panic, so does the process.
fn guarded(
    what: &str,
    work: impl Future<Output = ()> + Send + 'static,
    fatal: &watch::Sender<Option<String>>,
) -> JoinHandle<()> {
    let (what, fatal) = (what.to_owned(), fatal.clone());
    let task = tokio::spawn(work);
    let abort = task.abort_handle();
    tokio::spawn(async move {
        // Aborting this aborts the task too.
        let _guard = AbortOnDrop(abort);
        if let Err(error) = task.await
            && error.is_panic()
        {
            fatal.send_replace(Some(format!("{what} failed: {error}")));
        }
    })
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until no request is in flight, but not for ever. Whether that came true.
async fn drain(writer: &ActorRef<WriterMsg>, limit: Duration) -> bool {
    let (done, drained) = oneshot::channel();
    if writer.cast(WriterMsg::Drain(RpcReplyPort::from(done))).is_err() {
        // Whoever failed may have left requests in flight.
        return false;
    }
    let drained = timeout(limit, drained).await;
    if drained.is_err() {
        tracing::warn!(
            ?limit,
            "requests were still in flight when the time to finish them was over"
        );
    }
    matches!(drained, Ok(Ok(())))
}
