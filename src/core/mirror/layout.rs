//! Lays out the slices of an Endpoints object, in steps.
//!
//! An object of 1.5 MB has a hundred thousand addresses or ports. Its ports may stand in any combination of its subsets
//! and share names, so that it could stand for slices of gigabytes. So nothing is copied: endpoints are kept once, in a
//! table, and groups hold positions in it, in lists that they share. An object whose slices together would be larger than
//! a multiple of itself, or too many for its size, is not laid out.

mod addresses;
mod groups;
mod ports;

use super::order::{Numbering, Sorting};
use super::port_lists::Ports;
use super::{LeftOut, MirroredEndpoint, MirroredObject, own_labels, size};
use crate::core::address::Family;
use crate::core::facts::{ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME, EndpointsFacts, EndpointsMeta};
use crate::core::ports::SlicePorts;
use crate::core::subsets::ANNOTATION_OVER_CAPACITY;
use crate::core::work::{TurnBudget, Work};
use std::net::IpAddr;
use std::sync::Arc;

/// The slices may be this many times as large as the Endpoints.
const MOST_TIMES: usize = 16;
/// Bytes of slices that any Endpoints may stand for.
const ANY_BYTES: usize = 64 << 10;
/// The slices may be one for so many bytes of the Endpoints. The smallest subset that takes a slice of its own has some 30
/// bytes on the wire, and its slice takes more than a kilobyte here, with its place in the queue.
const EACH_SLICE: usize = 384;
/// The number of slices that any Endpoints may stand for.
const ANY_SLICES: usize = 64;
/// For each address, the number of times that it may be listed to combine subsets.
const MOST_LISTED: usize = 16;
/// The number of addresses that any Endpoints may list to combine subsets.
const ANY_LISTED: usize = 4096;
/// The number of addresses or ports that are looked at before the work is measured.
const SOME: usize = 64;
/// Bytes of text that count as one unit of work.
const TEXT: usize = 256;
/// No endpoint.
const NONE: u32 = u32::MAX;

/// The slices of these Endpoints would be too large or too many.
#[derive(Clone, Copy, Debug)]
struct TooLarge;

