//! `EndpointSlice` objects that mirror Endpoints: how they are written. They are read as other slices are.

use super::encode::{object, push_bytes, push_message, push_metadata, push_number, push_optional, push_text};
use super::slices::push_port;
use super::text::IpText;
use crate::core::body::SliceBody;
use crate::core::facts::ObjectReference;
use crate::core::mirror::{MirroredEndpoint, MirroredEndpoints};

/// A slice with endpoints of Endpoints.
pub(super) type MirroredSlice<'a> = SliceBody<'a, MirroredEndpoints<'a>>;

/// Encodes a slice.
pub(super) fn encode(slice: MirroredSlice<'_>) -> Vec<u8> {
    let capacity = 1024 + 96 * slice.endpoints.len();
    object("discovery.k8s.io/v1", "EndpointSlice", capacity, |out| {
        push_message(out, 1, |out| push_metadata(out, &slice.metadata));
        for endpoint in slice.endpoints {
            push_message(out, 2, |out| push_endpoint(out, endpoint));
        }
        for port in slice.ports {
            push_message(out, 3, |out| push_port(out, port));
        }
        push_text(out, 4, slice.address_type);
    })
}

fn push_endpoint(out: &mut Vec<u8>, endpoint: &MirroredEndpoint) {
    push_bytes(out, 1, IpText::new(endpoint.ip).as_bytes());
    push_message(out, 2, |out| push_number(out, 1, endpoint.ready.into()));
    push_optional(out, 3, endpoint.hostname.as_deref());
    if let Some(target) = endpoint.target.as_deref() {
        push_message(out, 4, |out| push_reference(out, target));
    }
    push_optional(out, 6, endpoint.node.as_deref());
}

fn push_reference(out: &mut Vec<u8>, target: &ObjectReference) {
    let fields = [
        (1, &target.kind),
        (2, &target.namespace),
        (3, &target.name),
        (4, &target.uid),
        (5, &target.api_version),
        (6, &target.resource_version),
        (7, &target.field_path),
    ];
    for (field, text) in fields {
        push_optional(out, field, Some(&**text).filter(|text| !text.is_empty()));
    }
}
