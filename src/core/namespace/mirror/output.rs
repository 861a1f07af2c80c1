//! Mirrored slices as published objects: what they should hold, and what the lifecycle needs of them.

use super::{Mirroring, Mirrors};
use crate::core::address::Family;
use crate::core::body::{Encode, Metadata, SliceBody, Subject};
use crate::core::compact::table::Named;
use crate::core::events::{Notice, Source};
use crate::core::facts::{Extras, Owners, SliceFacts, SliceMeta};
use crate::core::ids::MirroredSliceId;
use crate::core::mirror::{MirroredGroup, MirroredObject, observed_fingerprint};
use crate::core::namespace::context::Context;
use crate::core::namespace::lifecycle::{
    Gone, Lifecycle, ObjectMeta as _, Objects, Published, Publishing, Trouble,
};
use crate::core::namespace::{WorkItem, fresh_name};
use crate::core::object::{ObjectName, ObjectState, Phase};
use crate::core::ports::SlicePorts;
use crate::core::priority::{Priority, Stage};
use std::sync::Arc;

/// A slice that mirrors Endpoints, owned by its namespace's state.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct MirroredSlice {
    pub(in crate::core::namespace) name: Arc<str>,
    /// The Service that its label names.
    pub(in crate::core::namespace) service_name: Arc<str>,
    pub(in crate::core::namespace) object: ObjectState,
    /// Its address type; `None` if it is one that is never written.
    pub(super) family: Option<Family>,
    /// Its ports: with the family, they tell which group of the Endpoints it shows.
    pub(super) ports: SlicePorts,
    /// The owners of the object on the API server.
    pub(super) owner: Owners,
    /// The fingerprint of what the API server has, if a mirrored slice could hold that.
    pub(super) published: Option<u64>,
    /// The fingerprint and the owner of what is in flight.
    departing: Option<(u64, Owners)>,
    /// The fingerprint of what it should hold.
    pub(super) desired: Option<u64>,
    /// The index of the group that it shows.
    pub(super) place: Option<usize>,
    /// True if it is to be deleted, and nothing that is written for its Service has to come first.
    pub(super) at_once: bool,
    /// True if a watch showed it first, so that another client has made it, and it has not been needed yet.
    pub(super) appeared: bool,
}

impl MirroredSlice {
    pub(super) fn new(name: Arc<str>, service_name: Arc<str>, phase: Phase) -> Self {
        Self {
            name,
            service_name,
            object: ObjectState::new(phase),
            family: None,
            ports: SlicePorts::default(),
            owner: Owners::default(),
            published: None,
            departing: None,
            desired: None,
            place: None,
            at_once: false,
            appeared: false,
        }
    }

    /// Returns whether it can show a group: it is not being deleted by a request in flight.
    pub(super) fn is_usable(&self) -> bool {
        match self.object.phase {
            Phase::Managed => true,
            Phase::Deleting => self.object.flight.is_none() && self.object.remote.is_some(),
            Phase::Adopting { .. } | Phase::Leftover { .. } | Phase::Unmanaged => false,
        }
    }

    /// Returns whether the other slices of the Service wait until it has been read, since it may show the same.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.object.phase, Phase::Adopting { .. }) && !self.is_unreadable()
    }

    /// Returns whether it could not be read. If it turns out to show the same as another, one of the two is deleted.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self.object.phase, Phase::Adopting { .. }) && self.object.failures > 0
    }

    /// Returns whether the API server has what the slice of a group should be.
    pub(super) fn shows(&self, content: &MirroredObject, group: &MirroredGroup) -> bool {
        self.object.remote.is_some()
            && self.published == Some(group.fingerprint)
            && self.owner.includes(&content.uid)
    }

    /// Returns whether the write in flight makes it what the slice of a group should be.
    pub(super) fn is_sending(&self, content: &MirroredObject, group: &MirroredGroup) -> bool {
        self.departing
            .as_ref()
            .is_some_and(|(sent, owner)| *sent == group.fingerprint && owner.includes(&content.uid))
    }
}

impl Named for MirroredSlice {
    fn name(&self) -> &str {
        &self.name
    }
}

impl AsRef<ObjectState> for MirroredSlice {
    fn as_ref(&self) -> &ObjectState {
        &self.object
    }
}

impl AsMut<ObjectState> for MirroredSlice {
    fn as_mut(&mut self) -> &mut ObjectState {
        &mut self.object
    }
}

impl Published for MirroredSlice {
    type Id = MirroredSliceId;
    type Facts = SliceFacts;

    fn work_item(&self) -> WorkItem {
        let name = ObjectName::mirrored(self.name.clone());
        let item = WorkItem::new(name, self.service_name.clone(), &self.object, self.stage());
        // A delete has no later changes to take along, but may have to come after an update that has.
        let batched = self.object.phase != Phase::Deleting || !self.at_once;
        WorkItem {
            exists: item.exists && batched,
            ..item
        }
    }

