//! Deployments of 100 pods whose pods are all replaced, each behind a Service of its own.

use crate::world::{MS, Object, SECOND, World};
use endpointd::core::priority::Priority;
use std::time::Duration;

/// Pods of a Deployment.
const PODS: usize = 100;
/// The most endpoints of a slice, and the most slices of a Service.
const ENDPOINTS: usize = 100;
const SLICES: usize = 4;
/// The size of an endpoint in a slice.
const BYTES: usize = 130;
/// From a pod's address until it is ready, and from its end until it is gone.
const READY: Duration = Duration::from_millis(500);
const GRACE: Duration = Duration::from_secs(30);
/// From one new pod of a Deployment to the next. A surge of 25 pods is on its way, and each of them has its address 9 s after it
/// was created. Whenever one is ready, an old one is asked to go.
const NEXT: Duration = Duration::from_millis(370);

/// What happens to a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A new one gets its address.
    Start,
    /// The new one of this number is ready, and an old one is asked to go.
    Ready(usize),
    /// The old one of this number is gone.
    Gone(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pod {
    Starting,
    Ready,
    Terminating,
}

#[derive(Clone, Debug, Default)]
struct Deployment {
    pods: Vec<Pod>,
    /// The pods of each slice, as they should be; what a write in flight shows of those that are ready; and what is
    /// published.
    wanted: [Vec<usize>; SLICES],
    sent: [Vec<usize>; SLICES],
    published: [Vec<usize>; SLICES],
}

/// All Deployments; the slices of one follow those of another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rollouts {
    deployments: Vec<Deployment>,
    /// The fewest endpoints of a Service that were published as ready while their pod was ready and not asked to go.
    pub fewest: usize,
}

impl Deployment {
    fn reachable(&self) -> usize {
        let published = self.published.iter().flatten();
        published.filter(|pod| self.pods[**pod] == Pod::Ready).count()
    }

    /// Puts an endpoint into the fullest slice that has room.
    fn place(&mut self, pod: usize) -> usize {
        let room = (0..SLICES).filter(|slice| self.wanted[*slice].len() < ENDPOINTS);
        let slice = room.max_by_key(|slice| (self.wanted[*slice].len(), SLICES - slice));
        let slice = slice.expect("there is room");
        self.wanted[slice].push(pod);
        slice
    }

    fn slice_of(&self, pod: usize) -> usize {
        let mut slices = self.wanted.iter();
        slices
            .position(|slice| slice.contains(&pod))
            .expect("each pod has a place")
    }
}

impl Rollouts {
    /// Returns the slices of so many Deployments before their rollout.
    pub(crate) fn objects(deployments: usize) -> Vec<Object> {
        let slice = |number: usize| {
            let bytes = if number.is_multiple_of(SLICES) {
                PODS * BYTES
            } else {
                0
            };
            let service = (number / SLICES) as u32;
            Object::slice(service % 10, service, bytes, "rollout")
        };
        (0..deployments * SLICES).map(slice).collect()
    }

    /// Has so many Deployments begin, whose slices are the world's first objects.
    pub(crate) fn begin(world: &mut World, number: usize) {
        let mut deployment = Deployment {
            pods: vec![Pod::Ready; PODS],
            ..Deployment::default()
        };
        deployment.wanted[0] = (0..PODS).collect();
        deployment.published[0] = (0..PODS).collect();
        world.rollouts = Self {
            deployments: vec![deployment; number],
            fewest: PODS,
        };
        for deployment in 0..number {
            for pod in 0..PODS {
                let begins = MS * deployment as u32 + NEXT * pod as u32;
                world.step(deployment, Step::Start, begins);
                world.step(deployment, Step::Ready(pod), begins + READY);
                world.step(deployment, Step::Gone(pod), begins + READY + GRACE);
            }
        }
    }

    /// Has a pod take a step. Returns the slices that change.
    pub(crate) fn step(world: &mut World, number: usize, step: Step) -> Vec<(usize, Priority)> {
        let deployment = &mut world.rollouts.deployments[number];
        let changes = match step {
            Step::Start => {
                deployment.pods.push(Pod::Starting);
                vec![(deployment.place(deployment.pods.len() - 1), Priority::Rest)]
            }
            Step::Ready(pod) => {
                deployment.pods[PODS + pod] = Pod::Ready;
                deployment.pods[pod] = Pod::Terminating;
                vec![
                    (deployment.slice_of(PODS + pod), Priority::Add),
                    (deployment.slice_of(pod), Priority::Remove),
                ]
            }
            Step::Gone(pod) => {
                let slice = deployment.slice_of(pod);
                deployment.wanted[slice].retain(|other| *other != pod);
                vec![(slice, Priority::Remove)]
            }
        };
        let reachable = deployment.reachable();
        for (slice, wanted) in deployment.wanted.iter().enumerate() {
            world.objects[number * SLICES + slice].bytes = wanted.len() * BYTES;
        }
        world.rollouts.note(reachable);
        let object = |(slice, priority)| (number * SLICES + slice, priority);
        changes.into_iter().map(object).collect()
    }

    /// A slice is written as it should be now.
    pub(crate) fn sent(&mut self, object: usize) {
        if let Some(deployment) = self.deployments.get_mut(object / SLICES) {
            let ready = |pod: &&usize| deployment.pods[**pod] == Pod::Ready;
            let slice = object % SLICES;
            deployment.sent[slice] = deployment.wanted[slice].iter().filter(ready).copied().collect();
        }
    }

    /// The write of a slice was carried out.
    pub(crate) fn carried_out(&mut self, object: usize) {
        if let Some(deployment) = self.deployments.get_mut(object / SLICES) {
            let slice = object % SLICES;
            deployment.published[slice] = std::mem::take(&mut deployment.sent[slice]);
            let reachable = deployment.reachable();
            self.note(reachable);
        }
    }

    fn note(&mut self, reachable: usize) {
        self.fewest = self.fewest.min(reachable);
    }

    /// Returns the fewest reachable endpoints of a Service at present.
    pub(crate) fn reachable(&self) -> usize {
        let deployments = self.deployments.iter().map(Deployment::reachable);
        deployments.min().unwrap_or_default()
    }

    /// Returns when the last old pod is gone.
    pub(crate) fn end() -> Duration {
        NEXT * PODS as u32 + GRACE + SECOND
    }
}
