//! Sandboxes that are claimed: pods with Services of their own, gone after a while.

use super::{Change, GRACE, Generator};
use crate::api::Resource;
use crate::observe::PodNumber;
use crate::report::model::Course;
use crate::run::phase::Phase;
use crate::run::world::State;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// When the Services of a sandbox are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Services {
    BeforeThePod,
    AfterThePod,
    /// The pod is ready before they are there.
    Late,
}

/// How much longer a sandbox that is ready late takes than others: more than the half second for which endpointd keeps the
/// first slice of a Service waiting.
const LATE: Duration = Duration::from_millis(700);

// === impl Generator ===

impl Generator {
    /// Makes the pod of a group and its Services, waits until the pod is ready and has lived, and deletes all of them. Which
    /// comes first is a matter of chance, as it is in a cluster, where one controller makes pods and another Services, and
    /// the garbage collector deletes both.
    pub(super) async fn claim(&self, group: usize, phase: &Phase, due: Instant) {
        let course = phase.course(group);
        self.tally.claims.lock().push((group, course));
        let (order, pod_ends_first) = {
            let mut world = self.world.lock();
            let order = match world.rng.u8(..4) {
                0 | 1 => Services::BeforeThePod,
                // One that is never ready, or late, does not keep its Services waiting.
                3 if matches!(course, Course::Ordinary | Course::EndsGracefully) => Services::Late,
                _ => Services::AfterThePod,
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
        let ready_at = Instant::now()
            + match course {
                Course::ReadyLate => phase.ready_after + LATE,
                Course::DeletedEarly => phase.ready_after / 2,
                Course::Ordinary | Course::EndsGracefully => phase.ready_after,
            };
        if order == Services::AfterThePod {
            self.make_services(group, Instant::now()).await;
        }
        sleep_until(ready_at).await;
        if course == Course::DeletedEarly {
            return self.delete_early(group, pod, pod_ends_first).await;
        }
        if !self.set_ready(pod, true, ready_at).await {
            return self.delete_services(group).await;
        }
        if order == Services::Late {
            self.make_services(group, Instant::now()).await;
        }
        self.live(phase.life).await;
        if course == Course::EndsGracefully {
            self.end(pod, Instant::now()).await;
            return self.delete_services(group).await;
        }

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

    /// Deletes a sandbox whose pod has not started.
    async fn delete_early(&self, group: usize, pod: PodNumber, pod_goes_first: bool) {
        if !pod_goes_first {
            self.delete_services(group).await;
        }
        self.change(pod, State::Gone, Instant::now(), Change::Delete(0))
            .await;
        if pod_goes_first {
            self.delete_services(group).await;
        }
    }

    /// Waits as long as a sandbox lives, give or take a tenth, so that those that were made together do not end together.
    async fn live(&self, life: Duration) {
        let share = 0.9 + 0.2 * self.world.lock().rng.f64();
        sleep(life.mul_f64(share)).await;
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
