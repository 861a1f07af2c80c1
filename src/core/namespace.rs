//! All that is known of one namespace, and what follows from it.
//!
//! Events go in ([`NamespaceState::apply_pod`] and its siblings) and mark Services; [`NamespaceState::plan`]
//! evaluates the marked Services and says which objects are due; [`NamespaceState::grant`] builds the request
//! for one of them when its turn has come, from the state of that moment; [`NamespaceState::outcome`] takes
//! the server's answer. The work of each call grows with what changed, except where a Service itself
//! changes: that is a pass over its pods.

mod addresses;
mod adopt;
mod compare;
mod endpoints;
mod evaluate;
mod forget;
mod hinting;
mod lifecycle;
mod members;
mod notifications;
mod passes;
mod planning;
mod pods;
mod services;
mod slices;
mod sync_stats;

pub use lifecycle::{Content, Granted, Outcome};
pub use notifications::Notification;
pub use sync_stats::{SyncReport, Totals};

use self::endpoints::EndpointsOutput;
use self::lifecycle::Queue;
use self::slices::SliceOutput;
use super::address::Family;
use super::backoff::Retry;
use super::compact::intern::Interner;
use super::compact::small::SmallSet;
use super::facts::{EndpointsFacts, PodFacts, ServiceFacts, SliceFacts};
use super::hash::{KeyedMap, hash_of};
use super::ids::{FullSetId, HostId, NodeId, PodId, ServiceId, SliceId, Uid};
use super::nodes::{NodeDirectory, NodeView, ZoneView};
use super::object::{ObjectName, ObjectState};
use super::outputs::Outputs;
use super::ports::{ContainerPort, ResolvedPorts};
use super::queue::Priority;
use super::selector_cache::SelectorCache;
use super::slices::{Conditions, FamilyState, Slice};
use super::time::{Time, earliest};
use super::work::Work;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::sync::Arc;

/// A kind that plans depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// v1 Node.
    Node,
    /// v1 Pod.
    Pod,
    /// v1 Service.
    Service,
    /// discovery.k8s.io/v1 `EndpointSlice`.
    Slice,
    /// v1 Endpoints.
    Endpoints,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Node, Self::Pod, Self::Service, Self::Slice, Self::Endpoints];

    /// Those that the outputs depend on. Endpoints do not look at nodes.
    pub fn needed_for(outputs: Outputs) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |kind| match kind {
            Self::Pod | Self::Service => true,
            Self::Node | Self::Slice => outputs.slices,
            Self::Endpoints => outputs.endpoints,
        })
    }

    /// Whether it is what is written, and not what that is made of.
    pub fn is_output(self) -> bool {
        matches!(self, Self::Slice | Self::Endpoints)
    }

    /// The place in per-kind tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// As people write it, in the plural.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Service => "services",
            Self::Slice => "endpointslices",
            Self::Endpoints => "endpoints",
        }
    }
}

/// The kinds of which a whole list is still to come, first one or repeated; while there is one, nothing is
/// planned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PendingLists(u8);

impl PendingLists {
    /// Nothing is awaited.
    pub const NONE: Self = Self(0);

    /// Before anything was listed of what the outputs depend on.
    pub fn all(outputs: Outputs) -> Self {
        let mut pending = Self::NONE;
        for kind in Kind::needed_for(outputs) {
            pending.set(kind);
        }
        pending
    }

    /// A list of the kind has begun to arrive.
    pub fn set(&mut self, kind: Kind) {
        self.0 |= 1 << kind.index();
    }

    /// The list is whole.
    pub fn clear(&mut self, kind: Kind) {
        self.0 &= !(1 << kind.index());
    }

    /// The kinds of either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether something is awaited.
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether a list of what endpoints are made of is awaited.
    pub fn hides_inputs(self) -> bool {
        [Kind::Node, Kind::Pod, Kind::Service]
            .into_iter()
            .any(|kind| self.has(kind))
    }

    /// Whether a list of the kind is awaited.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind.index()) != 0
    }
}

/// What does not change while the process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `--max-endpoints-per-slice`, 1 to 1000.
    pub max_endpoints: usize,
    /// `--controllers`.
    pub outputs: Outputs,
    /// `--legacy-tolerate-unready-annotation`: Endpoints honour the annotation of older controllers.
    pub legacy_tolerate_unready: bool,
    /// For the random part of slice names.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_endpoints: 100,
            outputs: Outputs::ALL,
            legacy_tolerate_unready: false,
            seed: 0,
        }
    }
}

