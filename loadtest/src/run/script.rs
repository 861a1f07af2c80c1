//! The order of a phase's operations.

use super::kinds::Kind;
use super::phase::{Phase, Profile};
use super::world::World;
use crate::observe::PodNumber;
use std::collections::{BTreeSet, VecDeque};

/// The most pods that the demo adds or takes away at a time.
const MAX_SCALE: u32 = 3;

/// One thing to do. Pods and Services that are named here are in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// The pod's readiness changes.
    Flip(PodNumber),
    /// So many pods of the group are made, and become ready.
    Start { group: usize, count: u32 },
    /// So many pods end, chosen from those that no operation works on.
    Shrink(u32),
    /// The pod is given time to end, stops being ready, and is gone.
    End(PodNumber),
    /// A pod of the same group is made, and the pod ends.
    Replace(PodNumber),
    /// All pods of the namespace on nodes of the zone are gone at once.
    Empty { namespace: usize, zone: &'static str },
    /// The node falls silent.
    Silence(usize),
    /// A sandbox, whose pod is of this group, is made with its Services, lives for a while, and is deleted with them.
    Claim(usize),
    /// The Service is changed.
    Service(usize, Edit),
}

/// A change of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Label,
    Port,
    /// The Service selects only one track of its pods, or all of them again.
    Narrow,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Do(Operation),
    /// No operation is possible now: all that could be worked on is in hand.
    Busy,
    /// All operations under way end first.
    Settle,
    /// A round is over.
    Done,
}

/// A part of a round that is still to be done. Its pods are not in hand yet.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start(usize),
    End(PodNumber),
    Empty { namespace: usize, zone: &'static str },
    Silence(usize),
    Settle,
}

/// A phase under way.
pub(super) struct Script {
    phase: Phase,
    steps: VecDeque<Step>,
    /// Groups that a rolling update has still to deal with in this round.
    groups: Vec<usize>,
    /// Their old pods, of the group in turn.
    old: Vec<PodNumber>,
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
            Profile::ZoneLoss => self.lose_zone(world),
            _ => {}
        }
    }

    /// The next thing to do; a pod or Service in it is taken in hand.
    pub(super) fn next(&mut self, world: &mut World) -> Next {
        match self.phase.profile {
            Profile::Steady | Profile::Restart => world
                .take_any()
                .map_or(Next::Busy, |pod| Next::Do(Operation::Flip(pod))),
            Profile::Demo => self.demo(world),
            Profile::Sandbox => world
                .next_claim()
                .map_or(Next::Busy, |group| Next::Do(Operation::Claim(group))),
            Profile::RollingUpdate | Profile::ZoneLoss => self.step(world),
        }
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

    fn step(&mut self, world: &mut World) -> Next {
        loop {
            let Some(step) = self.steps.front().copied() else {
                if self.phase.profile == Profile::RollingUpdate && self.next_wave(world) {
                    continue;
                }
                return Next::Done;
            };
            if let Step::End(pod) = step
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
                Step::Empty { namespace, zone } => Next::Do(Operation::Empty { namespace, zone }),
                Step::Silence(node) => {
                    world.nodes[node].up = false;
                    Next::Do(Operation::Silence(node))
                }
                Step::Settle => Next::Settle,
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

    /// The nodes of a zone that has one up, unless it is the last such zone, and then its pods, namespace by namespace.
    fn lose_zone(&mut self, world: &mut World) {
        let up = world.nodes.iter().filter(|node| node.up).map(|node| node.zone);
        let up: BTreeSet<&str> = up.collect();
        let Some(zone) = world.rng.choice(up.iter().copied()).filter(|_| up.len() > 1) else {
            return;
        };
        let nodes = world.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, node)| node.zone == zone);
        self.steps.extend(nodes.map(|(node, _)| Step::Silence(node)));
        self.steps.push_back(Step::Settle);
        let mut namespaces: Vec<usize> = (0..world.namespaces.len()).collect();
        world.rng.shuffle(&mut namespaces);
        let empty = |namespace| Step::Empty { namespace, zone };
        self.steps.extend(namespaces.into_iter().map(empty));
    }
}
