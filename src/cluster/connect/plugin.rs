//! The credential plugin that the kubeconfig names: an `exec` of a user.
//!
//! kube would run it twice for each client. Later it would have each request wait for another run of a plugin that hangs, and
//! would never replace a token that the API server refuses. So it is run here: once for all clients, on a thread of its own, which
//! holds up neither shards nor the renewal of the Lease, and killed if it takes too long. A credential is replaced before it
//! expires, and once an answer is 401, since it may have been revoked. Meanwhile requests go on with the one that there is.

use super::client_error::{self, ClientError};
use super::plugin_errors::{failed, subject};
use crate::clock;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kube::config::{ExecConfig, ExecInteractiveMode};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{fmt, thread};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

/// A credential is replaced when it is valid for no longer than this.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// After a run, the next one begins no sooner than this, however often the plugin fails or the API server refuses what it returns.
/// Until then its credential is used even if it has expired by a clock that is wrong.
const PAUSE: Duration = Duration::from_secs(10);

/// The plugins of this process, each with its configuration. Clients for several purposes share the runs of one.
static PLUGINS: Mutex<Vec<(String, Arc<Plugin>)>> = Mutex::new(Vec::new());
/// The processes that run, and whether each has a group of its own. They are killed when this process ends.
static RUNNING: Mutex<Vec<(Pid, bool)>> = Mutex::new(Vec::new());

/// Kills the plugins that still run, for the end of this process.
pub(crate) fn end() {
    for (pid, grouped) in RUNNING.lock().drain(..) {
        kill(pid, grouped);
    }
}

/// Kills a process, with its children if it has a group of its own.
fn kill(pid: Pid, grouped: bool) {
    // It may have ended by itself.
    let _ = if grouped {
        kill_process_group(pid, Signal::KILL)
    } else {
        kill_process(pid, Signal::KILL)
    };
}

/// Describes a run that takes longer than it may, or than a request waits for it.
fn hangs(time: Duration) -> ClientError {
    let seconds = (time.as_secs_f64() * 10.0).round() / 10.0;
    ClientError::new(format!("{} has not ended after {seconds} s", subject()))
}

/// Describes a plugin that cannot be started, or waited for.
fn unstarted(error: &io::Error) -> ClientError {
    let why = client_error::file(error);
    ClientError::new(format!("{} cannot be run: {why}", subject()))
}

/// How long a plugin may take. `None` is without a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// A run is killed after this time.
    pub(super) run: Option<Duration>,
    /// A request fails after this time, with an error that names the plugin. It is shorter than the request's own deadline,
    /// which could only say that there is no answer.
    pub(super) request: Option<Duration>,
}

/// The credential that a plugin has returned. Its secrets are not printed.
#[derive(Clone)]
pub(super) struct Credential {
    /// The header that authorizes a request.
    pub(super) header: Option<HeaderValue>,
    /// The client's certificate and its key, in PEM.
    pub(super) identity: Option<(String, String)>,
    expires: Option<Timestamp>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// The part of an `ExecCredential` that is read.
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Credential {
    /// Returns whether it is valid for longer than this.
    fn lasts(&self, clock: Timestamp, margin: SignedDuration) -> bool {
        self.expires
            .is_none_or(|expires| expires.duration_since(clock) > margin)
    }

    fn parse(output: &[u8]) -> Result<Self, ClientError> {
        let fault = |fault: &str| ClientError::new(format!("{fault} {}", subject()));
        let text = str::from_utf8(output).ok();
        let status = text
            .and_then(|text| serde_saphyr::from_str::<ExecCredential>(text).ok())
            .ok_or_else(|| ClientError::new(format!("the output of {} is not an ExecCredential", subject())))?
            .status
            .ok_or_else(|| ClientError::new(format!("the ExecCredential of {} has no status", subject())))?;
        let expires = status
            .expiration_timestamp
            .map(|at| at.parse::<Timestamp>())
            .transpose()
            .map_err(|_| fault("the expiry time is malformed in the credential of"))?;
        let header = status
            .token
            .map(|token| HeaderValue::try_from(format!("Bearer {token}")))
            .transpose()
            .map_err(|_| {
                fault("a character that cannot be sent, such as the end of a line, is in the token of")
            })?
            .map(|mut header| {
                header.set_sensitive(true);
                header
            });
        let identity = match (status.client_certificate_data, status.client_key_data) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(fault(
                    "a certificate without its key, or the reverse, is in the credential of",
                ));
            }
        };
        if header.is_none() && identity.is_none() {
            return Err(fault("neither a token nor a certificate is in the credential of"));
        }
        Ok(Self {
            header,
            identity,
            expires,
        })
    }
}

