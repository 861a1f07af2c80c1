//! Mirroring: the Endpoints of a Service without a selector are written by others, and slices of ours show what they
//! hold.
//!
//! The watch of Endpoints shows only their metadata. An object that is mirrored is fetched whenever its version
//! changes, as an object of the kind [`Endpoints`], with that kind's retries; all others are never read for this. The
//! mirrored content is kept as [`MirroredObject`], one slice for each of its groups.
//!
//! [`Endpoints`]: super::endpoints::Endpoints

mod assignment;
mod notices;
mod output;
mod preparation;

pub(super) use assignment::Assignment;
pub(super) use output::MirroredSlice;
pub(super) use preparation::Preparation;

use assignment::GroupSlices;

use super::context::Context;
use super::endpoints::{EndpointsNews, EndpointsObjects};
use super::lifecycle::{Notices as _, ObjectMeta as _, Objects};
use super::rounds::STRIDE;
use super::services::Services;
use super::slices::Slices;
use super::{SliceEvent, fresh_name};
use crate::core::compact::small::SmallSet;
use crate::core::facts::EndpointsFacts;
use crate::core::hash::KeyedMap;
use crate::core::ids::{MirroredSliceId, ServiceId};
use crate::core::mirror::{Changes, LeftOut, MirroredGroup, MirroredObject};
use crate::core::object::{Editor, ForeignChanges, Phase, Remote, RequestKind};
use crate::core::priority::Priority;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::vec::IntoIter;

/// The mirrors of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Mirrors {
    objects: Objects<MirroredSlice>,
    /// By the name of the Service, which is also that of its Endpoints.
    by_name: KeyedMap<Arc<str>, Mirror>,
    /// Mirrors to be evaluated.
    dirty: BTreeSet<Arc<str>>,
    syncs: Vec<MirrorSync>,
    totals: MirrorTotals,
}

/// The mirrors, and what they depend on: Services and Endpoints. Slices are asked only for their names, which must
/// differ.
pub(super) struct Mirroring<'a> {
    pub(super) ctx: &'a mut Context,
    pub(super) services: &'a Services,
    pub(super) slices: &'a Slices,
    pub(super) endpoints: &'a mut EndpointsObjects,
    pub(super) mirrors: &'a mut Mirrors,
}

impl Mirrors {
    /// Returns whether there are no slices, and none wait.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the number of Services whose Endpoints may be mirrored.
    pub(super) fn services(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether a slice has this name.
    pub(super) fn has_slice(&self, name: &str) -> bool {
        self.objects.find(name).is_some()
    }

    /// Returns whether the next plan has anything to do here.
    pub(super) fn has_to_plan(&self) -> bool {
        self.objects.has_to_plan() || !self.dirty.is_empty()
    }

    /// Takes the next of the slices that were listed before their pods and Services were known.
    pub(super) fn take_arrival(&mut self) -> Option<SliceEvent> {
        self.objects.take_arrival()
    }

    /// Takes the evaluations since the last call.
    pub(super) fn take_syncs(&mut self) -> Vec<MirrorSync> {
        std::mem::take(&mut self.syncs)
    }

    /// Returns the sizes of the mirrors.
    pub(super) fn totals(&self) -> MirrorTotals {
        self.totals
    }

    /// Queues a mirror to be evaluated, as far as it has changed.
    pub(super) fn evaluate_later(&mut self, name: &str) {
        if let Some((name, _)) = self.by_name.get_key_value(name) {
            self.dirty.insert(name.clone());
        }
    }

    /// Takes the names of the mirrors to be evaluated.
    pub(super) fn take_dirty(&mut self) -> IntoIter<Arc<str>> {
        if self.dirty.is_empty() {
            return IntoIter::default();
        }
        let dirty: Vec<_> = std::mem::take(&mut self.dirty).into_iter().collect();
        dirty.into_iter()
    }
}

/// The known state of the Endpoints and the mirrored slices of one Service.
#[derive(Clone, Debug, Default)]
struct Mirror {
    /// The desired content of the slices, if it is known.
    content: Option<Box<MirroredObject>>,
    /// The version of the Endpoints that was read last, whatever came of it.
    read: Option<Remote>,
    /// Endpoints that were read and are yet to be laid out.
    arrived: Option<Arrived>,
    /// Its slices, in any phase.
    slices: SmallSet<MirroredSliceId>,
    /// The slices among them that are yet to be read.
    unread: SmallSet<MirroredSliceId>,
    /// The slice of each group of the content.
    group_slices: GroupSlices,
    /// Slices that have changed since the last evaluation.
    touched: SmallSet<MirroredSliceId>,
    /// True if all slices are to be looked at by the next evaluation, and not only those that have changed.
    whole: bool,
    /// The numbers of addresses that are left out, as users were told of them.
    told: LeftOut,
    /// True if the Endpoints are too complicated to be mirrored, of which users were told.
    refused: bool,
    /// The last decision about the slices.
    action: Option<MirrorAction>,
    /// The changes since the last evaluation.
    moves: Changes,
    foreign: ForeignChanges,
    counted: MirrorTotals,
}

impl Mirror {
    /// Forgets what the slices should hold: the Endpoints are to be read again.
    fn forget_content(&mut self) {
        (self.content, self.read, self.arrived) = (None, None, None);
    }
}

/// Endpoints that were read.
#[derive(Clone, Debug)]
struct Arrived {
    facts: Box<EndpointsFacts>,
    /// True if they were there before this process wrote, so that their changes are not its business.
    before_start: bool,
}

/// The changes that one evaluation found in Endpoints that are mirrored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MirrorSync {
    /// Endpoints that are new.
    pub added: u32,
    /// Endpoints that have changed.
    pub updated: u32,
    /// Endpoints that are gone.
    pub removed: u32,
    /// Addresses that are not mirrored, because they are invalid or too many.
    pub skipped: u32,
}

