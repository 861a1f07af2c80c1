//! The driver of the lifecycle, the same for every kind of [`Published`] objects.

use super::{Effect, Granted, Metadata, Outcome, Published, Step, effect, next_step, set_back};
use crate::core::body::{Encode, Preconditions, Request};
use crate::core::namespace::{NamespaceState, WorkItem};
use crate::core::object::{Editor, Flight, Interference, Phase};
use crate::core::work::Budget;
use smallvec::SmallVec;

/// The failures that reads of an object count as at most which others change faster than it is read: half a second.
const MOST_OUTDATED: u8 = 3;
/// The most objects of a kind that are planned in one go.
const MOST_PLANNED: usize = 1024;
/// The first position in a plan of those that take endpoints away.
const FIRST_THAT_REMOVES: u8 = 2;

impl NamespaceState {
    /// Does what [`NamespaceState::grant`] does, for one kind.
    pub(in crate::core::namespace) fn grant_one<T: Published, E: Encode>(
        &mut self,
        name: &str,
        encoder: &mut E,
    ) -> Option<Granted<E::Body>> {
        let id = T::objects(self).find(name)?;
        let entry = &T::objects(self)[id];
        let object = entry.object();
        if object.flight.is_some() {
            return None;
        }
        if !self.is_due(entry) {
            // What others did to it is as it should be by now.
            T::objects_mut(self)[id].object_mut().interference = None;
            return None;
        }
        let step = next_step(object);
        if self.is_blocked(entry) {
            T::objects_mut(self).blocked.insert(id);
            return None;
        }
        if step != Step::Fetch
            && matches!(object.phase, Phase::Leftover { .. })
            && self.services.find(name).is_some()
        {
            // The Service has been created since.
            T::objects_mut(self)[id].object_mut().phase = Phase::Unmanaged;
            return None;
        }
        let request = match step {
            Step::Fetch => Request::Fetch,
            Step::Write => {
                let Some(body) = T::build(self, id, encoder) else {
                    if let Some(entry) = T::objects_mut(self).get_mut(id) {
                        entry.object_mut().interference = None;
                    }
                    return None;
                };
                self.work.bytes_built += E::size(&body) as u64;
                match T::objects(self)[id].object().remote {
                    Some(_) => Request::Update(body),
                    None => Request::Create(body),
                }
            }
            Step::Delete => Request::Delete(Preconditions::same_version(object.remote.as_ref()?)),
            Step::Probe => Request::Probe,
            Step::Forget => {
                T::forget(self, id);
                return None;
            }
            Step::Rest => return None,
        };
        let changes = T::objects(self)[id].object().changes;
        T::depart(self, id, request.flight());
        Some(Granted { request, changes })
    }

