//! Starts and stops the controller.

use super::admin::{HealthHandle, Parts, Renewal};
use super::election::{Candidacy, Elector, LeadershipListeners};
use super::endpoint_selectors;
use super::progress::Progress;
use crate::actors::drift::DriftTracker;
use crate::actors::events::{EventArguments, Events, WallClock};
use crate::actors::followed_leases::{LeaseArguments, LeaseHandle, Leases};
use crate::actors::messages::{EventHandle, RootMsg, WriterHandle, WriterMsg};
use crate::actors::root::{Root, RootState};
use crate::actors::router::{Router, Routes};
use crate::actors::writer::{Pacing, Writer, WriterArguments};
use crate::cluster::codec::Encoding;
use crate::cluster::connect::Clients;
use crate::cluster::encodings::Encodings;
use crate::cluster::events::EventClient;
use crate::cluster::fence::{Clock, Fence};
use crate::cluster::objects::ObjectClient;
use crate::cluster::outage::{OutageLog, SharedOutage};
use crate::cluster::read::Reader;
use crate::cluster::watch::{LeaseReader, Source, Watch};
use crate::core::leadership::Leadership;
use crate::core::namespace::{Kind, Settings};
use crate::core::outputs::Outputs;
use crate::core::leadership::role::Role;
use futures::future::BoxFuture;
use ractor::{Actor, ActorRef, RpcReplyPort};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The controller's options.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// The settings of the core.
    pub settings: Settings,
    /// The encoding of requests and answers, for each resource that the server speaks it for.
    pub encoding: Encoding,
    /// The rate limits and batch periods of writes.
    pub pacing: Pacing,
    /// The timeout of a request.
    pub deadline: Duration,
    /// The longest time that a shutdown waits for requests in flight.
    pub drain: Duration,
}

/// The reason why the controller ended without a signal to do so.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An actor could not be started.
    #[error("cannot start: {0}")]
    Start(#[from] ractor::SpawnErr),
    /// A thread could not be started.
    #[error("cannot start a thread for {0}: {1}")]
    Thread(String, std::io::Error),
    /// An actor or a watch failed, and its state is lost.
    #[error("{0}")]
    Fatal(String),
}

/// Runs the controller until `shutdown` is ready, then lets the requests in flight finish. It writes from the
/// beginning, so no other process may write at the same time.
///
/// ```
/// use endpointd::cluster::codec::Encoding;
/// use endpointd::cluster::connect::Clients;
/// use endpointd::core::namespace::Settings;
/// use endpointd::core::publish::Pacing;
/// use endpointd::ops::run::{Options, run};
/// use kube::Client;
/// use memory_apiserver::{ApiServer, Config};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let server = ApiServer::new(Config::default());
/// let client = || Client::new(server.service(), "default");
/// let clients = Clients {
///     watches: client(),
///     objects: client().into(),
///     events: client(),
/// };
/// let options = Options {
///     settings: Settings::default(),
///     encoding: Encoding::default(),
///     pacing: Pacing::unlimited(64),
///     deadline: Duration::from_secs(30),
///     drain: Duration::from_secs(10),
/// };
/// let controller = tokio::spawn(run(clients, options, std::future::pending()));
///
/// let service = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}";
/// server.load(service).unwrap();
/// let within = Duration::from_secs(5);
/// let made = server.wait_for("endpoints", "default/web", within, |_| true).await;
/// assert!(made.is_ok(), "{}", server.dump());
/// # controller.abort();
/// # }
/// ```
pub async fn run(
    clients: Clients,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    run_observed(
        clients,
        options,
        RunMode::Alone,
        &HealthHandle::default(),
        shutdown,
    )
    .await
}

/// Creates the client for the Lease on the runtime that uses it, because a client runs its requests in a task there.
pub type Connect = Box<dyn FnOnce() -> BoxFuture<'static, Result<kube::Client, String>> + Send>;

/// The place where the Lease is acquired and renewed.
pub enum Renewing {
    /// A thread of its own, so that no other work of this process can keep it from renewing in time.
    Apart(Connect),
    /// The runtime that does everything else, with this client: for tests with a paused clock, which advances only when
    /// all tasks wait.
    Here(kube::Client),
}

/// The role of this process beside others.
pub enum RunMode {
    /// The only process that writes.
    Alone,
    /// A candidate for leadership, which writes while it holds a Lease.
    Candidate(Renewing, Box<Candidacy>),
    /// A dry run, which writes nothing and reports what it would write.
    DryRun(DriftTracker),
}

impl RunMode {
    /// Returns the initial fence and leadership.
    fn at_first(&self) -> (Fence, Leadership) {
        match self {
            Self::Alone => (Fence::open(), Leadership::ALWAYS),
            Self::Candidate(_, candidacy) => (Fence::closed(candidacy.clock.clone()), Leadership::STANDBY),
            // A dry run plans no writes, and the closed fence would stop one if it did.
            Self::DryRun(_) => (Fence::closed(Clock::default()), Leadership::DRY_RUN),
        }
    }

