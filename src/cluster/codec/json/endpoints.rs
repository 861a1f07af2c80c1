//! Endpoints objects: the fields that are read, as serde types; how they become facts; and how desired objects are
//! written.

use super::decode::{
    Decode, DecodeError, Namespaced, canonical, extras, labels, plain_pod, required, set, slice_port, version,
};
use super::encode::{push_all, push_field, push_ip, push_metadata, push_port, push_target, target_head};
use super::wire::{self, Meta, SlicePort, Str, TargetRef};
use crate::core::body::{AddressBody, EndpointsBody};
use crate::core::facts::{
    ANNOTATION_LEADER, ANNOTATION_TRIGGER_TIME, AddressFacts, ENDPOINTS_MANAGED_BY, EndpointsFacts,
    EndpointsMeta, LABEL_ENDPOINTS_MANAGED_BY, SubsetFacts,
};
use crate::core::ids::Uid;
use crate::core::ports;
use crate::core::subsets::{ANNOTATION_OVER_CAPACITY, Address as Handle};
use serde::Deserialize;
use std::sync::Arc;

/// An Endpoints object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Endpoints<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    subsets: Option<Vec<Subset<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Subset<'a> {
    #[serde(borrow)]
    addresses: Option<Vec<Address<'a>>>,
    not_ready_addresses: Option<Vec<Address<'a>>>,
    ports: Option<Vec<SlicePort<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Address<'a> {
    #[serde(borrow)]
    ip: Str<'a>,
    hostname: Option<Str<'a>>,
    node_name: Option<Str<'a>>,
    target_ref: Option<TargetRef<'a>>,
}

impl Decode for Namespaced<EndpointsMeta> {
    type Wire<'a> = wire::MetaOnly<'a>;

    fn decode(wire: wire::MetaOnly<'_>) -> Result<Self, DecodeError> {
        meta(&wire.metadata)
    }

    fn version_of<'w>(wire: &'w wire::MetaOnly<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn meta(meta: &wire::Meta<'_>) -> Result<Namespaced<EndpointsMeta>, DecodeError> {
    let facts = EndpointsMeta {
        name: Arc::from(required(&meta.name, "metadata.name")?),
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version)?,
        ours: meta
            .labels
            .get(LABEL_ENDPOINTS_MANAGED_BY)
            .is_some_and(|by| &**by == ENDPOINTS_MANAGED_BY),
        leader: meta.annotations.get(ANNOTATION_LEADER).is_some(),
    };
    Ok(Namespaced {
        namespace: Arc::from(required(&meta.namespace, "metadata.namespace")?),
        facts,
    })
}

impl Decode for Namespaced<EndpointsFacts> {
    type Wire<'a> = Endpoints<'a>;

    fn decode(mut endpoints: Endpoints<'_>) -> Result<Self, DecodeError> {
        let Namespaced {
            namespace,
            facts: meta,
        } = meta(&endpoints.metadata)?;
        let over_capacity = endpoints.metadata.annotations.get(ANNOTATION_OVER_CAPACITY);
        let facts = EndpointsFacts {
            extras: extras(
                &endpoints.metadata,
                None,
                &[ANNOTATION_TRIGGER_TIME, ANNOTATION_OVER_CAPACITY],
            ),
            over_capacity: over_capacity.map(|value| (**value).into()),
            subsets: endpoints
                .subsets
                .iter()
                .flatten()
                .map(|wire| subset(wire, &namespace))
                .collect(),
            labels: labels(&mut endpoints.metadata.labels),
            meta,
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w Endpoints<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn subset(wire: &Subset<'_>, namespace: &str) -> SubsetFacts {
    let addresses = |list: &Option<Vec<Address<'_>>>| {
        list.iter()
            .flatten()
            .map(|wire| address(wire, namespace))
            .collect()
    };
    let ports = wire.ports.iter().flatten().map(slice_port);
    SubsetFacts {
        // Endpoints omit an empty port name where slices spell it out.
        ports: ports
            .map(|port| ports::SlicePort {
                name: port.name.or_else(|| Some("".into())),
                ..port
            })
            .collect(),
        ready: addresses(&wire.addresses),
        not_ready: addresses(&wire.not_ready_addresses),
    }
}

fn address(wire: &Address<'_>, namespace: &str) -> AddressFacts {
    let pod = plain_pod(wire.target_ref.as_ref(), namespace);
    AddressFacts {
        ip: canonical(&wire.ip),
        hostname: set(wire.hostname.as_ref()).map(Into::into),
        node: set(wire.node_name.as_ref()).map(Into::into),
        pod: pod.map(|target| ((*target.name).into(), Uid::from(&*target.uid))),
    }
}

/// Encodes an Endpoints object.
pub(super) fn encode<'a, A: Handle>(
    endpoints: &EndpointsBody<'a, A, impl Fn(A) -> AddressBody<'a>>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 + 256 * endpoints.addresses());
    out.extend_from_slice(br#"{"apiVersion":"v1","kind":"Endpoints","metadata":"#);
    push_metadata(&mut out, &endpoints.metadata);
    out.extend_from_slice(br#","subsets":"#);
    let target = target_head(endpoints.metadata.namespace);
    push_all(&mut out, &endpoints.published.subsets, |out, subset| {
        // A subset has addresses, and ports unless its Service has none. Empty lists are left out.
        let mut open = b'{';
        let lists = [
            (&br#""addresses":"#[..], &subset.ready),
            (br#""notReadyAddresses":"#, &subset.not_ready),
        ];
        for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            out.push(std::mem::replace(&mut open, b','));
            out.extend_from_slice(key);
            push_all(out, list, |out, &handle| {
                push_address(out, &target, (endpoints.address)(handle));
            });
        }
        if !subset.ports.is_empty() {
            out.push(open);
            out.extend_from_slice(br#""ports":"#);
            push_all(out, &subset.ports, push_port);
        }
        out.push(b'}');
    });
    out.push(b'}');
    out
}

pub(super) fn push_address(out: &mut Vec<u8>, target: &[u8], address: AddressBody<'_>) {
    out.extend_from_slice(br#"{"ip":"#);
    push_ip(out, address.ip);
    push_field(out, br#","hostname":"#, address.hostname);
    push_field(out, br#","nodeName":"#, address.node);
    push_target(out, target, address.target);
    out.push(b'}');
}
