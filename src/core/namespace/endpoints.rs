//! Endpoints objects: one per Service, written whole, and deprecated upstream. They are computed from the same pods
//! and the same matches as slices; in addition they need a sorted list of members per Service.
//!
//! The content of the object on the API server is remembered as a fingerprint of what we wrote. A change marks the
//! object; when its turn comes, it is built, and sent only if the fingerprint differs. So a pod that comes and goes
//! before that, or that sorts beyond the thousandth, costs no write.

mod output;
mod server;

use super::context::Context;
use super::lifecycle::Objects;
use super::rounds::{Round, Visit};
use super::services::Services;
use super::{EndpointsEvent, Kind};
use crate::core::deadlines::Deadlines;
use crate::core::facts::EndpointsFacts;
use crate::core::ids::{EndpointsId, ServiceId};
use crate::core::inputs::Inputs;
use crate::core::object::{ObjectState, Phase, Remote};
use crate::core::priority::Priority;
use crate::core::time::Time;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The time that the API server has to delete an object whose Service is gone, as kube-apiserver does right after the Service.
const LEFT_TO_THE_SERVER: Duration = Duration::from_millis(500);
/// The time for which an object that was deleted is not made again. If it was deleted with its Service, which another watch
/// shows, the Service's end is known by then.
const GONE_WITH_ITS_SERVICE: Duration = Duration::from_millis(100);

/// An Endpoints object, owned by its namespace's state.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    name: Arc<str>,
    pub(super) object: ObjectState,
    /// The fingerprint of what the API server has, where that is known to be what we would write.
    published: Option<NonZeroU64>,
    /// True if slices may mirror it, should its Service have no selector, as far as is known without reading it.
    mirrorable: bool,
}

impl Endpoints {
    fn new(name: Arc<str>, phase: Phase) -> Self {
        Self {
            name,
            object: ObjectState::new(phase),
            published: None,
            mirrorable: true,
        }
    }

    /// Has the object treated in another way from now on, which ends its wait.
    fn set_phase(&mut self, phase: Phase) {
        self.object.phase = phase;
        self.object.waits = false;
    }

    /// Returns whether slices may mirror the object, should its Service have no selector.
    pub(super) fn may_be_mirrored(&self) -> bool {
        self.mirrorable && self.object.remote.is_some()
    }
}

/// The Endpoints objects of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct EndpointsObjects {
    objects: Objects<Endpoints>,
    /// Objects that wait. One that is gone may still be here, until another with its number waits.
    waiting: Deadlines<EndpointsId>,
    /// The news for mirrors, in the order in which it happened.
    news: Vec<EndpointsNews>,
}

/// News of Endpoints for mirrors.
#[derive(Clone, Debug)]
pub(super) enum EndpointsNews {
    /// A version was seen, or read, that cannot be mirrored as it is.
    Changed(Arc<str>),
    /// Endpoints that are mirrored were read.
    Read {
        /// The Endpoints.
        facts: Box<EndpointsFacts>,
        /// True if they were there before this process wrote, so that their changes are not its business.
        before_start: bool,
    },
    /// They are gone.
    Gone(Arc<str>),
}

impl Deref for EndpointsObjects {
    type Target = Objects<Endpoints>;

    fn deref(&self) -> &Self::Target {
        &self.objects
    }
}

impl EndpointsObjects {
    /// Returns whether there is something that mirrors have to know.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Takes what mirrors have to know.
    pub(super) fn take_news(&mut self) -> Vec<EndpointsNews> {
        std::mem::take(&mut self.news)
    }

    /// Takes the next of the objects that were listed before their pods and Services were known.
    pub(super) fn take_arrival(&mut self) -> Option<EndpointsEvent> {
        self.objects.take_arrival()
    }

    /// Queues the object of a name.
    pub(super) fn want(&mut self, name: &str) {
        if let Some(id) = self.objects.find(name) {
            self.objects.want(id);
        }
    }

    /// Has an object wait before it is written or deleted.
    fn wait(&mut self, id: EndpointsId, until: Duration) {
        self.objects[id].object.waits = true;
        self.waiting.set(id, until);
    }

    /// Returns when to call [`Self::end_wait`] next.
    pub(super) fn next_wait_to_end(&self) -> Option<Duration> {
        self.waiting.next()
    }

    /// Queues an object that has waited for long enough. Returns false if there is none.
    pub(super) fn end_wait(&mut self, now: Duration) -> bool {
        let Some(id) = self.waiting.pop_due(now) else {
            return false;
        };
        if let Some(entry) = self.objects.get_mut(id)
            && std::mem::take(&mut entry.object.waits)
        {
            self.objects.want(id);
        }
        true
    }

    /// Forgets the object of a name.
    pub(super) fn forget_object(&mut self, name: &str) {
        if let Some(id) = self.objects.find(name) {
            self.objects.remove(id);
        }
    }

    /// Deletes the object of a name, whichever client created it.
    pub(super) fn orphan(&mut self, name: &str) {
        if let Some(id) = self.objects.find(name) {
            self.objects[id].set_phase(Phase::Deleting);
        }
    }

    /// Has an object that is not managed read for its mirror, unless `read` is the version that is known.
    pub(super) fn read_for_mirror(&mut self, name: &str, read: Option<&Remote>) {
        let Some(id) = self.objects.find(name) else {
            return;
        };
        let object = &mut self.objects[id].object;
        let known = read.is_some() && read == object.remote.as_ref();
        if object.phase == Phase::Unmanaged && object.flight.is_none() && !known && !object.needs_refetch {
            object.mark_stale();
            self.objects.want(id);
        }
    }
}

