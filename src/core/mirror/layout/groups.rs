//! The endpoints and the lists of ports of each slice.

use super::{ANY_BYTES, ANY_SLICES, EACH_SLICE, Layout, MOST_TIMES, NONE, SOME, Stage, TEXT, TooLarge, size};
use crate::core::address::Family;
use crate::core::facts::{EndpointsFacts, SubsetFacts};
use crate::core::hash::hash_of;
use crate::core::mirror::order::{Sorting, arranged, positions};
use crate::core::mirror::port_lists::split;
use crate::core::mirror::{
    MirroredEndpoint, MirroredGroup, MirroredObject, content_hash, fingerprint, metadata_hash, reference,
};
use crate::core::ports::SlicePorts;
use std::mem;

impl Layout {
    /// Chooses the endpoints of the next set: ready ones first, each kind by its text and UID.
    pub(super) fn fill_one(&mut self) -> u64 {
        let Some(set) = self.sets.get_mut(self.next) else {
            // Everything has been taken out of them.
            self.facts.subsets = Vec::new();
            (self.known, self.ips, self.classes) = Default::default();
            (self.seen, self.endpoints, self.sets) = Default::default();
            self.order = (0..self.table.len() as u32).collect();
            self.begin(Stage::SortTable);
            return 1 + self.addresses as u64 / 8;
        };
        let members = mem::take(&mut set.members);
        let (mut chosen, mut invalid) = (Vec::new(), 0);
        let by_readiness = [1, 0].map(|ready| members.iter().filter(move |member| **member & 1 == ready));
        for &member in by_readiness.into_iter().flatten() {
            if chosen.len() == self.limit {
                break;
            }
            if self.ips[(member >> 1) as usize].is_some() {
                chosen.push(member);
            } else {
                invalid += 1;
            }
        }
        self.left_out.invalid += invalid as u32;
        self.left_out.beyond_limit += (members.len() - chosen.len() - invalid) as u32;
        let mut units = 1 + members.len() / 8 + 2 * chosen.len();
        // If several have one identity, the last counts.
        let mut lists = [Vec::new(), Vec::new()];
        let mut sizes = [0; 2];
        for member in chosen.into_iter().rev() {
            let class = self.classes[(member >> 1) as usize] as usize;
            if mem::replace(&mut self.seen[class], self.next as u32) == self.next as u32 {
                continue;
            }
            let at = self.endpoint_of(member);
            let endpoint = &self.table[at as usize];
            let family = Family::of(endpoint.ip).index();
            sizes[family] += size::endpoint(endpoint);
            lists[family].push(at);
        }
        units += (sizes[0] + sizes[1]) / TEXT;
        let set = &mut self.sets[self.next];
        for ((list, size), place) in lists.into_iter().zip(sizes).zip(&mut set.lists) {
            if !list.is_empty() {
                *place = Some(self.lists.len() as u32);
                self.lists.push(list);
                // Each of the lists of ports takes it once more.
                self.at += size + size::SLICE + self.bytes[1];
            }
        }
        self.stage = Stage::SortPorts;
        self.sorting = Sorting::default();
        units as u64
    }

    /// Returns the endpoint that stands for an address.
    pub(super) fn endpoint_of(&mut self, member: u32) -> u32 {
        let (rank, ready) = ((member >> 1) as usize, member & 1 == 1);
        let [not_ready, when_ready] = self.endpoints[rank];
        let (this, other) = if ready {
            (when_ready, not_ready)
        } else {
            (not_ready, when_ready)
        };
        if this != NONE {
            return this;
        }
        let endpoint = match self.table.get(other as usize) {
            Some(other) => MirroredEndpoint {
                ready,
                ..other.clone()
            },
            None => self.take_endpoint(rank, ready),
        };
        if self.table.len() == self.table.capacity() {
            self.table.reserve_exact(self.table.len() / 8 + SOME);
        }
        let at = self.table.len() as u32;
        self.table.push(endpoint);
        self.endpoints[rank][usize::from(ready)] = at;
        at
    }

    /// Makes an endpoint of an address that was read, which loses its texts to it.
    pub(super) fn take_endpoint(&mut self, rank: usize, ready: bool) -> MirroredEndpoint {
        let (subset, at) = self.known[rank];
        let SubsetFacts {
            ready: first,
            not_ready: second,
            ..
        } = &mut self.facts.subsets[subset as usize];
        let at = at as usize;
        let address = match at.checked_sub(first.len()) {
            None => &mut first[at],
            Some(at) => &mut second[at],
        };
        address.ip = Box::default();
        let pod = address.pod.take();
        let target = address.target.take();
        MirroredEndpoint {
            ip: self.ips[rank].expect("an address that is no IP is left out"),
            ready,
            hostname: address.hostname.take(),
            node: address.node.take(),
            target: match target {
                Some(target) => Some(target),
                None => reference(
                    &self.namespace,
                    None,
                    pod.as_ref().map(|(name, uid)| (&**name, uid)),
                ),
            },
        }
    }

