//! The controller, as a process of its own.

use crate::process::{Log, Process};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// How the controller reaches the API server.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    /// On loopback, without credentials.
    Url(String),
    /// By a file of this path.
    Kubeconfig(PathBuf),
}

/// Starts endpointd from this same executable, without leader election and without an admin server unless the flags say
/// otherwise. Its log is a file that goes with it.
pub(crate) fn start(
    server: &Server,
    max_endpoints_per_slice: u16,
    flags: &[OsString],
) -> anyhow::Result<Process> {
    let path = std::env::temp_dir().join(format!("endpointd-{}.log", std::process::id()));
    let command = command(server, max_endpoints_per_slice, flags)?;
    Process::start("the controller", command, Log::temporary(path)?)
}

/// The command line that runs endpointd, from this same executable. The last of two flags of one name counts.
pub(crate) fn command(
    server: &Server,
    max_endpoints_per_slice: u16,
    flags: &[OsString],
) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["endpointd", "run", "--leader-elect=false", "--admin-port=0"]);
    match server {
        Server::Url(url) => command.arg("--server").arg(url),
        Server::Kubeconfig(path) => command.arg("--kubeconfig").arg(path),
    };
    command
        .arg(format!("--max-endpoints-per-slice={max_endpoints_per_slice}"))
        .args(flags);
    Ok(command)
}
