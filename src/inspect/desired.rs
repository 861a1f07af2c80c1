//! Desired objects in the form in which stored ones are known, so that the two can be compared.

use crate::core::address::Family;
use crate::core::body::{AddressBody, Encode, EndpointBody, EndpointsBody, Metadata, SliceBody, Subject};
use crate::core::facts::{
    AddressFacts, EndpointFacts, EndpointsFacts, EndpointsMeta, Extras, Manager, Owners, SliceFacts,
    SliceMeta, SubsetFacts,
};
use crate::core::ids::Uid;
use crate::core::mirror::{MirroredEndpoint, MirroredEndpoints};
use crate::core::object::{ObjectName, Verb};
use crate::core::subsets::TRUNCATED;
use std::sync::Arc;

/// A write that is due.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    /// The Service that the object is published for, or was.
    pub service: Arc<str>,
    /// The object.
    pub object: ObjectName,
    /// The write.
    pub verb: Verb,
    /// The object as it should be; none if it is to be deleted.
    pub desired: Option<Desired>,
}

/// A desired object.
#[derive(Clone, Debug)]
pub(crate) enum Desired {
    /// A slice.
    Slice(SliceFacts),
    /// An Endpoints object.
    Endpoints(EndpointsFacts),
}

/// Turns objects to be written into [`Desired`] ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values;

impl Encode for Values {
    type Body = Desired;

    fn slice<'a>(&mut self, slice: SliceBody<'a, impl Iterator<Item = EndpointBody<'a>>>) -> Desired {
        slice_of(slice, endpoint)
    }

    fn size(_body: &Desired) -> usize {
        0
    }

    fn mirrored(&mut self, slice: SliceBody<'_, MirroredEndpoints<'_>>) -> Desired {
        slice_of(slice, mirrored)
    }

    fn endpoints(&mut self, endpoints: EndpointsBody<'_>) -> Desired {
        let metadata = endpoints.metadata;
        let addresses = |list: &[AddressBody<'_>]| list.iter().copied().map(address).collect();
        let subsets = endpoints.subsets.iter().map(|subset| SubsetFacts {
            ports: subset.ports.clone(),
            ready: addresses(&subset.ready),
            not_ready: addresses(&subset.not_ready),
        });
        Desired::Endpoints(EndpointsFacts {
            meta: EndpointsMeta {
                name: metadata.name.into(),
                uid: uid(&metadata),
                version: version(&metadata),
                ours: true,
                leader: false,
                skip_mirror: false,
                deleting: false,
            },
            labels: metadata.labels().collect(),
            extras: Extras::default(),
            over_capacity: metadata.truncated.then(|| TRUNCATED.into()),
            subsets: subsets.collect(),
        })
    }
}

fn slice_of<I: Iterator>(slice: SliceBody<'_, I>, endpoint: impl Fn(I::Item) -> EndpointFacts) -> Desired {
    let metadata = slice.metadata;
    let (service, owner, manager) = match metadata.subject {
        Subject::SliceOf(service) | Subject::EndpointsOf(service) => {
            (&service.name, &service.uid, service.manager())
        }
        Subject::Mirrors(object) => (&object.name, &object.uid, Manager::Mirroring),
    };
    let annotations = metadata
        .annotations()
        .map(|(key, value)| (key.into(), value.into()));
    Desired::Slice(SliceFacts {
        meta: SliceMeta {
            name: metadata.name.into(),
            uid: uid(&metadata),
            version: version(&metadata),
            service: service.clone(),
            manager,
            owner: Owners::from(owner.clone()),
            deleting: false,
        },
        created: None,
        labels: metadata.labels().collect(),
        extras: Extras {
            annotations: annotations.collect(),
            ..Extras::default()
        },
        family: Family::parse(slice.address_type),
        ports: slice.ports.iter().cloned().collect(),
        endpoints: slice.endpoints.map(endpoint).collect(),
    })
}

fn uid(metadata: &Metadata<'_>) -> Uid {
    metadata
        .remote
        .map_or_else(Uid::none, |remote| remote.uid.clone())
}

/// Returns the version that the write is computed against; an object that is to be created has none.
fn version(metadata: &Metadata<'_>) -> u64 {
    metadata.remote.map_or(0, |remote| remote.version)
}

fn endpoint(body: EndpointBody<'_>) -> EndpointFacts {
    EndpointFacts {
        addresses: vec![body.ip.to_string().into()],
        ready: Some(body.conditions.ready()),
        serving: Some(body.conditions.serving()),
        terminating: Some(body.conditions.terminating()),
        hostname: body.hostname.map(Into::into),
        node: body.node.map(Into::into),
        zone: body.zone.map(Into::into),
        pod: Some(body.target.name.into()),
        pod_uid: Some(body.target.uid.clone()),
        target: None,
        has_foreign_fields: false,
        zone_hints: body.hints.zone.into_iter().map(Into::into).collect(),
        node_hints: body.hints.node.into_iter().map(Into::into).collect(),
    }
}

fn mirrored(endpoint: &MirroredEndpoint) -> EndpointFacts {
    EndpointFacts {
        addresses: vec![endpoint.ip.to_string().into()],
        ready: Some(endpoint.ready),
        hostname: endpoint.hostname.clone(),
        node: endpoint.node.clone(),
        target: endpoint.target.clone(),
        ..EndpointFacts::default()
    }
}

fn address(body: AddressBody<'_>) -> AddressFacts {
    AddressFacts {
        ip: body.ip.to_string().into(),
        hostname: body.hostname.map(Into::into),
        node: body.node.map(Into::into),
        pod: Some((body.target.name.into(), body.target.uid.clone())),
        target: None,
    }
}
