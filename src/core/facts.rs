//! What is kept of an object: the fields that the output depends on, and nothing else. Made by the decoder,
//! compared and taken apart by the core.

pub(crate) mod observed;

use super::address::Family;
use super::excerpt::Excerpt;
use super::golang;
use super::hints::HintMode;
use super::ids::Uid;
use super::labels::Labels;
use super::ports::{ContainerPort, ServicePort, SlicePort, SlicePorts};
use super::selector::Selector;
use super::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The label by which a slice names its Service.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label by which a slice names its controller.
pub const LABEL_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The value of [`LABEL_MANAGED_BY`] that upstream's `EndpointSlice` controller writes, and so do we.
pub const MANAGED_BY: &str = "endpointslice-controller.k8s.io";
/// The label of slices whose Service has no cluster IP.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";
/// The label by which an Endpoints object names its controller.
pub const LABEL_ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The value of [`LABEL_ENDPOINTS_MANAGED_BY`] that upstream's Endpoints controller writes, and so do we.
pub const ENDPOINTS_MANAGED_BY: &str = "endpoint-controller";
/// The annotation of Endpoints objects that old versions of Kubernetes' components elected leaders on.
pub const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// The annotation of Services that older controllers read in place of `publishNotReadyAddresses`.
pub const ANNOTATION_TOLERATE_UNREADY: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";
/// The annotation that carries the trigger time.
pub const ANNOTATION_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The node label that names its zone.
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
    /// The IPv4 one of `status.podIPs`; the API allows one of each family.
    pub v4: Option<Ipv4Addr>,
    /// The IPv6 one of `status.podIPs`.
    pub v6: Option<Ipv6Addr>,
    /// The family of `status.podIP`.
    pub primary: Option<Family>,
    /// Named ports: of the containers, then of restartable init containers.
    pub ports: Vec<ContainerPort>,
    /// `spec.hostname` and `spec.subdomain`, where both are set.
    pub host: Option<Box<HostName>>,
    /// Whether the Ready condition is true.
    pub ready: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Whether the phase is Succeeded or Failed: never published again, and not kept.
    pub terminal: bool,
    /// When the Ready condition last changed.
    pub ready_time: Option<Time>,
}

/// A pod's name in the DNS of a headless Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostName {
    /// `spec.hostname`.
    pub hostname: Box<str>,
    /// `spec.subdomain`: the name of the Service in which the hostname counts.
    pub subdomain: Box<str>,
}

/// A Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceFacts {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`: what its state is keyed by.
    pub uid: Uid,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// Whether `metadata.deletionTimestamp` is set: no slices are created any more.
    pub deleting: bool,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The selector, unless the Service has none or is of type `ExternalName`: then it is left alone.
    pub selector: Option<Selector>,
    /// Whether there is no cluster IP (`None` or empty).
    pub headless: bool,
    /// Whether `spec.clusterIP` is `None`: such a Service may have no ports at all.
    pub no_cluster_ip: bool,
    /// By [`Family::index`]: the families that it has slices in.
    pub families: [bool; 2],
    /// The family of its Endpoints; none if each pod's own first one counts.
    pub endpoints_family: Option<Family>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// The annotation [`ANNOTATION_TOLERATE_UNREADY`].
    pub tolerate_unready: TolerateUnready,
    /// How its endpoints are hinted.
    pub hints: HintMode,
}

/// What the annotation [`ANNOTATION_TOLERATE_UNREADY`] says, where it is honoured at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TolerateUnready {
    /// It is not there.
    #[default]
    Unset,
    /// It stands for `publishNotReadyAddresses`.
    Set(bool),
    /// It is no boolean, and is ignored. Its beginning, fit to be printed: all of it may be 256 KiB.
    Malformed(Box<str>),
}

impl From<&str> for TolerateUnready {
    /// As Go spells booleans.
    fn from(text: &str) -> Self {
        golang::parse_bool(text).map_or_else(
            || Self::Malformed(Excerpt::value(text).to_string().into()),
            Self::Set,
        )
    }
}

impl ServiceFacts {
    /// Whether the Service has slices in a family.
    pub fn has(&self, family: Family) -> bool {
        self.families[family.index()]
    }
}

/// Whether a Service's label is not passed on to slices, since slices give it a meaning of their own.
pub fn is_reserved_label(key: &str) -> bool {
    matches!(key, LABEL_SERVICE_NAME | LABEL_MANAGED_BY | LABEL_HEADLESS)
}

/// A node, as far as endpoints depend on it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeFacts {
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
}

/// What the metadata alone tells of a slice.
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
    /// The Services in `ownerReferences`.
    pub owner: Owners,
    /// Whether `metadata.deletionTimestamp` is set: it is as good as gone.
    pub deleting: bool,
}

