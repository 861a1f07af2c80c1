//! The cluster as a run means it to be. The generator changes it here and in the API server alike.

use std::collections::HashMap;

use super::{
    plan::Plan,
    sizes::{Layout, mix_groups},
};
use crate::{
    names::{LABEL, PREFIX},
    observe::{PodNumber, visible::Shown},
    oracle::Family,
};

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// An Endpoints object holds no more addresses than that: of larger Services it does not show every pod.
const MAX_ADDRESSES: usize = 1_000;
const NODE_TRIES: usize = 64;
/// One pod in so many is not ready at first.
const NOT_READY: u32 = 10;

/// The cluster.
pub(super) struct World {
    pub(super) run: String,
    pub(super) namespaces: Vec<String>,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: Vec<Group>,
    pub(super) services: Vec<Service>,
    pub(super) rng: fastrand::Rng,
    pods: HashMap<PodNumber, Pod>,
    /// Pods that no operation has in hand.
    idle: Vec<PodNumber>,
    next_pod: PodNumber,
}

/// A node of the cluster.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) zone: &'static str,
    pub(super) up: bool,
}

/// Pods made from one template.
pub(super) struct Group {
    pub(super) namespace: usize,
    /// The value of the label that selects them.
    pub(super) name: String,
    /// How many it is to have.
    pub(super) size: usize,
    pub(super) members: Vec<PodNumber>,
    /// The Services that select it, if they exist.
    services: Vec<usize>,
}

/// A Service, which may exist or not.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) namespace: usize,
    pub(super) name: String,
    pub(super) headless: bool,
    pub(super) group: usize,
    pub(super) exists: bool,
    /// How often it was edited.
    pub(super) edits: u32,
    /// An operation has it in hand.
    pub(super) busy: bool,
}

/// A pod.
#[derive(Clone)]
pub(super) struct Pod {
    pub(super) number: PodNumber,
    pub(super) group: usize,
    pub(super) node: usize,
    pub(super) state: State,
    /// Where it stands among the idle ones, if it does.
    idle: Option<usize>,
}

/// What the API server knows of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has no address yet.
    Pending,
    Running {
        ready: bool,
    },
    /// It is being deleted.
    Ending {
        ready: bool,
    },
    Gone,
}

/// A Service that a change shows in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) service: usize,
    /// Whether its Endpoints object shows every pod.
    pub(super) in_endpoints: bool,
}

// === impl World ===

impl World {
    /// Makes up a cluster; the same plan makes the same one, but for the run's name.
    pub(super) fn new(plan: &Plan, run: &str) -> Self {
        let sizes = plan.sizes;
        let width = sizes.namespaces.to_string().len().max(2);
        let namespaces = (1..=sizes.namespaces).map(|n| format!("{PREFIX}-{run}-{n:0width$}"));
        let nodes = (0..sizes.nodes).map(|n| Node {
            name: format!("{PREFIX}-{run}-node-{:03}", n + 1),
            zone: ZONES[n % ZONES.len()],
            up: true,
        });
        let mut world = Self {
            run: run.to_owned(),
            namespaces: namespaces.collect(),
            nodes: nodes.collect(),
            groups: Vec::new(),
            services: Vec::new(),
            rng: fastrand::Rng::with_seed(plan.seed),
            pods: HashMap::with_capacity(sizes.pods),
            idle: Vec::with_capacity(sizes.pods),
            next_pod: 0,
        };
        match plan.layout {
            Layout::Even => {
                for index in 0..sizes.services {
                    let size = sizes.pods / sizes.services + usize::from(index < sizes.pods % sizes.services);
                    world.add_group(index, size);
                    world.add_service(format!("app-{index:04}"), index, false);
                }
            }
            Layout::Mix => {
                for (index, size) in mix_groups(sizes.pods).into_iter().enumerate() {
                    world.add_group(index, size);
                    world.add_service(format!("app-{index:04}"), index, false);
                }
            }
            Layout::HugeService => {
                world.add_group(0, sizes.pods);
                world.add_service("huge".to_owned(), 0, false);
                world.add_service("huge-headless".to_owned(), 0, true);
            }
            Layout::ManyServices => {
                world.add_group(0, sizes.pods);
                for index in 0..sizes.services {
                    world.add_service(format!("service-{index:04}"), 0, index % 4 == 3);
                }
            }
        }
        if !plan.empty {
            for group in 0..world.groups.len() {
                for _ in 0..world.groups[group].size {
                    let number = world.new_pod(group);
                    let ready = world.rng.u32(..NOT_READY) > 0;
                    let pod = world.pods.get_mut(&number).expect("it was just made");
                    pod.state = State::Running { ready };
                    world.put_back(number);
                }
            }
        }
        world
    }

    fn add_group(&mut self, index: usize, size: usize) {
        self.groups.push(Group {
            namespace: index % self.namespaces.len(),
            name: format!("app-{index:04}"),
            size,
            members: Vec::with_capacity(size),
            services: Vec::new(),
        });
    }

