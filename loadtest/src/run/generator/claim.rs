//! Sandboxes that are claimed: pods with Services of their own, gone after a while.

use super::{Change, GRACE, Generator};
use crate::api::Resource;
use crate::run::phase::Phase;
use crate::run::world::State;
use tokio::time::{Instant, sleep, sleep_until};

/// When the Services of a sandbox are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Services {
    BeforeThePod,
    AfterThePod,
    /// The pod is ready before they are there.
    Late,
}

// === impl Generator ===

impl Generator {
    /// Makes the pod of a group and its Services, waits until the pod is ready and has lived, and deletes all of them. Which
    /// comes first is a matter of chance, as it is in a cluster, where one controller makes pods and another Services, and
    /// the garbage collector deletes both.
    pub(super) async fn claim(&self, group: usize, phase: &Phase, due: Instant) {
        let (order, pod_ends_first) = {
            let mut world = self.world.lock();
            let order = match world.rng.u8(..4) {
                0 | 1 => Services::BeforeThePod,
                2 => Services::AfterThePod,
                _ => Services::Late,
            };
            (order, world.rng.bool())
        };
        let mut due = due;
        if order == Services::BeforeThePod {
            self.make_services(group, due).await;
            due = Instant::now();
        }
        let Some(pod) = self.make_pod(group, due).await else {
            return self.delete_services(group).await;
        };
        let ready_at = Instant::now() + phase.ready_after;
        if order == Services::AfterThePod {
            self.make_services(group, Instant::now()).await;
        }
        sleep_until(ready_at).await;
        if !self.set_ready(pod, true, ready_at).await {
            return self.delete_services(group).await;
        }
        if order == Services::Late {
            self.make_services(group, Instant::now()).await;
        }
        // Those that were made together do not end together.
        let share = 0.9 + 0.2 * self.world.lock().rng.f64();
        sleep(phase.life.mul_f64(share)).await;

        if !pod_ends_first {
            self.delete_services(group).await;
        }
        let ending = State::Ending { ready: true };
        let ends = self
            .change(pod, ending, Instant::now(), Change::Delete(GRACE))
            .await;
        if pod_ends_first {
            self.delete_services(group).await;
        }
        if ends {
            self.finish_end(pod, true).await;
        }
    }

    async fn make_services(&self, group: usize, due: Instant) {
        let (services, collection) = {
            let world = self.world.lock();
            let namespace = &world.namespaces[world.groups[group].namespace];
            (world.services_of(group), Resource::Services.path(namespace, ""))
        };
        for service in services {
            self.create_service(service, &collection, due).await;
        }
    }

    async fn delete_services(&self, group: usize) {
        let services = self.world.lock().services_of(group);
        for service in services {
            self.delete_service(service, Instant::now()).await;
        }
    }
}