    /// Creates the progress record that the election checks, if there is an election.
    fn progress(&self) -> Option<Progress> {
        match self {
            Self::Candidate(_, candidacy) => {
                Some(Progress::new(candidacy.clock.clone(), candidacy.stalled_after))
            }
            Self::Alone | Self::DryRun(_) => None,
        }
    }

    /// Creates the record of Lease renewals, if there is an election.
    fn renewal(&self) -> Option<Renewal> {
        match self {
            Self::Candidate(_, candidacy) => {
                Some(Renewal::new(candidacy.clock.clone(), candidacy.timing.lease()))
            }
            Self::Alone | Self::DryRun(_) => None,
        }
    }
}

impl fmt::Debug for RunMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "Alone",
            Self::Candidate(..) => "Candidate",
            Self::DryRun(_) => "DryRun",
        })
    }
}

/// Runs the controller in a role beside others, and exposes its health through `health`. A candidate has a client of its
/// own for the Lease, because renewals must not wait for anything else. On shutdown it releases the Lease once no write is
/// in flight; if that takes too long, it lets the Lease expire, so that the next leader does not meet a late write.
pub async fn run_observed(
    clients: Clients,
    options: Options,
    mode: RunMode,
    health: &HealthHandle,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (fence, leadership) = mode.at_first();
    let (announce, leadership) = watch::channel(leadership);
    let (fatal, mut failed) = watch::channel(None);
    let encodings = Encodings::new(options.encoding);
    let objects = ObjectClient::new(clients.objects, encodings.clone(), options.deadline);
    let objects = objects.behind(fence.clone());
    let events = EventClient::new(clients.events).behind(fence.clone());
    let tracker = match &mode {
        RunMode::DryRun(tracker) => Some(tracker.clone()),
        RunMode::Alone | RunMode::Candidate(..) => None,
    };
    let actors = Actors::start(
        objects,
        events,
        options,
        tracker,
        encodings.clone(),
        fatal.clone(),
    )
    .await?;
    let Actors {
        handle,
        events,
        router,
        ..
    } = &actors;

    let seed = options.settings.seed;
    let role = leadership.borrow().role;
    if !role.writes() {
        handle.change_role(role);
        events.change_role(role);
    }
    let (renewal, progress) = (mode.renewal(), mode.progress());
    health.set(Parts {
        root: actors.root.clone(),
        writer: handle.clone(),
        events: events.clone(),
        router: router.clone(),
        leadership: leadership.clone(),
        renewal: renewal.clone(),
        fence: fence.clone(),
        outputs: options.settings.outputs,
        progress: progress.clone(),
    });
    let (mut elector, mut tracking) = (None, None);
    let (outages, reporting) = start_outages(&fatal);
    match mode {
        RunMode::Alone => {}
        RunMode::Candidate(renewing, candidacy) => {
            let listeners = LeadershipListeners {
                fence,
                router: router.clone(),
                writer: handle.clone(),
                events: events.clone(),
                leadership: announce,
                renewal: renewal.expect("a candidate has one"),
                progress: progress.expect("a candidate has one"),
                outages: outages.clone(),
            };
            elector = Some(Elected::start(
                renewing, *candidacy, listeners, seed, health, &fatal,
            )?);
        }
        RunMode::DryRun(tracker) => {
            tracking = Some(guarded("the drift tracker", tracker.keep(), &fatal));
        }
    }
    let starter = WatchStarter {
        client: clients.watches,
        router: router.clone(),
        leadership,
        encodings,
        outages,
        seed,
        fatal,
    };
    starter.follow_leases(actors.leases.clone(), &actors.root).await?;
    let watches = starter.follow(options.settings.outputs);
    let result = ended(shutdown, &mut failed).await;
    for task in watches.iter().chain(&tracking).chain([&reporting]) {
        task.abort();
    }
    let drained = drain(&actors.writer, options.drain).await;
    if let Some(elected) = elector {
        elected.end(drained).await;
    }
    actors.stop().await;
    result
}

/// The actors of a controller.
struct Actors {
    root: ActorRef<RootMsg>,
    root_done: JoinHandle<()>,
    writer: ActorRef<WriterMsg>,
    handle: WriterHandle,
    events: EventHandle,
    leases: LeaseHandle,
    router: Arc<Router>,
}