    fn add_service(&mut self, name: String, group: usize, headless: bool) {
        self.groups[group].services.push(self.services.len());
        self.services.push(Service {
            namespace: self.groups[group].namespace,
            name,
            headless,
            group,
            exists: true,
            edits: 0,
            busy: false,
        });
    }

    /// What the objects of this run are selected by.
    pub(super) fn label(&self) -> String {
        format!("{LABEL}={}", self.run)
    }

    /// The Services by namespace and name, and the family of their Endpoints.
    pub(super) fn outputs(&self) -> HashMap<(String, String), (usize, Family)> {
        let services = self.services.iter().enumerate();
        let output = |(index, service): (usize, &Service)| {
            let key = (self.namespaces[service.namespace].clone(), service.name.clone());
            (key, (index, Family::V4))
        };
        services.map(output).collect()
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
        self.groups[group].members.push(number);
        self.pods.insert(
            number,
            Pod {
                number,
                group,
                node,
                state: State::Pending,
                idle: None,
            },
        );
        number
    }

    /// The number of the next new pod.
    pub(super) fn next_number(&self) -> PodNumber {
        self.next_pod
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

    /// Where changes of a group's pods show.
    pub(super) fn places(&self, group: usize) -> Vec<Place> {
        let group = &self.groups[group];
        let in_endpoints = group.members.len() <= MAX_ADDRESSES;
        let existing = group
            .services
            .iter()
            .filter(|service| self.services[**service].exists);
        existing
            .map(|service| Place {
                service: *service,
                in_endpoints,
            })
            .collect()
    }

    /// Whether some Service has more pods than its Endpoints object shows.
    pub(super) fn exceeds_endpoints(&self) -> bool {
        self.groups.iter().any(|group| group.size > MAX_ADDRESSES)
    }

    /// A Service comes to select another group.
    pub(super) fn select(&mut self, service: usize, group: usize) {
        let before = std::mem::replace(&mut self.services[service].group, group);
        self.groups[before].services.retain(|other| *other != service);
        self.groups[group].services.push(service);
    }

    /// Some other group of the Service's namespace, if it has one.
    pub(super) fn another_group(&mut self, service: usize) -> Option<usize> {
        let Service { namespace, group, .. } = self.services[service];
        let others = self.groups.iter().enumerate();
        let others = others.filter(|(index, other)| other.namespace == namespace && *index != group);
        let others: Vec<usize> = others.map(|(index, _)| index).collect();
        (!others.is_empty()).then(|| others[self.rng.usize(..others.len())])
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
    /// What slices show of it.
    pub(super) fn in_slices(self) -> Shown {
        match self {
            Self::Pending | Self::Gone => Shown::Absent,
            Self::Running { ready: true } => Shown::READY,
            Self::Running { ready: false } => Shown::NOT_READY,
            Self::Ending { ready } => Shown::Present {
                ready: false,
                serving: ready,
                terminating: true,
            },
        }
    }

    /// What Endpoints objects show of it.
    pub(super) fn in_endpoints(self) -> Shown {
        match self {
            Self::Running { ready: true } => Shown::READY,
            Self::Running { ready: false } => Shown::NOT_READY,
            Self::Pending | Self::Ending { .. } | Self::Gone => Shown::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{
        phase::{Profile, Tuning},
        plan::Source,
        sizes::SizeFlags,
    };

    fn world(profile: Profile, pods: usize) -> World {
        let sizes = SizeFlags {
            pods: Some(pods),
            ..SizeFlags::default()
        };
        let plan = Plan::new(&Source::Profile(profile), &sizes, &Tuning::default(), Some(3)).unwrap();
        World::new(&plan, "r")
    }

    #[test]
    fn pods_are_dealt_out_without_a_rest() {
        for profile in [
            Profile::Steady,
            Profile::Mix,
            Profile::HugeService,
            Profile::ManyServices,
        ] {
            let world = world(profile, 503);
            assert_eq!(world.pod_count(), 503, "{profile}");
            assert_eq!(world.idle.len(), 503, "{profile}");
            let members: usize = world.groups.iter().map(|group| group.members.len()).sum();
            assert_eq!(members, 503, "{profile}");
        }
        assert_eq!(world(Profile::Scale, 503).pod_count(), 0);
    }

    #[test]
    fn a_pod_is_in_one_hand_at_most() {
        let mut world = world(Profile::Steady, 100);
        let taken: Vec<PodNumber> = std::iter::from_fn(|| world.take_any()).collect();
        assert_eq!(taken.len(), 100);
        assert!(!world.take(taken[0]));
        world.put_back(taken[5]);
        world.put_back(taken[7]);
        assert!(world.take(taken[5]) && world.take(taken[7]) && world.take_any().is_none());
        world.set_state(taken[5], State::Gone);
        assert_eq!(world.pod_count(), 99);
        world.put_back(taken[5]);
        assert!(world.take_any().is_none(), "what is gone does not come back");
    }
}
