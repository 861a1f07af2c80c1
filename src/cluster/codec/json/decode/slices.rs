//! Decodes `EndpointSlice` objects into facts.

use super::{
    Decode, DecodeError, Namespaced, canonical, extras, labels, plain_pod, required, slice_port, version,
};
use crate::cluster::codec::json::wire::{self, Str};
use crate::core::address::Family;
use crate::core::facts::{ANNOTATION_TRIGGER_TIME, EndpointFacts, LABEL_SERVICE_NAME, SliceFacts, SliceMeta};
use crate::core::ids::Uid;
use crate::core::time::Time;
use std::sync::Arc;

impl Decode for Namespaced<SliceMeta> {
    type Wire<'a> = wire::MetaOnly<'a>;

    fn decode(wire: wire::MetaOnly<'_>) -> Result<Self, DecodeError> {
        slice_meta(&wire.metadata)
    }

    fn version_of<'w>(wire: &'w wire::MetaOnly<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn slice_meta(meta: &wire::Meta<'_>) -> Result<Namespaced<SliceMeta>, DecodeError> {
    let facts = SliceMeta {
        name: required(&meta.name, "metadata.name")?,
        uid: Uid::from(&*meta.uid),
        version: version(&meta.resource_version)?,
        service: meta
            .labels
            .get(LABEL_SERVICE_NAME)
            .map_or_else(|| Arc::from(""), |name| Arc::from(&**name)),
        owner: services(meta).map(|owner| Uid::from(&*owner.uid)).collect(),
        deleting: meta.deletion_timestamp.is_some(),
    };
    Ok(Namespaced {
        namespace: Arc::from(required(&meta.namespace, "metadata.namespace")?),
        facts,
    })
}

/// Returns the owner references to Services.
fn services<'m, 'a>(meta: &'m wire::Meta<'a>) -> impl Iterator<Item = &'m wire::Owner<'a>> {
    let owners = meta.owner_references.iter().flatten();
    owners.filter(|owner| &*owner.kind == "Service" && &*owner.api_version == "v1")
}

/// Returns the UID of the owner reference that is rebuilt on each write: the only one to a Service, unless another
/// owner is the controller. All other references are preserved.
fn own_reference(meta: &wire::Meta<'_>) -> Option<String> {
    let mut services = services(meta);
    let only = services.next().filter(|_| services.next().is_none())?;
    let others = meta.owner_references.iter().flatten();
    let mut others = others.filter(|owner| *owner.uid != *only.uid);
    let controlled = others.any(|owner| owner.controller == Some(true));
    (!controlled).then(|| only.uid.to_string())
}

impl Decode for Namespaced<SliceFacts> {
    type Wire<'a> = wire::Slice<'a>;

    fn decode(mut slice: wire::Slice<'_>) -> Result<Self, DecodeError> {
        let Namespaced {
            namespace,
            facts: meta,
        } = slice_meta(&slice.metadata)?;
        let wire = &mut slice.metadata;
        let owned_by = own_reference(wire);
        let extras = extras(wire, owned_by.as_deref(), &[ANNOTATION_TRIGGER_TIME]);
        let ports = slice.ports.iter().flatten().map(slice_port);
        let facts = SliceFacts {
            created: wire.creation_timestamp.as_deref().and_then(Time::parse),
            extras,
            family: Family::parse(&slice.address_type),
            ports: ports.collect(),
            endpoints: slice
                .endpoints
                .iter()
                .flatten()
                .map(|e| endpoint(e, &namespace))
                .collect(),
            labels: labels(&mut wire.labels),
            meta,
        };
        Ok(Self { namespace, facts })
    }

    fn version_of<'w>(wire: &'w wire::Slice<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn endpoint(wire: &wire::Endpoint<'_>, namespace: &str) -> EndpointFacts {
    let conditions = wire.conditions.as_ref();
    let target = wire.target_ref.as_ref();
    let pod = plain_pod(target, namespace);
    let text = |text: &Option<Str<'_>>| text.as_deref().map(Into::into);
    let hints = wire.hints.as_ref();
    EndpointFacts {
        addresses: wire
            .addresses
            .iter()
            .flatten()
            .map(|text| canonical(text))
            .collect(),
        ready: conditions.and_then(|c| c.ready),
        serving: conditions.and_then(|c| c.serving),
        terminating: conditions.and_then(|c| c.terminating),
        hostname: text(&wire.hostname),
        node: text(&wire.node_name),
        zone: text(&wire.zone),
        pod: pod.map(|target| (*target.name).into()),
        pod_uid: pod.map(|target| Uid::from(&*target.uid)),
        odd: target.is_some() != pod.is_some() || !wire.deprecated_topology.0.is_empty(),
        zone_hints: names(hints.and_then(|hints| hints.for_zones.as_deref())),
        node_hints: names(hints.and_then(|hints| hints.for_nodes.as_deref())),
    }
}

fn names(hints: Option<&[wire::Hint<'_>]>) -> Vec<Box<str>> {
    hints
        .iter()
        .flat_map(|hints| hints.iter())
        .map(|hint| (*hint.name).into())
        .collect()
}
