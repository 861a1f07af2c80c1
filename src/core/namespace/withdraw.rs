//! Slices that give way: those published for an annotation that no longer counts, and those that mirror the Endpoints of a
//! Service that has a selector now. Clients read all slices of a Service, so an old one goes only when others have
//! taken its place:
//!
//! * Where this process writes the others, when all of these are written and hold endpoints.
//! * Where another controller writes them, when they hold its addresses, or as many addresses as all old ones did. They are
//!   watched as metadata only, so they and the old slice are read first; what is not read yet proves nothing.
//! * At the latest after [`MOST_WAIT`], unless the others are there and hold no endpoints: a selector that matches nothing
//!   must not empty a Service. Then it stays until they hold some, and people are told.
//!
//! The time belongs to the slice. A turn in the write queue that comes earlier finds nothing to be deleted.

use super::Placement;
use crate::core::address::{Family, parse_sloppy};
use crate::core::events::Source;
use crate::core::facts::{Manager, ServiceFacts, SliceFacts};
use crate::core::hash::KeyedMap;
use crate::core::ids::{MirroredSliceId, ServiceId, SliceId};
use crate::core::object::{Flight, ObjectState, Phase};
use crate::core::slices::Slice;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The time for which a slice waits at most for others that take its place.
pub(super) const MOST_WAIT: Duration = Duration::from_secs(10);

/// A slice that gives way to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Leaving {
    /// One that was published for an annotation.
    Custom(SliceId),
    /// One that mirrors Endpoints.
    Mirrored(MirroredSliceId),
}

/// The slices that give way to others, by the name of their Service.
#[derive(Clone, Debug, Default)]
pub(super) struct Replacements {
    by_service: KeyedMap<Arc<str>, Replacement>,
    /// When to look at them again. May name Services whose slices do not wait any more.
    deadlines: BTreeSet<(Duration, Arc<str>)>,
    /// What mirrors have to know, in the order in which it happened.
    released: Vec<Released>,
}

/// What mirrored slices do that give way to others, or have done so.
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
    Learn(Arc<str>, MirroredSliceId, Option<Box<[IpAddr]>>),
    /// Those slices of the Service are to be looked at that have begun to wait, or were read.
    LookAtFresh(Arc<str>),
    /// All slices of the Service that wait are to be looked at.
    LookAtAll(Arc<str>),
    /// All mirrored slices are forgotten.
    ForgetAll,
}

/// What becomes of a mirrored slice that waits for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Released {
    /// It goes.
    Goes(MirroredSliceId),
    /// It is read, so that it can be compared with those that take its place.
    IsRead(MirroredSliceId),
}

/// The slices of one Service that give way, and what is known of those that take their place.
#[derive(Clone, Debug, Default)]
struct Replacement {
    leaving: BTreeMap<Leaving, Waiting>,
    /// Those that have begun to wait, or were read, since they were last looked at.
    fresh: Vec<Leaving>,
    /// The number of them that have not been read.
    unread: usize,
    /// The addresses in them.
    left: Addresses,
    /// By family: the most addresses that were in them at once.
    most: [usize; 2],
    /// The content of slices of other controllers, as far as it was read.
    others: BTreeMap<SliceId, Box<[IpAddr]>>,
    /// The addresses in those.
    there: Addresses,
    /// True if people were told that slices stay.
    told: bool,
}

/// A slice that waits for others.
#[derive(Clone, Debug)]
struct Waiting {
    until: Duration,
    /// Its addresses, if it was read.
    held: Option<Box<[IpAddr]>>,
    /// The index of an address that was missing in the others when they were last compared.
    missing: usize,
}

/// Addresses of several slices.
#[derive(Clone, Debug, Default)]
struct Addresses {
    counts: KeyedMap<IpAddr, u32>,
    /// The number of distinct ones, by family.
    distinct: [usize; 2],
}

impl Addresses {
    fn add(&mut self, held: &[IpAddr]) {
        for ip in held {
            let count = self.counts.entry(*ip).or_default();
            *count += 1;
            self.distinct[Family::of(*ip).index()] += usize::from(*count == 1);
        }
    }

