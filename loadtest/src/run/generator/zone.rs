//! The pods of a lost zone, removed by one request for each namespace.

use super::{Expected, Generator, REQUESTS};
use crate::api::Resource;
use crate::objects::ZONE_LABEL;
use crate::observe::PodNumber;
use crate::run::world::{State, World};
use tokio::time::Instant;

/// Such requests under way at once. As many as upstream's node controller has workers.
const REMOVALS: usize = 8;

// === impl Generator ===

impl Generator {
    /// Removes all pods of the namespace on nodes of the zone. When each of them is gone, is not known; the clock of all
    /// starts when the request is sent, which is before that, so that no latency is found too short.
    pub(super) async fn empty(&self, namespace: usize, zone: &'static str, due: Instant) {
        let Ok(_permits) = self.requests.acquire_many((REQUESTS / REMOVALS) as u32).await else {
            return;
        };
        let now = Instant::now();
        self.tally.lag.lock().record(now.saturating_duration_since(due));
        let (path, expected) = {
            let mut world = self.world.lock();
            let mut lost = world.pods_in(namespace, zone);
            lost.retain(|pod| world.take(*pod));
            let selector = format!("{}%3D{zone}", ZONE_LABEL.replace('/', "%2F"));
            let pods = Resource::Pods.path(&world.namespaces[namespace], "");
            let expected = lost.into_iter().filter_map(|pod| self.removal(&world, pod));
            (
                format!("{pods}?labelSelector={selector}"),
                expected.collect::<Vec<_>>(),
            )
        };
        if expected.is_empty() {
            return;
        }
        let count = expected.len() as u64;
        let pods: Vec<_> = expected.iter().map(|expected| expected.pod).collect();
        let announced: Vec<_> = expected
            .into_iter()
            .map(|expected| self.announce(expected, now))
            .collect();
        let outcome = self.http.delete(&path, 0).await;
        match &outcome {
            Ok(()) => self.answered(&announced, now),
            Err(_) => self.failed(&announced, Instant::now()),
        }
        self.note(outcome, count);
        let mut world = self.world.lock();
        for pod in pods {
            world.set_state(pod, State::Gone);
        }
    }

    fn removal(&self, world: &World, number: PodNumber) -> Option<Expected> {
        world
            .pod(number)
            .map(|pod| self.expected_of(world, pod, State::Gone))
    }
}
