//! Changes of the holders of Leases.

use super::{Expected, Generator};
use crate::api::Resource;
use crate::observe::visible::Shown;
use crate::run::objects;
use tokio::time::Instant;

impl Generator {
    /// Has another pod of its group hold the Lease of a Service, as if it had taken it over.
    pub(super) async fn lead(&self, service: usize, due: Instant) {
        let (holder, first, expected, path, body) = {
            let mut world = self.world.lock();
            let before = world.services[service].holder;
            let Some(number) = world
                .any_selected(service)
                .filter(|number| Some(*number) != before)
            else {
                return;
            };
            let pod = world.pod(number).expect("members are there");
            let led = &world.services[service];
            let namespace = &world.namespaces[led.namespace];
            let name = if before.is_some() { led.name.as_str() } else { "" };
            let families = led.kind.families().iter();
            let sets: Vec<_> = families.map(|family| (service, *family)).collect();
            let shows = |pod, shown: Shown| Expected {
                pod,
                slices: sets.iter().map(|set| (*set, shown)).collect(),
                endpoints: Vec::new(),
            };
            let mut expected = vec![shows(number, pod.state.in_slices(false))];
            expected.extend(before.map(|before| shows(before, Shown::Absent)));
            let path = Resource::Leases.path(namespace, name);
            (
                number,
                before.is_none(),
                expected,
                path,
                objects::lease(&world, led, pod),
            )
        };
        let taken = if first {
            self.send(due, expected, self.http.create(&path, &body)).await
        } else {
            self.send(due, expected, self.http.patch(&path, &body)).await
        };
        if taken {
            self.world.lock().services[service].holder = Some(holder);
        }
    }
}
