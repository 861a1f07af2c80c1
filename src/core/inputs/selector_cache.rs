//! An index of which Services select which labels, in both directions, so that neither a pod event nor a Service event
//! scans the namespace.
//!
//! Pods' label maps are interned whole (*full sets*), since all pods of a `ReplicaSet` share one. So are selectors,
//! since a chart's Services often share theirs. Each pair lists the full sets that have it and the selectors indexed
//! under it; each selector is indexed under one of its pairs. A new full set is compared with the selectors that its
//! pairs lead to, and a new selector with the full sets that have its rarest pair. The matches are kept with the full
//! set: as the number of the selector if there is one, else as a list shared by all full sets with the same matches.
//!
//! A selector without a pair is indexed under the values or the key that it requires. One that only excludes labels is
//! compared with every new full set, once, and never for a pod's events.
//!
//! Only the part of a selector that it is indexed under is interned. The rest stays in its text, which it shares with
//! the Service: interned, a value of two letters would take a hundred bytes. Keys are sorted on both sides, so that a
//! comparison costs the shorter side and not the longer.

mod anchor;
mod held;
mod matching;

pub(crate) use matching::Matching;

use anchor::Anchor;
use held::Held;

use crate::core::compact::index::{NumberIndex, NumberTable, half};
use crate::core::compact::intern::push_tight;
use crate::core::compact::label_pairs::LabelPairs;
use crate::core::compact::slab::{Pieces, Slab};
use crate::core::compact::small::SmallSet;
use crate::core::hash::{IdMap, hash_of};
use crate::core::ids::{FullSetId, MatchId, PodId, SelectorId, ServiceId};
use crate::core::labels::Labels;
use crate::core::selector::Selector;
use crate::core::work::Work;
use smallvec::SmallVec;

/// Maps selectors ⇄ full sets ⇄ pods within one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorCache {
    pairs: LabelPairs,
    full: Slab<FullSet>,
    full_by_labels: NumberTable,
    selectors: Slab<Indexed>,
    selectors_by_content: NumberTable,
    /// Selectors indexed under a key, and those indexed under nothing.
    by_key: IdMap<u32, SmallSet<SelectorId>>,
    unanchored: SmallSet<SelectorId>,
    /// By Service; none for those without a selector.
    services: Pieces<SelectorId>,
    matches: Slab<Matches>,
    matches_by_selectors: NumberIndex,
    /// The number of selectors that are the only match of a full set.
    only: usize,
    /// The number of bytes of all selectors.
    selector_bytes: usize,
    /// The number of pairs that were given up since this was last taken.
    released: u64,
}

/// The complete labels of a pod.
#[derive(Clone, Debug)]
struct FullSet {
    /// Its pairs, sorted by key.
    pairs: Box<[u32]>,
    /// Half of the hash of the labels.
    hash: u32,
    /// The selectors that match; none if no selector does.
    matches: MatchId,
    pods: SmallVec<[PodId; 4]>,
}

/// A selector, shared by all Services that have it.
#[derive(Clone, Debug)]
struct Indexed {
    selector: Selector,
    /// Half of the hash of the selector.
    hash: u32,
    /// The part of the selector that it is indexed under.
    anchor: Anchor,
    services: SmallSet<ServiceId>,
    /// The number of full sets that no other selector matches.
    alone: u32,
}

/// Set in the number of a list that is none: that of the only selector that matches a full set.
const ONLY: u32 = 1 << 31;

fn by_only(selector: SelectorId) -> MatchId {
    debug_assert!(selector.0 < ONLY, "no namespace has 2^31 selectors");
    MatchId(selector.0 | ONLY)
}

fn only(id: MatchId) -> Option<SelectorId> {
    (id.0 & ONLY != 0 && !id.is_none()).then_some(SelectorId(id.0 & !ONLY))
}

/// The selectors that match a full set if they are several, shared by all full sets with the same matches.
#[derive(Clone, Debug)]
struct Matches {
    /// Sorted.
    selectors: Vec<SelectorId>,
    /// The sum of their hashes, so that adding or removing one does not need the others.
    hash: u64,
    /// The number of full sets that use it.
    uses: u32,
}

impl Matches {
    fn has(&self, selector: SelectorId) -> bool {
        self.selectors.binary_search(&selector).is_ok()
    }

