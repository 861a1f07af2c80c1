//! Slices that give way: those published for an annotation that no longer counts, and those that mirror the Endpoints of a
//! Service that has a selector now. Clients read all slices of a Service, so an old one is deleted only when others have
//! taken its place.
//!
//! A slice *gives way* from the time at which it is withdrawn until it is deleted or needed again. While it waits, it is one of
//! the *leaving* slices of its Service; the others are the *replacing* ones. A [`Replacement`] holds what is known of both. At
//! the end, a leaving slice is *let go*, which means that it is deleted (mirrors are told by [`Released`]), or it *stays*
//! although its time has come, because nothing would be left without it. It is let go:
//!
//! * If this process writes the replacing slices: when all of these are written and hold a ready endpoint, or the leaving
//!   one was published for an annotation and holds none.
//! * If another controller writes them: when their ready endpoints have the ready addresses of the leaving one, or as many
//!   as all leaving ones had. They are watched as metadata only, so they and the leaving slice are read first; a slice that
//!   is not read yet proves nothing.
//! * At the latest after [`MOST_WAIT`], unless the replacing slices hold no ready endpoint: a selector that matches no pod,
//!   or no pod that works, must not empty a Service. Then the leaving one stays until they hold some, and users are told.
//!
//! The deadline belongs to the slice: a grant of the writer that comes before it deletes nothing.
//!
//! Events only note the Services whose slices have changed. The next plan looks at these, slice by slice within its budget.

mod replacement;

pub(super) use self::replacement::Ready;

use self::replacement::{Leaving, Next, Replacement, Replacing, Scan};
use super::Placement;
use super::rounds::STRIDE;
use super::services::Pass;
use crate::core::compact::small::SmallSet;
use crate::core::events::Source;
use crate::core::facts::{Manager, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::ids::{MirroredSliceId, ServiceId, SliceId};
use crate::core::object::{Phase, RequestKind};
use crate::core::slices::Slice;
use crate::core::work::TurnBudget;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The time for which a slice waits at most for others that take its place.
pub(super) const MOST_WAIT: Duration = Duration::from_secs(10);

/// The slices that give way to others, and those that replace them, by the name of their Service.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacements {
    by_service: KeyedMap<Arc<str>, Replacement>,
    /// When to look at them again. May name Services whose slices do not wait any more.
    deadlines: BTreeSet<(Duration, Arc<str>)>,
    /// The Services with slices that have changed since the last plan. May name some whose slices do not wait any more.
    changed: BTreeSet<Arc<str>>,
    /// The news for mirrors, in the order in which it happened.
    released: Vec<Released>,
}

/// The events of mirrored slices that give way to others, or have done so.
#[derive(Clone, Debug)]
pub(super) enum MirrorWaits {
    /// A slice gives way, until then at the latest.
    Enter {
        /// Its Service.
        service: Arc<str>,
        /// The slice.
        id: MirroredSliceId,
        /// The end of the wait.
        until: Duration,
    },
    /// A slice waits no longer.
    Leave(Arc<str>, MirroredSliceId),
    /// The content of a slice that waits was read, or is not known any more.
    Learn(Arc<str>, MirroredSliceId, Option<Ready>),
    /// A request of a slice that waits was answered, so that it may have to be read now.
    Answered(Arc<str>, MirroredSliceId),
    /// All slices of the Service that wait are to be looked at.
    Look(Arc<str>),
    /// All mirrored slices are forgotten.
    ForgetAll,
}

/// The decision about a mirrored slice that waits for others, which the owner of mirrors carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Released {
    /// It is let go: it is to be deleted.
    Goes(MirroredSliceId),
    /// It is to be read, so that it can be compared with those that take its place.
    IsRead(MirroredSliceId),
}

impl Replacements {
    /// Adds a slice that gives way to others, until then at the latest.
    fn enter(&mut self, service: &Arc<str>, leaving: Leaving, until: Duration) {
        self.by_service
            .entry(service.clone())
            .or_default()
            .enter(leaving, until);
        self.deadlines.insert((until, service.clone()));
        self.changed.insert(service.clone());
    }

