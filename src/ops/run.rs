//! `endpointd run`: starts the controller, and stops it.
//!
//! `start` is the whole command. It reads the flags, and sets up what a process has around its controller. [`run_observed`] is
//! the controller alone, as tests run it too. It starts the actors, then the election (or the drift tracker of a dry run), and
//! then the watches; after the shutdown it ends the watches, waits for the requests in flight, and ends the election and the
//! actors.

mod actors;
mod elected;
mod from_flags;
mod mode;
mod signals;
mod tasks;
mod watches;

pub use self::mode::{Connect, Renewing, RunMode};

use self::actors::Actors;
use self::elected::Elected;
use self::from_flags::{admin, mode, options, warn_of_flags};
use self::signals::stop_signals;
use self::tasks::guarded;
use self::watches::WatchStarter;
use super::admin::{HealthHandle, Parts};
use super::election::LeadershipListeners;
use super::flags::{RunArgs, USAGE};
use super::logging::{one_line, start_logging};
use crate::actors::events::{EventWriter, WallClock};
use crate::actors::messages::WriterMsg;
use crate::actors::writer::Pacing;
use crate::cluster::connect::Clients;
use crate::cluster::events::EventClient;
use crate::cluster::objects::ObjectClient;
use crate::cluster::outage::OutageLog;
use crate::core::namespace::Settings;
use crate::tenant_log::TenantLog;
use ractor::{ActorRef, RpcReplyPort};
use std::process::ExitCode;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// The controller's options.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// The settings of the core.
    pub settings: Settings,
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

/// Runs `endpointd run`: the controller, and around it the logs, the admin server and the signals of a process. `open_files` is the
/// limit of open files. Returns the exit code.
pub(crate) async fn start(args: RunArgs, open_files: Option<u64>) -> ExitCode {
    start_logging(&args);
    warn_of_flags(&args);
    let target = args.connection.target();
    let admin = match admin(&args.admin, &target).await {
        Ok(admin) => admin,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let clients = match Clients::connect(&target).await {
        Ok(clients) => clients,
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            return ExitCode::from(USAGE);
        }
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        commit = env!("ENDPOINTD_COMMIT"),
        target = target.to_string(),
        controllers = args.publishing.controllers_here(),
        max_endpoints_per_slice = args.publishing.max_endpoints_per_slice,
        qps = args.kube_api_qps,
        burst = args.kube_api_burst,
        open_files,
        "starting"
    );
    let Ok((first_signal, second_signal)) = stop_signals() else {
        eprintln!("error: cannot listen for signals");
        return ExitCode::FAILURE;
    };
    let options = options(&args, fastrand::u64(..));
    let mode = mode(&args, target);
    let health = HealthHandle::default();
    // The admin server runs until the process ends, so that probes and metrics also cover the shutdown.
    let _admin = admin.map(|admin| tokio::spawn(admin.serve(health.clone())));
    let controller = run_observed(clients, options, mode, &health, first_signal);
    let result = tokio::select! {
        result = controller => result,
        () = second_signal => return ExitCode::FAILURE,
    };
    match result {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(%error, "endpointd stopped because of an error");
            ExitCode::FAILURE
        }
    }
}

/// Runs the controller until `shutdown` is ready, then lets the requests in flight finish. It writes from the
/// beginning, so no other process may write at the same time.
///
/// ```
/// use endpointd::cluster::connect::Clients;
/// use endpointd::core::namespace::Settings;
/// use endpointd::core::publish::Pacing;
/// use endpointd::ops::run::{Options, run};
/// use k8s_openapi::api::core::v1::Endpoints;
/// use kube::{Api, Client};
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
///     in_pod: false,
/// };
/// let options = Options {
///     settings: Settings::default(),
///     pacing: Pacing::unlimited(64),
///     deadline: Duration::from_secs(30),
///     drain: Duration::from_secs(10),
/// };
/// let controller = tokio::spawn(run(clients, options, std::future::pending()));
///
/// let service = "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}";
/// server.load(service).unwrap();
/// tokio::time::sleep(Duration::from_secs(5)).await;
/// let endpoints = Api::<Endpoints>::namespaced(client(), "default");
/// assert!(endpoints.get_opt("web").await.unwrap().is_some());
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
    let log = TenantLog::default();
    let objects = ObjectClient::new(clients.objects, options.deadline, log.clone());
    let objects = objects.behind(fence.clone());
    let events = EventClient::new(clients.events).behind(fence.clone());
    let (events, event_writer) = EventWriter::new(events, log.clone(), WallClock::default());
    let tracker = match &mode {
        RunMode::DryRun(tracker) => Some(tracker.clone()),
        RunMode::Alone | RunMode::Candidate(..) => None,
    };
    let actors = Actors::start(objects, events.clone(), options, tracker, fatal.clone()).await?;
    let Actors { handle, router, .. } = &actors;
    let writing_events = guarded("the writer of Events", event_writer.run(), &fatal);

    let seed = options.settings.seed;
    let role = leadership.borrow().role;
    if !role.writes() {
        handle.change_role(role);
        events.change_role(role);
    }
    let (renewal, progress) = mode.records().unzip();
    health.set(Parts {
        root: actors.root.clone(),
        writer: handle.clone(),
        router: router.clone(),
        leadership: leadership.clone(),
        renewal: renewal.clone(),
        fence: fence.clone(),
        outputs: options.settings.outputs,
        progress: progress.clone(),
    });
    let (mut elector, mut tracking) = (None, None);
    let outages = OutageLog::new(clients.in_pod);
    let reporting = guarded("the log of outages", outages.clone().keep(), &fatal);
    match mode {
        RunMode::Alone => {}
        RunMode::Candidate(renewing, candidacy) => {
            let listeners = LeadershipListeners {
                fence,
                router: router.clone(),
                writer: handle.clone(),
                events,
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
        outages,
        log: log.clone(),
        seed,
        fatal,
    };
    let watches = starter.follow(options.settings.outputs);
    let result = ended(shutdown, &mut failed).await;
    let tasks = [&reporting, &writing_events];
    for task in watches.iter().chain(&tracking).chain(tasks) {
        task.abort();
    }
    let drained = drain(&actors.writer, options.drain).await;
    if let Some(elected) = elector {
        elected.end(drained).await;
    }
    actors.stop().await;
    log.finish();
    result
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