    /// Adds a selector, or removes it if it is present.
    fn toggle(&mut self, selector: SelectorId) {
        match self.selectors.binary_search(&selector) {
            Ok(at) => {
                self.selectors.remove(at);
                self.hash = self.hash.wrapping_sub(hash_of(&selector));
            }
            Err(at) => {
                if self.selectors.len() == self.selectors.capacity() {
                    self.selectors.reserve_exact(self.selectors.len() / 8 + 1);
                }
                self.selectors.insert(at, selector);
                self.hash = self.hash.wrapping_add(hash_of(&selector));
            }
        }
    }
}

impl SelectorCache {
    /// Adds a pod under its labels. Returns its position, which the caller keeps and passes to [`Self::detach`].
    pub(crate) fn attach(&mut self, pod: PodId, labels: &Labels, work: &mut Work) -> (FullSetId, u32) {
        let hash = half(hash_of(labels));
        let found = self
            .full_by_labels
            .find(hash, |id| self.is(FullSetId(id), labels));
        let id = found.unwrap_or_else(|| self.enter(labels, hash, work).0);
        let pods = &mut self.full[id as usize].pods;
        push_tight(pods, pod);
        (FullSetId(id), pods.len() as u32 - 1)
    }

    /// Creates a full set, comparing it with the selectors that its pairs lead to.
    fn enter(&mut self, labels: &Labels, hash: u32, work: &mut Work) -> FullSetId {
        let pairs = self.acquire(labels, work);
        let held = Held::new(&pairs, &self.pairs);
        let mut matched = self.candidates(&pairs);
        matched.retain(|id| held.accepts(&self.selectors[id.index()].selector, work));
        self.insert(pairs, hash, matched)
    }

    /// Interns the pairs of labels, adding one use to each.
    fn acquire(&mut self, labels: &Labels, work: &mut Work) -> Box<[u32]> {
        let pairs: Box<[u32]> = labels
            .iter()
            .map(|(key, value)| self.pairs.acquire(key, value))
            .collect();
        work.pairs_compared += pairs.len() as u64;
        pairs
    }

    /// Inserts a full set with these pairs, already acquired for it, and the selectors that match it.
    fn insert(&mut self, pairs: Box<[u32]>, hash: u32, mut matched: Vec<SelectorId>) -> FullSetId {
        let id = FullSetId::from(self.full.next_number());
        for &pair in &pairs {
            self.pairs.hold(pair, id);
        }
        // A selector is found in one way at most, so none appears twice.
        matched.sort_unstable();
        let hash_of_all = matched.iter().map(hash_of).fold(0, u64::wrapping_add);
        let matches = self.matches_of(matched, hash_of_all, 1);
        self.full.insert(FullSet {
            pairs,
            hash,
            matches,
            pods: SmallVec::new(),
        });
        self.full_by_labels
            .insert(hash, id.0, |id| self.full[id as usize].hash);
        id
    }

    /// Removes a pod from its labels. Returns the pod that moved into its position, if any.
    pub(crate) fn detach(&mut self, id: FullSetId, at: u32) -> Option<PodId> {
        let full = &mut self.full[id.index()];
        full.pods.swap_remove(at as usize);
        let moved = full.pods.get(at as usize).copied();
        self.drop_unused(id);
        moved
    }

    /// Drops a full set if no pod has it.
    fn drop_unused(&mut self, id: FullSetId) {
        let full = &self.full[id.index()];
        if !full.pods.is_empty() {
            return;
        }
        let known = self.full_by_labels.remove(full.hash, id.0);
        assert!(known, "a full set in use is in the table");
        let full = self.full.remove(id.index());
        self.released += full.pairs.len() as u64;
        for pair in full.pairs {
            self.pairs.let_go(pair, id);
            self.pairs.release(pair);
        }
        self.release(full.matches, 1);
    }

