//! The cluster as a run means it to be. The generator changes it here and in the API server alike.

mod selected;

use self::selected::Selected;
use super::kinds::{DISTRIBUTIONS, Kind};
use super::plan::Plan;
use super::sizes::Layout;
use crate::names::{LABEL, PREFIX};
use crate::observe::PodNumber;
use crate::observe::visible::{SetId, Shown};
use crate::oracle::Family;
use std::collections::HashMap;
use std::ops::Range;

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// CPUs of the demo's nodes, in turn; not as many as zones, so that every zone has nodes of every size. Quantities
/// may be written in many ways.
const CPUS: [&str; 4] = ["16", "8", "15890m", "4.5"];
const TIERS: [&str; 3] = ["frontend", "backend", "data"];
/// An Endpoints object holds no more addresses than that: of larger Services it does not show every pod.
const MAX_ADDRESSES: usize = 1_000;
const NODE_TRIES: usize = 64;
/// One pod in so many is not ready at first.
const NOT_READY: u32 = 10;

/// The cluster.
pub(super) struct World {
    pub(super) run: String,
    pub(super) layout: Layout,
    pub(super) namespaces: Vec<String>,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
    pub(super) services: Vec<Service>,
    pub(super) rng: fastrand::Rng,
    /// Pods have their zone in a label.
    pub(super) labels_zones: bool,
    /// Groups by namespace.
    groups_in: Vec<Vec<usize>>,
    selected: Selected,
    /// How many Services there are of the sort [`Kind::Near`].
    nearer: usize,
    /// Groups of sandboxes that are yet to be made; their Services do not exist.
    claims: Range<usize>,
    pods: HashMap<PodNumber, Pod>,
    /// Pods that no operation has in hand.
    idle: Vec<PodNumber>,
    next_pod: PodNumber,
}

/// A node of the cluster. Its zone never changes.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) zone: &'static str,
    /// The CPU that pods may have, as the node reports it.
    pub(super) cpu: &'static str,
    pub(super) up: bool,
}

/// Pods made from one template.
pub(super) struct Group {
    pub(super) namespace: usize,
    /// The value of the label that selects them.
    pub(super) name: String,
    /// The sort of the Service that they are made for.
    pub(super) kind: Kind,
    pub(super) tier: &'static str,
    /// How many it is to have.
    pub(super) size: usize,
    pub(super) members: Vec<PodNumber>,
}

/// A Service, which may exist or not.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) namespace: usize,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) selection: Selection,
    /// Only selected pods of the track `stable` count.
    pub(super) stable: bool,
    /// How near it wants its clients.
    pub(super) distribution: Option<&'static str>,
    pub(super) exists: bool,
    /// How often it was edited.
    pub(super) edits: u32,
    /// An operation has it in hand.
    pub(super) busy: bool,
}

/// The pods of its namespace that a Service selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The Service has no selector.
    None,
    /// No pod has the label that it selects by.
    Nobody,
    Group(usize),
    Tier(&'static str),
}

/// A pod.
#[derive(Clone)]
pub(super) struct Pod {
    pub(super) number: PodNumber,
    pub(super) group: usize,
    pub(super) node: usize,
    /// Its track is `canary`, not `stable`.
    pub(super) canary: bool,
    /// The pod is of an older version, with other ports.
    pub(super) old: bool,
    pub(super) state: State,
    /// Where it stands among the idle ones, if it does.
    idle: Option<usize>,
}

/// A pod's state, as the API server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The pod has no address yet.
    Pending,
    Running {
        ready: bool,
    },
    /// The pod is being deleted.
    Ending {
        ready: bool,
    },
    Gone,
}

/// Slices that a change of a pod shows in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) set: SetId,
    /// The Endpoints object shows it, too: it is of this family, and shows every pod.
    pub(super) in_endpoints: bool,
    /// Pods are published as ready before they are.
    pub(super) not_ready: bool,
}

// === impl World ===

