//! The order of a phase's operations.

use super::kinds::Kind;
use super::phase::{Phase, Profile};
use super::world::World;
use crate::observe::PodNumber;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The most pods that the demo adds or takes away at a time.
const MAX_SCALE: u32 = 3;

/// One thing to do. Pods and Services that are named here are in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// The pod's readiness changes.
    Flip(PodNumber),
    /// The pod stops being ready, if it is.
    Lose(PodNumber),
    /// So many pods of the group are made, and become ready.
    Start { group: usize, count: u32 },
    /// So many pods end, chosen from those that no operation works on.
    Shrink(u32),
    /// The pod is given time to end, stops being ready, and is gone.
    End(PodNumber),
    /// A pod of the same group is made, and the pod ends.
    Replace(PodNumber),
    /// The pod is gone at once, and another one of its group is made.
    Evict(PodNumber),
    /// All pods of the namespace on nodes of the zone are gone at once.
    Empty { namespace: usize, zone: &'static str },
    /// The node is said to be ready, or silent.
    Node { node: usize, up: bool },
    /// The readiness of some address changes in the Endpoints of the Service, which has no selector.
    Address(usize),
    /// Another pod takes over the Lease of the Service.
    Lead(usize),
    /// A sandbox, whose pod is of this group, is made with its Services, lives for a while, and is deleted with them.
    Claim(usize),
    /// A Service that does not exist is created; one that does is changed as said.
    Service(usize, Edit),
}

/// A change of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Label,
    Port,
    /// The Service selects another group.
    Selector,
    /// The Service selects only one track of its pods, or all of them again.
    Narrow,
    Delete,
    /// Deleted, and created at once.
    Recreate,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Do(Operation),
    /// No operation is possible now: all that could be worked on is in hand.
    Busy,
    /// All operations under way end first.
    Settle,
    Pause(Duration),
    /// A round is over.
    Done,
}

/// A part of a round that is still to be done. Its pods are not in hand yet.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start(usize),
    End(PodNumber),
    Lose(PodNumber),
    Evict(PodNumber),
    Empty { namespace: usize, zone: &'static str },
    Node { node: usize, up: bool },
    Settle,
    Pause(Duration),
}

/// A phase under way.
pub(super) struct Script {
    phase: Phase,
    steps: VecDeque<Step>,
    /// Groups that a rolling update has still to deal with in this round.
    groups: Vec<usize>,
    /// Their old pods, of the group in turn.
    old: Vec<PodNumber>,
    /// The pods that flap, and which one is next.
    flapping: Vec<PodNumber>,
    turn: usize,
    /// How many pods there were at first.
    pods: usize,
}

// === impl Script ===

impl Script {
    pub(super) fn new(phase: &Phase, world: &mut World) -> Self {
        let mut script = Self {
            phase: phase.clone(),
            steps: VecDeque::new(),
            groups: Vec::new(),
            old: Vec::new(),
            flapping: Vec::new(),
            turn: 0,
            pods: world.pod_count(),
        };
        script.begin(world);
        script
    }

    /// Begins a round.
    pub(super) fn begin(&mut self, world: &mut World) {
        match self.phase.profile {
            Profile::RollingUpdate => {
                let mut groups: Vec<usize> = (0..world.groups.len()).collect();
                world.rng.shuffle(&mut groups);
                let count = (groups.len() as f64 * self.phase.share).ceil() as usize;
                groups.truncate(count.max(1));
                self.groups = groups;
            }
            Profile::NodeLoss => self.lose_nodes(world),
            Profile::Scale => self.scale(world),
            Profile::ZoneLoss => self.lose_zone(world),
            Profile::Flap if self.flapping.is_empty() => {
                let mut pods: Vec<PodNumber> = world.pods().map(|pod| pod.number).collect();
                pods.sort_unstable();
                world.rng.shuffle(&mut pods);
                pods.truncate(self.phase.flapping);
                self.flapping = pods;
            }
            _ => {}
        }
    }

