//! Combines port groups into subsets.

use super::truncate::Counts;
use super::{Address, Port};
use crate::core::hash::{IdMap, KeyedMap};
use crate::core::ports::PortList;
use std::collections::BTreeMap;

/// The pods of a Service that have the same ports.
#[derive(Clone, Debug)]
pub(super) struct Group<P, A> {
    /// Sorted.
    pub(super) ports: PortList<P>,
    /// Sorted by printed IP, then UID.
    pub(super) ready: Vec<A>,
    pub(super) not_ready: Vec<A>,
}

/// A subset before its addresses are listed.
#[derive(Debug)]
pub(super) struct Packed<'a, P> {
    /// Sorted.
    pub(super) ports: Vec<&'a P>,
    /// The groups that have these ports. A pod is in one group, so they share no address.
    pub(super) groups: Vec<u32>,
    pub(super) counts: Counts,
}

/// Returns the subsets, sorted by ports, each with at least one address. A pod has all its ports on the same address,
/// so ports have the same addresses if and only if the same groups have them, and addresses need not be compared.
pub(super) fn layout<P: Port, A: Address>(groups: &[Group<P, A>], portless: bool) -> Vec<Packed<'_, P>> {
    let filled = (0u32..)
        .zip(groups)
        .filter(|(_, group)| !group.ready.is_empty() || !group.not_ready.is_empty());
    // Ports may have the same groups. A set of groups is identified by where the walk over all groups led, one step for
    // each group that has the port. So each port of each group is looked up once; there may be a million.
    let mut sets = vec![(0, 0)];
    let mut at: KeyedMap<Option<&P>, u32> = KeyedMap::default();
    for (index, group) in filled {
        let mut steps: IdMap<u32, u32> = IdMap::default();
        let mut step = |port| {
            let set = at.entry(port).or_insert(0);
            *set = *steps.entry(*set).or_insert_with(|| {
                sets.push((*set, index));
                sets.len() as u32 - 1
            });
        };
        group.ports.iter().map(Some).for_each(&mut step);
        if group.ports.is_empty() && portless {
            step(None);
        }
    }
    let mut by_set: BTreeMap<u32, Vec<&P>> = BTreeMap::new();
    for (port, set) in at {
        by_set.entry(set).or_default().extend(port);
    }
    let mut layout: Vec<_> = by_set
        .into_iter()
        .map(|(mut set, mut ports)| {
            ports.sort_unstable();
            let mut members = Vec::new();
            let mut counts = Counts::default();
            while set > 0 {
                let (before, group) = sets[set as usize];
                counts.ready += groups[group as usize].ready.len();
                counts.not_ready += groups[group as usize].not_ready.len();
                members.push(group);
                set = before;
            }
            members.reverse();
            Packed {
                ports,
                groups: members,
                counts,
            }
        })
        .collect();
    layout.sort_unstable_by(|a, b| a.ports.cmp(&b.ports));
    layout
}
