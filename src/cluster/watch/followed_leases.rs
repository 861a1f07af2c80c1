//! Lists and watches the Leases of one namespace, for the Services there that follow some, and reads single ones.
//!
//! Leases are read in JSON: their times have microseconds, which the decoder of protobuf leaves out, and they are few.

mod everywhere;

pub(crate) use everywhere::{Everywhere, Members};

use super::events::take_events;
use super::handler::WatchHandler;
use super::initial::Way;
use super::reader::complain;
use super::serving::{Followed, Listed, Shown, Work, serve};
use crate::cluster::Status;
use crate::cluster::cause::Cause;
use crate::cluster::codec::{self, Namespaced, Undecodable};
use crate::cluster::http::{self, Head};
use crate::cluster::outage::SharedOutage;
use crate::cluster::pages::{self, ANSWER, PAGE, READING};
use crate::core::followed_leases::lease::{LeaseAnswer, LeaseChange, LeaseEvent, LeaseFacts, LeaseList};
use crate::core::followed_leases::reads::{LeaseRead, ReadOutcome};
use crate::core::inbox::{Change, Delivery};
use crate::core::leadership::Leadership;
use crate::core::lists::Demand;
use crate::metrics::undecodable_leases;
use ::http::StatusCode;
use futures::FutureExt as _;
use kube::Client;
use kube::client::Body;
use metrics::Counter;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

/// How many namespaces are listed at once. Each has one list at a time, so they take turns.
const AT_ONCE: usize = 16;

/// Reads Leases, and hands on what it sees. Clones share everything.
#[derive(Clone)]
pub(crate) struct LeaseReader {
    client: Client,
    handler: Arc<dyn WatchHandler>,
    leadership: watch::Receiver<Leadership>,
    outages: SharedOutage,
    seed: u64,
    /// Origin of the times that are handed on.
    start: Instant,
    lists: Arc<Semaphore>,
    /// Leases that could not be decoded.
    undecodable: Counter,
}

impl fmt::Debug for LeaseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseReader").finish_non_exhaustive()
    }
}

impl LeaseReader {
    pub(crate) fn new(
        client: Client,
        handler: Arc<dyn WatchHandler>,
        leadership: watch::Receiver<Leadership>,
        outages: SharedOutage,
        seed: u64,
        start: Instant,
    ) -> Self {
        Self {
            client,
            handler,
            leadership,
            outages,
            seed,
            start,
            lists: Arc::new(Semaphore::new(AT_ONCE)),
            undecodable: undecodable_leases(),
        }
    }

    /// Follows the Leases of a namespace, from when this process follows the outputs until it no longer does; what it
    /// hands on carries the number of the request. A list that was made in an earlier term proves nothing, so after a
    /// loss of the term there is another request.
    pub(crate) async fn follow(self, namespace: Arc<str>, generation: u64) {
        let mut leadership = self.leadership.clone();
        let follows = |leadership: &Leadership| leadership.role.follows_outputs();
        let Ok(wins) = leadership.wait_for(follows).await.map(|now| now.wins) else {
            return;
        };
        let mut random = fastrand::Rng::with_seed(self.seed ^ generation);
        let mut leases = NamespaceLeases {
            reader: self,
            namespace,
            generation,
        };
        leases.hand_on(vec![LeaseEvent::Begun]);
        // Its state is never asked to be proven: each Lease is read once more before it makes a pod leave.
        let (_demand, demands) = watch::channel(Demand::default());
        let over = |leadership: &Leadership| !follows(leadership) || leadership.wins != wins;
        tokio::select! {
            biased;
            _ = leadership.wait_for(over) => {}
            () = serve(&mut leases, demands, &mut random) => {}
        }
    }

