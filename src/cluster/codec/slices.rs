//! `EndpointSlice` objects: the fields that are read, how they become facts, and how desired slices are written.

use super::decode::{
    Decode, DecodeError, Namespaced, canonical, extras, other_target, plain_pod, required, slice_port,
    version,
};
use super::encode::{
    Messages, length, object, push_message, push_metadata, push_number, push_optional, push_text, size_of,
    target_head, text_of_target,
};
use super::fields::{self, Meta, SlicePort, Str, StrMap, TargetRef, Timestamp};
use super::message::message;
use crate::core::address::Family;
use crate::core::body::{EndpointBody, SliceBody};
use crate::core::facts::{
    ANNOTATION_TRIGGER_TIME, EndpointFacts, LABEL_ENDPOINT_SELECTOR, LABEL_MANAGED_BY, LABEL_SERVICE_NAME,
    Manager, SliceFacts, SliceMeta,
};
use crate::core::ids::Uid;
use crate::core::ports;
use crate::core::slices::Conditions;
use std::sync::Arc;

/// An `EndpointSlice`.
#[derive(Debug, Default)]
pub struct Slice<'a> {
    metadata: Meta<'a>,
    address_type: Str<'a>,
    ports: Vec<SlicePort<'a>>,
    endpoints: Vec<Endpoint<'a>>,
}

message!('a, Slice<'a> { 1 => metadata, 2 => endpoints, 3 => ports, 4 => address_type });

#[derive(Debug, Default)]
struct Endpoint<'a> {
    addresses: Vec<Str<'a>>,
    conditions: Option<EndpointConditions>,
    hostname: Option<Str<'a>>,
    node_name: Option<Str<'a>>,
    zone: Option<Str<'a>>,
    target_ref: Option<TargetRef<'a>>,
    hints: Option<Hints<'a>>,
    deprecated_topology: StrMap<'a>,
}

message!('a, Endpoint<'a> {
    1 => addresses, 2 => conditions, 3 => hostname, 4 => target_ref, 5 => deprecated_topology, 6 => node_name,
    7 => zone, 8 => hints,
});

#[derive(Debug, Default)]
struct EndpointConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

message!('a, EndpointConditions { 1 => ready, 2 => serving, 3 => terminating });

#[derive(Debug, Default)]
struct Hints<'a> {
    for_zones: Vec<Hint<'a>>,
    for_nodes: Vec<Hint<'a>>,
}

message!('a, Hints<'a> { 1 => for_zones, 2 => for_nodes });

#[derive(Debug, Default)]
struct Hint<'a> {
    name: Str<'a>,
}

message!('a, Hint<'a> { 1 => name });

impl Decode for Namespaced<SliceMeta> {
    type Wire<'a> = fields::MetaOnly<'a>;

    fn decode(wire: fields::MetaOnly<'_>) -> Result<Self, DecodeError> {
        slice_meta(&wire.metadata)
    }

    fn version_of<'w>(wire: &'w fields::MetaOnly<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn slice_meta(meta: &fields::Meta<'_>) -> Result<Namespaced<SliceMeta>, DecodeError> {
    let facts = SliceMeta {
        name: required(&meta.name, "metadata.name")?,
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version)?,
        service: service(meta),
        manager: manager(meta),
        owner: subjects(meta).map(|owner| Uid::from(&*owner.uid)).collect(),
        deleting: meta.deletion_timestamp.is_some(),
    };
    Ok(Namespaced {
        namespace: Arc::from(required(&meta.namespace, "metadata.namespace")?),
        facts,
    })
}

/// Returns the name of the Service that a slice is published for; empty if it is for none. Slices of an
/// `EndpointSelector` belong to none, whatever else their labels say: they have the managed-by label of the Service
/// controller's slices, and no Service to be compared with.
fn service(meta: &fields::Meta<'_>) -> Arc<str> {
    let name = meta
        .labels
        .get(LABEL_SERVICE_NAME)
        .filter(|_| !is_of_selector(meta));
    name.map_or_else(|| Arc::from(""), Arc::from)
}

