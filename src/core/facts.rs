//! The parts of an object that are kept: the fields that the output depends on, and nothing else. The decoder creates
//! them, and the core compares and takes them apart.

pub(crate) mod observed;
mod publisher;

pub use publisher::{AnnotatedSelector, Manager, UnknownAnnotations};

use super::address::Family;
use super::excerpt::Excerpt;
use super::golang;
use super::hints::HintMode;
use super::ids::Uid;
use super::labels::Labels;
use super::ports::{ContainerPort, ServicePort, SlicePort, SlicePorts};
use super::selector::Selector;
use super::time::Time;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The label that names a slice's Service.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names a slice's controller.
pub const LABEL_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`] that upstream's `EndpointSlice` controller writes, and this one too.
pub const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// The value of [`LABEL_MANAGED_BY`] on slices that mirror the Endpoints of a Service without a selector.
pub const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";
/// The value of [`LABEL_MANAGED_BY`] on slices of Services whose annotations say what is published.
pub const CUSTOM_MANAGED_BY: &str = "endpointd.io";
/// The label that names the `EndpointSelector` that a slice is made for (KEP-6116, which is not merged).
pub const LABEL_ENDPOINT_SELECTOR: &str = "kubernetes.io/endpoint-selector-name";
/// The annotation with the selector of a Service that has none in its spec.
pub const ANNOTATION_SELECTOR: &str = "endpointd.io/selector";
/// The annotation that named a Lease whose holder alone was published, in earlier versions. It counts for nothing, and users
/// are told so.
pub const ANNOTATION_NOT_SERVED: &str = "endpointd.io/leader";
/// The prefix of the annotations of Services that this project defines.
pub const ANNOTATION_PREFIX: &str = "endpointd.io/";
/// The label of Endpoints that are not to be mirrored. Only the value `true` counts.
pub const LABEL_SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation in which `kubectl apply` keeps what it applied last. It is not mirrored.
pub const ANNOTATION_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The label of slices whose Service has no cluster IP.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";
/// The label that names an Endpoints object's controller.
pub const LABEL_ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The value of [`LABEL_ENDPOINTS_MANAGED_BY`] that upstream's Endpoints controller writes, and this one too.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoint-controller";
/// The annotation that old Kubernetes components used for leader election on Endpoints objects.
pub const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// The Service annotation that older controllers read instead of `publishNotReadyAddresses`.
pub const ANNOTATION_TOLERATE_UNREADY: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";
/// The annotation that carries the trigger time.
pub const ANNOTATION_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The node label that names the node's zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

/// A pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodFacts {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.nodeName`, once scheduled.
    pub node: Option<Arc<str>>,
    /// The IPv4 address in `status.podIPs`; the API allows one of each family.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 address in `status.podIPs`.
    pub v6: Option<Ipv6Addr>,
    /// The family of `status.podIP`.
    pub primary: Option<Family>,
    /// Named ports: first those of the containers, then those of restartable init containers.
    pub ports: Vec<ContainerPort>,
    /// `spec.hostname` and `spec.subdomain`, if the hostname is set.
    pub host: Option<Box<HostName>>,
    /// True if the Ready condition is true.
    pub ready: bool,
    /// True if `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// True if the phase is Succeeded or Failed. Such a pod is never published again, and is not kept.
    pub terminal: bool,
    /// The time of the Ready condition's last transition.
    pub ready_time: Option<Time>,
}

/// Bytes of labels or other text that count as one unit of [`Work::total`](super::work::Work::total).
const TEXT: usize = 256;

fn text_units(labels: &Labels) -> u64 {
    (labels.as_str().len() / TEXT) as u64
}

impl PodFacts {
    /// Returns the units of work that it takes to take the pod in, besides those for what depends on it.
    pub fn units(&self) -> u64 {
        text_units(&self.labels) + self.ports.len() as u64 / 4
    }
}