    /// The next thing to do; a pod or Service in it is taken in hand.
    pub(super) fn next(&mut self, world: &mut World) -> Next {
        match self.phase.profile {
            Profile::Steady
            | Profile::Restart
            | Profile::HugeService
            | Profile::ManyServices
            | Profile::Mega => world
                .take_any()
                .map_or(Next::Busy, |pod| Next::Do(Operation::Flip(pod))),
            Profile::Flap => self.flap(world),
            Profile::Mix => Self::mix(world),
            Profile::Demo => self.demo(world),
            Profile::ServiceChurn => Self::edit(world),
            Profile::Mirror => world
                .take_service()
                .map_or(Next::Busy, |service| Next::Do(Operation::Address(service))),
            Profile::Leader => world
                .take_service()
                .map_or(Next::Busy, |service| Next::Do(Operation::Lead(service))),
            Profile::Sandbox => world
                .next_claim()
                .map_or(Next::Busy, |group| Next::Do(Operation::Claim(group))),
            Profile::RollingUpdate | Profile::NodeLoss | Profile::Scale | Profile::ZoneLoss => {
                self.step(world)
            }
        }
    }

    fn flap(&mut self, world: &mut World) -> Next {
        for _ in 0..self.flapping.len() {
            let pod = self.flapping[self.turn];
            self.turn = (self.turn + 1) % self.flapping.len();
            if world.take(pod) {
                return Next::Do(Operation::Flip(pod));
            }
        }
        Next::Busy
    }

    /// Mostly readiness, now and then a new pod for an old one, and rarely one more or one less.
    fn mix(world: &mut World) -> Next {
        let choice = world.rng.u32(..100);
        if choice < 2 {
            let group = world.rng.usize(..world.groups.len());
            return Next::Do(Operation::Start { group, count: 1 });
        }
        let Some(pod) = world.take_any() else {
            return Next::Busy;
        };
        Next::Do(match choice {
            2..4 => Operation::End(pod),
            4..15 => Operation::Replace(pod),
            _ => Operation::Flip(pod),
        })
    }

    /// Mostly readiness, often a new pod for an old one, some more or some less, and now and then an edit.
    fn demo(&mut self, world: &mut World) -> Next {
        let choice = world.rng.u32(..1_000);
        match choice {
            880..990 => {
                // Back to the size at the start, with a chance that grows with the distance from it.
                let slack = (self.pods / 20).max(1);
                let count = world.rng.u32(1..=MAX_SCALE);
                let grows = world.rng.usize(..=2 * slack) + self.pods >= world.pod_count() + slack;
                Next::Do(if grows {
                    let group = world.rng.usize(..world.groups.len());
                    Operation::Start { group, count }
                } else {
                    Operation::Shrink(count)
                })
            }
            990.. => {
                let Some(index) = world.take_service() else {
                    return Next::Busy;
                };
                let choice = world.rng.u8(..3);
                let service = &world.services[index];
                let edit = match choice {
                    0 if service.kind != Kind::ExternalName => Edit::Port,
                    1 if service.can_narrow() => Edit::Narrow,
                    _ => Edit::Label,
                };
                Next::Do(Operation::Service(index, edit))
            }
            _ => world.take_any().map_or(Next::Busy, |pod| {
                Next::Do(if choice < 740 {
                    Operation::Flip(pod)
                } else {
                    Operation::Replace(pod)
                })
            }),
        }
    }

    fn edit(world: &mut World) -> Next {
        let Some(service) = world.take_service() else {
            return Next::Busy;
        };
        let edit = match world.rng.u32(..10) {
            0..2 => Edit::Label,
            2..4 => Edit::Port,
            4..6 => Edit::Selector,
            6..8 => Edit::Delete,
            _ => Edit::Recreate,
        };
        Next::Do(Operation::Service(service, edit))
    }

    fn step(&mut self, world: &mut World) -> Next {
        loop {
            let Some(step) = self.steps.front().copied() else {
                if self.phase.profile == Profile::RollingUpdate && self.next_wave(world) {
                    continue;
                }
                return Next::Done;
            };
            if let Step::End(pod) | Step::Lose(pod) | Step::Evict(pod) = step
                && !world.take(pod)
            {
                if world.pod(pod).is_some() {
                    return Next::Busy;
                }
                // A request for this pod failed, and its result is unknown.
                self.steps.pop_front();
                continue;
            }
            self.steps.pop_front();
            return match step {
                Step::Start(group) => Next::Do(Operation::Start { group, count: 1 }),
                Step::End(pod) => Next::Do(Operation::End(pod)),
                Step::Lose(pod) => Next::Do(Operation::Lose(pod)),
                Step::Evict(pod) => Next::Do(Operation::Evict(pod)),
                Step::Empty { namespace, zone } => Next::Do(Operation::Empty { namespace, zone }),
                Step::Node { node, up } => {
                    world.nodes[node].up = up;
                    Next::Do(Operation::Node { node, up })
                }
                Step::Settle => Next::Settle,
                Step::Pause(pause) => Next::Pause(pause),
            };
        }
    }

