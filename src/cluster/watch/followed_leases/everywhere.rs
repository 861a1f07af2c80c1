//! A single watch of the Leases of all namespaces, which replaces the watches of single namespaces where these are many. Each
//! watch has a connection of its own.
//!
//! A namespace can join while everything is being listed, since it then gets the list. At any other time it has a watch of
//! its own, until enough such namespaces have come together for another list.

use super::{LeaseReader, ListedLeases, events_of};
use crate::cluster::cause::Cause;
use crate::cluster::http;
use crate::cluster::pages::PAGE;
use crate::cluster::watch::initial::Way;
use crate::cluster::watch::serving::{Followed, Listed, Shown, Work, serve};
use crate::core::followed_leases::lease::{LeaseEvent, LeaseFacts, LeaseList};
use crate::core::leadership::Leadership;
use crate::core::lists::Demand;
use futures::FutureExt as _;
use kube::client::Body;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The namespace of the kubelets' Leases, each of which is renewed every ten seconds. They are left out, so a Service there
/// needs a watch of its own.
const NODES: &str = "kube-node-lease";
const LEFT_OUT: &str = "&fieldSelector=metadata.namespace%21%3Dkube-node-lease";
/// The name in the log of outages in place of a namespace. No namespace has such a name.
const ALL: &str = "*";

/// The namespaces that one watch follows Leases for.
#[derive(Debug)]
pub(crate) struct Members(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Set while everything is listed, so that others can join.
    gathers: bool,
    /// The [`Leadership::wins`] of the term in which it lists, once that has begun.
    wins: Option<u64>,
    /// The namespaces, each with the number of its request.
    of: HashMap<Arc<str>, u64>,
}

impl Members {
    /// Creates the members of a watch that is to begin: some of the namespaces, with the numbers of their requests.
    pub(crate) fn new(namespaces: &HashMap<Arc<str>, u64>) -> Self {
        let of = namespaces.iter().filter(|(namespace, _)| may_join(namespace));
        Self(Mutex::new(State {
            gathers: true,
            wins: None,
            of: of
                .map(|(namespace, generation)| (namespace.clone(), *generation))
                .collect(),
        }))
    }

    /// Returns whether the watch follows the Leases of a namespace.
    pub(crate) fn has(&self, namespace: &str) -> bool {
        self.0.lock().of.contains_key(namespace)
    }

    /// Stops following the Leases of a namespace.
    pub(crate) fn leave(&self, namespace: &str) {
        self.0.lock().of.remove(namespace);
    }
}

fn may_join(namespace: &str) -> bool {
    namespace != NODES
}

/// The outcome of starting the watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Everywhere {
    /// It has listed everything, and the server has begun to answer.
    Watches,
    /// The rights do not allow it.
    Refused,
}

/// Receives the outcome of starting the watch.
pub(crate) type Tell = Box<dyn Fn(Everywhere) + Send + Sync>;

impl LeaseReader {
    /// Makes the watch follow the Leases of a namespace too. Returns false if it cannot.
    pub(crate) fn join(&self, members: &Members, namespace: &Arc<str>, generation: u64) -> bool {
        let now = *self.leadership.borrow();
        {
            let mut state = members.0.lock();
            // A list from an earlier term proves nothing.
            let outdated = state.wins.is_some_and(|wins| wins != now.wins);
            if !state.gathers || outdated || !may_join(namespace) {
                return false;
            }
            state.of.insert(namespace.clone(), generation);
        }
        if now.role.follows_outputs() {
            self.hand_on(namespace, generation, vec![LeaseEvent::Begun]);
        }
        true
    }

    /// Follows the Leases of all members, as [`LeaseReader::follow`] follows those of one namespace.
    pub(crate) async fn follow_everywhere(self, members: Arc<Members>, tell: Tell) {
        let mut leadership = self.leadership.clone();
        let follows = |now: &Leadership| now.role.follows_outputs();
        let Ok(wins) = leadership.wait_for(follows).await.map(|now| now.wins) else {
            return;
        };
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut watched = AllLeases {
            reader: self,
            members,
            tell,
        };
        watched.begin(wins);
        let (_demand, demands) = watch::channel(Demand::default());
        tokio::select! {
            biased;
            _ = leadership.wait_for(|now| !follows(now) || now.wins != wins) => {}
            () = serve(&mut watched, demands, &mut random) => {}
        }
    }
}

