//! Lists and watches of one kind: the state of the server and then its changes, for as long as the process
//! runs. Nothing is done here beyond decoding and cutting: what an event means is the shards' business.

mod initial;
mod lines;
mod sources;

pub use sources::{Endpoints, Gone, Nodes, Pods, Services, Slices, Source, WholeEndpoints, WholeSlices};

use self::initial::Way;
use self::lines::{LONGEST_LINE, Lines, take_lines};
use super::client_error::ClientError;
use super::decode::Undecodable;
use super::pages::{ANSWER, Silent};
use super::{decode, wire};
use crate::actors::router::Router;
use crate::actors::standing::Standing;
use crate::ops::metrics::WatchMetrics;
use crate::tenant_log;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// A watch that shows nothing for this long, not even a bookmark (the server sends one a minute), is broken.
const SILENCE: Duration = Duration::from_secs(150);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ends after no longer than this, showing nothing, was not really begun.
const BRIEF: Duration = Duration::from_secs(5);
/// After so many failures in a row, none of which showed anything new, everything is listed again.
const HOPELESS: u32 = 10;

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("{0}")]
    Client(ClientError),
    #[error("the server answered {code} {reason}: {message}")]
    Status {
        code: u16,
        reason: String,
        message: String,
    },
    #[error("the version to go on from is gone")]
    Expired,
    #[error("{0}")]
    Decode(#[from] decode::DecodeError),
    #[error("{0}")]
    Silent(#[from] Silent),
    #[error("a line of more than {LONGEST_LINE} bytes")]
    LongLine,
    #[error("the list that was streamed broke off")]
    NotListed,
}

impl From<kube::Error> for WatchError {
    fn from(error: kube::Error) -> Self {
        Self::Client(error.into())
    }
}

impl WatchError {
    fn of_status(status: wire::Status) -> Self {
        match status.code {
            410 => Self::Expired,
            code => Self::Status {
                code,
                reason: status.reason,
                message: status.message,
            },
        }
    }
}

/// One kind's list and watch.
pub struct Watch {
    client: Client,
    router: Arc<Router>,
    random: fastrand::Rng,
    epoch: u8,
    /// What this process does.
    standing: watch::Receiver<Standing>,
    /// The last term in which everything that is known was listed, or the watch was begun.
    term: u64,
    /// Nothing is planned until the watch has been begun anew.
    resuming: bool,
    metrics: WatchMetrics,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Of a kind; `seed` is for the jitter of pauses.
    pub fn new<S: Source>(
        client: Client,
        router: Arc<Router>,
        standing: watch::Receiver<Standing>,
        seed: u64,
    ) -> Self {
        let random = fastrand::Rng::with_seed(seed ^ (S::KIND.index() as u64 + 1));
        Self {
            client,
            router,
            random,
            epoch: 0,
            standing,
            term: 0,
            resuming: false,
            metrics: WatchMetrics::new(S::KIND),
        }
    }

    /// Lists and watches for as long as the process runs: what is written by those who lead, only while this
    /// process does.
    pub async fn run<S: Source>(mut self) {
        if !S::OUTPUT {
            return self.serve::<S>().await;
        }
        let mut standing = self.standing.clone();
        loop {
            let follows = |standing: &Standing| standing.role.follows_outputs();
            let Ok(term) = standing.wait_for(follows).await.map(|standing| standing.term) else {
                // Nobody is left who could say that it is this process's turn.
                return;
            };
            let over = |standing: &Standing| !follows(standing) || standing.term != term;
            tokio::select! {
                biased;
                () = until(&mut standing, over) => {}
                () = self.serve::<S>() => {}
            }
            self.metrics.left();
            self.router.forget(S::KIND);
        }
    }

    /// Lists, then watches, and starts over whenever the watch cannot be resumed. Never returns. It can be
    /// dropped at any time, if all that it showed is forgotten then.
    async fn serve<S: Source>(&mut self) {
        if S::OUTPUT {
            self.router.inputs_listed().await;
        }
        let mut failures = 0u32;
        // Lists after which no watch showed anything. A server whose history is gone as soon as it has told it
        // must not be asked in a tight loop.
        let mut barren = 0u32;
        let mut way = Way::Stream;
        let mut first = true;
        loop {
            self.epoch = self.epoch.wrapping_add(1);
            self.term = self.standing.borrow().term;
            self.metrics.lists.increment(1);
            match self.list::<S>(way, first).await {
                Ok(version) => {
                    (failures, way, first) = (0, Way::Stream, false);
                    self.resuming = false;
                    let fruitful = self.follow::<S>(version).await;
                    tracing::info!(
                        resource = S::KIND.as_str(),
                        "the watch cannot be resumed; listing again"
                    );
                    barren = if fruitful { 0 } else { barren + 1 };
                    if barren > 1 {
                        self.pause(barren).await;
                    }
                }
                Err(error) => {
                    way = way.after(&error);
                    tracing::warn!(resource = S::KIND.as_str(), %error, "listing failed; it will be tried again");
                    failures += 1;
                    self.pause(failures).await;
                }
            }
        }
    }

    /// Watches from a version for as long as the watch can be resumed. Whether it showed anything, or at least
    /// lasted for a while.
    async fn follow<S: Source>(&mut self, mut version: String) -> bool {
        let mut failures = 0u32;
        let mut fruitful = false;
        let mut refused = false;
        loop {
            self.metrics.watches.increment(1);
            let (start, before) = (Instant::now(), version.clone());
            let (mut standing, term) = (self.standing.clone(), self.term);
            let end = tokio::select! {
                biased;
                () = until(&mut standing, |standing| standing.term != term) => {
                    self.begin_term::<S>();
                    continue;
                }
                end = self.watch::<S>(&mut version) => end,
            };
            let lasted = Instant::now().saturating_duration_since(start);
            if version != before || (end.is_ok() && lasted > BRIEF) {
                (failures, fruitful) = (0, true);
            }
            match end {
                // A server that ends watches as soon as they begin must not be asked in a tight loop.
                Ok(()) if lasted <= BRIEF && version == before => failures += 1,
                Ok(()) => {}
                Err(WatchError::Expired) => return fruitful,
                // Whoever may list and not watch would else wonder why everything is late.
                Err(error @ WatchError::Status { code: 401 | 403, .. })
                    if !std::mem::replace(&mut refused, true) =>
                {
                    failures += 1;
                    tracing::warn!(resource = S::KIND.as_str(), %error, "the watch is refused; it will be tried again");
                }
                Err(error) => {
                    failures += 1;
                    tracing::debug!(resource = S::KIND.as_str(), %error, "the watch broke; it is resumed");
                }
            }
            if failures >= HOPELESS {
                tracing::warn!(resource = S::KIND.as_str(), failures, "the watch keeps breaking");
                return fruitful;
            }
            if failures > 0 {
                self.pause(failures).await;
            }
        }
    }

    /// This process begins to write. What it knows may be old: a connection that was lost without a word shows
    /// nothing for minutes. So the watch is begun anew from where it is, and nothing is planned before the
    /// server has answered.
    fn begin_term<S: Source>(&mut self) {
        self.term = self.standing.borrow().term;
        self.resuming = true;
        self.router.begin_list(S::KIND);
    }

    async fn pause(&mut self, failures: u32) {
        let nominal = Duration::from_millis(100)
            .saturating_mul(1 << failures.min(10))
            .min(LONGEST_PAUSE);
        sleep(nominal.mul_f64(0.5 + self.random.f64() / 2.0)).await;
    }

    /// Watches from a version, which moves on with each event, until the watch ends.
    async fn watch<S: Source>(&mut self, version: &mut String) -> Result<(), WatchError> {
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={}{}",
            S::PATH,
            self.timeout_seconds(),
            S::WATCH
        );
        let mut lines = Lines::new(self.answer(&uri, S::ACCEPT).await?);
        self.metrics.alive();
        if self.resuming {
            // What has arrived with the answer is taken first.
            if let Some(chunk) = lines.arrived()? {
                self.take::<S>(&chunk, version)?;
            }
            self.resuming = false;
            // Of what is known, nothing has been left out: all of it is of this epoch.
            self.router
                .end_list(S::KIND, self.epoch, decode::version(version)?);
        }
        while let Some(chunk) = lines.next(SILENCE).await? {
            self.take::<S>(&chunk, version)?;
        }
        Ok(())
    }

    /// Hands on what some lines of a watch show. The version moves on with them.
    fn take<S: Source>(&self, lines: &[u8], version: &mut String) -> Result<(), WatchError> {
        let shown = take_lines::<S::Watched>(lines, false);
        self.metrics.alive();
        self.complain::<S>(&shown.errors);
        self.metrics.watched.increment(shown.items.len() as u64);
        S::watched(&self.router, shown.items, self.epoch);
        if let Some(at) = shown.version {
            *version = at;
        }
        shown.end
    }

    /// Watches end after some minutes, not all at once, so that servers that are added get their share.
    fn timeout_seconds(&mut self) -> u32 {
        self.random.u32(300..600)
    }

    /// Objects that cannot be used are named, and left out.
    fn complain<S: Source>(&self, errors: &[Undecodable]) {
        for error in errors {
            self.metrics.undecodable.increment(1);
            if tenant_log::admits(&error.namespace) {
                tracing::error!(resource = S::KIND.as_str(), %error, "an object cannot be decoded and is left out");
            }
        }
    }

    /// The body of the answer to a request, once the server has begun to answer.
    async fn answer(&self, uri: &str, accept: &str) -> Result<Body, WatchError> {
        timeout(ANSWER, self.get(uri, accept))
            .await
            .map_err(|_| Silent(ANSWER))?
    }

    async fn get(&self, uri: &str, accept: &str) -> Result<Body, WatchError> {
        let request = http::Request::builder()
            .method(Method::GET)
            .uri(uri)
            .header(header::ACCEPT, accept);
        let request = request.body(Body::empty()).map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body);
        }
        let body = body.collect_bytes().await.unwrap_or_else(|_| Bytes::new());
        if head.status == StatusCode::GONE {
            return Err(WatchError::Expired);
        }
        Err(WatchError::of_status(decode::status(head.status.as_u16(), &body)))
    }
}

/// Waits until something is so of what this process does.
async fn until(standing: &mut watch::Receiver<Standing>, is_so: impl FnMut(&Standing) -> bool) {
    if standing.wait_for(is_so).await.is_err() {
        // Nothing will change any more.
        std::future::pending::<()>().await;
    }
}
