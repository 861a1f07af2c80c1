//! The loop that drives the list and watch of a kind. [`ListWatch`] decides when to list, watch and prove; [`OneKind`] knows
//! what is listed, and who gets it.
//!
//! Two watches need no list and no proof, and have loops of their own: the election's watch of its Lease
//! (`cluster/election.rs`), and the watch of slices of `endpointd top` (`cluster/watch/slice_changes.rs`).

use super::OneKind;
use super::event_stream::EventStream;
use super::initial::{Listing, Way};
use super::sources::Item;
use crate::clock;
use crate::cluster::cause::Cause;
use crate::cluster::codec;
use crate::core::lists::Demand;
use crate::core::lists::list_watch::{Action, End, ListWatch};
use bytes::Bytes;
use futures::future::BoxFuture;
use kube::client::Body;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A watch that shows nothing for this long, not even a bookmark (the server sends one a minute), is considered broken.
const SILENCE: Duration = Duration::from_secs(150);
/// Timeout in seconds of a short watch. Servers send a bookmark two seconds before the end, give or take one; and none
/// at all if that moment has passed when the watch begins.
const SHORT: u32 = 3;

/// Work in progress.
pub(super) type Work<T> = BoxFuture<'static, Result<T, Cause>>;

/// The result of taking some events of a watch.
#[derive(Debug)]
pub(super) struct Shown {
    /// Everything up to this version has been shown.
    pub(super) version: Option<u64>,
    /// The reason why the watch cannot go on past them, if it cannot.
    pub(super) end: Result<(), Cause>,
}

impl Shown {
    /// Creates the result of events up to one of this version, with the reason why the watch cannot go on, if it cannot.
    pub(super) fn until(version: Option<&str>, end: Result<(), Cause>) -> Self {
        match version.map(codec::version).transpose() {
            Ok(version) => Self { version, end },
            Err(error) => Self {
                version: None,
                end: Err(error.into()),
            },
        }
    }
}

/// Lists and watches. Never returns. It may be cancelled at any time, provided that everything that it showed is
/// forgotten then.
pub(super) async fn serve<L: Item, W: Item>(
    followed: &mut OneKind<L, W>,
    mut demands: watch::Receiver<Demand>,
    random: &mut fastrand::Rng,
) {
    let mut serving = Serving::<L> {
        list_watch: ListWatch::new(*demands.borrow_and_update()),
        start: Instant::now(),
        stream: Stream::None,
        reading: None,
        way: Way::Stream,
        from: 0,
        listed: false,
    };
    loop {
        serving.act(followed, random);
        let wake = serving.list_watch.wake().map(|wake| serving.start + wake);
        let (list_watch, now) = (&mut serving.list_watch, || clock::since(serving.start));
        tokio::select! {
            biased;
            _ = demands.changed() => list_watch.demanded(*demands.borrow_and_update(), now()),
            version = ready(&mut serving.reading) => {
                match &version {
                    Err(error) => followed.failed(error),
                    // A quiet watch shows nothing for up to a minute, so this ends the outage.
                    Ok(_) if matches!(serving.stream, Stream::Open(_)) => followed.succeeded(),
                    // Without a watch, the outage ends when one is open.
                    Ok(_) => {}
                }
                let version = version.map_err(|error| error.pause());
                let is_read = version.is_ok();
                list_watch.version_read(version, now(), random.f64());
                if is_read && list_watch.is_current() {
                    followed.is_current();
                }
            }
            progress = serving.stream.next() => serving.handle_progress(followed, random, progress),
            () = wait(wake) => {}
        }
    }
}

/// Picks a watch timeout of some minutes. The jitter spreads reconnects, so that added API servers get their share.
fn timeout_seconds(random: &mut fastrand::Rng) -> u32 {
    random.u32(300..600)
}

/// The operation in progress on the connection.
enum Stream<L> {
    None,
    Listing(Work<Listing<L>>),
    Opening(Work<Body>),
    Open(EventStream),
}

/// The result of that operation.
enum Progress<L> {
    Listed(Result<Listing<L>, Cause>),
    Opened(Result<Body, Cause>),
    /// Events, and when they arrived.
    Events(Result<Option<Bytes>, Cause>, Instant),
}

impl<L> Stream<L> {
    /// Waits for the next result. Cancel safe.
    async fn next(&mut self) -> Progress<L> {
        match self {
            Self::None => pending().await,
            Self::Listing(listing) => Progress::Listed(listing.await),
            Self::Opening(opening) => Progress::Opened(opening.await),
            Self::Open(events) => {
                let events = events.next(SILENCE).await;
                Progress::Events(events, Instant::now())
            }
        }
    }
}

