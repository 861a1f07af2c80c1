//! The driver of the lifecycle, the same for every kind of [`Published`] objects.

use super::{Effect, Granted, Metadata, Outcome, Published, Step, effect, next_step, set_back};
use crate::core::body::{Preconditions, Request};
use crate::core::namespace::{NamespaceState, WorkItem};
use crate::core::object::{Flight, Phase};
use smallvec::SmallVec;
use std::sync::Arc;

impl NamespaceState {
    /// Does what [`NamespaceState::grant`] does, for one kind.
    pub(in crate::core::namespace) fn grant_one<K: Published>(&mut self, name: &str) -> Option<Granted> {
        let id = K::find(self, name)?;
        let (phase, object) = K::get(self, &id)?;
        if object.flight.is_some() || !self.is_due::<K>(&id) {
            return None;
        }
        let step = next_step(phase, object);
        if self.is_blocked::<K>(&id) {
            K::queue(self).blocked.insert(id);
            return None;
        }
        if step != Step::Fetch
            && matches!(phase, Phase::Leftover { .. })
            && self.services_by_name.contains_key(name)
        {
            // The Service has been created since.
            *K::get_mut(self, &id)?.0 = Phase::Unmanaged;
            return None;
        }
        let (request, flight) = match step {
            Step::Fetch => (Request::Fetch, Flight::Fetch),
            Step::Write => {
                let body = K::build(self, &id)?;
                match K::get(self, &id)?.1.remote {
                    Some(_) => (Request::Update(body), Flight::Update),
                    None => (Request::Create(body), Flight::Create),
                }
            }
            Step::Delete => {
                let remote = K::get(self, &id)?.1.remote.as_ref()?;
                (
                    Request::Delete(Preconditions::same_version(remote)),
                    Flight::Delete,
                )
            }
            Step::Probe => (Request::Probe, Flight::Probe),
            Step::Forget => {
                K::forget(self, &id);
                return None;
            }
            Step::Rest => return None,
        };
        let changes = K::get(self, &id)?.1.changes;
        K::depart(self, &id, flight);
        Some(Granted { request, changes })
    }

    /// Does what [`NamespaceState::outcome`] does, for one kind.
    pub(in crate::core::namespace) fn answered<K: Published>(
        &mut self,
        name: &str,
        outcome: Outcome,
        why: Option<&str>,
    ) -> Option<WorkItem> {
        let asked = |id: &K::Id| K::get(self, id).is_some_and(|(_, object)| object.flight.is_some());
        let Some(id) = K::find(self, name).filter(asked) else {
            K::answered_late(self, name, &outcome);
            return None;
        };
        let (phase, object) = K::get_mut(self, &id)?;
        let (before, flight) = (*phase, object.flight.take()?);
        let failures = object.failures;
        let bytes = outcome.too_large();
        let effect = effect(before, flight, &outcome, object.remote.is_some());
        self.take_effect::<K>(&id, flight, effect, outcome);
        if effect == Effect::Terminating && before == Phase::Managed {
            // The namespace goes, and everything in it: not tried again before something changes.
            return None;
        }
        let looked = flight == Flight::Fetch && effect != Effect::Failed;
        if looked && let Some((_, object)) = K::get_mut(self, &id) {
            let others = effect == Effect::Read && before == Phase::Managed && failures == 0;
            object.looked(others);
        }
        // A replacement has another name, and asks for its turn by itself.
        K::name(self, &id).filter(|now| ***now == *name)?;
        let (phase, object) = K::get(self, &id)?;
        if phase == Phase::Unmanaged && object.is_nothing() {
            K::forget(self, &id);
            return None;
        }
        // Failures of unmanaged objects matter to nobody, and a read says nothing about our requests.
        if object.failures > failures && phase != Phase::Unmanaged && effect != Effect::Read {
            K::remark_failure(self, &id, flight, bytes, why);
        }
        if self.is_blocked::<K>(&id) {
            K::queue(self).blocked.insert(id);
            return None;
        }
        let waits = self.is_due::<K>(&id) && K::get(self, &id)?.1.flight.is_none();
        waits.then(|| K::want(self, &id)).flatten()
    }

