//! The content of slices that mirror Endpoints: what others wrote into an Endpoints object, laid out as upstream's
//! `EndpointSlice` mirroring controller (1.36) lays it out.

mod changes;
mod layout;
mod order;
mod port_lists;
mod size;

pub use changes::{Changes, Comparison};
pub use layout::{Laid, Layout};

use super::address::{Family, parse_sloppy};
use super::facts::{
    EndpointFacts, EndpointsFacts, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, ObjectReference, SliceFacts,
};
use super::hash::{LongHasher, hash_of};
use super::ids::Uid;
use super::labels::Labels;
use super::ports::SlicePorts;
use super::work::{TurnBudget, Work};
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

/// The desired content of one mirrored slice. There is one for each distinct list of ports and each family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirroredGroup {
    /// `addressType`.
    pub family: Family,
    /// `ports`.
    pub ports: SlicePorts,
    /// The positions of its endpoints in those of the object, ascending. Groups with the same endpoints share the list.
    members: Arc<[u32]>,
    /// A hash of the endpoints alone.
    content: u64,
    /// A 64-bit hash that tells the slice apart from others, as far as the Endpoints determine it: labels, annotations,
    /// ports and endpoints.
    pub fingerprint: u64,
}

impl MirroredGroup {
    /// Returns the number of endpoints.
    pub fn size(&self) -> usize {
        self.members.len()
    }
}

/// The endpoints of a group, sorted.
#[derive(Clone, Debug)]
pub struct MirroredEndpoints<'a> {
    table: &'a [MirroredEndpoint],
    members: std::slice::Iter<'a, u32>,
}

impl<'a> Iterator for MirroredEndpoints<'a> {
    type Item = &'a MirroredEndpoint;

    fn next(&mut self) -> Option<&'a MirroredEndpoint> {
        self.members.next().map(|&at| &self.table[at as usize])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.members.size_hint()
    }
}

impl ExactSizeIterator for MirroredEndpoints<'_> {}

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
    /// The addresses that its slices leave out.
    pub left_out: LeftOut,
    /// The endpoints of all slices, sorted, each once.
    table: Box<[MirroredEndpoint]>,
}

impl MirroredObject {
    /// Lays out the slices of an Endpoints object at once, as [`Layout`] does in steps. `None` if they would be too large.
    pub fn new(namespace: &str, facts: &EndpointsFacts, limit: usize) -> Option<Self> {
        let mut layout = Layout::new(namespace.into(), Box::new(facts.clone()), limit);
        let mut budget = TurnBudget::unlimited();
        loop {
            match layout.step(&mut budget, &mut Work::default()) {
                Laid::Partly => {}
                Laid::Out(object) => return Some(*object),
                Laid::TooLarge(_) => return None,
            }
        }
    }

    /// Returns the endpoints of one of its groups.
    pub fn endpoints_of<'a>(&'a self, group: &'a MirroredGroup) -> MirroredEndpoints<'a> {
        MirroredEndpoints {
            table: &self.table,
            members: group.members.iter(),
        }
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
        self.groups.iter().map(MirroredGroup::size).sum()
    }
}

/// Returns the fingerprint of a slice that was read, if it could be one of a [`MirroredGroup`].
pub fn observed_fingerprint(namespace: &str, slice: &SliceFacts) -> Option<u64> {
    let endpoints = slice
        .endpoints
        .iter()
        .map(|endpoint| observed_endpoint(namespace, endpoint));
    let hashes = endpoints.map(|endpoint| Some(hash_of(&endpoint?)));
    let content = content_hash(hashes.collect::<Option<Vec<_>>>()?);
    let labels = own_labels(&slice.labels);
    let metadata = metadata_hash(&labels, &slice.extras.annotations);
    Some(fingerprint(metadata, &slice.ports, content))
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
        && !(facts.has_foreign_fields && plain_target);
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
pub fn reference(
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

/// Returns the hash of endpoints whose hashes are these. Their order does not count.
fn content_hash(mut hashes: Vec<u64>) -> u64 {
    hashes.sort_unstable();
    let mut hasher = LongHasher::default();
    hashes.hash(&mut hasher);
    hasher.finish()
}

/// Returns the fingerprint of a slice. If two slices had the same one, the change from one to the other would never be
/// written.
fn fingerprint(metadata: u64, ports: &SlicePorts, content: u64) -> u64 {
    hash_of(&(metadata, ports, content))
}

#[cfg(test)]
mod tests;
