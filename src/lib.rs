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

#[cfg(test)]
extern crate self as endpointd;

pub mod actors;
pub(crate) mod clock;
pub mod cluster;
pub mod core;
pub mod inspect;
pub(crate) mod metrics;
pub mod ops;
pub mod tenant_log;

use cluster::connect::plugin;
use core::hash::{self, HashKey};
use ops::flags::{Command, Invocation, USAGE, VERSION};
use ops::open_files::raise_limit;
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::BuildHasher as _;
use std::io::Write as _;
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

/// Runs the whole program: parses the command line (with the program's name first), runs the command on a tokio
/// runtime of its own, and returns the exit code.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     endpointd::main_from(std::env::args_os())
/// }
/// ```
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Invocation { cli, program } = match ops::flags::parse(args) {
        Ok(invocation) => invocation,
        Err(error) => {
            // Failing to print, to a closed pipe for example, is no other error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
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
            Command::Run(args) => ops::run::start(*args, open_files).await,
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