#[cfg(test)]
impl PodFacts {
    /// Returns a ready pod of this name that has nothing else.
    pub(crate) fn bare(name: &str) -> Self {
        Self {
            name: name.into(),
            uid: Uid::from(name),
            labels: Labels::default(),
            node: None,
            v4: None,
            v6: None,
            primary: None,
            ports: Vec::new(),
            host: None,
            ready: true,
            terminating: false,
            terminal: false,
            ready_time: None,
        }
    }
}

/// A pod's hostname, and the headless Service within which it is a DNS name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName {
    /// `spec.hostname`.
    pub hostname: Box<str>,
    /// `spec.subdomain`: the name of the Service within which the hostname applies; empty if it is not set.
    pub subdomain: Box<str>,
}

/// A Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceFacts {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`, the key of the Service's state.
    pub uid: Uid,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// True if `metadata.deletionTimestamp` is set; if so, no more slices are created.
    pub deleting: bool,
    /// True if it is being deleted in the foreground: the garbage collector deletes its slices before it goes.
    pub foreground: bool,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The selector that its endpoints are published by: that of its spec, or that of the annotation once
    /// [`Self::resolve`] has chosen it. `None` leaves the Service unmanaged unless [`Self::custom`] is set.
    pub selector: Option<Selector>,
    /// The annotation [`ANNOTATION_SELECTOR`], if it is set.
    pub annotated: Option<Box<AnnotatedSelector>>,
    /// Annotations that begin with [`ANNOTATION_PREFIX`] and mean nothing, if there are any.
    pub unknown_annotations: Option<Box<UnknownAnnotations>>,
    /// True if the annotations decide what is published, which [`Self::resolve`] finds.
    pub custom: bool,
    /// True if it is of type `ExternalName`, whose selector does not count.
    pub external: bool,
    /// True if it has no selector and is not of type `ExternalName`: its Endpoints are written by others, and mirrored.
    pub selectorless: bool,
    /// True if there is no cluster IP (`None` or empty).
    pub headless: bool,
    /// True if `spec.clusterIP` is `None`; such a Service may have no ports at all.
    pub no_cluster_ip: bool,
    /// The families that the Service has slices in, indexed by [`Family::index`]. None if the object does not say, which
    /// [`Self::resolve`] and [`Self::keep_families`] settle.
    pub families: [bool; 2],
    /// The family of its Endpoints object; `None` if each pod's primary address counts.
    pub endpoints_family: Option<Family>,
    /// `spec.ports`, which Services of one kind share.
    pub ports: Arc<[ServicePort]>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// The annotation [`ANNOTATION_TOLERATE_UNREADY`].
    pub tolerate_unready: TolerateUnready,
    /// The kind of hints that its endpoints get.
    pub hints: HintMode,
}

/// The value of the annotation [`ANNOTATION_TOLERATE_UNREADY`], if it is honoured at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TolerateUnready {
    /// The annotation is not set.
    #[default]
    Unset,
    /// A boolean that stands for `publishNotReadyAddresses`.
    Set(bool),
    /// Not a boolean, and ignored. Holds a printable excerpt, because the whole value may be 256 KiB.
    Malformed(Box<str>),
}

impl From<&str> for TolerateUnready {
    /// Parses the spellings of booleans that Go accepts.
    fn from(text: &str) -> Self {
        golang::parse_bool(text).map_or_else(
            || Self::Malformed(Excerpt::value(text).to_string().into()),
            Self::Set,
        )
    }
}

impl ServiceFacts {
    /// Returns the units of work that it takes to take the Service in, besides those for what depends on it.
    pub fn units(&self) -> u64 {
        let selector: usize = self.selector.iter().map(Selector::text_size).sum();
        let annotated = self.annotated.as_deref().map_or(0, AnnotatedSelector::text_size);
        text_units(&self.labels) + ((selector + annotated) / TEXT) as u64 + self.ports.len() as u64 / 4
    }