/// An object that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkItem {
    /// Which.
    pub object: ObjectName,
    /// The Service that it is published for.
    pub service: Arc<str>,
    /// Whether the server has it already, so that this is an update that may wait for others.
    pub exists: bool,
    /// How urgent it is.
    pub priority: Priority,
    /// How long it must wait because of earlier failures.
    pub retry: Retry,
}

impl WorkItem {
    fn of(name: ObjectName, service: Arc<str>, object: &ObjectState) -> Self {
        Self {
            object: name,
            service,
            exists: object.remote.is_some(),
            priority: object.priority,
            retry: object.retry(),
        }
    }

    fn of_slice(slice: &Slice) -> Self {
        let name = ObjectName::slice(slice.name.clone());
        Self::of(name, slice.service_name.clone(), &slice.object)
    }
}

/// A pod, cut to what its endpoints depend on.
#[derive(Clone, Debug)]
struct Pod {
    name: Box<str>,
    uid: Uid,
    v4: Option<Ipv4Addr>,
    /// Apart, since most have none.
    v6: Option<Box<Ipv6Addr>>,
    /// The family of its first address.
    primary: Option<Family>,
    /// Where its labels are, and its place there.
    labels: (FullSetId, u32),
    node: NodeId,
    /// Its place among the node's pods.
    node_at: u32,
    ports: u32,
    host: HostId,
    /// As in an endpoint's conditions, whatever its Services publish: serving says that it is ready.
    conditions: Conditions,
    epoch: u8,
    ready_time: Option<Time>,
    /// The Services that select it, with its place in each family of theirs; sorted by both.
    members: SmallVec<[Member; 1]>,
}

impl Pod {
    fn conditions_of(facts: &PodFacts) -> Conditions {
        Conditions::new(facts.ready, facts.ready, facts.terminating)
    }

    /// Where a Service and family stand among the members, or would.
    fn find_member(&self, service: ServiceId, family: Family) -> Result<usize, usize> {
        self.members
            .binary_search_by_key(&(service, family), |m| (m.service, m.family))
    }

    /// The place of a Service and family among the members.
    fn member(&self, service: ServiceId, family: Family) -> Option<usize> {
        self.find_member(service, family).ok()
    }

    /// The places of a Service among the members.
    fn members_of(&self, service: ServiceId) -> Range<usize> {
        let (Ok(start) | Err(start)) = self.find_member(service, Family::V4);
        let of = self.members[start..].iter().take_while(|m| m.service == service);
        start..start + of.count()
    }

    /// Whether a Service has it.
    fn is_member_of(&self, service: ServiceId) -> bool {
        !self.members_of(service).is_empty()
    }

    fn ip(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.v4.map(IpAddr::V4),
            Family::V6 => self.v6.as_deref().copied().map(IpAddr::V6),
        }
    }
}

/// What an event changed of a pod, as far as one of its endpoints goes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct PodChange {
    /// Its group may be another one.
    ports: bool,
    /// By family: something beside its conditions is published differently.
    content: [bool; 2],
    /// Endpoints show something else of it beside its address and whether it is ready.
    endpoints: bool,
}

impl PodChange {
    /// Something that all families publish, conditions aside.
    const CONTENT: Self = Self {
        ports: false,
        content: [true; 2],
        endpoints: false,
    };
}

/// A hostname and the subdomain in which it counts. The pods of a `StatefulSet` share one, since each is called
/// as it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Host {
    /// `None` if it is the pod's name.
    hostname: Option<Box<str>>,
    subdomain: Box<str>,
}

/// That a Service selects a pod, and where its endpoint of one family is.
#[derive(Clone, Copy, Debug)]
struct Member {
    service: ServiceId,
    /// None while it is not published.
    slice: SliceId,
    /// The place in the slice. The API allows 1000 endpoints in one.
    at: u16,
    family: Family,
    /// Whether it is among those that the next evaluation places.
    queued: bool,
}

/// A node that pods of this namespace run on.
#[derive(Clone, Debug)]
struct LocalNode {
    view: Arc<NodeView>,
    pods: SmallVec<[PodId; 4]>,
}

#[derive(Clone, Debug)]
struct Service {
    facts: ServiceFacts,
    /// Another number whenever its ports change.
    ports: u64,
    /// By [`Family::index`]; `None` where it has no slices, and in both while it is not managed.
    families: [Option<Box<FamilyState>>; 2],
    /// Whether it has been evaluated with a selector: only the first time stamps its creation.
    known: bool,
    /// The earliest Ready time that moved forward since the last evaluation.
    trigger: Option<Time>,
    /// While it is not managed: the Ready times of the pods it selected when it last was.
    paused_times: Option<Box<KeyedMap<Box<str>, Time>>>,
    /// How many slices must be fetched before it can be evaluated.
    awaiting: u32,
    /// Its slices, whatever their role.
    slices: SmallSet<SliceId>,
    /// What its Endpoints object shows, while that is ours to write.
    endpoints: Option<Box<addresses::ServiceEndpoints>>,
    dirty: bool,
    epoch: u8,
    tally: sync_stats::SyncStats,
    moves: sync_stats::Moves,
}

