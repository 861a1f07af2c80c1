//! Which Services select which labels, remembered both ways, so that neither a pod event nor a Service event
//! scans the namespace.
//!
//! Pods' label maps are interned whole (*full sets*): all pods of a `ReplicaSet` share one. Each full set is
//! projected onto the keys that some selector of the namespace uses (*label sets*): labels that are unique to a
//! pod, as `StatefulSet` and `Job` pods carry them, drop out unless a selector asks for them. Matching is done
//! once per label set and kept with it, so a match cannot outlive the set that it was made for.

use super::hash::{IdMap, KeyedMap, hash_of};
use super::ids::{FullSetId, LabelSetId, PodId, ServiceId};
use super::intern::{make_room, push_tight};
use super::label_pairs::LabelPairs;
use super::labels::Labels;
use super::selector::Selector;
use super::work::Work;
use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;

/// Label sets ⇄ Services, and full sets ⇄ pods, of one namespace.
#[derive(Debug, Default)]
pub struct SelectorCache {
    full: Slab<FullSet>,
    /// The pairs that full sets consist of: those that are unique to a pod stand among many that it shares with
    /// others.
    pairs_of_full: LabelPairs,
    full_by_labels: HashTable<u32>,
    sets: Slab<LabelSet>,
    set_by_labels: HashTable<u32>,
    /// How many selectors use a key.
    keys: KeyedMap<Box<str>, u32>,
    pairs: KeyedMap<Box<str>, Pair>,
    selectors: IdMap<ServiceId, Indexed>,
}

#[derive(Debug)]
struct FullSet {
    /// Its pairs, sorted by key.
    pairs: Box<[u32]>,
    /// Of the labels.
    hash: u64,
    set: LabelSetId,
    /// This set's place in its label set's `full`.
    at: u32,
    pods: SmallVec<[PodId; 4]>,
}

#[derive(Debug)]
struct LabelSet {
    labels: Labels,
    full: SmallVec<[FullSetId; 4]>,
    /// The Services whose selector matches, sorted.
    services: SmallVec<[ServiceId; 4]>,
}

/// A `key=value` that stands in a label set or indexes a selector.
#[derive(Debug, Default)]
struct Pair {
    /// The Services whose selector is indexed under this pair.
    services: Vec<ServiceId>,
    /// The label sets that have this pair.
    sets: Vec<LabelSetId>,
}

#[derive(Debug)]
struct Indexed {
    selector: Selector,
    /// The pair it is indexed under.
    pair: Box<str>,
}

fn pair_key(key: &str, value: &str) -> Box<str> {
    let mut text = String::with_capacity(key.len() + value.len() + 1);
    text.push_str(key);
    text.push('\0');
    text.push_str(value);
    text.into_boxed_str()
}

impl SelectorCache {
    /// Puts a pod under its labels. Returns where it is: to be kept, and given back to [`Self::detach`].
    pub fn attach(&mut self, pod: PodId, labels: &Labels, work: &mut Work) -> (FullSetId, u32) {
        let hash = hash_of(labels);
        let found = self
            .full_by_labels
            .find(hash, |&id| self.is(FullSetId(id), labels))
            .copied();
        let id = found.unwrap_or_else(|| {
            let set = self.label_set(labels.project(|key| self.keys.contains_key(key)), work);
            make_room(&mut self.full);
            let id = FullSetId::from(self.full.vacant_key());
            let at = self.sets[set.index()].full.len() as u32;
            self.sets[set.index()].full.push(id);
            let pairs = labels
                .iter()
                .map(|(key, value)| self.pairs_of_full.acquire(key, value))
                .collect();
            self.full.insert(FullSet {
                pairs,
                hash,
                set,
                at,
                pods: SmallVec::new(),
            });
            self.full_by_labels
                .insert_unique(hash, id.0, |&id| self.full[id as usize].hash);
            id.0
        });
        let pods = &mut self.full[id as usize].pods;
        push_tight(pods, pod);
        (FullSetId(id), pods.len() as u32 - 1)
    }

