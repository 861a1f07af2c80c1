//! The addresses of an object: which are the same, and in which order they come.

use super::{Layout, NONE, SOME, Stage, TEXT, size};
use crate::core::address::parse_sloppy;
use crate::core::facts::{AddressFacts, SubsetFacts};
use crate::core::hash::hash_of;
use crate::core::ids::Uid;
use crate::core::mirror::order::positions;
use std::cmp::Ordering;

impl Layout {
    /// Gives the next addresses a number. They are told apart by IP and the UID of their target; the first that is found
    /// stands for the others.
    pub(super) fn number_some(&mut self) -> u64 {
        let subsets = &self.facts.subsets;
        let Some(subset) = subsets.get(self.next) else {
            self.order = (0..self.known.len() as u32).collect();
            self.begin(Stage::Rank);
            return 1 + self.order.len() as u64 / 64;
        };
        let count = subset.ready.len() + subset.not_ready.len();
        if self.at == 0 {
            self.bytes[0] += size::SUBSET;
            self.addresses += count;
            self.members.push(Vec::with_capacity(count));
        }
        let end = count.min(self.at + SOME);
        let before = self.bytes[0];
        for at in self.at..end {
            let (address, ready) = address_of(subset, at);
            self.bytes[0] += size::address(address);
            let next = self.known.len() as u32;
            let hash = with_uid(address, |uid| hash_of(&(&*address.ip, uid)));
            let known = &self.known;
            let number = self.numbering.number(hash, next, |number| {
                let other = address_at(subsets, known[number as usize]);
                address.ip == other.ip && compare(address, other).is_eq()
            });
            if number == next {
                self.known.push((self.next as u32, at as u32));
            }
            self.members[self.next].push(number << 1 | u32::from(ready));
        }
        let units = 1 + 2 * (end - self.at) + (self.bytes[0] - before) / TEXT;
        self.at = end;
        if end == count {
            (self.next, self.at) = (self.next + 1, 0);
        }
        units as u64
    }

    pub(super) fn rank_some(&mut self) -> u64 {
        let (subsets, known) = (&self.facts.subsets, &self.known);
        let address = |number: u32| address_at(subsets, known[number as usize]);
        let sorted = self
            .sorting
            .step(&mut self.order, |a, b| compare(address(a), address(b)));
        if let Some(units) = sorted {
            return units;
        }
        self.known = self.order.iter().map(|&number| known[number as usize]).collect();
        self.order = positions(&self.order);
        self.begin(Stage::Members);
        1 + self.order.len() as u64 / 16
    }

    pub(super) fn list_members(&mut self) -> u64 {
        let Some(members) = self.members.get_mut(self.next) else {
            self.order = Vec::new();
            self.ips = Vec::with_capacity(self.known.len());
            self.classes = Vec::with_capacity(self.known.len());
            self.begin(Stage::Classify);
            return 1;
        };
        for member in &mut *members {
            *member = self.order[(*member >> 1) as usize] << 1 | *member & 1;
        }
        merge(members);
        members.shrink_to_fit();
        self.next += 1;
        1 + members.len() as u64 / 4
    }

    /// Parses the next addresses. If several in a slice agree in address, hostname and target, the last counts, as
    /// upstream.
    pub(super) fn classify_some(&mut self) -> u64 {
        let start = self.ips.len();
        if start == self.known.len() {
            self.seen = vec![NONE; start];
            self.endpoints = vec![[NONE; 2]; start];
            self.begin(Stage::Ports);
            return 1 + start as u64 / 64;
        }
        let end = self.known.len().min(start + SOME);
        for rank in start..end {
            let address = address_at(&self.facts.subsets, self.known[rank]);
            let ip = parse_sloppy(&address.ip);
            let (subsets, known, ips, namespace) =
                (&self.facts.subsets, &self.known, &self.ips, &*self.namespace);
            let identity = identity(namespace, address);
            let class = ip.map(|ip| {
                self.numbering
                    .number(hash_of(&(ip, identity)), rank as u32, |other| {
                        let address = address_at(subsets, known[other as usize]);
                        ips[other as usize] == Some(ip) && self::identity(namespace, address) == identity
                    })
            });
            self.ips.push(ip);
            self.classes.push(class.unwrap_or(NONE));
        }
        1 + 2 * (end - start) as u64
    }
}

/// Sorts addresses, and keeps each once: not ready if it is so anywhere.
pub(super) fn merge(members: &mut Vec<u32>) {
    members.sort_unstable();
    members.dedup_by_key(|member| *member >> 1);
}

/// Returns an address of a subset, and whether it is ready.
fn address_of(subset: &SubsetFacts, at: usize) -> (&AddressFacts, bool) {
    match subset.ready.get(at) {
        Some(address) => (address, true),
        None => (&subset.not_ready[at - subset.ready.len()], false),
    }
}

fn address_at(subsets: &[SubsetFacts], (subset, at): (u32, u32)) -> &AddressFacts {
    address_of(&subsets[subset as usize], at as usize).0
}

/// Compares addresses by their texts, and then by the UIDs of their targets.
fn compare(a: &AddressFacts, b: &AddressFacts) -> Ordering {
    let uids = || with_uid(a, |a| with_uid(b, |b| a.cmp(b)));
    a.ip.cmp(&b.ip).then_with(uids)
}

/// Calls a function with the UID in an address's `targetRef`; empty if there is none.
fn with_uid<R>(address: &AddressFacts, then: impl FnOnce(&str) -> R) -> R {
    match (&address.target, &address.pod) {
        (Some(target), _) => then(&target.uid),
        (None, Some((_, Uid::Text(uid)))) => then(uid),
        (None, Some((_, Uid::Uuid(bytes)))) => {
            let text = Uid::spelled(bytes);
            then(std::str::from_utf8(&text).expect("hex digits and dashes are UTF-8"))
        }
        (None, None) => then(""),
    }
}

/// Returns what tells endpoints of one address in a slice apart: the hostname, and the target's namespace and name.
fn identity<'a>(
    namespace: &'a str,
    address: &'a AddressFacts,
) -> (Option<&'a str>, Option<(&'a str, &'a str)>) {
    let pod = address.pod.as_ref().map(|(name, _)| (namespace, &**name));
    let target = address.target.as_deref();
    let target = target.map(|target| (&*target.namespace, &*target.name));
    (address.hostname.as_deref(), target.or(pod))
}