    /// Reads one Lease, and hands on the answer, unless this process does not follow the outputs, or the API server asks for
    /// a pause.
    pub(crate) async fn read(self, read: LeaseRead) -> ReadOutcome {
        if !self.leadership.borrow().role.follows_outputs() {
            return ReadOutcome::Done;
        }
        let LeaseRead {
            namespace,
            generation,
            numbered,
        } = read;
        let answer = match timeout(READING, self.get(&namespace, &numbered.name)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(Busy(pause))) => return ReadOutcome::Throttled(pause),
            Err(_) => LeaseAnswer::Failed,
        };
        self.hand_on(&namespace, generation, vec![LeaseEvent::Read(numbered, answer)]);
        ReadOutcome::Done
    }

    /// Returns a time as it is handed on.
    fn time_of(&self, time: Instant) -> Duration {
        time.saturating_duration_since(self.start)
    }

    /// Returns the seed for the jitter of reads.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn hand_on(&self, namespace: &Arc<str>, generation: u64, events: Vec<LeaseEvent>) {
        let now = Instant::now();
        let at = self.time_of(now);
        let deliveries = events.into_iter().map(|event| Delivery {
            namespace: namespace.clone(),
            change: Change::Leases(LeaseChange {
                generation,
                at,
                event,
            }),
        });
        self.handler.deliver(deliveries.collect(), now);
    }

    /// Counts and logs Leases that cannot be decoded; they are left out.
    fn complain(&self, errors: &[Undecodable]) {
        complain("leases", &self.undecodable, errors);
    }

    /// Lists the Leases of a path. As no version is asked for, the list shows the current state of the store.
    async fn list(&self, path: &str, query: &str, size: usize) -> Result<ListedLeases, Cause> {
        let asked = Instant::now();
        let mut all = Vec::new();
        let get = |uri: String| async move { self.answer(&uri).await };
        let take = |items: Vec<Namespaced<LeaseFacts>>, errors: Vec<Undecodable>| {
            self.complain(&errors);
            all.extend(items);
            Ok(())
        };
        let version = pages::read(path, query, size, Some(ANSWER), get, take).await?;
        let version = codec::version(&version)?;
        Ok(ListedLeases { asked, version, all })
    }

    /// Reads the version that a list of one Lease shows.
    async fn version(self, uri: String) -> Result<u64, Cause> {
        pages::version(self.answer(&uri)).await
    }

    /// Returns the body of the answer to a request, once the server has begun to answer.
    async fn answer(&self, uri: &str) -> Result<Body, Cause> {
        let _asking = self.outages.asks();
        pages::answer(http::read_json(&self.client, uri)).await
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<LeaseAnswer, Busy> {
        let uri = format!("{}/{name}", http::leases(namespace));
        let body = match http::read_json(&self.client, &uri).await {
            Ok(Ok(body)) => body,
            Ok(Err((head, status))) => return refusal(&head, &status, name),
            Err(_) => return Ok(LeaseAnswer::Failed),
        };
        let lease = body.collect_bytes().await.ok();
        let lease = lease.and_then(|body| codec::object::<Namespaced<LeaseFacts>>(&body).ok());
        Ok(match lease {
            Some(lease) if *lease.facts.name == *name => LeaseAnswer::Found(lease.facts),
            _ => LeaseAnswer::Failed,
        })
    }
}

/// The API server is too busy, and may say for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Busy(Option<Duration>);

/// Interprets a refused read. Anything that does not know the path may answer 404, and a proxy may answer 403 without having asked
/// the API server: the Lease is only missing, or may not be read, if the answer names it.
fn refusal(head: &Head, status: &Status, name: &str) -> Result<LeaseAnswer, Busy> {
    let pause = head.pause(status);
    match head.code {
        StatusCode::TOO_MANY_REQUESTS => Err(Busy(pause)),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT if pause.is_some() => Err(Busy(pause)),
        StatusCode::NOT_FOUND if status.missing() == Some(name) => Ok(LeaseAnswer::Missing),
        StatusCode::FORBIDDEN if status.reason == "Forbidden" && status.about(name).is_some() => {
            Ok(LeaseAnswer::Refused(status.message.as_str().into()))
        }
        _ => Ok(LeaseAnswer::Failed),
    }
}

