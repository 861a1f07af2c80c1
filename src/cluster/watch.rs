//! Lists and watches one kind for as long as the process runs. It only decodes objects and cuts them to facts: the shards
//! interpret them.

mod events;
mod handler;
mod initial;
mod leases;
mod reader;
mod serving;
mod sources;

pub(crate) use handler::WatchHandler;
pub(crate) use leases::{Everywhere, LeaseReader, Members};
pub(crate) use sources::{
    AllSlices, Endpoints, Mirrored, Nodes, Pods, Services, Slices, Source, WholeAllSlices, WholeEndpoints,
    WholeMirrored, WholeSlices,
};

use self::events::take_events;
use self::initial::{Listing, Way};
use self::reader::Reader;
use self::serving::{Listed, Shown, Subject, Work, serve};
use self::sources::Seen;
use super::cause::Cause;
use super::codec;
use super::encodings::Encodings;
use super::outage::OutageLog;
use crate::core::leadership::Demand;
use crate::core::role::Leadership;
use crate::metrics::WatchMetrics;
use futures::FutureExt as _;
use kube::Client;
use kube::client::Body;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The list and watch of one kind.
pub(crate) struct Watch<S: Source> {
    kind: OneKind<S>,
    random: fastrand::Rng,
    /// The role of this process.
    leadership: watch::Receiver<Leadership>,
}

impl<S: Source> fmt::Debug for Watch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("epoch", &self.kind.epoch)
            .finish_non_exhaustive()
    }
}

impl<S: Source> Watch<S> {
    /// Creates the watch of a kind; `seed` is for the jitter of pauses.
    pub(crate) fn new(
        client: Client,
        handler: Arc<dyn WatchHandler>,
        leadership: watch::Receiver<Leadership>,
        encodings: Encodings,
        outages: OutageLog,
        seed: u64,
    ) -> Self {
        let reader = Reader {
            client,
            handler,
            encodings,
            metrics: WatchMetrics::new(S::KIND),
            outages,
        };
        Self {
            kind: OneKind {
                reader,
                epoch: 0,
                used: true,
                passing: true,
                source: PhantomData,
            },
            random: fastrand::Rng::with_seed(seed ^ (S::KIND.index() as u64 + 1)),
            leadership,
        }
    }

    /// Lists and watches for as long as the process runs. Outputs are followed only by the leader and in a dry run.
    pub(crate) async fn run(mut self) {
        if !S::OUTPUT {
            return self.serve().await;
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
                () = self.serve() => {}
            }
            self.kind.closed();
            let reader = &self.kind.reader;
            reader.metrics.left();
            reader.outages.left(S::KIND.as_str());
            reader.handler.forget(S::KIND);
        }
    }

    /// Lists and watches. Never returns.
    async fn serve(&mut self) {
        let handler = self.kind.reader.handler.clone();
        if S::OUTPUT {
            handler.inputs_listed().await;
        }
        self.kind.passing = true;
        self.kind.reader.metrics.begins();
        serve(&mut self.kind, handler.demands(), &mut self.random).await;
    }
}

/// All objects of a kind.
struct OneKind<S> {
    reader: Reader,
    /// Counts the lists, so that objects that a list leaves out are known to be gone.
    epoch: u8,
    /// Set when objects may have been handed on under the epoch.
    used: bool,
    /// Set until the first list begins.
    passing: bool,
    source: PhantomData<fn() -> S>,
}

impl<S: Source> Subject for OneKind<S> {
    type Listing = Listing<S>;

    fn resource(&self) -> &'static str {
        S::KIND.as_str()
    }

    fn list(&mut self, way: Way, again: bool, proven: bool, seconds: u32) -> Work<Listing<S>> {
        let resource = S::KIND.as_str();
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
        self.reader.clone().list::<S>(way, passing, seconds).boxed()
    }

    fn shows(listing: &Listing<S>) -> Listed {
        Listed {
            version: listing.version,
            objects: listing.objects,
        }
    }

    fn listed(&mut self, listing: Listing<S>, asked: Demand) {
        let (handler, version) = (&*self.reader.handler, listing.version);
        listing.hand_on(handler, self.epoch);
        handler.end_list(S::KIND, self.epoch, version, asked);
        self.used = true;
    }

    fn watch(&mut self, from: u64, seconds: u32) -> Work<Body> {
        self.reader.metrics.watches.increment(1);
        self.reader.clone().watch::<S>(from, seconds).boxed()
    }

    fn version(&mut self) -> Work<u64> {
        self.reader.clone().version::<S>().boxed()
    }

    fn opened(&mut self, from: u64) {
        self.reader.metrics.alive();
        if let Some(output) = S::KIND.output() {
            self.reader.handler.watching(output, Some(from));
        }
    }

    /// Announces that no watch is open any more, if it is one of an output.
    fn closed(&mut self) {
        if let Some(output) = S::KIND.output() {
            self.reader.handler.watching(output, None);
        }
    }

    fn shown(&mut self, events: &[u8], at: Instant) -> Shown {
        let reader = &self.reader;
        let shown = take_events::<S::Watched>(events, false);
        reader.metrics.alive();
        reader.complain::<S>(&shown.errors);
        reader.metrics.watched.increment(shown.items.len() as u64);
        let seen = Seen {
            epoch: self.epoch,
            at,
        };
        S::watched(&*reader.handler, shown.items, seen);
        let version = match shown.version.as_deref().map(codec::version).transpose() {
            Ok(version) => version,
            Err(error) => {
                return Shown {
                    version: None,
                    end: Err(error.into()),
                };
            }
        };
        if let (Some(version), Some(output)) = (version, S::KIND.output()) {
            reader.handler.shown(output, version, at);
        }
        Shown {
            version,
            end: shown.end,
        }
    }

    fn prove(&mut self, demand: Demand) {
        self.reader.handler.prove(S::KIND, demand);
    }

    fn rewound(&mut self, under: Demand) -> Demand {
        tracing::warn!(
            resource = S::KIND.as_str(),
            "resourceVersions went backwards: the API server's store was replaced or restored; everything is listed again"
        );
        self.reader.handler.rewound(S::KIND, under)
    }

    fn failed(&mut self, cause: &Cause) {
        self.reader.outages.failed(S::KIND.as_str(), cause);
    }

    fn succeeded(&mut self) {
        self.reader.outages.succeeded(S::KIND.as_str());
    }
}

/// Waits until a condition holds for the leadership of this process.
async fn until(leadership: &mut watch::Receiver<Leadership>, is_so: impl FnMut(&Leadership) -> bool) {
    if leadership.wait_for(is_so).await.is_err() {
        // The leadership cannot change any more.
        std::future::pending::<()>().await;
    }
}
