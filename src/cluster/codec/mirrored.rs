//! `EndpointSlice` objects that mirror Endpoints: how they are written. They are read as other slices are.

use super::slices::push_port;
use super::text::IpText;
use super::{json, protobuf};
use crate::core::body::SliceBody;
use crate::core::facts::ObjectReference;
use crate::core::mirror::{MirroredEndpoint, MirroredEndpoints};

/// A slice with endpoints of Endpoints.
pub(super) type MirroredSlice<'a> = SliceBody<'a, MirroredEndpoints<'a>>;

/// Encodes a slice as JSON.
pub(super) fn encode_json(slice: MirroredSlice<'_>) -> Vec<u8> {
    use json::encode::{push_all, push_field, push_metadata, push_port};
    let mut out = Vec::with_capacity(1024 + 128 * slice.endpoints.len());
    out.extend_from_slice(br#"{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":"#);
    push_metadata(&mut out, &slice.metadata);
    push_field(&mut out, br#","addressType":"#, Some(slice.address_type));
    out.extend_from_slice(br#","endpoints":"#);
    push_all(&mut out, slice.endpoints, push_endpoint_json);
    out.extend_from_slice(br#","ports":"#);
    push_all(&mut out, slice.ports, push_port);
    out.push(b'}');
    out
}

fn push_endpoint_json(out: &mut Vec<u8>, endpoint: &MirroredEndpoint) {
    use json::encode::{push_bool, push_field, push_ip, push_serialized};
    out.extend_from_slice(br#"{"addresses":["#);
    push_ip(out, endpoint.ip);
    out.extend_from_slice(br#"],"conditions":{"ready":"#);
    push_bool(out, endpoint.ready);
    out.push(b'}');
    push_field(out, br#","hostname":"#, endpoint.hostname.as_deref());
    push_field(out, br#","nodeName":"#, endpoint.node.as_deref());
    if let Some(target) = endpoint.target.as_deref() {
        out.extend_from_slice(br#","targetRef":"#);
        push_serialized(out, target);
    }
    out.push(b'}');
}

/// Encodes a slice as protobuf.
pub(super) fn encode_protobuf(slice: MirroredSlice<'_>) -> Vec<u8> {
    use protobuf::encode::{object, push_message, push_metadata, push_text};
    let capacity = 1024 + 96 * slice.endpoints.len();
    object("discovery.k8s.io/v1", "EndpointSlice", capacity, |out| {
        push_message(out, 1, |out| push_metadata(out, &slice.metadata));
        for endpoint in slice.endpoints {
            push_message(out, 2, |out| push_endpoint_protobuf(out, endpoint));
        }
        for port in slice.ports {
            push_message(out, 3, |out| push_port(out, port));
        }
        push_text(out, 4, slice.address_type);
    })
}

fn push_endpoint_protobuf(out: &mut Vec<u8>, endpoint: &MirroredEndpoint) {
    use protobuf::encode::{push_bytes, push_message, push_number, push_optional};
    push_bytes(out, 1, IpText::new(endpoint.ip).as_bytes());
    push_message(out, 2, |out| push_number(out, 1, endpoint.ready.into()));
    push_optional(out, 3, endpoint.hostname.as_deref());
    if let Some(target) = endpoint.target.as_deref() {
        push_message(out, 4, |out| push_reference(out, target));
    }
    push_optional(out, 6, endpoint.node.as_deref());
}

fn push_reference(out: &mut Vec<u8>, target: &ObjectReference) {
    use protobuf::encode::push_optional;
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
