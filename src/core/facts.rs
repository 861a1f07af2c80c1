//! What is kept of an object: the fields that the output depends on, and nothing else. Made by the decoder,
//! compared and taken apart by the core.

use super::address::Family;
use super::hints::HintMode;
use super::ids::Uid;
use super::labels::Labels;
use super::ports::{ContainerPort, ServicePort, SlicePorts};
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
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready: bool,
    /// How its endpoints are hinted.
    pub hints: HintMode,
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
    /// The UID of the controlling Service in `ownerReferences`, or none.
    pub owner: Uid,
    /// Whether `metadata.deletionTimestamp` is set: it is as good as gone.
    pub deleting: bool,
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

/// The parts of a slice's metadata that we carry along but do not decide.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extras {
    /// `metadata.generateName`.
    pub generate_name: Option<Box<str>>,
    /// Annotations but for the trigger time.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// Owner references but for the one to the Service.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
}

impl Extras {
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
