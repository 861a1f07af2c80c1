//! The state of one namespace: the owners of its parts, and the driver that passes values between them. Only this module can
//! reach all of the state. Everything else works at a view of those owners that it depends on: [`Placement`],
//! [`EndpointsDesk`] or [`Mirroring`].

mod adoption;
mod planning;
mod published;
mod queries;
mod rounds;
mod services;

use self::planning::Planning;
use super::context::Context;
use super::endpoints::{EndpointsDesk, EndpointsObjects};
use super::mirror::{Mirroring, Mirrors};
use super::services::Services;
use super::slices::Slices;
use super::{Kind, PendingLists, Placement, Settings};
use crate::core::facts::PodFacts;
use crate::core::ids::ServiceId;
use crate::core::inputs::{Inputs, Matching};
use crate::core::nodes::{NodeDirectory, NodeView, ZoneView};
use crate::core::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// The state of one namespace. Owned by its shard.
#[derive(Clone, Debug)]
pub struct NamespaceState {
    ctx: Context,
    inputs: Inputs,
    services: Services,
    slices: Slices,
    endpoints: EndpointsObjects,
    mirrors: Mirrors,
    /// The plan in progress.
    planning: Option<Box<Planning>>,
}

impl NamespaceState {
    /// Creates the state of a namespace of which nothing is known yet. `pending_lists` are the lists still to come.
    pub fn new(namespace: Arc<str>, settings: Settings, pending_lists: PendingLists) -> Self {
        let counts_nodes = Kind::Node.is_needed(settings.outputs);
        Self {
            inputs: Inputs::new(namespace.clone(), counts_nodes),
            ctx: Context::new(namespace, settings, pending_lists),
            services: Services::default(),
            slices: Slices::default(),
            endpoints: EndpointsObjects::default(),
            mirrors: Mirrors::default(),
            planning: None,
        }
    }

    // === views ===

    fn placement(&mut self) -> Placement<'_> {
        Placement {
            ctx: &mut self.ctx,
            inputs: &mut self.inputs,
            services: &mut self.services,
            slices: &mut self.slices,
            mirrors: &self.mirrors,
        }
    }

    fn endpoints_desk(&mut self) -> EndpointsDesk<'_> {
        EndpointsDesk {
            ctx: &mut self.ctx,
            inputs: &self.inputs,
            services: &mut self.services,
            endpoints: &mut self.endpoints,
        }
    }

    fn mirroring(&mut self) -> Mirroring<'_> {
        Mirroring {
            ctx: &mut self.ctx,
            services: &self.services,
            slices: &self.slices,
            endpoints: &mut self.endpoints,
            mirrors: &mut self.mirrors,
        }
    }

    /// Tells mirrors what is new of Endpoints.
    fn pass_on(&mut self) {
        // This is asked several times for each message, most of which leave nothing behind.
        if !self.endpoints.has_news() {
            return;
        }
        for news in self.endpoints.take_news() {
            self.mirroring().hear(news);
        }
    }

    // === pods and nodes ===

    /// Applies a pod from a list (of the given epoch) or a watch. `earlier` has the Ready times of states in between
    /// that were never shown here, because events were merged on the way.
    ///
    /// A pod in a terminal phase is removed, and only its Ready time counts.
    pub fn apply_pod(&mut self, facts: PodFacts, earlier: &[Time], epoch: u8, nodes: &mut dyn NodeDirectory) {
        self.placement().apply_pod(facts, earlier, epoch, nodes);
    }

    /// Begins to compare a pod's labels with the selectors that they may match, if they are new and that may take
    /// long. The pod is applied when [`Self::step_labels`] is done, and [`Self::finish_labels`] called after that.
    pub fn begin_labels(&mut self, facts: &PodFacts) -> Option<Matching> {
        self.inputs.begin_labels(facts, &mut self.ctx.work)
    }

    /// Makes the next comparison. Returns true when all have been made.
    pub fn step_labels(&mut self, matching: &mut Matching) -> bool {
        self.inputs.step_matching(matching, &mut self.ctx.work)
    }

    /// Finishes the comparison, once the pod has been applied.
    pub fn finish_labels(&mut self, matching: &Matching) {
        self.inputs.finish_labels(matching);
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, name: &str, nodes: &mut dyn NodeDirectory) {
        self.placement().remove_pod(name, nodes);
    }

    /// Applies a change of a node that pods of this namespace run on, but leaves the visits to its pods to
    /// [`Self::step_passes`].
    pub fn begin_node(&mut self, view: Arc<NodeView>) {
        self.placement().begin_node(view);
    }

    /// Subscribes to the zones when a Service depends on them, and unsubscribes when none does any more.
    pub fn watch_zones(&mut self, nodes: &mut dyn NodeDirectory) {
        self.begin_watching_zones(nodes);
        self.finish_passes();
    }

    /// Does what [`Self::watch_zones`] does, but leaves the visits to Services to [`Self::step_passes`].
    pub fn begin_watching_zones(&mut self, nodes: &mut dyn NodeDirectory) {
        self.placement().watch_zones(nodes);
    }

    /// Applies a change of the zones' CPU: only the hints of the Services that depend on it are looked at. Leaves the visits to
    /// these to [`Self::step_passes`].
    pub fn begin_zones(&mut self, view: ZoneView) {
        self.placement().apply_zones(view);
    }

    /// Returns whether [`Self::begin_look_at_unknown_nodes`] should be called after a while.
    pub fn has_unknown_nodes(&self) -> bool {
        self.ctx.may_tell_of_nodes() && self.inputs.has_unknown_nodes()
    }

    /// Reports nodes that did not exist at several looks in a row, but leaves the visits to the pods on them to
    /// [`Self::step_passes`]. The time between two looks is up to the caller.
    pub fn begin_look_at_unknown_nodes(&mut self) {
        self.placement().look_at_unknown_nodes();
    }

    // === time ===

    /// Tells the state the time. [`Self::look_at_one`] looks at what waits for it.
    pub fn advance(&mut self, now: Duration) {
        self.ctx.advance(now);
    }

    /// Returns when to call [`Self::look_at_one`] next.
    pub fn next_look(&self) -> Option<Duration> {
        let looks = [self.next_look_at_handover(), self.next_look_at_deferral()];
        looks.into_iter().flatten().min()
    }

    /// Looks at the objects of one Service whose time has come. Returns false if there is none.
    pub fn look_at_one(&mut self, now: Duration) -> bool {
        self.advance(now);
        self.look_at_handover(now) || self.look_at_deferral(now)
    }

    /// Returns when to call [`Self::look_at_handover`] next.
    pub fn next_look_at_handover(&self) -> Option<Duration> {
        self.services.next_handover()
    }

    /// Returns when to call [`Self::look_at_deferral`] next.
    pub fn next_look_at_deferral(&self) -> Option<Duration> {
        let waits = [
            self.services.next_wait_to_end(),
            self.endpoints.next_wait_to_end(),
        ];
        waits.into_iter().flatten().min()
    }

    /// Queues the objects of one Service that have waited for long enough. Returns false if there are none.
    pub fn look_at_deferral(&mut self, now: Duration) -> bool {
        self.advance(now);
        let Some(id) = self.services.take_waited(now) else {
            return self.endpoints.end_wait(now);
        };
        self.want_objects_of(id);
        true
    }

    /// Queues the objects of a Service whose wait has ended.
    fn want_objects_of(&mut self, id: ServiceId) {
        let Some(service) = self.services.get(id) else {
            return;
        };
        self.slices.want_all(&service.slices, &mut self.ctx.work);
        self.endpoints.want(&service.facts.name);
    }
}
