//! Forgetting what others write, and adopting what the API server has.

use super::NamespaceState;
use crate::core::facts::{EndpointsFacts, SliceFacts};
use crate::core::namespace::Kind;
use crate::core::namespace::lifecycle::{Lifecycle as _, adoption_order};
use crate::core::namespace::rounds::Round;
use std::sync::Arc;

impl NamespaceState {
    /// Forgets the objects of a kind that others write from now on. Until it has been listed again nothing is planned.
    /// Answers to requests that are still in flight mean nothing any more.
    pub fn forget(&mut self, kind: Kind) {
        self.begin_forgetting(kind);
        self.finish_passes();
    }

    /// Does what [`Self::forget`] does, but leaves the visits to pods, Services and objects to
    /// [`Self::step_passes`]. Returns how much else was visited.
    pub(crate) fn begin_forgetting(&mut self, kind: Kind) -> u64 {
        debug_assert!(
            !self.services.has_passes(),
            "an event has not been applied in full"
        );
        match kind {
            Kind::Slice => self.placement().forget_slices(),
            Kind::Endpoints => {
                self.mirroring().forget_mirror_contents();
                self.endpoints_desk().forget_endpoints();
            }
            Kind::Mirrored => {
                let slices = self.mirroring().forget_mirrored();
                self.services.queue(Round::drop(slices));
            }
            // These are read only.
            Kind::Node | Kind::Pod | Kind::Service => return 1,
        }
        self.pass_on();
        self.services.forget_deferrals();
        self.ctx.starting = true;
        self.ctx.pending_lists.set(kind);
        // The units of work for the mirrors.
        1 + self.mirrors.services() as u64
    }

    /// Forgets the slices of a Service, managed or not. None of its pods is placed any more.
    pub fn forget_slices_of(&mut self, name: &str) {
        self.placement().forget_slices_of(name);
    }

    /// Adopts what the API server has for a Service whose slices are forgotten: its slices, and the Endpoints object of
    /// its name, as if the process began at this moment. Inspections do so before each look, since the process that writes decides
    /// how endpoints are spread over slices, and what these are called. `orphaned` says that this object has lost its
    /// Service, so that it is to be deleted, whichever client made it.
    pub fn adopt_objects_of(
        &mut self,
        name: &Arc<str>,
        mut slices: Vec<SliceFacts>,
        endpoints: Option<EndpointsFacts>,
        orphaned: bool,
    ) {
        let starting = std::mem::replace(&mut self.ctx.starting, true);
        let outputs = self.ctx.settings.outputs;
        if let Some(id) = self.services.managed(name) {
            if self.ctx.writes_slices(&self.services[id].facts) {
                slices.sort_unstable_by(adoption_order);
                self.adopt_slices(slices);
            }
            if outputs.endpoints && !self.services[id].facts.custom {
                self.endpoints_desk().adopt_for_service(name, endpoints);
            }
            self.services.mark(id);
        } else if self.services.find(name).is_some() {
            if outputs.custom {
                self.adopt_slices(slices);
            }
        } else {
            self.endpoints.forget_object(name);
            if let Some(facts) = endpoints.filter(|_| outputs.endpoints) {
                self.endpoints_desk().arrived(facts, 0);
                if orphaned {
                    self.endpoints.orphan(name);
                }
            }
        }
        self.pass_on();
        self.ctx.starting = starting;
    }

    fn adopt_slices(&mut self, slices: Vec<SliceFacts>) {
        for facts in slices {
            self.placement().arrived(facts, 0);
            self.pass_on();
        }
    }

    /// Adopts what the API server has of a Service's mirror, of which everything known is forgotten: its slices, and the
    /// Endpoints that they mirror.
    pub fn adopt_mirror(
        &mut self,
        name: &Arc<str>,
        slices: Vec<SliceFacts>,
        endpoints: Option<EndpointsFacts>,
    ) {
        if !self.ctx.settings.outputs.mirrored {
            return;
        }
        let starting = std::mem::replace(&mut self.ctx.starting, true);
        self.mirroring().forget_mirror(name);
        if self.service(name).is_some_and(|service| service.selectorless) {
            self.endpoints.forget_object(name);
            if let Some(facts) = endpoints {
                self.endpoints_desk().arrived(facts, 0);
                self.pass_on();
            }
        }
        for facts in slices {
            self.mirroring().arrived(facts, 0);
            self.pass_on();
        }
        self.pass_on();
        self.ctx.starting = starting;
    }
}
