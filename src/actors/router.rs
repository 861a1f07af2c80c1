//! The router: it maps changes to shards, and is the only one to create and retire shards.

use super::drift::DriftTracker;
use super::events::EventHandle;
use super::inbox::Inbox;
use super::messages::{RootMsg, ShardMsg, WriterHandle};
use super::shard::{Shard, ShardArguments};
use super::shared_nodes::SharedNodes;
use crate::cluster::watch::WatchHandler;
use crate::core::facts::NodeFacts;
use crate::core::hash::{KeyedMap, KeyedState};
use crate::core::hints::NodeCapacity;
use crate::core::inbox::{Change, Delivery};
use crate::core::lists::Demand;
use crate::core::lists::list_state::{Announcement, ListState};
use crate::core::namespace::{Kind, Settings};
use crate::core::nodes::NodeChange;
use crate::core::object::{ObjectKey, ObjectName, Output};
use crate::core::publish::signals::Signal;
use crate::metrics::ShardMetrics;
use dashmap::DashMap;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use ractor::{ActorRef, ActorRuntime};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A cell through which actors reach the router, which is created after them. It is set once, before anything is listed.
pub(crate) type Routes = Arc<OnceLock<Arc<Router>>>;

/// Routes changes to shards. Shared by the ingest tasks, the writer and the root.
#[derive(Debug)]
pub struct Router {
    shards: DashMap<Arc<str>, ShardHandle, KeyedState>,
    nodes: SharedNodes,
    picture: Mutex<ListState>,
    /// Held while the picture changes and every shard is told, so that all shards see the decisions in the same order.
    /// A shard that is created meanwhile reads the picture, and never takes this lock.
    announcing: Mutex<()>,
    /// Tells the watches which demand they have to meet.
    demands: watch::Sender<Demand>,
    /// The progress of the shards with the first list of each kind, by [`Kind::index`]. It is updated on each query.
    progress: Mutex<[Progress; Kind::ALL.len()]>,
    /// Wakes the tasks that wait for the first lists of nodes, pods and Services, in the order in which they came.
    inputs_listed: Notify,
    settings: Settings,
    writer: WriterHandle,
    root: ActorRef<RootMsg>,
    events: EventHandle,
    drift: Option<DriftTracker>,
    metrics: Arc<ShardMetrics>,
}

#[derive(Clone, Debug)]
struct ShardHandle {
    inbox: Arc<Inbox>,
    actor: ActorRef<ShardMsg>,
}

/// The progress of the shards with the first whole list of a kind.
#[derive(Debug, Default)]
enum Progress {
    #[default]
    Awaited,
    /// These shards have yet to apply these deliveries.
    Applying(Vec<(Weak<Inbox>, u64)>),
    Applied,
}

impl Router {
    /// Creates a router without shards, before anything was listed.
    pub fn new(
        settings: Settings,
        writer: WriterHandle,
        root: ActorRef<RootMsg>,
        events: EventHandle,
    ) -> Self {
        Self {
            shards: DashMap::default(),
            nodes: SharedNodes::default(),
            picture: Mutex::new(ListState::new(settings.outputs)),
            announcing: Mutex::default(),
            demands: watch::Sender::default(),
            progress: Mutex::default(),
            inputs_listed: Notify::new(),
            settings,
            writer,
            root,
            events,
            drift: None,
            metrics: Arc::default(),
        }
    }