/// The sizes of the mirrors, as of their last evaluations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MirrorTotals {
    /// Endpoints that are mirrored.
    pub endpoints: usize,
    /// Slices in use.
    pub slices: usize,
    /// Slices that should be in use.
    pub desired_slices: usize,
}

impl MirrorTotals {
    fn replace(&mut self, old: Self, new: Self) {
        self.endpoints = self.endpoints + new.endpoints - old.endpoints;
        self.slices = self.slices + new.slices - old.slices;
        self.desired_slices = self.desired_slices + new.desired_slices - old.desired_slices;
    }
}

/// The decision about the mirrored slices of a Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MirrorAction {
    /// They show what the Endpoints hold.
    Mirror,
    /// They should, but the Endpoints have not been read yet: they stay as they are.
    Unread,
    /// The Service has a selector now: they stay until the slices for that are there.
    Stay,
    /// They are deleted.
    Withdraw,
}

impl Mirroring<'_> {
    fn action(&self, name: &str) -> MirrorAction {
        let Some(id) = self.services.find(name) else {
            return MirrorAction::Withdraw;
        };
        let service = &self.services[id].facts;
        if service.is_managed() && !service.custom && self.are_to_be_created(id) {
            return MirrorAction::Stay;
        }
        let may_be_mirrored = |id| self.endpoints[id].may_be_mirrored();
        if !service.selectorless || !self.endpoints.find(name).is_some_and(may_be_mirrored) {
            return MirrorAction::Withdraw;
        }
        let mirror = self.mirrors.by_name.get(name);
        if mirror.is_some_and(|mirror| mirror.content.is_some()) {
            MirrorAction::Mirror
        } else {
            MirrorAction::Unread
        }
    }

    /// Returns whether slices of a Service have yet to be created. Nearly always, all of them are created at once, so a look at
    /// some of them is enough.
    fn are_to_be_created(&self, id: ServiceId) -> bool {
        let service = &self.services[id];
        let mut some = service.slices.iter().take(STRIDE);
        service.awaiting > 0 || service.dirty || some.any(|id| self.slices[id].object.remote.is_none())
    }

    /// Queues a mirror to be evaluated after its Service or its Endpoints have changed, and its Endpoints to be read if
    /// that has to come first.
    pub(super) fn touch_mirror(&mut self, name: &str) {
        if let Some(mirror) = self.mirrors.by_name.get_mut(name) {
            mirror.whole = true;
            self.mirrors.evaluate_later(name);
        }
        self.read_to_mirror(name);
    }

    /// Queues one slice of a mirror to be evaluated: the others need no look, of which there may be tens of thousands.
    fn touch_mirrored(&mut self, id: MirroredSliceId) {
        let name = self.mirrors.objects[id].service_name.clone();
        if let Some(mirror) = self.mirrors.by_name.get_mut(&name)
            && self.mirrors.objects[id].object.phase != Phase::Unmanaged
        {
            mirror.touched.insert(id);
            self.mirrors.dirty.insert(name.clone());
        }
        self.read_to_mirror(&name);
    }

    /// Queues Endpoints that are mirrored to be fetched, unless this version of them is known.
    pub(super) fn read_to_mirror(&mut self, name: &str) {
        if !self.ctx.settings.outputs.mirrored
            || !matches!(self.action(name), MirrorAction::Mirror | MirrorAction::Unread)
        {
            return;
        }
        let mirror = self.mirrors.by_name.get(name);
        let read = mirror.and_then(|mirror| mirror.read.as_ref());
        self.endpoints.read_for_mirror(name, read);
    }

    /// Takes in what is new of Endpoints.
    pub(super) fn hear(&mut self, news: EndpointsNews) {
        match news {
            EndpointsNews::Changed(name) => self.touch_mirror(&name),
            EndpointsNews::Gone(name) => self.forget_mirror_content(&name),
            EndpointsNews::Read { facts, before_start } => {
                // The next plan lays them out.
                let name = facts.meta.name.clone();
                let mirror = self.mirrors.by_name.entry(name.clone()).or_default();
                self.mirrors.dirty.insert(name);
                mirror.read = Some(facts.meta.remote());
                mirror.arrived = Some(Arrived { facts, before_start });
            }
        }
    }

    /// Drops what is known of Endpoints that are gone.
    pub(super) fn forget_mirror_content(&mut self, name: &str) {
        if let Some(mirror) = self.mirrors.by_name.get_mut(name) {
            mirror.forget_content();
            self.touch_mirror(name);
        }
    }

    /// Drops what is known of all Endpoints.
    pub(super) fn forget_mirror_contents(&mut self) {
        for (name, mirror) in &mut self.mirrors.by_name {
            mirror.forget_content();
            mirror.whole = true;
            self.mirrors.dirty.insert(name.clone());
        }
    }

    /// Forgets the slices of a Service, and what they should hold.
    pub(super) fn forget_mirror(&mut self, name: &str) {
        let mirror = self.mirrors.by_name.remove(name);
        for id in mirror.iter().flat_map(|mirror| mirror.slices.iter()) {
            self.mirrors.objects.remove(id);
        }
        let counted = mirror.map(|mirror| mirror.counted).unwrap_or_default();
        self.mirrors.totals.replace(counted, MirrorTotals::default());
    }

    /// Does what [`NamespaceState::forget`] does, for mirrored slices. Returns the slices, which are yet to be dropped.
    pub(super) fn forget_mirrored(&mut self) -> Objects<MirroredSlice> {
        let slices = std::mem::take(&mut self.mirrors.objects);
        for (name, mirror) in &mut self.mirrors.by_name {
            mirror.slices = SmallSet::default();
            mirror.unread = SmallSet::default();
            mirror.touched = SmallSet::default();
            mirror.whole = true;
            mirror.foreign = ForeignChanges::default();
            self.mirrors.dirty.insert(name.clone());
        }
        slices
    }

    // === evaluation ===

    /// Notes what is to be done with the slices of a Service. Interference by others under another action is no reason
    /// to wait.
    fn take_action(&mut self, name: &str, action: MirrorAction, slices: &[MirroredSliceId]) {
        let Some(mirror) = self.mirrors.by_name.get_mut(name) else {
            return;
        };
        let before = mirror.action.replace(action);
        if action == MirrorAction::Unread
            || before.is_none_or(|before| before == action || before == MirrorAction::Unread)
        {
            return;
        }
        mirror.foreign = ForeignChanges::default();
        for id in slices {
            self.mirrors.objects[*id]
                .object
                .set_foreign_changes(mirror.foreign);
        }
    }

    /// Evaluates the mirror of a slice whose content could not be read, and is no longer waited for.
    pub(super) fn stop_waiting_for_mirrored(&mut self, slice: &str) {
        let slice = self
            .mirrors
            .objects
            .find(slice)
            .map(|id| &self.mirrors.objects[id]);
        if let Some(slice) = slice.filter(|slice| slice.is_unreadable()) {
            let name = slice.service_name.clone();
            self.mirrors.evaluate_later(&name);
        }
    }

    /// Makes a slice show a group, and queues it if that takes a write. `contested` means that others have written since
    /// the Endpoints changed.
    fn publish_mirrored(
        &mut self,
        id: MirroredSliceId,
        content: &MirroredObject,
        group: &MirroredGroup,
        priority: Priority,
        contested: bool,
    ) {
        let slice = &mut self.mirrors.objects[id];
        slice.object.phase = Phase::Managed;
        (slice.family, slice.ports) = (Some(group.family), group.ports.clone());
        slice.appeared = false;
        let news = slice.desired.replace(group.fingerprint) != Some(group.fingerprint);
        // While a write is in flight, the content is compared with what it sends: the API server's copy is changing.
        if matches!(
            slice.object.flight,
            Some(RequestKind::Create | RequestKind::Update)
        ) {
            if slice.is_sending(content, group) {
                return;
            }
        } else if slice.shows(content, group) {
            slice.object.rewrite = false;
            return;
        }
        slice.object.rewrite = true;
        let priority = if news { priority } else { Priority::Remove };
        self.queue_mirrored(id, priority, news && !contested);
    }

    /// Deletes a slice that no group needs. `at_once` means that nothing that is written for its Service has to come first.
    fn withdraw(&mut self, id: MirroredSliceId, at_once: bool, contested: bool) {
        let slice = &mut self.mirrors.objects[id];
        (slice.desired, slice.place) = (None, None);
        if slice.object.remote.is_none() && !slice.object.needs_refetch && slice.object.flight.is_none() {
            return self.drop_mirrored(id);
        }
        let known = slice.object.phase == Phase::Deleting && (slice.at_once || !at_once);
        slice.object.phase = Phase::Deleting;
        slice.at_once = at_once;
        slice.object.rewrite = false;
        slice.object.needs_refetch &= slice.object.remote.is_none();
        let service = slice.service_name.clone();
        let appeared = std::mem::take(&mut slice.appeared);
        if let Some(mirror) = self.mirrors.by_name.get_mut(&service) {
            mirror.unread.remove(&id);
            if appeared {
                // Another client has made it, and perhaps makes it again: that it was read is no reason for haste.
                let object = &mut self.mirrors.objects[id].object;
                object.set_foreign_changes(mirror.foreign);
                object.wait_for_turn();
                self.note_foreign_change(id, &Editor::Unknown);
            }
        }
        if !known {
            self.queue_mirrored(id, Priority::Remove, !contested && !appeared);
        }
    }

    /// Queues a slice. Unless `news` gives a reason to write at once, it counts how often others have written.
    fn queue_mirrored(&mut self, id: MirroredSliceId, priority: Priority, news: bool) {
        let slice = &mut self.mirrors.objects[id];
        let mut changes = slice.object.foreign_changes();
        if let Some(mirror) = self.mirrors.by_name.get_mut(&slice.service_name) {
            changes = changes.most(mirror.foreign).at(self.ctx.now);
            mirror.foreign = changes;
        }
        slice.object.set_foreign_changes(changes);
        if news {
            slice.object.change(priority);
        } else {
            slice.object.priority = slice.object.priority.min(priority);
        }
        self.mirrors.objects.want(id);
    }

    /// Creates a slice that the API server does not have yet.
    fn create_mirrored(&mut self, service: &Arc<str>) -> MirroredSliceId {
        let name = fresh_name(self.ctx, self.slices, self.mirrors, service);
        let slice = MirroredSlice::new(name, service.clone(), Phase::Managed);
        self.insert_mirrored(slice)
    }

    fn insert_mirrored(&mut self, slice: MirroredSlice) -> MirroredSliceId {
        let service = slice.service_name.clone();
        let phase = slice.object.phase;
        let id = self.mirrors.objects.insert(slice);
        if phase == Phase::Unmanaged {
            return id;
        }
        let mirror = self.mirrors.by_name.entry(service.clone()).or_default();
        mirror.slices.insert(id);
        if matches!(phase, Phase::Adopting { .. }) {
            mirror.unread.insert(id);
            self.mirrors.dirty.insert(service);
        }
        id
    }

    fn drop_mirrored(&mut self, id: MirroredSliceId) {
        let slice = self.mirrors.objects.remove(id);
        if let Some(mirror) = self.mirrors.by_name.get_mut(&slice.service_name) {
            mirror.slices.remove(&id);
            mirror.unread.remove(&id);
            // Another may have its number later.
            mirror.touched.remove(&id);
            mirror.whole |= slice.place.is_some();
            mirror.foreign = mirror.foreign.most(slice.object.foreign_changes());
            self.mirrors.dirty.insert(slice.service_name);
        }
    }
}
