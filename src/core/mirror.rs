//! The content of slices that mirror Endpoints: what others wrote into an Endpoints object, laid out as upstream's
//! `EndpointSlice` mirroring controller (1.36) lays it out.

use super::address::{Family, parse_sloppy};
use super::facts::{
    ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME, AddressFacts, EndpointFacts, EndpointsFacts,
    LABEL_MANAGED_BY, LABEL_SERVICE_NAME, ObjectReference, SliceFacts, SubsetFacts,
};
use super::hash::{KeyedMap, LongHasher};
use super::ids::Uid;
use super::labels::Labels;
use super::ports::{SlicePort, SlicePorts};
use super::subsets::ANNOTATION_OVER_CAPACITY;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

/// The default of `--mirroring-max-endpoints-per-subset`, as upstream.
pub const MAX_PER_SUBSET: usize = 1000;

/// An endpoint of a mirrored slice.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MirroredEndpoint {
    /// Its only address.
    pub ip: IpAddr,
    /// `conditions.ready`; the other conditions are not set.
    pub ready: bool,
    /// `hostname`.
    pub hostname: Option<Box<str>>,
    /// `nodeName`.
    pub node: Option<Box<str>>,
    /// `targetRef`.
    pub target: Option<Box<ObjectReference>>,
}

impl MirroredEndpoint {
    /// What tells endpoints of one slice apart; of several that agree in it, the last counts, as upstream.
    fn identity(&self) -> (IpAddr, Option<&str>, Option<(&str, &str)>) {
        let target = self.target.as_deref();
        (
            self.ip,
            self.hostname.as_deref(),
            target.map(|target| (&*target.namespace, &*target.name)),
        )
    }
}

/// What one mirrored slice should hold. There is one for each distinct list of ports and each family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirroredGroup {
    /// `addressType`.
    pub family: Family,
    /// `ports`.
    pub ports: SlicePorts,
    /// `endpoints`, sorted.
    pub endpoints: Vec<MirroredEndpoint>,
    /// A 64-bit hash that tells the slice apart from others, as far as the Endpoints determine it: labels, annotations,
    /// ports and endpoints.
    pub fingerprint: u64,
}

/// The addresses of an Endpoints object that are not mirrored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeftOut {
    /// Addresses that are no IPs.
    pub invalid: u32,
    /// Addresses beyond the limit of their subset.
    pub beyond_limit: u32,
}

impl LeftOut {
    /// Returns the number of addresses.
    pub fn total(self) -> u32 {
        self.invalid + self.beyond_limit
    }
}

/// An Endpoints object as it is mirrored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirroredObject {
    /// `metadata.name`, also the name of the Service.
    pub name: Arc<str>,
    /// `metadata.uid`: the object owns the slices.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// True if `metadata.deletionTimestamp` is set; if so, no more slices are created.
    pub deleting: bool,
    /// The labels that its slices have, without the two that say whose they are.
    pub labels: Labels,
    /// The annotations that its slices have.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Its slices, sorted by family and ports.
    pub groups: Vec<MirroredGroup>,
    /// What its slices leave out.
    pub left_out: LeftOut,
}

/// The most addresses that may be listed for ports that occur in several subsets, and the most endpoints that may be
/// repeated because ports share a name.
const MOST_MERGED: usize = 1 << 17;
/// The most ports of a slice that the API server accepts (1.36).
const MOST_PORTS: usize = 20_000;