/// Returns whether a slice is made for an `EndpointSelector`. The label alone does not say so: a Service's labels are
/// copied to its slices, so a slice that a Service owns and no `EndpointSelector` controls is the Service's.
fn is_of_selector(meta: &fields::Meta<'_>) -> bool {
    let mut owners = meta.owner_references.iter();
    let controlled = owners.any(|owner| &*owner.kind == "EndpointSelector" && owner.controller == Some(true));
    controlled || (meta.labels.get(LABEL_ENDPOINT_SELECTOR).is_some() && subjects(meta).next().is_none())
}

/// Returns the controller that a slice's label names. Slices that are listed and watched name one of these; others
/// count as the first, and code that reads slices whole tells them apart.
fn manager(meta: &fields::Meta<'_>) -> Manager {
    let label = meta.labels.get(LABEL_MANAGED_BY);
    label.and_then(|by| Manager::parse(&by)).unwrap_or_default()
}

/// Returns whether a slice mirrors Endpoints.
fn is_mirrored(meta: &fields::Meta<'_>) -> bool {
    manager(meta) == Manager::Mirroring
}

/// Returns the owner references to what a slice is published for: Services, or Endpoints if it mirrors some.
fn subjects<'m, 'a>(meta: &'m fields::Meta<'a>) -> impl Iterator<Item = &'m fields::Owner<'a>> {
    let kind = if is_mirrored(meta) { "Endpoints" } else { "Service" };
    let owners = meta.owner_references.iter();
    owners.filter(move |owner| &*owner.kind == kind && &*owner.api_version == "v1")
}

/// Returns the UID of the owner reference that is rebuilt on each write: the only one to a Service, unless another
/// owner is the controller. All other references are preserved.
fn own_reference(meta: &fields::Meta<'_>) -> Option<String> {
    let mut services = subjects(meta);
    let only = services.next().filter(|_| services.next().is_none())?;
    let others = meta.owner_references.iter();
    let mut others = others.filter(|owner| *owner.uid != *only.uid);
    let controlled = others.any(|owner| owner.controller == Some(true));
    (!controlled).then(|| only.uid.to_string())
}

impl Decode for Namespaced<SliceFacts> {
    type Wire<'a> = Slice<'a>;

