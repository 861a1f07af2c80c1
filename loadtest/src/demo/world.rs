//! What the demo's cluster consists of. The churn changes it here and in the API server alike.

use std::{collections::HashMap, iter, net::IpAddr};

use super::sizes::Sizes;
use crate::{
    observe::{PodNumber, pod_ip},
    oracle::Family,
};

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// Of nodes, in turn; not as many as zones, so that every zone has nodes of every size. Quantities may be
/// written in many ways.
const CPUS: [&str; 4] = ["16", "8", "15890m", "4.5"];
/// How near Services of that kind want their clients, in turn.
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const TIERS: [&str; 3] = ["frontend", "backend", "data"];
/// The label that Services are narrowed by: `stable` or `canary`.
pub(super) const TRACK: &str = "track";

/// The sorts of Services, in the order in which they are dealt out, again and again; the first Service
/// of all is the large one.
const KINDS: [Kind; 26] = [
    Kind::NamedPort,
    Kind::MultiPort,
    Kind::Headless,
    Kind::Overlapping,
    Kind::Balanced,
    Kind::DualStack,
    Kind::Near,
    Kind::NotReady,
    Kind::Ipv6,
    Kind::HeadlessNoPorts,
    Kind::MultiKey,
    Kind::PreferDualStack,
    Kind::NoPods,
    Kind::NoSelector,
    Kind::ExternalName,
    Kind::TwoProtocols,
    Kind::Sidecar,
    Kind::Near,
    Kind::NamedPort,
    Kind::Balanced,
    Kind::Headless,
    Kind::Near,
    Kind::Overlapping,
    Kind::Plain,
    Kind::Plain,
    Kind::Plain,
];

/// The cluster as the demo means it to be.
pub(super) struct World {
    pub(super) rng: fastrand::Rng,
    pub(super) namespaces: Vec<String>,
    pub(super) nodes: Vec<Node>,
    pub(super) workloads: Vec<Workload>,
    pub(super) services: Vec<Service>,
    /// Pods that no operation has in hand. An operation takes its pod out and puts it back.
    pub(super) idle: Vec<Pod>,
    /// Services by namespace.
    services_in: Vec<Vec<usize>>,
    next_pod: PodNumber,
}

/// A node of the cluster. Its zone never changes.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) zone: &'static str,
    /// What pods may have of its CPU, as it reports it.
    pub(super) cpu: &'static str,
}

/// Pods made from one template.
pub(super) struct Workload {
    pub(super) namespace: usize,
    pub(super) app: String,
    pub(super) tier: &'static str,
    /// The Service that gives its pods their DNS names.
    pub(super) subdomain: Option<String>,
    /// The families that its pods have addresses of, the first one first.
    pub(super) families: &'static [Family],
    /// Some pods are of an older version, with other ports.
    pub(super) mixed: bool,
    /// How many pods it has, as compared with others.
    weight: usize,
}

/// What a Service is an example of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Large,
    Plain,
    /// Its pods have that port under different numbers.
    NamedPort,
    MultiPort,
    Headless,
    HeadlessNoPorts,
    /// Selects pods that another Service selects, too.
    Overlapping,
    MultiKey,
    /// Both families, IPv4 first.
    DualStack,
    /// Both families if there are, and IPv6 first.
    PreferDualStack,
    /// IPv6 alone, of pods that have nothing else.
    Ipv6,
    /// Shares its endpoints over zones by their CPU.
    Balanced,
    /// Wants its clients near, in one way or another.
    Near,
    NotReady,
    NoPods,
    NoSelector,
    ExternalName,
    TwoProtocols,
    Sidecar,
}

/// A Service of the cluster.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) namespace: usize,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) selector: Vec<(&'static str, String)>,
    /// One of [`DISTRIBUTIONS`].
    pub(super) distribution: Option<&'static str>,
    pub(super) edits: Edits,
}

/// How a Service was edited since it was made.
#[derive(Clone, Default)]
pub(super) struct Edits {
    pub(super) label: u32,
    pub(super) extra_port: bool,
}

/// A pod of the cluster.
pub(super) struct Pod {
    pub(super) number: PodNumber,
    pub(super) name: String,
    pub(super) workload: usize,
    pub(super) node: usize,
    pub(super) ips: Vec<IpAddr>,
    pub(super) canary: bool,
    pub(super) old: bool,
    pub(super) ready: bool,
}

