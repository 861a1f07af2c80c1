//! The slices of one Service that give way, and what is known of those that take their place.
//!
//! There may be tens of thousands of either, so nothing here looks at all of them: each slice that comes, is read, changes or
//! is removed moves some counts and some entries of sorted sets, and [`Replacement::next`] finds one slice at a time for which
//! there is a step to take.

use crate::core::address::{Family, parse_sloppy};
use crate::core::facts::SliceFacts;
use crate::core::hash::KeyedMap;
use crate::core::ids::{MirroredSliceId, SliceId};
use crate::core::work::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// A slice that gives way to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Leaving {
    /// A slice that was published for an annotation.
    Custom(SliceId),
    /// A slice that mirrors Endpoints.
    Mirrored(MirroredSliceId),
}

/// The ready endpoints of a slice. Those that are not ready carry no traffic, and so do not replace others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::core::namespace) struct Ready {
    /// Their IP addresses, sorted, each once.
    ips: Box<[IpAddr]>,
    /// True if there are any, with IP addresses or with others, such as names.
    any: bool,
}

impl Ready {
    pub(in crate::core::namespace) fn of(facts: &SliceFacts) -> Self {
        // Clients take an endpoint without the condition for ready.
        let ready = facts
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.ready != Some(false));
        let mut addresses = ready.flat_map(|endpoint| &endpoint.addresses).peekable();
        let any = addresses.peek().is_some();
        let mut ips: Vec<IpAddr> = addresses.filter_map(|address| parse_sloppy(address)).collect();
        ips.sort_unstable();
        ips.dedup();
        Self { ips: ips.into(), any }
    }

    /// Returns the units of work that it takes to keep these endpoints, and to forget them later.
    pub(in crate::core::namespace) fn units(&self) -> u64 {
        1 + 2 * self.ips.len() as u64
    }

    fn kind(&self) -> AddressKind {
        // They are sorted, so the first and the last show the families.
        let family = |ip: Option<&IpAddr>| ip.map(|ip| Family::of(*ip));
        match (family(self.ips.first()), family(self.ips.last())) {
            _ if !self.any => AddressKind::Nothing,
            (Some(first), Some(last)) if first == last => AddressKind::One(first),
            (Some(_), Some(_)) => AddressKind::Both,
            _ => AddressKind::Names,
        }
    }
}

/// The kind of addresses that the ready endpoints of a slice have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum AddressKind {
    /// There are none.
    Nothing,
    /// Names, and no IP addresses.
    Names,
    /// IP addresses of one family.
    One(Family),
    /// IP addresses of both.
    Both,
}

impl AddressKind {
    const WITH_IPS: [Self; 3] = [Self::One(Family::V4), Self::One(Family::V6), Self::Both];

    fn has(self, family: Family) -> bool {
        self == Self::Both || self == Self::One(family)
    }
}

/// Addresses of several slices.
#[derive(Clone, Debug, Default)]
struct Addresses {
    counts: KeyedMap<IpAddr, u32>,
    /// The number of distinct ones, by family.
    distinct: [usize; 2],
}

impl Addresses {
    /// Adds addresses. Calls `appeared` for each that was not there.
    fn add(&mut self, ips: &[IpAddr], mut appeared: impl FnMut(IpAddr)) {
        for ip in ips {
            let count = self.counts.entry(*ip).or_default();
            *count += 1;
            if *count == 1 {
                self.distinct[Family::of(*ip).index()] += 1;
                appeared(*ip);
            }
        }
    }