    fn remove(&mut self, held: &[IpAddr]) {
        for ip in held {
            if let Some(count) = self.counts.get_mut(ip) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(ip);
                    self.distinct[Family::of(*ip).index()] -= 1;
                }
            }
        }
    }
}

/// Returns the addresses of a slice, each once.
pub(super) fn addresses(facts: &SliceFacts) -> Box<[IpAddr]> {
    let all = facts.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
    let mut all: Vec<IpAddr> = all.filter_map(|address| parse_sloppy(address)).collect();
    all.sort_unstable();
    all.dedup();
    all.into()
}

/// The slices that are to take the place of those that give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Replacing {
    /// There are none.
    Nothing,
    /// This process writes them.
    Ours {
        /// All of them are as they should be.
        complete: bool,
        /// They hold endpoints.
        hold: bool,
    },
    /// Another controller writes them.
    Others {
        /// Some have yet to be read.
        unread: bool,
        /// Some are known to hold endpoints.
        hold: bool,
    },
}

impl Replacement {
    fn enter(&mut self, leaving: Leaving, until: Duration) {
        self.leaving.entry(leaving).or_insert_with(|| {
            self.unread += 1;
            Waiting {
                until,
                held: None,
                missing: 0,
            }
        });
        self.fresh.push(leaving);
    }

    fn leave(&mut self, leaving: Leaving) {
        if let Some(waiting) = self.leaving.remove(&leaving) {
            match waiting.held {
                Some(held) => self.left.remove(&held),
                None => self.unread -= 1,
            }
        }
    }

    /// Takes in the content of a slice that gives way, or forgets it.
    fn learn(&mut self, leaving: Leaving, held: Option<Box<[IpAddr]>>) {
        let Some(waiting) = self.leaving.get_mut(&leaving) else {
            return;
        };
        match &waiting.held {
            Some(old) => self.left.remove(old),
            None => self.unread -= 1,
        }
        match &held {
            Some(new) => self.left.add(new),
            None => self.unread += 1,
        }
        (waiting.held, waiting.missing) = (held, 0);
        for (most, now) in self.most.iter_mut().zip(self.left.distinct) {
            *most = (*most).max(now);
        }
        self.fresh.push(leaving);
    }

    /// Takes in the content of a slice of another controller, or forgets it.
    fn learn_other(&mut self, id: SliceId, held: Option<Box<[IpAddr]>>) {
        if let Some(old) = self.others.remove(&id) {
            self.there.remove(&old);
        }
        if let Some(held) = held {
            self.there.add(&held);
            self.others.insert(id, held);
        }
    }

    /// Returns whether the slices of other controllers hold the addresses of a slice, or as many as all that give way.
    /// `work` counts the comparisons.
    fn is_covered(&mut self, leaving: Leaving, work: &mut u64) -> bool {
        let Some(waiting) = self.leaving.get_mut(&leaving) else {
            return true;
        };
        let Some(held) = &waiting.held else {
            return false;
        };
        let there = |at: &usize| {
            *work += 1;
            self.there.counts.contains_key(&held[*at])
        };
        // Where one was missing, the comparison goes on there. All are compared once more before it counts.
        let order = (waiting.missing..held.len()).chain(0..waiting.missing);
        let mut order = order.skip_while(there);
        let Some(missing) = order.next() else {
            return true;
        };
        waiting.missing = missing;
        // They are sorted, so the first and the last show the families.
        let family = |ip: &IpAddr| Family::of(*ip).index();
        let (first, last) = (held.first().map(family), held.last().map(family));
        let as_many = |family: usize| self.there.distinct[family] >= self.most[family];
        self.unread == 0 && first.into_iter().chain(last).all(as_many)
    }

