//! Changes of Services.

use super::{Expected, Generator};
use crate::api::Resource;
use crate::observe::visible::Shown;
use crate::oracle::Family;
use crate::run::objects;
use crate::run::script::Edit;
use crate::run::world::State;
use serde_json::{Value, json};
use tokio::time::Instant;

impl Generator {
    pub(super) async fn edit(&self, index: usize, edit: Edit, due: Instant) {
        let path = {
            let world = self.world.lock();
            let service = &world.services[index];
            Resource::Services.path(&world.namespaces[service.namespace], &service.name)
        };
        let patch = self.revise(index, edit);
        self.send(due, Vec::new(), self.http.patch(&path, &patch)).await;
    }

    /// Deletes a Service, if it exists.
    pub(super) async fn delete_service(&self, index: usize, due: Instant) {
        let (exists, path) = {
            let world = self.world.lock();
            let service = &world.services[index];
            let namespace = &world.namespaces[service.namespace];
            (service.exists, Resource::Services.path(namespace, &service.name))
        };
        if exists && self.send(due, Vec::new(), self.http.delete(&path, 0)).await {
            self.world.lock().services[index].exists = false;
        }
    }

    /// Edits a Service that goes on to exist, and gives the patch that does so in the server.
    fn revise(&self, index: usize, edit: Edit) -> Value {
        let mut world = self.world.lock();
        let service = &mut world.services[index];
        if edit == Edit::Narrow {
            service.stable = !service.stable;
        } else {
            service.edits += 1 + u32::from(edit == Edit::Label);
        }
        let service = &world.services[index];
        // Pods change meanwhile.
        let mut slices = self.seen.slices.lock();
        for family in service.kind.families() {
            slices.blur((index, *family), Instant::now());
        }
        drop(slices);
        if edit == Edit::Narrow {
            let mut selector = objects::service_selector(&world, service);
            if !service.stable {
                selector["track"] = Value::Null;
            }
            return json!({ "spec": { "selector": selector } });
        }
        json!({
            "metadata": { "labels": objects::service_labels(&world, service) },
            "spec": { "ports": objects::service_ports(service) },
        })
    }

    pub(super) async fn create_service(&self, index: usize, collection: &str, due: Instant) {
        let body = {
            let mut world = self.world.lock();
            let service = &mut world.services[index];
            service.exists = true;
            service.edits = 0;
            objects::service(&world, &world.services[index])
        };
        let expected = self.expected(index).into_iter().collect();
        if !self
            .send(due, expected, self.http.create(collection, &body))
            .await
        {
            self.world.lock().services[index].exists = false;
        }
    }

    /// The effect of a new Service: one pod stands for all, which come with it. A pod that has no address yet shows nothing.
    fn expected(&self, service: usize) -> Option<Expected> {
        let world = self.world.lock();
        let pod = world.first_selected(service)?;
        if pod.state == State::Pending {
            return None;
        }
        let set = (service, Family::V4);
        let of = |wanted: bool, shown: Shown| wanted.then_some((set, shown)).into_iter().collect();
        Some(Expected {
            pod: pod.number,
            slices: of(self.outputs.slices, pod.state.in_slices(false)),
            endpoints: of(self.outputs.endpoints, pod.state.in_endpoints()),
        })
    }
}