/// The Leases of all namespaces, for the members.
struct AllLeases {
    reader: LeaseReader,
    members: Arc<Members>,
    tell: Tell,
}

impl AllLeases {
    fn begin(&self, wins: u64) {
        let all = {
            let mut state = self.members.0.lock();
            state.wins = Some(wins);
            state.of.clone()
        };
        for (namespace, generation) in all {
            self.reader
                .hand_on(&namespace, generation, vec![LeaseEvent::Begun]);
        }
    }
}

impl Followed for AllLeases {
    type Listing = ListedLeases;

    fn resource(&self) -> &'static str {
        "leases"
    }

    fn list(&mut self, way: Way, again: bool, _: bool, _: u32) -> Work<ListedLeases> {
        if again {
            tracing::debug!("listing all Leases again, because their watch cannot be resumed");
        }
        self.members.0.lock().gathers = true;
        let size = if way == Way::Whole { 0 } else { PAGE };
        let reader = self.reader.clone();
        // Others may join until all of it has come, so nothing is left out yet.
        async move { reader.list(http::ALL_LEASES, LEFT_OUT, size).await }.boxed()
    }

    fn shows(listing: &ListedLeases) -> Listed {
        Listed {
            version: listing.version,
            objects: listing.all.len(),
        }
    }

    fn listed(&mut self, listing: ListedLeases, _: Demand) {
        let members = {
            let mut state = self.members.0.lock();
            state.gathers = false;
            state.of.clone()
        };
        let mut leases: HashMap<Arc<str>, Vec<LeaseFacts>> = HashMap::new();
        for lease in listing.all {
            if members.contains_key(&lease.namespace) {
                leases.entry(lease.namespace).or_default().push(lease.facts);
            }
        }
        // The watch of a single namespace has gone on meanwhile, and may have shown something newer.
        let asked = self.reader.time_of(listing.asked);
        for (namespace, generation) in members {
            let leases = leases.remove(&namespace).unwrap_or_default();
            let list = LeaseList::new(asked, listing.version, leases);
            self.reader
                .hand_on(&namespace, generation, vec![LeaseEvent::Listed(list)]);
        }
    }

    fn watch(&mut self, from: u64, seconds: u32) -> Work<Body> {
        let uri = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={seconds}{LEFT_OUT}",
            http::ALL_LEASES
        );
        let reader = self.reader.clone();
        async move { reader.answer(&uri).await }.boxed()
    }

    fn version(&mut self) -> Work<u64> {
        let uri = format!("{}?limit=1", http::ALL_LEASES);
        self.reader.clone().version(uri).boxed()
    }

    fn opened(&mut self, _: u64) {
        (self.tell)(Everywhere::Watches);
    }

    fn closed(&mut self) {}

    fn shown(&mut self, events: &[u8], _: Instant) -> Shown {
        let reader = &self.reader;
        let members = &self.members;
        events_of(reader, events, |namespace, event| {
            let generation = members.0.lock().of.get(&namespace).copied();
            if let Some(generation) = generation {
                reader.hand_on(&namespace, generation, vec![event]);
            }
        })
    }

    fn prove(&mut self, _: Demand) {}

    fn rewound(&mut self, under: Demand) -> Demand {
        under.next_history()
    }

    fn failed(&mut self, cause: &Cause) {
        if matches!(cause, Cause::Forbidden(_)) {
            (self.tell)(Everywhere::Refused);
        } else {
            self.reader.outages.failed(&ALL.into(), cause);
        }
    }

    fn succeeded(&mut self) {
        self.reader.outages.succeeded(ALL);
    }
}

impl Drop for AllLeases {
    fn drop(&mut self) {
        // This watch lists nothing more, so no namespace may join it from now on.
        self.members.0.lock().gathers = false;
        self.reader.outages.left(ALL);
    }
}