    /// Returns whether a slice goes now. `None` if it stays though its time has come.
    fn goes(
        &mut self,
        leaving: Leaving,
        replacing: Replacing,
        now: Duration,
        work: &mut u64,
    ) -> Option<bool> {
        let Some(waiting) = self.leaving.get(&leaving) else {
            return Some(false);
        };
        let expired = now >= waiting.until;
        let is_empty = waiting.held.as_ref().is_some_and(|held| held.is_empty());
        match replacing {
            Replacing::Nothing => Some(expired),
            Replacing::Ours { complete: true, hold } => {
                (hold || is_empty || !expired).then_some(hold || is_empty)
            }
            Replacing::Ours { hold, .. } => Some(expired && hold),
            Replacing::Others { unread, hold } => {
                let goes = self.is_covered(leaving, work) || (expired && hold);
                (goes || !expired || unread).then_some(goes)
            }
        }
    }
}

impl Replacements {
    /// Returns when to look at slices that give way next.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Takes what becomes of mirrored slices.
    pub(super) fn take_released(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.released)
    }

    /// Takes in the content of a mirrored slice that gives way, or forgets it.
    pub(super) fn learn_mirrored(&mut self, service: &str, id: MirroredSliceId, held: Option<Box<[IpAddr]>>) {
        if let Some(replacement) = self.by_service.get_mut(service) {
            replacement.learn(Leaving::Mirrored(id), held);
        }
    }

    /// Has a slice give way to others, until then at the latest.
    pub(super) fn enter(&mut self, service: &Arc<str>, leaving: Leaving, until: Duration) {
        self.by_service
            .entry(service.clone())
            .or_default()
            .enter(leaving, until);
        self.deadlines.insert((until, service.clone()));
    }

    /// Ends the wait of a slice.
    pub(super) fn leave(&mut self, service: &str, leaving: Leaving) {
        if let Some(replacement) = self.by_service.get_mut(service) {
            replacement.leave(leaving);
            if replacement.leaving.is_empty() {
                self.by_service.remove(service);
            }
        }
    }

    /// Returns whether the content of another controller's slice matters to slices that give way, and is not known.
    pub(super) fn wants(&self, service: &str, other: SliceId) -> bool {
        let replacement = self.by_service.get(service);
        replacement.is_some_and(|replacement| !replacement.others.contains_key(&other))
    }

    /// Returns whether slices of a Service give way.
    pub(super) fn has(&self, service: &str) -> bool {
        self.by_service.contains_key(service)
    }

    /// Forgets the slices that were published for annotations, and those of other controllers.
    pub(super) fn forget_slices(&mut self) {
        for replacement in self.by_service.values_mut() {
            replacement.forget_slices();
        }
        self.by_service
            .retain(|_, replacement| !replacement.leaving.is_empty());
    }

    /// Does what [`Self::forget_slices`] does, for one Service.
    pub(super) fn forget_slices_of(&mut self, service: &str) {
        if let Some(replacement) = self.by_service.get_mut(service) {
            replacement.forget_slices();
            if replacement.leaving.is_empty() {
                self.by_service.remove(service);
            }
        }
    }

    /// Forgets the slices that mirror Endpoints.
    pub(super) fn forget_mirrored(&mut self) {
        for replacement in self.by_service.values_mut() {
            replacement.leave_all(|leaving| matches!(leaving, Leaving::Mirrored(_)));
        }
        self.by_service
            .retain(|_, replacement| !replacement.leaving.is_empty());
    }
}

impl Replacement {
    fn forget_slices(&mut self) {
        self.leave_all(|leaving| matches!(leaving, Leaving::Custom(_)));
        (self.others, self.there) = (BTreeMap::new(), Addresses::default());
    }

    fn leave_all(&mut self, of: impl Fn(&Leaving) -> bool) {
        let all: Vec<_> = self.leaving.keys().copied().filter(of).collect();
        for leaving in all {
            self.leave(leaving);
        }
    }
}