impl MirroredObject {
    /// Lays out the slices of an Endpoints object; at most `limit` addresses of each subset, ready ones first. `None` if
    /// ports occur in so many subsets, or share their names with so many others, that it cannot be intended: an object of
    /// a megabyte could otherwise stand for slices of gigabytes.
    pub fn new(namespace: &str, facts: &EndpointsFacts, limit: usize) -> Option<Self> {
        let mut annotations = facts.extras.annotations.clone();
        for left in [ANNOTATION_LAST_APPLIED, ANNOTATION_TRIGGER_TIME] {
            annotations.remove(left);
        }
        if let Some(value) = &facts.over_capacity {
            annotations.insert(ANNOTATION_OVER_CAPACITY.into(), value.clone());
        }
        let labels = own_labels(&facts.labels);
        let (groups, left_out) = lay_out(namespace, &facts.subsets, limit)?;
        let metadata = metadata_hash(&labels, &annotations);
        let groups = groups.into_iter().map(|((family, ports), mut endpoints)| {
            let ports = SlicePorts::from(ports);
            MirroredGroup {
                family,
                fingerprint: fingerprint(metadata, &ports, &mut endpoints),
                ports,
                endpoints,
            }
        });
        Some(Self {
            name: facts.meta.name.clone(),
            uid: facts.meta.uid.clone(),
            version: facts.meta.version,
            deleting: facts.meta.deleting,
            groups: groups.collect(),
            labels,
            annotations,
            left_out,
        })
    }

    /// Returns the group of a slice.
    pub fn group(&self, family: Family, ports: &SlicePorts) -> Option<&MirroredGroup> {
        self.position(family, ports).map(|at| &self.groups[at])
    }

    /// Returns the index of the group of a slice.
    pub fn position(&self, family: Family, ports: &SlicePorts) -> Option<usize> {
        let key = (family, &**ports);
        let at = self
            .groups
            .binary_search_by(|group| (group.family, &*group.ports).cmp(&key));
        at.ok()
    }

    /// Returns the number of endpoints in all slices.
    pub fn endpoints(&self) -> usize {
        self.groups.iter().map(|group| group.endpoints.len()).sum()
    }
}

/// Returns the fingerprint of a slice that was read, if it could be one of a [`MirroredGroup`].
pub fn observed_fingerprint(namespace: &str, slice: &SliceFacts) -> Option<u64> {
    let endpoints = slice
        .endpoints
        .iter()
        .map(|endpoint| observed_endpoint(namespace, endpoint));
    let mut endpoints = endpoints.collect::<Option<Vec<_>>>()?;
    let labels = own_labels(&slice.labels);
    let metadata = metadata_hash(&labels, &slice.extras.annotations);
    Some(fingerprint(metadata, &slice.ports, &mut endpoints))
}

/// Returns an endpoint that was read, if it has nothing that a mirrored one never has.
pub fn observed_endpoint(namespace: &str, facts: &EndpointFacts) -> Option<MirroredEndpoint> {
    let [address] = &*facts.addresses else {
        return None;
    };
    let plain_target = facts.pod.is_some() || facts.target.is_none();
    let usual = facts.serving.is_none()
        && facts.terminating.is_none()
        && facts.zone.is_none()
        && facts.zone_hints.is_empty()
        && facts.node_hints.is_empty()
        && !(facts.odd && plain_target);
    let pod = facts.pod.as_deref().zip(facts.pod_uid.as_ref());
    let text = |text: &Option<Box<str>>| text.clone().filter(|text| !text.is_empty());
    usual.then_some(MirroredEndpoint {
        ip: parse_sloppy(address)?,
        ready: facts.ready?,
        hostname: text(&facts.hostname),
        node: text(&facts.node),
        target: reference(namespace, facts.target.as_deref(), pod),
    })
}

/// Returns a `targetRef`, of which only the pod's name and UID are kept if it is a plain one.
fn reference(
    namespace: &str,
    target: Option<&ObjectReference>,
    pod: Option<(&str, &Uid)>,
) -> Option<Box<ObjectReference>> {
    let plain = |(name, uid): (&str, &Uid)| {
        Box::new(ObjectReference {
            kind: "Pod".into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.to_string().into(),
            ..ObjectReference::default()
        })
    };
    let other = target.map(|target| Box::new(target.clone()));
    other.or_else(|| pod.map(plain))
}

/// Returns the labels without the two that every mirrored slice has.
fn own_labels(labels: &Labels) -> Labels {
    labels.project(|key| !matches!(key, LABEL_MANAGED_BY | LABEL_SERVICE_NAME))
}

/// Returns the hash of what all slices of an object have in common.
fn metadata_hash(labels: &Labels, annotations: &BTreeMap<Box<str>, Box<str>>) -> u64 {
    let mut hasher = LongHasher::default();
    labels.hash(&mut hasher);
    annotations.hash(&mut hasher);
    hasher.finish()
}

