//! The driver of the lifecycle, the same for every kind of [`Published`] objects.

use super::notices::Notices as _;
use super::{
    AnswerEffect, BuiltRequest, Facts, Gone, Id, Meta, ObjectEvent, ObjectMeta as _, Objects, Outcome,
    Published, Publishing, Step, Whole, context_mut, effect, next_step, object_mut, object_of, objects,
    objects_mut, set_back,
};
use crate::core::body::{Encode, Preconditions, Request};
use crate::core::compact::table::Named as _;
use crate::core::namespace::WorkItem;
use crate::core::namespace::context::Context;
use crate::core::object::{Editor, ObjectState, Phase, RequestKind};
use crate::core::priority::Stage;
use crate::core::work::TurnBudget;
use smallvec::SmallVec;
use std::ops::Range;

/// The most failures that count for reads of an unmanaged object that other clients change faster than it can be read. With so
/// many, the pause before the next read is 0.4 seconds at most.
const MOST_OUTDATED: u8 = 3;
/// The most objects of a kind that are planned in one go.
const MOST_PLANNED: usize = 1024;

/// The operations on objects of any kind.
pub(in crate::core::namespace) trait Lifecycle: Publishing {
    /// Builds the request of an object whose turn has come, or returns `None` if nothing is due any more.
    /// A kind that has more to do at this moment has a method of the same name, which calls this one, or `request`.
    fn build_request<E: Encode>(&mut self, name: &str, encoder: &mut E) -> Option<BuiltRequest<E::Body>> {
        let id = objects(self).find(name)?;
        self.request(id, encoder)
    }

    /// Builds the request of an object that has been found.
    fn request<E: Encode>(&mut self, id: Id<Self>, encoder: &mut E) -> Option<BuiltRequest<E::Body>> {
        let entry = &objects(self)[id];
        let object: &ObjectState = entry.as_ref();
        if object.flight.is_some() {
            return None;
        }
        if !self.is_due(entry) {
            return None;
        }
        let step = next_step(object);
        if is_blocked(self, entry) {
            objects_mut(self).blocked.insert(id);
            return None;
        }
        let request = match step {
            Step::Fetch => Request::Fetch,
            Step::Write => {
                let body = self.build(id, encoder)?;
                context_mut(self).work.bytes_built += E::size(&body) as u64;
                match object_of(self, id).remote {
                    Some(_) => Request::Update(body),
                    None => Request::Create(body),
                }
            }
            Step::Delete => Request::Delete(Preconditions::same_version(object.remote.as_ref()?)),
            Step::Probe => Request::Probe,
            Step::Forget => {
                self.gone(id, Gone::Unneeded);
                return None;
            }
            Step::Rest => return None,
        };
        let object = object_mut(self, id);
        let changes = object.changes();
        object.depart(request.kind());
        Some(BuiltRequest { request, changes })
    }

    /// Handles the answer to an object's request. Returns the object if it is due again.
    /// A kind that has more to do at this moment has a method of the same name, which calls this one, or `answered`.
    fn apply_outcome(&mut self, name: &str, outcome: Outcome, why: Option<&str>) -> Option<WorkItem> {
        let id = objects(self).find(name)?;
        self.answered(id, name, outcome, why)
    }

    /// Handles the answer to a request of an object that had this name when the request was sent. Returns the object if it is
    /// due again. Nothing happens if no request is in flight.
    fn answered(
        &mut self,
        id: Id<Self>,
        name: &str,
        mut outcome: Outcome,
        why: Option<&str>,
    ) -> Option<WorkItem> {
        let object = object_mut(self, id);
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
        take_effect(self, id, flight, effect, outcome);
        let entry = objects(self).get(id)?;
        // A replacement has another name, and asks for its turn by itself. The answer says nothing about it.
        if entry.name() != name {
            return None;
        }
        let object: &ObjectState = entry.as_ref();
        if flight == RequestKind::Fetch && effect != AnswerEffect::Failed {
            let now = object.remote.as_ref().map(|remote| remote.version);
            let changed = effect == AnswerEffect::Read && before == Phase::Managed && now != version;
            object_mut(self, id).looked();
            if changed && !unanswered {
                self.note_foreign_change(id, &editor);
            }
        }
        let object: &ObjectState = objects(self).get(id)?.as_ref();
        if object.phase == Phase::Unmanaged && object.is_absent() {
            self.gone(id, Gone::Unneeded);
            return None;
        }
        // Failures of unmanaged objects have no consequences, and a read says nothing about our requests.
        if object.failures > failures && object.phase != Phase::Unmanaged && effect != AnswerEffect::Read {
            self.notify_failure(id, flight, bytes, why);
        }
        let entry = &objects(self)[id];
        if is_blocked(self, entry) {
            objects_mut(self).blocked.insert(id);
            return None;
        }
        self.is_due(entry).then(|| entry.work_item())
    }

