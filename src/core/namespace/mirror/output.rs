//! Mirrored slices as published objects: what they should hold, and what the lifecycle needs of them.

use crate::core::address::Family;
use crate::core::body::{Encode, Metadata as BodyMetadata, SliceBody, Subject};
use crate::core::compact::table::Named;
use crate::core::events::{Involved, InvolvedKind, Notice, Source};
use crate::core::facts::{Extras, Owners, SliceFacts, SliceMeta};
use crate::core::ids::MirroredSliceId;
use crate::core::mirror::{MirroredGroup, MirroredObject, observed_fingerprint};
use crate::core::namespace::lifecycle::{Content, Metadata, Objects, Published};
use crate::core::namespace::{NamespaceState, WorkItem};
use crate::core::object::{Flight, ObjectName, ObjectState, Phase};
use crate::core::ports::SlicePorts;
use crate::core::queue::Priority;
use std::sync::Arc;
use std::time::Duration;

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
    /// True if it is to be deleted once others have taken its place.
    pub(in crate::core::namespace) gives_way: bool,
    /// When it goes at the latest, since it has begun to give way.
    pub(in crate::core::namespace) gives_way_until: Option<Duration>,
    /// True if a watch showed it first, so that somebody else has made it, and it has not been needed yet.
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
            gives_way: false,
            gives_way_until: None,
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
    pub(super) fn holds_others(&self) -> bool {
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

impl Published for MirroredSlice {
    type Id = MirroredSliceId;
    type Meta = SliceMeta;
    type Facts = SliceFacts;

    fn objects(state: &NamespaceState) -> &Objects<Self> {
        &state.mirrored
    }

    fn objects_mut(state: &mut NamespaceState) -> &mut Objects<Self> {
        &mut state.mirrored
    }

    fn object(&self) -> &ObjectState {
        &self.object
    }

    fn object_mut(&mut self) -> &mut ObjectState {
        &mut self.object
    }

    fn meta(facts: &SliceFacts) -> &SliceMeta {
        &facts.meta
    }

    fn content(content: Content) -> Option<SliceFacts> {
        match content {
            Content::Slice(facts) => Some(*facts),
            Content::Endpoints(_) => None,
        }
    }

    fn work_item(&self) -> WorkItem {
        let name = ObjectName::mirrored(self.name.clone());
        let item = WorkItem::new(name, self.service_name.clone(), &self.object);
        // A delete has no later changes to take along, but may have to come after an update that has.
        let batched = self.object.phase != Phase::Deleting || !self.at_once;
        WorkItem {
            exists: item.exists && batched,
            ..item
        }
    }

    fn gives_way(&self) -> bool {
        self.gives_way
    }

    /// Slices are created before others are deleted.
    fn order(&self) -> u8 {
        match self.object.phase {
            Phase::Managed if self.object.remote.is_none() => 0,
            Phase::Managed => 1,
            _ => 2,
        }
    }

    /// Nothing is created for Endpoints that are being deleted.
    fn differs(&self, state: &NamespaceState) -> bool {
        let deleting = || {
            let content = state.mirrored_content(&self.service_name);
            content.is_none_or(|content| content.deleting)
        };
        match self.object.remote {
            Some(_) => self.object.rewrite,
            None => !deleting(),
        }
    }

    /// Returns whether another slice of the Service must be fetched first, since it may show the same.
    fn waits_for_slices(&self, state: &NamespaceState) -> bool {
        self.object.phase == Phase::Managed && state.is_adopting_mirrored(&self.service_name)
    }

    /// Builds nothing if the API server has what the slice should hold, or if it is not needed any more.
    fn build<E: Encode>(state: &mut NamespaceState, id: MirroredSliceId, encoder: &mut E) -> Option<E::Body> {
        let slice = &state.mirrored[id];
        let content = state.mirrored_content(&slice.service_name)?;
        let group = content.group(slice.family?, &slice.ports)?;
        if slice.shows(content, group) {
            state.mirrored[id].object.rewrite = false;
            return None;
        }
        let body = encoder.mirrored(SliceBody {
            metadata: BodyMetadata {
                namespace: &state.namespace,
                name: &slice.name,
                subject: Subject::Mirrors(content),
                remote: slice.object.remote.as_ref(),
                extras: slice.object.extras.as_deref(),
                trigger: None,
                clear_managed_fields: state.settings.clear_managed_fields && !slice.object.updated,
                truncated: false,
            },
            address_type: group.family.as_str(),
            ports: &group.ports,
            endpoints: content.endpoints_of(group),
        });
        let departing = (group.fingerprint, Owners::from(content.uid.clone()));
        state.work.addresses_visited += group.size() as u64;
        state.mirrored[id].departing = Some(departing);
        Some(body)
    }

    fn depart(state: &mut NamespaceState, id: MirroredSliceId, flight: Flight) {
        let slice = &mut state.mirrored[id];
        let before = slice.object.losses;
        slice.object.depart(flight);
        let (losses, service) = (slice.object.losses, slice.service_name.clone());
        if losses < before {
            state.limit_mirror_losses(&service, losses);
        }
    }

    fn accepted(&mut self) {
        if let Some((fingerprint, owner)) = self.departing.take() {
            (self.published, self.owner) = (Some(fingerprint), owner);
        }
    }

    fn arrive(state: &mut NamespaceState, facts: SliceFacts, epoch: u8) {
        let id = state.keep_mirrored(&facts.meta, epoch);
        Self::reconcile_observed(state, id, facts);
    }

    /// Takes in a slice that is to be fetched before its Service is evaluated: it may show what another is about to be
    /// created for.
    fn appear(state: &mut NamespaceState, meta: &SliceMeta, epoch: u8) {
        let id = state.keep_mirrored(meta, epoch);
        let slice = &mut state.mirrored[id];
        slice.appeared = true;
        slice.object.priority = Priority::Add;
        state.mirrored.want(id);
    }

    fn changed_by_others(state: &mut NamespaceState, id: MirroredSliceId, meta: &SliceMeta) {
        let slice = &mut state.mirrored[id];
        if slice.service_name != meta.service {
            state.move_mirrored(id, meta);
        } else if slice.object.phase == Phase::Managed {
            slice.object.mark_stale();
            state.mirrored.want(id);
        } else {
            slice.object.remote = Some(meta.remote());
            state.drop_mirrored_content(id);
        }
    }

    fn reconcile_observed(state: &mut NamespaceState, id: MirroredSliceId, facts: SliceFacts) {
        let slice = &mut state.mirrored[id];
        slice.object.needs_refetch = false;
        if facts.meta.deleting {
            return state.lost::<Self>(id);
        }
        if slice.service_name != facts.meta.service {
            return state.move_mirrored(id, &facts.meta);
        }
        state.hold_mirrored_content(id, &facts);
        let published = observed_fingerprint(&state.namespace, &facts);
        let slice = &mut state.mirrored[id];
        let moved = slice.object.read(facts.meta.remote());
        slice.object.extras = kept(facts.extras, &slice.service_name);
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
        if let Some(mirror) = state.mirrors.by_name.get_mut(&slice.service_name) {
            mirror.unread.remove(&id);
        }
        state.touch_mirrored(id);
    }

    fn vanish(state: &mut NamespaceState, id: MirroredSliceId, version: u64) {
        let object = &state.mirrored[id].object;
        // A request in flight is answered first.
        if object.flight.is_none() && object.is_news(version) {
            state.lost::<Self>(id);
        }
    }

    /// Creates a managed slice anew, under another name.
    fn remake(state: &mut NamespaceState, id: MirroredSliceId) {
        let slice = &mut state.mirrored[id];
        if slice.object.phase != Phase::Managed {
            return state.drop_mirrored(id);
        }
        let service = slice.service_name.clone();
        let name = state.fresh_name(&service);
        state.mirrored.rename(id, |slice| {
            slice.name = name;
            slice.object.forget_remote();
            (slice.published, slice.departing) = (None, None);
            slice.owner = Owners::default();
            slice.object.priority = slice.object.priority.min(Priority::Add);
        });
        state.touch_mirrored(id);
    }

    fn forget(state: &mut NamespaceState, id: MirroredSliceId) {
        state.drop_mirrored(id);
    }

    fn failure_notice(&self, state: &NamespaceState, _flight: Flight, message: String) -> Option<Notice> {
        let content = state.mirrored_content(&self.service_name)?;
        Some(Notice {
            source: Source::Mirroring,
            involved: state.involved_endpoints(content),
            warning: true,
            reason: "FailedToUpdateEndpointSlices",
            message: format!("EndpointSlice {}: {message}", self.name),
        })
    }
}

/// Returns what is kept of the metadata that others added: how the name was generated, and finalizers, whose owners
/// rely on them. Annotations and owners are exactly what mirroring makes them.
fn kept(extras: Extras, service: &str) -> Option<Box<Extras>> {
    let kept = Extras {
        generate_name: extras.generate_name,
        finalizers: extras.finalizers,
        ..Extras::default()
    };
    (!kept.is_usual(service)).then(|| Box::new(kept))
}

impl NamespaceState {
    /// Applies a whole slice that mirrors Endpoints, from the list of an epoch.
    pub fn apply_mirrored(&mut self, facts: SliceFacts, epoch: u8) {
        self.listed::<MirroredSlice>(facts, epoch);
    }

    /// Applies the metadata of a slice that mirrors Endpoints, from a watch.
    pub fn apply_mirrored_meta(&mut self, meta: &SliceMeta, epoch: u8) {
        self.watched::<MirroredSlice>(meta, epoch);
    }

    /// Handles a slice that no longer mirrors Endpoints, as of a resourceVersion.
    pub fn mirrored_gone(&mut self, name: &str, version: u64) {
        self.vanished::<MirroredSlice>(name, version);
    }

    /// Returns what the slices of a Service should show, if that is known.
    fn mirrored_content(&self, service: &str) -> Option<&MirroredObject> {
        self.mirrors.by_name.get(service)?.content.as_deref()
    }

    /// Returns whether the content of some slice of a Service is not known yet.
    pub(super) fn is_adopting_mirrored(&self, service: &str) -> bool {
        let mirror = self.mirrors.by_name.get(service);
        let mut unread = mirror.into_iter().flat_map(|mirror| mirror.unread.iter());
        unread.any(|id| self.mirrored[id].holds_others())
    }

    /// Adds a slice that was not known and whose content is not known yet.
    fn keep_mirrored(&mut self, meta: &SliceMeta, epoch: u8) -> MirroredSliceId {
        // One that names no Service is nobody's, and left alone, as upstream.
        let phase = if meta.service.is_empty() {
            Phase::Unmanaged
        } else {
            Phase::Adopting { blocks: true }
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
        let epoch = self.mirrored[id].object.epoch;
        self.lost::<MirroredSlice>(id);
        self.apply_mirrored_meta(meta, epoch);
    }

    /// Lowers the count of a mirror's losses to that of a slice that was left to others for a while.
    fn limit_mirror_losses(&mut self, service: &str, losses: u8) {
        if let Some(mirror) = self.mirrors.by_name.get_mut(service) {
            mirror.losses = mirror.losses.min(losses);
        }
    }

    /// Returns the Endpoints that are mirrored as the object of an Event.
    pub(in crate::core::namespace) fn involved_endpoints(&self, content: &MirroredObject) -> Involved {
        Involved {
            kind: InvolvedKind::Endpoints,
            namespace: self.namespace.clone(),
            name: content.name.clone(),
            uid: content.uid.clone(),
            version: Some(content.version),
        }
    }
}
