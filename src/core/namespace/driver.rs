//! The state of one namespace: the owners of its parts, and the driver that passes values between them. Only this module can
//! reach all of the state. Everything else works at a view of those owners that it depends on: [`Placement`],
//! [`EndpointsDesk`] or [`Mirroring`].

mod adoption;
mod planning;
mod queries;
mod rounds;

use self::planning::Planning;
use super::context::Context;
use super::endpoints::{EndpointsDesk, EndpointsObjects};
use super::lifecycle::Lifecycle as _;
use super::mirror::{Mirroring, Mirrors};
use super::rounds::{Round, Sweep, Visit};
use super::services::{Compared, Finished, Pass, Queued, Reason, Services};
use super::slices::Slices;
use super::withdraw::Replacements;
use super::{Kind, PendingLists, Placement, Settings};
use crate::core::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use crate::core::followed_leases::lease::{LeaseChange, LeaseRequest};
use crate::core::followed_leases::{Concerned, FollowedLeases};
use crate::core::ids::{PodId, ServiceId};
use crate::core::inputs::{Inputs, Matching};
use crate::core::nodes::{NodeDirectory, NodeView, ZoneView};
use crate::core::time::Time;
use crate::core::work::Budget;
use std::sync::Arc;
use std::time::Duration;

/// The state of one namespace. Owned by its shard.
///
/// ```
/// use endpointd::cluster::codec::{self, Encoding, Namespaced};
/// use endpointd::core::body::Request;
/// use endpointd::core::facts::{PodFacts, ServiceFacts};
/// use endpointd::core::namespace::{NamespaceState, PendingLists, Settings};
/// use endpointd::core::nodes::NodeTable;
///
/// let service = br#"{
///     "metadata": {"name": "web", "namespace": "shop", "uid": "s"},
///     "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}
/// }"#;
/// let pod = br#"{
///     "metadata": {"name": "web-0", "namespace": "shop", "uid": "p", "labels": {"app": "web"}},
///     "spec": {},
///     "status": {"podIP": "10.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
/// }"#;
/// let mut nodes = NodeTable::default();
/// let mut state = NamespaceState::new("shop".into(), Settings::default(), PendingLists::NONE);
/// let service = codec::object::<Namespaced<ServiceFacts>>(service).unwrap();
/// state.apply_service(service.facts, 0);
/// let pod = codec::object::<Namespaced<PodFacts>>(pod).unwrap();
/// state.apply_pod(pod.facts, &[], 0, &mut nodes);
///
/// let due = state.plan();
/// assert_eq!(due.len(), 2, "a slice and an Endpoints object");
/// let granted = state.grant(&due[1].object, &mut Encoding::Json).unwrap();
/// let Request::Create(body) = granted.request else {
///     panic!("the API server has neither")
/// };
/// assert!(String::from_utf8(body).unwrap().contains(r#""ip":"10.1.0.1""#));
/// assert_eq!(state.plan(), [], "a plan is made once");
/// ```
#[derive(Clone, Debug)]
pub struct NamespaceState {
    ctx: Context,
    inputs: Inputs,
    services: Services,
    slices: Slices,
    replacements: Replacements,
    endpoints: EndpointsObjects,
    mirrors: Mirrors,
    leases: FollowedLeases,
    /// The plan in progress.
    planning: Option<Box<Planning>>,
}

impl NamespaceState {
    /// Creates the state of a namespace of which nothing is known yet. `pending_lists` are the lists still to come.
    pub fn new(namespace: Arc<str>, settings: Settings, pending_lists: PendingLists) -> Self {
        let (counts_nodes, finds_hosts) = (Kind::Node.is_needed(settings.outputs), settings.outputs.custom);
        Self {
            inputs: Inputs::new(namespace.clone(), counts_nodes, finds_hosts),
            ctx: Context::new(namespace, settings, pending_lists),
            services: Services::default(),
            slices: Slices::default(),
            replacements: Replacements::default(),
            endpoints: EndpointsObjects::default(),
            mirrors: Mirrors::default(),
            leases: FollowedLeases::default(),
            planning: None,
        }
    }

    // === views ===