    /// Returns whether an object has a request due.
    fn is_due(&self, entry: &Self::Entry) -> bool {
        let object: &ObjectState = entry.as_ref();
        match object.phase {
            Phase::Managed => object.needs_refetch || self.differs(entry),
            // Whatever made its turn come early: it goes when it waits no longer.
            Phase::Deleting => object.needs_refetch || !object.waits,
            Phase::Adopting { .. } | Phase::Leftover { .. } => true,
            // Fetched only to learn whether the API server has it at all.
            Phase::Unmanaged => object.needs_refetch,
        }
    }

    /// Adds the work items of a kind that are due, in the order in which they should go. While blocked objects are being
    /// released, those that remove wait: an object that adds may be released later. Returns false if the budget ends before all
    /// have been looked at.
    fn plan_due(&mut self, items: &mut Vec<WorkItem>, budget: &mut TurnBudget) -> bool {
        while has_many_to_plan(objects(self)) {
            plan_some(self, items);
            budget.spend(MOST_PLANNED as u64);
            if budget.is_spent() {
                return false;
            }
        }
        if !objects(self).wanted.is_empty() {
            let wanted = std::mem::take(&mut objects_mut(self).wanted);
            add_due(self, wanted.into_iter(), items);
        }
        true
    }

    /// Begins to release the objects that could not be written, now that their Services have been evaluated.
    fn begin_release(&mut self) {
        let objects = objects_mut(self);
        objects.to_release.append(&mut objects.blocked);
    }

    /// Queues those of them that nothing blocks any more. Returns false if the budget ends before all have been looked at.
    fn release_some(&mut self, budget: &mut TurnBudget) -> bool {
        while let Some(id) = objects_mut(self).to_release.pop_first() {
            let still = is_blocked(self, &objects(self)[id]);
            let objects = objects_mut(self);
            if still {
                objects.blocked.insert(id);
            } else {
                objects.want(id);
            }
            budget.spend(1);
            if budget.is_spent() {
                return objects.to_release.is_empty();
            }
        }
        true
    }

    /// Applies an event of an object.
    fn shown(&mut self, event: ObjectEvent<Facts<Self>, Meta<Self>>) {
        match event {
            ObjectEvent::Whole(facts, epoch) => {
                context_mut(self).count_read(facts.units());
                self.listed(facts, epoch);
            }
            ObjectEvent::Meta(meta, epoch) => self.watched(&meta, epoch),
            ObjectEvent::Gone(name, version) => self.vanished(&name, version),
        }
    }

    /// Applies a whole object from the list of an epoch. Its meaning depends on pods and Services, so it is adopted,
    /// or compared with what it should hold, as soon as all of those are known.
    fn listed(&mut self, facts: Box<Facts<Self>>, epoch: u8) {
        let meta = facts.meta();
        let (name, version) = (meta.name(), meta.version());
        if meta.is_deleting() {
            return deleted(self, name);
        }
        let objects = objects_mut(self);
        let known = objects.find(name);
        if let Some(id) = known {
            let object = objects[id].as_mut();
            object.epoch = epoch;
            if object.flight.is_some() {
                object.show_in_flight(version);
                return;
            }
        }
        // An earlier arrival would be from another list.
        objects.arrivals.drop(name);
        let is_news = known.is_none_or(|id| {
            let object = objects[id].as_ref();
            let remote = object.remote.as_ref();
            let older = remote.is_some_and(|remote| remote.version > version);
            let looks = matches!(object.phase, Phase::Adopting { .. }) || object.needs_refetch;
            object.is_news(version) || (looks && !older)
        });
        if !is_news {
            return;
        }
        if context_mut(self).pending_lists.hides_inputs() {
            objects_mut(self).arrivals.keep(epoch, facts);
            return;
        }
        match known {
            Some(id) => self.observed(id, *facts),
            None => self.arrived(*facts, epoch),
        }
    }

    /// Applies the metadata of an object from a watch. The version of our own write is nothing new; any other means
    /// that another client wrote.
    fn watched(&mut self, meta: &Meta<Self>, epoch: u8) {
        if meta.is_deleting() {
            return deleted(self, meta.name());
        }
        let objects = objects_mut(self);
        if let Some(arrival) = objects.arrivals.get(meta.name()) {
            if arrival.meta().version() >= meta.version() {
                return;
            }
            objects.arrivals.drop(meta.name());
        }
        let Some(id) = objects.find(meta.name()) else {
            return self.seen(None, meta, epoch);
        };
        let object = objects[id].as_mut();
        object.epoch = epoch;
        if object.flight.is_some() {
            return object.show_in_flight(meta.version());
        }
        object.seen = object.seen.max(meta.version());
        if object.is_news(meta.version()) {
            forget_quarrel(self, id);
            self.seen(Some(id), meta, epoch);
        }
    }