    fn remove(&mut self, ips: &[IpAddr]) {
        for ip in ips {
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

/// The slices that are to take the place of those that give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Replacing {
    /// There are none.
    Nothing,
    /// This process writes them.
    Ours {
        /// All of them are as they should be.
        complete: bool,
        /// They hold ready endpoints.
        hold: bool,
    },
    /// Another controller writes them.
    Others {
        /// Some have yet to be read.
        unread: bool,
        /// Some are known to hold ready endpoints.
        hold: bool,
    },
}

/// A slice that waits for others.
#[derive(Clone, Debug)]
struct LeavingState {
    until: Duration,
    /// Its content, if it was read.
    held: Option<Ready>,
    /// The index of an address that was missing in the others when they were last compared.
    missing: usize,
    /// The address at that index, if the slice waits for it to appear.
    missed: Option<IpAddr>,
}

/// Slices of other controllers.
#[derive(Clone, Debug, Default)]
struct Others {
    /// The content of each, if it was read.
    known: BTreeMap<SliceId, Option<Ready>>,
    /// The number of them that have yet to be read, and the number that hold ready endpoints.
    unread: usize,
    hold: usize,
    /// The addresses of their ready endpoints.
    there: Addresses,
}

impl Others {
    fn forget(&mut self, id: SliceId) {
        match self.known.remove(&id) {
            Some(Some(held)) => {
                self.hold -= usize::from(held.any);
                self.there.remove(&held.ips);
            }
            Some(None) => self.unread -= 1,
            None => {}
        }
    }
}

/// The contents of the slices that give way, as far as they were read.
#[derive(Clone, Debug, Default)]
struct Contents {
    by_kind: BTreeMap<AddressKind, BTreeSet<Leaving>>,
    /// Slices that are to be compared with the others.
    to_compare: BTreeSet<Leaving>,
    /// Slices with an address that the others lacked when they were compared, by one such address.
    missed_by: BTreeMap<IpAddr, BTreeSet<Leaving>>,
    /// The addresses among these that have appeared since.
    appeared: BTreeSet<IpAddr>,
    /// The addresses of their ready endpoints.
    left: Addresses,
    /// The largest number of addresses that were in them at once, by family.
    most: [usize; 2],
}

impl Contents {
    fn add(&mut self, leaving: Leaving, held: &Ready) {
        self.by_kind.entry(held.kind()).or_default().insert(leaving);
        self.left.add(&held.ips, |_| {});
        for (most, now) in self.most.iter_mut().zip(self.left.distinct) {
            *most = (*most).max(now);
        }
        if !held.ips.is_empty() {
            self.to_compare.insert(leaving);
        }
    }

    fn remove(&mut self, leaving: Leaving, held: &Ready, missed: Option<IpAddr>) {
        take(&mut self.by_kind, &held.kind(), leaving);
        self.left.remove(&held.ips);
        self.to_compare.remove(&leaving);
        if let Some(ip) = missed {
            take(&mut self.missed_by, &ip, leaving);
        }
    }

    /// Returns a slice with a kind of addresses.
    fn first(&self, kind: AddressKind) -> Option<Leaving> {
        self.by_kind.get(&kind)?.first().copied()
    }

    /// Returns the next slice to be compared with the others, which have these addresses.
    fn next_to_compare(&mut self, there: &Addresses) -> Option<Leaving> {
        if let Some(leaving) = self.to_compare.pop_first() {
            return Some(leaving);
        }
        while let Some(ip) = self.appeared.first().copied() {
            let waiting = self.missed_by.get_mut(&ip);
            let waiting = waiting.filter(|_| there.counts.contains_key(&ip));
            if let Some(leaving) = waiting.and_then(BTreeSet::pop_first) {
                return Some(leaving);
            }
            if self.missed_by.get(&ip).is_some_and(BTreeSet::is_empty) {
                self.missed_by.remove(&ip);
            }
            self.appeared.remove(&ip);
        }
        None
    }
}

/// Removes a slice from the set of a key.
fn take<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<Leaving>>, key: &K, leaving: Leaving) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&leaving);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

/// The progress of the scan over the slices that were there before others began to give way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scan {
    /// The scan is at slices that name the Service and that this process does not manage for it. Those before this one are left.
    Unmanaged(SliceId),
    /// The scan is at slices that this process manages for the Service. Those before this one are left.
    Ours(SliceId),
    /// All have been scanned.
    Done,
}

/// The step to be taken next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// This slice is to be let go.
    Goes(Leaving),
    /// This one is to be read.
    Reads(Leaving),
    /// A slice was compared with the others, and stays.
    Stays,
    /// No step is left. If the time of a slice has come and it stays, this names it, so that users are told.
    Done(Option<Leaving>),
}

/// The slices of one Service that give way, and what is known of those that take their place.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    leaving: BTreeMap<Leaving, LeavingState>,
    by_time: BTreeSet<(Duration, Leaving)>,
    /// The number of them that have not been read.
    unread: usize,
    /// The unread slices among them that are yet to be asked for.
    to_read: BTreeSet<Leaving>,
    contents: Contents,
    others: Others,
    /// The slices that this process writes for the Service and that are not as they should be.
    unsettled: BTreeSet<SliceId>,
    /// The slices that this process writes for the Service and that hold ready endpoints.
    holding: BTreeSet<SliceId>,
    /// Slices of the Service that may have changed since they were last looked at.
    pub(super) touched: BTreeSet<SliceId>,
    pub(super) scan: Scan,
    /// True if users were told that slices stay.
    pub(super) told: bool,
}

impl Default for Replacement {
    fn default() -> Self {
        Self {
            leaving: BTreeMap::new(),
            by_time: BTreeSet::new(),
            unread: 0,
            to_read: BTreeSet::new(),
            contents: Contents::default(),
            others: Others::default(),
            unsettled: BTreeSet::new(),
            holding: BTreeSet::new(),
            touched: BTreeSet::new(),
            scan: Scan::Unmanaged(SliceId::NONE),
            told: false,
        }
    }
}

impl Replacement {
    pub(super) fn is_empty(&self) -> bool {
        self.leaving.is_empty()
    }