/// The Services that own an object, by their UIDs. There is nearly always one, which takes no more room than its UID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owners(OwnerUids);

#[derive(Clone, PartialEq, Eq, Debug)]
enum OwnerUids {
    /// [`Uid::none`] if there is none at all.
    One(Uid),
    Several(Box<[Uid]>),
}

impl Owners {
    /// Whether a Service is among them.
    pub fn includes(&self, service: &Uid) -> bool {
        self.uids().contains(service)
    }

    /// Whether two objects have an owner in common.
    pub fn meet(&self, other: &Self) -> bool {
        self.uids().iter().any(|uid| other.includes(uid))
    }

    /// Whether no Service owns the object.
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
    /// None.
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

/// A whole slice, as read from the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceFacts {
    /// Its metadata.
    pub meta: SliceMeta,
    /// `metadata.creationTimestamp`.
    pub created: Option<Time>,
    /// `metadata.labels`.
    pub labels: Labels,
    /// What others put into the metadata, to be kept.
    pub extras: Extras,
    /// `addressType`, if it is one that we write.
    pub family: Option<Family>,
    /// `ports`.
    pub ports: SlicePorts,
    /// `endpoints`.
    pub endpoints: Vec<EndpointFacts>,
}

impl SliceFacts {
    /// Who manages it, by its label.
    pub fn manager(&self) -> Option<&str> {
        self.labels.get(LABEL_MANAGED_BY)
    }

    /// Whether that is us, or upstream's controller in our place.
    pub fn is_ours(&self) -> bool {
        self.manager() == Some(MANAGED_BY)
    }
}

/// What the metadata alone tells of an Endpoints object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointsMeta {
    /// `metadata.name`: that of the Service, if there is one.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// Whether it bears our label.
    pub ours: bool,
    /// Whether leaders are elected on it.
    pub leader: bool,
}

/// A whole Endpoints object, as read from the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointsFacts {
    /// Its metadata.
    pub meta: EndpointsMeta,
    /// `metadata.labels`.
    pub labels: Labels,
    /// What others put into the metadata, to be kept: annotations but for the trigger time and the one about
    /// capacity, owners, finalizers.
    pub extras: Extras,
    /// The annotation `endpoints.kubernetes.io/over-capacity`.
    pub over_capacity: Option<Box<str>>,
    /// `subsets`.
    pub subsets: Vec<SubsetFacts>,
}

impl EndpointsFacts {
    /// How many addresses it has, counted once for each subset.
    pub fn addresses(&self) -> usize {
        let subsets = self.subsets.iter();
        subsets
            .map(|subset| subset.ready.len() + subset.not_ready.len())
            .sum()
    }
}

/// A subset of an Endpoints object, as read from the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubsetFacts {
    /// `ports`.
    pub ports: Vec<SlicePort>,
    /// `addresses`.
    pub ready: Vec<AddressFacts>,
    /// `notReadyAddresses`.
    pub not_ready: Vec<AddressFacts>,
}

/// An address of an Endpoints object, as read from the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddressFacts {
    /// `ip`, in canonical form.
    pub ip: Box<str>,
    /// `hostname`.
    pub hostname: Option<Box<str>>,
    /// `nodeName`.
    pub node: Option<Box<str>>,
    /// The name and the UID in a `targetRef` that is a plain reference to a pod of the namespace.
    pub pod: Option<(Box<str>, Uid)>,
}

/// The parts of an object's metadata that we carry along but do not decide.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// `metadata.generateName`.
    pub generate_name: Option<Box<str>>,
    /// Annotations but for the trigger time.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Owner references but for the one to the Service; all of them where that one is not as we would write it, or
    /// is not the only one to a Service.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
}

impl Extras {
    /// Whether there is nothing to carry along.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is nothing to carry along but the usual generateName.
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
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's API version.
    pub api_version: Box<str>,
    /// The owner's kind.
    pub kind: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's UID.
    pub uid: Box<str>,
    /// Whether it is the managing controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// An endpoint of a slice, as read from the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointFacts {
    /// `addresses`, in canonical form where they are IPs.
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
    /// The name in a `targetRef` that is a plain reference to a pod of the namespace.
    pub pod: Option<Box<str>>,
    /// The UID in that reference.
    pub pod_uid: Option<Uid>,
    /// Whether there is anything that we never write: another target, `deprecatedTopology`.
    pub odd: bool,
    /// `hints.forZones`, by name.
    pub zone_hints: Vec<Box<str>>,
    /// `hints.forNodes`, by name.
    pub node_hints: Vec<Box<str>>,
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
        assert!(one.meet(&two) && !one.is_none() && Owners::from_iter([]).is_none());
    }
}
