//! The changes of a namespace that have not been applied yet: latest wins by object, so the inbox is never larger than
//! the namespace, however far behind its shard is.

mod applying;
mod latest;
mod leases;

pub use applying::Applying;

use super::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use super::followed_leases::lease::LeaseChange;
use super::namespace::{Kind, NamespaceState};
use super::nodes::{NodeDirectory, NodeView, ZoneView};
use super::time::Time;
use super::work::TurnBudget;
use latest::Latest;
use leases::WaitingLeases;
use smallvec::SmallVec;
use std::hash::Hash;
use std::sync::Arc;

/// A change in a namespace. `epoch` counts the lists of the object's kind.
#[derive(Clone, Debug)]
pub enum Change {
    /// A pod from a list or a watch.
    Pod(PodFacts, u8),
    /// A pod is gone.
    PodGone(Box<str>),
    /// A Service from a list or a watch.
    Service(ServiceFacts, u8),
    /// A Service is gone.
    ServiceGone(Arc<str>),
    /// A whole slice, from a list.
    Slice(Box<SliceFacts>, u8),
    /// A slice's metadata, from a watch.
    SliceMeta(SliceMeta, u8),
    /// A slice is gone, as of a version.
    SliceGone(Box<str>, u64),
    /// A whole Endpoints object, from a list.
    Endpoints(Box<EndpointsFacts>, u8),
    /// An Endpoints object's metadata, from a watch.
    EndpointsMeta(EndpointsMeta, u8),
    /// An Endpoints object is gone, as of a version.
    EndpointsGone(Arc<str>, u64),
    /// A whole slice that mirrors Endpoints, from a list.
    Mirrored(Box<SliceFacts>, u8),
    /// The metadata of a slice that mirrors Endpoints, from a watch.
    MirroredMeta(SliceMeta, u8),
    /// A slice that mirrored Endpoints is gone, as of a version.
    MirroredGone(Box<str>, u64),
    /// Something was learned of the namespace's Leases.
    Leases(LeaseChange),
    /// A node on which the namespace has pods has changed.
    Node(Arc<NodeView>),
    /// The CPU capacity of the zones has changed.
    Zones(ZoneView),
    /// Another list of a kind is about to arrive.
    Begin(Kind),
    /// The list of an epoch is complete, and shows this version.
    End(Kind, u8, u64),
    /// The objects of a kind are no longer followed: see [`NamespaceState::forget`].
    Forget(Kind),
}

/// An event for a namespace.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The event.
    pub event: Change,
}

/// The events that wait for one shard.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    pods: Latest<Box<str>, PodEvent>,
    services: Latest<Arc<str>, Option<(ServiceFacts, u8)>>,
    slices: Latest<Box<str>, ObjectEvent<Box<SliceFacts>, SliceMeta>>,
    endpoints: Latest<Arc<str>, ObjectEvent<Box<EndpointsFacts>, EndpointsMeta>>,
    mirrored: Latest<Box<str>, ObjectEvent<Box<SliceFacts>, SliceMeta>>,
    leases: WaitingLeases,
    nodes: Latest<Arc<str>, Arc<NodeView>>,
    zones: Option<ZoneView>,
    lists: [ListEvent; Kind::ALL.len()],
    /// Kinds that were forgotten before all else that waits of them.
    forgotten: [bool; Kind::ALL.len()],
    any: bool,
}

#[derive(Clone, Debug)]
struct PodEvent {
    /// `None` when it is gone.
    latest: Option<(PodFacts, u8)>,
    /// The Ready times of states that were merged away: that of the first, and the earliest that came after it and
    /// moved forward. Whatever time is known of the pod, the earliest that moves forward from there is among these and
    /// the latest one's.
    earlier: SmallVec<[Time; 2]>,
}

/// The last event of an object that we write.
#[derive(Clone, Debug)]
enum ObjectEvent<W, M> {
    Whole(W, u8),
    Meta(M, u8),
    Gone(u64),
}

/// Something with a resourceVersion.
trait Versioned {
    fn version(&self) -> u64;
}

impl Versioned for Box<SliceFacts> {
    fn version(&self) -> u64 {
        self.meta.version
    }
}