/// The Leases of one namespace, followed under one number.
struct NamespaceLeases {
    reader: LeaseReader,
    namespace: Arc<str>,
    generation: u64,
}

/// All Leases of a namespace, or of all, at a version.
struct ListedLeases {
    asked: Instant,
    version: u64,
    all: Vec<Namespaced<LeaseFacts>>,
}

impl Followed for NamespaceLeases {
    type Listing = ListedLeases;

    fn resource(&self) -> &'static str {
        "leases"
    }

    fn list(&mut self, way: Way, again: bool, _: bool, _: u32) -> Work<ListedLeases> {
        if again {
            tracing::debug!(namespace = %self.namespace, "listing the Leases again, because their watch cannot be resumed");
        }
        let size = if way == Way::Whole { 0 } else { PAGE };
        let (reader, path) = (self.reader.clone(), http::leases(&self.namespace));
        async move {
            // The semaphore is never closed.
            let _permit = reader.lists.acquire().await.ok();
            reader.list(&path, "", size).await
        }
        .boxed()
    }

    fn shows(listing: &ListedLeases) -> Listed {
        Listed {
            version: listing.version,
            objects: listing.all.len(),
        }
    }

    fn listed(&mut self, listing: ListedLeases, _: Demand) {
        let ListedLeases { asked, version, all } = listing;
        let all = all.into_iter().map(|lease| lease.facts).collect();
        let list = LeaseList::new(self.reader.time_of(asked), version, all);
        self.hand_on(vec![LeaseEvent::Listed(list)]);
    }

    fn watch(&mut self, from: u64, seconds: u32) -> Work<Body> {
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={seconds}",
            http::leases(&self.namespace)
        );
        let reader = self.reader.clone();
        async move { reader.answer(&uri).await }.boxed()
    }

    fn version(&mut self) -> Work<u64> {
        let uri = format!("{}?limit=1", http::leases(&self.namespace));
        self.reader.clone().version(uri).boxed()
    }

    fn opened(&mut self, _: u64) {}

    fn closed(&mut self) {}

    fn shown(&mut self, events: &[u8], _: Instant) -> Shown {
        let mut shown = Vec::new();
        let end = events_of(&self.reader, events, |_, event| shown.push(event));
        self.hand_on(shown);
        end
    }

    fn prove(&mut self, _: Demand) {}

    /// The list that follows shows the Leases as they are now. The watches of other kinds say what has happened.
    fn rewound(&mut self, under: Demand) -> Demand {
        under.next_history()
    }

    fn failed(&mut self, cause: &Cause) {
        self.reader.outages.failed(&self.namespace, cause);
    }

    fn succeeded(&mut self) {
        self.reader.outages.succeeded(&self.namespace);
    }
}

impl Drop for NamespaceLeases {
    fn drop(&mut self) {
        self.reader.outages.left(&self.namespace);
    }
}

/// Gives `each` the events of a watch of Leases, with their namespaces.
fn events_of(reader: &LeaseReader, events: &[u8], mut each: impl FnMut(Arc<str>, LeaseEvent)) -> Shown {
    let shown = take_events::<Namespaced<LeaseFacts>>(events, false);
    reader.complain(&shown.errors);
    for (lease, gone) in shown.items {
        let event = match gone {
            Some(gone) => LeaseEvent::Gone(lease.facts.name, gone.0),
            None => LeaseEvent::Seen(lease.facts),
        };
        each(lease.namespace, event);
    }
    Shown::until(shown.version.as_deref(), shown.end)
}

impl NamespaceLeases {
    fn hand_on(&self, events: Vec<LeaseEvent>) {
        self.reader.hand_on(&self.namespace, self.generation, events);
    }
}