impl World {
    /// Makes up a cluster; the same plan makes the same one, but for the run's name.
    pub(super) fn new(plan: &Plan, run: &str) -> Self {
        let sizes = plan.sizes;
        let width = sizes.namespaces.to_string().len().max(2);
        let namespaces = (1..=sizes.namespaces).map(|n| format!("{PREFIX}-{run}-{n:0width$}"));
        let cpus = if plan.layout == Layout::Demo {
            &CPUS[..]
        } else {
            &CPUS[..1]
        };
        let nodes = (0..sizes.nodes).map(|n| Node {
            name: format!("{PREFIX}-{run}-node-{:03}", n + 1),
            zone: ZONES[n % ZONES.len()],
            cpu: cpus[n % cpus.len()],
            up: true,
        });
        let mut world = Self {
            run: run.to_owned(),
            layout: plan.layout,
            namespaces: namespaces.collect(),
            nodes: nodes.collect(),
            groups: Vec::new(),
            services: Vec::new(),
            rng: fastrand::Rng::with_seed(plan.seed),
            labels_zones: plan.labels_zones(),
            groups_in: vec![Vec::new(); sizes.namespaces],
            selected: Selected::default(),
            nearer: 0,
            claims: 0..0,
            pods: HashMap::with_capacity(sizes.pods),
            idle: Vec::with_capacity(sizes.pods),
            next_pod: 0,
        };
        world.lay_out(plan);
        world.add_pods();
        world
    }

    fn lay_out(&mut self, plan: &Plan) {
        let sizes = plan.sizes;
        match plan.layout {
            Layout::Even => {
                let rest = sizes.pods % sizes.services;
                for index in 0..sizes.services {
                    let size = sizes.pods / sizes.services + usize::from(index < rest);
                    let (namespace, name) = (index % sizes.namespaces, format!("app-{index:04}"));
                    self.add_group(namespace, name.clone(), Kind::Plain, size);
                    self.add_service(namespace, name, Kind::Plain, Selection::Group(index));
                }
            }
            Layout::Sandbox => {
                let all = sizes.pods + plan.claims();
                for index in 0..all {
                    self.add_sandbox(index, index < sizes.pods, sizes.services > sizes.pods);
                }
                self.claims = sizes.pods..all;
            }
            Layout::Demo => {
                for index in 0..sizes.services {
                    self.add_example(index);
                }
                self.deal_pods(sizes.pods);
            }
        }
    }

    fn add_pods(&mut self) {
        for group in 0..self.groups.len() {
            for _ in 0..self.groups[group].size {
                let number = self.new_pod(group);
                let ready = self.rng.u32(..NOT_READY) > 0;
                let pod = self.pods.get_mut(&number).expect("it was just made");
                pod.state = State::Running { ready };
                self.put_back(number);
            }
        }
    }

    /// Returns the group's position.
    fn add_group(&mut self, namespace: usize, name: String, kind: Kind, size: usize) -> usize {
        let tier = TIERS[self.rng.usize(..TIERS.len())];
        self.groups_in[namespace].push(self.groups.len());
        self.groups.push(Group {
            namespace,
            name,
            kind,
            tier,
            size,
            members: Vec::with_capacity(size),
        });
        self.groups.len() - 1
    }

    fn add_service(&mut self, namespace: usize, name: String, kind: Kind, selection: Selection) {
        let distribution = (kind == Kind::Near).then(|| DISTRIBUTIONS[self.nearer % DISTRIBUTIONS.len()]);
        self.nearer += usize::from(kind == Kind::Near);
        self.selected.add(self.services.len(), namespace, selection);
        self.services.push(Service {
            namespace,
            name,
            kind,
            selection,
            stable: kind == Kind::MultiKey,
            distribution,
            exists: true,
            edits: 0,
            busy: false,
        });
    }

    /// A sandbox that stands, or is yet to be made.
    fn add_sandbox(&mut self, index: usize, stands: bool, has_cluster_ip: bool) {
        let name = format!("sandbox-{index:06}");
        let group = self.add_group(0, name.clone(), Kind::Headless, usize::from(stands));
        let selection = Selection::Group(group);
        self.add_service(0, name.clone(), Kind::Headless, selection);
        if has_cluster_ip {
            self.add_service(0, format!("{name}-ip"), Kind::Plain, selection);
        }
        for service in self.services_of(group) {
            self.services[service].exists = stands;
        }
    }

    /// The next sandbox that is yet to be made, as the group of its pod.
    pub(super) fn next_claim(&mut self) -> Option<usize> {
        self.claims.next()
    }

    /// The Services that select a group and no other.
    pub(super) fn services_of(&self, group: usize) -> Vec<usize> {
        let Group { namespace, tier, .. } = self.groups[group];
        let services = self.selected.by(group, namespace, tier);
        let of_group = Selection::Group(group);
        services
            .filter(|service| self.services[*service].selection == of_group)
            .collect()
    }