impl Versioned for SliceMeta {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for Box<EndpointsFacts> {
    fn version(&self) -> u64 {
        self.meta.version
    }
}

impl Versioned for EndpointsMeta {
    fn version(&self) -> u64 {
        self.version
    }
}

impl<W: Versioned, M: Versioned> ObjectEvent<W, M> {
    fn version(&self) -> u64 {
        match self {
            Self::Whole(facts, _) => facts.version(),
            Self::Meta(meta, _) => meta.version(),
            Self::Gone(version) => *version,
        }
    }

    /// Merges an event into what waits, keeping the most complete form of the latest version.
    fn merge<K: Eq + Hash>(self, name: K, waiting: &mut Latest<K, Self>) {
        let known = waiting.get(&name).map_or(0, Self::version);
        // A whole object has more than its metadata, so it stays when both have the same version.
        if known == 0 || known < self.version() || matches!(self, Self::Whole(..) if known == self.version())
        {
            waiting.insert(name, self);
        }
    }
}

/// The last list event of one kind. An end that another beginning follows no longer matters: the next end sweeps what
/// that one would have swept.
#[derive(Clone, Copy, Debug, Default)]
enum ListEvent {
    #[default]
    None,
    Begun,
    Ended {
        epoch: u8,
        version: u64,
    },
}

impl Pending {
    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Returns the number of objects that wait.
    pub fn len(&self) -> usize {
        let inputs = self.pods.len() + self.services.len() + self.nodes.len();
        inputs + self.slices.len() + self.endpoints.len() + self.mirrored.len() + self.leases.len()
    }

    /// Merges an event into what waits.
    pub fn push(&mut self, event: Change) {
        self.any = true;
        match event {
            Change::Pod(facts, epoch) => self.push_pod(facts, epoch),
            Change::PodGone(name) => {
                self.pods.insert(
                    name,
                    PodEvent {
                        latest: None,
                        earlier: SmallVec::new(),
                    },
                );
            }
            Change::Service(facts, epoch) => {
                self.services.insert(facts.name.clone(), Some((facts, epoch)));
            }
            Change::ServiceGone(name) => {
                self.services.insert(name, None);
            }
            Change::Slice(facts, epoch) => {
                let name = facts.meta.name.clone();
                ObjectEvent::Whole(facts, epoch).merge(name, &mut self.slices);
            }
            Change::SliceMeta(meta, epoch) => {
                let name = meta.name.clone();
                ObjectEvent::Meta(meta, epoch).merge(name, &mut self.slices);
            }
            Change::SliceGone(name, version) => ObjectEvent::Gone(version).merge(name, &mut self.slices),
            Change::Endpoints(facts, epoch) => {
                let name = facts.meta.name.clone();
                ObjectEvent::Whole(facts, epoch).merge(name, &mut self.endpoints);
            }
            Change::EndpointsMeta(meta, epoch) => {
                let name = meta.name.clone();
                ObjectEvent::Meta(meta, epoch).merge(name, &mut self.endpoints);
            }
            Change::EndpointsGone(name, version) => {
                ObjectEvent::Gone(version).merge(name, &mut self.endpoints);
            }
            Change::Mirrored(facts, epoch) => {
                let name = facts.meta.name.clone();
                ObjectEvent::Whole(facts, epoch).merge(name, &mut self.mirrored);
            }
            Change::MirroredMeta(meta, epoch) => {
                let name = meta.name.clone();
                ObjectEvent::Meta(meta, epoch).merge(name, &mut self.mirrored);
            }
            Change::MirroredGone(name, version) => {
                ObjectEvent::Gone(version).merge(name, &mut self.mirrored);
            }
            Change::Leases(change) => self.leases.push(change),
            Change::Node(view) => self.push_node(view),
            Change::Zones(view) => self.push_zones(view),
            Change::Begin(kind) => self.lists[kind.index()] = ListEvent::Begun,
            Change::End(kind, epoch, version) => {
                self.lists[kind.index()] = ListEvent::Ended { epoch, version };
            }
            Change::Forget(kind) => self.forget(kind),
        }
    }

    /// Adds a view of a node, unless a later one waits: they come from several tasks, so a later one may come first.
    fn push_node(&mut self, view: Arc<NodeView>) {
        let known = self.nodes.get(&view.name);
        if known.is_none_or(|known| known.version < view.version) {
            self.nodes.insert(view.name.clone(), view);
        }
    }