impl Service {
    fn note(&mut self, time: Option<Time>) {
        self.trigger = earliest(self.trigger, time);
    }

    fn family(&mut self, family: Family) -> &mut FamilyState {
        self.families[family.index()]
            .as_mut()
            .expect("a slice's Service has the slice's family")
    }
}

/// Everything that is known of one namespace. Owned by its shard.
#[derive(Clone, Debug)]
pub struct NamespaceState {
    namespace: Arc<str>,
    settings: Settings,
    random: fastrand::Rng,
    pending_lists: PendingLists,
    cache: SelectorCache,
    pods: Slab<Pod>,
    pods_by_name: HashTable<u32>,
    port_sets: Interner<Box<[ContainerPort]>>,
    resolved: ResolvedPorts,
    /// The last number that was given to the ports of a Service.
    service_ports: u64,
    nodes: Slab<LocalNode>,
    nodes_by_name: HashTable<u32>,
    hosts: Interner<Host>,
    services: Slab<Service>,
    services_by_name: KeyedMap<Arc<str>, ServiceId>,
    slices: Slab<Slice>,
    slices_by_name: KeyedMap<Arc<str>, SliceId>,
    /// Slices of Services that we do not manage, by the Service that they name.
    parked: KeyedMap<Arc<str>, SmallSet<SliceId>>,
    /// Slices that wait.
    slice_queue: Queue<SliceId, SliceFacts>,
    dirty: Vec<ServiceId>,
    /// What the last event has left to be done.
    passes: VecDeque<passes::Pass>,
    /// The plan that is being made.
    planning: Option<Box<planning::Planning>>,
    /// Services whose hints depend on the zones.
    auto_hinted: BTreeSet<ServiceId>,
    /// The zones, while a Service depends on them.
    zones: Option<ZoneView>,
    endpoints: KeyedMap<Arc<str>, Box<endpoints::Endpoints>>,
    /// Endpoints that wait, by name.
    endpoints_queue: Queue<Arc<str>, EndpointsFacts>,
    /// Until the first plan, and again until the first one after the outputs were forgotten: everything that is
    /// known was there before this process wrote.
    starting: bool,
    remarks: Vec<Notification>,
    work: Work,
    /// What the server has, in a process that compares and does not write.
    shown: Option<Box<compare::Shown>>,
    syncs: Vec<SyncReport>,
    totals: Totals,
}