    /// Makes shards compare, and report what they would write to the tracker, instead of writing.
    #[must_use]
    pub fn tracking(mut self, drift: DriftTracker) -> Self {
        self.drift = Some(drift);
        self
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns whether a whole list of a kind has been delivered, and every shard has applied its part of it. Checks
    /// every shard once, and after that only those that are still behind.
    pub fn has_applied(&self, kind: Kind) -> bool {
        let mut progress = self.progress.lock();
        let progress = &mut progress[kind.index()];
        if !self.picture.lock().is_listed(kind) {
            *progress = Progress::Awaited;
            return false;
        }
        if let Progress::Awaited = progress {
            let behind = self.shards.iter().filter_map(|shard| {
                let sequence = shard.inbox.unapplied()?;
                Some((Arc::downgrade(&shard.inbox), sequence))
            });
            *progress = Progress::Applying(behind.collect());
        }
        if let Progress::Applying(behind) = progress {
            // A shard that was retired had nothing left to apply.
            behind.retain(|(inbox, sequence)| inbox.upgrade().is_some_and(|i| !i.has_applied(*sequence)));
            if behind.is_empty() {
                *progress = Progress::Applied;
            }
        }
        matches!(progress, Progress::Applied)
    }

    /// Returns the shard that has left its inbox untouched for the longest time, and for how long.
    pub fn longest_unhandled(&self, now: Instant) -> Option<(Arc<str>, Duration)> {
        let ages = self.shards.iter().filter_map(|shard| {
            let age = shard.inbox.age(now)?;
            Some((shard.key().clone(), age))
        });
        ages.max_by_key(|(_, age)| *age)
    }

    /// Returns up to `count` shards that are adjacent in the table, from a position that `random` (0 to 1) chooses.
    pub fn sample(&self, count: usize, random: f64) -> Vec<(Arc<str>, ActorRef<ShardMsg>, Arc<Inbox>)> {
        let skipped = (random * (self.shards.len().saturating_sub(count) + 1) as f64) as usize;
        let shards = self.shards.iter().skip(skipped).take(count);
        shards
            .map(|shard| (shard.key().clone(), shard.actor.clone(), shard.inbox.clone()))
            .collect()
    }

    fn zones_changed(&self) {
        let change = self.nodes.0.lock().take_zone_change();
        let Some((view, namespaces)) = change else { return };
        for namespace in namespaces {
            if let Some(shard) = self.shards.get(&namespace) {
                shard.deliver(vec![Change::Zones(view.clone())]);
            }
        }
    }

    /// Tells the writer which objects were deleted, since the answer to a delete has no version to wait for.
    fn signal_deletions(&self, deliveries: &[Delivery]) {
        let gone = deliveries.iter().filter_map(|delivery| {
            let event = match &delivery.change {
                Change::Output(event) if event.is_gone() => event,
                _ => return None,
            };
            let object = ObjectName {
                output: event.output(),
                name: event.name().into(),
            };
            Some(ObjectKey::hashed(delivery.namespace.clone(), object))
        });
        let mut gone = gone.peekable();
        // Most deliveries have none, and need not lock the mailbox.
        if gone.peek().is_some() {
            self.writer.signal(gone.map(Signal::Deleted));
        }
    }

    /// Tells the writer how many nodes there are, each of which watches slices.
    fn count_nodes(&self) {
        let nodes = self.nodes.0.lock().len();
        self.writer.signal([Signal::Nodes(nodes)]);
    }

    fn node_changed(&self, change: Option<NodeChange>) {
        let Some(NodeChange { view, namespaces }) = change else {
            return;
        };
        for namespace in namespaces {
            if let Some(shard) = self.shards.get(&namespace) {
                shard.deliver(vec![Change::Node(view.clone())]);
            }
        }
    }

    /// Begins a term in which this process writes. When this returns, the inbox of every shard says that the shard may not plan
    /// until every kind is proven to be as new as this moment and the outputs have been listed again. Requests that were
    /// granted in an earlier term are not sent.
    pub fn begin_term(&self) {
        self.announce(ListState::begin_term);
    }

    /// Handles a sign that the server's store was replaced or restored: everything has to be listed again.
    pub fn relist_everything(&self) {
        self.announce(ListState::relist_everything);
    }

    /// Changes the picture, and announces the result to every shard. A shard that is created meanwhile starts from the
    /// state of the picture at that moment.
    fn announce<A: IntoIterator<Item = Announcement>>(&self, decide: impl FnOnce(&mut ListState) -> A) {
        let _order = self.announcing.lock();
        // The lock is released here: creating a shard takes it while it holds a part of the map.
        let (events, demand) = {
            let mut picture = self.picture.lock();
            let announcements = decide(&mut picture).into_iter();
            (
                announcements.map(Change::from).collect::<Vec<_>>(),
                picture.demand(),
            )
        };
        if !events.is_empty() {
            for shard in &self.shards {
                shard.deliver(events.clone());
            }
        }
        self.demands.send_if_modified(|known| {
            let changed = *known != demand;
            *known = demand;
            changed
        });
    }

    /// Sends a grant or an outcome to the shard of a namespace. Returns false when there is none.
    pub fn tell(&self, namespace: &str, message: ShardMsg) -> bool {
        // Holding the guard until the message is counted keeps the shard from being retired before it has replied.
        let Some(shard) = self.shards.get(namespace) else {
            return false;
        };
        shard.inbox.tell();
        // The failure of a shard ends the process.
        shard.actor.cast(message).is_ok()
    }

    /// Delivers changes to the shard of a namespace. If there is none, it is created, unless the changes only say that objects are
    /// gone.
    fn deliver_to(&self, namespace: Arc<str>, events: impl AsRef<[Change]> + IntoIterator<Item = Change>) {
        let creates = |e: &Change| {
            let is_gone = match e {
                Change::Output(event) => event.is_gone(),
                _ => matches!(e, Change::PodGone(_) | Change::ServiceGone(_)),
            };
            !is_gone
        };
        // Holding the guard while the changes go in keeps the shard from being retired meanwhile.
        if let Some(shard) = self.shards.get(&namespace) {
            shard.deliver(events);
        } else if events.as_ref().iter().any(creates) {
            let entry = self
                .shards
                .entry(namespace.clone())
                .or_insert_with(|| self.make(namespace));
            entry.deliver(events);
        }
    }

    /// Retires a shard that reported itself empty, unless something has been delivered to it since.
    pub fn retire(&self, namespace: &str, inbox: &Arc<Inbox>, sequence: u64) {
        let retired = self.shards.remove_if(namespace, |_, shard| {
            Arc::ptr_eq(&shard.inbox, inbox) && shard.inbox.is_idle_since(sequence)
        });
        if let Some((_, shard)) = retired {
            // Draining still answers pings in its mailbox; a stop would overtake them.
            let _ = shard.actor.drain();
        }
    }

    /// Called inside the map's entry, so that two ingest tasks never create two shards for one namespace.
    fn make(&self, namespace: Arc<str>) -> ShardHandle {
        let inbox = Arc::<Inbox>::default();
        let arguments = ShardArguments {
            namespace,
            settings: self.settings,
            pending_lists: self.picture.lock().holding_back(),
            inbox: inbox.clone(),
            nodes: self.nodes.clone(),
            writer: self.writer.clone(),
            root: self.root.clone(),
            events: self.events.clone(),
            drift: self.drift.clone(),
            metrics: self.metrics.clone(),
        };
        // Unnamed: names go to a registry of the whole process, and clash.
        let (actor, _) = ActorRuntime::spawn_linked_instant(None, Shard, arguments, self.root.get_cell())
            .expect("an actor without a name has no name to clash");
        ShardHandle { inbox, actor }
    }
}

impl WatchHandler for Router {
    fn inputs_listed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Registers before the check, so that a notification between the check and the wait is not missed.
            let listed = self.inputs_listed.notified();
            if !self.picture.lock().has_inputs() {
                listed.await;
            }
        })
    }

    fn deliver(&self, deliveries: Vec<Delivery>) {
        self.signal_deletions(&deliveries);
        if deliveries.len() == 1 {
            // Most reads of a watch have a single event.
            for Delivery { namespace, change } in deliveries {
                self.deliver_to(namespace, [change]);
            }
            return;
        }
        let mut by_namespace: KeyedMap<Arc<str>, Vec<Change>> = KeyedMap::default();
        let mut order = Vec::new();
        for Delivery { namespace, change } in deliveries {
            by_namespace
                .entry(namespace)
                .or_insert_with_key(|namespace| {
                    order.push(namespace.clone());
                    Vec::new()
                })
                .push(change);
        }
        for namespace in order {
            let events = by_namespace.remove(&namespace).unwrap_or_default();
            self.deliver_to(namespace, events);
        }
    }

    fn node_applied(&self, name: &Arc<str>, facts: NodeFacts, capacity: &NodeCapacity, epoch: u8) {
        let change = {
            let mut nodes = self.nodes.0.lock();
            nodes.apply_capacity(name, capacity);
            nodes.apply(name, facts, epoch)
        };
        if change.is_some() {
            self.count_nodes();
        }
        self.node_changed(change);
        self.zones_changed();
    }

    fn node_gone(&self, name: &str) {
        let change = self.nodes.0.lock().remove(name);
        self.count_nodes();
        self.node_changed(change);
        self.zones_changed();
    }

    fn begin_list(&self, kind: Kind) {
        self.announce(|picture| picture.begin_list(kind));
    }

    fn end_list(&self, kind: Kind, epoch: u8, version: u64, asked: Demand) {
        if kind == Kind::Node {
            let gone = self.nodes.0.lock().sweep(epoch);
            self.count_nodes();
            for change in gone {
                self.node_changed(Some(change));
            }
            self.zones_changed();
        }
        let mut complete = false;
        self.announce(|picture| {
            let before = picture.is_complete();
            let released = picture.end_list(kind, epoch, version, asked);
            if picture.has_inputs() {
                self.inputs_listed.notify_waiters();
            }
            complete = !before && picture.is_complete();
            released
        });
        if complete {
            tracing::info!(
                namespaces = self.shards.len(),
                "the initial lists of all resources are complete"
            );
        }
    }

    fn watching(&self, output: Output, from: Option<u64>) {
        self.writer.signal([Signal::Opened(output, from)]);
    }

    fn shown(&self, output: Output, version: u64, at: Instant) {
        let at = self.writer.at(at);
        self.writer.signal([Signal::Shown { output, version, at }]);
    }

    fn forget(&self, kind: Kind) {
        self.announce(|picture| picture.forget(kind));
    }

    fn prove(&self, kind: Kind, demand: Demand) {
        self.announce(|picture| picture.prove(kind, demand));
    }

    fn rewound(&self, kind: Kind, under: Demand) -> Demand {
        self.announce(|picture| picture.rewound(kind, under));
        *self.demands.borrow()
    }

    fn demands(&self) -> watch::Receiver<Demand> {
        self.demands.subscribe()
    }
}

impl ShardHandle {
    fn deliver(&self, events: impl IntoIterator<Item = Change>) {
        if self.inbox.deliver(events.into_iter()) {
            // The failure of a shard ends the process, so its changes no longer matter.
            let _ = self.actor.cast(ShardMsg::Wake);
        }
    }
}

#[cfg(test)]
impl Router {
    /// Returns the actor of a namespace's shard.
    fn shard(&self, namespace: &str) -> Option<ActorRef<ShardMsg>> {
        self.shards.get(namespace).map(|shard| shard.actor.clone())
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