    // === slices that give way ===

    /// Adds a slice that gives way, unless it is known already.
    pub(super) fn enter(&mut self, leaving: Leaving, until: Duration) {
        if self.leaving.contains_key(&leaving) {
            return;
        }
        let waiting = LeavingState {
            until,
            held: None,
            missing: 0,
            missed: None,
        };
        self.leaving.insert(leaving, waiting);
        self.by_time.insert((until, leaving));
        self.unread += 1;
        self.to_read.insert(leaving);
    }

    /// Removes a slice that gave way: it is let go, needed again, or gone.
    pub(super) fn leave(&mut self, leaving: Leaving) {
        let Some(waiting) = self.leaving.remove(&leaving) else {
            return;
        };
        self.by_time.remove(&(waiting.until, leaving));
        self.to_read.remove(&leaving);
        match waiting.held {
            Some(held) => self.contents.remove(leaving, &held, waiting.missed),
            None => self.unread -= 1,
        }
    }

    /// Removes the slices that pass the test. Returns how many were looked at.
    pub(super) fn leave_all(&mut self, of: impl Fn(&Leaving) -> bool) -> u64 {
        let looked_at = self.leaving.len() as u64;
        let all: Vec<_> = self.leaving.keys().copied().filter(of).collect();
        for leaving in all {
            self.leave(leaving);
        }
        looked_at
    }

    /// Takes in the content of a slice that gives way, or forgets it.
    pub(super) fn learn(&mut self, leaving: Leaving, held: Option<Ready>) {
        let Some(waiting) = self.leaving.get_mut(&leaving) else {
            return;
        };
        let missed = waiting.missed.take();
        waiting.missing = 0;
        match std::mem::replace(&mut waiting.held, held) {
            Some(old) => self.contents.remove(leaving, &old, missed),
            None => self.unread -= 1,
        }
        if let Some(held) = &waiting.held {
            self.contents.add(leaving, held);
            self.to_read.remove(&leaving);
        } else {
            self.unread += 1;
            self.to_read.insert(leaving);
        }
    }

    /// Makes a slice due to be asked for again, after the answer to a request for it, unless it was read.
    pub(super) fn ask_again(&mut self, leaving: Leaving) {
        if self
            .leaving
            .get(&leaving)
            .is_some_and(|waiting| waiting.held.is_none())
        {
            self.to_read.insert(leaving);
        }
    }

    // === slices that take their place ===

    /// Notes that another controller has a slice. Returns whether it has yet to be read.
    pub(super) fn note_other(&mut self, id: SliceId) -> bool {
        let others = &mut self.others;
        let known = others.known.entry(id).or_insert_with(|| {
            others.unread += 1;
            None
        });
        known.is_none()
    }

    /// Takes in the content of a slice of another controller.
    pub(super) fn learn_other(&mut self, id: SliceId, held: Ready) {
        let Self { others, contents, .. } = self;
        others.forget(id);
        others.hold += usize::from(held.any);
        others.there.add(&held.ips, |ip| {
            if contents.missed_by.contains_key(&ip) {
                contents.appeared.insert(ip);
            }
        });
        others.known.insert(id, Some(held));
    }

    /// Forgets a slice that takes the place of others: it is gone, or is not what it was.
    pub(super) fn forget(&mut self, id: SliceId) {
        self.forget_other(id);
        self.forget_ours(id);
    }

    pub(super) fn forget_other(&mut self, id: SliceId) {
        self.others.forget(id);
    }

    pub(super) fn forget_ours(&mut self, id: SliceId) {
        self.unsettled.remove(&id);
        self.holding.remove(&id);
    }

    /// Notes what is known of a slice that this process writes.
    pub(super) fn note_ours(&mut self, id: SliceId, settled: bool, holds: bool) {
        self.forget_ours(id);
        if !settled {
            self.unsettled.insert(id);
        }
        if holds {
            self.holding.insert(id);
        }
    }

    /// Forgets all slices but mirrored ones. Returns how many were looked at.
    pub(super) fn forget_slices(&mut self) -> u64 {
        let looked_at = self.leave_all(|leaving| matches!(leaving, Leaving::Custom(_)));
        self.others = Others::default();
        (self.unsettled, self.holding) = (BTreeSet::new(), BTreeSet::new());
        self.touched = BTreeSet::new();
        looked_at
    }

    // === decisions ===

    /// Returns whether the slices that this process writes are as they should be, and whether they hold ready endpoints.
    pub(super) fn ours(&self) -> (bool, bool) {
        (self.unsettled.is_empty(), !self.holding.is_empty())
    }

    /// Returns the state of other controllers' slices.
    pub(super) fn others(&self) -> Replacing {
        if self.others.known.is_empty() {
            return Replacing::Nothing;
        }
        Replacing::Others {
            unread: self.others.unread > 0,
            hold: self.others.hold > 0,
        }
    }