/// The result of a step.
#[derive(Debug)]
pub enum Laid {
    /// There is more to do.
    Partly,
    /// The object is laid out.
    Out(Box<MirroredObject>),
    /// The slices would be too large or too many, and are not laid out. Whose Endpoints they are.
    TooLarge(Box<EndpointsMeta>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Choose the labels and annotations of the slices.
    Metadata,
    /// Give equal addresses one number.
    Number,
    /// Sort the numbers by the texts of their addresses.
    Rank,
    /// List the addresses of each subset by rank.
    Members,
    /// Parse the addresses, and find those of which a slice has only one.
    Classify,
    /// Find the subsets of each port.
    Ports,
    /// Find the ports of each combination of subsets.
    Combine,
    /// List the addresses of each combination.
    Merge,
    /// Choose the endpoints of each set of addresses.
    Fill,
    /// Sort the ports of a set.
    SortPorts,
    /// Make the lists of ports of a set.
    Lists,
    /// Sort the endpoints.
    SortTable,
    /// Hash the endpoints.
    Hash,
    /// Sort and hash the lists of endpoints.
    Finish,
    /// Sort the groups.
    SortGroups,
    Done,
}

/// Subsets that some ports have in common.
#[derive(Clone, Debug)]
struct Combination {
    subsets: Box<[u32]>,
    ports: Vec<u32>,
}

/// Addresses, by rank and readiness, and the ports that they have in common.
#[derive(Clone, Debug)]
struct Set {
    members: Vec<u32>,
    ports: Vec<u32>,
    /// The lists of its endpoints, by family.
    lists: [Option<u32>; 2],
}

/// A layout in progress.
#[derive(Clone, Debug)]
pub struct Layout {
    namespace: Arc<str>,
    facts: Box<EndpointsFacts>,
    limit: usize,
    stage: Stage,
    /// The next subset, combination, set, or list.
    next: usize,
    /// The next item in it.
    at: usize,
    /// The sizes of the Endpoints, of what each slice has of their metadata, and of the slices so far.
    bytes: [usize; 3],
    /// The number of slices so far.
    slices: usize,
    left_out: LeftOut,
    numbering: Numbering,
    sorting: Sorting,
    order: Vec<u32>,
    /// The subset and the position of each address: first by number, then by rank.
    known: Vec<(u32, u32)>,
    /// The addresses of each subset, by number and later by rank, doubled, and one more if they are ready.
    members: Vec<Vec<u32>>,
    /// By rank: the address, and the first address with the same identity.
    ips: Vec<Option<IpAddr>>,
    classes: Vec<u32>,
    /// By class: the last set that it was seen in.
    seen: Vec<u32>,
    /// By rank: the endpoints that stand for it, not ready and ready.
    endpoints: Vec<[u32; 2]>,
    ports: Ports,
    /// The number of addresses, and the number that combinations of several subsets list.
    addresses: usize,
    listed: usize,
    combinations: Vec<Combination>,
    sets: Vec<Set>,
    port_lists: Vec<Vec<u32>>,
    table: Vec<MirroredEndpoint>,
    lists: Vec<Vec<u32>>,
    hashes: Vec<u64>,
    finished: Vec<(Arc<[u32]>, u64)>,
    groups: Vec<(Family, SlicePorts, u32)>,
}

impl Layout {
    /// Begins to lay out an object; at most `limit` addresses of each subset, ready ones first.
    pub fn new(namespace: Arc<str>, facts: Box<EndpointsFacts>, limit: usize) -> Self {
        Self {
            namespace,
            facts,
            limit,
            stage: Stage::Metadata,
            next: 0,
            at: 0,
            bytes: [0; 3],
            slices: 0,
            left_out: LeftOut::default(),
            numbering: Numbering::default(),
            sorting: Sorting::default(),
            order: Vec::new(),
            known: Vec::new(),
            members: Vec::new(),
            ips: Vec::new(),
            classes: Vec::new(),
            seen: Vec::new(),
            endpoints: Vec::new(),
            ports: Ports::default(),
            addresses: 0,
            listed: 0,
            combinations: Vec::new(),
            sets: Vec::new(),
            port_lists: Vec::new(),
            table: Vec::new(),
            lists: Vec::new(),
            hashes: Vec::new(),
            finished: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Continues, as far as the budget goes.
    pub fn step(&mut self, budget: &mut TurnBudget, work: &mut Work) -> Laid {
        while !budget.is_spent() {
            if self.stage == Stage::Done {
                return Laid::Out(Box::new(self.finish()));
            }
            let Ok(units) = self.piece() else {
                return Laid::TooLarge(Box::new(self.facts.meta.clone()));
            };
            work.endpoints_laid_out += units;
            budget.spend(units);
        }
        Laid::Partly
    }

    fn piece(&mut self) -> Result<u64, TooLarge> {
        Ok(match self.stage {
            Stage::Metadata => self.copy_metadata(),
            Stage::Number => self.number_some(),
            Stage::Rank => self.rank_some(),
            Stage::Members => self.list_members(),
            Stage::Classify => self.classify_some(),
            Stage::Ports => self.read_ports(),
            Stage::Combine => self.combine_some()?,
            Stage::Merge => self.merge_one(),
            Stage::Fill => self.fill_one(),
            Stage::SortPorts => self.sort_ports()?,
            Stage::Lists => self.make_group(),
            Stage::SortTable => self.sort_table(),
            Stage::Hash => self.hash_some(),
            Stage::Finish => self.finish_list(),
            Stage::SortGroups => self.sort_groups(),
            Stage::Done => 1,
        })
    }

    fn copy_metadata(&mut self) -> u64 {
        let facts = &mut *self.facts;
        for left in [ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME] {
            facts.extras.annotations.remove(left);
        }
        if let Some(value) = facts.over_capacity.take() {
            let annotations = &mut facts.extras.annotations;
            annotations.insert(ANNOTATION_OVER_CAPACITY.into(), value);
        }
        facts.labels = own_labels(&facts.labels);
        let copied = size::metadata(&facts.labels, &facts.extras.annotations);
        self.bytes = [copied, copied, 0];
        self.begin(Stage::Number);
        // It is hashed when the layout is complete.
        1 + 2 * (copied / TEXT) as u64
    }

    fn begin(&mut self, stage: Stage) {
        (self.stage, self.next, self.at) = (stage, 0, 0);
        (self.sorting, self.numbering) = Default::default();
    }
}