    /// Does what [`NamespaceState::outcome`] does, for one kind.
    pub(in crate::core::namespace) fn answered<T: Published>(
        &mut self,
        name: &str,
        mut outcome: Outcome,
        why: Option<&str>,
    ) -> Option<WorkItem> {
        let asked = |id: &T::Id| T::objects(self)[*id].object().flight.is_some();
        let Some(id) = T::objects(self).find(name).filter(asked) else {
            T::answered_late(self, name, &outcome);
            return None;
        };
        let object = T::objects_mut(self)[id].object_mut();
        let (before, failures) = (object.phase, object.failures);
        let flight = object.flight.take()?;
        let bytes = outcome.too_large();
        let effect = effect(before, flight, &outcome, object.remote.is_some());
        let editor = match &mut outcome {
            Outcome::Fetched { editor, .. } => std::mem::take(editor),
            _ => Editor::Unknown,
        };
        let (version, unanswered) = (
            object.remote.as_ref().map(|remote| remote.version),
            object.unanswered,
        );
        let differed = flight == Flight::Fetch && self.differs_from_desired(&T::objects(self)[id]);
        self.take_effect::<T>(id, flight, effect, outcome);
        if effect == Effect::Terminating && before == Phase::Managed {
            // The namespace goes, and everything in it: not tried again before something changes.
            return None;
        }
        let entry = T::objects_mut(self).get_mut(id)?;
        if flight == Flight::Fetch && effect != Effect::Failed {
            let others = effect == Effect::Read && before == Phase::Managed && failures == 0;
            // A slice that appeared is read before it is managed.
            let appeared = effect == Effect::Read && before == Phase::Adopting { blocks: false };
            let now = entry.object().remote.as_ref().map(|remote| remote.version);
            let changed = effect == Effect::Read && before == Phase::Managed && now != version;
            if appeared || (changed && !unanswered) {
                self.note_foreign_version::<T>(id, &editor);
            }
            let entry = &mut T::objects_mut(self)[id];
            if entry.object_mut().looked(others) {
                self.notify_contested::<T>(id);
            }
            let differs = self.differs_from_desired(&T::objects(self)[id]);
            let object = T::objects_mut(self)[id].object_mut();
            if !differs {
                // Whatever was done has been taken back.
                object.interference = None;
            } else if others && !differed {
                // If a write was due anyway, it is not known whether what was read is a reason for one.
                object.interference = Some(Box::new(Interference::Changed {
                    editor: editor.other(),
                }));
            }
        }
        let entry = T::objects_mut(self).get_mut(id)?;
        // A replacement has another name, and asks for its turn by itself.
        if entry.name() != name {
            return None;
        }
        let object = entry.object();
        if object.phase == Phase::Unmanaged && object.is_nothing() {
            T::forget(self, id);
            return None;
        }
        // Failures of unmanaged objects matter to nobody, and a read says nothing about our requests.
        if object.failures > failures && object.phase != Phase::Unmanaged && effect != Effect::Read {
            self.notify_failure::<T>(id, flight, bytes, why);
        }
        let entry = &T::objects(self)[id];
        if self.is_blocked(entry) {
            T::objects_mut(self).blocked.insert(id);
            return None;
        }
        self.is_due(entry).then(|| entry.work_item())
    }

    /// Applies the effect of an answer to the object.
    fn take_effect<T: Published>(&mut self, id: T::Id, flight: Flight, effect: Effect, outcome: Outcome) {
        let entry = &mut T::objects_mut(self)[id];
        let object = entry.object_mut();
        match (effect, outcome) {
            (Effect::Accepted, Outcome::Written(remote)) => {
                object.written(flight, remote);
                entry.accepted();
                self.notify_corrected::<T>(id);
            }
            (Effect::Read, Outcome::Fetched { content, .. }) => {
                self.count_read(content.units());
                if let Some(facts) = T::content(content) {
                    self.observed::<T>(id, facts);
                }
            }
            (Effect::NeverCreated, _) => object.needs_refetch = false,
            (Effect::Deleted, _) => {
                object.undo_departure();
                self.forget_arrival::<T>(id);
                T::remake(self, id);
            }
            (Effect::Lost, _) => {
                object.undo_departure();
                // If the object was not there yet, nothing else counts this against the next try.
                if flight == Flight::Create && object.lose() {
                    self.notify_contested::<T>(id);
                }
                self.lost::<T>(id);
            }
            (Effect::GivenAway, _) => {
                object.interference = None;
                self.forget_arrival::<T>(id);
                T::give_away(self, id);
            }
            (Effect::Confirmed, _) => {
                if let Phase::Leftover { confirmed } = &mut object.phase {
                    *confirmed = true;
                }
            }
            // A Service that was created since the probe has changed the object's phase, or will when the watch shows
            // it.
            (Effect::Spared, _) => {
                if matches!(object.phase, Phase::Leftover { .. }) {
                    object.phase = Phase::Unmanaged;
                }
            }
            (Effect::Terminating, _) => {
                object.undo_departure();
                object.fail(false);
            }
            (_, outcome) => {
                set_back(object, flight, &outcome);
                // Versions that a watch showed while the request was in flight were left until now.
                object.needs_refetch |= object.is_outdated();
            }
        }
    }

    /// Returns whether an object is published, and not what it should be.
    fn differs_from_desired<T: Published>(&self, entry: &T) -> bool {
        entry.object().phase == Phase::Managed && entry.differs(self)
    }

    /// Returns whether an object has a request due.
    pub(in crate::core::namespace) fn is_due<T: Published>(&self, entry: &T) -> bool {
        let object = entry.object();
        match object.phase {
            Phase::Managed => object.needs_refetch || entry.differs(self),
            // Whatever made its turn come early: it goes when it gives way no longer.
            Phase::Deleting => object.needs_refetch || !entry.gives_way(),
            Phase::Adopting { .. } | Phase::Leftover { .. } => true,
            // Fetched only to learn whether the API server has it at all.
            Phase::Unmanaged => object.needs_refetch,
        }
    }

