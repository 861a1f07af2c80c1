//! Lists and watches one kind for as long as the process runs. [`View`] decides when to list, watch and prove; this
//! module carries it out. It only decodes objects and cuts them to facts: the shards interpret them.

mod events;
mod handler;
mod initial;
mod leases;
mod reader;
mod sources;

pub(crate) use handler::WatchHandler;
pub(crate) use leases::LeaseReader;
pub(crate) use sources::{
    AllSlices, Endpoints, Mirrored, Nodes, Pods, Services, Slices, Source, WholeAllSlices, WholeEndpoints,
    WholeMirrored, WholeSlices,
};

use self::events::take_events;
use self::initial::{Listing, Way};
use self::reader::Reader;
use super::cause::Cause;
use super::codec;
use super::encodings::Encodings;
use super::event_stream::EventStream;
use super::outage::OutageLog;
use crate::core::leadership::view::{Action, End, View};
use crate::core::role::Leadership;
use crate::metrics::WatchMetrics;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A watch that shows nothing for this long, not even a bookmark (the server sends one a minute), is considered broken.
const SILENCE: Duration = Duration::from_secs(150);
/// Timeout in seconds of a short watch. Servers send a bookmark two seconds before the end, give or take one; and none
/// at all if that moment has passed when the watch begins.
const SHORT: u32 = 3;

/// The list and watch of one kind.
pub(crate) struct Watch {
    reader: Reader,
    random: fastrand::Rng,
    /// Counts the lists, so that objects that a list leaves out are known to be gone.
    epoch: u8,
    /// Set when objects may have been handed on under the epoch.
    used: bool,
    /// The role of this process.
    leadership: watch::Receiver<Leadership>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Creates the watch of a kind; `seed` is for the jitter of pauses.
    pub(crate) fn new<S: Source>(
        client: Client,
        handler: Arc<dyn WatchHandler>,
        leadership: watch::Receiver<Leadership>,
        encodings: Encodings,
        outages: OutageLog,
        seed: u64,
    ) -> Self {
        let random = fastrand::Rng::with_seed(seed ^ (S::KIND.index() as u64 + 1));
        Self {
            reader: Reader {
                client,
                handler,
                encodings,
                metrics: WatchMetrics::new(S::KIND),
                outages,
            },
            random,
            epoch: 0,
            used: true,
            leadership,
        }
    }

    /// Lists and watches for as long as the process runs. Outputs are followed only by the leader and in a dry run.
    pub(crate) async fn run<S: Source>(mut self) {
        if !S::OUTPUT {
            return self.serve::<S>().await;
        }
        let mut leadership = self.leadership.clone();
        loop {
            let follows = |leadership: &Leadership| leadership.role.follows_outputs();
            let Ok(term) = leadership
                .wait_for(follows)
                .await
                .map(|leadership| leadership.term)
            else {
                // The sender is gone, so the role cannot change any more.
                return;
            };
            let over = |leadership: &Leadership| !follows(leadership) || leadership.term != term;
            tokio::select! {
                biased;
                () = until(&mut leadership, over) => {}
                () = self.serve::<S>() => {}
            }
            self.left::<S>();
            self.reader.metrics.left();
            self.reader.outages.left(S::KIND.as_str());
            self.reader.handler.forget(S::KIND);
        }
    }

    /// Carries out the actions of the kind's view. Never returns. It may be cancelled at any time, provided that
    /// everything that it showed is forgotten then.
    async fn serve<S: Source>(&mut self) {
        let handler = self.reader.handler.clone();
        if S::OUTPUT {
            handler.inputs_listed().await;
        }
        let mut demands = handler.demands();
        let mut serving = Serving::<S> {
            view: View::new(*demands.borrow_and_update()),
            start: Instant::now(),
            stream: Stream::None,
            reading: None,
            way: Way::Stream,
            from: 0,
            passing: true,
            listed: false,
        };
        loop {
            serving.act(self);
            let wake = serving.view.wake().map(|wake| serving.start + wake);
            let (view, now) = (&mut serving.view, || since(serving.start));
            tokio::select! {
                biased;
                _ = demands.changed() => view.demanded(*demands.borrow_and_update(), now()),
                version = ready(&mut serving.reading) => {
                    match &version {
                        Err(error) => self.reader.outages.failed(S::KIND.as_str(), error),
                        // Nothing else would say for minutes that all is well again.
                        Ok(_) if matches!(serving.stream, Stream::Open(_)) => {
                            self.reader.outages.succeeded(S::KIND.as_str());
                        }
                        // Whether the watch can be opened is known when it is.
                        Ok(_) => {}
                    }
                    view.version_read(version.ok(), now(), self.random.f64());
                }
                progress = serving.stream.next() => serving.went_on(self, progress),
                () = wait(wake) => {}
            }
        }
    }