    /// Handles an object that is no longer ours, as of a resourceVersion.
    fn vanished(&mut self, name: &str, version: u64) {
        let objects = objects_mut(self);
        let arrival = objects.arrivals.get(name);
        if arrival.is_some_and(|arrival| arrival.meta().version() <= version) {
            objects.arrivals.drop(name);
        }
        let Some(id) = objects.find(name) else { return };
        let object = objects[id].as_mut();
        object.seen = object.seen.max(version);
        object.note_gone(version);
        forget_quarrel(self, id);
        self.gone(id, Gone::Shown(version));
    }

    /// Handles an object that others have deleted, or turned into something else.
    fn lost(&mut self, id: Id<Self>) {
        let object = object_mut(self, id);
        // A delete of ours in flight is meant for the object of an earlier Service of this name.
        let ours = object.phase != Phase::Managed || object.flight == Some(RequestKind::Delete);
        if !ours && (object.remote.is_some() || object.flight == Some(RequestKind::Create)) {
            self.note_foreign_change(id, &Editor::Unknown);
        }
        forget_arrival(self, id);
        self.gone(id, Gone::Missing);
    }

    /// Takes in an unknown object that was listed or read whole.
    fn arrived(&mut self, facts: Facts<Self>, epoch: u8) {
        self.read(None, facts, epoch);
    }

    /// Applies the content of an object that was read while nothing of ours was in flight.
    fn observed(&mut self, id: Id<Self>, facts: Facts<Self>) {
        let object = object_mut(self, id);
        object.needs_refetch = false;
        if object.seen > facts.meta().version() {
            // Another client wrote during the read, so it needs a refetch, but not as often as that client writes.
            object.fail(object.refusal);
            if object.phase == Phase::Unmanaged {
                // Slices show what was read, and must not fall behind by more than this costs.
                object.failures = object.failures.min(MOST_OUTDATED);
            }
        }
        let epoch = object.epoch;
        self.read(Some(id), facts, epoch);
        let objects = objects_mut(self);
        // The number may be that of another object by now, which has to be fetched for reasons of its own.
        if let Some(object) = objects.get_mut(id).map(AsMut::as_mut)
            && object.is_outdated()
        {
            object.needs_refetch = true;
            objects.want(id);
        }
    }

    /// Treats an object that is not what we took it for as if it had just appeared. A watch may have shown more of it than
    /// was read, up to the version `seen`: then it needs a refetch.
    fn reappear(&mut self, meta: &Meta<Self>, epoch: u8, seen: u64) {
        self.watched(meta, epoch);
        let objects = objects_mut(self);
        if seen > meta.version()
            && let Some(id) = objects.find(meta.name())
        {
            let object = objects[id].as_mut();
            object.seen = seen;
            object.mark_stale();
            objects.want(id);
        }
    }

    /// Handles those of the objects with some numbers that the list of an epoch did not show: they are gone. Returns whether
    /// there are more objects.
    fn sweep_some(&mut self, epoch: u8, version: u64, numbers: Range<usize>) -> bool {
        let end = numbers.end;
        for number in numbers {
            let entry = objects(self).get(number.into());
            let gone = entry.filter(|entry| entry.as_ref().is_unlisted(epoch, version));
            if let Some(name) = gone.map(|entry| entry.name().to_owned()) {
                self.vanished(&name, version);
            }
        }
        let objects = objects_mut(self);
        let more = end < objects.end();
        if !more {
            objects.arrivals.drop_older(epoch);
        }
        more
    }
}

impl<P: Publishing> Lifecycle for P {}