impl Actors {
    async fn start(
        objects: ObjectClient,
        client: EventClient,
        options: Options,
        tracker: Option<DriftTracker>,
        encodings: Encodings,
        fatal: watch::Sender<Option<String>>,
    ) -> Result<Self, ractor::SpawnErr> {
        let routes = Routes::default();
        let root = RootState {
            router: routes.clone(),
            fatal,
        };
        let (root, root_done) = Actor::spawn(None, Root, root).await?;
        let events = EventHandle::default();
        let arguments = EventArguments {
            handle: events.clone(),
            client,
            clock: WallClock::default(),
        };
        Actor::spawn_linked(None, Events, arguments, root.get_cell()).await?;
        let handle = WriterHandle::default();
        let arguments = WriterArguments {
            handle: handle.clone(),
            router: routes.clone(),
            objects,
            pacing: options.pacing,
            seed: options.settings.seed,
        };
        let (writer, _) = Actor::spawn_linked(None, Writer, arguments, root.get_cell()).await?;
        let leases = LeaseHandle::default();
        let router = Router::new(
            options.settings,
            encodings,
            handle.clone(),
            root.clone(),
            events.clone(),
        )
        .following(leases.clone());
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
            events,
            leases,
            router,
        })
    }

    /// Ends the root, and with it the shards, and then logs what they have left to be told.
    async fn stop(self) {
        self.root.stop(None);
        let _ = self.root_done.await;
        self.router.tell_standing_problems();
    }
}

/// Starts the log of outages.
fn start_outages(fatal: &watch::Sender<Option<String>>) -> (OutageLog, JoinHandle<()>) {
    let outages = OutageLog::default();
    let reporting = guarded("the log of outages", outages.clone().keep(), fatal);
    (outages, reporting)
}

/// Waits for the shutdown, or for the reason why the controller cannot go on.
async fn ended(
    shutdown: impl Future<Output = ()>,
    failed: &mut watch::Receiver<Option<String>>,
) -> Result<(), RunError> {
    tokio::select! {
        biased;
        () = shutdown => Ok(()),
        reason = failed.wait_for(Option::is_some) => {
            Err(RunError::Fatal(reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()))
        }
    }
}

/// A running election, and the watchdog that it depends on.
struct Elected {
    stop: oneshot::Sender<bool>,
    election: JoinHandle<()>,
    watchdog: JoinHandle<()>,
}

impl Elected {
    fn start(
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
    async fn end(self, drained: bool) {
        let _ = self.stop.send(drained);
        let _ = self.election.await;
        self.watchdog.abort();
    }
}

/// Starts watches.
struct WatchStarter {
    client: kube::Client,
    router: Arc<Router>,
    leadership: watch::Receiver<Leadership>,
    encodings: Encodings,
    outages: OutageLog,
    seed: u64,
    fatal: watch::Sender<Option<String>>,
}

impl WatchStarter {
    /// Starts the actor that follows Leases for the shards. They ask for nothing before they exist.
    async fn follow_leases(
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

    /// Starts a watch of each kind that these outputs need.
    fn follow(&self, outputs: Outputs) -> Vec<JoinHandle<()>> {
        // A dry run compares whole objects; otherwise metadata is enough.
        let whole = self.leadership.borrow().role == Role::DryRun;
        // Beside controllers that write slices, these serve them.
        let stands_in = outputs.slices && !whole;
        let selectors = stands_in.then(|| self.look_for_selectors());
        Kind::needed_for(outputs)
            .map(|kind| self.watch(Source::of(kind, outputs.custom, whole)))
            .chain(selectors)
            .collect()
    }

    fn look_for_selectors(&self) -> JoinHandle<()> {
        let reader = Reader::new(self.client.clone(), self.encodings.clone());
        let looking = endpoint_selectors::watch_for(reader);
        guarded("the look for EndpointSelectors", looking, &self.fatal)
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

/// Runs `work` as a task. If the task panics, the controller ends with an error.
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

/// Runs `work` on its own thread and runtime. If it fails, the controller ends with an error.
/// The returned handle completes when the work does.
fn apart(
    what: &str,
    fatal: &watch::Sender<Option<String>>,
    work: impl Future<Output = Result<(), String>> + Send + 'static,
) -> Result<JoinHandle<()>, RunError> {
    let wrong = |error| RunError::Thread(what.to_owned(), error);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(wrong)?;
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name(what.to_owned())
        .spawn(move || {
            // The receiver is gone if the whole process is ending.
            let _ = done.send(runtime.block_on(work));
        })
        .map_err(wrong)?;
    let (what, fatal) = (what.to_owned(), fatal.clone());
    Ok(tokio::spawn(async move {
        let failure = match result.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => "its thread panicked".to_owned(),
        };
        fatal.send_replace(Some(format!("{what} failed: {failure}")));
    }))
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until no request is in flight, for `limit` at most. Returns whether all of them finished.
async fn drain(writer: &ActorRef<WriterMsg>, limit: Duration) -> bool {
    let (done, drained) = oneshot::channel();
    if writer.cast(WriterMsg::Drain(RpcReplyPort::from(done))).is_err() {
        // The writer has failed, and may have left requests in flight.
        return false;
    }
    let drained = timeout(limit, drained).await;
    if drained.is_err() {
        tracing::warn!(
            seconds = limit.as_secs(),
            "requests were still in flight at the end of the shutdown period; they are abandoned"
        );
    }
    matches!(drained, Ok(Ok(())))
}