    /// Returns whether the slices of other controllers hold, in each family of a class, at least as many addresses as all slices
    /// that give way held at once.
    fn are_as_many(&self, kind: AddressKind) -> bool {
        let as_many = |family: Family| {
            let at = family.index();
            !kind.has(family) || self.others.there.distinct[at] >= self.contents.most[at]
        };
        self.unread == 0 && Family::ALL.into_iter().all(as_many)
    }

    /// Returns whether the slices of other controllers hold all addresses of a slice. `work` counts the comparisons.
    fn is_covered(&mut self, leaving: Leaving, work: &mut Work) -> bool {
        let Some(waiting) = self.leaving.get_mut(&leaving) else {
            return false;
        };
        let Some(held) = &waiting.held else {
            return false;
        };
        let mut there = |at: &usize| {
            work.addresses_visited += 1;
            self.others.there.counts.contains_key(&held.ips[*at])
        };
        // The comparison goes on at the address that was missing last time. The slice is covered only if all are there now.
        let order = (waiting.missing..held.ips.len()).chain(0..waiting.missing);
        let missing = order.into_iter().find(|at| !there(at));
        waiting.missed = missing.map(|at| held.ips[at]);
        if let (Some(at), Some(ip)) = (missing, waiting.missed) {
            waiting.missing = at;
            self.contents.missed_by.entry(ip).or_default().insert(leaving);
        }
        missing.is_none()
    }

    /// Returns a slice that was published for an annotation.
    pub(super) fn first_custom(&self) -> Option<Leaving> {
        let first = self.leaving.keys().next().copied();
        first.filter(|leaving| matches!(leaving, Leaving::Custom(_)))
    }

    /// Returns a slice that can be let go because of the state of the replacing slices as a whole, without comparing addresses.
    fn next_going(&self, replacing: Replacing, now: Duration) -> Option<Leaving> {
        let first = self.leaving.keys().next().copied();
        if replacing
            == (Replacing::Ours {
                complete: true,
                hold: true,
            })
        {
            return first;
        }
        let expires = match replacing {
            Replacing::Nothing => true,
            Replacing::Ours { hold, .. } | Replacing::Others { hold, .. } => hold,
        };
        let expired = self.first_expired(now).filter(|_| expires);
        expired.or_else(|| match replacing {
            Replacing::Nothing | Replacing::Ours { complete: false, .. } => None,
            Replacing::Ours { .. } => self.contents.first(AddressKind::Nothing),
            Replacing::Others { hold, .. } => {
                let named = || self.contents.first(AddressKind::Names).filter(|_| hold);
                let as_many = |kind: &AddressKind| self.are_as_many(*kind);
                let mut kinds = AddressKind::WITH_IPS.into_iter().filter(as_many);
                let nothing = self.contents.first(AddressKind::Nothing);
                nothing
                    .or_else(named)
                    .or_else(|| kinds.find_map(|kind| self.contents.first(kind)))
            }
        })
    }

    fn first_expired(&self, now: Duration) -> Option<Leaving> {
        let (until, leaving) = self.by_time.first()?;
        (*until <= now).then_some(*leaving)
    }

    /// Returns the next step for a Service for whose selector slices are published.
    pub(super) fn next(&mut self, replacing: Replacing, now: Duration, work: &mut Work) -> Next {
        if let Some(leaving) = self.next_going(replacing, now) {
            return Next::Goes(leaving);
        }
        if let Replacing::Others { .. } = replacing
            && let Some(leaving) = self.contents.next_to_compare(&self.others.there)
        {
            return if self.is_covered(leaving, work) {
                Next::Goes(leaving)
            } else {
                Next::Stays
            };
        }
        // A leaving slice without a ready endpoint is let go although the others hold none either. Mirrored slices are never
        // empty, and are not read to find that out: a new leader would read all that stay.
        let reads = |leaving: &Leaving| match replacing {
            Replacing::Others { .. } => true,
            Replacing::Ours { complete, hold } => complete && !hold && matches!(leaving, Leaving::Custom(_)),
            Replacing::Nothing => false,
        };
        if let Some(leaving) = self.to_read.first().copied().filter(reads) {
            self.to_read.remove(&leaving);
            return Next::Reads(leaving);
        }
        let stays = |leaving: &Leaving| match replacing {
            Replacing::Nothing => false,
            // While the others are complete, a read may still show that this slice holds no ready endpoint.
            Replacing::Ours { complete, hold } => {
                let known = matches!(leaving, Leaving::Mirrored(_))
                    || (self.leaving.get(leaving)).is_some_and(|waiting| waiting.held.is_some());
                !hold && (known || !complete)
            }
            Replacing::Others { unread, hold } => !hold && !unread,
        };
        Next::Done(self.first_expired(now).filter(stays))
    }
}
