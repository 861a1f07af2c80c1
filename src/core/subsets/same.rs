//! Compares subsets by meaning: the addresses that have each port.

use super::{Address, Port, Subset};
use std::collections::BTreeMap;

/// Addresses sorted by handle, each with whether it is ready.
type List<A> = Vec<(A, bool)>;

/// The meaning of subsets: for each port (`None` for addresses without ports), the number of its list of addresses.
///
/// An object of 1.5 MB can hold a thousand addresses that all have ten thousand ports, so a list is made for each
/// subset and not for each of its ports.
#[derive(Debug)]
pub(super) struct Meaning<'a, P> {
    pub(super) by_port: BTreeMap<Option<&'a P>, usize>,
}

/// Numbered lists of addresses; equal lists share a number.
#[derive(Debug)]
pub(super) struct Lists<A>(BTreeMap<List<A>, usize>);

impl<A: Address> Default for Lists<A> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<A: Address> Lists<A> {
    /// Returns the number of a list. An address that is both ready and not ready counts as not ready.
    fn number(&mut self, mut list: List<A>) -> usize {
        list.sort_unstable();
        list.dedup_by_key(|(address, _)| *address);
        let next = self.0.len();
        *self.0.entry(list).or_insert(next)
    }

    /// Returns the lists in the order of their numbers.
    pub(super) fn in_order(&self) -> Vec<&List<A>> {
        let mut lists: Vec<_> = self.0.iter().collect();
        lists.sort_unstable_by_key(|(_, number)| **number);
        lists.into_iter().map(|(list, _)| list).collect()
    }
}

/// Returns whether two lists of subsets mean the same, regardless of their order and packing.
pub fn is_same<P: Port, A: Address>(a: &[Subset<P, A>], b: &[Subset<P, A>]) -> bool {
    if a == b {
        return true;
    }
    let mut lists = Lists::default();
    let (a, b) = (meaning(a, &mut lists), meaning(b, &mut lists));
    a.zip(b).is_some_and(|(a, b)| a.by_port == b.by_port)
}

/// The most addresses that may be listed for ports that occur in several subsets.
const MOST_MERGED: usize = 1 << 20;

/// Unpacks subsets. Returns `None` if ports occur in so many subsets that it cannot be intended: no controller writes
/// that, so the meaning of such an object is not worked out.
pub(super) fn meaning<'a, P: Port, A: Address>(
    subsets: &'a [Subset<P, A>],
    lists: &mut Lists<A>,
) -> Option<Meaning<'a, P>> {
    let mut subsets_of: BTreeMap<Option<&P>, Vec<u32>> = BTreeMap::new();
    for (at, subset) in (0u32..).zip(subsets) {
        if subset.ready.is_empty() && subset.not_ready.is_empty() {
            continue;
        }
        let ports = subset.ports.iter().map(Some);
        for port in ports.chain(subset.ports.is_empty().then_some(None)) {
            subsets_of.entry(port).or_default().push(at);
        }
    }
    let mut merged = 0;
    let mut numbers: BTreeMap<&[u32], usize> = BTreeMap::new();
    for these in subsets_of.values() {
        if numbers.contains_key(&these[..]) {
            continue;
        }
        let mut list = Vec::new();
        for at in these {
            let subset = &subsets[*at as usize];
            list.extend(subset.ready.iter().map(|a| (*a, true)));
            list.extend(subset.not_ready.iter().map(|a| (*a, false)));
        }
        if these.len() > 1 {
            merged += list.len();
            if merged > MOST_MERGED {
                return None;
            }
        }
        numbers.insert(&these[..], lists.number(list));
    }
    let mut by_port: BTreeMap<_, _> = subsets_of
        .iter()
        .map(|(port, these)| (*port, numbers[&these[..]]))
        .collect();
    // Upstream drops a subset without ports when a port has the same addresses.
    if let Some(portless) = by_port.remove(&None)
        && !by_port.values().any(|list| *list == portless)
    {
        by_port.insert(None, portless);
    }
    Some(Meaning { by_port })
}