/// The state that Endpoints objects are computed from, and these objects.
pub(super) struct EndpointsDesk<'a> {
    pub(super) ctx: &'a mut Context,
    pub(super) inputs: &'a Inputs,
    pub(super) services: &'a mut Services,
    pub(super) endpoints: &'a mut EndpointsObjects,
}

impl EndpointsDesk<'_> {
    /// Starts to manage the object of a Service that has become managed.
    pub(super) fn manage_endpoints(&mut self, id: ServiceId) {
        if !self.ctx.settings.outputs.endpoints {
            return;
        }
        let name = &self.services[id].facts.name;
        let id = self.endpoints.objects.find(name).unwrap_or_else(|| {
            let entry = Endpoints::new(name.clone(), Phase::Managed);
            self.endpoints.objects.insert(entry)
        });
        let entry = &mut self.endpoints.objects[id];
        entry.set_phase(Phase::Managed);
        // Only the version is known of an object that was unmanaged until now.
        entry.object.needs_refetch |= entry.object.remote.is_some() && entry.published.is_none();
        // The evaluation that follows queues all others: a start would queue a hundred thousand at once.
        if entry.object.needs_refetch {
            self.endpoints.objects.want(id);
        }
    }

    /// Stops managing the object of a Service that is no longer managed: it stays as it is.
    pub(super) fn unmanage_endpoints(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        service.endpoints = None;
        if let Some(id) = self.endpoints.objects.find(&service.facts.name) {
            let entry = &mut self.endpoints.objects[id];
            entry.set_phase(Phase::Unmanaged);
            entry.object.rewrite = false;
            entry.object.forget_triggers();
            if entry.object.is_absent() {
                self.endpoints.objects.remove(id);
            }
        }
    }

    /// Deletes the object of a Service that is gone, whichever client created it, unless the API server does so first.
    pub(super) fn delete_endpoints(&mut self, name: &Arc<str>) {
        let Some(id) = self
            .endpoints
            .objects
            .find(name)
            .filter(|_| self.ctx.settings.outputs.endpoints)
        else {
            return;
        };
        let entry = &mut self.endpoints.objects[id];
        // Until Endpoints are listed, perhaps for days, none of them is known. If there is an object, it will be found
        // to be a leftover then.
        if self.ctx.starting
            && self.ctx.pending_lists.has(Kind::Endpoints)
            && entry.object.is_absent()
            && !self.endpoints.objects.has_arrived(name)
        {
            self.endpoints.objects.remove(id);
            return;
        }
        let entry = &mut self.endpoints.objects[id];
        entry.set_phase(Phase::Deleting);
        entry.object.change(Priority::Add);
        if !entry.object.is_absent() && self.may_wait() {
            return self.endpoints.wait(id, self.ctx.now + LEFT_TO_THE_SERVER);
        }
        self.endpoints.objects.want(id);
    }

    /// Returns whether objects may wait: not while it is not known for how long the process before this one has waited.
    fn may_wait(&self) -> bool {
        !self.ctx.starting && !self.ctx.pending_lists.any()
    }

    /// Leaves alone the object of a Service without a selector, even if it was to be deleted with another Service of
    /// that name.
    pub(super) fn spare_endpoints(&mut self, name: &Arc<str>) {
        if let Some(id) = self.endpoints.objects.find(name) {
            self.endpoints.objects[id].set_phase(Phase::Unmanaged);
        }
    }

    /// Does what [`NamespaceState::forget`] does, for Endpoints.
    pub(super) fn forget_endpoints(&mut self) {
        let endpoints = std::mem::take(&mut self.endpoints.objects);
        self.endpoints.waiting.clear();
        self.services.queue(Round::drop(endpoints));
        self.services.visit_all(Visit::RenewEndpoints);
    }

    /// Gives a Service's object a new entry, if this process manages it. The next evaluation queues it.
    pub(super) fn renew_endpoints(&mut self, id: ServiceId) {
        let service = &mut self.services[id];
        if let Some(endpoints) = &mut service.endpoints {
            endpoints.renewed = true;
            let entry = Endpoints::new(service.facts.name.clone(), Phase::Managed);
            self.endpoints.objects.insert(entry);
            self.services.mark(id);
        }
    }

    /// Queues the object of a Service that has been evaluated, if its members changed.
    pub(super) fn evaluate_endpoints(&mut self, id: ServiceId, trigger: Option<Time>) {
        let unwritten = self.services.is_unwritten(id);
        let service = &mut self.services[id];
        let Some(endpoints) = &mut service.endpoints else {
            return;
        };
        let changes = std::mem::take(&mut endpoints.changes);
        let renewed = std::mem::take(&mut endpoints.renewed);
        let priority = std::mem::replace(&mut endpoints.priority, Priority::Rest);
        if changes == 0 && !renewed {
            return;
        }
        let id = self
            .endpoints
            .objects
            .find(&service.facts.name)
            .expect("a managed Service has an entry for its Endpoints");
        self.endpoints.objects.want(id);
        if changes == 0 {
            return;
        }
        let entry = &mut self.endpoints.objects[id];
        entry.object.priority = entry.object.priority.min(priority);
        entry.object.change_by(changes);
        entry.object.rewrite = true;
        // As with slices.
        let replaces = unwritten && entry.object.remote.is_none();
        entry.object.note_trigger(trigger, replaces);
    }
}