    /// Ends the wait of a slice.
    fn leave(&mut self, service: &str, leaving: Leaving) {
        if let Some(replacement) = self.change(service) {
            replacement.leave(leaving);
            if replacement.is_empty() {
                self.by_service.remove(service);
            }
        }
    }

    /// Returns what is known of the slices of a Service that give way, to be changed, and makes the next plan look at them.
    fn change(&mut self, service: &str) -> Option<&mut Replacement> {
        let (name, _) = self.by_service.get_key_value(service)?;
        if !self.changed.contains(service) {
            self.changed.insert(name.clone());
        }
        self.by_service.get_mut(service)
    }

    /// Has the next plan look at the slices of a Service that give way.
    pub(super) fn check(&mut self, service: &str) {
        let _ = self.change(service);
    }

    /// Returns whether the next plan has anything to do here.
    pub(super) fn has_to_plan(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns whether there are decisions about mirrored slices that wait for others.
    pub(super) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes the decisions about mirrored slices that wait for others.
    pub(super) fn take_released(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.released)
    }

    /// Returns when slices that give way are to be looked at again.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Forgets the slices that were published for annotations, and those that take the place of others. Returns how many
    /// Services and slices were looked at.
    pub(super) fn forget_slices(&mut self) -> u64 {
        let mut looked_at = self.by_service.len() as u64;
        for replacement in self.by_service.values_mut() {
            looked_at += replacement.forget_slices();
        }
        self.by_service.retain(|_, replacement| !replacement.is_empty());
        looked_at
    }

    /// Does what [`Self::forget_slices`] does, for one Service.
    pub(super) fn forget_slices_of(&mut self, service: &str) {
        if let Some(replacement) = self.by_service.get_mut(service) {
            replacement.forget_slices();
            if replacement.is_empty() {
                self.by_service.remove(service);
            }
        }
    }

    /// Forgets the slices that mirror Endpoints. Returns how many Services and slices were looked at.
    fn forget_mirrored(&mut self) -> u64 {
        let mut looked_at = self.by_service.len() as u64;
        for replacement in self.by_service.values_mut() {
            looked_at += replacement.leave_all(|leaving| matches!(leaving, Leaving::Mirrored(_)));
        }
        self.by_service.retain(|_, replacement| !replacement.is_empty());
        looked_at
    }
}

