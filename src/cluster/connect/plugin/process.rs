//! One run of a credential plugin, as a process.

use super::hangs;
use crate::clock;
use crate::cluster::connect::client_error::{self, ClientError};
use crate::cluster::connect::plugin_errors::subject;
use kube::config::{ExecConfig, ExecInteractiveMode};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use serde_json::json;
use std::io::{ErrorKind, IsTerminal as _, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes that are kept of what a plugin writes: credentials are a few kilobytes.
const MOST: usize = 1 << 20;
/// How long its output is read after a plugin has ended: a process that it has left behind may hold the pipe open.
const REST: Duration = Duration::from_secs(1);

/// The processes that run, by their ids. They are killed when this process ends.
static RUNNING: Mutex<Vec<(Pid, bool)>> = Mutex::new(Vec::new());

/// Kills the plugins that still run, for the end of this process.
pub(crate) fn end() {
    for (pid, grouped) in RUNNING.lock().drain(..) {
        kill(pid, grouped);
    }
}

/// Kills a process that has not been waited for, with its children if it has a group of its own.
fn kill(pid: Pid, grouped: bool) {
    // It may have ended by itself.
    let _ = if grouped {
        kill_process_group(pid, Signal::KILL)
    } else {
        kill_process(pid, Signal::KILL)
    };
}

/// A plugin that was started.
pub(super) struct Run {
    child: Child,
    pid: Pid,
    /// True if the process has a group of its own. At a terminal it has not, so that it may ask there, and an interrupt from the
    /// keyboard reaches it.
    grouped: bool,
    start: Instant,
}

/// A report from a thread of a run.
enum Report {
    /// The process has ended.
    Ended,
    /// A pipe of its output has been read to the end.
    Read,
}

impl Run {
    /// Starts the plugin, as client-go starts it.
    pub(super) fn start(exec: &ExecConfig) -> Result<Self, ClientError> {
        let program = exec
            .command
            .as_ref()
            .ok_or_else(|| ClientError::new("the credential plugin has no command"))?;
        let mut command = Command::new(program);
        command.args(exec.args.iter().flatten());
        for variable in exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        let interactive = exec.interactive_mode != Some(ExecInteractiveMode::Never);
        let mut spec = json!({"interactive": interactive});
        if exec.provide_cluster_info {
            let cluster = exec.cluster.as_ref().ok_or_else(|| {
                ClientError::new(format!(
                    "{} wants to be told of the cluster, and there is none",
                    subject()
                ))
            })?;
            spec["cluster"] = serde_json::to_value(cluster).map_err(|_| {
                ClientError::new("the cluster of the credential plugin cannot be written as JSON")
            })?;
        }
        let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        for name in exec.drop_env.iter().flatten() {
            command.env_remove(name);
        }
        command.stdout(Stdio::piped());
        if interactive {
            command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            command.stdin(Stdio::null()).stderr(Stdio::piped());
        }
        let grouped = !at_terminal();
        if grouped {
            command.process_group(0);
        }
        let fault = |error| {
            ClientError::new(format!(
                "{} cannot be run: {}",
                subject(),
                client_error::file(&error)
            ))
        };
        // Under the lock, so that the process cannot end this one's list without it.
        let mut running = RUNNING.lock();
        let child = command.spawn().map_err(fault)?;
        let pid = Pid::from_child(&child);
        running.push((pid, grouped));
        Ok(Self {
            child,
            pid,
            grouped,
            start: Instant::now(),
        })
    }

    /// Waits for the end, and kills the plugin if it takes longer than the limit.
    pub(super) fn finish(mut self, limit: Option<Duration>) -> Result<Output, ClientError> {
        let (reports, reported) = mpsc::channel();
        let stdout = collect(self.child.stdout.take(), &reports);
        let stderr = collect(self.child.stderr.take(), &reports);
        let pid = self.pid;
        spawn(move || {
            // Leaves the process to be waited for, so that its id is not given to another one before it has left the list.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
            let _ = reports.send(Report::Ended);
        });
        let (mut ended, mut read, mut end) = (false, 0, limit.map(|limit| self.start + limit));
        while !(ended && read == 2) {
            let report = match end {
                None => reported.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(end) => reported.recv_timeout(end.saturating_duration_since(Instant::now())),
            };
            match report {
                Ok(Report::Read) => read += 1,
                Ok(Report::Ended) => {
                    ended = true;
                    let rest = Instant::now() + REST;
                    end = Some(end.map_or(rest, |end| end.min(rest)));
                }
                Err(_) => break,
            }
        }
        if !ended {
            kill(self.pid, self.grouped);
        }
        RUNNING.lock().retain(|(pid, _)| *pid != self.pid);
        let waited = self.child.wait();
        match waited {
            Ok(status) if ended => Ok(Output {
                status,
                stdout: std::mem::take(&mut stdout.lock()),
                stderr: std::mem::take(&mut stderr.lock()),
            }),
            Ok(_) => {
                let time = limit.unwrap_or_else(|| clock::since(self.start));
                Err(hangs(time))
            }
            Err(error) => Err(ClientError::new(format!(
                "the end of {} cannot be waited for: {}",
                subject(),
                client_error::file(&error)
            ))),
        }
    }
}

/// Returns whether a person may be at this process's terminal.
fn at_terminal() -> bool {
    std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

/// Reads a pipe on a thread of its own, and reports its end.
fn collect(pipe: Option<impl Read + Send + 'static>, reports: &mpsc::Sender<Report>) -> Arc<Mutex<Vec<u8>>> {
    let content = Arc::new(Mutex::new(Vec::new()));
    let (collected, reports) = (content.clone(), reports.clone());
    let Some(mut pipe) = pipe else {
        let _ = reports.send(Report::Read);
        return content;
    };
    spawn(move || {
        let mut chunk = [0; 4096];
        // Output beyond what is kept is read all the same, or the plugin would wait for this.
        loop {
            match pipe.read(&mut chunk) {
                Ok(length @ 1..) => {
                    let mut collected = collected.lock();
                    let kept = length.min(MOST.saturating_sub(collected.len()));
                    collected.extend_from_slice(&chunk[..kept]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let _ = reports.send(Report::Read);
    });
    content
}

/// Starts a thread. If that fails, what it would have sent is missing, and the run ends at its limit.
fn spawn(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().name("credentials".to_owned());
    drop(thread.spawn(work));
}