    /// Returns whether an object must not be written now: a list is pending, or its Service has not been evaluated in
    /// full. Fetching it is always allowed.
    fn is_blocked<T: Published>(&self, entry: &T) -> bool {
        let object = entry.object();
        let plans = matches!(
            object.phase,
            Phase::Managed | Phase::Deleting | Phase::Leftover { .. }
        );
        plans && !object.needs_refetch && (self.pending_lists.any() || entry.waits_for_slices(self))
    }

    /// Adds the work items of a kind that are due, in the order in which they should go. Returns false if the budget ends
    /// before all have been looked at.
    pub(in crate::core::namespace) fn plan_due<T: Published>(
        &mut self,
        items: &mut Vec<WorkItem>,
        budget: &mut Budget,
    ) -> bool {
        while T::objects(self).wanted.len() > MOST_PLANNED || !T::objects(self).last.is_empty() {
            self.plan_some::<T>(items);
            budget.spend(MOST_PLANNED as u64);
            if budget.is_spent() {
                return false;
            }
        }
        let wanted = std::mem::take(&mut T::objects_mut(self).wanted);
        self.add_due::<T>(wanted.into_iter(), items);
        true
    }

    /// Does what [`Self::plan_due`] does, for some of very many objects: those that add come first, and those that remove
    /// when none of them is left, so that an endpoint that moves is in its new slice before it leaves the old one.
    fn plan_some<T: Published>(&mut self, items: &mut Vec<WorkItem>) {
        let objects = T::objects_mut(self);
        let mut some: Vec<T::Id> = Vec::with_capacity(MOST_PLANNED);
        if objects.wanted.is_empty() {
            let last = std::iter::from_fn(|| objects.last.pop_first());
            some.extend(last.take(MOST_PLANNED).map(|(_, id)| id));
        } else {
            for _ in 0..MOST_PLANNED {
                let Some(id) = objects.wanted.pop_first() else {
                    break;
                };
                match objects.known.get(id).map(T::order) {
                    Some(order) if order >= FIRST_THAT_REMOVES => drop(objects.last.insert((order, id))),
                    Some(_) => some.push(id),
                    None => {}
                }
            }
        }
        self.add_due::<T>(some.into_iter(), items);
    }

    fn add_due<T: Published>(&self, wanted: impl Iterator<Item = T::Id>, items: &mut Vec<WorkItem>) {
        let due = wanted.filter_map(|id| {
            let entry = T::objects(self).get(id)?;
            let waits = entry.object().flight.is_none() && self.is_due(entry);
            waits.then(|| (entry.order(), entry.work_item()))
        });
        let mut due: SmallVec<[_; 4]> = due.collect();
        due.sort_unstable_by(|(a, item), (b, other)| {
            a.cmp(b).then_with(|| item.object.name.cmp(&other.object.name))
        });
        items.extend(due.into_iter().map(|(_, item)| item));
    }

    /// Queues the objects that could not be written, now that their Services have been evaluated.
    pub(in crate::core::namespace) fn release_blocked<T: Published>(&mut self) {
        let blocked = std::mem::take(&mut T::objects_mut(self).blocked);
        for id in blocked {
            let still = self.is_blocked(&T::objects(self)[id]);
            let objects = T::objects_mut(self);
            if still {
                objects.blocked.insert(id);
            } else {
                objects.want(id);
            }
        }
    }

