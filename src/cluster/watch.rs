//! Lists and watches of one kind: the state of the server and then its changes, for as long as the process
//! runs. Nothing is done here beyond decoding and cutting: what an event means is the shards' business.

mod sources;

use super::decode::{self, Decode, EventKind};
use crate::actors::router::Router;
use crate::actors::standing::Standing;
use crate::core::namespace::Kind;
use crate::ops::metrics::WatchMetrics;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http::{Method, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use percent_encoding::NON_ALPHANUMERIC;
pub use sources::{Endpoints, Gone, Nodes, Pods, Services, Slices};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Objects a page of a list has at most: as many as fit a few megabytes.
const PAGE: usize = 500;
/// How long a server may take to begin to answer, or to send the next page.
const ANSWER: Duration = Duration::from_secs(60);
/// A watch that shows nothing for this long, not even a bookmark (the server sends one a minute), is broken.
const SILENCE: Duration = Duration::from_secs(150);
/// A line longer than this is no object: etcd does not hold such.
const LONGEST_LINE: usize = 16 << 20;
/// What is read in one go is handed on in one go, but never more than about this many bytes.
const GULP: usize = 256 << 10;
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A watch that ends after no longer than this, showing nothing, was not really begun.
const BRIEF: Duration = Duration::from_secs(5);
/// After so many failures in a row, none of which showed anything new, everything is listed again.
const HOPELESS: u32 = 10;

const ACCEPT_JSON: &str = "application/json";

/// Why a list or a watch ended.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("{0}")]
    Client(#[from] kube::Error),
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
    #[error("no answer for {0:?}")]
    Silent(Duration),
    #[error("a line of more than {LONGEST_LINE} bytes")]
    LongLine,
}

/// A kind that is listed and watched.
pub trait Source: Send + Sync + 'static {
    /// Which.
    const KIND: Kind;
    /// The collection's path.
    const PATH: &'static str;
    /// What a watch asks for.
    const ACCEPT: &'static str = ACCEPT_JSON;
    /// Restricts lists.
    const LIST: &'static str = "";
    /// Restricts watches.
    const WATCH: &'static str = "";
    /// What lists consist of.
    type Listed: Decode;
    /// What watches consist of.
    type Watched: Decode;

    /// Hands on what a list showed.
    fn listed(router: &Router, items: Vec<Self::Listed>, epoch: u8);
    /// Hands on what a watch showed: each with whether it is gone, in order.
    fn watched(router: &Router, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8);
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
        if !matches!(S::KIND, Kind::Slice | Kind::Endpoints) {
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
            self.router.forget(S::KIND);
        }
    }

    /// Lists, then watches, and starts over whenever the watch cannot be resumed. Never returns. It can be
    /// dropped at any time, if all that it showed is forgotten then.
    async fn serve<S: Source>(&mut self) {
        let mut failures = 0u32;
        // Lists after which no watch showed anything. A server whose history is gone as soon as it has told it
        // must not be asked in a tight loop.
        let mut barren = 0u32;
        let mut page_size = PAGE;
        let mut first = true;
        loop {
            self.epoch = self.epoch.wrapping_add(1);
            self.term = self.standing.borrow().term;
            self.metrics.lists.increment(1);
            match self.list::<S>(page_size, first).await {
                Ok(version) => {
                    (failures, page_size, first) = (0, PAGE, false);
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
                    // A list so slow that its pages expire is asked for in one piece.
                    page_size = if matches!(error, WatchError::Expired) {
                        0
                    } else {
                        PAGE
                    };
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

    /// Lists everything, page by page. Returns the version that the list shows.
    ///
    /// The first list is handed on as it comes. A later one is held back until it is whole, cut to facts: while
    /// it is being handed on nothing is planned, and that must not take as long as the server takes to list;
    /// and one that breaks off has changed nothing.
    async fn list<S: Source>(&mut self, page_size: usize, first: bool) -> Result<String, WatchError> {
        let mut next = String::new();
        let mut kept = Vec::new();
        loop {
            let page = timeout(ANSWER, self.page::<S>(page_size, &next))
                .await
                .map_err(|_| WatchError::Silent(ANSWER))??;
            self.complain::<S>(&page.errors);
            self.metrics.listed.increment(page.items.len() as u64);
            if first {
                S::listed(&self.router, page.items, self.epoch);
            } else {
                kept.extend(page.items);
            }
            next = page.next;
            if next.is_empty() {
                let version = decode::version(&page.version)?;
                if !first {
                    self.router.begin_list(S::KIND);
                    S::listed(&self.router, kept, self.epoch);
                }
                self.router.end_list(S::KIND, self.epoch, version);
                return Ok(page.version);
            }
        }
    }

    async fn page<S: Source>(
        &self,
        page_size: usize,
        next: &str,
    ) -> Result<decode::Page<S::Listed>, WatchError> {
        let mut uri = format!("{}?limit={page_size}{}", S::PATH, S::LIST);
        if !next.is_empty() {
            uri.push_str("&continue=");
            uri.extend(percent_encoding::utf8_percent_encode(next, NON_ALPHANUMERIC));
        }
        let mut body = self.get(&uri, ACCEPT_JSON).await?;
        // Frames go as they come, so that a page is never whole in memory twice.
        let mut buffer = BytesMut::new();
        while take_frame(body.frame().await, &mut buffer)? {}
        Ok(decode::page(&buffer)?)
    }

    /// Watches from a version, which moves on with each event, until the watch ends.
    async fn watch<S: Source>(&mut self, version: &mut String) -> Result<(), WatchError> {
        let seconds = self.random.u32(300..600);
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}{}",
            S::PATH,
            S::WATCH
        );
        let mut body = timeout(ANSWER, self.get(&uri, S::ACCEPT))
            .await
            .map_err(|_| WatchError::Silent(ANSWER))??;
        let mut buffer = BytesMut::new();
        if self.resuming {
            // What has arrived with the answer is taken first.
            let mut ended = false;
            while !ended && let Some(frame) = body.frame().now_or_never() {
                ended = !take_frame(frame, &mut buffer)?;
            }
            if let Some(end) = memchr_last_newline(&buffer) {
                let lines = buffer.split_to(end + 1).freeze();
                self.take_lines::<S>(&lines, version)?;
            }
            self.resuming = false;
            // Of what is known, nothing has been left out: all of it is of this epoch.
            self.router
                .end_list(S::KIND, self.epoch, decode::version(version)?);
            if ended {
                return Ok(());
            }
        }
        loop {
            let frame = timeout(SILENCE, body.frame())
                .await
                .map_err(|_| WatchError::Silent(SILENCE))?;
            let mut ended = !take_frame(frame, &mut buffer)?;
            // What else has arrived already is taken along.
            while !ended && buffer.len() < GULP {
                let Some(frame) = body.frame().now_or_never() else {
                    break;
                };
                ended = !take_frame(frame, &mut buffer)?;
            }
            if let Some(end) = memchr_last_newline(&buffer) {
                let lines = buffer.split_to(end + 1).freeze();
                self.take_lines::<S>(&lines, version)?;
            } else if buffer.len() > LONGEST_LINE {
                return Err(WatchError::LongLine);
            }
            if ended {
                // A last line without its end was cut off; it comes again.
                return Ok(());
            }
        }
    }

    /// Hands on what whole lines show. The version moves on to the last event that was understood.
    fn take_lines<S: Source>(&mut self, lines: &[u8], version: &mut String) -> Result<(), WatchError> {
        let mut items = Vec::new();
        let mut errors = Vec::new();
        let mut end = Ok(());
        for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match take_line::<S>(line) {
                Ok(Line::Object(item, at, gone)) => {
                    items.push((item, gone));
                    *version = at;
                }
                Ok(Line::Bookmark(at)) => *version = at,
                Ok(Line::Undecodable(error, at)) => {
                    errors.push(error);
                    *version = at;
                }
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        self.complain::<S>(&errors);
        self.metrics.watched.increment(items.len() as u64);
        S::watched(&self.router, items, self.epoch);
        end
    }

    /// Objects that cannot be used are named, and left out.
    fn complain<S: Source>(&self, errors: &[String]) {
        for error in errors {
            self.metrics.undecodable.increment(1);
            tracing::error!(resource = S::KIND.as_str(), %error, "an object cannot be decoded and is left out");
        }
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
        let status = decode::status(head.status.as_u16(), &body);
        Err(WatchError::Status {
            code: status.code,
            reason: status.reason,
            message: status.message,
        })
    }
}

/// Waits until something is so of what this process does.
async fn until(standing: &mut watch::Receiver<Standing>, is_so: impl FnMut(&Standing) -> bool) {
    if standing.wait_for(is_so).await.is_err() {
        // Nothing will change any more.
        std::future::pending::<()>().await;
    }
}

/// What a line of a watch shows.
enum Line<T> {
    /// An object, its version, and whether it is gone.
    Object(T, String, Option<Gone>),
    /// How far the watch is.
    Bookmark(String),
    /// An object that cannot be used, why, and its version.
    Undecodable(String, String),
}

/// Takes a line apart. An error means that the watch cannot go on past it.
fn take_line<S: Source>(line: &[u8]) -> Result<Line<S::Watched>, WatchError> {
    let event = decode::event(line)?;
    match event.kind {
        EventKind::Bookmark => Ok(Line::Bookmark(decode::object_version(event.object)?)),
        EventKind::Error => {
            let status = decode::status(0, event.object);
            Err(match status.code {
                410 => WatchError::Expired,
                code => WatchError::Status {
                    code,
                    reason: status.reason,
                    message: status.message,
                },
            })
        }
        EventKind::Applied | EventKind::Deleted => match take_object::<S>(event.object) {
            Ok((item, at)) => {
                let gone = match event.kind {
                    EventKind::Deleted => Some(Gone(decode::version(&at)?)),
                    _ => None,
                };
                Ok(Line::Object(item, at, gone))
            }
            // What is gone must not be kept, so everything is listed again.
            Err(_) if event.kind == EventKind::Deleted => Err(WatchError::Expired),
            Err(error) => {
                let named = decode::object_name(event.object).unwrap_or_default();
                Ok(Line::Undecodable(
                    format!("{named}: {error}"),
                    decode::object_version(event.object)?,
                ))
            }
        },
    }
}

/// Decodes an object and its version.
fn take_object<S: Source>(json: &[u8]) -> Result<(S::Watched, String), decode::DecodeError> {
    let wire: <S::Watched as Decode>::Wire<'_> = serde_json::from_slice(json)?;
    let version = S::Watched::version_of(&wire).to_owned();
    Ok((S::Watched::decode(wire)?, version))
}

/// Adds a frame's data to the buffer. False at the end of the stream.
fn take_frame(
    frame: Option<Result<http_body::Frame<Bytes>, kube::Error>>,
    buffer: &mut BytesMut,
) -> Result<bool, WatchError> {
    match frame {
        None => Ok(false),
        Some(frame) => {
            if let Ok(data) = frame?.into_data() {
                buffer.extend_from_slice(&data);
            }
            Ok(true)
        }
    }
}

fn memchr_last_newline(buffer: &[u8]) -> Option<usize> {
    buffer.iter().rposition(|&byte| byte == b'\n')
}