    /// Returns whether the Service has slices in a family.
    pub fn has(&self, family: Family) -> bool {
        self.families[family.index()]
    }
}

/// Returns whether a Service's label is not copied to slices, because it has a meaning of its own there.
pub fn is_reserved_label(key: &str) -> bool {
    matches!(key, LABEL_SERVICE_NAME | LABEL_MANAGED_BY | LABEL_HEADLESS)
}

/// The parts of a node that endpoints depend on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeFacts {
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
}

/// The part of a slice that its metadata alone provides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceMeta {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// The label `kubernetes.io/service-name`, or empty.
    pub service: Arc<str>,
    /// The controller that its label names. Slices of any other are not read.
    pub manager: Manager,
    /// The owners in `ownerReferences`: Services, or Endpoints if the slice mirrors some.
    pub owner: Owners,
    /// True if `metadata.deletionTimestamp` is set; if so, the slice is as good as gone.
    pub deleting: bool,
}

/// The UIDs of the objects that own a slice. There is nearly always one, which takes no more room than its UID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owners(OwnerUids);

#[derive(Clone, PartialEq, Eq, Debug)]
enum OwnerUids {
    /// [`Uid::none`] if there is no owner.
    One(Uid),
    Several(Box<[Uid]>),
}

impl Owners {
    /// Returns whether an object is one of the owners.
    pub fn includes(&self, uid: &Uid) -> bool {
        self.uids().contains(uid)
    }

    /// Returns whether an object is the only owner.
    pub fn is_only(&self, uid: &Uid) -> bool {
        matches!(&self.0, OwnerUids::One(only) if only == uid)
    }

    /// Returns whether two objects have an owner in common.
    pub fn meet(&self, other: &Self) -> bool {
        self.uids().iter().any(|uid| other.includes(uid))
    }

    /// Returns whether there is no owner.
    pub fn is_none(&self) -> bool {
        self.uids().iter().all(Uid::is_none)
    }

    fn uids(&self) -> &[Uid] {
        match &self.0 {
            OwnerUids::One(uid) => std::slice::from_ref(uid),
            OwnerUids::Several(uids) => uids,
        }
    }
}

impl Default for Owners {
    /// Creates an empty list of owners.
    fn default() -> Self {
        Self::from(Uid::none())
    }
}

impl From<Uid> for Owners {
    fn from(uid: Uid) -> Self {
        Self(OwnerUids::One(uid))
    }
}

impl FromIterator<Uid> for Owners {
    fn from_iter<I: IntoIterator<Item = Uid>>(uids: I) -> Self {
        let mut uids = uids.into_iter();
        let Some(first) = uids.next() else {
            return Self::default();
        };
        match uids.next() {
            None => Self::from(first),
            Some(second) => Self(OwnerUids::Several(
                [first, second].into_iter().chain(uids).collect(),
            )),
        }
    }
}

/// A complete slice, as read from the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceFacts {
    /// Its metadata.
    pub meta: SliceMeta,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// Metadata that others added to the object, kept on every update.
    pub extras: Extras,
    /// `addressType`, if it is one that the controller writes.
    pub family: Option<Family>,
    /// `ports`.
    pub ports: SlicePorts,
    /// `endpoints`.
    pub endpoints: Vec<EndpointFacts>,
}

impl SliceFacts {
    /// Returns the units of work that it takes to take the slice in.
    pub fn units(&self) -> u64 {
        text_units(&self.labels)
            + self.extras.units()
            + self.ports.len() as u64 / 4
            + self.endpoints.iter().map(EndpointFacts::units).sum::<u64>()
    }

    /// Returns the manager named by its label.
    pub fn manager(&self) -> Option<&str> {
        self.labels.get(LABEL_MANAGED_BY)
    }

    /// Returns whether its manager is this controller, or upstream's in its place.
    pub fn is_ours(&self) -> bool {
        self.manager() == Some(MANAGED_BY)
    }