    /// Takes a pod from under its labels. Returns the pod that has moved into its place, if one has.
    pub fn detach(&mut self, id: FullSetId, at: u32) -> Option<PodId> {
        let full = &mut self.full[id.index()];
        full.pods.swap_remove(at as usize);
        let moved = full.pods.get(at as usize).copied();
        if full.pods.is_empty() {
            let (hash, set, at) = (full.hash, full.set, full.at);
            self.full_by_labels
                .find_entry(hash, |&other| other == id.0)
                .expect("a full set in use is in the table")
                .remove();
            for pair in self.full.remove(id.index()).pairs {
                self.pairs_of_full.release(pair);
            }
            self.leave_set(set, at);
        }
        moved
    }

    /// Whether the labels of a full set are these.
    pub fn is<'l>(&self, id: FullSetId, labels: &'l Labels) -> bool {
        let mut rest = labels.as_str();
        for pair in &self.full[id.index()].pairs {
            let (key, value) = self.pairs_of_full.get(*pair);
            let value_of = |rest: &'l str| rest.strip_prefix(key)?.strip_prefix('\0');
            let after = |rest: &'l str| rest.strip_prefix(value)?.strip_prefix('\0');
            let Some(after) = value_of(rest).and_then(after) else {
                return false;
            };
            rest = after;
        }
        rest.is_empty()
    }

    /// The Services that select a full set, sorted by index.
    pub fn services(&self, id: FullSetId) -> &[ServiceId] {
        &self.sets[self.full[id.index()].set.index()].services
    }

    /// Indexes a Service's selector and matches it against the label sets that can match.
    ///
    /// It is indexed under the one of its pairs that has the fewest selectors yet (then the fewest label
    /// sets), so that a pair which all Services of a namespace share does not make each a candidate for every
    /// pod.
    pub fn add(&mut self, service: ServiceId, selector: Selector, work: &mut Work) {
        for (key, _) in selector.pairs() {
            if let Some(uses) = self.keys.get_mut(key) {
                *uses += 1;
            } else {
                self.keys.insert(key.into(), 1);
                self.reproject(key, work);
            }
        }
        for set in self.candidates(&selector) {
            let set = &mut self.sets[set.index()];
            if selector.matches(&set.labels, work)
                && let Err(at) = set.services.binary_search(&service)
            {
                set.services.insert(at, service);
            }
        }
        let pair = selector
            .pairs()
            .map(|(key, value)| pair_key(key, value))
            .min_by_key(|pair| {
                self.pairs
                    .get(pair)
                    .map_or((0, 0), |p| (p.services.len(), p.sets.len()))
            })
            .expect("a selector has at least one pair");
        self.pairs.entry(pair.clone()).or_default().services.push(service);
        self.selectors.insert(service, Indexed { selector, pair });
    }

    /// Forgets a Service's selector.
    pub fn remove(&mut self, service: ServiceId, work: &mut Work) {
        let Some(Indexed { selector, pair }) = self.selectors.remove(&service) else {
            return;
        };
        for set in self.candidates(&selector) {
            let services = &mut self.sets[set.index()].services;
            if let Ok(at) = services.binary_search(&service) {
                services.remove(at);
            }
        }
        let entry = self
            .pairs
            .get_mut(&pair)
            .expect("a selector stays indexed under its pair");
        let at = entry
            .services
            .iter()
            .position(|&s| s == service)
            .expect("a selector is listed under its pair");
        entry.services.swap_remove(at);
        self.drop_pair_if_idle(&pair);
        for (key, _) in selector.pairs() {
            let uses = self.keys.get_mut(key).expect("a key in use is counted");
            *uses -= 1;
            if *uses == 0 {
                self.keys.remove(key);
                self.reproject(key, work);
            }
        }
    }

    /// The pods that a Service selects.
    pub fn pods(&self, service: ServiceId) -> Vec<PodId> {
        let Some(indexed) = self.selectors.get(&service) else {
            return Vec::new();
        };
        let mut pods = Vec::new();
        for set in self.candidates(&indexed.selector) {
            let set = &self.sets[set.index()];
            if set.services.binary_search(&service).is_ok() {
                pods.extend(
                    set.full
                        .iter()
                        .flat_map(|full| self.full[full.index()].pods.iter().copied()),
                );
            }
        }
        pods
    }

    /// How many whole label maps and how many projected ones are kept.
    pub fn sizes(&self) -> (usize, usize) {
        (self.full.len(), self.sets.len())
    }

    /// The label sets that have the selector's rarest pair.
    fn candidates(&self, selector: &Selector) -> Vec<LabelSetId> {
        let sets = selector.pairs().map(|(key, value)| {
            self.pairs
                .get(&pair_key(key, value))
                .map_or(&[][..], |pair| &pair.sets)
        });
        sets.min_by_key(|sets| sets.len()).unwrap_or_default().to_vec()
    }

    /// The label set with these labels, made and matched if it is new.
    fn label_set(&mut self, labels: Labels, work: &mut Work) -> LabelSetId {
        let hash = hash_of(&labels);
        if let Some(&id) = self
            .set_by_labels
            .find(hash, |&id| self.sets[id as usize].labels == labels)
        {
            return LabelSetId(id);
        }
        make_room(&mut self.sets);
        let id = LabelSetId::from(self.sets.vacant_key());
        let mut services = SmallVec::new();
        for (key, value) in labels.iter() {
            let pair = self.pairs.entry(pair_key(key, value)).or_default();
            pair.sets.push(id);
            services.extend(
                pair.services
                    .iter()
                    .copied()
                    .filter(|s| self.selectors[s].selector.matches(&labels, work)),
            );
        }
        services.sort_unstable();
        self.sets.insert(LabelSet {
            labels,
            full: SmallVec::new(),
            services,
        });
        self.set_by_labels
            .insert_unique(hash, id.0, |&id| hash_of(&self.sets[id as usize].labels));
        id
    }

    /// Takes the full set at a place out of its label set; an empty label set is freed.
    fn leave_set(&mut self, id: LabelSetId, at: u32) {
        let set = &mut self.sets[id.index()];
        set.full.swap_remove(at as usize);
        if let Some(moved) = set.full.get(at as usize) {
            self.full[moved.index()].at = at;
        }
        if !set.full.is_empty() {
            return;
        }
        let hash = hash_of(&set.labels);
        self.set_by_labels
            .find_entry(hash, |&other| other == id.0)
            .expect("a label set in use is in the table")
            .remove();
        let set = self.sets.remove(id.index());
        for (key, value) in set.labels.iter() {
            let pair = pair_key(key, value);
            let sets = &mut self
                .pairs
                .get_mut(&pair)
                .expect("a label set is listed under its pairs")
                .sets;
            let at = sets
                .iter()
                .position(|&s| s == id)
                .expect("a label set is listed under its pairs");
            sets.swap_remove(at);
            self.drop_pair_if_idle(&pair);
        }
    }

    fn drop_pair_if_idle(&mut self, pair: &str) {
        if self
            .pairs
            .get(pair)
            .is_some_and(|p| p.services.is_empty() && p.sets.is_empty())
        {
            self.pairs.remove(pair);
        }
    }

    /// A key has come into use or out of it: the full sets that have it move to other label sets. The Services
    /// that select them stay the same, since no selector uses the key at this moment.
    fn reproject(&mut self, key: &str, work: &mut Work) {
        let concerned: Vec<_> = self
            .full
            .iter()
            .filter(|(_, full)| {
                full.pairs
                    .iter()
                    .any(|pair| self.pairs_of_full.get(*pair).0 == key)
            })
            .map(|(id, _)| id)
            .collect();
        for id in concerned {
            let (old, at) = (self.full[id].set, self.full[id].at);
            let pairs = self.full[id]
                .pairs
                .iter()
                .map(|pair| self.pairs_of_full.get(*pair));
            let used = pairs.filter(|(key, _)| self.keys.contains_key(*key)).collect();
            let new = self.label_set(used, work);
            if new == old {
                continue;
            }
            let members = &mut self.sets[new.index()].full;
            members.push(FullSetId::from(id));
            self.full[id].at = members.len() as u32 - 1;
            self.full[id].set = new;
            self.leave_set(old, at);
        }
    }
}

#[cfg(test)]
#[path = "selector_cache_tests.rs"]
mod tests;
