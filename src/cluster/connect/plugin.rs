//! The credential plugin that the kubeconfig names: an `exec` of a user.
//!
//! kube would run it for each client, wait for it without an end on a thread that nothing can stop, and run it again for each
//! request if its credential has expired by then. So it is run here. There is one run at a time, and all that need the
//! credential wait for it; a run that takes too long is killed; and the next one begins after a pause, which grows while runs
//! fail or the API server refuses what they return. A credential is replaced before it expires, and until then requests go on
//! with the one that there is; it is also replaced once an answer is 401, since it may have been revoked. Requests wait a moment for
//! its successor then, but not for as long as a plugin may hang.

mod process;
mod runs;

pub(crate) use process::end;

use self::process::Run;
use self::runs::Runs;
use super::client_error::ClientError;
use super::plugin_errors::{failed, subject};
use crate::clock;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use kube::config::ExecConfig;
use parking_lot::Mutex;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, thread};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tower::BoxError;

/// The plugins of this process, each with its configuration. Clients for several purposes share the runs of one.
static PLUGINS: Mutex<Vec<(String, Arc<Plugin>)>> = Mutex::new(Vec::new());

/// Describes a run that takes longer than it may, or than a request waits for it.
fn hangs(time: Duration) -> ClientError {
    let seconds = (time.as_secs_f64() * 10.0).round() / 10.0;
    ClientError::new(format!("{} has not ended after {seconds} s", subject()))
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
    /// The number of runs that have ended.
    ended: watch::Sender<u64>,
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
            runs: Mutex::new(Runs::new()),
            ended: watch::Sender::new(0),
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
            self.runs.lock().refused(&header, Instant::now());
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
            let next = self.runs.lock().next(Instant::now(), Timestamp::now());
            if next.begins {
                self.begin();
            }
            let since = match next.answer {
                Some(answer) => return answer,
                None => next.since,
            };
            // The sender is as old as this.
            let changed = ended.changed();
            match end.into_iter().chain(next.again).min() {
                None => drop(changed.await),
                Some(until) => {
                    let passed = timeout_at(until, changed).await.is_err();
                    if passed && end.is_some_and(|end| end <= Instant::now()) {
                        return Err(hangs(clock::since(since)));
                    }
                }
            }
        }
    }

    /// Runs the plugin on a thread of its own: starting a process and waiting for it block, and must hold up neither shards
    /// nor the renewal of the lease.
    fn begin(self: &Arc<Self>) {
        let plugin = self.clone();
        let thread = thread::Builder::new().name("credentials".to_owned());
        let spawned = thread.spawn(move || {
            let result = plugin.run();
            plugin.end_run(result);
        });
        if spawned.is_err() {
            let fault = format!("no thread can be started to run {}", subject());
            self.end_run(Err(ClientError::new(fault)));
        }
    }

    fn run(&self) -> Result<Credential, ClientError> {
        let output = Run::start(&self.exec)?.finish(self.timeouts.run)?;
        if !output.status.success() {
            return Err(ClientError::new(failed(&output)));
        }
        Credential::parse(&output.stdout)
    }

    fn end_run(&self, result: Result<Credential, ClientError>) {
        let error = result.as_ref().err().map(ToString::to_string);
        let mut runs = self.runs.lock();
        runs.ended(result, Instant::now(), Timestamp::now(), fastrand::f64());
        let stuck = runs.is_stuck();
        drop(runs);
        // Requests go on with the refused credential, so that their errors do not tell of the plugin.
        if let Some(error) = error.filter(|_| stuck) {
            tracing::warn!(
                error,
                "the API server does not accept the credential of the plugin, and there is no other"
            );
        }
        self.ended.send_modify(|ended| *ended += 1);
    }
}

#[cfg(test)]
mod tests;