/// A credential plugin. Clients share one.
pub(super) struct Plugin {
    exec: ExecConfig,
    timeouts: Timeouts,
    runs: Mutex<Runs>,
    /// Tells of each run that has ended.
    ended: watch::Sender<()>,
}

/// The runs of a plugin.
#[derive(Default)]
struct Runs {
    /// The last credential.
    credential: Option<Credential>,
    /// Set once the API server has refused it.
    refused: bool,
    /// When the run in progress began.
    running: Option<Instant>,
    /// When the last run ended, and why it failed, if it has.
    last: Option<(Instant, Option<ClientError>)>,
}

impl Runs {
    /// Returns what a request gets now; without anything, it waits for the run in progress. Also returns whether the caller has to
    /// begin one. `clock` is the time of day, by which credentials expire.
    fn next(&mut self, now: Instant, clock: Timestamp) -> (Option<Result<Credential, ClientError>>, bool) {
        let last = self.last.as_ref();
        let last = last.filter(|(ended, _)| now.saturating_duration_since(*ended) < PAUSE);
        let credential = self.credential.as_ref();
        let fresh = !self.refused && credential.is_some_and(|credential| credential.lasts(clock, MARGIN));
        let begins = !fresh && last.is_none() && self.running.is_none();
        if begins {
            self.running = Some(now);
        }
        let just_made = matches!(last, Some((_, None)));
        let usable =
            credential.filter(|credential| just_made || credential.lasts(clock, SignedDuration::ZERO));
        let failed = last.and_then(|(_, error)| error.clone());
        let answer = usable.cloned().map(Ok);
        let answer = answer.or_else(|| failed.filter(|_| self.running.is_none()).map(Err));
        (answer, begins)
    }

    /// Handles the end of the run.
    fn ended(&mut self, result: Result<Credential, ClientError>, now: Instant) {
        self.running = None;
        let error = match result {
            Ok(credential) => {
                (self.credential, self.refused) = (Some(credential), false);
                None
            }
            Err(error) => {
                if self.refused && !matches!(self.last, Some((_, Some(_)))) {
                    // Requests go on with the refused credential, so that their errors do not tell of the plugin.
                    tracing::warn!(
                        %error,
                        "the API server does not accept the credential of the plugin, and there is no other"
                    );
                }
                Some(error)
            }
        };
        self.last = Some((now, error));
    }

    /// Handles an answer by which the API server does not accept a request with this header. Only the last credential counts: it
    /// may have taken the place of that of the request meanwhile.
    fn refused(&mut self, header: &HeaderValue) {
        let credential = self.credential.as_ref();
        self.refused |= credential.is_some_and(|credential| credential.header.as_ref() == Some(header));
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").finish_non_exhaustive()
    }
}

impl Plugin {
    /// Returns the plugin of a configuration. The timeouts are those of the first caller.
    pub(super) fn of(exec: &ExecConfig, timeouts: Timeouts) -> Arc<Self> {
        // It has no other form that can be compared.
        let configuration = format!("{exec:?}");
        let mut plugins = PLUGINS.lock();
        if let Some((_, plugin)) = plugins.iter().find(|(known, _)| *known == configuration) {
            return plugin.clone();
        }
        let plugin = Arc::new(Self {
            exec: exec.clone(),
            timeouts,
            runs: Mutex::default(),
            ended: watch::Sender::new(()),
        });
        plugins.push((configuration, plugin.clone()));
        plugin
    }

