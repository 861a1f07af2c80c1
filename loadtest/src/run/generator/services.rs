//! Changes of Services.

use super::{Expected, Generator};
use crate::api::Resource;
use crate::observe::visible::Shown;
use crate::oracle::Family;
use crate::run::objects;
use crate::run::script::Edit;
use crate::run::sizes::Layout;
use crate::run::world::{Selection, State};
use serde_json::{Value, json};
use tokio::time::Instant;

impl Generator {
    pub(super) async fn edit(&self, index: usize, edit: Edit, due: Instant) {
        let (exists, collection, path) = {
            let world = self.world.lock();
            let service = &world.services[index];
            let namespace = &world.namespaces[service.namespace];
            let path = |name: &str| Resource::Services.path(namespace, name);
            (service.exists, path(""), path(&service.name))
        };
        if !exists {
            return self.create_service(index, &collection, due).await;
        }
        match edit {
            Edit::Label | Edit::Port | Edit::Narrow => {
                let patch = self.revise(index, edit);
                self.send(due, Vec::new(), self.http.patch(&path, &patch)).await;
            }
            Edit::Selector => {
                let Some(group) = self.world.lock().another_group(index) else {
                    return;
                };
                let gone = self.expected(index, Some(Shown::Absent));
                let patch = {
                    let mut world = self.world.lock();
                    world.select(index, Selection::Group(group));
                    json!({ "spec": { "selector": objects::service_selector(&world, &world.services[index]) } })
                };
                let come = self.expected(index, None);
                let expected = gone.into_iter().chain(come).collect();
                self.send(due, expected, self.http.patch(&path, &patch)).await;
            }
            Edit::Delete | Edit::Recreate => {
                // Its slices are the garbage collector's, and only its Endpoints are the controller's to delete.
                let mut gone = self.expected(index, Some(Shown::Absent));
                if let Some(gone) = &mut gone
                    && edit == Edit::Delete
                {
                    gone.slices.clear();
                }
                if self.delete_service(index, due, gone).await && edit == Edit::Recreate {
                    self.create_service(index, &collection, Instant::now()).await;
                }
            }
        }
    }

    /// Deletes a Service, if it exists.
    pub(super) async fn delete_service(&self, index: usize, due: Instant, gone: Option<Expected>) -> bool {
        let (exists, path) = {
            let world = self.world.lock();
            let service = &world.services[index];
            let namespace = &world.namespaces[service.namespace];
            (service.exists, Resource::Services.path(namespace, &service.name))
        };
        let gone = gone.into_iter().collect();
        let deleted = exists && self.send(due, gone, self.http.delete(&path, 0)).await;
        if deleted {
            self.world.lock().services[index].exists = false;
        }
        deleted
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
        // Elsewhere no pod changes meanwhile.
        if world.layout == Layout::Demo {
            let mut slices = self.seen.slices.lock();
            for family in service.kind.families() {
                slices.blur((index, *family), Instant::now());
            }
        }
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
        let expected = self.expected(index, None).into_iter().collect();
        if !self
            .send(due, expected, self.http.create(collection, &body))
            .await
        {
            self.world.lock().services[index].exists = false;
        }
    }

    /// The effect of a change of a Service: one pod stands for all, which come and go with it. The pod is shown as it
    /// is, or as `shown` says. A pod that has no address yet shows nothing.
    fn expected(&self, service: usize, shown: Option<Shown>) -> Option<Expected> {
        let world = self.world.lock();
        let pod = world.first_selected(service)?;
        if shown.is_none() && pod.state == State::Pending {
            return None;
        }
        let set = (service, Family::V4);
        let of = |wanted: bool, is: Shown| {
            let shown = shown.unwrap_or(is);
            wanted.then_some((set, shown)).into_iter().collect()
        };
        Some(Expected {
            pod: pod.number,
            slices: of(self.outputs.slices, pod.state.in_slices(false)),
            endpoints: of(self.outputs.endpoints, pod.state.in_endpoints()),
        })
    }
}