    /// Returns the slice's position in a plan: slices are created before others are deleted.
    fn stage(&self) -> Stage {
        match self.object.phase {
            Phase::Managed if self.object.remote.is_none() => Stage::Create,
            Phase::Managed => Stage::Remove,
            _ => Stage::Delete,
        }
    }

    fn accepted(&mut self) {
        if let Some((fingerprint, owner)) = self.departing.take() {
            (self.published, self.owner) = (Some(fingerprint), owner);
        }
    }
}

impl AsRef<Objects<MirroredSlice>> for Mirroring<'_> {
    fn as_ref(&self) -> &Objects<MirroredSlice> {
        &self.mirrors.objects
    }
}

impl AsMut<Objects<MirroredSlice>> for Mirroring<'_> {
    fn as_mut(&mut self) -> &mut Objects<MirroredSlice> {
        &mut self.mirrors.objects
    }
}

impl AsRef<Context> for Mirroring<'_> {
    fn as_ref(&self) -> &Context {
        self.ctx
    }
}

impl AsMut<Context> for Mirroring<'_> {
    fn as_mut(&mut self) -> &mut Context {
        self.ctx
    }
}

impl Publishing for Mirroring<'_> {
    type Entry = MirroredSlice;

    /// Returns whether a managed slice must be written. No slice is created for Endpoints that are being deleted.
    fn differs(&self, slice: &MirroredSlice) -> bool {
        let deleting = || {
            let content = self.mirrors.content(&slice.service_name);
            content.is_none_or(|content| content.deleting)
        };
        match slice.object.remote {
            Some(_) => slice.object.rewrite,
            None => !deleting(),
        }
    }

    /// Returns whether another slice of the Service must be fetched first, since it may show the same.
    fn waits_for_slices(&self, slice: &MirroredSlice) -> bool {
        slice.object.phase == Phase::Managed && self.is_adopting_mirrored(&slice.service_name)
    }

    /// Builds nothing if the API server has what the slice should hold, or if it is not needed any more.
    fn build<E: Encode>(&mut self, id: MirroredSliceId, encoder: &mut E) -> Option<E::Body> {
        let slice = &self.mirrors.objects[id];
        let content = self.mirrors.content(&slice.service_name)?;
        let group = content.group(slice.family?, &slice.ports)?;
        if slice.shows(content, group) {
            self.mirrors.objects[id].object.rewrite = false;
            return None;
        }
        let body = encoder.mirrored(SliceBody {
            metadata: Metadata {
                namespace: &self.ctx.namespace,
                name: &slice.name,
                subject: Subject::Mirrors(content),
                remote: slice.object.remote.as_ref(),
                extras: slice.object.extras(),
                trigger: None,
                clear_managed_fields: self.ctx.settings.clear_managed_fields && !slice.object.updated,
                truncated: false,
            },
            address_type: group.family.as_str(),
            ports: &group.ports,
            endpoints: content.endpoints_of(group),
        });
        let departing = (group.fingerprint, Owners::from(content.uid.clone()));
        self.ctx.work.addresses_visited += group.size() as u64;
        self.mirrors.objects[id].departing = Some(departing);
        Some(body)
    }

    fn seen(&mut self, known: Option<MirroredSliceId>, meta: &SliceMeta, epoch: u8) {
        match known {
            Some(id) => self.changed_by_others(id, meta),
            None => self.appear(meta, epoch),
        }
    }

    fn read(&mut self, known: Option<MirroredSliceId>, facts: SliceFacts, epoch: u8) {
        match known {
            Some(id) => self.reconcile_observed(id, facts),
            None => self.arrive(facts, epoch),
        }
    }

    fn gone(&mut self, id: MirroredSliceId, gone: Gone) {
        match gone {
            Gone::Shown(version) => self.vanish(id, version),
            Gone::Missing => self.remake(id),
            Gone::Unneeded => self.drop_mirrored(id),
        }
    }

    fn notice(&self, slice: &MirroredSlice, trouble: Trouble, message: String) -> Option<Notice> {
        if trouble == Trouble::Rival {
            let service = self.services.find(&slice.service_name)?;
            return Some(self.services.rival_notice(&self.ctx.namespace, service, message));
        }
        let content = self.mirrors.content(&slice.service_name)?;
        Some(Notice {
            source: Source::Mirroring,
            involved: self.involved(content),
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message: format!("EndpointSlice {}: {message}", slice.name),
        })
    }
}

