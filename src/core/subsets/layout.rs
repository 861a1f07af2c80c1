//! Which port groups make up which subsets.

use super::truncate::Counts;
use super::{Address, Port};
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
    /// The groups that have these ports. A pod is in one group, so they have no address in common.
    pub(super) groups: Vec<u32>,
    pub(super) counts: Counts,
}

/// The subsets, sorted by ports, each with one address at least. A pod has all its ports on the same
/// address, so ports have the same addresses if and only if the same groups have them: addresses need not be
/// compared.
pub(super) fn layout<P: Port, A: Address>(groups: &[Group<P, A>], portless: bool) -> Vec<Packed<'_, P>> {
    let mut by_port: BTreeMap<Option<&P>, Vec<u32>> = BTreeMap::new();
    for (index, group) in (0u32..).zip(groups) {
        if group.ready.is_empty() && group.not_ready.is_empty() {
            continue;
        }
        for port in &*group.ports {
            by_port.entry(Some(port)).or_default().push(index);
        }
        if group.ports.is_empty() && portless {
            by_port.entry(None).or_default().push(index);
        }
    }
    let mut by_groups: BTreeMap<Vec<u32>, Vec<&P>> = BTreeMap::new();
    for (port, members) in by_port {
        by_groups.entry(members).or_default().extend(port);
    }
    let mut layout: Vec<_> = by_groups
        .into_iter()
        .map(|(members, ports)| {
            let mut counts = Counts::default();
            for group in &members {
                counts.ready += groups[*group as usize].ready.len();
                counts.not_ready += groups[*group as usize].not_ready.len();
            }
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