    /// The demo's Service of that number, and its pods' template if it has pods of its own.
    fn add_example(&mut self, index: usize) {
        let kind = Kind::dealt(index);
        let name = format!("{}-{index}", kind.prefix());
        let namespace = self.rng.usize(..self.namespaces.len());
        let neighbours = &self.groups_in[namespace];
        let selection = match kind {
            Kind::NoSelector | Kind::ExternalName => Selection::None,
            Kind::NoPods => Selection::Nobody,
            Kind::Overlapping if index.is_multiple_of(2) => Selection::Tier(TIERS[index % TIERS.len()]),
            Kind::Overlapping if !neighbours.is_empty() => {
                Selection::Group(neighbours[self.rng.usize(..neighbours.len())])
            }
            _ => Selection::Group(self.add_group(namespace, name.clone(), kind, 0)),
        };
        self.add_service(namespace, name, kind, selection);
    }

    /// Says how many pods each group of the demo has: the first, the large Service's, most.
    fn deal_pods(&mut self, pods: usize) {
        let large = if self.groups.len() > 1 {
            (pods / 12).max(250.min(pods / 2))
        } else {
            pods
        };
        self.groups[0].size = large;
        let mut hands = Vec::new();
        for group in 1..self.groups.len() {
            hands.extend(std::iter::repeat_n(group, self.rng.usize(1..=4)));
        }
        for group in hands.into_iter().cycle().take(pods - large) {
            self.groups[group].size += 1;
        }
    }

    /// The label that selects the objects of this run.
    pub(super) fn label(&self) -> String {
        format!("{LABEL}={}", self.run)
    }

    /// The Services by namespace and name, and the family of their Endpoints.
    pub(super) fn outputs(&self) -> HashMap<(String, String), (usize, Family)> {
        let services = self.services.iter().enumerate();
        let output = |(index, service): (usize, &Service)| {
            let key = (self.namespaces[service.namespace].clone(), service.name.clone());
            (key, (index, service.kind.families()[0]))
        };
        services.map(output).collect()
    }

    /// How many slices there must be at least when everything is published, and how many Endpoints objects: one for each
    /// Service that has any.
    pub(super) fn fewest_outputs(&self) -> usize {
        let services = self.services.iter();
        services
            .filter(|service| service.exists && service.kind.has_selector())
            .count()
    }

    /// A pod that was not there before, in hand, on any node that is up.
    pub(super) fn new_pod(&mut self, group: usize) -> PodNumber {
        let number = self.next_pod;
        self.next_pod += 1;
        // A round that was cut off may leave nodes down; if all are, one of them has to do.
        let mut node = self.rng.usize(..self.nodes.len());
        for _ in 0..NODE_TRIES {
            if self.nodes[node].up {
                break;
            }
            node = self.rng.usize(..self.nodes.len());
        }
        let demo = self.layout == Layout::Demo;
        let pod = Pod {
            number,
            group,
            node,
            canary: demo && self.rng.u8(..10) == 0,
            old: demo && self.groups[group].kind.has_old_pods() && self.rng.u8(..8) == 0,
            state: State::Pending,
            idle: None,
        };
        self.groups[group].members.push(number);
        self.pods.insert(number, pod);
        number
    }

    pub(super) fn pod(&self, number: PodNumber) -> Option<&Pod> {
        self.pods.get(&number)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values()
    }

    pub(super) fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// The pods of a namespace that are on nodes of a zone.
    pub(super) fn pods_in(&self, namespace: usize, zone: &str) -> Vec<PodNumber> {
        let groups = self.groups_in[namespace].iter().map(|group| &self.groups[*group]);
        let members = groups.flat_map(|group| group.members.iter().copied());
        let is_there = |number: &PodNumber| {
            self.pod(*number)
                .is_some_and(|pod| self.nodes[pod.node].zone == zone)
        };
        members.filter(is_there).collect()
    }

    /// Takes some pod in hand.
    pub(super) fn take_any(&mut self) -> Option<PodNumber> {
        if self.idle.is_empty() {
            return None;
        }
        let number = self.idle[self.rng.usize(..self.idle.len())];
        self.take(number).then_some(number)
    }

    /// Takes a pod in hand, unless an operation has it already.
    pub(super) fn take(&mut self, number: PodNumber) -> bool {
        let Some(position) = self.pods.get_mut(&number).and_then(|pod| pod.idle.take()) else {
            return false;
        };
        self.idle.swap_remove(position);
        if let Some(moved) = self.idle.get(position) {
            let moved = self.pods.get_mut(moved).expect("idle pods are there");
            moved.idle = Some(position);
        }
        true
    }