impl Placement<'_> {
    /// Takes in the news of mirrored slices that give way to others.
    pub(super) fn hear(&mut self, waits: MirrorWaits) {
        match waits {
            MirrorWaits::Enter { service, id, until } => {
                self.replacements.enter(&service, Leaving::Mirrored(id), until);
            }
            MirrorWaits::Leave(service, id) => self.replacements.leave(&service, Leaving::Mirrored(id)),
            MirrorWaits::Learn(service, id, held) => {
                if let Some(replacement) = self.replacements.change(&service) {
                    replacement.learn(Leaving::Mirrored(id), held);
                }
            }
            MirrorWaits::Answered(service, id) => {
                if let Some(replacement) = self.replacements.change(&service) {
                    replacement.ask_again(Leaving::Mirrored(id));
                }
            }
            MirrorWaits::Look(service) => self.check_replacement(&service),
            MirrorWaits::ForgetAll => {
                let looked_at = self.replacements.forget_mirrored();
                self.ctx.count_read(looked_at);
            }
        }
    }

    /// Makes the next plan look at the slices of one Service that give way, if their time has come. Returns false if there are
    /// none.
    pub(super) fn look_at_leaving(&mut self, now: Duration) -> bool {
        self.ctx.advance(now);
        let deadlines = &mut self.replacements.deadlines;
        if deadlines.first().is_none_or(|(until, _)| *until > now) {
            return false;
        }
        if let Some((_, service)) = deadlines.pop_first() {
            self.check_replacement(&service);
        }
        true
    }

    /// Returns whether a slice was published for an annotation of the Service that no longer counts.
    pub(super) fn is_abandoned(&self, slice: &Slice, facts: &ServiceFacts) -> bool {
        slice.manager == Manager::Custom && self.ctx.settings.outputs.custom && !facts.custom
    }

    /// Returns whether slices for a selector are published for a Service, by this process or another.
    fn is_selected(&self, service: &str) -> bool {
        let facts = self.services.find(service).map(|id| &self.services[id].facts);
        facts.is_some_and(|facts| !facts.selectorless && !facts.external && !facts.custom)
    }

    /// Deletes a slice that was published for an annotation that no longer counts. If the Service has a selector now, it
    /// gives way to slices for that.
    pub(super) fn withdraw_slice(&mut self, id: SliceId) {
        if self.slices[id].object.phase == Phase::Deleting {
            return;
        }
        let name = self.slices[id].service_name.clone();
        let waits = self.is_selected(&name);
        let slice = &mut self.slices[id];
        slice.object.phase = Phase::Deleting;
        slice.service = ServiceId::NONE;
        slice.object.gives_way = waits;
        slice.object.change_by(1);
        self.slices.want(id);
        if waits {
            self.replacements
                .enter(&name, Leaving::Custom(id), self.ctx.now + MOST_WAIT);
        }
    }

    /// Withdraws the slices of a Service whose annotation no longer counts, but leaves the visits to them to
    /// [`Self::step_passes`].
    pub(super) fn withdraw_abandoned(&mut self, service: ServiceId) {
        let facts = &self.services[service].facts;
        let name = facts.name.clone();
        if self.ctx.settings.outputs.custom && !facts.custom && self.slices.unmanaged_set(&name).is_some() {
            self.services.queue(Pass::Withdraw(service, SliceId::NONE));
        }
        self.check_replacement(&name);
    }

    /// Continues to withdraw slices, from those before this one. Returns the last one that was visited, if there are more, and the
    /// number of those visited.
    pub(super) fn withdraw_more(&mut self, service: ServiceId, before: SliceId) -> (Option<SliceId>, usize) {
        let Some(state) = self.services.get(service) else {
            return (None, 0);
        };
        let some = next_before(self.slices.unmanaged_set(&state.facts.name), before);
        for id in &some {
            let (slice, facts) = (&self.slices[*id], &self.services[service].facts);
            if slice.object.phase == Phase::Unmanaged && self.is_abandoned(slice, facts) {
                self.withdraw_slice(*id);
            }
        }
        (some.get(STRIDE - 1).copied(), some.len())
    }

    /// Ends the wait of a slice that is needed again, or gone.
    pub(super) fn stop_waiting(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        if std::mem::take(&mut slice.object.gives_way) {
            self.replacements.leave(&slice.service_name, Leaving::Custom(id));
        }
    }

    /// Returns the state of the slices that take the place of those of a Service that give way.
    fn replacing(&self, name: &str, replacement: &Replacement) -> Replacing {
        let service = self.services.find(name).map(|id| &self.services[id]);
        let ours = service.filter(|service| {
            self.ctx.settings.outputs.slices && service.facts.is_managed() && !service.facts.custom
        });
        let Some(service) = ours else {
            return replacement.others();
        };
        let (settled, hold) = replacement.ours();
        let mut families = service.families.iter().flatten();
        let complete = settled
            && !service.dirty
            && service.awaiting == 0
            && !self.ctx.pending_lists.any()
            && families.any(|family| family.managed > 0);
        Replacing::Ours { complete, hold }
    }

    /// Makes the next plan look at the slices of a Service that give way, so that those are let go that were replaced or whose time
    /// has come.
    pub(super) fn check_replacement(&mut self, name: &str) {
        self.replacements.check(name);
    }

    /// Notes the slices that may be due: they may have changed in a way that matters to slices that wait for them.
    pub(super) fn note_wanted(&mut self) {
        if self.replacements.by_service.is_empty() {
            return;
        }
        for id in self.slices.wanted() {
            if let Some(slice) = self.slices.get(id)
                && let Some(replacement) = self.replacements.change(&slice.service_name)
            {
                replacement.touched.insert(id);
            }
        }
    }

    /// Notes that a slice may have changed in a way that matters to slices that wait for it, since its turn has come.
    pub(super) fn note_turn(&mut self, slice: &str) {
        if self.replacements.by_service.is_empty() {
            return;
        }
        if let Some(id) = self.slices.find(slice)
            && let Some(replacement) = self.replacements.change(&self.slices[id].service_name)
        {
            replacement.touched.insert(id);
            replacement.ask_again(Leaving::Custom(id));
        }
    }

    /// Looks at the slices that give way, and at those that take their place, of the Services whose slices have changed, until the
    /// budget is spent. Returns true when nothing is left.
    pub(super) fn step_replacements(&mut self, budget: &mut TurnBudget) -> bool {
        while let Some(name) = self.replacements.changed.first().cloned() {
            if budget.is_spent() {
                return false;
            }
            let before = self.ctx.work.total();
            self.ctx.work.slices_touched += 1;
            if self.step_replacement(&name) {
                self.replacements.changed.remove(&name);
            }
            budget.spend(self.ctx.work.total() - before);
        }
        true
    }

    /// Does one step for the slices of a Service. Returns true if there was nothing to be done.
    fn step_replacement(&mut self, name: &Arc<str>) -> bool {
        let selected = self.is_selected(name);
        let Some(replacement) = self.replacements.by_service.get_mut(name) else {
            return true;
        };
        if let Some(leaving) = replacement.first_custom().filter(|_| !selected) {
            self.replacements.leave(name, leaving);
            self.let_go(leaving);
            return false;
        }
        if let Some(id) = replacement.touched.pop_first() {
            self.look_at_replacing(name, id);
            return false;
        }
        let (scan, service) = (replacement.scan, self.services.find(name));
        if let Scan::Unmanaged(before) | Scan::Ours(before) = scan {
            let ours = service.map(|id| &self.services[id].slices);
            let (slices, next): (_, fn(SliceId) -> Scan) = match scan {
                Scan::Unmanaged(_) => (self.slices.unmanaged_set(name), Scan::Unmanaged),
                _ => (ours, Scan::Ours),
            };
            let some = next_before(slices, before);
            replacement.scan = match (some.get(STRIDE - 1), scan) {
                (Some(last), _) => next(*last),
                (None, Scan::Unmanaged(_)) => Scan::Ours(SliceId::NONE),
                (None, _) => Scan::Done,
            };
            replacement.touched.extend(some);
            return false;
        }
        let Some(replacement) = self.replacements.by_service.get(name) else {
            return true;
        };
        let replacing = self.replacing(name, replacement);
        let Some(replacement) = self.replacements.by_service.get_mut(name) else {
            return true;
        };
        match replacement.next(replacing, self.ctx.now, &mut self.ctx.work) {
            Next::Goes(leaving) => {
                self.replacements.leave(name, leaving);
                self.let_go(leaving);
                false
            }
            Next::Reads(leaving) => {
                self.read_leaving(leaving);
                false
            }
            Next::Stays => false,
            Next::Done(kept) => {
                if let Some(leaving) = kept.filter(|_| !std::mem::replace(&mut replacement.told, true)) {
                    let (source, which) = match leaving {
                        Leaving::Custom(_) => (
                            Source::Custom,
                            "published for an annotation that no longer counts",
                        ),
                        Leaving::Mirrored(_) => (Source::Mirroring, "that mirror Endpoints"),
                    };
                    let unwritten = matches!(replacing, Replacing::Ours { complete: false, .. });
                    self.notify_kept(name, source, which, unwritten);
                }
                true
            }
        }
    }

    /// Updates what is known of a slice that may take the place of those of its Service that give way.
    fn look_at_replacing(&mut self, name: &str, id: SliceId) {
        let Some(replacement) = self.replacements.by_service.get_mut(name) else {
            return;
        };
        let Some(slice) = self.slices.get(id).filter(|slice| *slice.service_name == *name) else {
            return replacement.forget(id);
        };
        let object = &slice.object;
        match object.phase {
            Phase::Managed | Phase::Adopting { .. } => {
                let managed = object.phase == Phase::Managed;
                let writes = matches!(object.flight, Some(RequestKind::Create | RequestKind::Update));
                let settled = managed
                    && !object.needs_refetch
                    && !writes
                    && !slice.differs()
                    && slice.remainders().is_empty();
                let holds = managed && object.remote.is_some() && !writes && {
                    let mut slots = slice.slots.iter();
                    let ready = slots.position(|slot| slot.published.ready());
                    let looked_at = ready.map_or(slice.slots.len(), |at| at + 1);
                    self.ctx.work.endpoints_visited += looked_at as u64;
                    ready.is_some()
                };
                replacement.forget_other(id);
                replacement.note_ours(id, settled, holds);
            }
            Phase::Unmanaged if slice.manager == Manager::Builtin && object.remote.is_some() => {
                replacement.forget_ours(id);
                if replacement.note_other(id) && object.flight.is_none() && !object.needs_refetch {
                    self.slices[id].object.needs_refetch = true;
                    self.slices.want(id);
                }
            }
            _ => replacement.forget(id),
        }
    }

    /// Has a slice of another controller read, if its content matters to slices that give way, and is not known.
    pub(super) fn learn_content(&mut self, id: SliceId) {
        let slice = &self.slices[id];
        let replacement = self.replacements.change(&slice.service_name);
        let counts = slice.manager == Manager::Builtin
            && slice.object.phase == Phase::Unmanaged
            && slice.object.remote.is_some();
        if replacement.is_some_and(|replacement| counts && replacement.note_other(id)) {
            self.slices[id].object.needs_refetch = true;
            self.slices.want(id);
        }
    }

    /// Handles the content of a slice of another controller, or of one that gives way to others.
    pub(super) fn learned_content(&mut self, id: SliceId, facts: &SliceFacts) {
        self.hold_content(id, facts);
        if let Some(slice) = self.slices.get_mut(id)
            && (slice.object.gives_way || slice.object.phase == Phase::Unmanaged)
        {
            slice.object.needs_refetch = false;
            let name = slice.service_name.clone();
            self.check_replacement(&name);
        }
    }

    /// Lets the slices go that were published for the annotation of a Service that is gone: the slices of a Service that is created
    /// again under its name do not replace them. Returns false if there are none.
    pub(super) fn let_some_go(&mut self, service: ServiceId) -> bool {
        let name = self.services[service].facts.name.clone();
        for _ in 0..STRIDE {
            let replacement = self.replacements.change(&name);
            let Some(leaving) = replacement.and_then(|replacement| replacement.first_custom()) else {
                return false;
            };
            self.ctx.work.slices_touched += 1;
            self.replacements.leave(&name, leaving);
            self.let_go(leaving);
        }
        true
    }

    /// Lets a slice go that no longer waits for others: it is to be deleted.
    fn let_go(&mut self, leaving: Leaving) {
        match leaving {
            Leaving::Custom(id) => {
                self.slices[id].object.let_go();
                self.slices.want(id);
            }
            Leaving::Mirrored(id) => self.replacements.released.push(Released::Goes(id)),
        }
    }

    /// Makes a slice due to be read, so that it can be compared with those that take its place.
    fn read_leaving(&mut self, leaving: Leaving) {
        match leaving {
            Leaving::Custom(id) => {
                if self.slices[id].object.mark_unread() {
                    self.slices.want(id);
                }
            }
            Leaving::Mirrored(id) => self.replacements.released.push(Released::IsRead(id)),
        }
    }

    /// Keeps the content of a slice that was read, if slices of its Service give way.
    pub(super) fn hold_content(&mut self, id: SliceId, facts: &SliceFacts) {
        let slice = &self.slices[id];
        let Some(replacement) = self.replacements.change(&slice.service_name) else {
            return;
        };
        let other = slice.manager == Manager::Builtin && slice.object.phase == Phase::Unmanaged;
        if slice.object.gives_way || other {
            let held = Ready::of(facts);
            self.ctx.work.addresses_visited += facts.endpoints.len() as u64 + held.units();
            if slice.object.gives_way {
                replacement.learn(Leaving::Custom(id), Some(held));
            } else {
                replacement.learn_other(id, held);
            }
        }
    }

    /// Forgets the content of a slice that has changed or is gone.
    pub(super) fn drop_content(&mut self, id: SliceId) {
        let slice = &self.slices[id];
        if let Some(replacement) = self.replacements.change(&slice.service_name) {
            if slice.object.gives_way {
                replacement.learn(Leaving::Custom(id), None);
            } else {
                replacement.forget(id);
            }
        }
    }
}

/// Returns the last slices of a set before this one, in descending order.
fn next_before(set: Option<&SmallSet<SliceId>>, before: SliceId) -> Vec<SliceId> {
    let slices = set.into_iter().flat_map(|set| set.down_from(..=before));
    slices.filter(|id| *id < before).take(STRIDE).collect()
}