    /// Applies the effect of an answer to the object.
    fn take_effect<K: Published>(&mut self, id: &K::Id, flight: Flight, effect: Effect, outcome: Outcome) {
        let Some((phase, object)) = K::get_mut(self, id) else {
            return;
        };
        match (effect, outcome) {
            (Effect::Accepted, Outcome::Written(remote)) => {
                object.written(flight, remote);
                K::accepted(self, id);
            }
            (Effect::Read, Outcome::Fetched(content)) => {
                if let Some(facts) = K::content(content) {
                    self.observed::<K>(id, facts);
                }
            }
            (Effect::NeverCreated, _) => object.needs_refetch = false,
            (Effect::Deleted, _) => {
                object.undo_departure();
                self.forget_arrival::<K>(id);
                K::remake(self, id);
            }
            (Effect::Lost, _) => {
                object.undo_departure();
                if flight == Flight::Create {
                    // The object was not there yet, so nothing else counts this against the next try.
                    object.lose();
                }
                self.lost::<K>(id);
            }
            (Effect::GivenAway, _) => {
                self.forget_arrival::<K>(id);
                K::give_away(self, id);
            }
            (Effect::Confirmed, _) => {
                if let Phase::Leftover { confirmed } = phase {
                    *confirmed = true;
                }
            }
            // A Service that was created since the probe has changed the object's phase, or will when the watch shows
            // it.
            (Effect::Spared, _) => {
                if matches!(phase, Phase::Leftover { .. }) {
                    *phase = Phase::Unmanaged;
                }
            }
            (Effect::Terminating, _) => {
                object.undo_departure();
                object.fail(false);
            }
            (_, outcome) => {
                set_back(*phase, object, flight, &outcome);
                // Versions that a watch showed while the request was in flight were left until now.
                object.needs_refetch |= object.is_outdated();
            }
        }
    }

    /// Returns whether an object has a request due.
    pub(in crate::core::namespace) fn is_due<K: Published>(&self, id: &K::Id) -> bool {
        let Some((phase, object)) = K::get(self, id) else {
            return false;
        };
        match phase {
            Phase::Managed => object.needs_refetch || K::differs(self, id),
            Phase::Deleting | Phase::Adopting { .. } | Phase::Leftover { .. } => true,
            // Fetched only to learn whether the API server has it at all.
            Phase::Unmanaged => object.needs_refetch,
        }
    }

    /// Returns whether an object must not be written now: a list is pending, or its Service has not been evaluated in
    /// full. Fetching it is always allowed.
    fn is_blocked<K: Published>(&self, id: &K::Id) -> bool {
        let Some((phase, object)) = K::get(self, id) else {
            return false;
        };
        let plans = matches!(phase, Phase::Managed | Phase::Deleting | Phase::Leftover { .. });
        plans && !object.needs_refetch && (self.pending_lists.any() || K::awaits(self, id))
    }

    /// Adds the work items of a kind that are due, in the order in which they should go.
    pub(in crate::core::namespace) fn plan_due<K: Published>(&mut self, wants: &mut Vec<WorkItem>) {
        let wanted = std::mem::take(&mut K::queue(self).wanted);
        let waits = |id: &K::Id| {
            let (_, object) = K::get(self, id)?;
            (object.flight.is_none() && self.is_due::<K>(id)).then(|| K::order(self, id))
        };
        let due = wanted
            .iter()
            .filter_map(|id| Some((waits(id)?, K::name(self, id)?, id)));
        let mut due: SmallVec<[_; 4]> = due.collect();
        due.sort_unstable_by_key(|(order, name, _)| (*order, *name));
        wants.extend(due.into_iter().filter_map(|(_, _, id)| K::want(self, id)));
    }

    /// Queues the objects that could not be written, now that their Services have been evaluated.
    pub(in crate::core::namespace) fn release_blocked<K: Published>(&mut self) {
        for id in std::mem::take(&mut K::queue(self).blocked) {
            let blocked = self.is_blocked::<K>(&id);
            let queue = K::queue(self);
            if blocked {
                queue.blocked.insert(id);
            } else {
                queue.wanted.insert(id);
            }
        }
    }