// === impl World ===

impl World {
    /// Makes up a cluster; the same seed makes the same one.
    pub(super) fn generate(sizes: &Sizes, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let namespaces: Vec<String> = (1..=sizes.namespaces).map(|n| format!("team-{n:02}")).collect();
        let nodes = (0..sizes.nodes)
            .map(|n| Node {
                name: format!("node-{:03}", n + 1),
                zone: ZONES[n % ZONES.len()],
                cpu: CPUS[n % CPUS.len()],
            })
            .collect();
        let mut world = Self {
            namespaces,
            nodes,
            workloads: Vec::new(),
            services: Vec::new(),
            idle: Vec::with_capacity(sizes.pods),
            services_in: vec![Vec::new(); sizes.namespaces],
            next_pod: 0,
            rng: rng.fork(),
        };
        for index in 0..sizes.services {
            let kind = if index == 0 {
                Kind::Large
            } else {
                KINDS[(index - 1) % KINDS.len()]
            };
            world.add_service(index, kind, rng.usize(..sizes.namespaces));
        }
        // Every tenth of the pods starts without being ready.
        for (position, workload) in world.deal_pods(sizes.pods).into_iter().enumerate() {
            let mut pod = world.new_pod(workload);
            pod.ready = position % 10 != 9;
            world.idle.push(pod);
        }
        world
    }

    fn add_service(&mut self, index: usize, kind: Kind, namespace: usize) {
        let name = format!("{}-{index}", kind.prefix());
        let neighbours: Vec<usize> = self.services_in[namespace]
            .iter()
            .copied()
            .filter(|service| self.services[*service].has_own_workload())
            .collect();
        let selector = match kind {
            Kind::NoSelector | Kind::ExternalName => Vec::new(),
            Kind::NoPods => vec![("app", name.clone())],
            Kind::Overlapping if index.is_multiple_of(2) => {
                vec![("tier", TIERS[index % TIERS.len()].to_owned())]
            }
            Kind::Overlapping if !neighbours.is_empty() => self.services
                [neighbours[self.rng.usize(..neighbours.len())]]
            .selector
            .clone(),
            Kind::MultiKey => {
                self.add_workload(&name, kind, namespace);
                vec![("app", name.clone()), (TRACK, "stable".to_owned())]
            }
            _ => {
                self.add_workload(&name, kind, namespace);
                vec![("app", name.clone())]
            }
        };
        let nearer = self
            .services
            .iter()
            .filter(|service| service.kind == Kind::Near)
            .count();
        self.services_in[namespace].push(self.services.len());
        self.services.push(Service {
            namespace,
            name,
            kind,
            selector,
            distribution: (kind == Kind::Near).then(|| DISTRIBUTIONS[nearer % DISTRIBUTIONS.len()]),
            edits: Edits::default(),
        });
    }

    fn add_workload(&mut self, service: &str, kind: Kind, namespace: usize) {
        self.workloads.push(Workload {
            namespace,
            app: service.to_owned(),
            tier: TIERS[self.rng.usize(..TIERS.len())],
            subdomain: matches!(kind, Kind::Headless | Kind::HeadlessNoPorts).then(|| service.to_owned()),
            families: match kind {
                Kind::DualStack => &[Family::V4, Family::V6],
                Kind::PreferDualStack => &[Family::V6, Family::V4],
                Kind::Ipv6 => &[Family::V6],
                _ => &[Family::V4],
            },
            mixed: matches!(kind, Kind::NamedPort | Kind::MultiPort),
            weight: self.rng.usize(1..=4),
        });
    }

    /// Says of which workload each pod is. The first workload is the large one's.
    fn deal_pods(&mut self, pods: usize) -> Vec<usize> {
        let large = (pods / 12).max(250.min(pods / 2));
        let hands: Vec<usize> = (1..self.workloads.len())
            .flat_map(|workload| iter::repeat_n(workload, self.workloads[workload].weight))
            .collect();
        let rest = hands.iter().copied().cycle().chain(iter::repeat(0));
        let mut dealt: Vec<usize> = iter::repeat_n(0, large).chain(rest).take(pods).collect();
        self.rng.shuffle(&mut dealt);
        dealt
    }

