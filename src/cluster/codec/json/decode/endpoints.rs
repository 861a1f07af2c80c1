//! Decodes Endpoints objects into facts.

use super::{
    Decode, DecodeError, Namespaced, canonical, extras, labels, plain_pod, required, set, slice_port, version,
};
use crate::cluster::codec::json::wire;
use crate::core::facts::{
    ANNOTATION_LEADER, ANNOTATION_TRIGGER_TIME, AddressFacts, ENDPOINTS_MANAGED_BY, EndpointsFacts,
    EndpointsMeta, LABEL_ENDPOINTS_MANAGED_BY, SubsetFacts,
};
use crate::core::ids::Uid;
use crate::core::ports::SlicePort;
use crate::core::subsets::ANNOTATION_OVER_CAPACITY;
use std::sync::Arc;

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
    type Wire<'a> = wire::Endpoints<'a>;

    fn decode(mut endpoints: wire::Endpoints<'_>) -> Result<Self, DecodeError> {
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

    fn version_of<'w>(wire: &'w wire::Endpoints<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}

fn subset(wire: &wire::Subset<'_>, namespace: &str) -> SubsetFacts {
    let addresses = |list: &Option<Vec<wire::Address<'_>>>| {
        list.iter()
            .flatten()
            .map(|wire| address(wire, namespace))
            .collect()
    };
    let ports = wire.ports.iter().flatten().map(slice_port);
    SubsetFacts {
        // Endpoints omit an empty port name where slices spell it out.
        ports: ports
            .map(|port| SlicePort {
                name: port.name.or_else(|| Some("".into())),
                ..port
            })
            .collect(),
        ready: addresses(&wire.addresses),
        not_ready: addresses(&wire.not_ready_addresses),
    }
}

fn address(wire: &wire::Address<'_>, namespace: &str) -> AddressFacts {
    let pod = plain_pod(wire.target_ref.as_ref(), namespace);
    AddressFacts {
        ip: canonical(&wire.ip),
        hostname: set(wire.hostname.as_ref()).map(Into::into),
        node: set(wire.node_name.as_ref()).map(Into::into),
        pod: pod.map(|target| ((*target.name).into(), Uid::from(&*target.uid))),
    }
}