    fn decode(mut slice: Slice<'_>) -> Result<Self, DecodeError> {
        let Namespaced {
            namespace,
            facts: meta,
        } = slice_meta(&slice.metadata)?;
        let wire = &mut slice.metadata;
        let owned_by = own_reference(wire);
        // A mirrored slice has no trigger time of its own, so one that is there has been added.
        let not_kept = if is_mirrored(wire) {
            &[][..]
        } else {
            &[ANNOTATION_TRIGGER_TIME]
        };
        let extras = extras(wire, owned_by.as_deref(), not_kept);
        let ports = slice.ports.iter().map(slice_port);
        let facts = SliceFacts {
            created: wire.creation_timestamp.and_then(Timestamp::time),
            extras,
            family: Family::parse(&slice.address_type),
            ports: ports.collect(),
            endpoints: slice.endpoints.iter().map(|e| endpoint(e, &namespace)).collect(),
            labels: wire.labels.labels(),
            meta,
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w Slice<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn endpoint(wire: &Endpoint<'_>, namespace: &str) -> EndpointFacts {
    let conditions = wire.conditions.as_ref();
    let target = wire.target_ref.as_ref();
    let pod = plain_pod(target, namespace);
    let text = |text: &Option<Str<'_>>| text.as_deref().map(Into::into);
    let hints = wire.hints.as_ref();
    EndpointFacts {
        addresses: wire.addresses.iter().map(|text| canonical(text)).collect(),
        ready: conditions.and_then(|c| c.ready),
        serving: conditions.and_then(|c| c.serving),
        terminating: conditions.and_then(|c| c.terminating),
        hostname: text(&wire.hostname),
        node: text(&wire.node_name),
        zone: text(&wire.zone),
        pod: pod.map(|target| (*target.name).into()),
        pod_uid: pod.map(|target| Uid::from(&*target.uid)),
        target: other_target(target, pod.is_some()),
        has_foreign_fields: target.is_some() != pod.is_some() || !wire.deprecated_topology.0.is_empty(),
        zone_hints: hints.map_or_else(Vec::new, |hints| names(&hints.for_zones)),
        node_hints: hints.map_or_else(Vec::new, |hints| names(&hints.for_nodes)),
    }
}

fn names(hints: &[Hint<'_>]) -> Vec<Box<str>> {
    hints.iter().map(|hint| (*hint.name).into()).collect()
}

/// Encodes a slice.
pub(super) fn encode<'a>(slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Vec<u8> {
    let capacity = 1024 + 224 * slice.endpoints.size_hint().0;
    object("discovery.k8s.io/v1", "EndpointSlice", capacity, |out| {
        push_message(out, 1, |out| push_metadata(out, &slice.metadata));
        let target = target_head(slice.metadata.namespace);
        let mut endpoints = Messages::new(out);
        slice
            .endpoints
            .for_each(|endpoint| push_endpoint(&mut endpoints, &target, endpoint));
        drop(endpoints);
        for port in slice.ports {
            push_message(out, 3, |out| push_port(out, port));
        }
        push_text(out, 4, slice.address_type);
    })
}

fn push_endpoint(out: &mut Messages<'_>, target: &[u8], endpoint: EndpointBody<'_>) {
    let hints = endpoint.hints;
    let text = text_of_target(target, endpoint.target)
        + length(endpoint.hostname)
        + length(endpoint.node)
        + length(endpoint.zone)
        + length(hints.zone)
        + length(hints.node);
    out.append(2, text, |space| {
        space.ip(1, endpoint.ip);
        space.fill_array(conditions(endpoint.conditions));
        space.optional(3, endpoint.hostname);
        space.target(4, target, endpoint.target);
        space.optional(6, endpoint.node);
        space.optional(7, endpoint.zone);
        if !hints.is_none() {
            let hint = |name: Option<&str>| name.map_or(0, |name| size_of(size_of(name.len())));
            space.open(8, hint(hints.zone) + hint(hints.node));
            for (field, name) in [(1, hints.zone), (2, hints.node)] {
                if let Some(name) = name {
                    space.open(field, size_of(name.len()));
                    space.text(1, name);
                }
            }
        }
    });
}

/// Returns the field of an endpoint's conditions: a message of six bytes, with the fields 1, 2 and 3.
#[inline]
fn conditions(conditions: Conditions) -> &'static [u8; 8] {
    static FIELDS: [[u8; 8]; 8] = {
        let mut fields = [[2 << 3 | 2, 6, 1 << 3, 0, 2 << 3, 0, 3 << 3, 0]; 8];
        let mut at = 0;
        while at < fields.len() {
            fields[at][3] = at as u8 & 1;
            fields[at][5] = at as u8 >> 1 & 1;
            fields[at][7] = at as u8 >> 2;
            at += 1;
        }
        fields
    };
    let [ready, serving, terminating] =
        [conditions.ready(), conditions.serving(), conditions.terminating()].map(usize::from);
    &FIELDS[ready | serving << 1 | terminating << 2]
}

pub(super) fn push_port(out: &mut Vec<u8>, port: &ports::SlicePort) {
    push_optional(out, 1, port.name.as_deref());
    push_text(out, 2, port.protocol.as_str());
    if let Some(number) = port.number {
        push_number(out, 3, number.into());
    }
    push_optional(out, 4, port.app_protocol.as_deref());
}