    /// Applies a whole object from the list of an epoch. Its meaning depends on pods and Services, so it is adopted,
    /// or compared with what it should hold, as soon as all of those are known.
    pub(in crate::core::namespace) fn listed<K: Published>(&mut self, facts: K::Facts, epoch: u8) {
        let meta = K::meta(&facts);
        if meta.is_deleting() {
            let name = meta.name().to_owned();
            return self.deleted::<K>(&name);
        }
        let (name, version) = (Arc::from(meta.name()), meta.version());
        let known = K::find(self, &name);
        if let Some(id) = &known
            && let Some((_, object)) = K::get_mut(self, id)
        {
            object.epoch = epoch;
            if object.flight.is_some() {
                object.seen = object.seen.max(version);
                return;
            }
        }
        let is_news = known.as_ref().is_none_or(|id| {
            K::get(self, id).is_some_and(|(phase, object)| {
                let older = object
                    .remote
                    .as_ref()
                    .is_some_and(|remote| remote.version > version);
                let looks = matches!(phase, Phase::Adopting { .. }) || object.needs_refetch;
                object.is_news(version) || (looks && !older)
            })
        });
        // An earlier arrival would be from another list.
        K::queue(self).arrivals.remove(&name);
        if !is_news {
            return;
        }
        if self.pending_lists.hides_inputs() {
            K::queue(self).arrivals.insert(name, (epoch, facts));
            return;
        }
        match known {
            Some(id) => self.observed::<K>(&id, facts),
            None => K::arrive(self, facts, epoch),
        }
    }

    /// Applies the metadata of an object from a watch. The version of our own write is nothing new; any other means
    /// that somebody else wrote.
    pub(in crate::core::namespace) fn watched<K: Published>(&mut self, meta: &K::Meta, epoch: u8) {
        if meta.is_deleting() {
            return self.deleted::<K>(meta.name());
        }
        let arrivals = &mut K::queue(self).arrivals;
        if let Some((_, facts)) = arrivals.get(meta.name()) {
            if K::meta(facts).version() >= meta.version() {
                return;
            }
            arrivals.remove(meta.name());
        }
        let Some(id) = K::find(self, meta.name()) else {
            return K::appear(self, meta, epoch);
        };
        let Some((_, object)) = K::get_mut(self, &id) else {
            return;
        };
        object.epoch = epoch;
        object.seen = object.seen.max(meta.version());
        if object.flight.is_none() && object.is_news(meta.version()) {
            K::change(self, &id, meta);
        }
    }

    /// Handles an object that is no longer ours, as of a resourceVersion.
    pub(in crate::core::namespace) fn vanished<K: Published>(&mut self, name: &str, version: u64) {
        let arrivals = &mut K::queue(self).arrivals;
        let older = |(_, facts): &(u8, K::Facts)| K::meta(facts).version() <= version;
        if arrivals.get(name).is_some_and(older) {
            arrivals.remove(name);
        }
        let Some(id) = K::find(self, name) else { return };
        if let Some((_, object)) = K::get_mut(self, &id) {
            object.seen = object.seen.max(version);
            K::vanish(self, &id, version);
        }
    }

    /// Handles an object that the API server does not have, or is about to delete.
    pub(in crate::core::namespace) fn deleted<K: Published>(&mut self, name: &str) {
        K::queue(self).arrivals.remove(name);
        if let Some(id) = K::find(self, name) {
            self.lost::<K>(&id);
        }
    }

    /// Handles an object that others have deleted, or turned into something else.
    pub(in crate::core::namespace) fn lost<K: Published>(&mut self, id: &K::Id) {
        if let Some((_, object)) = K::get_mut(self, id)
            && (object.remote.is_some() || object.flight == Some(Flight::Create))
        {
            object.lose();
        }
        self.forget_arrival::<K>(id);
        K::remake(self, id);
    }

    /// Drops what a list showed of an object: the API server does not have it, or not as ours.
    fn forget_arrival<K: Published>(&mut self, id: &K::Id) {
        if let Some(name) = K::name(self, id).cloned() {
            K::queue(self).arrivals.remove(&name);
        }
    }

    /// Applies the content of an object that was read while nothing of ours was in flight.
    pub(in crate::core::namespace) fn observed<K: Published>(&mut self, id: &K::Id, facts: K::Facts) {
        K::reconcile_observed(self, id, facts);
        if let Some((_, object)) = K::get_mut(self, id) {
            object.needs_refetch = object.is_outdated();
            if object.needs_refetch {
                // Somebody wrote during the read, so it needs a refetch, but not as often as they write.
                object.fail(object.rejected);
                K::queue(self).wanted.insert(id.clone());
            }
        }
    }

    /// Completes the list of an epoch: what it did not show is gone.
    pub(in crate::core::namespace) fn sweep<K: Published>(&mut self, epoch: u8, version: u64) {
        for name in K::unlisted(self, epoch, version) {
            self.vanished::<K>(&name, version);
        }
        K::queue(self).arrivals.retain(|_, (at, _)| *at == epoch);
    }
}