    /// Sends a request with the credential. Waits for a run if there is no credential that can be used.
    pub(super) async fn send<B, F>(
        self: &Arc<Self>,
        mut request: Request<Body>,
        send: impl FnOnce(Request<Body>) -> F,
    ) -> Result<Response<B>, BoxError>
    where
        F: Future<Output = Result<Response<B>, BoxError>>,
    {
        let credential = self.wait(self.timeouts.request).await?;
        let Some(header) = credential.header else {
            let fault = "returned something other than a token when it was called again";
            return Err(ClientError::new(format!("{} {fault}", subject())).into());
        };
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let answer = send(request).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.runs.lock().refused(&header);
        }
        Ok(answer)
    }

    /// Returns the credential for creating a client: waits for as long as a run may take.
    pub(super) async fn first(self: &Arc<Self>) -> Result<Credential, ClientError> {
        // A run that is killed ends by itself.
        self.wait(None).await
    }

    async fn wait(self: &Arc<Self>, limit: Option<Duration>) -> Result<Credential, ClientError> {
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            // From before it is known that there is a run, so that its end is not missed.
            let mut ended = self.ended.subscribe();
            let (answer, begins) = self.runs.lock().next(Instant::now(), Timestamp::now());
            if begins {
                let plugin = self.clone();
                if let Err(error) = thread::Builder::new().spawn(move || plugin.ended(plugin.run())) {
                    self.ended(Err(unstarted(&error)));
                }
            }
            if let Some(answer) = answer {
                return answer;
            }
            // The sender is as old as this.
            let changed = ended.changed();
            match end {
                None => drop(changed.await),
                Some(end) => {
                    if timeout_at(end, changed).await.is_err() {
                        let since = self.runs.lock().running.unwrap_or(end);
                        return Err(hangs(clock::since(since)));
                    }
                }
            }
        }
    }

    fn ended(&self, result: Result<Credential, ClientError>) {
        self.runs.lock().ended(result, Instant::now());
        self.ended.send_replace(());
    }

    /// Runs the plugin to its end, and kills it if it takes longer than it may.
    fn run(&self) -> Result<Credential, ClientError> {
        let (mut command, grouped) = command(&self.exec)?;
        // Under the lock, so that this process cannot end without the other.
        let mut running = RUNNING.lock();
        let child = command.spawn().map_err(|error| unstarted(&error))?;
        let pid = Pid::from_child(&child);
        running.push((pid, grouped));
        drop(running);
        let (done, over) = mpsc::channel::<()>();
        let limit = self.timeouts.run;
        let guard = limit.map(|limit| {
            thread::Builder::new().spawn(move || {
                let hangs = over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if hangs {
                    kill(pid, grouped);
                }
                hangs
            })
        });
        let guard = guard.transpose();
        if guard.is_err() {
            kill(pid, grouped);
        }
        let output = child.wait_with_output();
        drop(done);
        RUNNING.lock().retain(|(other, _)| *other != pid);
        let guard = guard.map_err(|error| unstarted(&error))?;
        if let (Some(Ok(true)), Some(limit)) = (guard.map(thread::JoinHandle::join), limit) {
            return Err(hangs(limit));
        }
        let output = output.map_err(|error| unstarted(&error))?;
        if !output.status.success() {
            return Err(ClientError::new(failed(&output)));
        }
        Credential::parse(&output.stdout)
    }
}

/// Returns the command of a plugin, as client-go runs it, and whether it gets a process group of its own. At a terminal it gets none,
/// so that it may ask there, and an interrupt from the keyboard reaches it.
fn command(exec: &ExecConfig) -> Result<(Command, bool), ClientError> {
    let program = exec.command.as_ref();
    let mut command =
        Command::new(program.ok_or_else(|| ClientError::new("the credential plugin has no command"))?);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    let interactive = exec.interactive_mode != Some(ExecInteractiveMode::Never);
    let mut spec = json!({ "interactive": interactive });
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
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
    let at_terminal =
        std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    if !at_terminal {
        command.process_group(0);
    }
    Ok((command, !at_terminal))
}

#[cfg(test)]
mod tests;
