//! Everything known about one namespace, and the objects derived from it.
//!
//! Events go in through [`NamespaceState::apply_pod`] and its siblings and mark Services dirty;
//! [`NamespaceState::plan`] evaluates the dirty Services and returns the objects that are due;
//! [`NamespaceState::grant`] builds the request for one of them when its turn comes, from the state at that moment;
//! [`NamespaceState::outcome`] takes the API server's answer. The work of each call grows with what changed, except
//! that a change of a Service itself takes a pass over its pods.

mod addresses;
mod adopt;
mod deferral;
mod endpoints;
mod evaluate;
mod followed;
mod forget;
mod health;
mod hinting;
mod kind;
mod leading;
mod lifecycle;
mod members;
mod mirror;
mod notifications;
mod passes;
mod planning;
mod pods;
mod readopt;
mod rivals;
mod rounds;
mod services;
mod slices;
mod sync_stats;
mod twice;
mod unknown_nodes;
mod visits;
mod withdraw;

pub use health::{FamilyHealth, ServiceHealth};
pub use kind::{Kind, PendingLists};
pub use leading::LeaderStatus;
pub use lifecycle::{Content, Granted, Outcome};
pub use mirror::{MirrorSync, MirrorTotals};
pub use notifications::Notification;
pub use sync_stats::{SyncReport, Totals};

use self::endpoints::Endpoints;
use self::lifecycle::Objects;
use self::mirror::{MirroredSlice, Mirrors};
use self::passes::Pass;
use self::rounds::{Round, Sweep};
use super::address::Family;
use super::backoff::Retry;
use super::compact::small::SmallSet;
use super::compact::table::{Named, Table};
use super::facts::ServiceFacts;
use super::hash::KeyedMap;
use super::ids::{ServiceId, SliceId};
use super::inputs::Inputs;
use super::mirror::MAX_PER_SUBSET;
use super::nodes::{NodeDirectory, ZoneView};
use super::object::{ObjectName, ObjectState};
use super::outputs::Outputs;
use super::ports::ResolvedPorts;
use super::queue::Priority;
use super::slices::{FamilyState, Slice};
use super::time::{Time, earliest};
use super::work::Work;
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

/// Settings that do not change while the process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `--max-endpoints-per-slice`, 1 to 1000.
    pub max_endpoints: usize,
    /// `--mirroring-max-endpoints-per-subset`, 1 to 1000.
    pub max_mirrored: usize,
    /// `--controllers`.
    pub outputs: Outputs,
    /// `--legacy-tolerate-unready-annotation`: Endpoints honour the annotation of older controllers.
    pub legacy_tolerate_unready: bool,
    /// `--clear-managed-fields`: the first update of each object ends the server's tracking of its fields.
    pub clear_managed_fields: bool,
    /// Seed for the random part of slice names.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_endpoints: 100,
            max_mirrored: MAX_PER_SUBSET,
            outputs: Outputs::ALL,
            legacy_tolerate_unready: false,
            clear_managed_fields: false,
            seed: 0,
        }
    }
}

/// A work item: an object that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkItem {
    /// The object.
    pub object: ObjectName,
    /// The Service that it is published for.
    pub service: Arc<str>,
    /// Whether the API server already has it, so that this is an update that may wait for others.
    pub exists: bool,
    /// The priority of its write.
    pub priority: Priority,
    /// The delay because of earlier failures.
    pub retry: Retry,
    /// True if the object is only read for what is published elsewhere, so that it is not batched with later changes.
    pub reads: bool,
}

impl WorkItem {
    fn new(object_name: ObjectName, service: Arc<str>, object: &ObjectState) -> Self {
        Self {
            object: object_name,
            service,
            exists: object.remote.is_some(),
            priority: object.priority,
            retry: object.retry(),
            reads: false,
        }
    }
}