/// Applies the effect of an answer to the object.
fn take_effect<P: Publishing>(
    desk: &mut P,
    id: Id<P>,
    flight: RequestKind,
    effect: AnswerEffect,
    outcome: Outcome,
) {
    let now = context_mut(desk).now;
    let entry = &mut objects_mut(desk)[id];
    let object = entry.as_mut();
    let is_gone = matches!(effect, AnswerEffect::Deleted | AnswerEffect::Lost);
    if is_gone && object.refetch_if_shown_since() {
        return object.undo_departure();
    }
    match (effect, outcome) {
        (AnswerEffect::Accepted, Outcome::Written(remote)) => {
            object.written(flight, remote, now);
            entry.accepted();
        }
        (AnswerEffect::Read, Outcome::Fetched { content, .. }) => {
            context_mut(desk).count_read(content.units());
            if let Some(facts) = Whole::from_content(content) {
                desk.observed(id, facts);
            }
        }
        (AnswerEffect::NeverCreated, _) => object.needs_refetch = false,
        (AnswerEffect::Deleted, _) => {
            object.undo_departure();
            forget_arrival(desk, id);
            desk.gone(id, Gone::Missing);
        }
        (AnswerEffect::Lost, outcome) => {
            object.undo_departure();
            let is_managed = object.remote.is_some() && object.phase == Phase::Managed;
            let name: Box<str> = objects(desk)[id].name().into();
            // If the object was not there yet, nothing else counts this against the next try.
            if flight == RequestKind::Create && object_of(desk, id).phase == Phase::Managed {
                desk.note_foreign_change(id, &Editor::Unknown);
            }
            desk.lost(id);
            if let (true, Outcome::Foreign { editor }) = (is_managed, outcome) {
                desk.notify_given_away(id, &name, &editor);
            }
        }
        (AnswerEffect::Confirmed, _) => {
            if let Phase::Leftover { confirmed } = &mut object.phase {
                *confirmed = true;
            }
        }
        // A Service that was created since the probe has changed the object's phase, or will when the watch shows
        // it.
        (AnswerEffect::Spared, _) => {
            if matches!(object.phase, Phase::Leftover { .. }) {
                object.phase = Phase::Unmanaged;
            }
        }
        (_, outcome) => {
            set_back(object, flight, &outcome);
            // Versions that a watch showed while the request was in flight were left until now.
            object.needs_refetch |= object.is_outdated();
        }
    }
}

/// Returns whether an object must not be written now: a list is pending, or its Service has not been evaluated in
/// full. Fetching it is always allowed.
fn is_blocked<P: Publishing>(desk: &P, entry: &P::Entry) -> bool {
    let object: &ObjectState = entry.as_ref();
    let plans = matches!(
        object.phase,
        Phase::Managed | Phase::Deleting | Phase::Leftover { .. }
    );
    let context: &Context = desk.as_ref();
    plans && !object.needs_refetch && (context.pending_lists.any() || desk.waits_for_slices(entry))
}

/// Handles an object that the API server does not have, or is about to delete.
fn deleted<P: Publishing>(desk: &mut P, name: &str) {
    let objects = objects_mut(desk);
    match objects.find(name) {
        Some(id) => desk.lost(id),
        None => objects.arrivals.drop(name),
    }
}

/// Forgets the changes of others that a quiet time has followed, so that the next is put right at once.
fn forget_quarrel<P: Publishing>(desk: &mut P, id: Id<P>) {
    let now = context_mut(desk).now;
    let object = object_mut(desk, id);
    object.set_foreign_changes(object.foreign_changes().at(now));
}

/// Drops what a list showed of an object: the API server does not have it, or not as ours.
fn forget_arrival<P: Publishing>(desk: &mut P, id: Id<P>) {
    let objects = objects_mut(desk);
    let name = objects.known[id].name().to_owned();
    objects.arrivals.drop(&name);
}

/// Returns whether the objects that are due have to be planned by [`plan_some`].
fn has_many_to_plan<T: Published>(objects: &Objects<T>) -> bool {
    if objects.to_release.is_empty() {
        objects.wanted.len() > MOST_PLANNED || !objects.last.is_empty()
    } else {
        !objects.wanted.is_empty()
    }
}

/// Does what [`Lifecycle::plan_due`] does, for some of very many objects: those that only add endpoints come first, and those
/// that remove some follow when none of the former is left, for the reason that [`crate::core::slices::Slice::stage`] gives.
fn plan_some<P: Publishing>(desk: &mut P, items: &mut Vec<WorkItem>) {
    let objects = objects_mut(desk);
    let mut some: Vec<Id<P>> = Vec::with_capacity(MOST_PLANNED);
    if objects.wanted.is_empty() {
        let last = std::iter::from_fn(|| objects.last.pop_first());
        some.extend(last.take(MOST_PLANNED).map(|(_, id)| id));
    } else {
        for _ in 0..MOST_PLANNED {
            let Some(id) = objects.wanted.pop_first() else {
                break;
            };
            match objects.known.get(id).map(P::Entry::stage) {
                Some(stage) if stage >= Stage::Remove => drop(objects.last.insert((stage, id))),
                Some(_) => some.push(id),
                None => {}
            }
        }
    }
    add_due(desk, some.into_iter(), items);
}

/// Adds the work items of those objects that are due, in the order in which they should go.
fn add_due<P: Publishing>(desk: &P, wanted: impl Iterator<Item = Id<P>>, items: &mut Vec<WorkItem>) {
    let due = wanted.filter_map(|id| {
        let entry = objects(desk).get(id)?;
        let waits = entry.as_ref().flight.is_none() && desk.is_due(entry);
        waits.then(|| entry.work_item())
    });
    let mut due: SmallVec<[_; 4]> = due.collect();
    due.sort_unstable_by(|a, b| (a.stage, &a.object.name).cmp(&(b.stage, &b.object.name)));
    items.extend(due);
}