    /// Returns whether it is published for a Service whose selector is an annotation.
    pub fn is_custom(&self) -> bool {
        self.manager() == Some(CUSTOM_MANAGED_BY)
    }

    /// Returns whether it is published for the pods that a Service selects, in one way or the other.
    pub fn is_written(&self) -> bool {
        self.is_ours() || self.is_custom()
    }

    /// Returns whether the controller that publishes for a Service manages it.
    pub fn is_for(&self, service: &ServiceFacts) -> bool {
        self.manager() == Some(service.manager().as_str())
    }

    /// Returns whether it mirrors Endpoints.
    pub fn is_mirrored(&self) -> bool {
        self.manager() == Some(MIRRORED_BY)
    }
}

/// The part of an Endpoints object that its metadata alone provides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointsMeta {
    /// `metadata.name`, also the name of the Service, if there is one.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// True if it carries our managed-by label.
    pub ours: bool,
    /// True if it is used for leader election.
    pub leader: bool,
    /// True if [`LABEL_SKIP_MIRROR`] says that it is not mirrored.
    pub skip_mirror: bool,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl EndpointsMeta {
    /// Returns whether slices may mirror it.
    pub fn may_be_mirrored(&self) -> bool {
        !self.leader && !self.skip_mirror
    }
}

/// A complete Endpoints object, as read from the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointsFacts {
    /// Its metadata.
    pub meta: EndpointsMeta,
    /// `metadata.labels`.
    pub labels: Labels,
    /// Metadata that others added to the object, kept on every update: owners, finalizers, and annotations other than
    /// the trigger time and the one about capacity.
    pub extras: Extras,
    /// The annotation `endpoints.kubernetes.io/over-capacity`.
    pub over_capacity: Option<Box<str>>,
    /// `subsets`.
    pub subsets: Vec<SubsetFacts>,
}

impl EndpointsFacts {
    /// Creates an object of which only the metadata is known.
    pub(crate) fn only(meta: EndpointsMeta) -> Self {
        Self {
            meta,
            labels: Labels::default(),
            extras: Extras::default(),
            over_capacity: None,
            subsets: Vec::new(),
        }
    }

    /// Returns the units of work that it takes to take the object in, besides those for laying it out.
    pub fn units(&self) -> u64 {
        let ports = self.subsets.iter().map(|subset| subset.ports.len());
        let ports = ports.sum::<usize>() as u64;
        text_units(&self.labels) + self.extras.units() + ports / 4 + self.addresses() as u64 / 4
    }

    /// Returns the number of addresses, counting an address once for each subset.
    pub fn addresses(&self) -> usize {
        let subsets = self.subsets.iter();
        subsets
            .map(|subset| subset.ready.len() + subset.not_ready.len())
            .sum()
    }
}

/// A subset of an Endpoints object, as read from the API server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubsetFacts {
    /// `ports`.
    pub ports: Vec<SlicePort>,
    /// `addresses`.
    pub ready: Vec<AddressFacts>,
    /// `notReadyAddresses`.
    pub not_ready: Vec<AddressFacts>,
}

/// An address of an Endpoints object, as read from the API server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressFacts {
    /// `ip`, in canonical form.
    pub ip: Box<str>,
    /// `hostname`.
    pub hostname: Option<Box<str>>,
    /// `nodeName`.
    pub node: Option<Box<str>>,
    /// The pod's name and UID, if `targetRef` is a plain reference to a pod of the namespace.
    pub pod: Option<(Box<str>, Uid)>,
    /// `targetRef`, if it is anything else, or has a resourceVersion.
    pub target: Option<Box<ObjectReference>>,
}

/// A `targetRef`. A field that is not set is empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ObjectReference {
    /// `kind`.
    pub kind: Box<str>,
    /// `namespace`.
    pub namespace: Box<str>,
    /// `name`.
    pub name: Box<str>,
    /// `uid`.
    pub uid: Box<str>,
    /// `apiVersion`.
    pub api_version: Box<str>,
    /// `resourceVersion`.
    pub resource_version: Box<str>,
    /// `fieldPath`.
    pub field_path: Box<str>,
}