    /// Returns whether a full set consists of these labels.
    pub(crate) fn is<'l>(&self, id: FullSetId, labels: &'l Labels) -> bool {
        let mut rest = labels.as_str();
        for pair in &self.full[id.index()].pairs {
            let (key, value) = self.pairs.get(*pair);
            let value_of = |rest: &'l str| rest.strip_prefix(key)?.strip_prefix('\0');
            let after = |rest: &'l str| rest.strip_prefix(value)?.strip_prefix('\0');
            let Some(after) = value_of(rest).and_then(after) else {
                return false;
            };
            rest = after;
        }
        rest.is_empty()
    }

    /// Returns the Services that select a full set, sorted by index.
    pub(crate) fn services(&self, id: FullSetId) -> SmallVec<[ServiceId; 4]> {
        let mut services = SmallVec::new();
        let matches = self.full[id.index()].matches;
        if let Some(selector) = only(matches) {
            services.extend(self.selectors[selector.index()].services.iter());
        } else if let Some(matches) = self.matches.get(matches.index()) {
            for selector in &matches.selectors {
                services.extend(self.selectors[selector.index()].services.iter());
            }
            services.sort_unstable();
        }
        services
    }

    /// Returns whether a Service selects a full set.
    pub(crate) fn selects(&self, service: ServiceId, id: FullSetId) -> bool {
        self.selector_of(service)
            .is_some_and(|selector| self.has(id, selector))
    }

    fn has(&self, id: FullSetId, selector: SelectorId) -> bool {
        let matches = self.full[id.index()].matches;
        let several = self.matches.get(matches.index());
        only(matches) == Some(selector) || several.is_some_and(|matches| matches.has(selector))
    }

    fn selector_of(&self, service: ServiceId) -> Option<SelectorId> {
        let selector = self.services.get(service.index()).copied();
        selector.filter(|selector| !selector.is_none())
    }

    fn set_selector_of(&mut self, service: ServiceId, selector: SelectorId) {
        self.services.reach(service.index(), || SelectorId::NONE);
        self.services[service.index()] = selector;
    }

    /// Indexes a Service's selector. Returns the comparisons that [`Self::step`] has to make if the selector is new,
    /// because it must be matched against the full sets that it may match.
    pub(crate) fn begin_add(
        &mut self,
        service: ServiceId,
        selector: &Selector,
        work: &mut Work,
    ) -> Option<Matching> {
        let hash = half(hash_of(selector));
        let known = self
            .selectors_by_content
            .find(hash, |id| self.selectors[id as usize].selector == *selector);
        if let Some(id) = known {
            self.selectors[id as usize].services.insert(service);
            self.set_selector_of(service, SelectorId(id));
            return None;
        }
        let id = SelectorId::from(self.selectors.next_number());
        let anchor = self.anchor(selector, work);
        self.index(id, &anchor);
        let candidates = self.reach(selector, &anchor);
        let mut services = SmallSet::default();
        services.insert(service);
        self.selector_bytes += selector.text_size();
        self.selectors.insert(Indexed {
            selector: selector.clone(),
            hash,
            anchor,
            services,
            alone: 0,
        });
        self.selectors_by_content
            .insert(hash, id.0, |id| self.selectors[id as usize].hash);
        self.set_selector_of(service, id);
        Some(Matching::of_selector(id, candidates))
    }

    /// Takes the number of pairs that labels and selectors have given up, which counts as work.
    pub(crate) fn take_released(&mut self) -> u64 {
        std::mem::take(&mut self.released)
    }

    /// Returns whether a selector matches a full set.
    fn matches(&self, id: FullSetId, selector: SelectorId, work: &mut Work) -> bool {
        let held = Held::new(&self.full[id.index()].pairs, &self.pairs);
        held.accepts(&self.selectors[selector.index()].selector, work)
    }

    /// Removes a Service's selector.
    pub(crate) fn remove(&mut self, service: ServiceId) {
        let Some(id) = self.selector_of(service) else {
            return;
        };
        self.set_selector_of(service, SelectorId::NONE);
        let services = &mut self.selectors[id.index()].services;
        services.remove(&service);
        if !services.is_empty() {
            return;
        }
        let matched = self.matched(id);
        self.toggle(&matched, id);
        let selector = self.selectors.remove(id.index());
        let known = self.selectors_by_content.remove(selector.hash, id.0);
        assert!(known, "a selector in use is in the table");
        self.selector_bytes -= selector.selector.text_size();
        self.unindex(id, &selector.anchor);
        self.released += selector.anchor.release(&mut self.pairs);
    }

    /// Returns the pods that a Service selects.
    pub(crate) fn pods(&self, service: ServiceId) -> Vec<PodId> {
        let Some(id) = self.selector_of(service) else {
            return Vec::new();
        };
        let matched = self.matched(id).into_iter();
        matched
            .flat_map(|full| self.full[full.index()].pods.iter().copied())
            .collect()
    }

    /// Returns the label pairs of each full set, sorted by key, with its pods.
    pub(crate) fn full_sets(&self) -> impl Iterator<Item = (Vec<(&str, &str)>, &[PodId])> {
        self.full.iter().map(|(_, full)| {
            let pairs = full.pairs.iter().map(|pair| self.pairs.get(*pair));
            (pairs.collect(), &*full.pods)
        })
    }

    /// Returns the number of full sets, and the number of distinct lists of selectors that match one.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.full.len(), self.only + self.matches.len())
    }

    /// Returns the full sets that a selector matches.
    fn matched(&self, id: SelectorId) -> Vec<FullSetId> {
        let Indexed { selector, anchor, .. } = &self.selectors[id.index()];
        let mut full = self.reach(selector, anchor);
        full.retain(|full| self.has(*full, id));
        full
    }

    /// Adds a selector to the matches of full sets, or removes it from them.
    fn toggle(&mut self, full: &[FullSetId], selector: SelectorId) {
        let mut moves: IdMap<MatchId, (u32, MatchId)> = IdMap::default();
        for full in full {
            moves
                .entry(self.full[full.index()].matches)
                .or_insert((0, MatchId::NONE))
                .0 += 1;
        }
        for (before, (count, after)) in &mut moves {
            *after = self.toggled(*before, *count, selector);
        }
        for full in full {
            let matches = &mut self.full[full.index()].matches;
            *matches = moves[matches].1;
        }
    }

    /// Returns the matches that `count` full sets have once a selector is added or removed.
    fn toggled(&mut self, before: MatchId, count: u32, selector: SelectorId) -> MatchId {
        let mut matches = if let Some(only) = only(before) {
            self.release(before, count);
            Matches {
                selectors: vec![only],
                hash: hash_of(&only),
                uses: 0,
            }
        } else if before.is_none() {
            return self.matches_of(vec![selector], hash_of(&selector), count);
        } else if self.matches[before.index()].uses == count {
            // No other full set uses this list, so it need not be copied.
            self.unlist(before);
            self.matches.remove(before.index())
        } else {
            let known = &mut self.matches[before.index()];
            known.uses -= count;
            Matches {
                selectors: known.selectors.clone(),
                ..*known
            }
        };
        matches.toggle(selector);
        self.matches_of(matches.selectors, matches.hash, count)
    }

    /// Returns the list of these selectors, adding `uses` to its uses.
    fn matches_of(&mut self, selectors: Vec<SelectorId>, hash: u64, uses: u32) -> MatchId {
        match selectors[..] {
            [] => return MatchId::NONE,
            [selector] => {
                let alone = &mut self.selectors[selector.index()].alone;
                self.only += usize::from(*alone == 0);
                *alone += uses;
                return by_only(selector);
            }
            _ => {}
        }
        let known = self
            .matches_by_selectors
            .find(hash, |id| self.matches[id as usize].selectors == selectors);
        if let Some(id) = known {
            self.matches[id as usize].uses += uses;
            return MatchId(id);
        }
        let id = MatchId::from(self.matches.insert(Matches {
            selectors,
            hash,
            uses,
        }));
        self.matches_by_selectors.insert(hash, id.0);
        id
    }

    /// Releases uses of a list, and frees it with the last one.
    fn release(&mut self, id: MatchId, uses: u32) {
        if let Some(selector) = only(id) {
            let alone = &mut self.selectors[selector.index()].alone;
            *alone -= uses;
            self.only -= usize::from(*alone == 0);
        }
        let Some(matches) = self.matches.get_mut(id.index()) else {
            return;
        };
        matches.uses -= uses;
        if matches.uses == 0 {
            self.unlist(id);
            self.matches.remove(id.index());
        }
    }

    fn unlist(&mut self, id: MatchId) {
        let hash = self.matches[id.index()].hash;
        let known = self.matches_by_selectors.remove(hash, id.0);
        assert!(known, "a list in use is in the table");
    }
}

#[cfg(test)]
mod tests;
