//! The changes of Services.

use super::held::FINALIZER;
use super::{FollowUp, History};
use crate::chaos::api::{Ask, Resource};
use crate::chaos::world::{ANNOTATIONS, PORTS, Service, World};
use serde_json::{Value, json};

/// Services in one namespace.
const MOST: usize = 6;

impl History {
    pub(super) async fn create_service(&mut self) {
        let Some(namespace) = self.world.namespace(&mut self.rng) else {
            return;
        };
        let name = format!("svc{}", self.rng.usize(..MOST));
        let mut services = self.world.services.iter();
        if services.any(|s| s.namespace == namespace && s.name == name) {
            return;
        }
        let service = World::new_service(&mut self.rng, namespace, name);
        self.make_service(service).await;
    }

    async fn make_service(&mut self, service: Service) {
        let ask = Ask::create(Resource::Services, &service.namespace, service.body());
        if self.write("create service", ask).await.is_some() {
            self.world.services.push(service);
        }
    }

    fn pick_service(&mut self) -> Option<usize> {
        let services = self.world.services.iter().enumerate();
        let there = services.filter(|(_, s)| !s.deleting).map(|(at, _)| at);
        let there: Vec<usize> = there.collect();
        self.rng.choice(there)
    }

    async fn patch_service(&mut self, what: &'static str, at: usize, patch: Value) {
        let service = &self.world.services[at];
        let ask = Ask::patch(Resource::Services, &service.namespace, &service.name, patch);
        self.write(what, ask).await;
    }

    pub(super) async fn edit_service(&mut self) {
        let kind = self.rng.u32(..17);
        if kind < 2 {
            return self.edit_ports().await;
        }
        let Some(at) = self.pick_service() else {
            return;
        };
        let (app, hints) = (World::app(&mut self.rng), self.rng.u8(..8));
        let annotation = self.rng.usize(..ANNOTATIONS.len() + 3);
        let service = &mut self.world.services[at];
        let (what, patch) = match kind {
            2..=4 => {
                (service.app, service.track) = (app, kind == 4);
                let selector = service.selector_patch();
                ("edit selector", json!({ "spec": { "selector": selector } }))
            }
            5 => {
                service.selects = !service.selects;
                let selector = service.selector_patch();
                ("toggle selector", json!({ "spec": { "selector": selector } }))
            }
            6 if !service.external => {
                service.toggle_families();
                ("edit families", json!({ "spec": service.families_patch() }))
            }
            7 => {
                service.publish_not_ready = !service.publish_not_ready;
                let publish = service.publish_not_ready;
                let patch = json!({ "spec": { "publishNotReadyAddresses": publish } });
                ("publish not ready", patch)
            }
            8 | 9 => {
                service.revision += 1;
                let patch = json!({ "metadata": { "labels": service.labels_patch() } });
                ("edit labels", patch)
            }
            10 | 11 => {
                service.hints = hints;
                ("edit hints", service.hint_patch())
            }
            14..=16 => {
                service.annotation = (annotation < ANNOTATIONS.len()).then_some(annotation);
                ("edit selector annotation", service.annotation_patch())
            }
            12 => {
                service.external = !service.external;
                ("toggle ExternalName", json!({ "spec": service.kind_patch() }))
            }
            _ => {
                let patch = json!({ "metadata": { "annotations": { "note": format!("{app}") } } });
                ("annotate service", patch)
            }
        };
        self.patch_service(what, at, patch).await;
    }

    /// Other ports, or the same under other numbers or names: pods move to other slices.
    pub(super) async fn edit_ports(&mut self) {
        let Some(at) = self.pick_service() else {
            return;
        };
        let service = &mut self.world.services[at];
        service.ports = self.rng.u8(..PORTS);
        let patch = json!({ "spec": { "ports": service.port_list() } });
        self.patch_service("edit ports", at, patch).await;
    }

    /// The Service changes in a way that all its slices show.
    pub(super) async fn touch_service(&mut self, namespace: &str, name: &str) {
        let mut services = self.world.services.iter();
        let found = services.position(|s| s.namespace == namespace && s.name == name);
        let Some(at) = found else { return };
        self.world.services[at].revision += 1;
        let patch = json!({ "metadata": { "labels": self.world.services[at].labels_patch() } });
        self.patch_service("touch service", at, patch).await;
    }

    pub(super) async fn delete_service(&mut self) {
        let Some(at) = self.pick_service() else {
            return;
        };
        let service = self.world.services.swap_remove(at);
        self.unmake(&service).await;
    }

    async fn unmake(&mut self, service: &Service) {
        let options = self.propagation();
        let ask = Ask::delete(Resource::Services, &service.namespace, &service.name, options);
        self.write("delete service", ask).await;
    }

    /// Deleted, and made again at once: the same, or another one of that name.
    pub(super) async fn recreate_service(&mut self) {
        let Some(at) = self.pick_service() else {
            return;
        };
        let old = self.world.services.swap_remove(at);
        let options = Value::Null;
        let ask = Ask::delete(Resource::Services, &old.namespace, &old.name, options);
        self.write("delete service to make it again", ask).await;
        let new = if self.rng.bool() {
            old
        } else {
            World::new_service(&mut self.rng, old.namespace, old.name)
        };
        self.make_service(new).await;
    }

    /// Deleted, but held back by a finalizer for a while.
    pub(super) async fn hold_service(&mut self) {
        let Some(at) = self.pick_service() else {
            return;
        };
        let patch = json!({ "metadata": { "finalizers": [FINALIZER] } });
        self.patch_service("hold service", at, patch).await;
        let service = &mut self.world.services[at];
        service.deleting = true;
        let (namespace, name) = (service.namespace.clone(), service.name.clone());
        let options = self.propagation();
        let ask = Ask::delete(Resource::Services, &namespace, &name, options);
        self.write("delete held service", ask).await;
        self.follow_up(15_000, FollowUp::Release { namespace, name });
    }

    /// Takes away the finalizers that hold a deleted Service back.
    pub(super) async fn release_service(&mut self, namespace: &str, name: &str) {
        let mut services = self.world.services.iter();
        let found = services.position(|s| s.namespace == namespace && s.name == name && s.deleting);
        if let Some(at) = found {
            self.world.services.swap_remove(at);
        }
        let patch = json!({ "metadata": { "finalizers": null } });
        let ask = Ask::patch(Resource::Services, namespace, name, patch);
        self.write("release service", ask).await;
    }
}
