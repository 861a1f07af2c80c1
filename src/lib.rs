#![forbid(unsafe_code)]
//! endpointd keeps the Endpoints and `EndpointSlices` of a Kubernetes cluster up to date, in place of
//! kube-controller-manager's endpoints and endpointslice controllers. Its cost grows with what changes, not with
//! the size of the cluster.
//!
//! [`core`] is pure: no clock, no I/O, no logging. [`actors`] are shells around it. [`cluster`] talks to the API
//! server. [`inspect`] compares published objects with the desired ones, and reports the differences. [`ops`] holds the
//! command line, and the logs, health and startup of a process.
//!
//! [ARCHITECTURE.md](../ARCHITECTURE.md) shows how these work together, and where each part is.

pub mod actors;
pub(crate) mod clock;
pub mod cluster;
pub mod core;
pub mod inspect;
pub(crate) mod metrics;
pub mod ops;
pub(crate) mod tenant_log;

use actors::drift::DriftTracker;
use cluster::connect::{Clients, Target, connect, plugin};
use core::hash::{self, HashKey};
use futures::FutureExt as _;
use ops::admin::{Admin, HealthHandle, Tls};
use ops::flags::{AdminArgs, Command, Invocation, RunArgs, VERSION};
use ops::logging::{one_line, start_logging};
use ops::open_files::raise_limit;
use ops::run::{Connect, Renewing, RunMode};
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::BuildHasher as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code for a command line or a kubeconfig that cannot be used.
pub(crate) const USAGE: u8 = 2;

/// Runs the whole program: parses the command line (with the program's name first), runs the command on a tokio
/// runtime of its own, and returns the exit code.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     endpointd::main_from(std::env::args_os())
/// }
/// ```
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let name = args.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == ops::complete::FILE) {
        return written(ops::complete::print(ops::flags::command(), &args[1..]));
    }
    let Invocation {
        cli,
        ignored,
        program,
    } = match ops::flags::parse(args) {
        Ok(invocation) => invocation,
        Err(refusal) if refusal.print_help() => return ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{refusal}");
            return ExitCode::from(USAGE);
        }
    };
    // RandomState takes its keys from the system's random source, so the hash key differs for each process.
    let random = RandomState::new();
    let key = u128::from(random.hash_one(0)) << 64 | u128::from(random.hash_one(1));
    hash::set_key(HashKey::new(key)).expect("a process runs one command, and hashes nothing before");
    let threads = match &cli.command {
        Command::Run(args) => args.worker_threads,
        Command::Audit(_) | Command::Explain(_) | Command::Top(_) => 1,
        Command::Version => {
            let text = format!("endpointd {VERSION}\n");
            return written(std::io::stdout().write_all(text.as_bytes()));
        }
        Command::Completion { shell } => {
            let name = program.replace(' ', "-");
            return written(ops::generate::completion(*shell, &name));
        }
        Command::Man { directory } => return written(ops::generate::man(directory)),
    };
    let runtime = match runtime(threads) {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start a runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let open_files = raise_limit();
    let code = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run(*args, &ignored, open_files).await,
            Command::Audit(args) => ops::inspect::audit(args).await,
            Command::Explain(args) => ops::inspect::explain(args).await,
            Command::Top(args) => ops::top::run(args).await,
            Command::Version | Command::Completion { .. } | Command::Man { .. } => ExitCode::SUCCESS,
        }
    });
    // The command of an auth-provider that hangs would hold up the end for as long.
    runtime.shutdown_background();
    plugin::end();
    code
}

/// Returns the exit code of a command that only writes. A reader that closes the pipe early is not an error.
fn written(outcome: std::io::Result<()>) -> ExitCode {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

async fn run(args: RunArgs, ignored: &[String], open_files: Option<u64>) -> ExitCode {
    start_logging(&args);
    warn_of_flags(&args, ignored);
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
    let options = args.options(fastrand::u64(..));
    let mode = mode(&args, target);
    let health = HealthHandle::default();
    // The admin server runs until the process ends, so that probes and metrics also cover the shutdown.
    let _admin = admin.map(|admin| tokio::spawn(admin.serve(health.clone())));
    tokio::spawn(tenant_log::keep());
    let run = ops::run::run_observed(clients, options, mode, &health, first_signal);
    let result = tokio::select! {
        result = run => result,
        () = second_signal => return ExitCode::FAILURE,
    };
    tenant_log::finish();
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

/// Listens for SIGTERM and SIGINT. Returns a future that ends with the first signal, and one that ends with the second; the
/// latter has to be polled for either to notice anything.
fn stop_signals() -> std::io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, stop) = tokio::sync::oneshot::channel();
    let second_signal = async move {
        let mut first = Some(first);
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            let Some(first) = first.take() else { return };
            tracing::info!(
                "stopping; requests in flight are finished first, and a second signal ends the process at once"
            );
            let _ = first.send(());
        }
    };
    let first_signal = async {
        let _ = stop.await;
    };
    Ok((first_signal, second_signal))
}

/// Decides which process may write: this one alone, the leader of an election, or none in a dry run.
fn mode(args: &RunArgs, target: Target) -> RunMode {
    if args.dry_run.dry_run {
        let patience = args.dry_run.patience;
        tracing::info!(
            patience_seconds = patience.as_secs_f64(),
            "dry run: nothing is written and no lease is taken; differences that last are logged and counted"
        );
        return RunMode::DryRun(DriftTracker::new(patience));
    }
    let Some(candidacy) = args.election.candidacy() else {
        return RunMode::Alone;
    };
    // The election renews on a connection of its own, made as the clients' are.
    let client = async move { connect(&target).await.map_err(|error| one_line(&error)) };
    let connect: Connect = Box::new(move || client.boxed());
    RunMode::Candidate(Renewing::Apart(connect), Box::new(candidacy))
}

/// Logs the flags that have no effect.
fn warn_of_flags(args: &RunArgs, ignored: &[String]) {
    if !ignored.is_empty() {
        tracing::warn!(
            flags = ignored.join(" "),
            "these flags of kube-controller-manager have no meaning here and are ignored"
        );
    }
    let elsewhere = args.publishing.controllers_elsewhere();
    if !elsewhere.is_empty() {
        tracing::warn!(
            controllers = elsewhere.join(" "),
            "these controllers are named in --controllers but endpointd does not run them"
        );
    }
}

/// Creates the runtime. A single thread never has to wake another, which would cost more than most of the work.
fn runtime(threads: u16) -> std::io::Result<Runtime> {
    if threads == 1 {
        return Builder::new_current_thread().enable_all().build();
    }
    Builder::new_multi_thread()
        .worker_threads(usize::from(threads))
        .enable_all()
        .build()
}

/// Binds the admin server's address, if one is configured, and loads its certificate.
async fn admin(args: &AdminArgs, target: &Target) -> Result<Option<Admin>, String> {
    let Some(address) = args.address() else {
        return Ok(None);
    };
    let admin = Admin::bind(address).await.map_err(|error| one_line(&error))?;
    let Some(files) = args.tls_files()? else {
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "/metrics is served without encryption to every client that can connect; --tls-cert-file turns on HTTPS and access control");
        }
        return Ok(Some(admin));
    };
    let tls = Tls::load(files).map_err(|error| format!("TLS: {}", one_line(&error)))?;
    let client = connect(target).await.map_err(|error| one_line(&error))?;
    Ok(Some(admin.with_tls(tls, client)))
}