/// A list and watch, and the operations that it has started.
struct Serving<L> {
    list_watch: ListWatch,
    /// Origin of its times.
    start: Instant,
    stream: Stream<L>,
    reading: Option<Work<u64>>,
    way: Way,
    /// The version from which the last watch was begun.
    from: u64,
    /// Set when a list was completed since the last one began.
    listed: bool,
}

impl<L: Item> Serving<L> {
    /// Starts all actions that are due now.
    fn act<W: Item>(&mut self, followed: &mut OneKind<L, W>, random: &mut fastrand::Rng) {
        let was_open = matches!(self.stream, Stream::Open(_));
        while let Some(action) = self.list_watch.act(clock::since(self.start)) {
            match action {
                Action::List => {
                    let again = std::mem::take(&mut self.listed);
                    let (proven, seconds) = (self.list_watch.is_proven(), timeout_seconds(random));
                    self.stream = Stream::Listing(followed.list(self.way, again, proven, seconds));
                }
                Action::Watch { from, short } => {
                    self.from = from;
                    let seconds = if short { SHORT } else { timeout_seconds(random) };
                    self.stream = Stream::Opening(followed.watch(from, seconds));
                }
                Action::ReadVersion => self.reading = Some(followed.version()),
                Action::Prove(demand) => {
                    let resource = followed.resource();
                    tracing::debug!(resource, demand = demand.number, "the state is proven current");
                    followed.prove(demand);
                }
                Action::Rewound { under } => {
                    let demand = followed.rewound(under);
                    self.list_watch.demanded(demand, clock::since(self.start));
                }
            }
        }
        if !self.list_watch.is_reading() {
            self.reading = None;
        }
        if self.list_watch.is_idle() {
            self.stream = Stream::None;
        }
        if was_open && !matches!(self.stream, Stream::Open(_)) {
            followed.closed();
        }
    }

    /// Handles a result.
    fn handle_progress<W: Item>(
        &mut self,
        followed: &mut OneKind<L, W>,
        random: &mut fastrand::Rng,
        progress: Progress<L>,
    ) {
        match progress {
            Progress::Listed(Ok(listing)) => {
                self.stream = Stream::None;
                (self.way, self.listed) = (Way::Stream, true);
                followed.succeeded();
                let (version, objects) = (listing.version, listing.objects);
                if let Some(asked) = self.list_watch.listing()
                    && self.list_watch.accepts(version)
                {
                    followed.listed(listing, asked);
                }
                self.list_watch
                    .listed(version, objects, clock::since(self.start), random.f64());
            }
            Progress::Listed(Err(error)) => {
                self.stream = Stream::None;
                self.way = self.way.after(&error);
                followed.failed(&error);
                self.list_watch
                    .list_failed(error.pause(), clock::since(self.start), random.f64());
            }
            Progress::Opened(Ok(body)) => {
                followed.succeeded();
                self.stream = Stream::Open(EventStream::new(body));
                followed.opened(self.from);
            }
            Progress::Events(Ok(Some(events)), at) => {
                let Shown { version, end } = followed.shown(&events, at);
                if let Some(version) = version {
                    self.list_watch.shown(version);
                }
                if end.is_err() {
                    self.ended(followed, random, end);
                }
            }
            Progress::Opened(Err(error)) => {
                if !matches!(error, Cause::Expired) {
                    followed.failed(&error);
                }
                self.ended(followed, random, Err(error));
            }
            Progress::Events(Err(error), _) => self.ended(followed, random, Err(error)),
            Progress::Events(Ok(None), _) => self.ended(followed, random, Ok(())),
        }
    }

    fn ended<W: Item>(
        &mut self,
        followed: &mut OneKind<L, W>,
        random: &mut fastrand::Rng,
        end: Result<(), Cause>,
    ) {
        self.stream = Stream::None;
        let resource = followed.resource();
        let end = match end {
            Ok(()) => End::Orderly,
            Err(Cause::Expired) => End::Expired,
            Err(error) => {
                tracing::debug!(resource, %error, "the watch broke off; it is resumed");
                error.pause().map_or(End::Broken, End::Busy)
            }
        };
        self.list_watch.ended(end, clock::since(self.start), random.f64());
        followed.closed();
    }
}

/// Waits for the work in progress, if there is any.
async fn ready<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

/// Sleeps until then.
async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}