#[derive(Clone, Debug)]
struct Service {
    facts: ServiceFacts,
    /// Replaced by a new number whenever its ports change.
    ports: u64,
    /// By [`Family::index`]; `None` for a family in which it has no slices, and for both while it is unmanaged.
    families: [Option<Box<FamilyState>>; 2],
    /// Whether it has been evaluated with a selector: only the first evaluation stamps its creation time.
    known: bool,
    /// The earliest Ready time that moved forward since the last evaluation.
    trigger: Option<Time>,
    /// While it is unmanaged: the Ready times of the pods that it selected when it was last managed.
    paused_times: Option<Box<KeyedMap<Box<str>, Time>>>,
    /// Number of slices that must be fetched before it can be evaluated.
    awaiting: u32,
    /// Its slices, in any phase.
    slices: SmallSet<SliceId>,
    /// Its pods, if it follows a Lease.
    following: Option<Box<followed::Following>>,
    /// True if people were told of slices that others publish for it.
    told_of_others: bool,
    /// The members of its Endpoints object, while that is ours to write.
    endpoints: Option<Box<addresses::ServiceEndpoints>>,
    dirty: bool,
    epoch: u8,
    sync_stats: sync_stats::SyncStats,
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

impl Named for Service {
    fn name(&self) -> &str {
        &self.facts.name
    }
}

/// The state of one namespace. Owned by its shard.
///
/// ```
/// use endpointd::cluster::codec::{self, Encoding, Namespaced};
/// use endpointd::core::body::Request;
/// use endpointd::core::facts::{PodFacts, ServiceFacts};
/// use endpointd::core::namespace::{NamespaceState, PendingLists, Settings};
/// use endpointd::core::nodes::NodeTable;
///
/// let service = br#"{
///     "metadata": {"name": "web", "namespace": "shop", "uid": "s"},
///     "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}
/// }"#;
/// let pod = br#"{
///     "metadata": {"name": "web-0", "namespace": "shop", "uid": "p", "labels": {"app": "web"}},
///     "spec": {},
///     "status": {"podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
/// }"#;
/// let mut nodes = NodeTable::default();
/// let mut state = NamespaceState::new("shop".into(), Settings::default(), PendingLists::NONE);
/// let service = codec::object::<Namespaced<ServiceFacts>>(service).unwrap();
/// state.apply_service(service.facts, 0);
/// let pod = codec::object::<Namespaced<PodFacts>>(pod).unwrap();
/// state.apply_pod(pod.facts, &[], 0, &mut nodes);
///
/// let due = state.plan();
/// assert_eq!(due.len(), 2, "a slice and an Endpoints object");
/// let granted = state.grant(&due[1].object, &mut Encoding::Json).unwrap();
/// let Request::Create(body) = granted.request else {
///     panic!("the API server has neither")
/// };
/// assert!(String::from_utf8(body).unwrap().contains(r#""ip":"10.1.0.1""#));
/// assert_eq!(state.plan(), [], "a plan is made once");
/// ```
#[derive(Clone, Debug)]
pub struct NamespaceState {
    namespace: Arc<str>,
    settings: Settings,
    random: fastrand::Rng,
    pending_lists: PendingLists,
    inputs: Inputs,
    memberships: members::AllMemberships,
    resolved: ResolvedPorts,
    /// The last number that was given to the ports of a Service.
    service_ports: u64,
    services: Table<ServiceId, Service>,
    slices: Objects<Slice>,
    /// Slices that name a Service we do not manage, by Service name.
    unmanaged: KeyedMap<Arc<str>, SmallSet<SliceId>>,
    replacements: withdraw::Replacements,
    twice: twice::Twice,
    rivals: rivals::Rivals,
    /// The time, as of the last call of [`Self::advance`].
    now: Duration,
    leases: leading::Leases,
    deferrals: deferral::Deferrals,
    dirty: Vec<ServiceId>,
    /// Work that the last event has left to be done.
    passes: VecDeque<passes::Pass>,
    /// The plan in progress.
    planning: Option<Box<planning::Planning>>,
    /// Services whose hints depend on the zones.
    auto_hinted: BTreeSet<ServiceId>,
    /// The zones, while any Service depends on them.
    zones: Option<ZoneView>,
    endpoints: Objects<Endpoints>,
    mirrored: Objects<MirroredSlice>,
    mirrors: Mirrors,
    /// Set until the first plan, and again until the first plan after the outputs were forgotten: everything that is
    /// known was there before this process wrote.
    starting: bool,
    notifications: Vec<Notification>,
    work: Work,
    syncs: Vec<SyncReport>,
    totals: Totals,
}

impl NamespaceState {
    /// Creates the state of a namespace of which nothing is known yet. `pending_lists` are the lists still to come.
    pub fn new(namespace: Arc<str>, settings: Settings, pending_lists: PendingLists) -> Self {
        // Slice names depend on the seed alone, not on the key of hashes.
        let random = fastrand::Rng::with_seed(settings.seed ^ FxBuildHasher.hash_one(&namespace));
        let (counts_nodes, finds_hosts) = (Kind::Node.is_needed(settings.outputs), settings.outputs.custom);
        let inputs = Inputs::new(namespace.clone(), counts_nodes, finds_hosts);
        Self {
            namespace,
            settings,
            random,
            pending_lists,
            inputs,
            memberships: members::AllMemberships::default(),
            resolved: ResolvedPorts::default(),
            service_ports: 0,
            services: Table::default(),
            slices: Objects::default(),
            unmanaged: KeyedMap::default(),
            replacements: withdraw::Replacements::default(),
            twice: twice::Twice::default(),
            rivals: rivals::Rivals::default(),
            now: Duration::ZERO,
            leases: leading::Leases::default(),
            deferrals: deferral::Deferrals::default(),
            dirty: Vec::new(),
            passes: VecDeque::new(),
            planning: None,
            auto_hinted: BTreeSet::new(),
            zones: None,
            endpoints: Objects::default(),
            mirrored: Objects::default(),
            mirrors: Mirrors::default(),
            starting: pending_lists.any(),
            notifications: Vec::new(),
            work: Work::default(),
            syncs: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Returns the namespace's name.
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// Returns the work done so far.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Counts what it takes to take in an object that was read. Returns the units.
    pub fn count_read(&mut self, units: u64) -> u64 {
        self.work.items_read += units;
        units
    }

    /// Takes the work done since it was last taken.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// Returns the number of pods, Services, slices, Endpoints objects, and label sets (whole and projected).
    pub fn sizes(&self) -> Sizes {
        let (full_sets, label_sets) = self.inputs.sizes_of_labels();
        Sizes {
            pods: self.inputs.len(),
            services: self.services.len(),
            slices: self.slices.len(),
            endpoints: self.endpoints.len(),
            full_sets,
            label_sets,
        }
    }

    /// Returns whether nothing is known and nothing is queued, so that the state can be dropped.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.services.is_empty()
            && self.slices.is_empty()
            && self.endpoints.is_empty()
            && self.mirrored.is_empty()
    }

    /// Marks a list as pending, since another one is about to arrive: nothing is planned or written until it is
    /// complete.
    pub fn begin_list(&mut self, kind: Kind) {
        self.pending_lists.set(kind);
    }

    /// Completes the list of an epoch: what it did not show is gone. Slices that were written after it was taken
    /// (their resourceVersion is above the list's) are not in it, and stay.
    pub fn end_list(&mut self, kind: Kind, epoch: u8, version: u64, nodes: &mut dyn NodeDirectory) {
        for name in self.unlisted(kind, epoch) {
            self.begin_unlisted(kind, &name, nodes);
            self.finish_passes();
        }
        self.finish_list(kind, epoch, version);
        self.finish_passes();
    }

    /// Returns the names of the pods or Services that the list of an epoch did not show; empty for other kinds.
    pub fn unlisted(&self, kind: Kind, epoch: u8) -> Vec<Box<str>> {
        match kind {
            Kind::Pod => self.inputs.unlisted(epoch),
            Kind::Service => {
                let gone = self.services.iter().filter(|(_, service)| service.epoch != epoch);
                gone.map(|(_, service)| (*service.facts.name).into()).collect()
            }
            Kind::Node | Kind::Slice | Kind::Endpoints | Kind::Mirrored => Vec::new(),
        }
    }

    /// Removes one of [`Self::unlisted`], but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_unlisted(&mut self, kind: Kind, name: &str, nodes: &mut dyn NodeDirectory) {
        match kind {
            Kind::Pod => self.remove_pod(name, nodes),
            Kind::Service => self.begin_removal(name),
            Kind::Node | Kind::Slice | Kind::Endpoints | Kind::Mirrored => {}
        }
    }

    /// Does the rest of [`Self::end_list`], once everything that [`Self::unlisted`] names is removed, but leaves the visits to
    /// objects to [`Self::step_passes`].
    pub fn finish_list(&mut self, kind: Kind, epoch: u8, version: u64) {
        let sweep = Sweep { kind, epoch, version };
        self.passes.push_back(Pass::Round(Round::Sweep(sweep, 0)));
    }

    fn mark(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        if !service.dirty {
            service.dirty = true;
            self.dirty.push(id);
            // Services may come and go while nothing is planned, perhaps for days.
            if self.dirty.len() > 2 * self.services.len() + 16 {
                self.dirty.sort_unstable();
                self.dirty.dedup();
                let services = &self.services;
                self.dirty
                    .retain(|&id| services.get(id).is_some_and(|service| service.dirty));
            }
        }
    }
}

/// The sizes of a namespace's state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sizes {
    /// Pods.
    pub pods: usize,
    /// Services.
    pub services: usize,
    /// Slices, including unmanaged ones.
    pub slices: usize,
    /// Endpoints objects, including unmanaged ones.
    pub endpoints: usize,
    /// Whole label maps.
    pub full_sets: usize,
    /// Distinct sets of selectors that match label maps.
    pub label_sets: usize,
}