/// The parts of an object's metadata that the controller preserves but does not set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// `metadata.generateName`.
    pub generate_name: Option<Box<str>>,
    /// Annotations other than the trigger time.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Owner references other than the one to the Service. That one is included if it is not as we would write it, or
    /// is not the only one to a Service.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
}

impl Extras {
    fn units(&self) -> u64 {
        let annotations = self
            .annotations
            .iter()
            .map(|(key, value)| key.len() + value.len());
        let text = annotations.sum::<usize>() / TEXT;
        (text + (self.annotations.len() + self.owners.len() + self.finalizers.len()) / 4) as u64
    }

    /// Returns whether there is nothing to preserve.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether there is nothing to preserve except the usual generateName.
    pub fn is_usual(&self, service: &str) -> bool {
        self.annotations.is_empty()
            && self.owners.is_empty()
            && self.finalizers.is_empty()
            && self
                .generate_name
                .as_deref()
                .and_then(|name| name.strip_suffix('-'))
                == Some(service)
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnerReference {
    /// The owner's API version.
    pub api_version: Box<str>,
    /// The owner's kind.
    pub kind: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's UID.
    pub uid: Box<str>,
    /// True if the owner is the managing controller.
    pub controller: Option<bool>,
    /// True if foreground deletion of the owner waits for this object.
    pub block_owner_deletion: Option<bool>,
}

/// An endpoint of a slice, as read from the API server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointFacts {
    /// `addresses`, in canonical form if they are IPs.
    pub addresses: Vec<Box<str>>,
    /// `conditions.ready`.
    pub ready: Option<bool>,
    /// `conditions.serving`.
    pub serving: Option<bool>,
    /// `conditions.terminating`.
    pub terminating: Option<bool>,
    /// `hostname`.
    pub hostname: Option<Box<str>>,
    /// `nodeName`.
    pub node: Option<Box<str>>,
    /// `zone`.
    pub zone: Option<Box<str>>,
    /// The pod's name, if `targetRef` is a plain reference to a pod of the namespace.
    pub pod: Option<Box<str>>,
    /// The UID in that reference.
    pub pod_uid: Option<Uid>,
    /// `targetRef`, if it is anything but a plain reference to a pod of the namespace, or has a resourceVersion.
    pub target: Option<Box<ObjectReference>>,
    /// True if it has anything that a slice with pods of the namespace never has: another kind of target, or
    /// `deprecatedTopology`.
    pub has_foreign_fields: bool,
    /// The zone names in `hints.forZones`.
    pub zone_hints: Vec<Box<str>>,
    /// The node names in `hints.forNodes`.
    pub node_hints: Vec<Box<str>>,
}

impl EndpointFacts {
    /// Returns the units of work that it takes to take the endpoint in. The API allows a hundred addresses of each.
    fn units(&self) -> u64 {
        1 + (self.addresses.len() + self.zone_hints.len() + self.node_hints.len()) as u64 / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_takes_no_more_room_than_its_uid() {
        assert_eq!(size_of::<Owners>(), size_of::<Uid>());
        let uid = |text: &str| Uid::from(text);
        let (one, two) = (Owners::from(uid("a")), Owners::from_iter([uid("b"), uid("a")]));
        assert!(one.includes(&uid("a")) && two.includes(&uid("a")) && two.includes(&uid("b")));
        assert!(!one.includes(&uid("b")) && !Owners::default().includes(&uid("a")));
        assert!(one.is_only(&uid("a")) && !one.is_only(&uid("b")) && !two.is_only(&uid("a")));
        assert!(one.meet(&two) && !one.is_none() && Owners::from_iter([]).is_none());
    }
}