    /// Announces that no watch is open any more, if it is one of an output.
    fn left<S: Source>(&self) {
        if let Some(output) = S::KIND.output() {
            self.reader.handler.watching(output, None);
        }
    }

    /// Picks a watch timeout of some minutes. The jitter spreads reconnects, so that added API servers get their share.
    fn timeout_seconds(&mut self) -> u32 {
        self.random.u32(300..600)
    }
}

/// The operation in progress on the connection.
enum Stream<S: Source> {
    None,
    Listing(BoxFuture<'static, Result<Listing<S>, Cause>>),
    Opening(BoxFuture<'static, Result<Body, Cause>>),
    Open(EventStream),
}

/// The result of that operation.
enum Progress<S: Source> {
    Listed(Result<Listing<S>, Cause>),
    Opened(Result<Body, Cause>),
    /// Events, and when they arrived.
    Events(Result<Option<Bytes>, Cause>, Instant),
}

impl<S: Source> Stream<S> {
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

/// A view, and the operations that it has started.
struct Serving<S: Source> {
    view: View,
    /// Origin of the view's times.
    start: Instant,
    stream: Stream<S>,
    reading: Option<BoxFuture<'static, Result<u64, Cause>>>,
    way: Way,
    /// The version from which the last watch was begun.
    from: u64,
    /// Set until the first list begins.
    passing: bool,
    /// Set when a list was completed since the last one began.
    listed: bool,
}

impl<S: Source> Serving<S> {
    /// Starts all actions that are due now.
    fn act(&mut self, watch: &mut Watch) {
        let (handler, resource) = (watch.reader.handler.clone(), S::KIND.as_str());
        let was_open = matches!(self.stream, Stream::Open(_));
        while let Some(action) = self.view.act(since(self.start)) {
            match action {
                Action::List => self.list(watch),
                Action::Watch { from, short } => {
                    self.from = from;
                    watch.reader.metrics.watches.increment(1);
                    let seconds = if short { SHORT } else { watch.timeout_seconds() };
                    let opening = watch.reader.clone().watch::<S>(from, seconds);
                    self.stream = Stream::Opening(opening.boxed());
                }
                Action::ReadVersion => {
                    self.reading = Some(watch.reader.clone().version::<S>().boxed());
                }
                Action::Prove(demand) => {
                    tracing::debug!(resource, demand = demand.number, "the state is proven current");
                    handler.prove(S::KIND, demand);
                }
                Action::Rewound { under } => {
                    tracing::warn!(
                        resource,
                        "resourceVersions went backwards: the API server's store was replaced or restored; everything is listed again"
                    );
                    let demand = handler.rewound(S::KIND, under);
                    self.view.demanded(demand, since(self.start));
                }
            }
        }
        if !self.view.is_reading() {
            self.reading = None;
        }
        if self.view.is_idle() {
            self.stream = Stream::None;
        }
        if was_open && !matches!(self.stream, Stream::Open(_)) {
            watch.left::<S>();
        }
    }

    fn list(&mut self, watch: &mut Watch) {
        if std::mem::take(&mut self.listed) {
            let resource = S::KIND.as_str();
            if self.view.is_proven() {
                tracing::info!(resource, "listing again, because the watch cannot be resumed");
            } else {
                tracing::info!(
                    resource,
                    "listing again, to be certain that nothing newer was missed before anything is written"
                );
            }
        }
        if std::mem::take(&mut watch.used) {
            watch.epoch = watch.epoch.wrapping_add(1);
        }
        let passing = std::mem::take(&mut self.passing).then_some(watch.epoch);
        watch.used = passing.is_some();
        watch.reader.metrics.lists.increment(1);
        let seconds = watch.timeout_seconds();
        let listing = watch.reader.clone().list::<S>(self.way, passing, seconds);
        self.stream = Stream::Listing(listing.boxed());
    }

    /// Handles a result.
    fn went_on(&mut self, watch: &mut Watch, progress: Progress<S>) {
        match progress {
            Progress::Listed(Ok(listing)) => {
                self.stream = Stream::None;
                (self.way, self.listed) = (Way::Stream, true);
                watch.reader.outages.succeeded(S::KIND.as_str());
                let (version, objects) = (listing.version, listing.objects);
                if let Some(asked) = self.view.listing()
                    && self.view.accepts(version)
                {
                    let handler = &*watch.reader.handler;
                    listing.hand_on(handler, watch.epoch);
                    handler.end_list(S::KIND, watch.epoch, version, asked);
                    watch.used = true;
                }
                self.view
                    .listed(version, objects, since(self.start), watch.random.f64());
            }
            Progress::Listed(Err(error)) => {
                self.stream = Stream::None;
                self.way = self.way.after(&error);
                watch.reader.outages.failed(S::KIND.as_str(), &error);
                self.view.list_failed(since(self.start), watch.random.f64());
            }
            Progress::Opened(Ok(body)) => {
                watch.reader.metrics.alive();
                watch.reader.outages.succeeded(S::KIND.as_str());
                self.stream = Stream::Open(EventStream::new(body));
                if let Some(output) = S::KIND.output() {
                    watch.reader.handler.watching(output, Some(self.from));
                }
            }
            Progress::Events(Ok(Some(events)), at) => {
                if let Err(error) = self.take(watch, &events, at) {
                    self.ended(watch, Err(error));
                }
            }
            Progress::Opened(Err(error)) => {
                if !matches!(error, Cause::Expired) {
                    watch.reader.outages.failed(S::KIND.as_str(), &error);
                }
                self.ended(watch, Err(error));
            }
            Progress::Events(Err(error), _) => self.ended(watch, Err(error)),
            Progress::Events(Ok(None), _) => self.ended(watch, Ok(())),
        }
    }

    /// Hands on the objects in some events of a watch, and moves the view on.
    fn take(&mut self, watch: &Watch, events: &[u8], at: Instant) -> Result<(), Cause> {
        let reader = &watch.reader;
        let shown = take_events::<S::Watched>(events, false);
        reader.metrics.alive();
        reader.complain::<S>(&shown.errors);
        reader.metrics.watched.increment(shown.items.len() as u64);
        S::watched(&*reader.handler, shown.items, watch.epoch);
        if let Some(version) = shown.version {
            let version = codec::version(&version)?;
            self.view.shown(version);
            if let Some(output) = S::KIND.output() {
                reader.handler.shown(output, version, at);
            }
        }
        shown.end
    }

    fn ended(&mut self, watch: &mut Watch, end: Result<(), Cause>) {
        self.stream = Stream::None;
        let resource = S::KIND.as_str();
        let end = match end {
            Ok(()) => End::Orderly,
            Err(Cause::Expired) => End::Expired,
            Err(error) => {
                tracing::debug!(resource, %error, "the watch broke off; it is resumed");
                End::Broken
            }
        };
        self.view.ended(end, since(self.start), watch.random.f64());
        watch.left::<S>();
    }
}

/// Waits for the work in progress, if there is any.
async fn ready<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}

/// Returns the time passed since then.
fn since(start: Instant) -> Duration {
    Instant::now().saturating_duration_since(start)
}

/// Sleeps until then.
async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

/// Waits until a condition holds for the leadership of this process.
async fn until(leadership: &mut watch::Receiver<Leadership>, is_so: impl FnMut(&Leadership) -> bool) {
    if leadership.wait_for(is_so).await.is_err() {
        // The leadership cannot change any more.
        std::future::pending::<()>().await;
    }
}