/// Returns the fingerprint of a slice, and sorts its endpoints, whose order does not count.
fn fingerprint(metadata: u64, ports: &SlicePorts, endpoints: &mut [MirroredEndpoint]) -> u64 {
    endpoints.sort_unstable();
    // If two slices had the same fingerprint, the change from one to the other would never be written.
    let mut hasher = LongHasher::default();
    metadata.hash(&mut hasher);
    (**ports).hash(&mut hasher);
    endpoints.hash(&mut hasher);
    hasher.finish()
}

/// Endpoints by the family and the sorted ports of their slice.
type Layout = BTreeMap<(Family, Vec<SlicePort>), Vec<MirroredEndpoint>>;

fn lay_out(namespace: &str, subsets: &[SubsetFacts], limit: usize) -> Option<(Layout, LeftOut)> {
    let mut layout = Layout::new();
    let mut left_out = LeftOut::default();
    let mut repeated = 0;
    for subset in repack(subsets)? {
        let mut by_family: [Vec<MirroredEndpoint>; 2] = Default::default();
        let mut taken = 0;
        let all = subset.addresses.len();
        let mut invalid = 0;
        for (address, ready) in subset.addresses {
            if taken == limit {
                break;
            }
            let Some(ip) = parse_sloppy(&address.ip) else {
                invalid += 1;
                continue;
            };
            taken += 1;
            let pod = address.pod.as_ref().map(|(name, uid)| (&**name, uid));
            by_family[Family::of(ip).index()].push(MirroredEndpoint {
                ip,
                ready,
                hostname: address.hostname.clone(),
                node: address.node.clone(),
                target: reference(namespace, address.target.as_deref(), pod),
            });
        }
        left_out.invalid += invalid as u32;
        left_out.beyond_limit += (all - taken - invalid) as u32;
        let lists = split(&subset.ports);
        repeated += (lists.len() - 1) * taken;
        if repeated > MOST_MERGED {
            return None;
        }
        for (family, endpoints) in Family::ALL.into_iter().zip(by_family) {
            if endpoints.is_empty() {
                continue;
            }
            let endpoints = without_repetitions(endpoints);
            for ports in &lists {
                layout.insert((family, ports.clone()), endpoints.clone());
            }
        }
    }
    Some((layout, left_out))
}

/// Splits sorted ports into lists that a slice may have. Endpoints may give several ports one name, or have several
/// without a name, while the API server refuses a slice that does. Proxies use the addresses of all slices that have a
/// port of the name, as they use those of all subsets. There is always a list, which is empty if there are no ports.
fn split(ports: &[&SlicePort]) -> Vec<Vec<SlicePort>> {
    let mut lists = vec![Vec::new()];
    let mut taken: KeyedMap<&str, usize> = KeyedMap::default();
    for port in ports {
        let at = taken.entry(port.name.as_deref().unwrap_or_default()).or_default();
        if lists.len() == *at {
            lists.push(Vec::new());
        }
        lists[*at].push((*port).clone());
        *at += 1;
    }
    if lists[0].len() <= MOST_PORTS {
        // Each list is as long as the one after it, or longer.
        return lists;
    }
    let pieces = lists.iter().flat_map(|list| list.chunks(MOST_PORTS));
    pieces.map(<[_]>::to_vec).collect()
}

/// Drops endpoints that a later one stands for.
fn without_repetitions(mut endpoints: Vec<MirroredEndpoint>) -> Vec<MirroredEndpoint> {
    // The sort is stable, so the last of several stays the last.
    endpoints.sort_by(|a, b| a.identity().cmp(&b.identity()));
    endpoints.reverse();
    endpoints.dedup_by(|a, b| a.identity() == b.identity());
    endpoints
}

/// A subset after repacking: no two have the same ports.
struct Repacked<'a> {
    /// Sorted.
    ports: Vec<&'a SlicePort>,
    /// Each with whether it is ready; ready ones first, each kind by its text and UID.
    addresses: Vec<(&'a AddressFacts, bool)>,
}