    fn placement(&mut self) -> Placement<'_> {
        self.placement_and_leases().0
    }

    fn placement_and_leases(&mut self) -> (Placement<'_>, &mut FollowedLeases) {
        let placement = Placement {
            ctx: &mut self.ctx,
            inputs: &mut self.inputs,
            services: &mut self.services,
            slices: &mut self.slices,
            replacements: &mut self.replacements,
            mirrors: &self.mirrors,
        };
        (placement, &mut self.leases)
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

    /// Tells each owner what the others have for it: mirrors what is new of Endpoints, and slices that give way and those
    /// that take their place of each other.
    fn pass_on(&mut self) {
        for news in self.endpoints.take_news() {
            self.mirroring().hear(news);
        }
        for waits in self.mirrors.take_waits() {
            self.placement().hear(waits);
        }
        for released in self.replacements.take_released() {
            self.mirrors.release(released);
        }
        for recreated in self.ctx.corrections.take_new() {
            let uid = self.services.uid_of(recreated.service()).cloned();
            self.ctx.corrections.wait(recreated, uid, self.ctx.now);
        }
    }

    // === pods and nodes ===

    /// Applies a pod from a list (of the given epoch) or a watch. `earlier` has the Ready times of states in between
    /// that were never shown here, because events were merged on the way.
    ///
    /// A pod in a terminal phase is removed, and only its Ready time counts.
    pub fn apply_pod(&mut self, facts: PodFacts, earlier: &[Time], epoch: u8, nodes: &mut dyn NodeDirectory) {
        let renamed = self.placement().apply_pod(facts, earlier, epoch, nodes);
        if let Some(id) = renamed {
            self.judge_named(id);
        }
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
        self.placement().watch_zones(nodes);
    }

    /// Applies a change of the zones' CPU: only the hints of the Services that depend on it are looked at.
    pub fn apply_zones(&mut self, view: ZoneView) {
        self.placement().apply_zones(view);
    }

    /// Returns whether [`Self::look_at_unknown_nodes`] should be called after a while.
    pub fn has_unknown_nodes(&self) -> bool {
        self.ctx.may_tell_of_nodes() && self.inputs.has_unknown_nodes()
    }

    /// Reports nodes that did not exist at several looks in a row. The time between two is up to the caller.
    pub fn look_at_unknown_nodes(&mut self) {
        self.placement().look_at_unknown_nodes();
    }

    // === Services ===

    /// Applies a Service from a list (of the given epoch) or a watch. One with another UID than the known one is a new
    /// Service.
    pub fn apply_service(&mut self, facts: ServiceFacts, epoch: u8) {
        self.begin_service(facts, epoch);
        self.finish_passes();
    }

    /// Does what [`Self::apply_service`] does, but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_service(&mut self, facts: ServiceFacts, epoch: u8) {
        match self.placement().compare_service(facts, epoch) {
            Compared::Same => {}
            Compared::Changed(id, facts, reannotated) => {
                self.placement().notify_opting(id, &facts);
                self.update_service(id, facts);
                if reannotated {
                    self.services.queue(Pass::Notification(id));
                }
            }
            Compared::Other(facts) => {
                self.begin_removal(&facts.name);
                self.services.queue(Pass::Insert(Box::new(facts), epoch));
            }
        }
        self.pass_on();
    }

    /// Removes a Service, but leaves the visits to its pods to [`Self::step_passes`]. Its slices stay: the garbage collector
    /// deletes them.
    pub fn begin_removal(&mut self, name: &str) {
        if let Some(id) = self.services.find(name) {
            // Nothing that comes from now on belongs to it.
            self.services.hide(id);
            self.ctx.corrections.remember_deleted(name, self.ctx.now);
            if self.services[id].facts.is_managed() {
                self.stop_service(id);
            }
            self.services.queue(Pass::Remove(id));
        }
    }

    fn update_service(&mut self, id: ServiceId, facts: ServiceFacts) {
        self.services.renumber_ports(id, &facts);
        if facts.foreground && !self.services[id].facts.foreground {
            self.services.defer(&self.ctx, id, Reason::Going);
        }
        let old = &self.services[id].facts;
        match (old.is_managed(), facts.is_managed()) {
            (false, managed) => {
                self.replace_unmanaged(id, facts);
                if managed {
                    self.start_service(id);
                }
            }
            // Another controller's slices, and its alone; or another way to choose the pods.
            (true, true) if old.custom != facts.custom || old.followed_lease() != facts.followed_lease() => {
                self.stop_service(id);
                self.services.queue(Pass::Replace(id, Box::new(facts)));
            }
            (true, true) => self.placement().reconfigure(id, facts),
            (true, false) => {
                self.placement().keep_ready_times(id);
                self.stop_service(id);
                self.services.queue(Pass::Replace(id, Box::new(facts)));
            }
        }
    }

    /// Applies a change of a Service that was not managed, or no longer is.
    fn replace_unmanaged(&mut self, id: ServiceId, facts: ServiceFacts) {
        let name = facts.name.clone();
        self.services[id].facts = facts;
        self.placement().withdraw_abandoned(id);
        self.mirroring().touch_mirror(&name);
    }

    fn start_service(&mut self, id: ServiceId) {
        self.placement().start_service(id);
        if let Some(lease) = self.services[id].facts.followed_lease() {
            self.leases.follow(id, lease, self.ctx.now);
        }
    }

    fn stop_service(&mut self, id: ServiceId) {
        self.placement().stop_service(id);
        if !self.services[id].facts.custom {
            self.endpoints_desk().unmanage_endpoints(id);
        }
    }

    /// Carries on once the pods of a pass have been visited.
    fn finish(&mut self, finished: Finished) {
        match finished {
            Finished::Start(id) => {
                if !self.services[id].facts.custom {
                    self.placement().collect_endpoints(id, None);
                    self.endpoints_desk().manage_endpoints(id);
                }
                self.placement().attribute_all(id);
                self.services.mark(id);
            }
            Finished::Stop(id) => {
                if let Some(lease) = self.services[id].facts.followed_lease() {
                    self.leases.unfollow(id, lease, self.ctx.now);
                }
                self.placement().finish_stop(id);
            }
            Finished::Remove(id) => {
                let name = self.services.drop_service(id);
                self.endpoints_desk().delete_endpoints(&name);
                self.mirroring().touch_mirror(&name);
                self.placement().check_replacement(&name);
            }
            Finished::Replace(id, facts) => {
                let managed = facts.is_managed();
                self.replace_unmanaged(id, *facts);
                if managed {
                    self.start_service(id);
                }
            }
            Finished::Insert(facts, epoch) => {
                let (name, managed, custom) = (facts.name.clone(), facts.is_managed(), facts.custom);
                let id = self.services.enter(*facts, epoch);
                self.placement().notify_new_service(id);
                if managed {
                    self.services.defer(&self.ctx, id, Reason::New);
                    self.start_service(id);
                }
                if !managed || custom {
                    self.endpoints_desk().spare_endpoints(&name);
                }
                self.placement().withdraw_abandoned(id);
                self.mirroring().touch_mirror(&name);
            }
            Finished::Displace => self.services.visit_all(Visit::Reevaluate),
        }
    }

    /// Does the visits to pods, Services and objects that events have left, as far as the budget goes. Returns true when all are done.
    pub fn step_passes(&mut self, budget: &mut Budget) -> bool {
        while let Some(queued) = self.services.next_pass() {
            if budget.is_spent() {
                self.services.queue_first(queued);
                return false;
            }
            let before = self.ctx.work.total();
            let looked_at = match queued {
                Queued::Pass(pass) => self.step_pass(pass),
                Queued::Round(round) => self.step_round(round),
            };
            self.pass_on();
            budget.spend(looked_at as u64 + self.ctx.work.total() - before);
        }
        true
    }

    /// Continues a pass. Returns the number of pods visited.
    fn step_pass(&mut self, pass: Pass) -> usize {
        let (mut placement, leases) = self.placement_and_leases();
        let stepped = placement.step(leases, pass);
        if let Some(finished) = stepped.finished {
            self.finish(finished);
        }
        if let Some(rest) = stepped.rest {
            self.services.queue_first(rest);
        }
        stepped.looked_at
    }

    /// Does what [`Self::step_passes`] does, to the end.
    fn finish_passes(&mut self) {
        let done = self.step_passes(&mut Budget::unlimited());
        debug_assert!(done, "an unlimited budget is never spent");
    }

    // === Leases ===

    /// Takes the requests about Leases since the last call.
    pub fn take_lease_requests(&mut self) -> Vec<LeaseRequest> {
        self.leases.take_requests()
    }

    /// Looks at one of the Leases whose time has come, but leaves the visits to Services to [`Self::step_passes`].
    /// Returns false if there is none.
    fn begin_look_at_lease(&mut self, now: Duration) -> bool {
        let concerned = self.leases.look_at_one(now);
        let looked = concerned.is_some();
        self.visit_concerned(concerned);
        looked
    }

    /// Applies what was learned of the namespace's Leases.
    pub fn apply_leases(&mut self, change: &LeaseChange) {
        self.begin_leases(change);
        self.finish_passes();
    }

    /// Does what [`Self::apply_leases`] does, but leaves the visits to Services to [`Self::step_passes`].
    pub fn begin_leases(&mut self, change: &LeaseChange) {
        let concerned = self.leases.apply(change);
        self.visit_concerned(concerned);
    }

    /// Has the Services visited that a change of a Lease concerns.
    fn visit_concerned(&mut self, concerned: impl IntoIterator<Item = Concerned>) {
        for concerned in concerned {
            if !concerned.services.is_empty() {
                self.services.queue(Pass::Lead(concerned));
            }
        }
    }

    /// Has the Services judged anew that a pod may lead, or may keep another from leading, since it has come or has
    /// changed.
    fn judge_named(&mut self, id: PodId) {
        if !self.leases.have_holders() {
            return;
        }
        let names = self.inputs.names_of(id);
        for service in self.leases.services_held_by(names.iter().map(|name| &**name)) {
            self.services.mark(service);
        }
    }

    // === outputs, as the API server has them ===

    /// Applies a whole slice from the list of an epoch.
    pub fn apply_slice(&mut self, facts: SliceFacts, epoch: u8) {
        self.placement().listed(facts, epoch);
        self.pass_on();
    }

    /// Applies the metadata of a slice from a watch.
    pub fn apply_slice_meta(&mut self, meta: &SliceMeta, epoch: u8) {
        self.placement().watched(meta, epoch);
        self.pass_on();
    }

    /// Handles a slice that is no longer ours, as of a resourceVersion.
    pub fn slice_gone(&mut self, name: &str, version: u64) {
        self.placement().vanished(name, version);
        self.pass_on();
    }

    /// Applies a whole object from the list of an epoch.
    pub fn apply_endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        self.endpoints_desk().listed(facts, epoch);
        self.pass_on();
    }

    /// Applies the metadata of an object from a watch.
    pub fn apply_endpoints_meta(&mut self, meta: &EndpointsMeta, epoch: u8) {
        self.endpoints_desk().watched(meta, epoch);
        self.pass_on();
    }

    /// Handles an object that is gone, as of a resourceVersion.
    pub fn endpoints_gone(&mut self, name: &str, version: u64) {
        self.endpoints_desk().vanished(name, version);
        self.pass_on();
    }

    /// Applies a whole slice that mirrors Endpoints, from the list of an epoch.
    pub fn apply_mirrored(&mut self, facts: SliceFacts, epoch: u8) {
        self.mirroring().listed(facts, epoch);
        self.pass_on();
    }

    /// Applies the metadata of a slice that mirrors Endpoints, from a watch.
    pub fn apply_mirrored_meta(&mut self, meta: &SliceMeta, epoch: u8) {
        self.mirroring().watched(meta, epoch);
        self.pass_on();
    }

    /// Handles a slice that no longer mirrors Endpoints, as of a resourceVersion.
    pub fn mirrored_gone(&mut self, name: &str, version: u64) {
        self.mirroring().vanished(name, version);
        self.pass_on();
    }

    // === lists ===

    /// Marks a list as pending, since another one is about to arrive: nothing is planned or written until it is
    /// complete.
    pub fn begin_list(&mut self, kind: Kind) {
        self.ctx.pending_lists.set(kind);
    }

    /// Completes the list of an epoch: what it did not show is gone. Slices that were written after it was taken
    /// (their resourceVersion is above the list's) are not in it, and stay.
    pub fn end_list(&mut self, kind: Kind, epoch: u8, version: u64, nodes: &mut dyn NodeDirectory) {
        for name in self.unlisted(kind, epoch) {
            self.begin_unlisted(kind, &name, nodes);
            self.finish_passes();
        }
        self.finish_list(kind, epoch, version);
        self.finish_passes();
    }

    /// Returns the names of the pods or Services that the list of an epoch did not show; empty for other kinds.
    pub fn unlisted(&self, kind: Kind, epoch: u8) -> Vec<Box<str>> {
        match kind {
            Kind::Pod => self.inputs.unlisted(epoch),
            Kind::Service => self.services.unlisted(epoch),
            Kind::Node | Kind::Slice | Kind::Endpoints | Kind::Mirrored => Vec::new(),
        }
    }

    /// Returns some of [`Self::unlisted`], and where to go on if there may be more. Looks at some Services, from a number on;
    /// at all pods; and at nothing for other kinds.
    pub(crate) fn some_unlisted(&self, kind: Kind, epoch: u8, from: usize) -> (Vec<Box<str>>, Option<usize>) {
        match kind {
            Kind::Service => self.services.some_unlisted(epoch, from),
            _ => (self.unlisted(kind, epoch), None),
        }
    }

    /// Removes one of [`Self::unlisted`], but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_unlisted(&mut self, kind: Kind, name: &str, nodes: &mut dyn NodeDirectory) {
        match kind {
            Kind::Pod => self.remove_pod(name, nodes),
            Kind::Service => self.begin_removal(name),
            Kind::Node | Kind::Slice | Kind::Endpoints | Kind::Mirrored => {}
        }
    }

    /// Does the rest of [`Self::end_list`], once everything that [`Self::unlisted`] names is removed, but leaves the visits to
    /// objects to [`Self::step_passes`].
    pub fn finish_list(&mut self, kind: Kind, epoch: u8, version: u64) {
        let sweep = Sweep { kind, epoch, version };
        self.services.queue(Round::Sweep(sweep, 0));
    }

    // === time ===

    /// Tells the state the time. What waits for it is looked at by [`Self::look_at_one`].
    pub fn advance(&mut self, now: Duration) {
        self.ctx.advance(now);
    }

    /// Returns when to call [`Self::look_at_one`] next.
    pub fn next_look(&self) -> Option<Duration> {
        let looks = [
            self.leases.next_look(),
            self.next_look_at_leaving(),
            self.next_look_at_deferral(),
            self.ctx.corrections.next_look(),
        ];
        looks.into_iter().flatten().min()
    }

    /// Returns when to call [`Self::look_at_leaving`] next.
    pub fn next_look_at_leaving(&self) -> Option<Duration> {
        self.replacements.next_look()
    }

    /// Looks at one of the Leases, or at the objects of one Service, whose time has come, but leaves the visits to Services to
    /// [`Self::step_passes`]. Returns false if there is none.
    pub fn look_at_one(&mut self, now: Duration) -> bool {
        self.advance(now);
        self.begin_look_at_lease(now)
            || self.look_at_leaving(now)
            || self.look_at_deferral(now)
            || self.look_at_correction(now)
    }

    /// Returns when to call [`Self::look_at_deferral`] next.
    pub fn next_look_at_deferral(&self) -> Option<Duration> {
        self.services.next_wait_to_end()
    }

    /// Queues the objects of one Service that have waited for long enough. Returns false if there is none.
    pub fn look_at_deferral(&mut self, now: Duration) -> bool {
        self.advance(now);
        let waited = self.services.take_waited(now);
        if let Some(id) = waited {
            self.want_objects_of(id);
        }
        waited.is_some()
    }

    /// Queues the objects of a Service whose wait has ended.
    fn want_objects_of(&mut self, id: ServiceId) {
        let Some(service) = self.services.get(id) else {
            return;
        };
        self.slices.want_all(&service.slices, &mut self.ctx.work);
        self.endpoints.want(&service.facts.name);
    }

    /// Looks at one of the objects that are there again, of which users are to be told by now. Returns false if there is none.
    fn look_at_correction(&mut self, now: Duration) -> bool {
        let Some(correction) = self.ctx.corrections.take_due(now) else {
            return false;
        };
        let uid = self.services.uid_of(correction.service());
        self.ctx.notifications.extend(correction.notification(uid));
        true
    }

    /// Looks at the slices of one Service that give way, if their time has come. Returns false if there are none.
    pub fn look_at_leaving(&mut self, now: Duration) -> bool {
        let looked = self.placement().look_at_leaving(now);
        self.pass_on();
        looked
    }
}