    /// Some new pods of a group, and then as many old ones that end.
    fn next_wave(&mut self, world: &World) -> bool {
        let group = loop {
            let Some(group) = self.groups.last().copied() else {
                return false;
            };
            if self.old.is_empty() {
                self.old.clone_from(&world.groups[group].members);
            }
            if !self.old.is_empty() {
                break group;
            }
            self.groups.pop();
        };
        let size = (world.groups[group].size as f64 * self.phase.surge).ceil() as usize;
        let wave = self.old.split_off(self.old.len().saturating_sub(size.max(1)));
        if self.old.is_empty() {
            self.groups.pop();
        }
        self.steps.extend(wave.iter().map(|_| Step::Start(group)));
        self.steps.push_back(Step::Settle);
        self.steps.extend(wave.into_iter().map(Step::End));
        self.steps.push_back(Step::Settle);
        true
    }

    fn lose_nodes(&mut self, world: &mut World) {
        let mut lost: Vec<usize> = (0..world.nodes.len()).collect();
        world.rng.shuffle(&mut lost);
        lost.truncate(self.phase.lost_nodes);
        let pods = world.pods().filter(|pod| lost.contains(&pod.node));
        let mut pods: Vec<PodNumber> = pods.map(|pod| pod.number).collect();
        pods.sort_unstable();
        let node = |up| move |node| Step::Node { node, up };
        self.steps.extend(lost.iter().copied().map(node(false)));
        self.steps.extend(pods.iter().copied().map(Step::Lose));
        self.steps.extend([Step::Settle, Step::Pause(self.phase.outage)]);
        self.steps.extend(pods.into_iter().map(Step::Evict));
        self.steps.push_back(Step::Settle);
        self.steps.extend(lost.into_iter().map(node(true)));
    }

    /// The nodes of a zone that has one up, unless it is the last such zone, and then its pods, namespace by namespace.
    fn lose_zone(&mut self, world: &mut World) {
        let up = world.nodes.iter().filter(|node| node.up).map(|node| node.zone);
        let up: BTreeSet<&str> = up.collect();
        let Some(zone) = world.rng.choice(up.iter().copied()).filter(|_| up.len() > 1) else {
            return;
        };
        let nodes = world.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, node)| node.zone == zone);
        self.steps
            .extend(nodes.map(|(node, _)| Step::Node { node, up: false }));
        self.steps.push_back(Step::Settle);
        let mut namespaces: Vec<usize> = (0..world.namespaces.len()).collect();
        world.rng.shuffle(&mut namespaces);
        let empty = |namespace| Step::Empty { namespace, zone };
        self.steps.extend(namespaces.into_iter().map(empty));
    }

    /// To the other end, and back.
    fn scale(&mut self, world: &mut World) {
        let mut starts = Vec::new();
        for (index, group) in world.groups.iter().enumerate() {
            starts.extend(std::iter::repeat_n(index, group.size));
        }
        world.rng.shuffle(&mut starts);
        let starts = starts.into_iter().map(Step::Start);
        if world.pod_count() > 0 {
            let mut pods: Vec<PodNumber> = world.pods().map(|pod| pod.number).collect();
            pods.sort_unstable();
            self.steps.extend(pods.into_iter().map(Step::End));
            self.steps.push_back(Step::Settle);
            self.steps.extend(starts);
            self.steps.push_back(Step::Settle);
        } else {
            self.steps.extend(starts);
            self.steps.push_back(Step::Settle);
            // Pods that are made by then have the numbers from here on.
            let first = world.next_number();
            let count = world
                .groups
                .iter()
                .map(|group| group.size as PodNumber)
                .sum::<PodNumber>();
            self.steps.extend((first..first + count).map(Step::End));
            self.steps.push_back(Step::Settle);
        }
    }
}