    /// Sorts the ports of a set, and splits them into the lists of its slices.
    pub(super) fn sort_ports(&mut self) -> Result<u64, TooLarge> {
        let (subsets, ports) = (&self.facts.subsets, &self.ports);
        let set = &mut self.sets[self.next];
        let get = |port| ports.get(subsets, port);
        if let Some(units) = self.sorting.step(&mut set.ports, |a, b| get(a).cmp(get(b))) {
            return Ok(units);
        }
        let units = 1 + set.ports.len() as u64 / 2;
        self.port_lists = split(&set.ports, get);
        let families = set.lists.iter().flatten().count();
        let port_bytes: usize = set.ports.iter().map(|&port| size::port(get(port))).sum();
        self.bytes[2] += mem::take(&mut self.at) * self.port_lists.len() + families * port_bytes;
        if self.bytes[2] > MOST_TIMES * self.bytes[0] + ANY_BYTES {
            return Err(TooLarge);
        }
        self.slices += families * self.port_lists.len();
        if self.slices > self.bytes[0] / EACH_SLICE + ANY_SLICES {
            return Err(TooLarge);
        }
        self.stage = Stage::Lists;
        Ok(units)
    }

    /// Makes the groups of the next list of ports.
    pub(super) fn make_group(&mut self) -> u64 {
        let Some(list) = self.port_lists.pop() else {
            (self.stage, self.next) = (Stage::Fill, self.next + 1);
            return 1;
        };
        let taken = list
            .iter()
            .map(|&port| self.ports.take(&mut self.facts.subsets, port));
        let ports: SlicePorts = taken.collect();
        let lists = self.sets[self.next].lists;
        for (family, endpoints) in Family::ALL.into_iter().zip(lists) {
            let group = endpoints.map(|endpoints| (family, ports.clone(), endpoints));
            self.groups.extend(group);
        }
        1 + list.len() as u64 / 2
    }

    pub(super) fn sort_table(&mut self) -> u64 {
        let table = &self.table;
        let sorted = self
            .sorting
            .step(&mut self.order, |a, b| table[a as usize].cmp(&table[b as usize]));
        if let Some(units) = sorted {
            return units;
        }
        self.table = arranged(mem::take(&mut self.table), &self.order);
        self.order = positions(&self.order);
        self.begin(Stage::Hash);
        1 + self.order.len() as u64 / 4
    }

    pub(super) fn hash_some(&mut self) -> u64 {
        let start = self.hashes.len();
        if start == self.table.len() {
            self.begin(Stage::Finish);
            return 1;
        }
        let some = self.table[start..].iter().take(SOME);
        let bytes: usize = some.clone().map(size::endpoint).sum();
        self.hashes.extend(some.map(hash_of));
        (self.hashes.len() - start + bytes / TEXT) as u64
    }

    pub(super) fn finish_list(&mut self) -> u64 {
        let Some(list) = self.lists.get_mut(self.next) else {
            (self.lists, self.hashes) = Default::default();
            self.order = (0..self.groups.len() as u32).collect();
            self.begin(Stage::SortGroups);
            return 1;
        };
        let mut list = mem::take(list);
        for member in &mut list {
            *member = self.order[*member as usize];
        }
        list.sort_unstable();
        let hashes = list.iter().map(|&member| self.hashes[member as usize]);
        let content = content_hash(hashes.collect());
        let units = 1 + list.len() as u64 / 2;
        self.finished.push((list.into(), content));
        self.next += 1;
        units
    }

    pub(super) fn sort_groups(&mut self) -> u64 {
        let groups = &self.groups;
        let sorted = self.sorting.step(&mut self.order, |a, b| {
            let ((family, ports, _), (other, others, _)) = (&groups[a as usize], &groups[b as usize]);
            // No port is in two lists, so the first decides.
            family.cmp(other).then_with(|| ports[..].cmp(&others[..]))
        });
        if let Some(units) = sorted {
            return units;
        }
        let units = 1 + groups.len() as u64 / 2;
        self.begin(Stage::Done);
        units
    }

    pub(super) fn finish(&mut self) -> MirroredObject {
        let EndpointsFacts {
            meta, labels, extras, ..
        } = &mut *self.facts;
        let (labels, annotations) = (mem::take(labels), mem::take(&mut extras.annotations));
        let metadata = metadata_hash(&labels, &annotations);
        let groups = arranged(mem::take(&mut self.groups), &self.order);
        let groups = groups.into_iter().map(|(family, ports, list)| {
            let (members, content) = self.finished[list as usize].clone();
            MirroredGroup {
                family,
                fingerprint: fingerprint(metadata, &ports, content),
                ports,
                members,
                content,
            }
        });
        MirroredObject {
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            version: meta.version,
            deleting: meta.deleting,
            groups: groups.collect(),
            labels,
            annotations,
            left_out: self.left_out,
            table: mem::take(&mut self.table).into(),
        }
    }
}