    /// Adds a view of all zones, unless a later one waits.
    fn push_zones(&mut self, view: ZoneView) {
        let known = self.zones.as_ref();
        if known.is_none_or(|known| known.version < view.version) {
            self.zones = Some(view);
        }
    }

    /// Drops what waits of a kind that is not followed any more.
    fn forget(&mut self, kind: Kind) {
        match kind {
            Kind::Slice => self.slices.clear(),
            Kind::Endpoints => self.endpoints.clear(),
            Kind::Mirrored => self.mirrored.clear(),
            Kind::Node | Kind::Pod | Kind::Service => return,
        }
        self.lists[kind.index()] = ListEvent::None;
        self.forgotten[kind.index()] = true;
    }

    /// Returns the names of the Services that have changed.
    pub fn services(&self) -> impl Iterator<Item = &Arc<str>> {
        self.services.names()
    }

    /// Takes the changes of slices and Endpoints, in an order in which they can be applied. Changes of whole lists, and
    /// kinds that are forgotten, are returned too, but stay.
    pub fn take_published(&mut self) -> impl Iterator<Item = Change> + use<> {
        let kinds = || Kind::ALL.into_iter();
        let forgotten = kinds().zip(self.forgotten).filter(|(_, forgotten)| *forgotten);
        let ends = kinds().zip(self.lists).filter_map(|(kind, list)| match list {
            ListEvent::Ended { epoch, version } => Some(Change::End(kind, epoch, version)),
            ListEvent::None | ListEvent::Begun => None,
        });
        let slices = std::mem::take(&mut self.slices).into_entries();
        let slices = slices.map(|(name, event)| match event {
            ObjectEvent::Whole(facts, epoch) => Change::Slice(facts, epoch),
            ObjectEvent::Meta(meta, epoch) => Change::SliceMeta(meta, epoch),
            ObjectEvent::Gone(version) => Change::SliceGone(name, version),
        });
        let endpoints = std::mem::take(&mut self.endpoints).into_entries();
        let endpoints = endpoints.map(|(name, event)| match event {
            ObjectEvent::Whole(facts, epoch) => Change::Endpoints(facts, epoch),
            ObjectEvent::Meta(meta, epoch) => Change::EndpointsMeta(meta, epoch),
            ObjectEvent::Gone(version) => Change::EndpointsGone(name, version),
        });
        let mirrored = std::mem::take(&mut self.mirrored).into_entries();
        let mirrored = mirrored.map(|(name, event)| match event {
            ObjectEvent::Whole(facts, epoch) => Change::Mirrored(facts, epoch),
            ObjectEvent::Meta(meta, epoch) => Change::MirroredMeta(meta, epoch),
            ObjectEvent::Gone(version) => Change::MirroredGone(name, version),
        });
        let forgotten = forgotten.map(|(kind, _)| Change::Forget(kind));
        let objects = slices.chain(endpoints).chain(mirrored);
        forgotten.chain(objects).chain(ends)
    }

    fn push_pod(&mut self, facts: PodFacts, epoch: u8) {
        let mut earlier = SmallVec::new();
        if let Some(PodEvent {
            latest: Some((old, _)),
            earlier: before,
        }) = self.pods.get_mut(&facts.name)
        {
            earlier = std::mem::take(before);
            if let Some(time) = old.ready_time.filter(|_| old.ready_time != facts.ready_time) {
                match earlier[..] {
                    [] => earlier.push(time),
                    [first] if time > first => earlier.push(time),
                    [first, next] if time > first && time < next => earlier[1] = time,
                    _ => {}
                }
            }
        }
        self.pods.insert(
            facts.name.clone(),
            PodEvent {
                latest: Some((facts, epoch)),
                earlier,
            },
        );
    }