/// Combines subsets as upstream does: every port with all addresses that have it, in whichever subset, and ports with
/// the same addresses in one subset. An address that one subset calls ready and another not is not ready. Subsets
/// without ports count as having one that is written nowhere. `None` if the lists would be too long.
fn repack(subsets: &[SubsetFacts]) -> Option<Vec<Repacked<'_>>> {
    // Addresses are told apart by IP and the UID of their target; the first that is found stands for the others.
    let mut numbers: KeyedMap<(&str, String), u32> = KeyedMap::default();
    let mut known: Vec<&AddressFacts> = Vec::new();
    let mut members: Vec<Vec<(u32, bool)>> = Vec::with_capacity(subsets.len());
    for subset in subsets {
        let lists = [(&subset.ready, true), (&subset.not_ready, false)];
        let addresses = lists
            .into_iter()
            .flat_map(|(list, ready)| list.iter().map(move |address| (address, ready)));
        let numbered = addresses.map(|(address, ready)| {
            let number = *numbers
                .entry((&*address.ip, target_uid(address)))
                .or_insert_with(|| {
                    known.push(address);
                    known.len() as u32 - 1
                });
            (number, ready)
        });
        members.push(merged(numbered.collect()));
    }
    // Ports that stand in the same subsets have the same addresses, which are put together once.
    let mut found_in: BTreeMap<Option<&SlicePort>, Vec<u32>> = BTreeMap::new();
    for (at, subset) in (0u32..).zip(subsets) {
        let numbered = |port: &&SlicePort| port.number.is_some_and(|number| number > 0);
        let mut note = |port| {
            let found = found_in.entry(port).or_default();
            if found.last() != Some(&at) {
                found.push(at);
            }
        };
        if !subset.ports.iter().any(|port| numbered(&port)) {
            note(None);
        }
        subset
            .ports
            .iter()
            .filter(numbered)
            .for_each(|port| note(Some(port)));
    }
    let mut by_subsets: BTreeMap<Vec<u32>, Vec<&SlicePort>> = BTreeMap::new();
    for (port, found) in found_in {
        by_subsets.entry(found).or_default().extend(port);
    }
    let mut by_members: BTreeMap<Vec<(u32, bool)>, Vec<&SlicePort>> = BTreeMap::new();
    let lengths = by_subsets.keys().filter(|found| found.len() > 1);
    let lengths = lengths.flat_map(|found| found.iter().map(|at| members[*at as usize].len()));
    if lengths.sum::<usize>() > MOST_MERGED {
        return None;
    }
    for (found, ports) in by_subsets {
        let all = if let [only] = found[..] {
            members[only as usize].clone()
        } else {
            let parts = found.iter().flat_map(|at| &members[*at as usize]);
            merged(parts.copied().collect())
        };
        if !all.is_empty() {
            by_members.entry(all).or_default().extend(ports);
        }
    }
    let repacked = by_members.into_iter().map(|(members, mut ports)| {
        ports.sort_unstable();
        let addresses = members.into_iter();
        let mut addresses: Vec<_> = addresses.map(|(at, ready)| (known[at as usize], ready)).collect();
        addresses.sort_by(|(a, a_ready), (b, b_ready)| b_ready.cmp(a_ready).then_with(|| by_text(a, b)));
        Repacked { ports, addresses }
    });
    Some(repacked.collect())
}

/// Sorts addresses by number, and keeps each once: not ready if it is so anywhere.
fn merged(mut addresses: Vec<(u32, bool)>) -> Vec<(u32, bool)> {
    addresses.sort_unstable();
    addresses.dedup_by_key(|(number, _)| *number);
    addresses
}

fn by_text(a: &AddressFacts, b: &AddressFacts) -> Ordering {
    a.ip.cmp(&b.ip).then_with(|| target_uid(a).cmp(&target_uid(b)))
}

/// Returns the UID in an address's `targetRef`; empty if there is none.
fn target_uid(address: &AddressFacts) -> String {
    match (&address.target, &address.pod) {
        (Some(target), _) => String::from(&*target.uid),
        (None, Some((_, uid))) => uid.to_string(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests;
