//! The loop that drives the lists and watches of all kinds, and those of followed Leases. [`ListWatch`] decides when to list,
//! watch and prove; a [`Subject`] knows what is listed, and who gets it.
//!
//! Two watches need no list and no proof, and have loops of their own: the election's watch of its Lease
//! (`cluster/election.rs`), and the watch of slices of `endpointd top` (`cluster/watch/slice_changes.rs`).

use super::event_stream::EventStream;
use super::initial::Way;
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

/// The version and the size of a complete list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// The version of the list.
    pub(super) version: u64,
    /// Number of objects.
    pub(super) objects: usize,
}

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

/// Something that is listed and watched.
pub(super) trait Followed: Send {
    /// A list that is complete.
    type Listing: Send + 'static;

    /// Returns its name in the log.
    fn resource(&self) -> &'static str;

    /// Lists everything. `again` is set if everything was listed before, and `proven` then says whether the state was
    /// known to be current.
    fn list(&mut self, way: Way, again: bool, proven: bool, seconds: u32) -> Work<Self::Listing>;

    /// Returns what a list has shown.
    fn shows(listing: &Self::Listing) -> Listed;

    /// Hands on a list, which was asked for under this demand.
    fn listed(&mut self, listing: Self::Listing, asked: Demand);

    /// Begins a watch from a version, for this time. Ready once the server has begun to answer.
    fn watch(&mut self, from: u64, seconds: u32) -> Work<Body>;

    /// Reads the present version, from the present state of the store.
    fn version(&mut self) -> Work<u64>;

    /// Handles that the watch from this version was opened.
    fn opened(&mut self, from: u64);

    /// Handles that a watch that was open has ended.
    fn closed(&mut self);

    /// Hands on the objects in some events, which arrived at this time.
    fn shown(&mut self, events: &[u8], at: Instant) -> Shown;

    /// Handles that nothing is missing, though the watch may be silent.
    fn is_current(&mut self) {}

    /// Handles that the state is proven to meet a demand.
    fn prove(&mut self, demand: Demand);

    /// Handles that versions went backwards. Returns the demand to meet then.
    fn rewound(&mut self, under: Demand) -> Demand;

    /// Records that the resource could not be read.
    fn failed(&mut self, cause: &Cause);

    /// Records that the resource could be read.
    fn succeeded(&mut self);
}

/// Lists and watches. Never returns. It may be cancelled at any time, provided that everything that it showed is
/// forgotten then.
pub(super) async fn serve<S: Followed>(
    followed: &mut S,
    mut demands: watch::Receiver<Demand>,
    random: &mut fastrand::Rng,
) {
    let mut serving = Serving::<S> {
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
enum Stream<S: Followed> {
    None,
    Listing(Work<S::Listing>),
    Opening(Work<Body>),
    Open(EventStream),
}

/// The result of that operation.
enum Progress<S: Followed> {
    Listed(Result<S::Listing, Cause>),
    Opened(Result<Body, Cause>),
    /// Events, and when they arrived.
    Events(Result<Option<Bytes>, Cause>, Instant),
}

impl<S: Followed> Stream<S> {
    /// Waits for the next result. Cancel safe.
    async fn next(&mut self) -> Progress<S> {
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
struct Serving<S: Followed> {
    list_watch: ListWatch,
    /// Origin of its times.
    start: Instant,
    stream: Stream<S>,
    reading: Option<Work<u64>>,
    way: Way,
    /// The version from which the last watch was begun.
    from: u64,
    /// Set when a list was completed since the last one began.
    listed: bool,
}

impl<S: Followed> Serving<S> {
    /// Starts all actions that are due now.
    fn act(&mut self, followed: &mut S, random: &mut fastrand::Rng) {
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
    fn handle_progress(&mut self, followed: &mut S, random: &mut fastrand::Rng, progress: Progress<S>) {
        match progress {
            Progress::Listed(Ok(listing)) => {
                self.stream = Stream::None;
                (self.way, self.listed) = (Way::Stream, true);
                followed.succeeded();
                let Listed { version, objects } = S::shows(&listing);
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

    fn ended(&mut self, followed: &mut S, random: &mut fastrand::Rng, end: Result<(), Cause>) {
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
