//! The addresses that an Endpoints object may leave out when a Service has more addresses than one object may hold.
//!
//! Ready addresses go first: if they alone are too many, no others are published. The cut is shared over the subsets in
//! proportion, each part rounded up, until nothing is left. The order of the subsets is not promised, so any order will
//! do: every subset has its whole part or nothing, but for the one in which the limit is reached.

use super::expected::{Address, AddressKey, Offers};
use crate::oracle::facts::Port;
use std::collections::{BTreeMap, BTreeSet};

/// The most addresses in one object. One that offers ports with another set of addresses counts again.
const LIMIT: usize = 1000;

/// The addresses that may be left out, and how many.
pub(super) struct Truncation<'a> {
    /// Whether ready addresses are cut, so that no others are published.
    pub(super) of_ready: bool,
    budget: usize,
    subsets: Vec<Subset<'a>>,
}

/// Ports with the same addresses.
struct Subset<'a> {
    ports: Vec<&'a Option<Port>>,
    /// The addresses of the side that is cut.
    addresses: BTreeSet<&'a AddressKey>,
    part: usize,
}

// === impl Truncation ===

impl<'a> Truncation<'a> {
    /// Returns the truncation of these addresses; none if all of them fit.
    pub(super) fn of(offers: &'a Offers) -> Option<Self> {
        let mut subsets: BTreeMap<BTreeSet<(&AddressKey, bool)>, Vec<&Option<Port>>> = BTreeMap::new();
        for (port, addresses) in offers {
            let set = addresses.iter().map(|(key, address)| (key, address.ready));
            subsets.entry(set.collect()).or_default().push(port);
        }
        let count = |ready: bool| -> usize {
            let of = |set: &BTreeSet<(&AddressKey, bool)>| set.iter().filter(|(_, is)| *is == ready).count();
            subsets.keys().map(of).sum()
        };
        let (ready, not_ready) = (count(true), count(false));
        if ready + not_ready <= LIMIT {
            return None;
        }
        let of_ready = ready > LIMIT;
        let (budget, all) = if of_ready {
            (LIMIT, ready)
        } else {
            (LIMIT - ready, not_ready)
        };
        let subset = |(set, ports): (BTreeSet<(&'a AddressKey, bool)>, _)| {
            let addresses = set.into_iter().filter(|(_, ready)| *ready == of_ready);
            let addresses: BTreeSet<_> = addresses.map(|(key, _)| key).collect();
            let part = (addresses.len() as f64 / all as f64) * budget as f64;
            Subset {
                ports,
                addresses,
                part: part.ceil() as usize,
            }
        };
        Some(Self {
            of_ready,
            budget,
            subsets: subsets.into_iter().map(subset).collect(),
        })
    }

    /// Whether an address may be missing: one that is not ready always may.
    pub(super) fn may_leave_out(&self, address: &Address) -> bool {
        self.of_ready || !address.ready
    }

    /// Returns what is wrong with the choice of the addresses.
    pub(super) fn problem(
        &self,
        found: &BTreeMap<Option<Port>, BTreeMap<AddressKey, Vec<Address>>>,
    ) -> Option<String> {
        let mut shares = Vec::new();
        for subset in &self.subsets {
            let kept = |port: &Option<Port>| -> BTreeSet<&AddressKey> {
                let addresses = found.get(port).into_iter().flatten().map(|(key, _)| key);
                addresses.filter(|key| subset.addresses.contains(key)).collect()
            };
            let mut sets = subset.ports.iter().map(|port| kept(port));
            let first = sets.next().unwrap_or_default();
            if sets.any(|set| set != first) {
                return Some("ports with the same addresses show different ones".to_owned());
            }
            shares.push((first.len(), subset.part));
        }
        let sum: usize = shares.iter().map(|(share, _)| share).sum();
        let is_partly = |(share, part): &&(usize, usize)| *share != 0 && share < part;
        let fits = shares.iter().all(|(share, part)| share <= part);
        if sum == self.budget && fits && shares.iter().filter(is_partly).count() <= 1 {
            return None;
        }
        let side = if self.of_ready { "ready" } else { "not ready" };
        let (shares, parts): (Vec<_>, Vec<_>) = shares.into_iter().unzip();
        Some(format!(
            "subsets show {shares:?} addresses that are {side}, expected {} in all and at most {parts:?}",
            self.budget
        ))
    }
}
