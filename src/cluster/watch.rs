//! Lists and watches one kind for as long as the process runs. It only decodes objects and cuts them to facts: the shards
//! interpret them. [`slice_changes`] is the watch of `endpointd top`.

pub(super) mod event_stream;
mod events;
mod handler;
mod initial;
mod reader;
mod serving;
pub(crate) mod slice_changes;
mod sources;

pub(crate) use handler::WatchHandler;
pub(crate) use sources::Source;

use self::events::take_events;
use self::initial::{Listing, Way};
use self::reader::Reader;
use self::serving::{Shown, Work, serve};
use self::sources::Item;
use super::cause::Cause;
use super::codec::{NamedNode, Namespaced};
use super::http::Form;
use super::outage::OutageLog;
use crate::core::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use crate::core::leadership::Leadership;
use crate::core::lists::Demand;
use crate::core::namespace::Kind;
use crate::metrics::WatchMetrics;
use crate::tenant_log::TenantLog;
use futures::FutureExt as _;
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The list and watch of one kind.
pub(crate) struct Watch {
    reader: Reader,
    random: fastrand::Rng,
    /// The role of this process.
    leadership: watch::Receiver<Leadership>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("source", &self.reader.source)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Creates the watch of a source; `seed` is for the jitter of pauses.
    pub(crate) fn new(
        source: Source,
        client: Client,
        handler: Arc<dyn WatchHandler>,
        leadership: watch::Receiver<Leadership>,
        outages: OutageLog,
        seed: u64,
    ) -> Self {
        let reader = Reader {
            source,
            client,
            handler,
            metrics: WatchMetrics::new(source.kind),
            outages,
            log: TenantLog::default(),
        };
        Self {
            reader,
            random: fastrand::Rng::with_seed(seed ^ (source.kind.index() as u64 + 1)),
            leadership,
        }
    }

    /// Has lines about namespaces keep within these limits.
    #[must_use]
    pub(crate) fn logging(mut self, log: TenantLog) -> Self {
        self.reader.log = log;
        self
    }

    /// Lists and watches for as long as the process runs. Outputs are followed only by the leader and in a dry run.
    pub(crate) async fn run(self) {
        let Source { kind, watched, .. } = self.reader.source;
        match (kind, watched) {
            (Kind::Node, _) => self.follow::<NamedNode, NamedNode>().await,
            (Kind::Pod, _) => self.follow_facts::<PodFacts, PodFacts>().await,
            (Kind::Service, _) => self.follow_facts::<ServiceFacts, ServiceFacts>().await,
            (Kind::Slice | Kind::Mirrored, Form::Whole) => {
                self.follow_facts::<SliceFacts, SliceFacts>().await;
            }
            (Kind::Slice | Kind::Mirrored, _) => self.follow_facts::<SliceFacts, SliceMeta>().await,
            (Kind::Endpoints, Form::Whole) => {
                self.follow_facts::<EndpointsFacts, EndpointsFacts>().await;
            }
            (Kind::Endpoints, _) => self.follow_facts::<EndpointsFacts, EndpointsMeta>().await,
        }
    }

    /// Follows objects in namespaces, of which lists show one kind of facts, and watches another.
    async fn follow_facts<L, W>(self)
    where
        Namespaced<L>: Item,
        Namespaced<W>: Item,
    {
        self.follow::<Namespaced<L>, Namespaced<W>>().await;
    }

    /// Follows objects whose lists have items of type `L`, and whose watches have items of type `W`.
    async fn follow<L: Item, W: Item>(self) {
        let Self {
            reader,
            mut random,
            mut leadership,
        } = self;
        let kind = reader.source.kind;
        let mut items = OneKind::<L, W> {
            reader,
            epoch: 0,
            used: true,
            passing: true,
            items: PhantomData,
        };
        if !kind.is_output() {
            return items.serve(&mut random).await;
        }
        loop {
            let follows = |leadership: &Leadership| leadership.role.follows_outputs();
            let Ok(wins) = leadership
                .wait_for(follows)
                .await
                .map(|leadership| leadership.wins)
            else {
                // The sender is gone, so the role cannot change any more.
                return;
            };
            let over = |leadership: &Leadership| !follows(leadership) || leadership.wins != wins;
            tokio::select! {
                biased;
                () = until(&mut leadership, over) => {}
                () = items.serve(&mut random) => {}
            }
            items.closed();
            let reader = &items.reader;
            reader.metrics.left();
            reader.outages.left(kind.as_str());
            reader.handler.forget(kind);
        }
    }
}

