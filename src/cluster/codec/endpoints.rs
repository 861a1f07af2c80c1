//! Endpoints objects: the fields that are read, how they become facts, and how desired objects are written.

use super::decode::{
    Decode, DecodeError, Namespaced, canonical, extras, other_target, plain_pod, required, set, slice_port,
    version,
};
use super::encode::{
    Messages, length, object, push_message, push_metadata, push_number, push_optional, push_text,
    target_head, text_of_target,
};
use super::fields::{self, Meta, SlicePort, Str, TargetRef};
use super::message::{Field, Malformed, Message, Value, bytes, message, read_into};
use crate::core::body::{AddressBody, EndpointsBody};
use crate::core::facts::{
    ANNOTATION_LEADER, ANNOTATION_TRIGGER_TIME, AddressFacts, ENDPOINTS_MANAGED_BY, EndpointsFacts,
    EndpointsMeta, LABEL_ENDPOINTS_MANAGED_BY, LABEL_SKIP_MIRROR, SubsetFacts,
};
use crate::core::ids::Uid;
use crate::core::ports;
use crate::core::subsets::ANNOTATION_OVER_CAPACITY;
use std::sync::Arc;

/// An Endpoints object.
#[derive(Debug, Default)]
pub struct Endpoints<'a> {
    metadata: Meta<'a>,
    subsets: Vec<Subset<'a>>,
}

message!('a, Endpoints<'a> { 1 => metadata, 2 => subsets });

#[derive(Debug, Default)]
struct Subset<'a> {
    addresses: Vec<Address<'a>>,
    not_ready_addresses: Vec<Address<'a>>,
    ports: Vec<EndpointPort<'a>>,
}

message!('a, Subset<'a> { 1 => addresses, 2 => not_ready_addresses, 3 => ports });

#[derive(Debug, Default)]
struct Address<'a> {
    ip: Str<'a>,
    hostname: Option<Str<'a>>,
    node_name: Option<Str<'a>>,
    /// Boxed, since the API server accepts a hundred thousand addresses without one.
    target_ref: Option<Box<TargetRef<'a>>>,
}

message!('a, Address<'a> { 1 => ip, 2 => target_ref, 3 => hostname, 4 => node_name });

impl Subset<'_> {
    /// Frees the room that its lists have grown by: there may be a hundred thousand addresses, which are about to be copied.
    fn tighten(&mut self) {
        for list in [&mut self.addresses, &mut self.not_ready_addresses] {
            list.shrink_to_fit();
        }
        self.ports.shrink_to_fit();
    }
}

/// A port: the fields of a slice's under other numbers.
#[derive(Debug, Default)]
struct EndpointPort<'a>(SlicePort<'a>);

impl<'a> Message<'a> for EndpointPort<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.0.name.merge(number, value),
            2 => self.0.port.merge(number, value),
            3 => self.0.protocol.merge(number, value),
            4 => self.0.app_protocol.merge(number, value),
            _ => Ok(()),
        }
    }
}

impl<'a> Field<'a> for EndpointPort<'a> {
    fn merge(&mut self, number: u32, value: Value<'a>) -> Result<(), Malformed> {
        read_into(self, bytes(number, value)?)
    }
}

impl Decode for Namespaced<EndpointsMeta> {
    type Wire<'a> = fields::MetaOnly<'a>;

    fn decode(wire: fields::MetaOnly<'_>) -> Result<Self, DecodeError> {
        meta(&wire.metadata)
    }

    fn version_of<'w>(wire: &'w fields::MetaOnly<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn meta(meta: &fields::Meta<'_>) -> Result<Namespaced<EndpointsMeta>, DecodeError> {
    let facts = EndpointsMeta {
        name: Arc::from(required(&meta.name, "metadata.name")?),
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version)?,
        ours: meta.labels.has(LABEL_ENDPOINTS_MANAGED_BY, ENDPOINTS_MANAGED_BY),
        leader: meta.annotations.contains(ANNOTATION_LEADER),
        skip_mirror: meta.labels.has(LABEL_SKIP_MIRROR, "true"),
        deleting: meta.deletion_timestamp.is_some(),
    };
    Ok(Namespaced {
        namespace: Arc::from(required(&meta.namespace, "metadata.namespace")?),
        facts,
    })
}

impl Decode for Namespaced<EndpointsFacts> {
    type Wire<'a> = Endpoints<'a>;

    fn decode(mut endpoints: Endpoints<'_>) -> Result<Self, DecodeError> {
        for subset in &mut endpoints.subsets {
            subset.tighten();
        }
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
            over_capacity: over_capacity.map(Into::into),
            subsets: endpoints
                .subsets
                .iter()
                .map(|wire| subset(wire, &namespace))
                .collect(),
            labels: endpoints.metadata.labels.labels(),
            meta,
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w Endpoints<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn subset(wire: &Subset<'_>, namespace: &str) -> SubsetFacts {
    let addresses = |list: &[Address<'_>]| list.iter().map(|wire| address(wire, namespace)).collect();
    let ports = wire.ports.iter().map(|port| slice_port(&port.0));
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
    let target = wire.target_ref.as_deref();
    let pod = plain_pod(target, namespace);
    AddressFacts {
        ip: canonical(&wire.ip),
        hostname: set(wire.hostname.as_ref()).map(Into::into),
        node: set(wire.node_name.as_ref()).map(Into::into),
        pod: pod.map(|target| ((*target.name).into(), Uid::from(&*target.uid))),
        target: other_target(target, pod.is_some()),
    }
}

/// Encodes an Endpoints object.
pub(super) fn encode(endpoints: &EndpointsBody<'_>) -> Vec<u8> {
    let capacity = 1024 + 160 * endpoints.addresses();
    object("v1", "Endpoints", capacity, |out| {
        push_message(out, 1, |out| push_metadata(out, &endpoints.metadata));
        let target = target_head(endpoints.metadata.namespace);
        for subset in endpoints.subsets {
            push_message(out, 2, |out| {
                let mut addresses = Messages::new(out);
                for (field, list) in [(1, &subset.ready), (2, &subset.not_ready)] {
                    for address in list {
                        push_address(&mut addresses, field, &target, *address);
                    }
                }
                drop(addresses);
                for port in &subset.ports {
                    push_message(out, 3, |out| push_port(out, port));
                }
            });
        }
    })
}

fn push_address(out: &mut Messages<'_>, field: u8, target: &[u8], address: AddressBody<'_>) {
    let text = text_of_target(target, address.target) + length(address.hostname) + length(address.node);
    out.append(field, text, |space| {
        space.ip(1, address.ip);
        space.target(2, target, address.target);
        space.optional(3, address.hostname);
        space.optional(4, address.node);
    });
}

fn push_port(out: &mut Vec<u8>, port: &ports::SlicePort) {
    push_optional(out, 1, port.name.as_deref());
    if let Some(number) = port.number {
        push_number(out, 2, number.into());
    }
    push_text(out, 3, port.protocol.as_str());
    push_optional(out, 4, port.app_protocol.as_deref());
}