impl Mirroring<'_> {
    fn arrive(&mut self, facts: SliceFacts, epoch: u8) {
        let id = self.keep_mirrored(&facts.meta, epoch);
        self.reconcile_observed(id, facts);
    }

    /// Takes in a slice that is to be fetched before its Service is evaluated: it may show what another is about to be
    /// created for.
    fn appear(&mut self, meta: &SliceMeta, epoch: u8) {
        let id = self.keep_mirrored(meta, epoch);
        let slice = &mut self.mirrors.objects[id];
        slice.appeared = true;
        slice.object.priority = Priority::Add;
        self.mirrors.objects.want(id);
    }

    fn changed_by_others(&mut self, id: MirroredSliceId, meta: &SliceMeta) {
        let slice = &mut self.mirrors.objects[id];
        if slice.service_name != meta.service {
            self.move_mirrored(id, meta);
        } else if slice.object.phase == Phase::Managed {
            slice.object.mark_stale();
            self.mirrors.objects.want(id);
        } else {
            slice.object.remote = Some(meta.remote());
        }
    }

    fn reconcile_observed(&mut self, id: MirroredSliceId, facts: SliceFacts) {
        let slice = &mut self.mirrors.objects[id];
        slice.object.needs_refetch = false;
        if facts.meta.deleting {
            // As with slices.
            if slice.object.is_shown_since(facts.meta.version) {
                let meta = SliceMeta {
                    deleting: false,
                    ..facts.meta
                };
                return self.move_mirrored(id, &meta);
            }
            return self.lost(id);
        }
        if slice.service_name != facts.meta.service {
            return self.move_mirrored(id, &facts.meta);
        }
        let published = observed_fingerprint(&self.ctx.namespace, &facts);
        let slice = &mut self.mirrors.objects[id];
        let moved = slice.object.read(facts.meta.remote());
        slice.object.set_extras(kept(facts.extras, &slice.service_name));
        (slice.published, slice.owner) = (published, facts.meta.owner);
        (slice.family, slice.ports) = (facts.family, facts.ports);
        if matches!(slice.object.phase, Phase::Adopting { .. }) {
            slice.object.phase = Phase::Managed;
        }
        if slice.object.phase == Phase::Managed {
            // The evaluation says whether it differs. If it does not, the version from before a write that failed may
            // still be there, and the next write may fail as well.
            slice.object.rewrite = false;
            if moved && !slice.object.needs_refetch && slice.published == slice.desired {
                slice.object.succeed();
            }
        }
        if let Some(mirror) = self.mirrors.by_name.get_mut(&slice.service_name) {
            mirror.unread.remove(&id);
        }
        self.touch_mirrored(id);
    }

    fn vanish(&mut self, id: MirroredSliceId, version: u64) {
        let object = &self.mirrors.objects[id].object;
        // A request in flight is answered first.
        if object.flight.is_none() && object.is_news(version) {
            self.lost(id);
        }
    }

    /// Creates a managed slice anew, under another name.
    fn remake(&mut self, id: MirroredSliceId) {
        let slice = &mut self.mirrors.objects[id];
        if slice.object.phase != Phase::Managed {
            return self.drop_mirrored(id);
        }
        let service = slice.service_name.clone();
        let name = fresh_name(self.ctx, self.slices, self.mirrors, &service);
        self.mirrors.objects.rename(id, |slice| {
            slice.name = name;
            slice.object.forget_remote();
            (slice.published, slice.departing) = (None, None);
            slice.owner = Owners::default();
            slice.object.priority = slice.object.priority.min(Priority::Add);
        });
        self.touch_mirrored(id);
    }
}

/// Returns what is kept of the metadata that others added: how the name was generated, and finalizers, whose owners
/// rely on them. Annotations and owners are exactly what mirroring makes them.
fn kept(extras: Extras, service: &str) -> Option<Extras> {
    let kept = Extras {
        generate_name: extras.generate_name,
        finalizers: extras.finalizers,
        ..Extras::default()
    };
    (!kept.is_usual(service)).then_some(kept)
}

impl Mirrors {
    /// Returns what the slices of a Service should show, if that is known.
    fn content(&self, service: &str) -> Option<&MirroredObject> {
        self.by_name.get(service)?.content.as_deref()
    }
}

impl Mirroring<'_> {
    /// Returns whether the content of some slice of a Service is not known yet.
    pub(super) fn is_adopting_mirrored(&self, service: &str) -> bool {
        let mirror = self.mirrors.by_name.get(service);
        let mut unread = mirror.into_iter().flat_map(|mirror| mirror.unread.iter());
        unread.any(|id| self.mirrors.objects[id].is_awaited())
    }

    /// Adds a slice that was not known and whose content is not known yet.
    fn keep_mirrored(&mut self, meta: &SliceMeta, epoch: u8) -> MirroredSliceId {
        // One that names no Service is left alone, as upstream.
        let phase = if meta.service.is_empty() {
            Phase::Unmanaged
        } else {
            Phase::Adopting { awaited: true }
        };
        let mut slice = MirroredSlice::new(Arc::from(&*meta.name), meta.service.clone(), phase);
        slice.object.remote = Some(meta.remote());
        slice.owner = meta.owner.clone();
        (slice.object.epoch, slice.object.seen) = (epoch, meta.version);
        self.insert_mirrored(slice)
    }

    /// Handles a slice whose label names another Service than before: its Endpoints get another slice, and it is treated
    /// as if it had just appeared.
    fn move_mirrored(&mut self, id: MirroredSliceId, meta: &SliceMeta) {
        let object = &self.mirrors.objects[id].object;
        let (epoch, seen) = (object.epoch, object.seen);
        self.lost(id);
        self.reappear(meta, epoch, seen);
    }
}