impl Placement<'_> {
    /// Takes in what mirrored slices do that give way to others.
    pub(super) fn hear(&mut self, waits: MirrorWaits) {
        match waits {
            MirrorWaits::Enter { service, id, until } => {
                self.replacements.enter(&service, Leaving::Mirrored(id), until);
            }
            MirrorWaits::Leave(service, id) => self.replacements.leave(&service, Leaving::Mirrored(id)),
            MirrorWaits::Learn(service, id, held) => self.replacements.learn_mirrored(&service, id, held),
            MirrorWaits::LookAtFresh(service) => self.check_leaving(&service),
            MirrorWaits::LookAtAll(service) => self.check_replacement(&service),
            MirrorWaits::ForgetAll => self.replacements.forget_mirrored(),
        }
    }

    /// Looks at the slices of one Service that give way, if their time has come. Returns false if there are none.
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
            self.check_leaving(&name);
        }
    }

    /// Withdraws the slices of a Service whose annotation no longer counts.
    pub(super) fn withdraw_abandoned(&mut self, service: ServiceId) {
        let facts = &self.services[service].facts;
        let name = facts.name.clone();
        let abandoned = |id: &SliceId| {
            let slice = &self.slices[*id];
            slice.object.phase == Phase::Unmanaged && self.is_abandoned(slice, facts)
        };
        let abandoned: Vec<_> = self.slices.unmanaged_of(&name).filter(abandoned).collect();
        for id in abandoned {
            self.withdraw_slice(id);
        }
        self.check_replacement(&name);
    }

    /// Ends the wait of a slice that is needed again, or gone.
    pub(super) fn stop_waiting(&mut self, id: SliceId) {
        let slice = &mut self.slices[id];
        if std::mem::take(&mut slice.object.gives_way) {
            self.replacements.leave(&slice.service_name, Leaving::Custom(id));
        }
    }

    /// Returns what takes the place of slices that give way.
    fn replacing(&self, name: &str, replacement: &Replacement) -> Replacing {
        let service = self.services.find(name).map(|id| &self.services[id]);
        if let Some(service) = service.filter(|service| {
            self.ctx.settings.outputs.slices && service.facts.is_managed() && !service.facts.custom
        }) {
            let slices = || service.slices.iter().map(|id| &self.slices[id]);
            let managed = |slice: &&Slice| slice.object.phase == Phase::Managed;
            let writes =
                |object: &ObjectState| matches!(object.flight, Some(Flight::Create | Flight::Update));
            let settled = |slice: &Slice| {
                let object = &slice.object;
                let known = !object.needs_refetch && !writes(object) && !slice.differs();
                known && !matches!(object.phase, Phase::Adopting { .. })
            };
            let complete = !service.dirty
                && service.awaiting == 0
                && !self.ctx.pending_lists.any()
                && slices().filter(managed).count() > 0
                && slices().all(|slice| slice.object.phase == Phase::Deleting || settled(slice));
            let holds = |slice: &Slice| {
                let mut slots = slice.slots.iter();
                slice.object.remote.is_some()
                    && !writes(&slice.object)
                    && slots.any(|slot| slot.published.is_published())
            };
            let hold = slices().filter(managed).any(holds);
            return Replacing::Ours { complete, hold };
        }
        let others = self.slices.unmanaged_of(name);
        let others = others.filter(|id| {
            let slice = &self.slices[*id];
            slice.manager == Manager::Builtin && slice.object.remote.is_some()
        });
        let (mut any, mut unread, mut hold) = (false, false, false);
        for id in others {
            any = true;
            match replacement.others.get(&id) {
                Some(held) => hold |= !held.is_empty(),
                None => unread = true,
            }
        }
        if any {
            Replacing::Others { unread, hold }
        } else {
            Replacing::Nothing
        }
    }

    /// Lets the slices of a Service go that others have taken the place of, or whose time has come.
    pub(super) fn check_replacement(&mut self, name: &str) {
        if let Some(replacement) = self.replacements.by_service.get_mut(name) {
            replacement.fresh = replacement.leaving.keys().copied().collect();
            self.check_leaving(name);
        }
    }

    /// Does what [`Self::check_replacement`] does, for those slices of a Service that have begun to give way, or were read.
    pub(super) fn check_leaving(&mut self, name: &str) {
        let Some((name, mut replacement)) = self.replacements.by_service.remove_entry(name) else {
            return;
        };
        let replacing = self.replacing(&name, &replacement);
        let selected = self.is_selected(&name);
        // An old slice that is empty goes though the others hold nothing. Mirrored ones are never empty.
        let reads = |leaving: Leaving| match replacing {
            Replacing::Others { .. } => true,
            Replacing::Ours { complete, hold } => complete && !hold && matches!(leaving, Leaving::Custom(_)),
            Replacing::Nothing => false,
        };
        let (mut going, mut unread, mut kept) = (Vec::new(), Vec::new(), None);
        for leaving in std::mem::take(&mut replacement.fresh) {
            let unselected = matches!(leaving, Leaving::Custom(_)) && !selected;
            self.ctx.work.slices_touched += 1;
            let work = &mut self.ctx.work.addresses_visited;
            let goes = replacement.goes(leaving, replacing, self.ctx.now, work);
            if goes.is_none() && !unselected {
                kept = Some(leaving);
            }
            let goes = goes == Some(true) || unselected;
            match replacement.leaving.get(&leaving) {
                Some(_) if goes => {
                    replacement.leave(leaving);
                    going.push(leaving);
                }
                Some(waiting) if reads(leaving) && waiting.held.is_none() => unread.push(leaving),
                _ => {}
            }
        }
        let tells = kept.filter(|_| !std::mem::replace(&mut replacement.told, true));
        if !replacement.leaving.is_empty() {
            self.replacements.by_service.insert(name.clone(), replacement);
        }
        for leaving in going {
            self.let_go(leaving);
        }
        for leaving in unread {
            self.read_leaving(leaving);
        }
        if let Some(leaving) = tells {
            let (source, which) = match leaving {
                Leaving::Custom(_) => (
                    Source::Custom,
                    "published for an annotation that no longer counts",
                ),
                Leaving::Mirrored(_) => (Source::Mirroring, "that mirror Endpoints"),
            };
            self.notify_kept(&name, source, which);
        }
        let others: Vec<_> = self.slices.unmanaged_of(&name).collect();
        for other in others {
            if self.replacements.wants(&name, other) {
                self.learn_content(other);
            }
        }
    }

    /// Has a slice deleted that no longer waits for others.
    fn let_go(&mut self, leaving: Leaving) {
        match leaving {
            Leaving::Custom(id) => {
                self.slices[id].object.let_go();
                self.slices.want(id);
            }
            Leaving::Mirrored(id) => self.replacements.released.push(Released::Goes(id)),
        }
    }

    /// Has a slice read, so that it can be compared with those that take its place.
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
        let Some(replacement) = self.replacements.by_service.get_mut(&slice.service_name) else {
            return;
        };
        self.ctx.work.addresses_visited += facts.endpoints.len() as u64;
        if slice.object.gives_way {
            replacement.learn(Leaving::Custom(id), Some(addresses(facts)));
        } else if slice.manager == Manager::Builtin && slice.object.phase == Phase::Unmanaged {
            replacement.learn_other(id, Some(addresses(facts)));
        }
    }

    /// Forgets the content of a slice that has changed or is gone.
    pub(super) fn drop_content(&mut self, id: SliceId) {
        let slice = &self.slices[id];
        if let Some(replacement) = self.replacements.by_service.get_mut(&slice.service_name) {
            if slice.object.gives_way {
                replacement.learn(Leaving::Custom(id), None);
            } else {
                replacement.learn_other(id, None);
            }
        }
    }

    /// Returns the Service of a slice, if others wait for that one.
    pub(super) fn service_to_give_way_to(&self, slice: &str) -> Option<Arc<str>> {
        if self.replacements.by_service.is_empty() {
            return None;
        }
        let service = &self.slices[self.slices.find(slice)?].service_name;
        self.replacements.has(service).then(|| service.clone())
    }
}
