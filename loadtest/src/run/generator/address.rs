//! Changes of single addresses in Endpoints that are mirrored.

use super::Generator;
use crate::api::Resource;
use crate::run::objects;
use crate::run::world::State;
use serde_json::json;
use tokio::time::Instant;

impl Generator {
    /// Changes the readiness of some address in the Endpoints of a Service without a selector. If that is refused, the
    /// next change of these Endpoints makes up for it.
    pub(super) async fn set_address(&self, service: usize, due: Instant) {
        let (number, state, expected, path, patch) = {
            let mut world = self.world.lock();
            let Some(number) = world.any_selected(service) else {
                return;
            };
            let pod = world.pod(number).expect("members are there");
            let ready = !pod.ready();
            let state = State::Running { ready };
            let service = &world.services[service];
            let namespace = &world.namespaces[service.namespace];
            (
                number,
                state,
                self.expected_of(&world, pod, state),
                Resource::Endpoints.path(namespace, &service.name),
                json!({ "subsets": objects::subsets(&world, service, Some((number, ready))) }),
            )
        };
        if self
            .send(due, vec![expected], self.http.patch(&path, &patch))
            .await
        {
            self.world.lock().set_state(number, state);
        }
    }
}