    /// Applies everything that waits, as [`Applying`] does.
    pub fn apply(self, state: &mut NamespaceState, nodes: &mut dyn NodeDirectory) {
        let done = self.begin().step(state, nodes, &mut TurnBudget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
    }

    /// Begins to apply everything that waits.
    pub fn begin(self) -> Applying {
        let ends = Kind::ALL.into_iter().zip(self.lists);
        Applying {
            forgotten: self.forgotten,
            nodes: self.nodes.into_entries(),
            pods: self.pods.into_entries(),
            matching: None,
            services: self.services.into_entries(),
            slices: self.slices.into_entries(),
            endpoints: self.endpoints.into_entries(),
            mirrored: self.mirrored.into_entries(),
            leases: self.leases.into_changes(),
            zones: self.zones,
            zones_watched: false,
            lists: ends
                .filter(|(_, list)| !matches!(list, ListEvent::None))
                .collect(),
            unlisted: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::facts::NodeFacts;
    use crate::core::ids::Uid;
    use crate::core::labels::Labels;
    use crate::core::namespace::{PendingLists, Settings};
    use crate::core::nodes::NodeTable;

    fn pod(time: i64) -> PodFacts {
        PodFacts {
            name: "p".into(),
            uid: Uid::none(),
            labels: Labels::default(),
            node: None,
            v4: None,
            v6: None,
            primary: None,
            ports: Vec::new(),
            host: None,
            host_network: false,
            ready: true,
            terminating: false,
            terminal: false,
            ready_time: Some(Time::from_seconds(time)),
        }
    }

    /// Returns the earliest of the merged times that lies after `known`.
    fn earliest_after(known: i64, times: &[i64]) -> Option<i64> {
        let mut pending = Pending::default();
        for &time in times {
            pending.push(Change::Pod(pod(time), 0));
        }
        let (_, PodEvent { latest, earlier }) = pending.pods.into_entries().next().unwrap();
        let latest = latest.and_then(|(facts, _)| facts.ready_time);
        let after = earlier
            .into_iter()
            .chain(latest)
            .filter(|t| *t > Time::from_seconds(known))
            .min();
        times
            .iter()
            .copied()
            .find(|t| after == Some(Time::from_seconds(*t)))
    }

    #[test]
    fn merging_keeps_the_earliest_time_that_moves_forward() {
        assert_eq!(earliest_after(1, &[2, 3, 4]), Some(2));
        assert_eq!(
            earliest_after(2, &[2, 3, 4]),
            Some(3),
            "the first event was known already"
        );
        assert_eq!(earliest_after(2, &[2, 4, 3]), Some(3));
        assert_eq!(earliest_after(0, &[5]), Some(5));
        assert_eq!(earliest_after(5, &[5, 5]), None);
    }

    #[test]
    fn the_latest_event_of_an_object_is_all_that_waits() {
        let mut pending = Pending::default();
        assert!(pending.is_empty());
        for i in 0..1000 {
            pending.push(Change::Pod(pod(i), 0));
        }
        pending.push(Change::PodGone("p".into()));
        assert_eq!(pending.len(), 1);
        assert!(pending.pods.get("p").unwrap().latest.is_none());
    }

    #[test]
    fn what_came_before_a_kind_was_forgotten_is_forgotten() {
        let mut pending = Pending::default();
        pending.push(Change::SliceGone("before".into(), 7));
        pending.push(Change::EndpointsGone("before".into(), 7));
        pending.push(Change::Begin(Kind::Slice));
        pending.push(Change::Forget(Kind::Slice));
        pending.push(Change::SliceGone("after".into(), 5));
        let names: Vec<_> = pending
            .slices
            .get("after")
            .into_iter()
            .map(ObjectEvent::version)
            .collect();
        assert_eq!((names, pending.slices.len()), (vec![5], 1));
        assert_eq!(pending.endpoints.len(), 1, "another kind");
        assert!(matches!(pending.lists[Kind::Slice.index()], ListEvent::None));

        let mut state = NamespaceState::new("ns".into(), Settings::default(), PendingLists::NONE);
        pending.apply(&mut state, &mut NodeTable::default());
        assert_eq!(state.plan(), []);
        let mut ended = Pending::default();
        ended.push(Change::End(Kind::Slice, 1, 9));
        ended.apply(&mut state, &mut NodeTable::default());
        assert!(state.is_empty());
    }

    #[test]
    fn an_older_view_of_a_slice_or_node_does_not_replace_a_newer_one() {
        let mut pending = Pending::default();
        pending.push(Change::SliceGone("s".into(), 7));
        pending.push(Change::SliceGone("s".into(), 5));
        assert_eq!(pending.slices.get("s").unwrap().version(), 7);
        for (version, facts) in [(2, None), (1, Some(NodeFacts::default()))] {
            pending.push(Change::Node(Arc::new(NodeView {
                name: "n".into(),
                version,
                facts,
            })));
        }
        assert_eq!(pending.nodes.get("n").unwrap().version, 2);
    }
}
