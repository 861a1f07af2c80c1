//! The ports of Endpoints: in which subsets each stands, and how they are split into lists that a slice may have.

use super::order::Numbering;
use super::size;
use crate::core::facts::SubsetFacts;
use crate::core::hash::hash_of;
use crate::core::ports::SlicePort;
use std::mem;

/// The most ports of a slice that the API server accepts (1.36).
const MOST_PORTS: usize = 20_000;

/// The distinct ports of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    numbering: Numbering,
    /// By number: the subset in which a port was found first, and its position there.
    known: Vec<(u32, u32)>,
    /// Each port's number, and in the lower half a subset that has it.
    occurrences: Vec<u64>,
    /// Subsets without ports, which count as having one that is written nowhere.
    portless: Vec<u32>,
    /// The number of occurrences that have been handed out.
    at: usize,
    /// The number of ports of a subset that have been read, and whether one of them counts.
    read: (usize, bool),
}

/// Ports that stand in the same subsets, and therefore have the same addresses.
pub(super) struct Together<'a> {
    /// `None` for the port of subsets without ports.
    pub(super) port: Option<u32>,
    /// The subsets, ascending.
    pub(super) subsets: &'a [u64],
}

impl Together<'_> {
    pub(super) fn subsets(&self) -> impl Iterator<Item = u32> {
        self.subsets.iter().map(|occurrence| *occurrence as u32)
    }
}

/// Ports without a number are not mirrored, as upstream.
fn counts(port: &SlicePort) -> bool {
    port.number.is_some_and(|number| number > 0)
}

impl Ports {
    /// Reads some more ports of a subset, and adds their size. Returns whether it has more.
    pub(super) fn read(
        &mut self,
        subsets: &[SubsetFacts],
        subset: u32,
        some: usize,
        bytes: &mut usize,
    ) -> bool {
        let ports = &subsets[subset as usize].ports;
        let (start, mut any) = self.read;
        let end = ports.len().min(start + some);
        for (at, port) in (0..).zip(ports).take(end).skip(start) {
            *bytes += size::port(port);
            if !counts(port) {
                continue;
            }
            any = true;
            let next = self.known.len() as u32;
            let known = &self.known;
            let number = self.numbering.number(hash_of(port), next, |number| {
                let (subset, at) = known[number as usize];
                subsets[subset as usize].ports[at as usize] == *port
            });
            if number == next {
                self.known.push((subset, at));
            }
            self.occurrences.push(u64::from(number) << 32 | u64::from(subset));
        }
        if end < ports.len() {
            self.read = (end, any);
            return true;
        }
        if !any {
            self.portless.push(subset);
        }
        self.read = (0, false);
        false
    }

    /// Sorts what was read. Returns the units of work.
    pub(super) fn finish_reading(&mut self) -> u64 {
        self.numbering = Numbering::default();
        // The port of subsets without ports comes last.
        let number = (self.known.len() as u64) << 32;
        let portless = mem::take(&mut self.portless).into_iter();
        self.occurrences
            .extend(portless.map(|subset| number | u64::from(subset)));
        self.occurrences.sort_unstable();
        self.occurrences.dedup();
        1 + self.occurrences.len() as u64 / 16
    }

    /// Returns the next port with the subsets that have it.
    pub(super) fn next(&mut self) -> Option<Together<'_>> {
        let rest = &self.occurrences[self.at..];
        let number = rest.first()? >> 32;
        let length = rest.partition_point(|occurrence| occurrence >> 32 == number);
        self.at += length;
        let number = number as u32;
        Some(Together {
            port: ((number as usize) < self.known.len()).then_some(number),
            subsets: &rest[..length],
        })
    }

    /// Returns a port.
    pub(super) fn get<'a>(&self, subsets: &'a [SubsetFacts], port: u32) -> &'a SlicePort {
        let (subset, at) = self.known[port as usize];
        &subsets[subset as usize].ports[at as usize]
    }

    /// Takes a port out of the subset in which it was found first.
    pub(super) fn take(&self, subsets: &mut [SubsetFacts], port: u32) -> SlicePort {
        let (subset, at) = self.known[port as usize];
        let port = &mut subsets[subset as usize].ports[at as usize];
        SlicePort {
            name: port.name.take(),
            protocol: port.protocol.clone(),
            number: port.number,
            app_protocol: port.app_protocol.take(),
        }
    }
}

/// Splits sorted ports into lists that a slice may have. Endpoints may give several ports one name, or have several
/// without a name, while the API server refuses a slice that does. Proxies use the addresses of all slices that have a
/// port of the name, as they use those of all subsets. There is always a list, which is empty if there are no ports.
pub(super) fn split<'a>(ports: &[u32], get: impl Fn(u32) -> &'a SlicePort) -> Vec<Vec<u32>> {
    let mut lists = vec![Vec::new()];
    let mut last = None;
    let mut at = 0;
    for &port in ports {
        // Ports are sorted by name first.
        let name = get(port).name.as_deref().unwrap_or_default();
        at = if last == Some(name) { at + 1 } else { 0 };
        last = Some(name);
        if lists.len() == at {
            lists.push(Vec::new());
        }
        lists[at].push(port);
    }
    if lists[0].len() <= MOST_PORTS {
        // Each list is as long as the one after it, or longer.
        return lists;
    }
    let pieces = lists.iter().flat_map(|list| list.chunks(MOST_PORTS));
    pieces.map(<[_]>::to_vec).collect()
}