/// All objects of a kind.
struct OneKind<L, W> {
    reader: Reader,
    /// Counts the lists, so that objects that a list leaves out are known to be gone.
    epoch: u8,
    /// Set when objects may have been handed on under the epoch.
    used: bool,
    /// Set until the first list begins.
    passing: bool,
    items: PhantomData<fn() -> (L, W)>,
}

impl<L: Item, W: Item> OneKind<L, W> {
    fn kind(&self) -> Kind {
        self.reader.source.kind
    }

    /// Lists and watches. Never returns.
    async fn serve(&mut self, random: &mut fastrand::Rng) {
        let handler = self.reader.handler.clone();
        if self.kind().is_output() {
            handler.inputs_listed().await;
        }
        self.passing = true;
        self.reader.metrics.alive();
        serve(self, handler.demands(), random).await;
    }

    /// Returns its name in the log.
    fn resource(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Lists everything. `again` is set if everything was listed before, and `proven` then says whether the state was
    /// known to be current.
    fn list(&mut self, way: Way, again: bool, proven: bool, seconds: u32) -> Work<Listing<L>> {
        let resource = self.resource();
        if again && proven {
            tracing::info!(resource, "listing again, because the watch cannot be resumed");
        } else if again {
            tracing::info!(
                resource,
                "listing again, to be certain that nothing newer was missed before anything is written"
            );
        }
        if std::mem::take(&mut self.used) {
            self.epoch = self.epoch.wrapping_add(1);
        }
        let passing = std::mem::take(&mut self.passing).then_some(self.epoch);
        self.used = passing.is_some();
        self.reader.metrics.lists.increment(1);
        self.reader.clone().list(way, passing, seconds).boxed()
    }

    /// Hands on a list, which was asked for under this demand.
    fn listed(&mut self, listing: Listing<L>, asked: Demand) {
        let (handler, version) = (&*self.reader.handler, listing.version);
        listing.hand_on(handler, self.kind(), self.epoch);
        handler.end_list(self.kind(), self.epoch, version, asked);
        self.used = true;
    }

    /// Begins a watch from a version, for this time. Ready once the server has begun to answer.
    fn watch(&mut self, from: u64, seconds: u32) -> Work<Body> {
        self.reader.clone().watch(from, seconds).boxed()
    }

    /// Reads the present version, from the present state of the store.
    fn version(&mut self) -> Work<u64> {
        self.reader.clone().version().boxed()
    }

    /// Handles that the watch from this version was opened.
    fn opened(&mut self, from: u64) {
        if let Some(output) = self.kind().output() {
            self.reader.handler.watching(output, Some(from));
        }
    }

    /// Announces that no watch is open any more, if it is one of an output.
    fn closed(&mut self) {
        if let Some(output) = self.kind().output() {
            self.reader.handler.watching(output, None);
        }
    }

    /// Hands on the objects in some events, which arrived at this time.
    fn shown(&mut self, events: &[u8], at: Instant) -> Shown {
        let reader = &self.reader;
        let shown = take_events::<W>(events, false);
        reader.metrics.alive();
        reader.complain(&shown.errors);
        reader.metrics.watched.increment(shown.items.len() as u64);
        W::hand_on(&*reader.handler, self.kind(), shown.items, self.epoch);
        let shown = Shown::until(shown.version.as_deref(), shown.end);
        if let (Some(version), Some(output)) = (shown.version, self.kind().output()) {
            reader.handler.shown(output, version, at);
        }
        shown
    }

    /// Handles that nothing is missing, though the watch may be silent.
    fn is_current(&mut self) {
        self.reader.metrics.alive();
    }

    /// Handles that the state is proven to meet a demand.
    fn prove(&mut self, demand: Demand) {
        self.reader.handler.prove(self.kind(), demand);
    }

    /// Handles that versions went backwards. Returns the demand to meet then.
    fn rewound(&mut self, under: Demand) -> Demand {
        tracing::warn!(
            resource = self.resource(),
            "resourceVersions went backwards: the API server's store was replaced or restored; everything is listed again"
        );
        self.reader.handler.rewound(self.kind(), under)
    }

    /// Records that the resource could not be read.
    fn failed(&mut self, cause: &Cause) {
        self.reader.outages.failed(self.resource(), cause);
    }

    /// Records that the resource could be read.
    fn succeeded(&mut self) {
        self.reader.outages.succeeded(self.resource());
    }
}

/// Waits until a condition holds for the leadership of this process.
async fn until(leadership: &mut watch::Receiver<Leadership>, is_so: impl FnMut(&Leadership) -> bool) {
    if leadership.wait_for(is_so).await.is_err() {
        // The leadership cannot change any more.
        std::future::pending::<()>().await;
    }
}