    /// Applies a whole object from the list of an epoch. Its meaning depends on pods and Services, so it is adopted,
    /// or compared with what it should hold, as soon as all of those are known.
    pub(in crate::core::namespace) fn listed<T: Published>(&mut self, facts: T::Facts, epoch: u8) {
        let meta = T::meta(&facts);
        let (name, version) = (meta.name(), meta.version());
        if meta.is_deleting() {
            return self.deleted::<T>(name);
        }
        let objects = T::objects_mut(self);
        let known = objects.find(name);
        if let Some(id) = known {
            let object = objects[id].object_mut();
            object.epoch = epoch;
            if object.flight.is_some() {
                object.seen = object.seen.max(version);
                return;
            }
        }
        // An earlier arrival would be from another list.
        objects.drop_arrival(name);
        let is_news = known.is_none_or(|id| {
            let object = objects[id].object();
            let remote = object.remote.as_ref();
            let older = remote.is_some_and(|remote| remote.version > version);
            let looks = matches!(object.phase, Phase::Adopting { .. }) || object.needs_refetch;
            object.is_news(version) || (looks && !older)
        });
        if !is_news {
            return;
        }
        if self.pending_lists.hides_inputs() {
            T::objects_mut(self).keep_arrival(epoch, facts);
            return;
        }
        match known {
            Some(id) => self.observed::<T>(id, facts),
            None => T::arrive(self, facts, epoch),
        }
    }

    /// Applies the metadata of an object from a watch. The version of our own write is nothing new; any other means
    /// that somebody else wrote.
    pub(in crate::core::namespace) fn watched<T: Published>(&mut self, meta: &T::Meta, epoch: u8) {
        if meta.is_deleting() {
            return self.deleted::<T>(meta.name());
        }
        let objects = T::objects_mut(self);
        if let Some(arrival) = objects.arrivals.get(meta.name()) {
            if T::meta(&arrival.1).version() >= meta.version() {
                return;
            }
            objects.drop_arrival(meta.name());
        }
        let Some(id) = objects.find(meta.name()) else {
            return T::appear(self, meta, epoch);
        };
        let object = objects[id].object_mut();
        object.epoch = epoch;
        object.seen = object.seen.max(meta.version());
        if object.flight.is_none() && object.is_news(meta.version()) {
            T::changed_by_others(self, id, meta);
        }
    }

    /// Handles an object that is no longer ours, as of a resourceVersion.
    pub(in crate::core::namespace) fn vanished<T: Published>(&mut self, name: &str, version: u64) {
        let objects = T::objects_mut(self);
        let arrival = objects.arrivals.get(name);
        if arrival.is_some_and(|arrival| T::meta(&arrival.1).version() <= version) {
            objects.drop_arrival(name);
        }
        let Some(id) = objects.find(name) else { return };
        let object = objects[id].object_mut();
        object.seen = object.seen.max(version);
        T::vanish(self, id, version);
    }

    /// Handles an object that the API server does not have, or is about to delete.
    fn deleted<T: Published>(&mut self, name: &str) {
        let objects = T::objects_mut(self);
        match objects.find(name) {
            Some(id) => self.lost::<T>(id),
            None => objects.drop_arrival(name),
        }
    }

    /// Handles an object that others have deleted, or turned into something else.
    pub(in crate::core::namespace) fn lost<T: Published>(&mut self, id: T::Id) {
        let object = T::objects_mut(self)[id].object_mut();
        if object.remote.is_some() && object.phase == Phase::Managed {
            object.interference = Some(Box::new(Interference::Removed));
        }
        if (object.remote.is_some() || object.flight == Some(Flight::Create)) && object.lose() {
            self.notify_contested::<T>(id);
        }
        self.forget_arrival::<T>(id);
        T::remake(self, id);
    }

    /// Drops what a list showed of an object: the API server does not have it, or not as ours.
    fn forget_arrival<T: Published>(&mut self, id: T::Id) {
        let objects = T::objects_mut(self);
        let name = objects.known[id].name().to_owned();
        objects.drop_arrival(&name);
    }

    /// Applies the content of an object that was read while nothing of ours was in flight.
    pub(in crate::core::namespace) fn observed<T: Published>(&mut self, id: T::Id, facts: T::Facts) {
        T::reconcile_observed(self, id, facts);
        let objects = T::objects_mut(self);
        if let Some(object) = objects.get_mut(id).map(T::object_mut) {
            object.needs_refetch = object.is_outdated();
            if object.needs_refetch {
                // Somebody wrote during the read, so it needs a refetch, but not as often as they write.
                object.fail(object.rejected);
                if object.phase == Phase::Unmanaged {
                    // Slices show what was read, and must not fall behind by more than this costs.
                    object.failures = object.failures.min(MOST_OUTDATED);
                }
                objects.want(id);
            }
        }
    }
}