impl NamespaceState {
    /// Of a namespace of which nothing is known yet. `holds` says which lists are still to come.
    pub fn new(namespace: Arc<str>, settings: Settings, pending_lists: PendingLists) -> Self {
        // Names follow from the seed alone, and not from the key of hashes.
        let random = fastrand::Rng::with_seed(settings.seed ^ FxBuildHasher.hash_one(&namespace));
        Self {
            namespace,
            settings,
            random,
            pending_lists,
            cache: SelectorCache::default(),
            pods: Slab::new(),
            pods_by_name: HashTable::new(),
            port_sets: Interner::default(),
            resolved: ResolvedPorts::default(),
            service_ports: 0,
            nodes: Slab::new(),
            nodes_by_name: HashTable::new(),
            hosts: Interner::default(),
            services: Slab::new(),
            services_by_name: KeyedMap::default(),
            slices: Slab::new(),
            slices_by_name: KeyedMap::default(),
            parked: KeyedMap::default(),
            dirty: Vec::new(),
            passes: VecDeque::new(),
            planning: None,
            auto_hinted: BTreeSet::new(),
            zones: None,
            slice_queue: Queue::default(),
            endpoints: KeyedMap::default(),
            endpoints_queue: Queue::default(),
            starting: pending_lists.any(),
            remarks: Vec::new(),
            work: Work::default(),
            shown: None,
            syncs: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// The namespace's name.
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// What has been done so far.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Takes the account of what has been done since it was last taken.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// How many pods, Services, slices, and label sets (whole and projected) there are.
    pub fn sizes(&self) -> Sizes {
        let (full_sets, label_sets) = self.cache.sizes();
        Sizes {
            pods: self.pods.len(),
            services: self.services.len(),
            slices: self.slices.len(),
            endpoints: self.endpoints.len(),
            full_sets,
            label_sets,
        }
    }

    /// Whether nothing is known and nothing is on its way: the state can be dropped.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.services.is_empty()
            && self.slices.is_empty()
            && self.slice_queue.is_empty()
            && self.endpoints.is_empty()
            && self.endpoints_queue.arrivals.is_empty()
            && self.shown.as_ref().is_none_or(|shown| shown.is_empty())
    }

    /// Another list of the kind is about to arrive: nothing is planned or written until it is whole.
    pub fn begin_list(&mut self, kind: Kind) {
        self.pending_lists.set(kind);
    }

    /// The list of an epoch is whole: what it did not show is gone. Slices that were written after it was
    /// taken (their version is above the list's) are not in it, and stay.
    pub fn end_list(&mut self, kind: Kind, epoch: u8, version: u64, nodes: &mut dyn NodeDirectory) {
        for name in self.unlisted(kind, epoch) {
            self.begin_unlisted(kind, &name, nodes);
            self.finish_passes();
        }
        self.finish_list(kind, epoch, version);
    }

    /// The pods or Services that the list of an epoch did not show, by name. Of the other kinds, there are none.
    pub fn unlisted(&self, kind: Kind, epoch: u8) -> Vec<Box<str>> {
        match kind {
            Kind::Pod => {
                let gone = self.pods.iter().filter(|(_, pod)| pod.epoch != epoch);
                gone.map(|(_, pod)| pod.name.clone()).collect()
            }
            Kind::Service => {
                let gone = self.services.iter().filter(|(_, service)| service.epoch != epoch);
                gone.map(|(_, service)| (*service.facts.name).into()).collect()
            }
            Kind::Node | Kind::Slice | Kind::Endpoints => Vec::new(),
        }
    }

    /// One of [`Self::unlisted`] is gone; its looks at pods are left to [`Self::step_passes`].
    pub fn begin_unlisted(&mut self, kind: Kind, name: &str, nodes: &mut dyn NodeDirectory) {
        match kind {
            Kind::Pod => self.remove_pod(name, nodes),
            Kind::Service => self.begin_removal(name),
            Kind::Node | Kind::Slice | Kind::Endpoints => {}
        }
    }

    /// As [`Self::end_list`], when what [`Self::unlisted`] names is gone.
    pub fn finish_list(&mut self, kind: Kind, epoch: u8, version: u64) {
        match (&mut self.shown, kind) {
            // What the last look took over is of an older list, and is taken over anew by the next.
            (Some(shown), _) => shown.sweep(kind, epoch, version),
            (None, Kind::Slice) => self.sweep::<SliceOutput>(epoch, version),
            (None, Kind::Endpoints) => self.sweep::<EndpointsOutput>(epoch, version),
            (None, Kind::Node | Kind::Pod | Kind::Service) => {}
        }
        self.pending_lists.clear(kind);
    }

    fn mark(&mut self, id: ServiceId) {
        let service = &mut self.services[id.index()];
        if !service.dirty {
            service.dirty = true;
            self.dirty.push(id);
            // While nothing is planned, for days perhaps, Services come and go.
            if self.dirty.len() > 2 * self.services.len() + 16 {
                self.dirty.sort_unstable();
                self.dirty.dedup();
                let services = &self.services;
                self.dirty
                    .retain(|id| services.get(id.index()).is_some_and(|service| service.dirty));
            }
        }
    }

    /// Has the next plan say that a slice is due, if it is then. What is in flight asks again when its answer
    /// is there.
    fn want(&mut self, id: SliceId) {
        self.slice_queue.wanted.insert(id);
    }

    fn find_pod(&self, name: &str) -> Option<PodId> {
        let found = self
            .pods_by_name
            .find(hash_of(name), |&id| *self.pods[id as usize].name == *name);
        found.map(|&id| PodId(id))
    }

    fn find_node(&self, name: &str) -> Option<NodeId> {
        let found = self
            .nodes_by_name
            .find(hash_of(name), |&id| *self.nodes[id as usize].view.name == *name);
        found.map(|&id| NodeId(id))
    }
}

/// How much a namespace's state holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sizes {
    /// Pods.
    pub pods: usize,
    /// Services.
    pub services: usize,
    /// Slices, parked ones among them.
    pub slices: usize,
    /// Endpoints objects, parked ones among them.
    pub endpoints: usize,
    /// Whole label maps.
    pub full_sets: usize,
    /// Different sets of selectors that match label maps.
    pub label_sets: usize,
}