    /// A pod that was not there before, on any node, with a name and addresses that no other pod has or had.
    pub(super) fn new_pod(&mut self, workload: usize) -> Pod {
        let number = self.next_pod;
        self.next_pod += 1;
        let template = &self.workloads[workload];
        let ip = |family: &Family| pod_ip(number, *family);
        Pod {
            number,
            name: format!("{}-{number:05}", template.app),
            workload,
            node: self.rng.usize(..self.nodes.len()),
            ips: template.families.iter().map(ip).collect(),
            canary: self.rng.u8(..10) == 0,
            old: template.mixed && self.rng.u8(..8) == 0,
            ready: true,
        }
    }

    /// The Services by namespace and name, and the family of their Endpoints.
    pub(super) fn outputs(&self) -> HashMap<(String, String), (usize, Family)> {
        let services = self.services.iter().enumerate();
        let output = |(index, service): (usize, &Service)| {
            let key = (self.namespaces[service.namespace].clone(), service.name.clone());
            (key, (index, service.families()[0]))
        };
        services.map(output).collect()
    }

    /// Takes some pod, for an operation to work on.
    pub(super) fn take_pod(&mut self) -> Option<Pod> {
        if self.idle.is_empty() {
            return None;
        }
        Some(self.idle.swap_remove(self.rng.usize(..self.idle.len())))
    }

    /// The slice sets that a pod has an endpoint in: for each Service that selects it, each family that both have.
    pub(super) fn published_in(&self, pod: &Pod) -> impl Iterator<Item = (usize, Family)> {
        let services = &self.services_in[self.workloads[pod.workload].namespace];
        services
            .iter()
            .copied()
            .filter(|service| self.selects(*service, pod))
            .flat_map(|service| {
                let families = self.services[service].families();
                let has = |family: &Family| pod.ips.iter().any(|ip| ip.is_ipv6() == (*family == Family::V6));
                families
                    .iter()
                    .copied()
                    .filter(has)
                    .map(move |family| (service, family))
            })
    }

    fn selects(&self, service: usize, pod: &Pod) -> bool {
        let service = &self.services[service];
        let matches = |(key, value): &(&str, String)| self.label(pod, key) == Some(value.as_str());
        !service.selector.is_empty() && service.selector.iter().all(matches)
    }

    /// The pod's label of that key, if Services may select by it.
    pub(super) fn label<'a>(&'a self, pod: &Pod, key: &str) -> Option<&'a str> {
        let workload = &self.workloads[pod.workload];
        match key {
            "app" => Some(&workload.app),
            "tier" => Some(workload.tier),
            TRACK => Some(if pod.canary { "canary" } else { "stable" }),
            _ => None,
        }
    }
}

// === impl Service ===

impl Service {
    /// The families that its slices are of.
    pub(super) fn families(&self) -> &'static [Family] {
        match self.kind {
            Kind::DualStack => &[Family::V4, Family::V6],
            Kind::PreferDualStack => &[Family::V6, Family::V4],
            Kind::Ipv6 => &[Family::V6],
            _ => &[Family::V4],
        }
    }

    /// Whether it publishes pods as ready before they are.
    pub(super) fn publishes_not_ready(&self) -> bool {
        self.kind == Kind::NotReady
    }

    pub(super) fn is_headless(&self) -> bool {
        matches!(self.kind, Kind::Headless | Kind::HeadlessNoPorts | Kind::NotReady)
    }

    fn has_own_workload(&self) -> bool {
        self.selector
            .iter()
            .any(|(key, value)| *key == "app" && *value == self.name)
            && self.kind != Kind::NoPods
    }
}

// === impl Kind ===

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Large => "gateway",
            Self::Plain => "web",
            Self::NamedPort => "api",
            Self::MultiPort => "orders",
            Self::Headless => "db",
            Self::HeadlessNoPorts => "members",
            Self::Overlapping => "overlap",
            Self::MultiKey => "stable",
            Self::DualStack => "dual",
            Self::PreferDualStack => "six-four",
            Self::Ipv6 => "six",
            Self::Balanced => "balanced",
            Self::Near => "near",
            Self::NotReady => "peers",
            Self::NoPods => "empty",
            Self::NoSelector => "manual",
            Self::ExternalName => "external",
            Self::TwoProtocols => "dns",
            Self::Sidecar => "mesh",
        }
    }
}