    pub(super) fn put_back(&mut self, number: PodNumber) {
        if let Some(pod) = self.pods.get_mut(&number) {
            pod.idle = Some(self.idle.len());
            self.idle.push(number);
        }
    }

    /// The API server knows of a new state of a pod that is in hand.
    pub(super) fn set_state(&mut self, number: PodNumber, state: State) {
        let Some(pod) = self.pods.get_mut(&number) else {
            return;
        };
        pod.state = state;
        if state == State::Gone {
            let members = &mut self.groups[pod.group].members;
            if let Some(position) = members.iter().position(|member| *member == number) {
                members.swap_remove(position);
            }
            self.pods.remove(&number);
        }
    }

    /// Where changes of a pod show.
    pub(super) fn places(&self, pod: &Pod) -> Vec<Place> {
        let group = &self.groups[pod.group];
        let pod_families = group.kind.families();
        let shows_all = group.members.len() <= MAX_ADDRESSES;
        let mut places = Vec::new();
        for index in self.selected.by(pod.group, group.namespace, group.tier) {
            let service = &self.services[index];
            if !service.exists || !self.selects(service, pod) {
                continue;
            }
            let families = service.kind.families();
            let shown = families.iter().filter(|family| pod_families.contains(family));
            places.extend(shown.map(|family| Place {
                set: (index, *family),
                in_endpoints: shows_all && *family == families[0],
                not_ready: service.kind.publishes_not_ready(),
            }));
        }
        places
    }

    fn selects(&self, service: &Service, pod: &Pod) -> bool {
        let selected = match service.selection {
            Selection::None | Selection::Nobody => false,
            Selection::Group(group) => group == pod.group,
            Selection::Tier(tier) => tier == self.groups[pod.group].tier,
        };
        selected && !(service.stable && pod.canary)
    }

    /// Some Service has more pods than its Endpoints object shows.
    pub(super) fn exceeds_endpoints(&self) -> bool {
        self.groups.iter().any(|group| group.size > MAX_ADDRESSES)
    }

    /// Some Service has so few pods that its Endpoints object shows all of them.
    pub(super) fn fits_endpoints(&self) -> bool {
        self.groups.iter().any(|group| group.size <= MAX_ADDRESSES)
    }

    /// The first pod of the group that the Service selects: it stands for all when they come and go with the Service.
    pub(super) fn first_selected(&self, service: usize) -> Option<&Pod> {
        let Selection::Group(group) = self.services[service].selection else {
            return None;
        };
        self.pod(*self.groups[group].members.iter().min()?)
    }

    /// A Service that no operation has in hand.
    pub(super) fn take_service(&mut self) -> Option<usize> {
        // A few tries find one, unless nearly all are in hand; then it is better to wait.
        for _ in 0..8 {
            let index = self.rng.usize(..self.services.len());
            let service = &mut self.services[index];
            if !service.busy {
                service.busy = true;
                return Some(index);
            }
        }
        None
    }
}

// === impl Service ===

impl Service {
    /// Its selector can come and go with the track, since it has one, and that is not what it is an example of.
    pub(super) fn can_narrow(&self) -> bool {
        self.selection != Selection::None && self.kind != Kind::MultiKey
    }
}

// === impl Pod ===

impl Pod {
    pub(super) fn ready(&self) -> bool {
        matches!(
            self.state,
            State::Running { ready: true } | State::Ending { ready: true }
        )
    }
}

// === impl State ===

impl State {
    /// The endpoint that slices show; `not_ready`: slices of a Service that publishes pods as ready before they are.
    pub(super) fn in_slices(self, not_ready: bool) -> Shown {
        let (serving, terminating) = match self {
            Self::Pending | Self::Gone => return Shown::Absent,
            Self::Running { ready } => (ready, false),
            Self::Ending { ready } => (ready, true),
        };
        Shown::Present {
            ready: not_ready || (serving && !terminating),
            serving,
            terminating,
        }
    }

    /// The address that Endpoints objects show.
    pub(super) fn in_endpoints(self) -> Shown {
        match self {
            Self::Running { ready: true } => Shown::READY,
            Self::Running { ready: false } => Shown::NOT_READY,
            Self::Pending | Self::Ending { .. } | Self::Gone => Shown::Absent,
        }
    }
}

#[cfg(test)]
mod tests;
